//! Stop rules: a variant, its parameters, and how it reads one trial.

use serde::{Deserialize, Serialize};

use super::{Baseline, figure, traffic_rules};
use crate::model::{Outcome, RuleReading, Sample, StopCode, Trial, stat};

/// From when latency counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyClock {
    /// From when the operation was due.
    #[default]
    Due,
    /// From when it was sent.
    Service,
}

/// One stop rule of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// A probe operation falls below a share of its rate at the baseline.
    ThroughputDrop {
        operation: String,
        #[serde(default = "default_below")]
        below: f64,
        #[serde(default)]
        baseline: Baseline,
    },
    /// A latency percentile of an operation lies above a limit.
    SloLatency {
        operation: String,
        #[serde(default = "default_percentile")]
        percentile: f64,
        limit_ms: f64,
        #[serde(default)]
        clock: LatencyClock,
    },
    /// The share of failed operations lies above a limit.
    SloErrors {
        /// All operations of the probe together when absent; of the load, without a probe.
        #[serde(default)]
        operation: Option<String>,
        above: f64,
    },
    /// Outstanding requests of any node stay above a limit for a time.
    OutstandingHigh { above: f64, for_s: f64 },
    /// Too small a share of what fell due of the load ends well.
    AchievedShort {
        #[serde(default = "default_achieved")]
        share: f64,
    },
    /// What is under way grows through the whole measurement, by more than a share of what fell due.
    BacklogGrowth {
        #[serde(default = "default_growth")]
        growth: f64,
    },
    /// More load brings less than a share of the throughput that it should.
    Plateau {
        #[serde(default = "default_gain")]
        gain: f64,
    },
    /// Throughput falls below a share of the best at lower loads.
    Retrograde {
        #[serde(default = "default_retrograde")]
        below: f64,
    },
}

const fn default_achieved() -> f64 {
    0.995
}

const fn default_growth() -> f64 {
    0.002
}

const fn default_gain() -> f64 {
    0.1
}

const fn default_retrograde() -> f64 {
    0.95
}

const fn default_below() -> f64 {
    0.6
}

const fn default_percentile() -> f64 {
    0.99
}

impl Rule {
    /// What every load at a rate has to keep.
    pub const ACHIEVED: Self = Self::AchievedShort { share: default_achieved() };

    /// The stop code of a breach.
    #[must_use]
    pub const fn code(&self) -> StopCode {
        match self {
            Self::ThroughputDrop { .. } => StopCode::ThroughputDrop,
            Self::SloLatency { .. } => StopCode::SloLatency,
            Self::SloErrors { .. } => StopCode::SloErrors,
            Self::OutstandingHigh { .. } => StopCode::OutstandingHigh,
            Self::AchievedShort { .. } => StopCode::AchievedShort,
            Self::BacklogGrowth { .. } => StopCode::BacklogGrowth,
            Self::Plateau { .. } => StopCode::Plateau,
            Self::Retrograde { .. } => StopCode::Retrograde,
        }
    }

    /// The operation that the rule reads, if it reads one.
    #[must_use]
    pub fn operation(&self) -> Option<&str> {
        match self {
            Self::ThroughputDrop { operation, .. } | Self::SloLatency { operation, .. } => Some(operation),
            Self::SloErrors { operation, .. } => operation.as_deref(),
            Self::OutstandingHigh { .. }
            | Self::AchievedShort { .. }
            | Self::BacklogGrowth { .. }
            | Self::Plateau { .. }
            | Self::Retrograde { .. } => None,
        }
    }

    /// The load that the rule compares with, if it compares.
    #[must_use]
    pub const fn baseline(&self) -> Option<&Baseline> {
        match self {
            Self::ThroughputDrop { baseline, .. } => Some(baseline),
            Self::SloLatency { .. }
            | Self::SloErrors { .. }
            | Self::OutstandingHigh { .. }
            | Self::AchievedShort { .. }
            | Self::BacklogGrowth { .. }
            | Self::Plateau { .. }
            | Self::Retrograde { .. } => None,
        }
    }

