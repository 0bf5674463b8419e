//! The load unit of domains: one thread, one hub of sessions, one schedule, one recorder.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use zk_wire::{ConnectOptions, Disconnect, ErrorCode, Event, Hub, Reply, ReplyError, Request, SessionKey};

use super::{
    OPERATIONS, Options, Shape,
    members::{Domain, Job, Member, Stage},
    shape::{self, CONSOLES},
    traffic::{Edge, Schedule},
};
use crate::{
    model::{Incident, IncidentKind, Load},
    target::{TargetSpec, zookeeper::ZookeeperSpec},
    workload::{LoadUnit, Progress, Recorder, Site, UnitReport},
};

/// Deletions a second when domains leave.
const DELETES_PER_S: f64 = 20_000.0;
/// Domains that are put in place at the same time.
const FILLING_MAX: u32 = 16;
/// A connection that is closed before its session this often and this long is a limit.
const LIMIT_ATTEMPTS: u32 = 4;
const LIMIT_NS: i64 = 2_000_000_000;

/// What a reply belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tag {
    Fill {
        domain: u32,
    },
    /// Watches set again after a new connection.
    Restore,
    Remove {
        domain: u32,
    },
    Traffic {
        domain: u32,
        job: u16,
        operation: u8,
        part_of_run: bool,
        due_ns: i64,
        sent_ns: i64,
    },
}

/// The unit: the hub beside everything that its events change.
pub(super) struct Unit {
    hub: Hub<Tag>,
    core: Core,
}

/// All of a unit but the hub.
pub(super) struct Core {
    pub(super) options: Options,
    pub(super) shape: Shape,
    pub(super) site: Site,
    pub(super) spec: ZookeeperSpec,
    /// By id.
    pub(super) domains: Vec<Option<Box<Domain>>>,
    pub(super) sessions: HashMap<SessionKey, (u32, usize)>,
    pub(super) to_connect: Vec<(u32, usize)>,
    pub(super) connecting: u32,
    pub(super) schedule: Schedule,
    pub(super) recorder: Recorder,
    pub(super) edges: [Edge; 2],
    /// The load that is asked.
    target: u64,
    /// Ids from here on have not begun.
    next: u64,
    pub(super) resident: u64,
    pub(super) filling: u32,
    pub(super) removing: u32,
    pub(super) leaving: HashSet<SessionKey>,
    fill_budget: f64,
    pub(super) delete_budget: f64,
    budget_at_ns: i64,
    life: u32,
    janitor: Option<SessionKey>,
    janitor_ready: bool,
    pub(super) failure: Option<(bool, String)>,
    closed: u32,
    expired: u32,
    pub(super) path: String,
    pub(super) tail: String,
}

impl Unit {
    pub(super) fn new(options: Options, site: Site) -> std::io::Result<Self> {
        let TargetSpec::Zookeeper(spec) = site.target.clone();
        let now_ns = site.clock.now_ns();
        let core = Core {
            shape: options.shape(),
            spec,
            domains: Vec::new(),
            sessions: HashMap::new(),
            to_connect: Vec::new(),
            connecting: 0,
            schedule: Schedule::new(&options, site.seed),
            recorder: Recorder::new(OPERATIONS, site.unit, now_ns),
            edges: [Edge::of(&options, true), Edge::of(&options, false)],
            target: 0,
            next: 0,
            resident: 0,
            filling: 0,
            removing: 0,
            leaving: HashSet::new(),
            fill_budget: 0.0,
            delete_budget: 0.0,
            budget_at_ns: now_ns,
            life: 0,
            janitor: None,
            janitor_ready: false,
            failure: None,
            closed: 0,
            expired: 0,
            path: String::new(),
            tail: String::new(),
            options,
            site,
        };
        Ok(Self { hub: Hub::new()?, core })
    }
}

impl LoadUnit for Unit {
    fn prepare(&mut self, load: &Load) {
        self.core.failure = None;
        self.core.target = load.count();
        self.core.fill_budget = 1.0;
        for id in (self.core.target..self.core.next).rev() {
            if let Ok(id) = u32::try_from(id) {
                self.core.leave(&mut self.hub, id);
            }
        }
        self.core.next = self.core.next.min(self.core.target);
    }

