//! What the load itself did: asked against achieved, expected against observed.

use super::{Cell, Column, Mark, Table, format, lead_node, steps, words};
use crate::{
    model::{OperationStat, Trial},
    store::RunDetail,
};

/// Below this share of what was asked, a row is marked.
const SHORT: f64 = 0.95;

/// Transactions and reads that were asked for and achieved, one row a step; with their latency where the load is what is
/// measured.
#[must_use]
pub fn by_step(detail: &RunDetail) -> Table {
    let measured = measured_operations(detail);
    let title = if measured.is_empty() {
        "Steady traffic of the load, asked and achieved"
    } else {
        "The load at each step, asked and achieved"
    };
    let mut table = Table::new("load", title, vec![Column::words("step", "step")]);
    let classes = classes(detail);
    for class in &classes {
        let (id, name) = if *class == Class::Writes { ("transactions", "transactions") } else { ("reads", "reads") };
        table.columns.extend([
            Column::figures(&format!("{id}_asked_per_s"), &format!("{name} asked"), "per s"),
            Column::figures(&format!("{id}_achieved_per_s"), "achieved", "per s"),
            Column::figures(&format!("{id}_achieved_percent"), "of asked", "%"),
        ]);
    }
    if classes.contains(&Class::Writes) {
        table.columns.push(Column::figures("server_transactions_per_s", "server counted", "per s"));
    }
    table.columns.push(Column::figures("errors", "errors", ""));
    for operation in &measured {
        let name = operation.replace('_', " ");
        table.columns.extend([
            Column::figures(&format!("{operation}_p50_ms"), &format!("{name} p50"), "ms"),
            Column::figures(&format!("{operation}_p99_ms"), &format!("{name} p99"), "ms"),
            Column::figures(&format!("{operation}_service_p99_ms"), "service p99", "ms"),
        ]);
    }
    if !measured.is_empty() {
        table.columns.push(Column::figures("missed", "missed", ""));
    }
    let lead = lead_node(detail).unwrap_or_default();
    for trial in steps::representative(detail) {
        let own: Vec<&OperationStat> = trial.operations.iter().filter(|stat| !stat.probe).collect();
        if own.is_empty() {
            continue;
        }
        let (word, mark) = words::outcome(trial.outcome);
        let mut row = vec![Cell::text(words::step(trial, &detail.run.unit)).suffix(word).mark(mark)];
        for class in &classes {
            let writes = *class == Class::Writes;
            row.extend(rates(own.iter().copied().filter(|stat| stat.write == writes)));
        }
        if classes.contains(&Class::Writes) {
            row.push(Cell::sampled(trial.metric(&lead, "transactions_per_s").map(|stat| stat.mean)));
        }
        row.push(Cell::count(own.iter().map(|stat| stat.failed()).sum()));
        for operation in &measured {
            match own.iter().find(|stat| stat.operation == *operation) {
                Some(stat) => row.extend([
                    Cell::percentile((stat.done > 0).then_some(stat.latency.p50_us)),
                    Cell::percentile(stat.latency.p99_us),
                    Cell::percentile(stat.service.p99_us),
                ]),
                None => row.extend([(); 3].map(|()| Cell::missing("none"))),
            }
        }
        if !measured.is_empty() {
            row.push(Cell::count(trial.health.missed));
        }
        table.push(if mark == Mark::Good { Mark::None } else { mark }, row);
    }
    if !measured.is_empty() {
        table.notes.push("Latency counts from when an operation was due, service from when it was sent; missed: due and never sent, because too many were under way.".to_owned());
    }
    if classes.contains(&Class::Writes) {
        table.notes.push(
            "Server counted: transactions of all clients, the probe's among them, by the server's own zxid.".to_owned(),
        );
    }
    table
}

/// What operations do to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Writes,
    Reads,
}

/// The classes of the load's operations; one that it does not have needs no columns.
fn classes(detail: &RunDetail) -> Vec<Class> {
    let own = || detail.trials.iter().flat_map(|trial| &trial.operations).filter(|stat| !stat.probe);
    let has = |class: &Class| own().any(|stat| stat.write == (*class == Class::Writes));
    [Class::Writes, Class::Reads].into_iter().filter(has).collect()
}

