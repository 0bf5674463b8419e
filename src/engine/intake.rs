//! Everything that comes in while a run goes on: samplers, units, processes. Forwards samples, keeps what a trial needs.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    units::{FromUnit, Units},
    vital_signs::Silence,
};
use crate::{
    analysis::{Guards, leadership::Rounds},
    launch::Managed,
    model::{Clock, Incident, RunEvent, Sample, metric::GENERATOR},
    target::{Observation, Sampler},
    workload::{Block, Progress},
};

/// Sources that are asked more seldom than this are asked at the edges of a measurement too.
const OFTEN: Duration = Duration::from_secs(2);
/// Observations that may wait.
const OBSERVATIONS: usize = 256;

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// What was waited for holds.
    Reached,
    /// The time is over.
    Deadline,
    /// The target died or has not answered for too long.
    GaveWay,
    Cancelled,
    TimeBudget,
    /// A guard tripped.
    Guarded,
}

/// What the load's own last report said.
#[derive(Debug, Clone)]
pub(super) struct LoadWord {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
    pub(super) attached: BTreeMap<SocketAddr, u64>,
    pub(super) detached: u64,
    pub(super) asked: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
}

/// The coordinator's ears.
pub(super) struct Intake {
    pub(super) clock: Clock,
    events: mpsc::Sender<RunEvent>,
    cancel: CancellationToken,
    /// The arm that everything belongs to.
    pub(super) arm: u32,
    /// Absolute time at which the time budget is over.
    pub(super) budget_ns: i64,
    observations: mpsc::Receiver<(bool, Observation)>,
    /// Tells sources that are asked seldom to be asked now.
    edges: watch::Sender<u64>,
    /// How many such sources there are, and how many have answered since the last edge.
    seldom: (usize, usize),
    sampling: TaskTracker,
    stop_sampling: CancellationToken,
    pub(super) units: Option<Units>,
    /// Readings since the last [`Intake::begin`].
    pub(super) samples: Vec<Sample>,
    pub(super) blocks: Vec<Block>,
    pub(super) incidents: Vec<Incident>,
    pub(super) silent: HashMap<String, Silence>,
    /// Who leads, round by round.
    pub(super) leadership: Rounds,
    /// When each node answered last.
    pub(super) answered: HashMap<String, i64>,
    /// Nodes seen stopped by a signal since the last [`Intake::begin`].
    pub(super) paused: Vec<String>,
    /// Whether any process of the target is stopped by a signal right now.
    pub(super) stopped: bool,
    pub(super) died: bool,
    /// Servers that the scenario itself took away.
    pub(super) away: Vec<String>,
    /// The scenario acts on the target: silence says nothing until it serves again.
    pub(super) acting: bool,
    pub(super) guards: Guards,
    pub(super) load_word: Option<LoadWord>,
    /// A managed server's log told of lost threads.
    pub(super) out_of_memory: bool,
    /// The load's operations that change the target.
    pub(super) writes: &'static [&'static str],
    /// Operations that the running probe has done.
    pub(super) probe_done: std::sync::Arc<std::sync::atomic::AtomicU64>,
    probe_before: (i64, u64),
}

impl std::fmt::Debug for Intake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intake")
            .field("samples", &self.samples.len())
            .field("incidents", &self.incidents)
            .finish_non_exhaustive()
    }
}

impl Intake {
    pub(super) fn new(clock: Clock, events: mpsc::Sender<RunEvent>, cancel: CancellationToken) -> Self {
        let (_, observations) = mpsc::channel(1);
        Self {
            clock,
            events,
            cancel,
            arm: 0,
            budget_ns: i64::MAX,
            observations,
            edges: watch::Sender::new(0),
            seldom: (0, 0),
            sampling: TaskTracker::new(),
            stop_sampling: CancellationToken::new(),
            units: None,
            samples: Vec::new(),
            blocks: Vec::new(),
            incidents: Vec::new(),
            silent: HashMap::new(),
            leadership: Rounds::default(),
            answered: HashMap::new(),
            paused: Vec::new(),
            stopped: false,
            died: false,
            away: Vec::new(),
            acting: false,
            guards: Guards::default(),
            load_word: None,
            out_of_memory: false,
            writes: &[],
            probe_done: std::sync::Arc::default(),
            probe_before: (clock.now_ns(), 0),
        }
    }

