//! What the sessions of domains tell: connected, lost, answered.

use zk_wire::{Disconnect, ErrorCode, Event, Hub, Reply, ReplyError, SessionKey};

use super::{
    members::Stage,
    unit::{Core, Tag},
};

/// A connection that is closed before its session this often and this long is a limit.
const LIMIT_ATTEMPTS: u32 = 4;
const LIMIT_NS: i64 = 2_000_000_000;

impl Core {
    #[expect(clippy::needless_pass_by_value, reason = "an event is handed over, as the hub hands it")]
    pub(super) fn on_event(&mut self, hub: &mut Hub<Tag>, event: Event<'_, Tag>) {
        match event {
            Event::Connected { session, reattached, .. } => self.on_connected(hub, session, reattached),
            Event::Reply { session, tag, zxid, result } => self.on_reply(hub, session, tag, zxid, result),
            Event::Watch { session, kind, path } => self.on_watch(hub, session, kind, path),
            Event::Expired { session } => {
                self.expired += 1;
                if let Some((domain, index)) = self.forget(session)
                    && let Some(member) = self.member_mut(domain, index)
                {
                    member.expired = true;
                    member.session = None;
                    self.never_back(domain, index);
                }
            }
            Event::Disconnected { session, cause } => self.on_disconnected(hub, session, cause),
            Event::AuthFailed { session } => {
                self.forget(session);
                self.fail(false, "the target refused the digest credentials of a session".to_owned());
            }
            Event::Closed { session } => self.on_gone(hub, session),
        }
    }

    pub(super) fn forget(&mut self, session: SessionKey) -> Option<(u32, usize)> {
        let found = self.sessions.remove(&session);
        if let Some((domain, index)) = found
            && self.member(domain, index).is_some_and(|member| !member.connected)
        {
            self.connecting = self.connecting.saturating_sub(1);
        }
        found
    }

    fn on_connected(&mut self, hub: &mut Hub<Tag>, session: SessionKey, reattached: bool) {
        if self.janitor == Some(session) {
            self.janitor_ready = true;
            return;
        }
        let Some(&(domain, index)) = self.sessions.get(&session) else { return };
        self.connecting = self.connecting.saturating_sub(1);
        let id = hub.session(session).map(|view| view.id);
        let Some(member) = self.member_mut(domain, index) else { return };
        member.connected = true;
        member.failed_connects = 0;
        member.in_vain = 0;
        member.id = id;
        if member.away.is_some() {
            self.begin_return(domain, index);
            return;
        }
        if !reattached {
            self.pump(hub, domain);
            return;
        }
        // The server forgot the watches with the connection; the client has to set them again.
        member.cursor = 0;
        let relative = member.last_zxid;
        match self.domain(domain).map(|d| d.stage) {
            Some(Stage::Resident) => {
                self.pump_member_watches(hub, domain, index, Tag::Restore, relative);
            }
            Some(_) => self.pump(hub, domain),
            None => {}
        }
    }

    fn on_disconnected(&mut self, hub: &mut Hub<Tag>, session: SessionKey, cause: Disconnect) {
        if self.janitor == Some(session) {
            (self.janitor, self.janitor_ready) = (None, false);
            return;
        }
        if self.leaving.contains(&session) {
            self.on_gone(hub, session);
            return;
        }
        let now_ns = self.now_ns();
        let known_limit = self.site.connections_per_address;
        let Some((domain, index)) = self.forget(session) else { return };
        let mut limit = None;
        let Some(member) = self.member_mut(domain, index) else { return };
        let was_connected = std::mem::replace(&mut member.connected, false);
        // Whoever was silent is not asked first: a server that is halted takes connections and gives no session.
        member.in_vain += u32::from(!was_connected || cause == Disconnect::ReadTimeout);
        member.session = None;
        let on_purpose = cause == Disconnect::Cut;
        member.retry_at_ns = if on_purpose { now_ns } else { now_ns + 500_000_000 };
        member.interrupted();
        if cause.is_before_session() && member.id.is_none() {
            if member.failed_connects == 0 {
                member.first_failure_ns = now_ns;
            }
            member.failed_connects += 1;
            if member.failed_connects >= LIMIT_ATTEMPTS && now_ns - member.first_failure_ns >= LIMIT_NS {
                limit = Some(format!(
                    "the target closed new connections before their session: {}",
                    known_limit.map_or_else(
                        || "a limit of connections (maxClientCnxns, maxCnxns) is the usual reason".to_owned(),
                        |limit| format!("maxClientCnxns allows {limit} from one address")
                    )
                ));
            }
        }
        if let Disconnect::Tls(fault) = cause
            && !cause.is_before_session()
        {
            // Trying again changes no certificate.
            self.fail(false, format!("a session could not be opened: {fault}"));
        }
        if was_connected && !on_purpose {
            self.closed += 1;
        }
        // What was under way is lost with the connection; a stage begins again, and finds what is there already.
        if let Some(domain) = self.domain_mut(domain)
            && domain.stage != Stage::Resident
        {
            domain.members[index].cursor = 0;
        }
        match limit {
            Some(text) => self.fail(true, text),
            None => self.to_connect.push((domain, index)),
        }
    }

