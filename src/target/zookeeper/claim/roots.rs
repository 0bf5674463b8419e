//! The roots of runs on a target, and who holds their leases.

use zk_wire::{ClientError, ErrorCode, Stat};

use super::{LEASE, PREFIX, control::Control};
use crate::target::TargetError;

/// What a run finds beside its own root.
pub(super) enum Others {
    /// Somebody holds the target with a lease that is older than ours.
    First(String),
    /// Nobody does; the roots of runs whose lease is gone.
    Gone(Vec<String>),
}

/// Who holds the target with a lease older than ours, if anyone does. Every run creates its lease before it looks, so
/// of two the later one always sees the earlier.
pub(super) fn earlier(control: &mut Control, root: &str, lease: &str) -> Result<Others, TargetError> {
    let own = control.client.exists(lease).map_err(|error| control.explain(error))?;
    let own = own.ok_or_else(|| TargetError::Other(format!("{lease} vanished as soon as it was created")))?;
    let mut gone = Vec::new();
    for other in roots(control)?.into_iter().filter(|other| other != root) {
        match holder(control, &other)? {
            Some((stat, who)) if stat.czxid < own.czxid => return Ok(Others::First(who)),
            Some(_) => {}
            None => gone.push(other),
        }
    }
    Ok(Others::Gone(gone))
}

/// Full paths of the roots of runs, in order. Only names that a run gives itself: nothing else may ever be removed.
pub(super) fn roots(control: &mut Control) -> Result<Vec<String>, TargetError> {
    let chroot = control.chroot.clone();
    let path = if chroot.is_empty() { "/" } else { &chroot };
    let names = control.client.sync(path).and_then(|()| control.client.children(path));
    let mut roots: Vec<String> = names
        .map_err(|error| control.explain(error))?
        .into_iter()
        .filter(|name| name.strip_prefix(PREFIX).is_some_and(is_short_id))
        .map(|name| format!("{chroot}/{name}"))
        .collect();
    roots.sort_unstable();
    Ok(roots)
}

fn is_short_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The living lease of a root, with its holder in words.
pub(super) fn holder(control: &mut Control, root: &str) -> Result<Option<(Stat, String)>, TargetError> {
    let short = root.rsplit_once(PREFIX).map_or(root, |(_, short)| short);
    match control.client.get(&format!("{root}/{LEASE}")) {
        Ok((text, stat)) => {
            let text = String::from_utf8_lossy(&text);
            let mut lines = text.lines();
            let (host, pid) = (lines.next().unwrap_or("unknown host"), lines.next().unwrap_or("unknown"));
            Ok(Some((stat, format!("run {short} ({host}, pid {pid})"))))
        }
        Err(ClientError::Server(ErrorCode::NoNode)) => Ok(None),
        Err(error) => Err(control.explain(error)),
    }
}