    fn turn(&mut self, until_ns: i64) {
        loop {
            let now_ns = self.core.now_ns();
            self.core.begin_domains(now_ns);
            self.core.open_sessions(&mut self.hub);
            self.core.pump_removals(&mut self.hub);
            self.core.release_due(&mut self.hub);
            let now_ns = self.core.now_ns();
            let next_ns = self.core.schedule.next_ns().unwrap_or(i64::MAX).min(until_ns);
            let wait = Duration::from_nanos(u64::try_from(next_ns - now_ns).unwrap_or(0));
            let core = &mut self.core;
            if let Err(error) = self.hub.turn(wait, |hub, event| core.on_event(hub, event)) {
                core.fail(false, format!("the event loop failed: {error}"));
                return;
            }
            if self.core.now_ns() >= until_ns {
                return;
            }
        }
    }

    fn report(&mut self) -> UnitReport {
        let now_ns = self.core.now_ns();
        UnitReport {
            progress: self.core.progress(),
            block: self.core.recorder.cut(now_ns),
            incidents: self.core.incidents(),
        }
    }

    fn stop(&mut self) {
        self.core.schedule.clear();
        self.core.to_connect.clear();
        for session in self.core.sessions.keys().copied().chain(self.core.janitor) {
            self.hub.abandon(session);
        }
        self.core.sessions.clear();
        self.core.janitor = None;
        self.core.domains.clear();
    }
}

impl Core {
    pub(super) fn now_ns(&self) -> i64 {
        self.site.clock.now_ns()
    }

    pub(super) fn domain(&self, id: u32) -> Option<&Domain> {
        self.domains.get(id as usize)?.as_deref()
    }

    pub(super) fn domain_mut(&mut self, id: u32) -> Option<&mut Domain> {
        self.domains.get_mut(id as usize)?.as_deref_mut()
    }

    pub(super) fn member(&self, id: u32, index: usize) -> Option<&Member> {
        self.domain(id)?.members.get(index)
    }

    pub(super) fn member_mut(&mut self, id: u32, index: usize) -> Option<&mut Member> {
        self.domain_mut(id)?.members.get_mut(index)
    }

    pub(super) fn job_mut(&mut self, id: u32, job: u16) -> Option<&mut Job> {
        self.domain_mut(id)?.jobs.get_mut(usize::from(job))
    }

    /// The load cannot be put in place; the first reason counts.
    pub(super) fn fail(&mut self, limit: bool, text: String) {
        self.failure.get_or_insert((limit, text));
    }

    fn progress(&self) -> Progress {
        let confirmed = self.resident;
        match &self.failure {
            Some((limit, text)) => Progress::Failed { confirmed, limit: *limit, text: text.clone() },
            None if confirmed == self.target && self.filling == 0 && self.removing == 0 => {
                Progress::Ready { confirmed }
            }
            None => Progress::Moving { confirmed },
        }
    }

    fn incidents(&mut self) -> Vec<Incident> {
        let at_ns = self.now_ns();
        let incident = |kind, count: u32, text: String| Incident {
            at_ns,
            kind,
            node: String::new(),
            text,
            amount: f64::from(count),
        };
        let mut incidents = Vec::new();
        let (closed, expired) = (std::mem::take(&mut self.closed), std::mem::take(&mut self.expired));
        if closed > 0 {
            incidents.push(incident(
                IncidentKind::ConnectionClosed,
                closed,
                format!("{closed} connections of the load were closed by the target and attached again"),
            ));
        }
        if expired > 0 {
            incidents.push(incident(
                IncidentKind::SessionExpired,
                expired,
                format!("{expired} sessions of the load expired: their ephemeral znodes and watches are gone"),
            ));
        }
        incidents
    }

    /// Begins as many domains as the pace allows.
    fn begin_domains(&mut self, now_ns: i64) {
        let elapsed_s = (now_ns - self.budget_at_ns) as f64 / 1e9;
        self.budget_at_ns = now_ns;
        self.delete_budget = (self.delete_budget + elapsed_s * DELETES_PER_S).min(DELETES_PER_S / 10.0);
        let paced = self.options.fill_per_s > 0.0 && self.options.fill == super::Fill::Faithful;
        if paced {
            self.fill_budget =
                (self.fill_budget + elapsed_s * self.options.fill_per_s).min(self.options.fill_per_s.max(1.0));
        }
        while self.next < self.target && self.filling < FILLING_MAX && self.failure.is_none() {
            if paced && self.fill_budget < 1.0 {
                return;
            }
            let Ok(id) = u32::try_from(self.next) else { return };
            // A domain of the same id that still leaves must be gone first.
            if self.domain(id).is_some() {
                return;
            }
            self.fill_budget -= 1.0;
            self.next += 1;
            self.life += 1;
            let dead = shape::dead_of(self.options.dead_executors, u64::from(id));
            let domain = Domain::new(id, self.life, dead, &self.shape);
            if self.domains.len() <= id as usize {
                self.domains.resize_with(id as usize + 1, || None);
            }
            self.to_connect.extend((0..domain.members.len()).map(|index| (id, index)));
            self.domains[id as usize] = Some(Box::new(domain));
            self.filling += 1;
        }
    }

