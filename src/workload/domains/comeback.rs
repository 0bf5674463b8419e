//! How sessions go when a disturbance takes them, and how they come back: registered again, or only attached again.

use zk_wire::{ErrorCode, Hub, Reply, ReplyError, Request, SessionKey};

use super::{
    disturbances::{Disturbance, Kind, picked},
    events::refused,
    fill::{WINDOW_SINGLE, filler, mode},
    members::{self, Away, Domain, Member, Stage, Way},
    traffic::{REATTACH, RESTART},
    unit::{Core, Tag},
};

/// The znode by which the leader of a job's executors is known.
pub(super) const LEADER_HOST: &str = "/leader/election/host";
/// An item that does not run is marked by this znode.
const COMPLETED: &str = "/completed";

impl Member {
    /// Whether a disturbance took its connection and it has no other yet.
    pub(super) fn is_gone(&self) -> bool {
        self.away.is_some_and(|away| away.way == Way::Gone)
    }

    /// Its connection is lost: what was under way of its return is to be done again.
    pub(super) fn interrupted(&mut self) {
        if let Some(away) = &mut self.away {
            if away.operation == RESTART && away.way == Way::Gone {
                // It was being closed; what comes back is a new session.
                self.id = None;
            }
            (away.way, away.in_flight) = (Way::Gone, 0);
        }
    }

    pub(super) fn sent_of_return(&mut self, requests: u32) {
        if let Some(away) = &mut self.away {
            away.in_flight += requests;
        }
    }
}

impl Core {
    /// Lets happen what is to happen by now.
    pub(super) fn disturb(&mut self, hub: &mut Hub<Tag>) {
        let now_ns = self.now_ns();
        while let Some(disturbance) = self.disturbances.pop(now_ns) {
            match disturbance.kind {
                Kind::Burst => self.burst(disturbance.at_ns),
                Kind::Restarts => self.restart(hub, disturbance),
                Kind::Storm => self.storm(hub, disturbance),
            }
        }
    }

    fn burst(&mut self, at_ns: i64) {
        for domain in self.domains.iter().flatten().filter(|domain| domain.stage == Stage::Resident) {
            self.schedule.burst(domain.id, domain.life, at_ns);
        }
    }

    fn restart(&mut self, hub: &mut Hub<Tag>, disturbance: Disturbance) {
        let Some(restarts) = self.options.restarts else { return };
        let each = u64::from(self.shape.executors);
        let seed = self.site.seed ^ disturbance.number;
        for number in picked(seed, u64::from(restarts.executors), self.resident * each) {
            if let Some((domain, index, session)) = self.take_away(number, each, RESTART, disturbance.at_ns)
                && hub.close(session).is_err()
            {
                self.never_back(domain, index);
            }
        }
    }

    fn storm(&mut self, hub: &mut Hub<Tag>, disturbance: Disturbance) {
        let Some(storm) = self.options.storm else { return };
        let each = u64::from(self.shape.sessions());
        let all = self.resident * each;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of at most 10^7 sessions")]
        let count = (storm.share * all as f64).round() as u64;
        // Another salt than that of restarts.
        let seed = !self.site.seed ^ disturbance.number;
        for number in picked(seed, count, all) {
            if let Some((_, _, session)) = self.take_away(number, each, REATTACH, disturbance.at_ns) {
                hub.cut(session);
            }
        }
    }

    /// Notes that a session is taken away: number `number` of all residents with `each` sessions a domain. One that is
    /// not there is missed.
    fn take_away(&mut self, number: u64, each: u64, operation: usize, due_ns: i64) -> Option<(u32, usize, SessionKey)> {
        let now_ns = self.now_ns();
        let domain = u32::try_from(number / each).ok()?;
        let index = usize::try_from(number % each).ok()?;
        self.recorder.ask(operation, 1);
        let session = self.session_of(domain, index);
        let resident = self.domain(domain).is_some_and(|domain| domain.stage == Stage::Resident);
        let taken =
            session.filter(|_| resident).filter(|_| self.member(domain, index).is_some_and(|m| m.away.is_none()));
        let Some(session) = taken else {
            self.recorder.miss(1);
            return None;
        };
        self.recorder.lag(now_ns - due_ns);
        let member = self.member_mut(domain, index)?;
        member.away = Some(Away { operation, due_ns, sent_ns: now_ns, way: Way::Gone, in_flight: 0 });
        self.returning.push((domain, index));
        Some((domain, index, session))
    }

    /// A session that was taken away has its connection.
    pub(super) fn begin_return(&mut self, domain: u32, index: usize) {
        let Some(member) = self.member_mut(domain, index) else { return };
        member.cursor = 0;
        if let Some(away) = &mut member.away {
            away.way = if away.operation == RESTART { Way::Registering } else { Way::Watching };
        }
    }

