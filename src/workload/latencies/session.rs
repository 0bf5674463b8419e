//! The probe's session: opened before its rounds, and used first to remove what the run before had to leave.

use std::time::Duration;

use zk_wire::{ConnectOptions, Event, Request};

use super::{Answer, Run};
use crate::target::TargetSpec;

impl Run<'_> {
    pub(super) fn connect(&mut self) -> Result<(), String> {
        let TargetSpec::Zookeeper(spec) = &self.site.target;
        let options = ConnectOptions {
            server: spec.servers[0],
            source: self.site.sources.first().copied(),
            session_timeout_ms: self.options.session_timeout_ms,
            connect_timeout: Duration::from_secs(10),
            max_in_flight: 4,
            reattach: None,
            last_zxid_seen: 0,
            auth: spec.digest.as_ref().map(|digest| zk_wire::Auth::digest(digest)),
        };
        let session = self.hub.connect(&options).map_err(|error| format!("the probe could not connect: {error}"))?;
        let (mut connected, mut lost) = (false, None);
        while !connected && lost.is_none() {
            if self.now_ns() >= self.window.until_ns || self.over() {
                return Err("the probe got no session before the measurement was over".to_owned());
            }
            let turned = self.hub.turn(Duration::from_millis(50), |_, event| match event {
                Event::Connected { .. } => connected = true,
                Event::Disconnected { cause, .. } => lost = Some(format!("{cause:?}")),
                Event::AuthFailed { .. } => lost = Some("credentials refused".to_owned()),
                Event::Expired { .. } | Event::Reply { .. } | Event::Watch { .. } | Event::Closed { .. } => {}
            });
            turned.map_err(|error| format!("the probe's event loop failed: {error}"))?;
        }
        match lost {
            Some(cause) => Err(format!("the probe got no session: {cause}")),
            None => {
                self.session = Some(session);
                Ok(())
            }
        }
    }

    /// Removes what a run before had to leave: the target counts it among the load's, and the same names come again.
    pub(super) fn remove_left(&mut self) {
        let Some(session) = self.session else { return };
        let root = self.site.root.clone();
        let request = Request::GetChildren { path: &root, watch: false };
        if self.hub.submit(session, (), &request).is_err() {
            return;
        }
        let mut left: Option<Vec<String>> = None;
        while left.is_none() && self.now_ns() < self.window.until_ns && !self.over() {
            let turned = self.hub.turn(Duration::from_millis(50), |_, event| match event {
                Event::Reply { result, .. } => {
                    let names = result.ok().and_then(|reply| reply.children());
                    left = Some(names.map(|names| names.map(str::to_owned).collect()).unwrap_or_default());
                }
                Event::Disconnected { .. } | Event::Expired { .. } => left = Some(Vec::new()),
                Event::Connected { .. } | Event::Watch { .. } | Event::Closed { .. } | Event::AuthFailed { .. } => {}
            });
            if turned.is_err() {
                return;
            }
        }
        let own = format!("p{}-", self.site.unit);
        for name in left.unwrap_or_default().into_iter().filter(|name| name.starts_with(&own)) {
            let path = format!("{root}/{name}");
            // An ephemeral one may go by itself meanwhile.
            if matches!(self.ask(&Request::Delete { path: &path, version: -1 }), Answer::Lost | Answer::Late) {
                return;
            }
        }
    }
}
