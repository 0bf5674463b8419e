//! One trial of one step: put the load in place, settle, measure, gather.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use super::{
    Floor,
    intake::{Ended, Intake},
    units::{ToUnit, next_second},
};
use crate::{
    analysis::steady,
    model::{
        CountCheck, Health, HistogramRecord, Incident, IncidentKind, Outcome, Phase, RunEvent, Sample, Trial, clock,
    },
    workload::{ProbeReport, Progress, Window},
};

/// What a trial gave, and how the run goes on.
pub(super) struct Gathered {
    pub(super) trial: Trial,
    pub(super) histograms: Vec<HistogramRecord>,
    /// The target's readings during the measurement, for rules that look at time.
    pub(super) samples: Vec<Sample>,
    /// Not `None`: the run itself has to end.
    pub(super) ended: Option<Ended>,
}

/// How long the target is asked for its counts.
const COUNTS_LIMIT: Duration = Duration::from_secs(30);
/// Settling at least this long before steadiness is looked for.
const SETTLE_MIN_NS: i64 = 3_000_000_000;

impl Floor {
    pub(super) async fn measure(&mut self, load: u64, step: u32, trial: u32) -> Gathered {
        self.intake.begin().await;
        let mut made = self.begun(load, step, trial);
        let mut probes = ProbeReport::default();
        let mut ended = self.fill(&mut made).await;
        let cold = std::mem::take(&mut self.fresh);
        if ended == Ended::Reached && cold && self.plan.scenario.warm_up_s > 0.0 {
            ended = self.warm_up(&made).await;
        }
        if ended == Ended::Reached {
            ended = self.settle(&mut made).await;
        }
        if ended == Ended::Reached {
            (ended, probes) = self.hold(&mut made).await;
        }
        self.end(made, probes, ended).await
    }

    /// A trial of which nothing is known yet.
    pub(super) fn begun(&self, load: u64, step: u32, trial: u32) -> Trial {
        let started_ns = self.intake.clock.now_ns();
        Trial {
            arm: self.intake.arm,
            step,
            trial,
            load,
            started_ns,
            measure_from_ns: started_ns,
            ended_ns: started_ns,
            fill_s: 0.0,
            settle_s: 0.0,
            measure_s: 0.0,
            operations: Vec::new(),
            counts: Vec::new(),
            census: BTreeMap::new(),
            nodes: BTreeMap::new(),
            health: Health::default(),
            incidents: Vec::new(),
            gave_way: false,
            outcome: Outcome::Undecided,
            stop_code: None,
            rules: Vec::new(),
            remarks: Vec::new(),
            action: None,
            holding: false,
        }
    }

    /// Puts together what a trial saw.
    pub(super) async fn end(&mut self, mut made: Trial, probes: ProbeReport, ended: Ended) -> Gathered {
        made.gave_way = ended == Ended::GaveWay;
        self.phase(Phase::Judging, &made, None).await;
        let (histograms, samples) = self.gather(&mut made, probes);
        let ends_run = matches!(ended, Ended::Cancelled | Ended::TimeBudget | Ended::Guarded);
        Gathered { trial: made, histograms, samples, ended: ends_run.then_some(ended) }
    }

    pub(super) async fn phase(&self, phase: Phase, trial: &Trial, until_ns: Option<i64>) {
        let at_ns = self.intake.clock.now_ns();
        let event = RunEvent::Phase {
            at_ns,
            phase,
            arm: trial.arm,
            step: trial.step,
            trial: trial.trial,
            load: trial.load,
            until_ns,
        };
        self.intake.tell(event).await;
    }