    /// Reads one trial. `history` holds the trials before it (the baseline among them); `samples` the target's
    /// readings during the trial's measurement.
    #[must_use]
    pub fn read(&self, trial: &Trial, history: &[Trial], samples: &[Sample], unit: &str) -> RuleReading {
        match self {
            Self::ThroughputDrop { operation, below, baseline } => {
                throughput_drop(operation, *below, baseline, trial, history, unit)
            }
            Self::SloLatency { operation, percentile, limit_ms, clock } => {
                slo_latency(operation, *percentile, *limit_ms, *clock, trial)
            }
            Self::SloErrors { operation, above } => slo_errors(operation.as_deref(), *above, trial),
            Self::OutstandingHigh { above, for_s } => outstanding_high(*above, *for_s, samples),
            Self::AchievedShort { share } => traffic_rules::achieved_short(*share, trial),
            Self::BacklogGrowth { growth } => traffic_rules::backlog_growth(*growth, trial, samples),
            Self::Plateau { gain } => traffic_rules::plateau(*gain, trial, history),
            Self::Retrograde { below } => traffic_rules::retrograde(*below, trial, history),
        }
    }
}

pub(super) fn reading(
    rule: StopCode,
    subject: &str,
    value: Option<f64>,
    limit: f64,
    unit: &str,
    broke: Option<bool>,
    text: String,
) -> RuleReading {
    RuleReading { rule, subject: subject.to_owned(), value, limit, unit: unit.to_owned(), broke, text }
}

fn throughput_drop(
    operation: &str,
    below: f64,
    baseline: &Baseline,
    trial: &Trial,
    history: &[Trial],
    unit: &str,
) -> RuleReading {
    let code = StopCode::ThroughputDrop;
    let words = baseline.words(unit);
    if trial.load <= baseline.load() {
        let what = if trial.load == baseline.load() {
            "this is the baseline itself"
        } else {
            "this load lies below the baseline"
        };
        return reading(code, operation, None, 0.0, "per_s", Some(false), format!("{what}: {words}"));
    }
    let base = history
        .iter()
        .rfind(|old| {
            old.load == baseline.load()
                && old.action.is_none()
                && matches!(old.outcome, Outcome::Baseline | Outcome::Held)
                && old.operation(operation).is_some_and(|stat| stat.done > 0)
        })
        .and_then(|old| old.operation(operation));
    let now = trial.operation(operation);
    match (base, now) {
        (Some(base), Some(now)) if now.done + now.failed() > 0 => {
            let limit = base.ops_per_s * below;
            let share = now.ops_per_s / base.ops_per_s;
            let text = format!(
                "{operation} ran at {} per second, {} % of {} per second at {words}; the rule asks for {} %",
                figure(now.ops_per_s),
                figure(share * 100.0),
                figure(base.ops_per_s),
                figure(below * 100.0)
            );
            reading(code, operation, Some(now.ops_per_s), limit, "per_s", Some(now.ops_per_s < limit), text)
        }
        (None, _) => reading(
            code,
            operation,
            None,
            0.0,
            "per_s",
            None,
            format!("{operation} was not measured at {words}, so there is nothing to compare with"),
        ),
        (Some(base), _) => reading(
            code,
            operation,
            None,
            base.ops_per_s * below,
            "per_s",
            None,
            format!("{operation} was not measured at this load"),
        ),
    }
}

