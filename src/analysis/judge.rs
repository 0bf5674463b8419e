//! What became of a trial: who is to blame comes before what the rules say.

use super::{actions, attribution, figure, rules::Rule};
use crate::model::{ActionReport, Evidence, Incident, IncidentKind, Outcome, RuleReading, Sample, StopCode, Trial};

/// What a judgement is.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub outcome: Outcome,
    pub stop_code: Option<StopCode>,
    pub rules: Vec<RuleReading>,
    pub remarks: Vec<String>,
}

/// Beyond these the generator is not fit to judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValidityLimits {
    /// 99th percentile of start lag.
    pub start_lag_p99_us: u64,
    /// Share of one core that the busiest load thread may use (0..1).
    pub thread_share: f64,
    /// Share of open files of this process (0..1).
    pub open_files_share: f64,
    pub clock_jump_ms: f64,
}

impl ValidityLimits {
    /// The defaults: start lag at most the larger of 20 ms and a tenth of the tightest latency goal.
    #[must_use]
    pub fn of(rules: &[Rule]) -> Self {
        let tightest_ms = rules
            .iter()
            .filter_map(|rule| match rule {
                Rule::SloLatency { limit_ms, .. } => Some(*limit_ms),
                Rule::ThroughputDrop { .. }
                | Rule::SloErrors { .. }
                | Rule::OutstandingHigh { .. }
                | Rule::AchievedShort { .. }
                | Rule::BacklogGrowth { .. }
                | Rule::Plateau { .. }
                | Rule::Retrograde { .. } => None,
            })
            .fold(f64::INFINITY, f64::min);
        let tenth_us = if tightest_ms.is_finite() { (tightest_ms * 100.0).clamp(0.0, 1e9).round() } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1e9 above")]
        let tenth_us = tenth_us as u64;
        Self {
            start_lag_p99_us: tenth_us.max(20_000),
            thread_share: 0.95,
            open_files_share: 0.95,
            clock_jump_ms: 1_000.0,
        }
    }
}

/// A call that takes so long, and so much of the time in which its operation was asked, stands for nothing but itself.
const HELD_UP_US: u64 = 1_000_000;
const HELD_UP_SHARE: f64 = 0.25;

/// Calls of the probe that were held up, in words. Seen with ZooKeeper 3.8.0 on the leader of an idle ensemble: an answer came
/// only with the client's next ping, a third of the session timeout later, and the server counted the request as outstanding
/// meanwhile. Whose doing it is was not shown with another client.
fn held_up(trial: &Trial) -> Option<String> {
    let long = trial.operations.iter().filter(|stat| {
        let share = stat.latency.max_us as f64 / 1e6 / stat.elapsed_s.max(f64::MIN_POSITIVE);
        stat.probe && stat.latency.max_us >= HELD_UP_US && share >= HELD_UP_SHARE
    });
    let each: Vec<String> = long
        .map(|stat| {
            let longest_s = stat.latency.max_us as f64 / 1e6;
            let operation = stat.operation.replace('_', " ");
            format!("{operation} ({} of {} s)", figure(longest_s), figure(stat.elapsed_s))
        })
        .collect();
    (!each.is_empty()).then(|| {
        format!(
            "one call took most of the time in which it was asked, so that the rate says little of the rest: {}",
            each.join(", ")
        )
    })
}

/// Judges one trial. Precedence (design 5): generator late; election, restart or a pause from outside; a target that
/// stalled, lost sessions or died; a configured limit; a load that could not be put in place; then the rules.
#[must_use]
pub fn judge(
    rules: &[Rule],
    trial: &Trial,
    history: &[Trial],
    samples: &[Sample],
    limits: ValidityLimits,
    unit: &str,
) -> Judgement {
    let readings: Vec<RuleReading> = if trial.load == 0 || !was_measured(trial) {
        Vec::new()
    } else {
        rules.iter().map(|rule| rule.read(trial, history, samples, unit)).collect()
    };
    let mut remarks = Vec::new();
    let (outcome, stop_code) = decide(&actions::without_own_doing(trial), &readings, limits, &mut remarks);
    Judgement { outcome, stop_code, rules: readings, remarks }
}

