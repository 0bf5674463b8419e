//! A run of several arms: in which order they are measured, and what the run says when all have been.

use serde::{Deserialize, Serialize};

use super::{differences, figure, repeats, verdict::exit_code};
use crate::model::{Arm, ArmResult, CapacityInterval, Finding, Status, StopCode, Validity, Verdict};

/// In which order the arms of a repetition are measured, so that a drift of the machine is not taken for an effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each repetition shuffled anew.
    #[default]
    Random,
    /// A B, then B A, and so on: a steady drift falls on all values alike.
    Abba,
}

/// Positions of the arms in the order in which they are measured: all values once, then all once more.
#[must_use]
pub fn order(arms: &[Arm], order: Order, seed: u64) -> Vec<usize> {
    let repetitions = arms.iter().map(|arm| arm.repetition).max().unwrap_or(0);
    let mut state = seed;
    let mut all = Vec::with_capacity(arms.len());
    for repetition in 1..=repetitions {
        let mut block: Vec<usize> = (0..arms.len()).filter(|at| arms[*at].repetition == repetition).collect();
        match order {
            Order::Random => {
                for last in (1..block.len()).rev() {
                    let among = last as u64 + 1;
                    let other = usize::try_from(next_random(&mut state) % among).unwrap_or(last);
                    block.swap(last, other);
                }
            }
            Order::Abba if repetition % 2 == 0 => block.reverse(),
            Order::Abba => {}
        }
        all.extend(block);
    }
    all
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to shuffle a few arms.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// How many sentences of findings stand in the run's own sentence.
const FINDINGS_TOLD: usize = 3;

/// Brings the verdicts of all arms together. `None` without any.
#[must_use]
pub fn conclude(results: Vec<ArmResult>, planned: usize) -> Option<Verdict> {
    let first = results.first()?.verdict.clone();
    let findings = differences::findings(&results);
    let steps = results.iter().flat_map(|result| result.verdict.steps.clone()).collect();
    let interval = repeated(&results);
    let (status, stop_code) = match together(&results, planned) {
        (Status::CapacityFound, code) if interval.as_ref().is_some_and(repeats::is_wide) => {
            (Status::Inconclusive, code)
        }
        found => found,
    };
    let answered = || results.iter().filter(|result| is_answer(&result.verdict));
    let bounded = matches!(status, Status::CapacityFound | Status::NotReached | Status::Inconclusive);
    // What no arm failed to carry; an arm that carries nothing leaves nothing.
    let last_good = answered().map(|result| result.verdict.last_good).min().flatten().filter(|_| bounded);
    let first_bad = answered().filter_map(|result| result.verdict.first_bad).min();
    let mut verdict = Verdict {
        status,
        stop_code,
        last_good,
        first_bad: first_bad.filter(|_| status == Status::CapacityFound),
        evidence: Vec::new(),
        validity: validity(&results),
        sentence: String::new(),
        arms: Vec::new(),
        findings: Vec::new(),
        holding: None,
        scaling: None,
        interval,
        actions: results.iter().flat_map(actions).collect(),
        steps,
        ..first
    };
    verdict.exit_code = exit_code(&verdict);
    verdict.sentence = sentence(&verdict, &results, planned, &findings);
    verdict.findings = findings;
    verdict.arms = results
        .into_iter()
        .map(|result| ArmResult { verdict: Verdict { steps: Vec::new(), ..result.verdict }, ..result })
        .collect();
    Some(verdict)
}

/// What several measurements of the same say together; `None` where something varies, or one has no answer or no upper bound.
fn repeated(results: &[ArmResult]) -> Option<CapacityInterval> {
    let same = results.iter().all(|result| result.arm.setting.is_empty());
    let bounded =
        |result: &ArmResult| result.verdict.last_good.filter(|_| result.verdict.status == Status::CapacityFound);
    let capacities: Option<Vec<u64>> = results.iter().map(bounded).collect();
    repeats::interval(&capacities.filter(|_| same)?)
}

fn actions(result: &ArmResult) -> impl Iterator<Item = String> + use<'_> {
    let label = result.arm.label();
    result.verdict.actions.iter().map(move |said| format!("{label}: {said}"))
}