    /// A session that was taken away will not come back.
    pub(super) fn never_back(&mut self, domain: u32, index: usize) {
        if let Some(away) = self.member_mut(domain, index).and_then(|member| member.away.take()) {
            self.recorder.fail(away.operation, ErrorCode::SessionExpired.as_str());
        }
    }

    /// Sends what sessions still need on their way back.
    pub(super) fn pump_returns(&mut self, hub: &mut Hub<Tag>) {
        if self.returning.is_empty() {
            return;
        }
        let mut returning = std::mem::take(&mut self.returning);
        returning.retain(|&(domain, index)| !self.is_back(hub, domain, index));
        returning.append(&mut self.returning);
        self.returning = returning;
    }

    /// Sends what one session still needs; true when nothing is left to be done.
    fn is_back(&mut self, hub: &mut Hub<Tag>, domain: u32, index: usize) -> bool {
        loop {
            if self.domain(domain).is_none_or(|domain| domain.stage != Stage::Resident) {
                return true;
            }
            let Some(Away { operation, way, .. }) = self.member(domain, index).and_then(|member| member.away) else {
                return true;
            };
            let sent = match way {
                Way::Gone => return false,
                Way::Registering => self.register_again(hub, domain, index),
                Way::Watching => {
                    // Only the same session may have missed something.
                    let attached = operation == REATTACH;
                    let zxid = self.member(domain, index).map_or(0, |member| member.last_zxid);
                    let relative = if attached { zxid } else { i64::MAX };
                    self.pump_member_watches(hub, domain, index, Tag::Return, relative)
                }
            };
            let now_ns = self.now_ns();
            let Some(member) = self.member_mut(domain, index) else { return true };
            let Some(away) = member.away.as_mut().filter(|away| sent && away.in_flight == 0) else { return false };
            if away.way == Way::Registering {
                (away.way, member.cursor) = (Way::Watching, 0);
                continue;
            }
            let Away { operation, due_ns, sent_ns, .. } = *away;
            // With its session all that it had begun is gone; with its connection only what fell due meanwhile.
            let gone_ns = if operation == RESTART { i64::MIN } else { due_ns };
            (member.away, member.gone_ns, member.back_ns) = (None, gone_ns, now_ns);
            self.recorder.done(operation, due_ns, sent_ns, now_ns);
            return true;
        }
    }

    /// What an executor does that starts anew: it makes its ephemeral znodes, and the marks of its items where they are
    /// missing, and writes what it says of itself. True when all is sent.
    fn register_again(&mut self, hub: &mut Hub<Tag>, id: u32, index: usize) -> bool {
        let Some(domain) = self.domain(id) else { return true };
        let member = &domain.members[index];
        let Some(session) = member.session.filter(|_| member.connected) else { return false };
        let owner = members::owner(&self.shape, index);
        let (mut cursor, end) = (member.cursor, self.shape.znodes());
        let mut sent = 0;
        while cursor < end && hub.in_flight(session) < WINDOW_SINGLE {
            let znode = self.shape.znode(cursor, &mut self.tail);
            let made = znode.ephemeral || self.tail.ends_with(COMPLETED);
            if znode.owner == owner && (made || znode.data_bytes > 0) {
                Domain::path(&self.site.root, id, &mut self.path);
                self.path.push_str(&self.tail);
                let (path, data) = (self.path.as_str(), filler(znode.data_bytes));
                let request = if made {
                    Request::Create { path, data, mode: mode(znode.ephemeral) }
                } else {
                    Request::SetData { path, data, version: -1 }
                };
                if let Err(error) = hub.submit(session, Tag::Return, &request) {
                    self.submit_failed(&error);
                    break;
                }
                sent += 1;
            }
            cursor += 1;
        }
        if let Some(member) = self.member_mut(id, index) {
            member.cursor = cursor;
            member.sent_of_return(sent);
        }
        cursor >= end
    }

    /// The reply to a part of a session's return.
    pub(super) fn on_return(&mut self, session: SessionKey, result: &Result<Reply<'_>, ReplyError>) {
        let Some(&(domain, index)) = self.sessions.get(&session) else { return };
        let Some(away) = self.member_mut(domain, index).and_then(|member| member.away.as_mut()) else { return };
        away.in_flight = away.in_flight.saturating_sub(1);
        let operation = away.operation;
        // Marks that are there already, and reads of absent znodes, which set their watch all the same.
        if let Some(code) = refused(result).filter(|code| !matches!(code, ErrorCode::NodeExists | ErrorCode::NoNode)) {
            self.recorder.fail(operation, code.as_str());
        }
    }

    /// Whether an executor was taken away when a run of a job began, or since.
    pub(super) fn was_away(&self, domain: u32, executor: u32, began_ns: i64) -> bool {
        let member = self.member(domain, executor as usize);
        member.is_some_and(|member| {
            let is_away = member.away.is_some_and(|away| away.operation == RESTART || away.due_ns <= began_ns);
            is_away || member.gone_ns <= began_ns && began_ns < member.back_ns
        })
    }
}
