//! What the arms of a run show together: which rates differ beyond the spread of the repetitions, in words.

use std::collections::BTreeMap;

use super::figure;
use crate::model::{ArmResult, Finding, OperationStat, Outcome, Trial};

/// Rates of one operation, as operations per second, one for each arm that measured it.
type Rates = Vec<f64>;

/// What is compared: the load and the value of the setting at which an operation was measured.
type Place = (u64, String);

/// One operation of a probe over all arms.
#[derive(Debug, Default)]
struct Operation {
    name: String,
    write: bool,
    rates: BTreeMap<Place, Rates>,
}

/// How an operation changed from one place to another.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    operation: String,
    write: bool,
    /// Relative change of the median: -0.24 is a fall by 24 %.
    share: f64,
    differs: bool,
}

/// What the arms show: each value against the first at the same load, then each load against the empty target at the same
/// value. Those that differ come first.
///
/// A rate differs where all repetitions of one side lie beyond all of the other, and where the difference of the means of
/// the logarithms is beyond what Student's t with the pooled spread of the repetitions allows at 95 % (two-sided).
#[must_use]
pub fn findings(results: &[ArmResult]) -> Vec<Finding> {
    let (values, loads) = (values(results), loads(results));
    let repetitions = results.iter().map(|result| result.arm.repetition).max().unwrap_or(0);
    if repetitions < 2 {
        return (values.len() > 1).then(|| once(values.len())).into_iter().collect();
    }
    let operations = operations(results);
    let mut all = Vec::new();
    if let Some((first, others)) = values.split_first() {
        for load in loads.iter().rev() {
            for value in others {
                let (from, to) = ((*load, first.clone()), (*load, value.clone()));
                let said = format!("{}{value} against {first}", at(results, *load));
                all.extend(finding(&operations, &from, &to, &said, "differ"));
            }
        }
    }
    if let Some((empty, others)) = loads.split_first() {
        for load in others.iter().rev() {
            for value in &values {
                let (from, to) = ((*empty, value.clone()), (*load, value.clone()));
                let with = if value.is_empty() { String::new() } else { format!(" and {value}") };
                let said =
                    format!("With {} {}{with}, against {}", figure(*load as f64), unit(results), empty_words(*empty));
                all.extend(finding(&operations, &from, &to, &said, "fall"));
            }
        }
    }
    all.sort_by_key(|finding| !finding.differs);
    all
}

fn once(values: usize) -> Finding {
    Finding {
        load: 0,
        value: String::new(),
        against: String::new(),
        text: format!(
            "Each of {values} values was measured once: without repetitions nothing can be said about differences."
        ),
        differs: false,
    }
}

fn unit(results: &[ArmResult]) -> &str {
    results.first().map_or("", |result| result.verdict.unit.as_str())
}

fn at(results: &[ArmResult], load: u64) -> String {
    let setting = results.first().map_or("", |result| result.arm.setting.as_str());
    if load == 0 {
        format!("With the empty target, {setting} = ")
    } else {
        format!("With {} {}, {setting} = ", figure(load as f64), unit(results))
    }
}

fn empty_words(load: u64) -> String {
    if load == 0 { "the empty target".to_owned() } else { figure(load as f64) }
}

/// The values of the setting, in the order of the scenario.
fn values(results: &[ArmResult]) -> Vec<String> {
    let mut arms: Vec<_> = results.iter().map(|result| &result.arm).collect();
    arms.sort_by_key(|arm| arm.number);
    let mut values: Vec<String> = Vec::new();
    for arm in arms {
        if !values.contains(&arm.value) {
            values.push(arm.value.clone());
        }
    }
    values
}

fn loads(results: &[ArmResult]) -> Vec<u64> {
    let mut loads: Vec<u64> =
        results.iter().flat_map(|result| result.verdict.steps.iter().map(|trial| trial.load)).collect();
    loads.sort_unstable();
    loads.dedup();
    loads
}