fn is_answer(verdict: &Verdict) -> bool {
    matches!(verdict.status, Status::CapacityFound | Status::NotReached)
}

/// The status of the whole, and the code of the arm that gave it.
fn together(results: &[ArmResult], planned: usize) -> (Status, StopCode) {
    let with = |status: Status| results.iter().find(|result| result.verdict.status == status);
    if let Some(aborted) = with(Status::Aborted) {
        return (Status::Aborted, aborted.verdict.stop_code);
    }
    let unanswered = results.iter().find(|result| !is_answer(&result.verdict));
    let found = with(Status::CapacityFound);
    match (unanswered, found) {
        (None, _) if results.len() < planned => (Status::Inconclusive, StopCode::TimeBudget),
        (None, Some(found)) => (Status::CapacityFound, found.verdict.stop_code),
        (None, None) => (Status::NotReached, StopCode::MaxLoad),
        (Some(failed), _) => {
            let all_the_same = results.iter().all(|other| other.verdict.status == failed.verdict.status);
            (if all_the_same { failed.verdict.status } else { Status::Inconclusive }, failed.verdict.stop_code)
        }
    }
}

fn validity(results: &[ArmResult]) -> Validity {
    let each = || results.iter().map(|result| &result.verdict.validity);
    Validity {
        valid: each().all(|validity| validity.valid),
        reasons: results
            .iter()
            .flat_map(|result| {
                let label = result.arm.label();
                result.verdict.validity.reasons.iter().map(move |reason| format!("{label}: {reason}"))
            })
            .collect(),
        start_lag_p99_us: each().filter_map(|validity| validity.start_lag_p99_us).max(),
        missed: each().map(|validity| validity.missed).sum(),
        cpu_share: each().filter_map(|validity| validity.cpu_share).max_by(f64::total_cmp),
        shared_machine: each().any(|validity| validity.shared_machine),
        closed_loop: each().find_map(|validity| validity.closed_loop.clone()),
    }
}

fn sentence(verdict: &Verdict, results: &[ArmResult], planned: usize, findings: &[Finding]) -> String {
    // In the order of the scenario, whatever the order of the measurements.
    let mut by_number: Vec<&ArmResult> = results.iter().collect();
    by_number.sort_by_key(|result| result.arm.number);
    let mut parts = vec![measured(&by_number, planned)];
    match &verdict.interval {
        Some(interval) => parts.push(repeats::words(interval, &verdict.unit)),
        None => parts.extend(carried(verdict, &by_number)),
    }
    for result in results.iter().filter(|result| !is_answer(&result.verdict)) {
        parts.push(format!("{}: {}", result.arm.label(), result.verdict.sentence));
    }
    parts.extend(leaders(results));
    let telling = findings.iter().filter(|finding| finding.differs);
    let told: Vec<String> = telling.take(FINDINGS_TOLD).map(|finding| finding.text.clone()).collect();
    if told.is_empty() {
        parts.extend(findings.first().map(|finding| finding.text.clone()));
    }
    parts.extend(told);
    parts.join(" ")
}

fn measured(results: &[&ArmResult], planned: usize) -> String {
    let mut values: Vec<&str> = Vec::new();
    for result in results {
        if !values.contains(&result.arm.value.as_str()) {
            values.push(&result.arm.value);
        }
    }
    let repetitions = results.iter().map(|result| result.arm.repetition).max().unwrap_or(0);
    let times = if repetitions == 1 { "once".to_owned() } else { format!("{repetitions} times each") };
    let setting = results.first().map_or("", |result| result.arm.setting.as_str());
    let text = if setting.is_empty() {
        format!("The same was measured {repetitions} times")
    } else {
        format!("{setting} = {} measured {times}", values.join(", "))
    };
    if results.len() < planned { format!("{text}, {} of {planned} arms.", results.len()) } else { format!("{text}.") }
}