fn was_measured(trial: &Trial) -> bool {
    trial.measure_s > 0.0
}

fn decide(
    trial: &Trial,
    readings: &[RuleReading],
    limits: ValidityLimits,
    remarks: &mut Vec<String>,
) -> (Outcome, Option<StopCode>) {
    let late = generator_faults(trial, limits);
    if !late.is_empty() {
        remarks.extend(late);
        return (Outcome::Void, Some(StopCode::GeneratorSaturated));
    }
    if let Some(failed) = trial.action.as_ref().and_then(|report| report.failed.as_ref()) {
        remarks.push(failed.clone());
        return (Outcome::Void, Some(StopCode::TargetUnhealthy));
    }
    if let Some(incident) = first(trial, &[IncidentKind::Paused, IncidentKind::Election, IncidentKind::Restarted]) {
        remarks.push(format!("the target changed under the measurement: {}", incident.text));
        return (Outcome::Void, Some(StopCode::TargetUnhealthy));
    }
    if let Some(limit) = first(trial, &[IncidentKind::LimitReached]) {
        remarks.push(limit.text.clone());
        return (Outcome::Broke, Some(StopCode::LimitReached));
    }
    let broke_rule = readings.iter().find(|reading| reading.broke == Some(true));
    let mut signs = attribution::signs_of_load(trial);
    // What breaks as a server ends shows the end, not the load.
    let died = first(trial, &[IncidentKind::Died]).is_some();
    let counter = broke_rule.filter(|reading| reading.rule == StopCode::OutstandingHigh && !died);
    signs.extend(counter.map(attribution::sign_of_rule));
    let gave_way = [IncidentKind::Died, IncidentKind::SessionExpired, IncidentKind::Stall, IncidentKind::NotServing];
    if let Some(incident) = first(trial, &gave_way) {
        return match signs.first() {
            Some(sign) => {
                remarks.push(format!("{}; {}", incident.text, sign.text));
                (Outcome::Broke, Some(StopCode::TargetSaturated))
            }
            None => {
                remarks.push(format!("{}; nothing shows that the load did it", incident.text));
                (Outcome::Void, Some(StopCode::TargetUnhealthy))
            }
        };
    }
    if let Some(incident) = first(trial, &[IncidentKind::FillTimedOut]) {
        remarks.push(incident.text.clone());
        return (Outcome::Broke, Some(StopCode::CannotApply));
    }
    if let Some(incident) = first(trial, &[IncidentKind::CannotApply]) {
        remarks.push(incident.text.clone());
        // A refusal says something of the target's capacity only when the target was under strain.
        let strained = !attribution::signs_of_load(trial).is_empty();
        return (if strained { Outcome::Broke } else { Outcome::Void }, Some(StopCode::CannotApply));
    }
    let held_up = held_up(trial);
    if trial.load == 0 {
        // What others are compared with must not hang on one call. Once more; a target that does it again is like that.
        let again = held_up.is_some() && trial.trial == 1;
        remarks.extend(held_up);
        return (if again { Outcome::Void } else { Outcome::Baseline }, None);
    }
    remarks.extend(held_up);
    if let Some(report) = trial.action.as_ref().filter(|_| !was_measured(trial)) {
        return not_served(report, &signs, remarks);
    }
    if let Some(reading) = broke_rule {
        return (Outcome::Broke, Some(reading.rule));
    }
    if readings.iter().any(|reading| reading.broke.is_none()) {
        return (Outcome::Undecided, Some(StopCode::NoData));
    }
    (Outcome::Held, None)
}

