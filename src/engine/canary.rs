//! A client of its own that asks the target for one small thing again and again: what anybody else who uses the target
//! sees. Never part of the load, on a thread of its own, also while the load is put in place.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use zk_wire::{Client, ClientError, ConnectOptions, CreateMode, ErrorCode};

use crate::{
    model::{Clock, Sample, metric::GENERATOR},
    target::{Observation, Sampler, zookeeper::ZookeeperSpec},
};

/// How long its end is waited for.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
/// How often a canary of a guard asks.
const EVERY: Duration = Duration::from_secs(1);
/// How often a canary asks that is to see when a target serves again.
pub(super) const WATCH_EVERY: Duration = Duration::from_millis(100);
/// A call that takes longer is begun anew, on another server where there is one.
const PATIENCE: Duration = Duration::from_secs(10);
const WATCH_PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);
/// Not the load's addresses: neither its limit nor its count has to do with the canary.
const LOOPBACK_SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 5, 1));

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ask {
    /// Reads this znode.
    Read(String),
    /// Writes this znode, which needs a quorum.
    Write(String),
}

/// What the thread has seen, as it goes on.
#[derive(Debug, Default)]
struct Seen {
    stop: AtomicBool,
    /// When the call was due that is not answered yet; 0 without one.
    waiting_since_ns: AtomicI64,
    /// When the first call was answered, 0 before it.
    first_answer_ns: AtomicI64,
    /// How long the last call took that was answered.
    took_ns: AtomicI64,
}

/// A canary at work. Dropping it ends its session.
#[derive(Debug)]
pub(super) struct Canary {
    clock: Clock,
    seen: Arc<Seen>,
    thread: thread::JoinHandle<()>,
}

impl Canary {
    /// Reads the run's root once a second.
    pub(super) fn reading(clock: Clock, spec: &ZookeeperSpec, root: &str) -> std::io::Result<Self> {
        Self::start(clock, spec, spec.servers.clone(), Ask::Read(root.to_owned()), EVERY)
    }

    /// Writes a znode of its own through these servers ten times a second.
    pub(super) fn writing(
        clock: Clock,
        spec: &ZookeeperSpec,
        servers: Vec<SocketAddr>,
        root: &str,
    ) -> std::io::Result<Self> {
        Self::start(clock, spec, servers, Ask::Write(format!("{root}/canary")), WATCH_EVERY)
    }

    fn start(
        clock: Clock,
        spec: &ZookeeperSpec,
        servers: Vec<SocketAddr>,
        ask: Ask,
        every: Duration,
    ) -> std::io::Result<Self> {
        let seen = Arc::new(Seen::default());
        let caller = Caller { clock, spec: spec.clone(), servers, ask, seen: Arc::clone(&seen), client: None, turn: 0 };
        let thread = thread::Builder::new().name("canary".to_owned()).spawn(move || caller.work(every))?;
        Ok(Self { clock, seen, thread })
    }

