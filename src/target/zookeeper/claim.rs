//! A run's root and its lease. The lease is an ephemeral znode under the root, kept alive by one control session on
//! a thread of its own: it is the lock on the target, across servers and command lines.

mod control;
mod remove;
mod roots;

use std::{
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::sync::oneshot;
use zk_wire::{ClientError, CreateMode, ErrorCode, SessionId, SubmitError, Waker};

use self::{
    control::Control,
    remove::{Pace, Removed, remove_under},
    roots::{Others, earlier, holder, roots},
};
use super::ZookeeperSpec;
use crate::{
    model::RunId,
    target::{Claim, CleanPace, CleanReport, TargetError},
};

const LEASE: &str = "lease";
const PREFIX: &str = "rampart-";
/// Between two attempts to get a lost connection back.
const RETRY: Duration = Duration::from_millis(500);

/// Claims the target for a run.
pub(super) async fn claim(spec: ZookeeperSpec, run: RunId) -> Result<Box<dyn Claim>, TargetError> {
    let (tell, told) = oneshot::channel();
    let (orders, taken) = channel();
    let name = format!("lease {}", run.short());
    let held = thread::Builder::new().name(name).spawn(move || match take(&spec, run) {
        Ok(Taken { control, root, leftovers, waker }) => {
            // Nobody waits any more: the run was cancelled meanwhile.
            if tell.send(Ok((root.clone(), leftovers, waker))).is_err() {
                let _ = Holder { spec, control, root, session: None, lost: false }.release(CleanPace::default());
                return;
            }
            let session = control.client.session().map(|session| session.id);
            Holder { spec, control, root, session, lost: false }.hold(&taken);
        }
        Err(error) => drop(tell.send(Err(error))),
    });
    held.map_err(|error| TargetError::Other(format!("no thread for the lease: {error}")))?;
    let (root, leftovers, waker) =
        told.await.map_err(|_gone| TargetError::Other("the lease's thread died".to_owned()))??;
    Ok(Box::new(Lease { root, leftovers, orders, waker }))
}

/// Removes what runs that are gone have left.
pub(super) async fn clean(spec: ZookeeperSpec, pace: CleanPace) -> Result<CleanReport, TargetError> {
    let cleaned = tokio::task::spawn_blocking(move || clean_roots(&spec, pace)).await;
    cleaned.map_err(|error| TargetError::Other(format!("cleaning broke off: {error}")))?
}

/// The claim as the run holds it; the work is done on the lease's thread.
#[derive(Debug)]
struct Lease {
    root: String,
    leftovers: Vec<String>,
    orders: Sender<Order>,
    waker: Waker,
}

#[derive(Debug)]
enum Order {
    Release(CleanPace, oneshot::Sender<Result<CleanReport, TargetError>>),
    Abandon,
}

impl Lease {
    fn order(&self, order: Order) {
        // A thread that is gone drops the answer's channel, which says so.
        let _ = self.orders.send(order);
        let _ = self.waker.wake();
    }
}

#[async_trait]
impl Claim for Lease {
    fn root(&self) -> &str {
        &self.root
    }

    fn leftovers(&self) -> &[String] {
        &self.leftovers
    }

    async fn release(self: Box<Self>, pace: CleanPace) -> Result<CleanReport, TargetError> {
        let (tell, told) = oneshot::channel();
        self.order(Order::Release(pace, tell));
        told.await.map_err(|_gone| TargetError::Other(format!("the lease's thread died; {} is left", self.root)))?
    }

    fn abandon(self: Box<Self>) {
        self.order(Order::Abandon);
    }
}

impl Drop for Lease {
    /// A claim dropped without a word is let go: what it created is left to cleaning.
    fn drop(&mut self) {
        self.order(Order::Abandon);
    }
}

/// A target that is claimed.
struct Taken {
    control: Control,
    root: String,
    leftovers: Vec<String>,
    waker: Waker,
}

/// Creates root and lease, and looks whether another run was first.
fn take(spec: &ZookeeperSpec, run: RunId) -> Result<Taken, TargetError> {
    let mut control = Control::connect(spec, None)?;
    control.check_chroot()?;
    let root = format!("{}{}", control.chroot, run.root());
    let lease = format!("{root}/{LEASE}");
    let host = sysinfo::System::host_name().unwrap_or_else(|_unknown| "unknown host".to_owned());
    let text = format!("{host}\n{}\n{run}\n", std::process::id());

    // Together, so that cleaning never sees a root of a living run without its lease.
    let created = control.client.multi_with(|w| {
        w.create(&root, b"", CreateMode::Persistent);
        w.create(&lease, text.as_bytes(), CreateMode::Ephemeral);
    });
    let created = match created.map_err(|error| control.explain(error))? {
        None => Ok(()),
        // A run that is continued under its id finds its root.
        Some((_, ErrorCode::NodeExists)) => {
            control.client.create(&lease, text.as_bytes(), CreateMode::Ephemeral).map(drop)
        }
        Some((_, code)) => Err(ClientError::Server(code)),
    };
    match created {
        Ok(()) => {}
        Err(ClientError::Server(ErrorCode::NodeExists)) => {
            let holder = holder(&mut control, &root)?.map_or_else(|| format!("run {}", run.short()), |(_, who)| who);
            return Err(TargetError::InUse { holder });
        }
        Err(error) => return Err(control.explain(error)),
    }
    match earlier(&mut control, &root, &lease) {
        Ok(Others::Gone(leftovers)) => {
            let waker = control.client.waker().map_err(|error| control.explain(error))?;
            Ok(Taken { control, root, leftovers, waker })
        }
        lost => {
            // Closing takes the lease along; the root goes first, if it is as it was created.
            let _ = control.client.multi_with(|w| {
                w.delete(&lease, -1);
                w.delete(&root, -1);
            });
            let _ = control.client.close();
            match lost? {
                Others::First(holder) => Err(TargetError::InUse { holder }),
                Others::Gone(_) => Err(TargetError::Other("no lease".to_owned())),
            }
        }
    }
}

/// What the lease's thread has.
#[derive(Debug)]
struct Holder {
    spec: ZookeeperSpec,
    control: Control,
    root: String,
    session: Option<SessionId>,
    /// The session has expired, and the lease with it.
    lost: bool,
}

impl Holder {
    /// Keeps the lease until told otherwise.
    fn hold(mut self, orders: &Receiver<Order>) {
        let mut broken = false;
        loop {
            match orders.try_recv() {
                Ok(Order::Release(pace, tell)) => {
                    let _ = tell.send(self.release(pace));
                    return;
                }
                Ok(Order::Abandon) | Err(TryRecvError::Disconnected) => {
                    // Without a session left, the lease is gone or goes by itself.
                    let _ = self.control.client.close();
                    return;
                }
                Err(TryRecvError::Empty) => {}
            }
            if self.lost {
                thread::sleep(RETRY);
            } else if broken {
                broken = !self.reconnect();
            } else {
                // Ended by the waker; the bound is for a wake-up that came in between. A connection that broke because
                // the run let go and the target was stopped is not taken up again: orders come first.
                broken = self.control.client.pass(Duration::from_secs(1)).is_err();
            }
        }
    }

    /// Takes up the lease's session again after the connection was lost; one attempt. True: there is nothing more to try.
    fn reconnect(&mut self) -> bool {
        match Control::connect(&self.spec, self.session) {
            // A waker belongs to one hub: from here on orders are seen at the end of a pass.
            Ok(control) => {
                self.control = control;
                true
            }
            Err(TargetError::Other(text)) => {
                tracing::error!(root = %self.root, "the lease of {} is lost: {text}", self.root);
                self.lost = true;
                true
            }
            Err(error) => {
                tracing::warn!(root = %self.root, "the lease's connection is lost: {error}");
                thread::sleep(RETRY);
                false
            }
        }
    }

    /// Removes everything under the root, then lease and root together.
    fn release(mut self, pace: CleanPace) -> Result<CleanReport, TargetError> {
        let deadline = Instant::now() + pace.limit;
        let removed = remove_root(&self.spec, &mut self.control, &self.root, self.session, pace, deadline);
        // The lease goes at once in any case, so that cleaning need not wait for what is left.
        let _ = self.control.client.close();
        let removed = removed?;
        if !removed.complete {
            return Err(TargetError::Other(format!(
                "{} is not removed: {} znodes went within {} s",
                self.root,
                removed.znodes,
                pace.limit.as_secs()
            )));
        }
        Ok(CleanReport { removed_roots: vec![self.root], removed_znodes: removed.znodes, skipped: Vec::new() })
    }
}

/// Removes a root with all that is under it, its lease last. A lost connection is taken up again until the deadline.
fn remove_root(
    spec: &ZookeeperSpec,
    control: &mut Control,
    root: &str,
    session: Option<SessionId>,
    pace: CleanPace,
    deadline: Instant,
) -> Result<Removed, TargetError> {
    let mut removed = Removed::default();
    let mut budget = Pace::new(pace.deletes_per_s);
    loop {
        let under = remove_under(&mut control.client, root, Some(LEASE), &mut budget, deadline, &mut removed);
        let done = match under {
            Ok(()) if !removed.complete => return Ok(removed),
            Ok(()) => finish(control, root, &mut removed),
            Err(error) => Err(error),
        };
        removed.complete = false;
        match done {
            Ok(true) => {
                removed.complete = true;
                return Ok(removed);
            }
            // Something has come again.
            Ok(false) => {}
            Err(
                ClientError::Disconnected(_) | ClientError::Refused(SubmitError::NotConnected) | ClientError::TimedOut,
            ) if Instant::now() < deadline => {
                thread::sleep(RETRY);
                // The session may be gone by now; its lease then is too, and a new one does as well.
                let again = Control::connect(spec, session).or_else(|_| Control::connect(spec, None));
                if let Ok(again) = again {
                    *control = again;
                }
            }
            Err(error) => return Err(control.explain(error)),
        }
        if Instant::now() >= deadline {
            return Ok(removed);
        }
    }
}

/// Deletes lease and root; false when the root is not empty.
fn finish(control: &mut Control, root: &str, removed: &mut Removed) -> Result<bool, ClientError> {
    let lease = format!("{root}/{LEASE}");
    let held = control.client.exists(&lease)?.is_some();
    let failed = control.client.multi_with(|w| {
        if held {
            w.delete(&lease, -1);
        }
        w.delete(root, -1);
    })?;
    match failed {
        None => {
            removed.znodes += 1 + u64::from(held);
            Ok(true)
        }
        Some((_, ErrorCode::NotEmpty)) => Ok(false),
        // The lease went in between (look again), or the root is gone already.
        Some((_, ErrorCode::NoNode)) => Ok(control.client.exists(root)?.is_none()),
        Some((_, code)) => Err(ClientError::Server(code)),
    }
}

fn clean_roots(spec: &ZookeeperSpec, pace: CleanPace) -> Result<CleanReport, TargetError> {
    let deadline = Instant::now() + pace.limit;
    let mut control = Control::connect(spec, None)?;
    control.check_chroot()?;
    let mut report = CleanReport::default();
    for root in roots(&mut control)? {
        if let Some((_, who)) = holder(&mut control, &root)? {
            report.skipped.push(format!("{root}: its lease is held by {who}"));
            continue;
        }
        if Instant::now() >= deadline {
            report.skipped.push(format!("{root}: no time was left"));
            continue;
        }
        let removed = remove_root(spec, &mut control, &root, None, pace, deadline)?;
        report.removed_znodes += removed.znodes;
        if removed.complete {
            report.removed_roots.push(root);
        } else {
            report.skipped.push(format!("{root}: no time was left for the rest after {} znodes", removed.znodes));
        }
    }
    let _ = control.client.close();
    Ok(report)
}