    /// The ears of the same arm for a target that was launched again: nothing of the old one is kept.
    pub(super) fn renewed(self) -> Self {
        Self { arm: self.arm, budget_ns: self.budget_ns, ..Self::new(self.clock, self.events, self.cancel) }
    }

    /// Tells an event. When nobody listens any more the run is cancelled: no one would record it.
    pub(super) async fn tell(&self, event: RunEvent) {
        if self.events.send(event).await.is_err() {
            self.cancel.cancel();
        }
    }

    /// Tells the reader of the run something in words.
    pub(super) async fn note(&self, text: String) {
        self.tell(RunEvent::Note { at_ns: self.clock.now_ns(), text }).await;
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    pub(super) fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Starts one task a sampler.
    pub(super) fn sample_with(&mut self, samplers: Vec<Box<dyn Sampler>>) {
        let (sender, receiver) = mpsc::channel(OBSERVATIONS);
        self.observations = receiver;
        for mut sampler in samplers {
            let (sender, stop) = (sender.clone(), self.stop_sampling.clone());
            let mut edge = self.edges.subscribe();
            let seldom = sampler.every() > OFTEN;
            self.seldom.0 += usize::from(seldom);
            self.sampling.spawn(async move {
                let mut next = tokio::time::Instant::now();
                loop {
                    let observation = tokio::select! {
                        () = stop.cancelled() => return,
                        observation = sampler.sample() => observation,
                    };
                    if sender.send((seldom, observation)).await.is_err() {
                        return;
                    }
                    // Missed rounds are left out: a slow source must not be asked in bursts.
                    next = (next + sampler.every()).max(tokio::time::Instant::now());
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep_until(next) => {}
                        _ = edge.changed(), if seldom => next = tokio::time::Instant::now(),
                    }
                }
            });
        }
        self.sampling.close();
    }

    pub(super) async fn stop_sampling(&mut self) {
        self.stop_sampling.cancel();
        self.observations.close();
        // A sampler that hangs in a system call must not keep a run from ending.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.sampling.wait()).await;
    }

    /// Asks the sources that are asked seldom, now.
    pub(super) fn edge(&mut self) {
        self.seldom.1 = 0;
        self.edges.send_modify(|edge| *edge += 1);
    }

    /// Whether all of them have answered since.
    pub(super) fn edge_answered(&self) -> bool {
        self.seldom.1 >= self.seldom.0
    }

    /// Forgets what belonged to the trial before, and what came in after its end. A silence that lasts begins anew, so
    /// that the next trial sees for itself.
    pub(super) async fn begin(&mut self) {
        while let Ok((_, observation)) = self.observations.try_recv() {
            self.take(observation).await;
        }
        let now_ns = self.clock.now_ns();
        self.leadership.begin();
        self.silent.values_mut().for_each(|silence| silence.since_ns = now_ns);
        self.samples.clear();
        self.blocks.clear();
        self.incidents.clear();
        self.paused.clear();
    }

    /// Waits until every node answers and no process of the target is stopped, but not for one that has given way.
    pub(super) async fn recover(&mut self, managed: Option<&dyn Managed>) {
        self.until(i64::MAX, managed, |intake| intake.silent.is_empty() && !intake.stopped).await;
    }