    /// A session is gone for good.
    pub(super) fn on_gone(&mut self, hub: &mut Hub<Tag>, session: SessionKey) {
        self.leaving.remove(&session);
        let Some((domain, index)) = self.forget(session) else { return };
        if let Some(member) = self.member_mut(domain, index) {
            member.session = None;
            member.connected = false;
            if member.away.is_some() {
                // What comes back is a new session.
                member.id = None;
                self.to_connect.push((domain, index));
            }
        }
        self.left(hub, domain);
    }

    fn on_reply(
        &mut self,
        hub: &mut Hub<Tag>,
        session: SessionKey,
        tag: Tag,
        zxid: i64,
        result: Result<Reply<'_>, ReplyError>,
    ) {
        if zxid > 0
            && let Some(&(domain, index)) = self.sessions.get(&session)
            && let Some(member) = self.member_mut(domain, index)
        {
            member.last_zxid = member.last_zxid.max(zxid);
        }
        match tag {
            Tag::Traffic { domain, job, operation, part_of_run, due_ns, sent_ns } => {
                self.on_traffic(domain, job, usize::from(operation), part_of_run, due_ns, sent_ns, &result);
            }
            Tag::Restore => {}
            Tag::Return => self.on_return(session, &result),
            Tag::Fill { domain } => {
                if let Some(domain) = self.domain_mut(domain) {
                    domain.in_flight = domain.in_flight.saturating_sub(1);
                }
                // Told before the disconnection: what was lost is not done, and its stage is not over.
                if matches!(result, Err(ReplyError::ConnectionLoss)) {
                    if let Some(&(domain, index)) = self.sessions.get(&session)
                        && let Some(member) = self.member_mut(domain, index)
                    {
                        member.cursor = 0;
                    }
                    return;
                }
                let watching = self.domain(domain).is_some_and(|domain| domain.stage == Stage::Watching);
                if let Some(code) = refused(&result)
                    && !is_there_already(code, watching)
                {
                    let text = format!("a domain could not be registered: the target answered {}", code.as_str());
                    self.fail(false, text);
                }
                self.pump(hub, domain);
            }
            Tag::Remove { domain } => {
                // Lost with the connection, or something is still under it: the whole domain is gone through again.
                let again = matches!(result, Err(ReplyError::ConnectionLoss | ReplyError::Code(ErrorCode::NotEmpty)));
                if let Some(domain) = self.domain_mut(domain) {
                    domain.in_flight = domain.in_flight.saturating_sub(1);
                    domain.again |= again;
                }
                self.pump(hub, domain);
            }
        }
    }
}

/// What the target refused a request with, a multi too. A lost connection is no refusal: what was lost is sent again.
pub(super) fn refused(result: &Result<Reply<'_>, ReplyError>) -> Option<ErrorCode> {
    match result {
        Ok(Reply::Multi(results)) => results.error().map(|(_, code)| code),
        Err(ReplyError::Code(code)) => Some(*code),
        Ok(_) | Err(ReplyError::ConnectionLoss | ReplyError::Malformed) => None,
    }
}

/// Znodes (or whole batches) that were made before a connection was lost, and reads of absent znodes, which set their
/// watch all the same.
fn is_there_already(code: ErrorCode, watching: bool) -> bool {
    code == ErrorCode::NodeExists || (watching && code == ErrorCode::NoNode)
}
