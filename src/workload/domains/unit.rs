//! The load unit of domains: one thread, one hub of sessions, one schedule, one recorder.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::SocketAddr,
    time::{Duration, Instant},
};

use zk_wire::{Event, Hub, Request, SessionKey};

use super::{
    Fill, OPERATIONS, Options, Shape,
    disturbances::Disturbances,
    leave::DELETES_PER_S,
    members::{Domain, Job, Member},
    shape::{self, CONSOLES},
    traffic::{Edge, Schedule},
};
use crate::{
    model::{Incident, IncidentKind, Load},
    target::zookeeper::ZookeeperSpec,
    workload::{LoadUnit, Progress, Recorder, Site, UnitReport},
};

/// Domains that are put in place at the same time.
const FILLING_MAX: u32 = 16;
/// The longest that closing all sessions may take: less than the engine waits for a unit.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// What a reply belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tag {
    Fill {
        domain: u32,
    },
    /// Watches set again after a new connection.
    Restore,
    /// Part of a session's return after a disturbance.
    Return,
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
    /// The servers that sessions go to.
    pub(super) servers: Vec<SocketAddr>,
    /// By id.
    pub(super) domains: Vec<Option<Box<Domain>>>,
    pub(super) sessions: HashMap<SessionKey, (u32, usize)>,
    pub(super) to_connect: Vec<(u32, usize)>,
    pub(super) connecting: u32,
    pub(super) schedule: Schedule,
    pub(super) disturbances: Disturbances,
    /// Sessions that a disturbance took away.
    pub(super) returning: Vec<(u32, usize)>,
    pub(super) recorder: Recorder,
    pub(super) edges: [Edge; 2],
    /// The load that is asked.
    pub(super) target: u64,
    /// Ids from here on have not begun.
    pub(super) next: u64,
    pub(super) resident: u64,
    pub(super) filling: u32,
    pub(super) removing: u32,
    pub(super) leaving: HashSet<SessionKey>,
    pub(super) fill_budget: f64,
    pub(super) delete_budget: f64,
    pub(super) budget_at_ns: i64,
    pub(super) life: u32,
    pub(super) janitor: Option<SessionKey>,
    pub(super) janitor_ready: bool,
    pub(super) failure: Option<(bool, String)>,
    pub(super) closed: u32,
    pub(super) expired: u32,
    pub(super) path: String,
    pub(super) tail: String,
}

impl Unit {
    pub(super) fn new(options: Options, site: Site) -> std::io::Result<Self> {
        let spec = site.zookeeper()?.clone();
        let now_ns = site.clock.now_ns();
        let core = Core {
            shape: options.shape(),
            servers: servers(&options, &spec, &site),
            spec,
            domains: Vec::new(),
            sessions: HashMap::new(),
            to_connect: Vec::new(),
            connecting: 0,
            schedule: Schedule::new(&options, site.seed),
            disturbances: Disturbances::new(&options),
            returning: Vec::new(),
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
        let mut hub = Hub::new()?;
        hub.set_max_request_bytes(core.max_request_bytes());
        Ok(Self { hub, core })
    }
}

impl Unit {
    /// Sessions that are connected, by server, and how many are to be connected again. One that has expired never is.
    fn attached(&self) -> (BTreeMap<SocketAddr, u64>, u64) {
        let (mut attached, mut detached) = (BTreeMap::new(), 0);
        for member in self.core.domains.iter().flatten().flat_map(|domain| &domain.members) {
            let view = member.session.filter(|_| member.connected).and_then(|session| self.hub.session(session));
            match view {
                Some(view) => *attached.entry(view.server).or_default() += 1,
                None => detached += u64::from(member.id.is_some() && !member.expired),
            }
        }
        (attached, detached)
    }
}

/// The servers that the options ask for, of those that had the role when the run began.
fn servers(options: &Options, spec: &ZookeeperSpec, site: &Site) -> Vec<SocketAddr> {
    let role = |server: &SocketAddr| {
        let name = server.to_string();
        site.nodes.iter().find(|node| node.name == name).map_or("", |node| node.role.as_str())
    };
    spec.servers.iter().copied().filter(|server| options.spread.takes(role(server))).collect()
}

impl LoadUnit for Unit {
    fn prepare(&mut self, load: &Load) {
        self.core.failure = None;
        self.core.disturbances.clear();
        if self.core.servers.is_empty() {
            let wanted = format!("{:?}", self.core.options.spread).to_lowercase();
            self.core.fail(false, format!("no server of the target is what `spread = \"{wanted}\"` asks for"));
        }
        self.core.target = load.value();
        self.core.fill_budget = 1.0;
        for id in (self.core.target..self.core.next).rev() {
            if let Ok(id) = u32::try_from(id) {
                self.core.leave(&mut self.hub, id);
            }
        }
        self.core.next = self.core.next.min(self.core.target);
    }