fn slo_latency(operation: &str, percentile: f64, limit_ms: f64, clock: LatencyClock, trial: &Trial) -> RuleReading {
    let code = StopCode::SloLatency;
    let name = percentile_name(percentile);
    let subject = format!("{operation} {name}");
    let Some(stat) = trial.operation(operation) else {
        return reading(code, &subject, None, limit_ms, "ms", None, format!("{operation} was not measured"));
    };
    let latency = match clock {
        LatencyClock::Due => &stat.latency,
        LatencyClock::Service => &stat.service,
    };
    let value_us = match name.as_str() {
        "p50" if stat.done > 0 => Some(latency.p50_us),
        "p95" => latency.p95_us,
        "p99" => latency.p99_us,
        "p99.9" => latency.p999_us,
        _ => None,
    };
    match value_us {
        Some(us) => {
            let ms = us as f64 / 1_000.0;
            let text = format!(
                "{operation} {name} was {} ms of {} samples; the rule allows {} ms",
                figure(ms),
                figure(stat.done as f64),
                figure(limit_ms)
            );
            reading(code, &subject, Some(ms), limit_ms, "ms", Some(ms > limit_ms), text)
        }
        None => reading(
            code,
            &subject,
            None,
            limit_ms,
            "ms",
            None,
            format!("{operation} {name} has too few samples ({}; {} are needed)", stat.done, min_samples(percentile)),
        ),
    }
}

/// Samples that a percentile needs for 99 % confidence that one of them lies beyond it.
#[must_use]
pub fn min_samples(percentile: f64) -> u64 {
    match percentile_name(percentile).as_str() {
        "p99.9" => stat::P999_MIN_SAMPLES,
        "p99" => stat::P99_MIN_SAMPLES,
        "p95" => stat::P95_MIN_SAMPLES,
        _ => 1,
    }
}

/// The percentiles that rules may use.
pub const PERCENTILES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];

/// `p99` of 0.99.
#[must_use]
pub fn percentile_name(percentile: f64) -> String {
    let hundred = format!("{:.3}", percentile * 100.0);
    format!("p{}", hundred.trim_end_matches('0').trim_end_matches('.'))
}

fn slo_errors(operation: Option<&str>, above: f64, trial: &Trial) -> RuleReading {
    let code = StopCode::SloErrors;
    // The probe's, where there is one; else the load's own.
    let probed = trial.operations.iter().any(|stat| stat.probe);
    let stats = trial.operations.iter().filter(|s| s.probe == probed && operation.is_none_or(|o| o == s.operation));
    let (done, failed) = stats.fold((0, 0), |(done, failed), stat| (done + stat.done, failed + stat.failed()));
    let subject = operation.unwrap_or(if probed { "all probe operations" } else { "all operations of the load" });
    if done + failed == 0 {
        return reading(code, subject, None, above, "share", None, format!("{subject}: nothing was measured"));
    }
    let share = failed as f64 / (done + failed) as f64;
    let text = format!(
        "{subject}: {} of {} failed ({} %); the rule allows {} %",
        figure(failed as f64),
        figure((done + failed) as f64),
        figure(share * 100.0),
        figure(above * 100.0)
    );
    reading(code, subject, Some(share), above, "share", Some(share > above), text)
}

fn outstanding_high(above: f64, for_s: f64, samples: &[Sample]) -> RuleReading {
    let code = StopCode::OutstandingHigh;
    let mut longest: Option<(f64, &str)> = None;
    let mut nodes: Vec<&str> = Vec::new();
    for sample in samples.iter().filter(|s| s.metric == "outstanding_requests") {
        if !nodes.contains(&sample.node.as_str()) {
            nodes.push(&sample.node);
        }
    }
    for node in nodes {
        let held =
            longest_above(samples.iter().filter(|s| s.node == node && s.metric == "outstanding_requests"), above);
        if longest.is_none_or(|(best, _)| held > best) {
            longest = Some((held, node));
        }
    }
    match longest {
        None => reading(
            code,
            "outstanding requests",
            None,
            for_s,
            "s",
            None,
            "outstanding requests were not sampled".to_owned(),
        ),
        Some((held, node)) => {
            let text = format!(
                "outstanding requests of {node} stayed above {} for {} s; the rule allows {} s",
                figure(above),
                figure(held),
                figure(for_s)
            );
            reading(code, "outstanding requests", Some(held), for_s, "s", Some(held >= for_s && held > 0.0), text)
        }
    }
}