/// All rates that were measured, each operation once; of several trials of a load in one arm the last valid one.
fn operations(results: &[ArmResult]) -> Vec<Operation> {
    let mut all: Vec<Operation> = Vec::new();
    for result in results {
        let mut of_load: BTreeMap<u64, &Trial> = BTreeMap::new();
        let valid =
            result.verdict.steps.iter().filter(|trial| trial.outcome != Outcome::Void && trial.action.is_none());
        of_load.extend(valid.map(|trial| (trial.load, trial)));
        for (load, trial) in of_load {
            for stat in of_lead(trial, result.leader.as_deref()) {
                let at = all.iter().position(|known| known.name == stat.operation).unwrap_or_else(|| {
                    let (name, write) = (stat.operation.clone(), stat.write);
                    all.push(Operation { name, write, rates: BTreeMap::new() });
                    all.len() - 1
                });
                all[at].rates.entry((load, result.arm.value.clone())).or_default().push(stat.ops_per_s);
            }
        }
    }
    all
}

/// The probe's operations, of the leader where several servers were asked: each once.
fn of_lead<'a>(trial: &'a Trial, leader: Option<&str>) -> Vec<&'a OperationStat> {
    let measured = || trial.operations.iter().filter(|stat| stat.probe && stat.ops_per_s > 0.0);
    let is_lead = |stat: &&OperationStat| leader.is_some_and(|leader| stat.node.starts_with(leader));
    let mut kept: Vec<&OperationStat> = Vec::new();
    for stat in measured().filter(is_lead).chain(measured()) {
        if !kept.iter().any(|known| known.operation == stat.operation) {
            kept.push(stat);
        }
    }
    kept
}

fn finding(operations: &[Operation], from: &Place, to: &Place, said: &str, verb: &str) -> Option<Finding> {
    let changes: Vec<Change> = operations.iter().filter_map(|operation| change(operation, from, to)).collect();
    let classes = [("writes", true), ("reads", false)];
    let parts: Vec<String> = classes
        .into_iter()
        .filter_map(|(class, write)| {
            let of_class: Vec<&Change> = changes.iter().filter(|change| change.write == write).collect();
            (!of_class.is_empty()).then(|| words(class, &of_class, verb))
        })
        .collect();
    (!parts.is_empty()).then(|| Finding {
        load: to.0,
        value: to.1.clone(),
        against: if from.1 == to.1 { String::new() } else { from.1.clone() },
        text: format!("{said}: {}.", parts.join(", ")),
        differs: changes.iter().any(|change| change.differs),
    })
}

fn change(operation: &Operation, from: &Place, to: &Place) -> Option<Change> {
    let (before, after) = (operation.rates.get(from)?, operation.rates.get(to)?);
    let share = median(after) / median(before) - 1.0;
    let (low, high) = if share < 0.0 { (after, before) } else { (before, after) };
    let apart = low.iter().copied().fold(f64::MIN, f64::max) < high.iter().copied().fold(f64::MAX, f64::min);
    let differs = before.len() >= 2 && after.len() >= 2 && apart && beyond_spread(operation, from, to);
    Some(Change { operation: operation.name.clone(), write: operation.write, share, differs })
}

/// Student's t on logarithms, the spread pooled over all values at both loads: two repetitions alone say little of it.
fn beyond_spread(operation: &Operation, from: &Place, to: &Place) -> bool {
    let logs = |rates: &Rates| -> Vec<f64> { rates.iter().map(|rate| rate.ln()).collect() };
    let (mut squares, mut freedom) = (0.0, 0_usize);
    for ((load, _), rates) in &operation.rates {
        if *load == from.0 || *load == to.0 {
            let logs = logs(rates);
            let mean = mean(&logs);
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += logs.len() - 1;
        }
    }
    let (Some(before), Some(after)) = (operation.rates.get(from), operation.rates.get(to)) else { return false };
    if freedom == 0 {
        return false;
    }
    let spread = (squares / freedom as f64).sqrt();
    let error = spread * (1.0 / before.len() as f64 + 1.0 / after.len() as f64).sqrt();
    (mean(&logs(after)) - mean(&logs(before))).abs() > t_975(freedom) * error
}

