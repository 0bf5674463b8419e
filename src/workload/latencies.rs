//! `zookeeper.latencies`: seven phases by one client with one call in flight, as phunt/zk-smoketest's zk-latencies does
//! them with `--synchronous`. Its rate is 1 / latency of one client, not what the server could take.

mod session;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::Deserialize;
use zk_wire::{CreateMode, Event, Hub, ReplyError, Request, SessionKey};

use super::{
    Probe, ProbeReport, Site, Window, options,
    recorder::{NamedHistogram, histogram, micros, percentiles},
    within,
};
use crate::model::{Fault, Incident, IncidentKind, OperationStat, clock};

/// The name in scenarios.
pub const NAME: &str = "zookeeper.latencies";

/// The phases, in order.
pub const OPERATIONS: &[&str] = &["create", "set", "get", "delete", "create_ephemeral", "watch", "delete_ephemeral"];

/// What a call may take at least, also when the time of the probe is over meanwhile.
const GRACE_NS: i64 = 1_000_000_000;

/// Options of `[[probe]]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Znodes a phase.
    pub count: u32,
    pub size_bytes: u32,
    /// The longest that the whole probe may take; `measure_s` when absent.
    pub max_s: Option<f64>,
    /// The count is done in so many rounds, spread over the measurement, so that it sees more than one moment of it.
    pub rounds: u32,
    pub session_timeout_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { count: 10_000, size_bytes: 100, max_s: None, rounds: 5, session_timeout_ms: 20_000 }
    }
}

/// Reads the options.
pub(super) fn build(value: toml::Value) -> Result<Arc<dyn Probe>, Fault> {
    let options: Options = options(value)?;
    within("count", f64::from(options.count), 1.0, 10_000_000.0)?;
    within("size_bytes", f64::from(options.size_bytes), 0.0, 1_000_000.0)?;
    within("rounds", f64::from(options.rounds), 1.0, 1_000.0)?;
    within("session_timeout_ms", f64::from(options.session_timeout_ms), 1_000.0, 600_000.0)?;
    if let Some(max_s) = options.max_s {
        within("max_s", max_s, 0.1, 86_400.0)?;
    }
    Ok(Arc::new(Latencies { options, left: AtomicBool::new(false) }))
}

/// The probe with its options.
#[derive(Debug)]
pub struct Latencies {
    pub options: Options,
    /// The run before could not remove its znodes.
    left: AtomicBool,
}

impl Probe for Latencies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operations(&self) -> &'static [&'static str] {
        OPERATIONS
    }

    fn remark(&self) -> String {
        let Options { count, size_bytes, rounds, .. } = &self.options;
        format!(
            "The probe is one client with one call in flight: {count} znodes of {size_bytes} bytes a phase, in {rounds} rounds; its rates are 1 / latency."
        )
    }

    fn run(&self, site: &Site, window: &Window) -> ProbeReport {
        let mut run = match Run::new(&self.options, site, window) {
            Ok(run) => run,
            Err(text) => return unreachable(site, text),
        };
        if let Err(text) = run.connect() {
            return unreachable(site, text);
        }
        if self.left.swap(false, Ordering::Relaxed) {
            run.remove_left();
        }
        let complete = run.rounds();
        self.left.store(!complete, Ordering::Relaxed);
        run.report()
    }
}

fn unreachable(site: &Site, text: String) -> ProbeReport {
    let incident =
        Incident { at_ns: site.clock.now_ns(), kind: IncidentKind::Stall, node: String::new(), text, amount: 1.0 };
    ProbeReport { incidents: vec![incident], ..ProbeReport::default() }
}

/// What one phase has done so far.
struct Phase {
    done: u64,
    busy_ns: i64,
    latency: Histogram<u64>,
    errors: BTreeMap<String, u64>,
    cut: bool,
}

/// One run of the probe.
struct Run<'a> {
    options: &'a Options,
    site: &'a Site,
    window: &'a Window,
    hub: Hub<()>,
    session: Option<SessionKey>,
    phases: Vec<Phase>,
    watches_fired: u64,
    path: String,
    data: Vec<u8>,
}

/// How a call ended.
enum Answer {
    Ok,
    Error(&'static str),
    /// The connection is gone.
    Lost,
    /// The time was over before an answer came.
    Late,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, site: &'a Site, window: &'a Window) -> Result<Self, String> {
        let hub = Hub::new().map_err(|error| format!("the probe's event loop could not be made: {error}"))?;
        let phases = OPERATIONS
            .iter()
            .map(|_| Phase { done: 0, busy_ns: 0, latency: histogram(3), errors: BTreeMap::new(), cut: false })
            .collect();
        let data = vec![b'x'; options.size_bytes as usize];
        Ok(Self { options, site, window, hub, session: None, phases, watches_fired: 0, path: String::new(), data })
    }