/// The load's operations, where no probe measures beside it.
fn measured_operations(detail: &RunDetail) -> Vec<String> {
    let all = || detail.trials.iter().flat_map(|trial| &trial.operations);
    if all().any(|stat| stat.probe || stat.asked.is_none()) {
        return Vec::new();
    }
    let mut names: Vec<String> = all().map(|stat| stat.operation.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn rates<'a>(stats: impl Iterator<Item = &'a OperationStat>) -> [Cell; 3] {
    let (mut asked, mut done, mut any) = (Some(0.0), 0.0, false);
    for stat in stats {
        any = true;
        done += stat.ops_per_s;
        asked = asked.zip(stat.asked).map(|(sum, n)| sum + per_s(n, stat.elapsed_s));
    }
    if !any {
        return [Cell::missing("none"), Cell::missing("none"), Cell::missing("none")];
    }
    let asked_cell = asked.map_or_else(|| Cell::missing("no schedule"), Cell::number);
    let share = asked.filter(|asked| *asked > 0.0).map(|asked| done / asked);
    let mark = if share.is_some_and(|share| share < SHORT) { Mark::Wait } else { Mark::None };
    [asked_cell, Cell::number(done), share_cell(share).mark(mark)]
}

fn share_cell(share: Option<f64>) -> Cell {
    share.map_or_else(|| Cell::missing("no share"), |share| Cell::number(share * 100.0))
}

fn per_s(n: u64, elapsed_s: f64) -> f64 {
    if elapsed_s > 0.0 { n as f64 / elapsed_s } else { 0.0 }
}

/// One row for each step and operation of the load.
#[must_use]
pub fn long(detail: &RunDetail) -> Table {
    let mut table = Table::new(
        "load",
        "Operations of the load at each step",
        vec![
            Column::figures("step", "step", ""),
            Column::figures(&format!("load_{}", detail.run.axis), "load", &detail.run.unit),
            Column::words("outcome", "outcome"),
            Column::words("stream", "stream"),
            Column::words("operation", "operation"),
            Column::words("class", "class"),
            Column::figures("asked_per_s", "asked", "per s"),
            Column::figures("achieved_per_s", "achieved", "per s"),
            Column::figures("achieved_percent", "of asked", "%"),
            Column::figures("p99_ms", "p99", "ms"),
            Column::figures("errors", "errors", ""),
        ],
    );
    for trial in steps::representative(detail) {
        for stat in trial.operations.iter().filter(|stat| !stat.probe) {
            let asked = stat.asked.map(|n| per_s(n, stat.elapsed_s));
            table.push(
                Mark::None,
                vec![
                    Cell::count(u64::from(trial.step)),
                    Cell::count(trial.load),
                    Cell::text(words::outcome(trial.outcome).0),
                    Cell::text(&stat.stream),
                    Cell::text(&stat.operation),
                    Cell::text(if stat.write { "transaction" } else { "read" }),
                    asked.map_or_else(|| Cell::missing("no schedule"), Cell::number),
                    Cell::number(stat.ops_per_s),
                    share_cell(asked.filter(|asked| *asked > 0.0).map(|asked| stat.ops_per_s / asked)),
                    Cell::percentile(stat.latency.p99_us),
                    Cell::count(stat.failed()),
                ],
            );
        }
    }
    table
}

/// What the load should have added, against what the target itself counted: one row a step.
#[must_use]
pub fn counts_by_step(detail: &RunDetail) -> Table {
    let shown = steps::representative(detail);
    let mut kinds: Vec<&str> = Vec::new();
    for check in shown.iter().flat_map(|trial| &trial.counts) {
        if !kinds.contains(&check.what.as_str()) {
            kinds.push(&check.what);
        }
    }
    let mut columns = vec![Column::words("step", "step")];
    for what in &kinds {
        columns.push(Column::figures(&format!("{what}_expected"), &format!("{what} expected"), "added"));
        columns.push(Column::figures(&format!("{what}_observed"), "observed", "added"));
    }
    columns.push(Column::words("confirmed", "confirmed"));
    let mut table = Table::new("counts", "Load in place, expected and observed", columns);
    for trial in shown.iter().filter(|trial| !trial.counts.is_empty()) {
        let mut row = vec![Cell::text(words::step(trial, &detail.run.unit))];
        for what in &kinds {
            let check = trial.counts.iter().find(|check| check.what == *what);
            row.push(check.map_or_else(|| Cell::missing("not checked"), |check| Cell::count(check.expected)));
            let observed = check.and_then(|check| check.observed).map(|observed| observed as f64);
            let off = check.and_then(crate::model::CountCheck::within) == Some(false);
            row.push(Cell::counted(observed).mark(if off { Mark::Bad } else { Mark::None }));
        }
        let within = || trial.counts.iter().map(crate::model::CountCheck::within);
        let (word, mark) = if within().any(|within| within == Some(false)) {
            ("no", Mark::Bad)
        } else if within().any(|within| within.is_none()) {
            ("in part", Mark::Wait)
        } else {
            ("yes", Mark::Good)
        };
        row.push(Cell::text(word).mark(mark));
        table.push(Mark::None, row);
    }
    table.notes.push(
        "Counted by the target itself, over what was there before the load; confirmed within the tolerance of each count."
            .to_owned(),
    );
    table
}

/// As [`counts_by_step`], one row for each step and count.
#[must_use]
pub fn counts(detail: &RunDetail) -> Table {
    let mut table = Table::new(
        "counts",
        "Load in place, expected and observed",
        vec![
            Column::words("step", "step"),
            Column::words("what", "what"),
            Column::figures("expected", "expected", "added"),
            Column::figures("observed", "observed", "added"),
            Column::figures("difference", "difference", ""),
            Column::figures("tolerance", "tolerance", ""),
            Column::words("confirmed", "confirmed"),
        ],
    );
    for trial in steps::representative(detail) {
        for check in &trial.counts {
            table.push(Mark::None, count_row(trial, check, &detail.run.unit));
        }
    }
    table.notes.push("Counted by the target itself, over what was there before the load.".to_owned());
    table
}

fn count_row(trial: &Trial, check: &crate::model::CountCheck, unit: &str) -> Vec<Cell> {
    let observed = check.observed.map(|observed| observed as f64);
    let (word, mark) = match check.within() {
        Some(true) => ("yes", Mark::Good),
        Some(false) => ("no", Mark::Bad),
        None => (format::NOT_SAMPLED, Mark::Void),
    };
    vec![
        Cell::text(words::step(trial, unit)),
        Cell::text(&check.what),
        Cell::count(check.expected),
        Cell::counted(observed),
        Cell::counted(observed.map(|observed| observed - check.expected as f64)),
        Cell::count(check.tolerance),
        Cell::text(word).mark(mark),
    ]
}