/// The 97.5 % quantile of Student's t: from tables up to 4 degrees of freedom, then the expansion of Cornish and Fisher
/// (within 1 % of the tables).
fn t_975(freedom: usize) -> f64 {
    const FEW: [f64; 4] = [12.706, 4.303, 3.182, 2.776];
    let n = freedom as f64;
    FEW.get(freedom.saturating_sub(1)).copied().unwrap_or(1.96 + 2.372 / n + 2.82 / (n * n))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The middle of what was measured; between the two middle ones of an even number.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// What became of one class of operations: all together where they agree, by name where they do not.
fn words(class: &str, changes: &[&Change], verb: &str) -> String {
    let part = |keep: &dyn Fn(&Change) -> bool| -> Vec<&Change> {
        changes.iter().copied().filter(|change| keep(change)).collect()
    };
    let fallen = part(&|change| change.differs && change.share < 0.0);
    let risen = part(&|change| change.differs && change.share > 0.0);
    let same = part(&|change| !change.differs);
    let mut said = Vec::new();
    for (word, which) in [("fall", &fallen), ("rise", &risen)] {
        if which.len() == changes.len() {
            return format!("{class} {word} {}", sizes(which));
        }
        if !which.is_empty() {
            let names: Vec<String> = which.iter().map(|change| change.operation.replace('_', " ")).collect();
            said.push(format!(
                "{} {word}{} {}",
                names.join(" and "),
                if names.len() == 1 { "s" } else { "" },
                sizes(which)
            ));
        }
    }
    if !same.is_empty() {
        let which = if said.is_empty() { class.to_owned() } else { format!("other {class}") };
        said.push(format!("{which} do not {verb} beyond the spread of the repetitions ({})", signed(&same)));
    }
    said.join(", ")
}

/// `24 %`, or `20 to 26 %`, without signs.
fn sizes(changes: &[&Change]) -> String {
    let (low, high) = bounds(changes.iter().map(|change| change.share.abs()), |percent| format!("{percent}"));
    if low == high { format!("{low} %") } else { format!("{low} to {high} %") }
}

/// `+2 %`, or `-1 % to +14 %`.
fn signed(changes: &[&Change]) -> String {
    let (low, high) = bounds(changes.iter().map(|change| change.share), |percent| format!("{percent:+} %"));
    if low == high { low } else { format!("{low} to {high}") }
}

/// The least and the largest share as whole percents, in words; never a negative zero.
fn bounds(shares: impl Iterator<Item = f64>, words: impl Fn(f64) -> String) -> (String, String) {
    let (low, high) = shares.fold((f64::MAX, f64::MIN), |(low, high), share| (low.min(share), high.max(share)));
    let percent = |share: f64| (share * 100.0).round() + 0.0;
    (words(percent(low)), words(percent(high)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        analysis::arms::tests::{arm, result},
        model::StopCode,
    };

    /// Two values, some repetitions: rates of `create` and `get` with 200 domains, by value and repetition.
    fn measured(first: &[(f64, f64)], second: &[(f64, f64)]) -> Vec<ArmResult> {
        let values = [("1000", first), ("9000", second)];
        let mut number = 0;
        let mut all = Vec::new();
        for (value, repetitions) in values {
            for (repetition, (create, get)) in (1..).zip(repetitions) {
                let rates: &[(u64, &[(&str, f64)])] =
                    &[(0, &[("create", 1_000.0), ("get", 2_000.0)]), (200, &[("create", *create), ("get", *get)])];
                all.push(result(arm(number, value, repetition), rates, StopCode::MaxLoad));
                number += 1;
            }
        }
        all
    }

    #[test]
    fn a_fall_beyond_the_spread_is_told_with_its_size_and_the_rest_is_not() {
        let results = measured(&[(1_000.0, 2_000.0), (1_020.0, 2_020.0)], &[(1_015.0, 1_520.0), (1_005.0, 1_510.0)]);
        let findings = findings(&results);
        let first = &findings[0];
        assert!(first.differs && first.load == 200 && first.value == "9000" && first.against == "1000", "{first:?}");
        assert_eq!(
            first.text,
            "With 200 domains, zoo_cfg.snapCount = 9000 against 1000: writes do not differ beyond the spread of the \
             repetitions (+0 %), reads fall 25 %."
        );
        let loads = findings.iter().find(|finding| finding.against.is_empty() && finding.value == "9000").unwrap();
        assert_eq!(
            loads.text,
            "With 200 domains and 9000, against the empty target: writes do not fall beyond the spread of the \
             repetitions (+1 %), reads fall 24 %."
        );
    }

    #[test]
    fn one_repetition_says_nothing_of_differences() {
        let findings = findings(&measured(&[(1_000.0, 2_000.0)], &[(10.0, 20.0)]));
        assert_eq!(findings.len(), 1);
        assert!(!findings[0].differs && findings[0].text.contains("measured once"), "{findings:?}");
    }

    #[test]
    fn a_value_that_was_measured_only_once_is_never_said_to_differ() {
        let results = measured(&[(1_000.0, 2_000.0), (1_001.0, 2_001.0)], &[(10.0, 20.0)]);
        let between = |finding: &&Finding| finding.against == "1000" && finding.load == 200;
        assert!(findings(&results).iter().filter(between).all(|finding| !finding.differs));
    }

    #[test]
    fn void_trials_and_actions_are_left_out() {
        let mut results = measured(&[(1_000.0, 2_000.0), (1_020.0, 2_020.0)], &[(500.0, 1_000.0), (505.0, 1_010.0)]);
        for result in &mut results {
            result.verdict.steps.retain(|trial| trial.load > 0);
            result.verdict.steps.iter_mut().for_each(|trial| trial.outcome = Outcome::Void);
        }
        assert!(findings(&results).is_empty());
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, table) in [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)] {
            assert!((t_975(freedom) / table - 1.0).abs() < 0.01, "{freedom}: {}", t_975(freedom));
        }
    }

    proptest! {
        #[test]
        fn a_large_effect_is_always_seen_in_its_direction(
            base in 100.0..100_000.0_f64, factor in 1.5..5.0_f64, noise in prop::collection::vec(-0.01..0.01_f64, 8), falls: bool,
        ) {
            let rate = |at: usize, level: f64| level * (1.0 + noise[at]);
            let changed = if falls { base / factor } else { base * factor };
            let results = measured(
                &[(rate(0, base), rate(1, base)), (rate(2, base), rate(3, base))],
                &[(rate(4, changed), rate(5, base)), (rate(6, changed), rate(7, base))],
            );
            let all = findings(&results);
            let found = all.iter().find(|finding| finding.against == "1000" && finding.load == 200).unwrap();
            let word = if falls { "writes fall" } else { "writes rise" };
            prop_assert!(found.differs && found.text.contains(word), "{}", found.text);
        }

        #[test]
        fn overlapping_repetitions_never_differ(rates in prop::collection::vec(500.0..600.0_f64, 4)) {
            let results = measured(
                &[(rates[0].min(rates[1]), 100.0), (rates[2].max(rates[3]), 100.0)],
                &[(rates[0].max(rates[1]).min(rates[2].max(rates[3])), 100.0), (rates[2].max(rates[3]), 100.0)],
            );
            let all = findings(&results);
            let found = all.iter().find(|finding| finding.against == "1000" && finding.load == 200).unwrap();
            prop_assert!(!found.differs, "{}", found.text);
        }
    }

    /// Where nothing differs but chance, about one comparison in twenty may say so, not more.
    #[test]
    fn chance_alone_is_seldom_taken_for_a_difference() {
        let mut state = 7_u64;
        // Twelve uniform numbers, summed: near enough to a normal spread, and the same on every machine.
        let mut normal = || {
            (0..12)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 11) as f64 / (1_u64 << 53) as f64
                })
                .sum::<f64>()
                - 6.0
        };
        let mut wrong = 0;
        for _ in 0..1_000 {
            let mut rate = || 1_000.0 * (0.05 * normal()).exp();
            let results = measured(&[(rate(), 100.0), (rate(), 100.0)], &[(rate(), 100.0), (rate(), 100.0)]);
            let all = findings(&results);
            wrong += usize::from(all.iter().any(|finding| finding.against == "1000" && finding.differs));
        }
        assert!(wrong <= 60, "{wrong} of 1000");
    }
}