    fn now_ns(&self) -> i64 {
        self.site.clock.now_ns()
    }

    fn over(&self) -> bool {
        self.window.cancelled.load(Ordering::Relaxed)
    }

    /// All rounds, spread over the window. A phase that would take more than its share of what is left is cut, so that
    /// later phases get their turn. False when znodes may be left.
    fn rounds(&mut self) -> bool {
        let from_ns = self.window.from_ns.max(self.now_ns());
        let until_ns = match self.options.max_s {
            Some(max_s) => self.window.until_ns.min(from_ns + clock::seconds_ns(max_s)),
            None => self.window.until_ns,
        };
        let rounds = self.options.rounds.min(self.options.count);
        let span_ns = (until_ns - from_ns) / i64::from(rounds);
        for round in 0..rounds {
            let begin_ns = from_ns + i64::from(round) * span_ns;
            if !self.idle_until(begin_ns) {
                // Between rounds nothing is there.
                return true;
            }
            let first = u64::from(round) * u64::from(self.options.count) / u64::from(rounds);
            let end = (u64::from(round) + 1) * u64::from(self.options.count) / u64::from(rounds);
            if !self.round(round, end - first, begin_ns + span_ns) {
                return false;
            }
        }
        self.idle_until(until_ns);
        true
    }

    /// Keeps the session alive until then; false when the probe is to end.
    fn idle_until(&mut self, at_ns: i64) -> bool {
        loop {
            let left_ns = at_ns - self.now_ns();
            if self.over() || self.session.is_none() {
                return false;
            }
            if left_ns <= 0 {
                return true;
            }
            let wait = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0)).min(Duration::from_millis(200));
            let (mut fired, mut lost) = (0, false);
            let turned = self.hub.turn(wait, |_, event| match event {
                Event::Watch { .. } => fired += 1,
                Event::Disconnected { .. } | Event::Expired { .. } => lost = true,
                Event::Connected { .. } | Event::Reply { .. } | Event::Closed { .. } | Event::AuthFailed { .. } => {}
            });
            self.watches_fired += fired;
            if lost || turned.is_err() {
                self.session = None;
            }
        }
    }

    fn round(&mut self, round: u32, count: u64, until_ns: i64) -> bool {
        let mut made = count;
        for phase in 0..OPERATIONS.len() {
            // One share more than there are phases: deletions must have the time that they need.
            let left = i64::try_from(OPERATIONS.len() + 1 - phase).unwrap_or(1);
            let deadline_ns = self.now_ns() + (until_ns - self.now_ns()).max(0) / left;
            // Later phases can only touch what create and create_ephemeral made.
            let wanted = if matches!(phase, 0 | 4) { count } else { made };
            let deletes = matches!(phase, 3 | 6);
            let Some(done) = self.phase(phase, round, wanted, deadline_ns, deletes) else { return false };
            if matches!(phase, 0 | 4) {
                made = done;
            }
        }
        true
    }

    /// One phase of one round; how many calls ended, or `None` when the session is gone.
    fn phase(&mut self, phase: usize, round: u32, count: u64, deadline_ns: i64, finish: bool) -> Option<u64> {
        let began_ns = self.now_ns();
        let mut called = 0;
        for index in 0..count {
            // What was made must be deleted, whatever the time: the next round makes it again.
            if !finish && called > 0 && self.now_ns() >= deadline_ns {
                self.phases[phase].cut = true;
                break;
            }
            let sent_ns = self.now_ns();
            if sent_ns >= self.window.until_ns {
                // The next run removes the rest.
                self.phases[phase].cut = true;
                self.phases[phase].busy_ns += sent_ns - began_ns;
                return None;
            }
            let answer = self.call(phase, round, index);
            let now_ns = self.now_ns();
            called += 1;
            let state = &mut self.phases[phase];
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
                    self.session = None;
                    return None;
                }
                Answer::Late => {
                    // The call that never came back belongs to the rate: it is the time that was lost.
                    *state.errors.entry("timeout".to_owned()).or_default() += 1;
                    state.busy_ns += now_ns - began_ns;
                    state.cut = true;
                    return None;
                }
            }
        }
        self.phases[phase].busy_ns += self.now_ns() - began_ns;
        Some(called)
    }

    fn call(&mut self, phase: usize, round: u32, index: u64) -> Answer {
        let mut written = std::mem::take(&mut self.path);
        written.clear();
        let _ = write!(written, "{}/p{}-{round}-{index}", self.site.root, self.site.unit);
        let path = written.as_str();
        let data = std::mem::take(&mut self.data);
        let request = match phase {
            0 => Request::Create { path, data: &data, mode: CreateMode::Persistent },
            1 => Request::SetData { path, data: &data, version: -1 },
            2 => Request::GetData { path, watch: false },
            4 => Request::Create { path, data: &data, mode: CreateMode::Ephemeral },
            5 => Request::Exists { path, watch: true },
            _ => Request::Delete { path, version: -1 },
        };
        let answer = self.ask(&request);
        (self.path, self.data) = (written, data);
        answer
    }

    /// One request and its answer.
    fn ask(&mut self, request: &Request<'_>) -> Answer {
        let Some(session) = self.session else { return Answer::Lost };
        if self.hub.submit(session, (), request).is_err() {
            return Answer::Lost;
        }
        // A call that the end of the time finds under way is no failure: it has a moment to come back.
        let give_up_ns = self.window.until_ns.max(self.now_ns() + GRACE_NS);
        let mut answer = None;
        let mut fired = 0;
        while answer.is_none() {
            let left_ns = give_up_ns - self.site.clock.now_ns();
            if left_ns <= 0 || self.over() {
                answer = Some(Answer::Late);
                break;
            }
            let wait = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0)).min(Duration::from_millis(500));
            let turned = self.hub.turn(wait, |_, event| match event {
                Event::Reply { result, .. } => {
                    answer = Some(match result {
                        Ok(_) => Answer::Ok,
                        Err(ReplyError::ConnectionLoss) => Answer::Lost,
                        Err(error) => Answer::Error(error.as_str()),
                    });
                }
                Event::Watch { .. } => fired += 1,
                Event::Disconnected { .. } | Event::Expired { .. } => answer = Some(Answer::Lost),
                Event::Connected { .. } | Event::Closed { .. } | Event::AuthFailed { .. } => {}
            });
            if turned.is_err() {
                answer = Some(Answer::Lost);
            }
        }
        self.watches_fired += fired;
        answer.unwrap_or(Answer::Lost)
    }

    /// The figures; a last look at the watches that fired.
    fn report(mut self) -> ProbeReport {
        let mut report = ProbeReport::default();
        let set: u64 = self.phases[5].done;
        if let Some(session) = self.session.take() {
            let mut fired = 0;
            let mut open = self.hub.close(session).is_ok();
            let give_up_ns = self.now_ns() + 2_000_000_000;
            while open && self.now_ns() < give_up_ns {
                let turned = self.hub.turn(Duration::from_millis(100), |_, event| match event {
                    Event::Watch { .. } => fired += 1,
                    Event::Closed { .. } | Event::Disconnected { .. } | Event::Expired { .. } => open = false,
                    Event::Connected { .. } | Event::Reply { .. } | Event::AuthFailed { .. } => {}
                });
                open &= turned.is_ok();
            }
            self.watches_fired += fired;
        } else {
            report.incidents.push(Incident {
                at_ns: self.now_ns(),
                kind: IncidentKind::Stall,
                node: String::new(),
                text: "the probe lost its session or got no answer before the measurement was over".to_owned(),
                amount: 1.0,
            });
        }
        // A znode that was not deleted notifies nobody.
        let deleted = !self.phases[6].cut && self.phases[6].errors.is_empty();
        if deleted && self.watches_fired < set {
            let missing = set - self.watches_fired;
            *self.phases[5].errors.entry("notification_missing".to_owned()).or_default() += missing;
        }
        let requested = u64::from(self.options.count);
        for (operation, phase) in OPERATIONS.iter().zip(&self.phases) {
            let elapsed_s = phase.busy_ns as f64 / 1e9;
            let latency = percentiles(&phase.latency);
            report.operations.push(OperationStat {
                stream: NAME.to_owned(),
                probe: true,
                operation: (*operation).to_owned(),
                done: phase.done,
                elapsed_s,
                ops_per_s: if elapsed_s > 0.0 { phase.done as f64 / elapsed_s } else { 0.0 },
                asked: Some(requested),
                cut: phase.cut || phase.done < requested,
                latency: latency.clone(),
                service: latency,
                errors: phase.errors.clone(),
                ..OperationStat::default()
            });
            report.histograms.extend(NamedHistogram::of(operation, "ok", "service", &phase.latency));
        }
        report
    }
}
