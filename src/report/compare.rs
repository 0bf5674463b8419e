//! Two runs beside each other: what they ran on first, then what they did. Says what the rates cannot be put down to;
//! judges nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;

use super::{Cell, Column, Mark, Table, lead_node, steps};
use crate::{
    model::{
        Fingerprint, Inventory, OperationStat, Outcome, Trial,
        fingerprint::{Difference, differences},
    },
    store::RunDetail,
};

/// What stands between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Comparison {
    /// Short name and scenario of the run that the other is compared with.
    pub before: String,
    pub after: String,
    /// What keeps the rates from being compared, in sentences.
    pub warnings: Vec<String>,
    /// What the runs ran on, where it differs; empty too where nothing is known of one of them.
    pub differences: Vec<Difference>,
    pub rates: Vec<RatePair>,
}

/// What one operation did at one load in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RatePair {
    /// The setting of the arm and its repetition; empty for runs without arms.
    pub arm: String,
    pub stream: String,
    pub operation: String,
    pub load: u64,
    /// Absent where the run did not measure it.
    pub before_per_s: Option<f64>,
    pub after_per_s: Option<f64>,
    /// `after / before`.
    pub ratio: Option<f64>,
}

/// Compares two runs.
///
/// # Errors
/// When both are the same run.
pub fn of(before: &RunDetail, after: &RunDetail) -> Result<Comparison, SameRun> {
    if before.run.id == after.run.id {
        return Err(SameRun(before.run.id.to_string()));
    }
    let mut warnings = Vec::new();
    let known = facts(before).zip(facts(after));
    let found = known.map(|(one, other)| differences(&one, &other)).unwrap_or_default();
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|difference| difference.name.as_str()).collect();
        warnings.push(format!(
            "{} things differ ({}): what the rates show cannot be put down to one of them.",
            found.len(),
            names.join(", ")
        ));
    }
    warnings.extend([before, after].into_iter().filter(|detail| facts(detail).is_none()).map(|detail| {
        format!("{} has no inventory: what it ran on is not known, so that more may differ.", words_of(detail))
    }));
    warnings.extend(scenarios(before, after));
    warnings.extend([before, after].into_iter().filter_map(unfit));
    let comparable = before.run.axis == after.run.axis && before.run.unit == after.run.unit;
    let rates = if comparable { pairs(before, after) } else { Vec::new() };
    if !comparable {
        warnings.push(format!(
            "One run counts its load in {}, the other in {}: no load of one is a load of the other.",
            before.run.unit, after.run.unit
        ));
    } else if !rates.iter().any(|pair| pair.ratio.is_some()) {
        warnings.push("No operation was measured at the same load in both.".to_owned());
    }
    Ok(Comparison { before: words_of(before), after: words_of(after), warnings, differences: found, rates })
}

/// The same run was named twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("run {0} is named twice; allowed: two runs")]
pub struct SameRun(String);

fn words_of(detail: &RunDetail) -> String {
    format!("{} ({})", detail.run.id.short(), detail.run.scenario)
}

/// What a run ran on; of several arms every value that one of them had.
fn facts(detail: &RunDetail) -> Option<Fingerprint> {
    let own = |inventory: &Inventory| {
        // A run of before there were fingerprints has all that one is made of.
        if inventory.fingerprint.facts.is_empty() { Fingerprint::of(inventory) } else { inventory.fingerprint.clone() }
    };
    if detail.inventories.len() < 2 {
        return detail.inventory.as_ref().map(own);
    }
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in detail.inventories.values().flat_map(|inventory| own(inventory).facts) {
        values.entry(name).or_default().insert(value);
    }
    let joined = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
    let facts = values.into_iter().map(|(name, values)| (name, joined(values))).collect();
    Some(Fingerprint { hash: String::new(), facts })
}

fn scenarios(before: &RunDetail, after: &RunDetail) -> Option<String> {
    if before.scenario_text == after.scenario_text {
        return None;
    }
    let which = if before.run.scenario == after.run.scenario {
        format!("Both scenarios are called {} and differ", before.run.scenario)
    } else {
        format!("The scenarios differ ({} and {})", before.run.scenario, after.run.scenario)
    };
    Some(format!("{which}: loads, traffic and probes may not be the same."))
}

/// Why the figures of one run may not be what they seem.
fn unfit(detail: &RunDetail) -> Option<String> {
    let run = words_of(detail);
    match &detail.verdict {
        Some(verdict) if !verdict.validity.valid => {
            Some(format!("The generator of {run} was not fit to judge: its rates may be its own."))
        }
        Some(_) => None,
        None if detail.run.state.is_over() => {
            Some(format!("{run} has no verdict: these are the steps that it finished."))
        }
        None => Some(format!("{run} is {}: these are its steps so far.", detail.run.state.as_str())),
    }
}

/// Arm, stream, operation, load: what is compared with its like.
type Key = (String, String, String, u64);