/// What the arms carried, where that is a number: a range for each value.
fn carried(verdict: &Verdict, results: &[&ArmResult]) -> Option<String> {
    let unit = &verdict.unit;
    match verdict.status {
        Status::NotReached => {
            verdict.last_good.map(|good| format!("Every arm carried {} {unit}, the most that was asked.", count(good)))
        }
        Status::CapacityFound | Status::Inconclusive => {
            let mut words: Vec<String> = Vec::new();
            let mut seen: Vec<&str> = Vec::new();
            for result in results {
                let value = result.arm.value.as_str();
                if seen.contains(&value) {
                    continue;
                }
                seen.push(value);
                let same = || results.iter().filter(|other| other.arm.value == value && is_answer(&other.verdict));
                let goods = || same().map(|other| other.verdict.last_good.unwrap_or(0));
                let Some((low, high)) = goods().min().zip(goods().max()) else { continue };
                let least = if same().all(|other| other.verdict.first_bad.is_none()) { "at least " } else { "" };
                let range = if low == high { count(low) } else { format!("{} to {}", count(low), count(high)) };
                let of = if value.is_empty() { String::new() } else { format!(" with {value}") };
                words.push(format!("{least}{range}{of}"));
            }
            (!words.is_empty()).then(|| format!("Carried: {} ({unit}).", words.join(", ")))
        }
        Status::Invalid | Status::Failed | Status::Aborted => None,
    }
}