    /// A domain has to go: its sessions first.
    fn leave(&mut self, hub: &mut Hub<Tag>, id: u32) {
        let Some(domain) = self.domain_mut(id) else { return };
        let was = std::mem::replace(&mut domain.stage, Stage::Leaving);
        domain.in_flight = 0;
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
    fn left(&mut self, hub: &mut Hub<Tag>, id: u32) {
        let Some(domain) = self.domain_mut(id) else { return };
        if domain.stage == Stage::Leaving && domain.members.iter().all(|member| member.session.is_none()) {
            domain.stage = Stage::Removing;
            domain.cursor = 0;
            self.pump(hub, id);
        }
    }

    fn pump_removals(&mut self, hub: &mut Hub<Tag>) {
        if self.removing == 0 {
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
                server: self.spec.servers[0],
                source: self.site.sources.first().copied(),
                session_timeout_ms: self.options.session_timeout_ms,
                connect_timeout: Duration::from_secs(10),
                max_in_flight: 256,
                reattach: None,
                last_zxid_seen: 0,
                auth: self.spec.digest.as_ref().map(|digest| zk_wire::Auth::digest(digest)),
            };
            match hub.connect(&options) {
                Ok(session) => self.janitor = Some(session),
                Err(error) => self.fail(false, format!("no session for removing domains: {error}")),
            }
        }
        self.janitor.filter(|_| self.janitor_ready)
    }

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

    fn forget(&mut self, session: SessionKey) -> Option<(u32, usize)> {
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
        member.id = id;
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
        member.session = None;
        member.retry_at_ns = now_ns + 500_000_000;
        if cause == Disconnect::EofBeforeSession && member.id.is_none() {
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
        if was_connected {
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
    fn on_gone(&mut self, hub: &mut Hub<Tag>, session: SessionKey) {
        self.leaving.remove(&session);
        let Some((domain, index)) = self.forget(session) else { return };
        if let Some(member) = self.member_mut(domain, index) {
            member.session = None;
            member.connected = false;
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
            Tag::Fill { domain } => {
                if let Some(domain) = self.domain_mut(domain) {
                    domain.in_flight = domain.in_flight.saturating_sub(1);
                }
                if let Err(ReplyError::Code(code)) = result
                    && !is_there_already(code)
                {
                    self.fail(
                        false,
                        format!("a domain could not be registered: the target answered {}", code.as_str()),
                    );
                }
                self.pump(hub, domain);
            }
            Tag::Remove { domain } => {
                if let Some(domain) = self.domain_mut(domain) {
                    domain.in_flight = domain.in_flight.saturating_sub(1);
                }
                self.pump(hub, domain);
            }
        }
    }

    /// Reads of one session, for the traffic.
    pub(super) fn session_of(&self, domain: u32, index: usize) -> Option<SessionKey> {
        self.member(domain, index).filter(|member| member.connected)?.session
    }

    /// The console members of a domain, by number.
    pub(super) fn is_console(&self, index: usize) -> bool {
        let executors = self.shape.executors as usize;
        (executors..executors + CONSOLES as usize).contains(&index)
    }

    /// Sends one operation of the traffic; what cannot be sent is missed.
    pub(super) fn send(
        &mut self,
        hub: &mut Hub<Tag>,
        session: Option<SessionKey>,
        mut tag: Tag,
        request: &Request<'_>,
    ) -> bool {
        let now_ns = self.now_ns();
        if let Tag::Traffic { sent_ns, .. } = &mut tag {
            *sent_ns = now_ns;
        }
        let sent = session.is_some_and(|session| hub.submit(session, tag, request).is_ok());
        if !sent {
            self.recorder.miss(1);
        }
        sent
    }
}

/// Znodes that an earlier try made, and reads of absent znodes that set their watch all the same.
fn is_there_already(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NodeExists | ErrorCode::NoNode)
}