    fn hold(&mut self, from_ns: i64, until_ns: i64) {
        self.core.disturbances.hold(from_ns, until_ns);
    }

    fn turn(&mut self, until_ns: i64) {
        loop {
            let now_ns = self.core.now_ns();
            self.core.begin_domains(now_ns);
            self.core.open_sessions(&mut self.hub);
            self.core.pump_removals(&mut self.hub);
            self.core.pump_returns(&mut self.hub);
            self.core.disturb(&mut self.hub);
            self.core.release_due(&mut self.hub);
            let now_ns = self.core.now_ns();
            let next = [self.core.schedule.next_ns(), self.core.disturbances.next_ns()];
            let next_ns = next.into_iter().flatten().min().unwrap_or(i64::MAX).min(until_ns);
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
        let (attached, detached) = self.attached();
        UnitReport {
            progress: self.core.progress(),
            block: self.core.recorder.cut(now_ns),
            incidents: self.core.incidents(),
            attached,
            detached,
        }
    }

    fn stop(&mut self) {
        self.core.schedule.clear();
        self.core.disturbances.clear();
        self.core.to_connect.clear();
        self.core.domains.clear();
        let janitor = self.core.janitor.take();
        let sessions = self.core.sessions.drain().map(|(session, _)| session).chain(janitor);
        close_all(&mut self.hub, sessions.chain(self.core.leaving.drain()).collect());
    }
}

/// Closes sessions in order: one that is only let go stays on the target until it expires, is counted there, and holds
/// its ephemeral znodes. What the target does not close in time is let go.
fn close_all(hub: &mut Hub<Tag>, mut open: HashSet<SessionKey>) {
    // One that is not there yet is closed when it is.
    open.retain(|session| hub.close(*session).is_ok() || hub.session(*session).is_some());
    let give_up = Instant::now() + CLOSE_LIMIT;
    while !open.is_empty() && Instant::now() < give_up {
        let turned = hub.turn(Duration::from_millis(50), |hub, event| match event {
            Event::Closed { session } | Event::Disconnected { session, .. } | Event::Expired { session } => {
                open.remove(&session);
            }
            Event::Connected { session, .. } => drop(hub.close(session)),
            Event::Reply { .. } | Event::Watch { .. } | Event::AuthFailed { .. } => {}
        });
        if turned.is_err() {
            break;
        }
    }
    open.into_iter().for_each(|session| hub.abandon(session));
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

    pub(super) fn progress(&self) -> Progress {
        let confirmed = self.resident;
        match &self.failure {
            Some((limit, text)) => Progress::Failed { confirmed, limit: *limit, text: text.clone() },
            None if confirmed == self.target
                && self.filling == 0
                && self.removing == 0
                && self.returning.is_empty() =>
            {
                Progress::Ready { confirmed }
            }
            None => Progress::Moving { confirmed },
        }
    }

    pub(super) fn incidents(&mut self) -> Vec<Incident> {
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

    /// Reads of one session, for the traffic.
    pub(super) fn session_of(&self, domain: u32, index: usize) -> Option<SessionKey> {
        self.member(domain, index).filter(|member| member.connected)?.session
    }

    /// Begins as many domains as the pace allows.
    pub(super) fn begin_domains(&mut self, now_ns: i64) {
        let elapsed_s = (now_ns - self.budget_at_ns) as f64 / 1e9;
        self.budget_at_ns = now_ns;
        self.delete_budget = (self.delete_budget + elapsed_s * DELETES_PER_S).min(DELETES_PER_S / 10.0);
        let paced = self.options.fill_per_s > 0.0 && self.options.fill == Fill::Faithful;
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