    /// Puts the load in place. `Reached`: it is.
    pub(super) async fn fill(&mut self, trial: &mut Trial) -> Ended {
        let clock = self.intake.clock;
        let began_ns = clock.now_ns();
        let limit_s = self.plan.fill_max_s(self.load, trial.load);
        let deadline_ns = began_ns + clock::seconds_ns(limit_s);
        if trial.load != self.load {
            self.phase(Phase::Filling, trial, Some(deadline_ns)).await;
        }
        let axis = self.plan.scenario.workload.about().axis;
        if let Some(units) = &mut self.intake.units {
            units.prepare(&axis.load(trial.load));
        }
        self.load = trial.load;
        let (mut told_ns, asked) = (0, trial.load);
        let ended = loop {
            let until_ns = deadline_ns.min(clock.now_ns() + 1_000_000_000);
            let ended = self
                .intake
                .until(until_ns, self.managed.as_deref(), |intake| {
                    let progress = intake.units.as_ref().and_then(super::units::Units::progress);
                    is_decided(progress.as_ref(), asked)
                })
                .await;
            let now_ns = clock.now_ns();
            let progress = self.intake.units.as_ref().and_then(super::units::Units::progress);
            self.confirmed = confirmed(progress.as_ref()).unwrap_or(self.confirmed);
            let confirmed = self.confirmed;
            if now_ns - told_ns >= 900_000_000 || ended == Ended::Reached {
                told_ns = now_ns;
                self.intake.tell(RunEvent::Progress { at_ns: now_ns, asked: trial.load, confirmed }).await;
            }
            match (ended, progress) {
                (Ended::Reached, Some(Progress::Failed { limit, text, .. })) => {
                    let kind = if limit { IncidentKind::LimitReached } else { IncidentKind::CannotApply };
                    self.cannot_apply(trial, kind, confirmed, &format!("could be put in place: {text}"));
                    break Ended::GaveWay;
                }
                (Ended::Deadline, _) if now_ns >= deadline_ns => {
                    self.cannot_apply(
                        trial,
                        IncidentKind::FillTimedOut,
                        confirmed,
                        &format!("were in place after {limit_s:.0} s, the longest that filling may take"),
                    );
                    break Ended::GaveWay;
                }
                (Ended::Deadline, _) => {}
                (Ended::GaveWay, _) => {
                    self.cannot_apply(
                        trial,
                        IncidentKind::CannotApply,
                        confirmed,
                        "were in place when the target gave way",
                    );
                    break Ended::GaveWay;
                }
                (ended, _) => break ended,
            }
        };
        trial.fill_s = (clock.now_ns() - began_ns) as f64 / 1e9;
        ended
    }

    /// `how` goes on after "only 3 of 5 domains".
    fn cannot_apply(&mut self, trial: &Trial, kind: IncidentKind, confirmed: u64, how: &str) {
        let unit = &self.plan.outline.unit;
        let text = format!("only {confirmed} of {} {unit} {how}", trial.load);
        self.intake.incidents.push(Incident {
            at_ns: self.intake.clock.now_ns(),
            kind,
            node: String::new(),
            text,
            amount: confirmed as f64,
        });
    }

    /// Waits until the target is steady, at most `settle_s`; then compares what it counts with what was asked.
    pub(super) async fn settle(&mut self, trial: &mut Trial) -> Ended {
        let clock = self.intake.clock;
        let began_ns = clock.now_ns();
        let deadline_ns = began_ns + clock::seconds_ns(self.plan.scenario.settle_s);
        self.phase(Phase::Settling, trial, Some(deadline_ns)).await;
        let ended = self
            .intake
            .until(deadline_ns, self.managed.as_deref(), |intake| {
                intake.clock.now_ns() - began_ns >= SETTLE_MIN_NS && steady::is_steady(&intake.samples, began_ns)
            })
            .await;
        let ended = if ended == Ended::Deadline { Ended::Reached } else { ended };
        trial.settle_s = (clock.now_ns() - began_ns) as f64 / 1e9;
        if ended == Ended::Reached { self.count(trial).await } else { ended }
    }

    /// What the target counts beyond what it counted when it was empty.
    async fn count(&mut self, trial: &mut Trial) -> Ended {
        let target = Arc::clone(&self.target);
        let counting = tokio::spawn(async move { tokio::time::timeout(COUNTS_LIMIT, target.counts()).await });
        // A target that takes its time for this must not keep its load on it.
        self.counts = match self.intake.meanwhile(self.managed.as_deref(), counting).await {
            Ok(counts) => counts.and_then(Result::ok).unwrap_or_default(),
            Err(ended) => return ended,
        };
        trial.census.clone_from(&self.counts.total);
        if trial.load == 0 {
            self.empty_counts.clone_from(&trial.census);
            return Ended::Reached;
        }
        for (what, expected, tolerance) in self.plan.scenario.workload.demand(trial.load).counts {
            let observed = trial.census.get(what).zip(self.empty_counts.get(what)).map(|(now, before)| {
                i64::try_from(*now).unwrap_or(i64::MAX) - i64::try_from(*before).unwrap_or(i64::MAX)
            });
            trial.counts.push(CountCheck { what: what.to_owned(), expected, observed, tolerance });
        }
        Ended::Reached
    }