    /// Takes everything in until `reached` says so, the deadline, or the end of the run or the target.
    pub(super) async fn until(
        &mut self,
        deadline_ns: i64,
        managed: Option<&dyn Managed>,
        mut reached: impl FnMut(&Self) -> bool,
    ) -> Ended {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut look_ns = 0;
        loop {
            let now_ns = self.clock.now_ns();
            if self.cancel.is_cancelled() {
                return Ended::Cancelled;
            }
            if now_ns >= self.budget_ns {
                return Ended::TimeBudget;
            }
            if now_ns >= look_ns {
                look_ns = now_ns + 500_000_000;
                self.look_at_processes(managed);
                self.tell_probe(now_ns).await;
            }
            if self.guards.trip().is_some() {
                return Ended::Guarded;
            }
            if self.died || self.gave_up(now_ns) {
                return Ended::GaveWay;
            }
            if reached(self) {
                return Ended::Reached;
            }
            if now_ns >= deadline_ns {
                return Ended::Deadline;
            }
            let cancel = self.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                Some((seldom, observation)) = self.observations.recv() => {
                    self.seldom.1 += usize::from(seldom);
                    self.take(observation).await;
                }
                Some(message) = next_report(&mut self.units) => self.take_report(message).await,
                _ = tick.tick() => {}
            }
        }
    }

    /// Goes on taking everything in until a task is done. `None`: the task broke. When the run or the target ends first, the
    /// task is ended too.
    pub(super) async fn meanwhile<T>(
        &mut self,
        managed: Option<&dyn Managed>,
        mut task: JoinHandle<T>,
    ) -> Result<Option<T>, Ended> {
        let ended = self.until(i64::MAX, managed, |_| task.is_finished()).await;
        if ended == Ended::Reached {
            return Ok((&mut task).await.ok());
        }
        task.abort();
        let _ = task.await;
        Err(ended)
    }

    async fn take(&mut self, observation: Observation) {
        let Observation { samples, conditions, incidents } = observation;
        for condition in conditions {
            self.take_condition(condition);
        }
        self.incidents.extend(incidents);
        if !samples.is_empty() {
            self.take_samples(samples).await;
        }
    }

    async fn take_samples(&mut self, samples: Vec<Sample>) {
        samples.iter().for_each(|sample| self.guards.take(sample));
        self.samples.extend(samples.iter().cloned());
        self.tell(RunEvent::Samples { samples }).await;
    }

    async fn take_report(&mut self, message: FromUnit) {
        let FromUnit::Report { report, .. } = message else { return };
        let block = &report.block;
        let seconds = (block.to_ns - block.from_ns) as f64 / 1e9;
        if seconds > 0.0 {
            let at_ns = block.to_ns;
            let sample = |metric: &str, value: f64| Sample {
                at_ns,
                node: GENERATOR.to_owned(),
                metric: metric.to_owned(),
                value,
            };
            let is_write = |name: &str| self.writes.contains(&name);
            let sum = |write: bool| {
                block.done.iter().filter(|(name, _)| is_write(name) == write).map(|(_, n)| *n).sum::<u64>() as f64
            };
            let (Progress::Moving { confirmed } | Progress::Ready { confirmed } | Progress::Failed { confirmed, .. }) =
                &report.progress;
            let mut samples = vec![
                sample("load_confirmed", *confirmed as f64),
                sample("load_sessions", report.attached.values().sum::<u64>() as f64),
                sample("load_writes_per_s", sum(true) / seconds),
                sample("load_reads_per_s", sum(false) / seconds),
                sample("missed_arrivals", block.missed as f64),
            ];
            samples.extend(block.in_flight.map(|count| sample("load_in_flight", count as f64)));
            if let Some(lag) = block.start_lag.as_ref().and_then(crate::workload::recorder::NamedHistogram::decode) {
                samples.push(sample("start_lag_p99_ms", lag.value_at_quantile(0.99) as f64 / 1e3));
            }
            self.take_samples(samples).await;
        }
        let count = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        self.load_word = Some(LoadWord {
            from_ns: report.block.from_ns,
            to_ns: report.block.to_ns,
            attached: report.attached.clone(),
            detached: report.detached,
            asked: count(&report.block.asked),
            done: count(&report.block.done),
            failed: count(&report.block.failed),
        });
        self.incidents.extend(report.incidents.iter().cloned());
        self.blocks.push(report.block);
    }

    /// The probe's rate so far, for the live page.
    async fn tell_probe(&mut self, now_ns: i64) {
        let done = self.probe_done.load(std::sync::atomic::Ordering::Relaxed);
        let (before_ns, before) = self.probe_before;
        let seconds = (now_ns - before_ns) as f64 / 1e9;
        if seconds < 1.0 {
            return;
        }
        self.probe_before = (now_ns, done);
        if done > before {
            let value = (done - before) as f64 / seconds;
            let sample =
                Sample { at_ns: now_ns, node: GENERATOR.to_owned(), metric: "probe_ops_per_s".to_owned(), value };
            self.tell(RunEvent::Samples { samples: vec![sample] }).await;
        }
    }
}

/// The next report of the units; never, without any.
async fn next_report(units: &mut Option<Units>) -> Option<FromUnit> {
    match units {
        Some(units) => units.next().await,
        None => std::future::pending().await,
    }
}
