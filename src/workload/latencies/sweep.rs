//! The end of a run of the probe: what a cut left is removed, what is open is closed.

use std::{fmt::Write as _, time::Duration};

use zk_wire::{Event, Reply, Request};

use super::run::Run;

/// Deletes under way when the probe removes what it left.
pub(super) const WINDOW: u32 = 64;
/// How long removing that, and closing, may take: longer than a pause that a session survives. A run that is being
/// stopped waits only a moment: its root goes as a whole.
const AFTER_NS: i64 = 20_000_000_000;
const AFTER_STOP_NS: i64 = 1_000_000_000;

impl Run<'_> {
    /// Removes what a cut left (it would stand in the counts of later steps), closes what is open, hears the last
    /// watches.
    pub(super) fn close(&mut self) {
        let give_up_ns = self.now_ns() + if self.over() { AFTER_STOP_NS } else { AFTER_NS };
        self.sweep(give_up_ns);
        for server in &mut self.servers {
            if let Some(session) = server.session
                && self.hub.close(session).is_err()
            {
                server.session = None;
            }
        }
        while self.servers.iter().any(|server| server.session.is_some()) && self.now_ns() < give_up_ns {
            self.turn(Duration::from_millis(100));
        }
    }

    /// Deletes the persistent znodes of this run that a cut phase left.
    fn sweep(&mut self, give_up_ns: i64) {
        let Some(session) = self.servers.iter().find(|server| server.connected).and_then(|server| server.session)
        else {
            return;
        };
        let prefix = format!("p{}-{:x}-", self.site.unit, self.window.from_ns);
        let mut left: Option<Vec<String>> = None;
        if self.hub.submit(session, (), &Request::GetChildren2 { path: &self.site.root, watch: false }).is_err() {
            return;
        }
        let mut alive = true;
        while left.is_none() && alive && self.site.clock.now_ns() < give_up_ns {
            let turned = self.hub.turn(Duration::from_millis(100), |_, event| match event {
                Event::Reply { result: Ok(Reply::Children { children, .. }), .. } => {
                    left = Some(children.filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect());
                }
                Event::Disconnected { session: gone, .. } => alive &= gone != session,
                // The call that was cut may still be answered, and watches may fire.
                Event::Reply { .. }
                | Event::Watch { .. }
                | Event::Connected { .. }
                | Event::Expired { .. }
                | Event::AuthFailed { .. }
                | Event::Closed { .. } => {}
            });
            alive &= turned.is_ok();
        }
        for name in left.unwrap_or_default() {
            self.path.clear();
            let _ = write!(self.path, "{}/{name}", self.site.root);
            while self.hub.in_flight(session) >= WINDOW as usize && self.now_ns() < give_up_ns {
                self.turn(Duration::from_millis(100));
            }
            if self.hub.submit(session, (), &Request::Delete { path: &self.path, version: -1 }).is_err() {
                return;
            }
        }
        while self.hub.in_flight(session) > 0 && self.now_ns() < give_up_ns {
            self.turn(Duration::from_millis(100));
        }
    }
}
