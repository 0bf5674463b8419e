//! One run of the probe: one hub, one session a server, phase after phase with one call in flight.

use std::{collections::BTreeMap, fmt::Write as _, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use hdrhistogram::Histogram;
use zk_wire::{ConnectOptions, CreateMode, Event, Hub, ReplyError, Request, SessionKey};

use super::{OPERATIONS, Options};
use crate::{
    model::{IncidentKind, clock},
    workload::{
        Site, Window,
        recorder::{histogram, micros},
    },
};

/// Phases by number, as [`OPERATIONS`] lists them.
const CREATE: usize = 0;
const SET: usize = 1;
const GET: usize = 2;
const DELETE: usize = 3;
const CREATE_EPHEMERAL: usize = 4;
pub(super) const WATCH: usize = 5;
pub(super) const DELETE_EPHEMERAL: usize = 6;

/// A call that is not answered for so long is a failure, whatever else the probe still had to do.
const STALL_NS: i64 = 3_000_000_000;

/// What one phase has done so far.
pub(super) struct Phase {
    pub(super) done: u64,
    pub(super) busy_ns: i64,
    pub(super) latency: Histogram<u64>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) cut: bool,
}

/// One server that is probed.
pub(super) struct Server {
    address: SocketAddr,
    /// Its name in results.
    pub(super) name: String,
    pub(super) session: Option<SessionKey>,
    pub(super) connected: bool,
    /// It is not asked any more, though its session may live.
    ended: bool,
    /// Why it has no session, when it lost it or never got one.
    pub(super) lost: Option<(IncidentKind, String)>,
    pub(super) phases: Vec<Phase>,
    pub(super) watches_fired: u64,
}

impl Server {
    fn new(address: SocketAddr) -> Self {
        let phases = OPERATIONS
            .iter()
            .map(|_| Phase { done: 0, busy_ns: 0, latency: histogram(3), errors: BTreeMap::new(), cut: false })
            .collect();
        Self {
            address,
            name: address.to_string(),
            session: None,
            connected: false,
            ended: false,
            lost: None,
            phases,
            watches_fired: 0,
        }
    }
}

impl Server {
    fn is_asked(&self) -> bool {
        self.session.is_some() && !self.ended
    }
}

/// One run of the probe over its servers, each in its turn while the others rest.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) site: &'a Site,
    pub(super) window: &'a Window,
    pub(super) hub: Hub<()>,
    pub(super) servers: Vec<Server>,
    pub(super) path: String,
    data: Vec<u8>,
}

/// How a call ended.
pub(super) enum Answer {
    Ok,
    Error(&'static str),
    /// The connection is gone.
    Lost,
    /// The time was over before an answer came.
    Late,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        options: &'a Options,
        site: &'a Site,
        window: &'a Window,
        servers: &[SocketAddr],
    ) -> Result<Self, String> {
        let hub = Hub::new().map_err(|error| format!("the probe's event loop could not be made: {error}"))?;
        let servers = servers.iter().copied().map(Server::new).collect();
        let data = vec![b'x'; options.size_bytes as usize];
        Ok(Self { options, site, window, hub, servers, path: String::new(), data })
    }

    pub(super) fn now_ns(&self) -> i64 {
        self.site.clock.now_ns()
    }

    pub(super) fn over(&self) -> bool {
        self.window.cancelled.load(Ordering::Relaxed)
    }

    /// One pass of the hub; what it tells is noted with the server it belongs to. The reply of the call in flight, if
    /// it came.
    pub(super) fn turn(&mut self, wait: Duration) -> Option<Answer> {
        let (servers, mut answer) = (&mut self.servers, None);
        let turned = self.hub.turn(wait, |_, event| match event {
            Event::Reply { result, .. } => {
                answer = Some(match result {
                    Ok(_) => Answer::Ok,
                    Err(ReplyError::ConnectionLoss) => Answer::Lost,
                    Err(error) => Answer::Error(error.as_str()),
                });
            }
            Event::Connected { session, .. } => {
                of(servers, session).into_iter().for_each(|server| server.connected = true);
            }
            Event::Watch { session, .. } => {
                of(servers, session).into_iter().for_each(|server| server.watches_fired += 1);
            }
            Event::Disconnected { session, cause } => {
                lose(of(servers, session), IncidentKind::ConnectionClosed, &cause.to_string());
            }
            Event::Expired { session } => {
                lose(of(servers, session), IncidentKind::ConnectionClosed, "its session expired");
            }
            Event::AuthFailed { session } => {
                lose(of(servers, session), IncidentKind::ConnectionClosed, "its credentials were refused");
            }
            Event::Closed { session } => of(servers, session).into_iter().for_each(|server| server.session = None),
        });
        if let Err(error) = turned {
            self.servers.iter_mut().for_each(|server| {
                lose(Some(server), IncidentKind::ConnectionClosed, &format!("the event loop failed: {error}"));
            });
        }
        answer
    }