/// A target that did not serve without a server: a capacity only where the scenario requires that it does, and where it
/// shows that the load is why.
fn not_served(report: &ActionReport, signs: &[Evidence], remarks: &mut Vec<String>) -> (Outcome, Option<StopCode>) {
    let text = format!("with {} the target did not serve, so that nothing was measured", report.words());
    match signs.first() {
        _ if !report.required => {
            remarks.push(text);
            (Outcome::Undecided, Some(StopCode::NoData))
        }
        Some(sign) => {
            remarks.push(format!("{text}; {}", sign.text));
            (Outcome::Broke, Some(StopCode::TargetSaturated))
        }
        None => {
            remarks.push(format!("{text}; nothing shows that the load did it"));
            (Outcome::Void, Some(StopCode::TargetUnhealthy))
        }
    }
}

fn first<'t>(trial: &'t Trial, kinds: &[IncidentKind]) -> Option<&'t Incident> {
    kinds.iter().find_map(|kind| trial.incidents.iter().find(|incident| incident.kind == *kind))
}

/// Why the generator was not fit to judge, in sentences; empty when it was.
fn generator_faults(trial: &Trial, limits: ValidityLimits) -> Vec<String> {
    let health = &trial.health;
    let mut faults = Vec::new();
    if let Some(lag_us) = health.start_lag_p99_us.filter(|lag_us| *lag_us > limits.start_lag_p99_us) {
        faults.push(format!(
            "the generator was late: start lag p99 {} ms, at most {} ms is allowed",
            figure(lag_us as f64 / 1e3),
            figure(limits.start_lag_p99_us as f64 / 1e3)
        ));
    }
    if let Some(share) = health.busiest_thread_share.filter(|share| was_measured(trial) && *share > limits.thread_share)
    {
        faults.push(format!(
            "a load thread used {} % of its core, at most {} % is allowed",
            figure(share * 100.0),
            figure(limits.thread_share * 100.0)
        ));
    }
    if health.open_files_limit > 0
        && health.open_files as f64 > limits.open_files_share * health.open_files_limit as f64
    {
        faults.push(format!(
            "{} of {} open files were in use by the generator",
            figure(health.open_files as f64),
            figure(health.open_files_limit as f64)
        ));
    }
    if health.clock_jump_ms.abs() > limits.clock_jump_ms {
        faults.push(format!("this machine's clock was set by {} ms during the trial", figure(health.clock_jump_ms)));
    }
    faults
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Health, OperationStat, Percentiles, SeriesStat, action};

    pub(crate) fn probe(operation: &str, ops_per_s: f64, done: u64) -> OperationStat {
        let latency = Percentiles {
            mean_us: 1e6 / ops_per_s,
            p50_us: 1_000,
            p95_us: (done >= crate::model::stat::P95_MIN_SAMPLES).then_some(2_000),
            p99_us: (done >= crate::model::stat::P99_MIN_SAMPLES).then_some(3_000),
            p999_us: (done >= crate::model::stat::P999_MIN_SAMPLES).then_some(4_000),
            max_us: 5_000,
        };
        OperationStat {
            stream: "zookeeper.latencies".into(),
            probe: true,
            operation: operation.into(),
            done,
            elapsed_s: done as f64 / ops_per_s,
            ops_per_s,
            latency: latency.clone(),
            service: latency,
            ..OperationStat::default()
        }
    }

    pub(crate) fn trial(step: u32, load: u64, operations: Vec<OperationStat>) -> Trial {
        Trial {
            arm: 0,
            step,
            trial: 1,
            load,
            started_ns: 0,
            measure_from_ns: 0,
            ended_ns: 0,
            fill_s: 1.0,
            settle_s: 1.0,
            measure_s: 10.0,
            operations,
            counts: vec![],
            census: BTreeMap::new(),
            nodes: BTreeMap::new(),
            health: Health::default(),
            incidents: vec![],
            gave_way: false,
            outcome: Outcome::Held,
            stop_code: None,
            rules: vec![],
            remarks: vec![],
            action: None,
            holding: false,
        }
    }

    fn incident(kind: IncidentKind) -> Incident {
        Incident { at_ns: 0, kind, node: "a".into(), text: format!("{kind:?} happened"), amount: 1.0 }
    }

    fn judged(judged: &Trial) -> (Outcome, Option<StopCode>) {
        let rules = [Rule::ThroughputDrop {
            operation: "get".into(),
            below: 0.6,
            baseline: crate::analysis::Baseline::default(),
        }];
        let empty = trial(0, 0, vec![probe("get", 1_000.0, 1_000)]);
        let judgement = judge(&rules, judged, &[empty], &[], ValidityLimits::of(&rules), "domains");
        (judgement.outcome, judgement.stop_code)
    }

    fn full_heap(trial: &mut Trial) {
        let stat = |value| SeriesStat {
            mean: value,
            min: value,
            max: value,
            last: value,
            readings: 5,
            ..SeriesStat::default()
        };
        trial.nodes.insert(
            "a".into(),
            BTreeMap::from([
                ("heap_after_gc_bytes".to_owned(), stat(95e6)),
                ("heap_max_bytes".to_owned(), stat(100e6)),
            ]),
        );
    }

    #[test]
    fn a_baseline_that_hangs_on_one_call_is_measured_once_more_and_told() {
        let mut stat = probe("set", 80.0, 600);
        (stat.elapsed_s, stat.latency.max_us) = (7.2, 6_672_000);
        let mut made = trial(0, 0, vec![stat.clone(), probe("get", 6_000.0, 600)]);
        let judged = |trial: &Trial| judge(&[], trial, &[], &[], ValidityLimits::of(&[]), "domains");
        let first = judged(&made);
        assert_eq!((first.outcome, first.stop_code), (Outcome::Void, None));
        assert!(
            first.remarks[0].contains("set (6.67 of 7.20 s)") && !first.remarks[0].contains("get"),
            "{:?}",
            first.remarks
        );
        made.trial = 2;
        assert_eq!(judged(&made).outcome, Outcome::Baseline);
        let loaded = judged(&trial(1, 10, vec![stat.clone()]));
        assert_eq!((loaded.outcome, loaded.remarks.len()), (Outcome::Held, 1));
        // Long, but among many others.
        (stat.elapsed_s, stat.latency.max_us) = (30.0, 1_500_000);
        assert_eq!(judged(&trial(0, 0, vec![stat])).outcome, Outcome::Baseline);
    }

    #[test]
    fn a_late_generator_is_never_a_bottleneck() {
        let mut late = trial(1, 10, vec![probe("get", 1.0, 1_000)]);
        late.health.start_lag_p99_us = Some(20_001);
        late.incidents.push(incident(IncidentKind::Died));
        full_heap(&mut late);
        assert_eq!(judged(&late), (Outcome::Void, Some(StopCode::GeneratorSaturated)));
        late.health.start_lag_p99_us = Some(20_000);
        assert_eq!(judged(&late), (Outcome::Broke, Some(StopCode::TargetSaturated)));
    }

    #[test]
    fn a_pause_from_outside_voids_the_trial_even_when_rules_broke() {
        let mut paused = trial(1, 10, vec![probe("get", 1.0, 1_000)]);
        paused.incidents = vec![incident(IncidentKind::Stall), incident(IncidentKind::Paused)];
        assert_eq!(judged(&paused), (Outcome::Void, Some(StopCode::TargetUnhealthy)));
    }

    #[test]
    fn a_death_without_signs_of_load_is_not_the_loads_doing() {
        let mut dead = trial(1, 10, vec![probe("get", 900.0, 1_000)]);
        dead.incidents.push(incident(IncidentKind::Died));
        assert_eq!(judged(&dead), (Outcome::Void, Some(StopCode::TargetUnhealthy)));
        // Its last calls were slow or failed: of course.
        dead.operations = vec![probe("get", 1.0, 1_000)];
        assert_eq!(judged(&dead), (Outcome::Void, Some(StopCode::TargetUnhealthy)));
        full_heap(&mut dead);
        assert_eq!(judged(&dead), (Outcome::Broke, Some(StopCode::TargetSaturated)));
    }

    #[test]
    fn a_configured_limit_is_not_a_bottleneck() {
        let mut limited = trial(1, 10, vec![]);
        limited.incidents = vec![incident(IncidentKind::CannotApply), incident(IncidentKind::LimitReached)];
        full_heap(&mut limited);
        assert_eq!(judged(&limited), (Outcome::Broke, Some(StopCode::LimitReached)));
    }

    #[test]
    fn a_rule_without_data_is_undecided() {
        assert_eq!(judged(&trial(1, 10, vec![])), (Outcome::Undecided, Some(StopCode::NoData)));
        assert_eq!(judged(&trial(1, 10, vec![probe("get", 700.0, 1_000)])), (Outcome::Held, None));
        assert_eq!(
            judged(&trial(1, 10, vec![probe("get", 500.0, 1_000)])),
            (Outcome::Broke, Some(StopCode::ThroughputDrop))
        );
    }

    #[test]
    fn what_an_action_did_itself_does_not_void_its_trial_and_what_else_happens_does() {
        let mut acted = trial(1, 10, vec![probe("get", 700.0, 1_000)]);
        acted.action = Some(action::tests::report(0, false));
        let second = 1_000_000_000;
        let at = |kind, node: &str, at_s: i64, amount| Incident {
            at_ns: at_s * second,
            node: node.into(),
            amount,
            ..incident(kind)
        };
        acted.incidents = vec![
            at(IncidentKind::Election, "b", 3, 1.0),
            at(IncidentKind::NotServing, "b", 2, 1.0),
            at(IncidentKind::Stall, "b", 12, 8_000.0),
            at(IncidentKind::SessionExpired, "", 25, 2.0),
            at(IncidentKind::Restarted, "a", 30, 1.0),
        ];
        assert_eq!(judged(&acted), (Outcome::Held, None));
        for strange in [
            at(IncidentKind::Election, "b", 20, 1.0),
            at(IncidentKind::Died, "b", 3, 1.0),
            at(IncidentKind::Paused, "b", 3, 1.0),
            at(IncidentKind::Stall, "c", 20, 4_000.0),
        ] {
            let mut disturbed = acted.clone();
            disturbed.incidents.push(strange.clone());
            assert_eq!(judged(&disturbed), (Outcome::Void, Some(StopCode::TargetUnhealthy)), "{strange:?}");
        }
        acted.action = None;
        assert_eq!(judged(&acted), (Outcome::Void, Some(StopCode::TargetUnhealthy)), "nobody did it on purpose");
    }

    #[test]
    fn a_target_that_does_not_serve_without_a_server_breaks_only_what_was_required() {
        let mut acted = trial(1, 10, vec![]);
        acted.measure_s = 0.0;
        let mut judged_as = |required, failed: Option<&str>| {
            let report = action::tests::report(0, required);
            acted.action = Some(ActionReport { served_s: None, failed: failed.map(str::to_owned), ..report });
            judged(&acted)
        };
        assert_eq!(judged_as(false, None), (Outcome::Undecided, Some(StopCode::NoData)));
        assert_eq!(judged_as(true, None), (Outcome::Void, Some(StopCode::TargetUnhealthy)));
        assert_eq!(judged_as(false, Some("a port")), (Outcome::Void, Some(StopCode::TargetUnhealthy)));
        full_heap(&mut acted);
        acted.action = Some(ActionReport { served_s: None, ..action::tests::report(0, true) });
        assert_eq!(judged(&acted), (Outcome::Broke, Some(StopCode::TargetSaturated)));
    }
}