/// Said where the arms did not have the same leader: its machine may differ from the others'.
fn leaders(results: &[ArmResult]) -> Option<String> {
    let mut all: Vec<&str> = results.iter().filter_map(|result| result.leader.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    (all.len() > 1).then(|| format!("The arms did not have the same leader: {}.", all.join(", ")))
}

fn count(load: u64) -> String {
    figure(load as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        analysis::{
            judge::tests::{probe, trial},
            verdict::{Question, conclude as conclude_arm},
        },
        model::{Outcome, RunId},
    };

    pub(crate) fn arm(number: u32, value: &str, repetition: u32) -> Arm {
        Arm { number, setting: "zoo_cfg.snapCount".to_owned(), value: value.to_owned(), repetition }
    }

    /// An arm that measured the empty target and one load, which held or broke.
    pub(crate) fn result(arm: Arm, rates: &[(u64, &[(&str, f64)])], stop: StopCode) -> ArmResult {
        let mut trials = Vec::new();
        for (step, (load, rates)) in (0..).zip(rates) {
            let stats = rates.iter().map(|(name, rate)| {
                let mut stat = probe(name, *rate, 1_000);
                stat.write = !matches!(*name, "get" | "watch");
                stat
            });
            let mut made = trial(step, *load, stats.collect());
            made.arm = arm.number;
            made.outcome = match (*load, stop) {
                (0, _) => Outcome::Baseline,
                (_, StopCode::MaxLoad) => Outcome::Held,
                _ => Outcome::Broke,
            };
            made.stop_code = (made.outcome == Outcome::Broke).then_some(stop);
            trials.push(made);
        }
        let question = Question {
            run: RunId::new(),
            arm: arm.number,
            axis: "domains",
            unit: "domains",
            rules: &[],
            actions: &[],
            ladder: &crate::analysis::Ladder::Levels(Vec::new()),
            required: None,
            peak: None,
            hold: None,
            shared_machine: true,
            reason: None,
            arms: 1,
        };
        ArmResult { arm, leader: Some("127.0.0.3".to_owned()), verdict: conclude_arm(&question, &trials, stop) }
    }

    fn held(number: u32, value: &str, repetition: u32) -> ArmResult {
        result(arm(number, value, repetition), &[(0, &[("get", 900.0)]), (10, &[("get", 800.0)])], StopCode::MaxLoad)
    }

    proptest! {
        #[test]
        fn every_arm_is_measured_once_and_repetitions_stay_together(values in 1_u32..6, repetitions in 1_u32..6, seed: u64, abba: bool) {
            let arms: Vec<Arm> = (1..=repetitions)
                .flat_map(|repetition| (0..values).map(move |value| (value, repetition)))
                .enumerate()
                .map(|(number, (value, repetition))| arm(u32::try_from(number).unwrap(), &value.to_string(), repetition))
                .collect();
            let kind = if abba { Order::Abba } else { Order::Random };
            let made = order(&arms, kind, seed);
            let mut sorted = made.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..arms.len()).collect::<Vec<_>>());
            let by_time: Vec<u32> = made.iter().map(|at| arms[*at].repetition).collect();
            prop_assert!(by_time.is_sorted(), "{:?}", by_time);
            prop_assert_eq!(order(&arms, kind, seed), made, "the same seed, the same order");
        }
    }

    #[test]
    fn random_orders_differ_and_abba_turns_round() {
        let arms: Vec<Arm> = (0..8).map(|n| arm(n, &(n % 4).to_string(), n / 4 + 1)).collect();
        assert_eq!(order(&arms, Order::Abba, 7), [0, 1, 2, 3, 7, 6, 5, 4]);
        let different: std::collections::HashSet<_> = (0..50).map(|seed| order(&arms, Order::Random, seed)).collect();
        assert!(different.len() > 20, "{}", different.len());
    }

    #[test]
    fn all_arms_that_held_everything_are_one_answer() {
        let verdict = conclude(vec![held(0, "1000", 1), held(1, "9000", 1)], 2).unwrap();
        assert_eq!((verdict.status, verdict.stop_code, verdict.exit_code), (Status::NotReached, StopCode::MaxLoad, 0));
        assert_eq!((verdict.last_good, verdict.arms.len(), verdict.steps.len()), (Some(10), 2, 4));
        assert!(verdict.arms.iter().all(|arm| arm.verdict.steps.is_empty()), "steps are stored once");
        assert!(verdict.sentence.starts_with("zoo_cfg.snapCount = 1000, 9000 measured once. Every arm carried 10"));
    }

    #[test]
    fn the_whole_carries_what_its_weakest_arm_carries() {
        let broke =
            result(arm(1, "9000", 1), &[(0, &[("get", 900.0)]), (10, &[("get", 10.0)])], StopCode::TargetSaturated);
        let verdict = conclude(vec![held(0, "1000", 1), broke], 2).unwrap();
        assert_eq!((verdict.status, verdict.last_good, verdict.first_bad), (Status::CapacityFound, None, Some(10)));
        assert!(
            verdict.sentence.contains("Carried: at least 10 with 1000, 0 with 9000 (domains)."),
            "{}",
            verdict.sentence
        );
    }

    #[test]
    fn a_value_that_does_not_start_is_named_and_the_rest_is_kept() {
        let dead = result(arm(1, "-XX:Nonsense", 1), &[], StopCode::TargetUnhealthy);
        let verdict = conclude(vec![held(0, "1000", 1), dead.clone()], 2).unwrap();
        assert_eq!((verdict.status, verdict.exit_code), (Status::Inconclusive, 4));
        assert!(verdict.sentence.contains("-XX:Nonsense, repetition 1: The run failed"), "{}", verdict.sentence);
        assert!(verdict.sentence.contains("at least 10 with 1000"), "{}", verdict.sentence);
        let all_dead = conclude(vec![dead], 1).unwrap();
        assert_eq!(all_dead.status, Status::Failed);
    }

    #[test]
    fn arms_that_were_not_reached_leave_it_open() {
        let verdict = conclude(vec![held(0, "1000", 1)], 2).unwrap();
        assert_eq!((verdict.status, verdict.stop_code), (Status::Inconclusive, StopCode::TimeBudget));
        assert!(verdict.sentence.contains("1 of 2 arms"), "{}", verdict.sentence);
    }

    #[test]
    fn another_leader_is_said() {
        let mut other = held(1, "9000", 1);
        other.leader = Some("127.0.0.2".to_owned());
        let verdict = conclude(vec![held(0, "1000", 1), other], 2).unwrap();
        assert!(verdict.sentence.contains("not have the same leader: 127.0.0.2, 127.0.0.3"), "{}", verdict.sentence);
    }
}