    /// Opens a session to each server; those that get none say why.
    pub(super) fn connect(&mut self) {
        let Some(spec) = self.site.target.zookeeper() else { return };
        for server in &mut self.servers {
            let options = ConnectOptions {
                source: self.site.sources.first().copied(),
                session_timeout_ms: self.options.session_timeout_ms,
                connect_timeout: Duration::from_secs(10),
                max_in_flight: super::sweep::WINDOW,
                ..spec.connect_options(server.address)
            };
            match self.hub.connect(&options) {
                Ok(session) => server.session = Some(session),
                Err(error) => {
                    server.lost = Some((IncidentKind::ConnectionClosed, format!("it could not connect: {error}")));
                }
            }
        }
        while self.servers.iter().any(|server| server.is_asked() && !server.connected) {
            if self.now_ns() >= self.window.until_ns || self.over() {
                for server in self.servers.iter_mut().filter(|server| !server.connected) {
                    lose(Some(server), IncidentKind::Stall, "it got no session before the measurement was over");
                }
                return;
            }
            self.turn(Duration::from_millis(50));
        }
    }

    /// All rounds, spread over the window. A phase that would take more than its share of what is left is cut, so that
    /// later phases get their turn.
    pub(super) fn rounds(&mut self) {
        let from_ns = self.window.from_ns.max(self.now_ns());
        let until_ns = match self.options.max_s {
            Some(max_s) => self.window.until_ns.min(from_ns + clock::seconds_ns(max_s)),
            None => self.window.until_ns,
        };
        let rounds = self.options.rounds.min(self.options.count);
        if self.window.warm_up {
            let mut round = 0;
            while self.now_ns() < until_ns
                && self.round(round, u64::from(self.options.count.div_ceil(rounds)), until_ns)
            {
                round += 1;
            }
            return;
        }
        let span_ns = (until_ns - from_ns) / i64::from(rounds);
        for round in 0..rounds {
            let begin_ns = from_ns + i64::from(round) * span_ns;
            if !self.idle_until(begin_ns) {
                return;
            }
            let first = u64::from(round) * u64::from(self.options.count) / u64::from(rounds);
            let end = (u64::from(round) + 1) * u64::from(self.options.count) / u64::from(rounds);
            if !self.round(round, end - first, begin_ns + span_ns) {
                return;
            }
        }
        self.idle_until(until_ns);
    }

