//! Takes domains away again: their sessions first, then what they left on the target.

use std::time::Duration;

use zk_wire::{ConnectOptions, Hub, Request, SessionKey};

use super::{
    fill::IN_FLIGHT_MAX,
    members::{Domain, Stage},
    unit::{Core, Tag},
};

/// Deletions a second when domains leave.
pub(super) const DELETES_PER_S: f64 = 20_000.0;
/// Between two passes over a domain of which something could not be deleted.
const PASS_EVERY_NS: i64 = 500_000_000;

impl Core {
    /// A domain has to go: its sessions first.
    pub(super) fn leave(&mut self, hub: &mut Hub<Tag>, id: u32) {
        let Some(domain) = self.domain_mut(id) else { return };
        let was = std::mem::replace(&mut domain.stage, Stage::Leaving);
        domain.in_flight = 0;
        domain.members.iter_mut().for_each(|member| member.away = None);
        let sessions: Vec<SessionKey> = domain.members.iter().filter_map(|member| member.session).collect();
        match was {
            Stage::Resident => self.resident -= 1,
            Stage::Leaving | Stage::Removing => {
                if let Some(domain) = self.domain_mut(id) {
                    domain.stage = was;
                }
                return;
            }
            Stage::Connecting | Stage::Structure | Stage::Registering | Stage::Watching => self.filling -= 1,
        }
        self.removing += 1;
        self.to_connect.retain(|(domain, _)| *domain != id);
        for session in sessions {
            self.leaving.insert(session);
            // A session that is not there yet cannot be closed; its socket goes, and nothing was created with it.
            if hub.close(session).is_err() {
                hub.abandon(session);
                self.on_gone(hub, session);
            }
        }
        self.left(hub, id);
    }

    /// When the last session of a leaving domain is closed, its znodes can go.
    pub(super) fn left(&mut self, hub: &mut Hub<Tag>, id: u32) {
        let Some(domain) = self.domain_mut(id) else { return };
        if domain.stage == Stage::Leaving && domain.members.iter().all(|member| member.session.is_none()) {
            domain.stage = Stage::Removing;
            domain.cursor = 0;
            self.pump(hub, id);
        }
    }

    pub(super) fn pump_removals(&mut self, hub: &mut Hub<Tag>) {
        if self.removing == 0 {
            // Its session would be counted among those of the load.
            if let Some(janitor) = self.janitor.take() {
                self.janitor_ready = false;
                if hub.close(janitor).is_err() {
                    hub.abandon(janitor);
                }
            }
            return;
        }
        let ids: Vec<u32> =
            self.domains.iter().flatten().filter(|d| d.stage == Stage::Removing).map(|d| d.id).collect();
        for id in ids {
            self.pump(hub, id);
        }
    }

    /// The session that removes what leaving domains left.
    pub(super) fn janitor_session(&mut self, hub: &mut Hub<Tag>) -> Option<SessionKey> {
        if self.janitor.is_none() {
            let options = ConnectOptions {
                source: self.site.sources.first().copied(),
                session_timeout_ms: self.options.session_timeout_ms,
                connect_timeout: Duration::from_secs(10),
                max_in_flight: 256,
                ..self.spec.connect_options(self.spec.servers[0])
            };
            match hub.connect(&options) {
                Ok(session) => self.janitor = Some(session),
                Err(error) => self.fail(false, format!("no session for removing domains: {error}")),
            }
        }
        self.janitor.filter(|_| self.janitor_ready)
    }

    /// Deletes what a domain left behind, children first.
    pub(super) fn pump_removal(&mut self, hub: &mut Hub<Tag>, id: u32) {
        let Some(session) = self.janitor_session(hub) else { return };
        let now_ns = self.now_ns();
        let Some(domain) = self.domain(id).filter(|domain| domain.pass_at_ns <= now_ns) else { return };
        let (mut cursor, end) = (domain.cursor, self.shape.znodes_with(domain.dead));
        // Ephemeral znodes go with their session, unless its connection was lost before it was closed.
        let all = domain.passes > 0;
        let mut sent = 0;
        while cursor < end && hub.in_flight(session) < IN_FLIGHT_MAX as usize && self.delete_budget >= 1.0 {
            let znode = self.shape.znode(end - 1 - cursor, &mut self.tail);
            if all || !znode.ephemeral {
                Domain::path(&self.site.root, id, &mut self.path);
                self.path.push_str(&self.tail);
                let request = Request::Delete { path: &self.path, version: -1 };
                if let Err(error) = hub.submit(session, Tag::Remove { domain: id }, &request) {
                    self.submit_failed(&error);
                    break;
                }
                self.delete_budget -= 1.0;
                sent += 1;
            }
            cursor += 1;
        }
        if let Some(domain) = self.domain_mut(id) {
            domain.cursor = cursor;
            domain.in_flight += sent;
            if cursor >= end && domain.in_flight == 0 {
                if std::mem::take(&mut domain.again) {
                    domain.passes += 1;
                    (domain.cursor, domain.pass_at_ns) = (0, now_ns + PASS_EVERY_NS);
                } else {
                    self.domains[id as usize] = None;
                    self.removing -= 1;
                }
            }
        }
    }
}