    /// When a call was answered for the first time.
    pub(super) fn first_answer_ns(&self) -> Option<i64> {
        Some(self.seen.first_answer_ns.load(Ordering::Relaxed)).filter(|at_ns| *at_ns > 0)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        // Its session should be gone when the run is; one that hangs on a target is not waited for.
        let since = Instant::now();
        while !self.thread.is_finished() && since.elapsed() < ENDS_WITHIN {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[async_trait]
impl Sampler for Canary {
    fn every(&self) -> Duration {
        EVERY
    }

    /// The last answer's time, or how long the call under way has waited already when that is more.
    async fn sample(&mut self) -> Observation {
        let at_ns = self.clock.now_ns();
        let since_ns = self.seen.waiting_since_ns.load(Ordering::Relaxed);
        let waited_ns = if since_ns > 0 { at_ns - since_ns } else { 0 };
        let took_ns = self.seen.took_ns.load(Ordering::Relaxed);
        if took_ns == 0 && waited_ns == 0 {
            return Observation::default();
        }
        let value = waited_ns.max(took_ns) as f64 / 1e6;
        let sample = Sample { at_ns, node: GENERATOR.to_owned(), metric: "canary_ms".to_owned(), value };
        Observation { samples: vec![sample], ..Observation::default() }
    }
}

/// The thread's side.
struct Caller {
    clock: Clock,
    spec: ZookeeperSpec,
    servers: Vec<SocketAddr>,
    ask: Ask,
    seen: Arc<Seen>,
    client: Option<Client>,
    /// Attempts that failed: each goes on to the next server.
    turn: usize,
}

impl Caller {
    fn work(mut self, every: Duration) {
        let every_ns = crate::model::clock::nanos(every);
        let mut due_ns = self.clock.now_ns();
        while !self.stopped() {
            self.seen.waiting_since_ns.store(due_ns, Ordering::Relaxed);
            while !self.stopped() && !self.try_once() {
                thread::sleep(RETRY);
            }
            let now_ns = self.clock.now_ns();
            if !self.stopped() {
                self.seen.took_ns.store((now_ns - due_ns).max(1), Ordering::Relaxed);
                let _ = self.seen.first_answer_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
            }
            self.seen.waiting_since_ns.store(0, Ordering::Relaxed);
            // What fell due while it waited was waited for too; it is not asked in a burst.
            due_ns = (due_ns + every_ns).max(now_ns);
            self.rest_until(due_ns);
        }
        if let Some(client) = self.client.take() {
            let _ = client.close();
        }
    }

    fn stopped(&self) -> bool {
        self.seen.stop.load(Ordering::Relaxed)
    }

    /// One call, over a new connection where the last one is gone; whether it was answered.
    fn try_once(&mut self) -> bool {
        if self.client.is_none() {
            let Some(server) = self.servers.get(self.turn % self.servers.len().max(1)) else { return false };
            self.client = self.connect(*server).ok();
        }
        let answered = match &mut self.client {
            // An error that the target itself gives is an answer to a read; a write has to be done.
            Some(client) => match call(client, &self.ask) {
                Ok(()) => true,
                Err(ClientError::Server(_)) => matches!(self.ask, Ask::Read(_)),
                Err(_) => false,
            },
            None => false,
        };
        if !answered {
            self.turn += 1;
            self.client.take().into_iter().for_each(Client::abandon);
        }
        answered
    }

    fn connect(&self, server: SocketAddr) -> Result<Client, ClientError> {
        let patience = if matches!(self.ask, Ask::Read(_)) { PATIENCE } else { WATCH_PATIENCE };
        let options = ConnectOptions {
            source: (server.is_ipv4() && server.ip().is_loopback()).then_some(LOOPBACK_SOURCE),
            session_timeout_ms: 10_000,
            connect_timeout: patience,
            ..self.spec.connect_options(server)
        };
        Client::connect(&options, patience)
    }

    /// Keeps the session alive until then.
    fn rest_until(&mut self, due_ns: i64) {
        while !self.stopped() {
            let left_ns = due_ns - self.clock.now_ns();
            let Ok(left) = u64::try_from(left_ns).map(Duration::from_nanos) else { return };
            if left.is_zero() {
                return;
            }
            let part = left.min(Duration::from_millis(50));
            match self.client.as_mut().map(|client| client.idle(part)) {
                Some(Ok(())) => {}
                Some(Err(_)) => self.client = None,
                None => thread::sleep(part),
            }
        }
    }
}

fn call(client: &mut Client, ask: &Ask) -> Result<(), ClientError> {
    match ask {
        Ask::Read(path) => client.get(path).map(drop),
        Ask::Write(path) => match client.set(path, b"", -1) {
            Err(ClientError::Server(ErrorCode::NoNode)) => client.create(path, b"", CreateMode::Persistent).map(drop),
            other => other.map(drop),
        },
    }
}