    /// Keeps the sessions alive until then; false when the probe is to end.
    fn idle_until(&mut self, at_ns: i64) -> bool {
        loop {
            if self.over() || !self.servers.iter().any(Server::is_asked) {
                return false;
            }
            let left_ns = at_ns - self.now_ns();
            if left_ns <= 0 {
                return true;
            }
            let wait = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0)).min(Duration::from_millis(200));
            self.turn(wait);
        }
    }

    /// One round on each server in turn; false when no server is left.
    fn round(&mut self, round: u32, count: u64, until_ns: i64) -> bool {
        for index in 0..self.servers.len() {
            let now_ns = self.now_ns();
            let left = i64::try_from(self.servers.len() - index).unwrap_or(1);
            let own_ns = now_ns + (until_ns - now_ns).max(0) / left;
            if self.servers[index].is_asked() {
                self.round_on(index, round, count, own_ns);
            }
        }
        !self.over() && self.servers.iter().any(Server::is_asked)
    }

    fn round_on(&mut self, server: usize, round: u32, count: u64, until_ns: i64) {
        let mut made = count;
        for phase in 0..OPERATIONS.len() {
            let now_ns = self.now_ns();
            // One share more than there are phases: deletions must have the time that they need.
            let left = i64::try_from(OPERATIONS.len() + 1 - phase).unwrap_or(1);
            let deadline_ns = now_ns + (until_ns - now_ns).max(0) / left;
            let makes = matches!(phase, CREATE | CREATE_EPHEMERAL);
            // Later phases can only touch what create and create_ephemeral made.
            let Some(done) = self.phase(server, phase, round, if makes { count } else { made }, deadline_ns) else {
                return;
            };
            if makes {
                made = done;
            }
        }
    }

    /// One phase of one round; how many calls ended, or `None` when the session is gone or the time is over.
    fn phase(&mut self, server: usize, phase: usize, round: u32, count: u64, deadline_ns: i64) -> Option<u64> {
        // What was made must be deleted, whatever the time: the next round makes it again.
        let finish = matches!(phase, DELETE | DELETE_EPHEMERAL);
        let began_ns = self.now_ns();
        let mut called = 0;
        for index in 0..count {
            if !finish && called > 0 && self.now_ns() >= deadline_ns {
                self.servers[server].phases[phase].cut = true;
                break;
            }
            let sent_ns = self.now_ns();
            let answer = self.call(server, phase, round, index);
            let now_ns = self.now_ns();
            called += 1;
            let state = &mut self.servers[server].phases[phase];
            match answer {
                Answer::Ok => {
                    state.done += 1;
                    state.latency.saturating_record(micros(now_ns - sent_ns));
                    self.window.done.fetch_add(1, Ordering::Relaxed);
                }
                Answer::Error(code) => *state.errors.entry(code.to_owned()).or_default() += 1,
                Answer::Lost => {
                    *state.errors.entry("connection_loss".to_owned()).or_default() += 1;
                    state.busy_ns += now_ns - began_ns;
                    state.cut = true;
                    lose(Some(&mut self.servers[server]), IncidentKind::ConnectionClosed, "its connection was lost");
                    return None;
                }
                Answer::Late => {
                    // The time that the call took so far belongs to the rate. It is a failure of the target only when
                    // it was long: otherwise the measurement just ended while it was under way.
                    state.busy_ns += now_ns - began_ns;
                    state.cut = true;
                    let waited_ns = now_ns - sent_ns;
                    if waited_ns >= STALL_NS {
                        *state.errors.entry("timeout".to_owned()).or_default() += 1;
                        let why = format!("it got no answer for {:.1} s", waited_ns as f64 / 1e9);
                        lose(Some(&mut self.servers[server]), IncidentKind::Stall, &why);
                    }
                    return None;
                }
            }
        }
        self.servers[server].phases[phase].busy_ns += self.now_ns() - began_ns;
        Some(called)
    }

    fn call(&mut self, server: usize, phase: usize, round: u32, index: u64) -> Answer {
        let Some(session) = self.servers[server].session else { return Answer::Lost };
        self.path.clear();
        let _ = write!(
            self.path,
            "{}/p{}-{:x}-{server}-{round}-{index}",
            self.site.root, self.site.unit, self.window.from_ns
        );
        let path = self.path.as_str();
        let request = match phase {
            CREATE => Request::Create { path, data: &self.data, mode: CreateMode::Persistent },
            SET => Request::SetData { path, data: &self.data, version: -1 },
            GET => Request::GetData { path, watch: false },
            CREATE_EPHEMERAL => Request::Create { path, data: &self.data, mode: CreateMode::Ephemeral },
            WATCH => Request::Exists { path, watch: true },
            _ => Request::Delete { path, version: -1 },
        };
        if self.hub.submit(session, (), &request).is_err() {
            return Answer::Lost;
        }
        loop {
            let left_ns = self.window.until_ns - self.now_ns();
            if left_ns <= 0 || self.over() {
                return Answer::Late;
            }
            let wait = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0)).min(Duration::from_millis(500));
            if let Some(answer) = self.turn(wait) {
                return answer;
            }
            if self.servers[server].session.is_none() {
                return Answer::Lost;
            }
        }
    }
}

fn of(servers: &mut [Server], session: SessionKey) -> Option<&mut Server> {
    servers.iter_mut().find(|server| server.session == Some(session))
}

/// A server is not asked any more; the first reason counts.
fn lose(server: Option<&mut Server>, kind: IncidentKind, why: &str) {
    if let Some(server) = server {
        // A session that only fell silent still has to be closed: its ephemeral znodes would outlive the trial.
        if kind == IncidentKind::ConnectionClosed {
            server.session = None;
        }
        server.ended = true;
        server.lost.get_or_insert_with(|| (kind, why.to_owned()));
    }
}