    /// Holds the load and measures, for `measure_s` from the next whole second.
    pub(super) async fn hold(&mut self, trial: &mut Trial) -> (Ended, ProbeReport) {
        let clock = self.intake.clock;
        let measure_from_ns = next_second(clock.now_ns());
        let end_ns = measure_from_ns + clock::seconds_ns(self.plan.scenario.measure_s.ceil());
        trial.measure_from_ns = measure_from_ns;
        // What is asked seldom is asked at both edges, so that its rates are of the measurement.
        self.intake.edge();
        self.phase(Phase::Measuring, trial, Some(end_ns)).await;
        if let Some(units) = &self.intake.units {
            let (step, number) = (trial.step, trial.trial);
            units.tell(&ToUnit::Hold { step, trial: number, start_ns: clock.now_ns(), measure_from_ns, end_ns });
        }
        let (ended, report) = self.probe(measure_from_ns, end_ns, false).await;
        let now_ns = clock.now_ns().min(end_ns);
        trial.measure_s = ((now_ns - measure_from_ns) as f64 / 1e9).max(0.0);
        (ended, report)
    }

    /// Runs all probes between two times, each on a thread of its own. `Reached`: the time is over.
    async fn probe(&mut self, from_ns: i64, until_ns: i64, warm_up: bool) -> (Ended, ProbeReport) {
        let window = Window {
            from_ns,
            until_ns,
            warm_up,
            cancelled: Arc::new(AtomicBool::new(false)),
            done: Arc::clone(&self.intake.probe_done),
        };
        let mut tasks = tokio::task::JoinSet::new();
        for (index, probe) in self.plan.scenario.probes.iter().enumerate() {
            let (probe, window, mut site) = (Arc::clone(probe), window.clone(), self.probe_site.clone());
            site.unit = u32::try_from(index).unwrap_or(0);
            tasks.spawn_blocking(move || probe.run(&site, &window));
        }
        let mut ended = self.intake.until(until_ns, self.managed.as_deref(), |_| false).await;
        if ended == Ended::Deadline && !warm_up {
            // The reports of the last second arrive just after it, and what is asked seldom is asked once more.
            self.intake.edge();
            let least_ns = until_ns + 300_000_000;
            let late = |intake: &Intake| intake.clock.now_ns() >= least_ns && intake.edge_answered();
            let after = self.intake.until(until_ns + 2_000_000_000, self.managed.as_deref(), late).await;
            ended = if after == Ended::Reached { Ended::Deadline } else { after };
        }
        if ended != Ended::Deadline {
            window.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        let mut all = ProbeReport::default();
        while let Some(report) = tasks.join_next().await {
            match report {
                Ok(ProbeReport { operations, histograms, incidents }) => {
                    all.operations.extend(operations);
                    all.histograms.extend(histograms);
                    all.incidents.extend(incidents);
                }
                Err(error) => tracing::error!(error = %error, "a probe ended without a report: {error}"),
            }
        }
        (if ended == Ended::Deadline { Ended::Reached } else { ended }, all)
    }

    /// Lets probes run unmeasured on the empty target: what a JVM does first it does slowly, and a baseline that is
    /// too low would let every later load pass.
    async fn warm_up(&mut self, trial: &Trial) -> Ended {
        let from_ns = self.intake.clock.now_ns();
        // Each server is a JVM of its own, and a probe asks one after the other.
        let servers = self.plan.scenario.probes.iter().map(|probe| probe.asks(self.inventory.nodes.len())).max();
        let warm_up_s = self.plan.scenario.warm_up_s * servers.unwrap_or(1).max(1) as f64;
        let until_ns = from_ns + clock::seconds_ns(warm_up_s);
        self.phase(Phase::WarmingUp, trial, Some(until_ns)).await;
        let (ended, _) = self.probe(from_ns, until_ns, true).await;
        self.intake.begin().await;
        ended
    }
}

fn confirmed(progress: Option<&Progress>) -> Option<u64> {
    match progress? {
        Progress::Moving { confirmed } | Progress::Ready { confirmed } | Progress::Failed { confirmed, .. } => {
            Some(*confirmed)
        }
    }
}

/// Whether the units have put in place what was asked, or cannot. A report of before the question may still arrive: it
/// tells of another load.
fn is_decided(progress: Option<&Progress>, asked: u64) -> bool {
    match progress {
        Some(Progress::Ready { confirmed }) => *confirmed == asked,
        Some(Progress::Failed { .. }) => true,
        Some(Progress::Moving { .. }) | None => false,
    }
}
