//! Every trial with what became of it and why, and what each rule read.

use super::{Cell, Column, Mark, Table, words};
use crate::{
    model::{RuleReading, Trial},
    store::RunDetail,
};

/// All trials, repeats and void ones too.
#[must_use]
pub fn all(detail: &RunDetail) -> Table {
    let mut table = Table::new(
        "trials",
        "Trials",
        vec![
            Column::figures("step", "step", ""),
            Column::figures("trial", "trial", ""),
            Column::figures(&format!("load_{}", detail.run.axis), "load", &detail.run.unit),
            Column::words("outcome", "outcome"),
            Column::words("stop_code", "stop code"),
            Column::figures("fill_s", "fill", "s"),
            Column::figures("settle_s", "settle", "s"),
            Column::figures("measure_s", "measure", "s"),
            Column::figures("start_lag_p99_ms", "start lag p99", "ms"),
            Column::figures("missed", "due, not sent", ""),
            Column::figures("generator_cpu_percent", "generator CPU", "%"),
            Column::words("why", "why, and what happened"),
        ],
    );
    for trial in &detail.trials {
        let (word, mark) = words::outcome(trial.outcome);
        table.push(
            if mark == Mark::Good { Mark::None } else { mark },
            vec![
                Cell::count(u64::from(trial.step)),
                Cell::count(u64::from(trial.trial)),
                Cell::count(trial.load),
                Cell::text(word).mark(mark),
                Cell::text(trial.stop_code.map_or("", |code| code.as_str())),
                Cell::number(trial.fill_s),
                Cell::number(trial.settle_s),
                Cell::number(trial.measure_s),
                Cell::sampled(trial.health.start_lag_p99_us.map(|us| us as f64 / 1_000.0)),
                Cell::count(trial.health.missed),
                Cell::sampled(trial.health.cpu_share.map(|share| share * 100.0)),
                Cell::text(why(trial)),
            ],
        );
    }
    table
}

/// Broken rules, incidents and remarks, each said once.
fn why(trial: &Trial) -> String {
    let broken = trial.rules.iter().filter(|rule| rule.broke == Some(true)).map(|rule| rule.text.clone());
    let undecided = trial.rules.iter().filter(|rule| rule.broke.is_none()).map(|rule| rule.text.clone());
    let incidents = trial.incidents.iter().map(|incident| incident.text.clone());
    let remarks = trial.remarks.iter().cloned();
    let mut said: Vec<String> = Vec::new();
    for text in broken.chain(undecided).chain(incidents).chain(remarks) {
        let text = text.trim_end_matches('.').to_owned();
        if !said.contains(&text) {
            said.push(text);
        }
    }
    if said.is_empty() { String::new() } else { words::ended(&said.join("; ")) }
}

/// What each rule read in each trial.
#[must_use]
pub fn rules(detail: &RunDetail) -> Table {
    let mut table = Table::new(
        "rules",
        "Rules at each trial",
        vec![
            Column::figures("step", "step", ""),
            Column::figures("trial", "trial", ""),
            Column::figures(&format!("load_{}", detail.run.axis), "load", &detail.run.unit),
            Column::words("rule", "rule"),
            Column::words("subject", "of"),
            Column::figures("value", "read", ""),
            Column::figures("limit", "limit", ""),
            Column::words("unit", "unit"),
            Column::words("broke", "said"),
            Column::words("text", "in words"),
        ],
    );
    for trial in &detail.trials {
        for rule in &trial.rules {
            table.push(Mark::None, rule_row(trial, rule));
        }
    }
    table
}

fn rule_row(trial: &Trial, rule: &RuleReading) -> Vec<Cell> {
    let (word, mark) = match rule.broke {
        Some(true) => ("broke", Mark::Bad),
        Some(false) => ("kept", Mark::Good),
        None => ("too little data", Mark::Wait),
    };
    vec![
        Cell::count(u64::from(trial.step)),
        Cell::count(u64::from(trial.trial)),
        Cell::count(trial.load),
        Cell::text(rule.rule.as_str()),
        Cell::text(&rule.subject),
        rule.value.map_or_else(|| Cell::missing(super::format::TOO_FEW), Cell::number),
        Cell::number(rule.limit),
        Cell::text(&rule.unit),
        Cell::text(word).mark(mark),
        Cell::text(&rule.text),
    ]
}