/// The longest time in seconds over which consecutive readings lay above a limit.
fn longest_above<'s>(samples: impl Iterator<Item = &'s Sample>, above: f64) -> f64 {
    let (mut longest, mut since) = (0.0_f64, None);
    for sample in samples {
        if sample.value > above {
            let start = *since.get_or_insert(sample.at_ns);
            longest = longest.max((sample.at_ns - start) as f64 / 1e9);
        } else {
            since = None;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judge::tests::{probe, trial};

    fn drop_rule() -> Rule {
        Rule::ThroughputDrop { operation: "get".into(), below: 0.6, baseline: Baseline::default() }
    }

    #[test]
    fn a_drop_is_judged_against_the_empty_target_wherever_the_ramp_started() {
        let empty = trial(0, 0, vec![probe("get", 1_000.0, 1_000)]);
        let first = trial(1, 10, vec![probe("get", 550.0, 1_000)]);
        let read = drop_rule().read(&first, &[empty], &[], "domains");
        assert_eq!(read.broke, Some(true));
        assert!(read.text.contains("55 %") && read.text.contains("step 0"), "{}", read.text);
    }

    #[test]
    fn a_named_baseline_does_not_stop_the_ramp_that_leads_to_it() {
        let rule = Rule::ThroughputDrop { operation: "get".into(), below: 0.6, baseline: Baseline::Load(20) };
        let step = |number, load, rate| trial(number, load, vec![probe("get", rate, 1_000)]);
        assert_eq!(rule.read(&step(1, 10, 900.0), &[], &[], "domains").broke, Some(false));
        assert_eq!(rule.read(&step(2, 20, 800.0), &[], &[], "domains").broke, Some(false));
        let mut void = step(2, 20, 1.0);
        void.outcome = Outcome::Void;
        let history = [step(2, 20, 800.0), void];
        assert_eq!(rule.read(&step(3, 30, 400.0), &history, &[], "domains").broke, Some(true));
        assert_eq!(rule.read(&step(3, 30, 500.0), &history, &[], "domains").broke, Some(false));
    }

    #[test]
    fn a_drop_without_a_baseline_says_nothing() {
        let read = drop_rule().read(&trial(1, 10, vec![probe("get", 5.0, 10)]), &[], &[], "domains");
        assert_eq!(read.broke, None);
    }

    #[test]
    fn a_percentile_with_too_few_samples_is_undecided_and_never_a_pass() {
        let rule =
            Rule::SloLatency { operation: "get".into(), percentile: 0.99, limit_ms: 1e9, clock: LatencyClock::Due };
        assert_eq!(rule.read(&trial(1, 10, vec![probe("get", 5.0, 458)]), &[], &[], "d").broke, None);
        assert_eq!(rule.read(&trial(1, 10, vec![probe("get", 5.0, 459)]), &[], &[], "d").broke, Some(false));
    }

    #[test]
    fn outstanding_must_be_held_and_a_dip_begins_anew() {
        let rule = Rule::OutstandingHigh { above: 100.0, for_s: 3.0 };
        let at = |values: &[f64]| -> Vec<Sample> {
            values
                .iter()
                .enumerate()
                .map(|(second, value)| Sample {
                    at_ns: second as i64 * 1_000_000_000,
                    node: "a".into(),
                    metric: "outstanding_requests".into(),
                    value: *value,
                })
                .collect()
        };
        let read = |values: &[f64]| rule.read(&trial(1, 1, vec![]), &[], &at(values), "d").broke;
        assert_eq!(read(&[200.0, 200.0, 200.0, 5.0, 200.0, 200.0, 200.0]), Some(false));
        assert_eq!(read(&[5.0, 200.0, 200.0, 200.0, 200.0]), Some(true));
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn percentile_names_are_the_fields() {
        assert_eq!(PERCENTILES.map(percentile_name), ["p50", "p95", "p99", "p99.9"]);
    }
}
