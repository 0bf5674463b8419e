//! Opens the sessions of domains: to which server, from which address, how many at once.

use std::time::Duration;

use zk_wire::{ConnectError, ConnectOptions, Hub};

use super::{
    fill::IN_FLIGHT_MAX,
    traffic::REATTACH,
    unit::{Core, Tag},
};

/// Connections being opened at once: the server's default backlog is 50.
const CONNECTING_MAX: u32 = 30;

impl Core {
    /// Opens the session of a member, or notes why it cannot be opened.
    pub(super) fn connect_member(&mut self, hub: &mut Hub<Tag>, domain: u32, index: usize) {
        let now_ns = self.now_ns();
        let options = self.connect_options(domain, index);
        let result = hub.connect(&options);
        let Some(member) = self.member_mut(domain, index) else { return };
        match result {
            Ok(session) => {
                member.session = Some(session);
                member.connected = false;
                self.sessions.insert(session, (domain, index));
                self.connecting += 1;
            }
            Err(error) => {
                member.retry_at_ns = now_ns + 500_000_000;
                let (limit, text) = match &error {
                    ConnectError::NoFiles(_) => {
                        (true, "this process has no open files left for further sessions".to_owned())
                    }
                    ConnectError::NoPorts(_) => (
                        true,
                        "this machine has no local port left for further sessions; name more `source_addresses`"
                            .to_owned(),
                    ),
                    ConnectError::NoSuchSource { .. } | ConnectError::Io(_) => {
                        (false, format!("a session could not be opened: {error}"))
                    }
                };
                self.fail(limit, text);
            }
        }
    }

    fn connect_options(&self, domain: u32, index: usize) -> ConnectOptions {
        let number = domain as usize * self.shape.sessions() as usize + index;
        let member = self.member(domain, index);
        let servers = &self.servers;
        // Neighbours go to different servers; those of one server take turns on the source addresses. One that could
        // not connect, or whose server went away, tries the next.
        let server = servers[(number + member.map_or(0, |member| member.in_vain as usize)) % servers.len()];
        let source = match self.site.sources.len() {
            0 => None,
            sources => Some(self.site.sources[(number / servers.len()) % sources]),
        };
        ConnectOptions {
            source,
            session_timeout_ms: self.options.session_timeout_ms,
            connect_timeout: Duration::from_secs(10),
            max_in_flight: self.in_flight_max(),
            reattach: member.and_then(|member| member.id),
            last_zxid_seen: member.map_or(0, |member| member.last_zxid),
            ..self.spec.connect_options(server)
        }
    }

    /// Requests that a session of a domain may have under way: with bursts, all that its jobs ask at the same moment.
    fn in_flight_max(&self) -> u32 {
        let of_a_burst = self.shape.jobs * (15 + 10 * self.shape.shards);
        IN_FLIGHT_MAX + if self.options.burst.is_some() { of_a_burst } else { 0 }
    }

    /// Opens what should be open: members of domains on their way in, and lost ones whose time has come.
    pub(super) fn open_sessions(&mut self, hub: &mut Hub<Tag>) {
        let now_ns = self.now_ns();
        let mut wanted = std::mem::take(&mut self.to_connect);
        wanted.retain(|&(domain, index)| {
            let Some(member) = self.member(domain, index) else { return false };
            // A storm comes all at once; that is what it is.
            let unpaced = member.away.is_some_and(|away| away.operation == REATTACH);
            if (self.connecting >= CONNECTING_MAX && !unpaced) || self.failure.is_some() {
                return true;
            }
            if member.session.is_some() || member.expired {
                return false;
            }
            if member.retry_at_ns > now_ns {
                return true;
            }
            self.connect_member(hub, domain, index);
            self.member(domain, index).is_some_and(|member| member.session.is_none())
        });
        wanted.append(&mut self.to_connect);
        self.to_connect = wanted;
    }
}