fn pairs(before: &RunDetail, after: &RunDetail) -> Vec<RatePair> {
    let (one, other) = (rates(before), rates(after));
    let mut keys: Vec<&Key> = Vec::new();
    for (key, _) in one.iter().chain(&other) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // Operations stay in the order in which they were done; each has its loads together.
    let of_operation =
        |key: &Key| keys.iter().position(|known| (&known.0, &known.1, &known.2) == (&key.0, &key.1, &key.2));
    let mut sorted = keys.clone();
    sorted.sort_by_key(|key| (of_operation(key), key.3));
    let rate = |all: &[(Key, f64)], key: &Key| all.iter().find(|(known, _)| known == key).map(|(_, rate)| *rate);
    sorted
        .into_iter()
        .map(|key| {
            let (before_per_s, after_per_s) = (rate(&one, key), rate(&other, key));
            let ratio = before_per_s.zip(after_per_s).filter(|(was, _)| *was > 0.0).map(|(was, is)| is / was);
            let (arm, stream, operation, load) = key.clone();
            RatePair { arm, stream, operation, load, before_per_s, after_per_s, ratio }
        })
        .collect()
}

/// Each operation of the load, and of the probes those on the leader: other servers are other ones in each run.
fn rates(detail: &RunDetail) -> Vec<(Key, f64)> {
    let arms = detail.outline.arms.iter().filter_map(|arm| {
        let name = if arm.setting.is_empty() { String::new() } else { format!("{} = {}, ", arm.setting, arm.value) };
        Some((format!("{name}time {}", arm.repetition), detail.of_arm(arm.number)?))
    });
    let arms: Vec<(String, RunDetail)> = arms.collect();
    if arms.is_empty() {
        return of_one("", detail);
    }
    arms.iter().flat_map(|(name, arm)| of_one(name, arm)).collect()
}

fn of_one(arm: &str, detail: &RunDetail) -> Vec<(Key, f64)> {
    let lead = lead_node(detail);
    let of_lead = |stat: &&OperationStat| !stat.probe || stat.node.is_empty() || Some(&stat.node) == lead.as_ref();
    // A void trial says nothing, and one with an action is of less than the whole target.
    let says = |trial: &&Trial| trial.outcome != Outcome::Void && trial.action.is_none() && trial.measure_s > 0.0;
    steps::representative(detail)
        .into_iter()
        .filter(says)
        .flat_map(|trial| trial.operations.iter().filter(of_lead).map(move |stat| (trial, stat)))
        .map(|(trial, stat)| {
            ((arm.to_owned(), stat.stream.clone(), stat.operation.clone(), trial.load), stat.ops_per_s)
        })
        .collect()
}

impl Comparison {
    /// What differs, as a table.
    #[must_use]
    pub fn differences(&self) -> Table {
        let columns = vec![
            Column::words("what", "what differs"),
            Column::words("before", &self.before),
            Column::words("after", &self.after),
        ];
        let mut table = Table::new("differences", "What the runs ran on, where it differs", columns);
        let cell = |value: &Option<String>| {
            value.as_ref().map_or_else(|| Cell::missing("not known"), |value| Cell::text(value.clone()))
        };
        for Difference { name, before, after } in &self.differences {
            table.push(Mark::None, vec![Cell::text(name.clone()), cell(before), cell(after)]);
        }
        table
    }

    /// The rates, as a table.
    #[must_use]
    pub fn rates(&self) -> Table {
        let arms = self.rates.iter().any(|pair| !pair.arm.is_empty());
        let mut columns = vec![
            Column::words("stream", "stream"),
            Column::words("operation", "operation"),
            Column::figures("load", "load", ""),
            Column::figures("before_per_s", &self.before, "per s"),
            Column::figures("after_per_s", &self.after, "per s"),
            Column::figures("ratio", "second / first", ""),
        ];
        if arms {
            columns.insert(0, Column::words("arm", "arm"));
        }
        let mut table = Table::new("rates", "Operations per second of both", columns);
        for pair in &self.rates {
            let rate = |rate: Option<f64>| rate.map_or_else(|| Cell::missing("not measured"), Cell::number);
            let mut row = vec![
                Cell::text(pair.stream.clone()),
                Cell::text(pair.operation.replace('_', " ")),
                Cell::count(pair.load),
                rate(pair.before_per_s),
                rate(pair.after_per_s),
                pair.ratio.map_or_else(|| Cell::missing("no ratio"), Cell::number),
            ];
            if arms {
                row.insert(0, Cell::text(pair.arm.clone()));
            }
            table.push(Mark::None, row);
        }
        table.notes.push(
            "Of a step that was measured more than once the last valid trial; of probes those on the leader, or the only \
             server. One measurement each: how far rates scatter by themselves is not in this table."
                .to_owned(),
        );
        table
    }
}
