//! What the load itself did: asked against achieved, expected against observed.

use super::{Cell, Column, Mark, Table, format, lead_node, steps, words};
use crate::{
    model::{OperationStat, Trial},
    store::RunDetail,
};

/// Operations of a load that change nothing on the target; all others are transactions.
const READS: &[&str] = &["get", "read", "reads", "exists", "children", "get_children", "get_data", "scan"];
/// Below this share of what was asked, a row is marked.
const SHORT: f64 = 0.95;

fn is_read(stat: &OperationStat) -> bool {
    READS.contains(&stat.operation.as_str())
}

/// Transactions and reads that were asked for and achieved, one row a step.
#[must_use]
pub fn by_step(detail: &RunDetail) -> Table {
    let mut table = Table::new(
        "load",
        "Steady traffic of the load, asked and achieved",
        vec![
            Column::words("step", "step"),
            Column::figures("transactions_asked_per_s", "transactions asked", "per s"),
            Column::figures("transactions_achieved_per_s", "achieved", "per s"),
            Column::figures("transactions_achieved_percent", "of asked", "%"),
            Column::figures("reads_asked_per_s", "reads asked", "per s"),
            Column::figures("reads_achieved_per_s", "achieved", "per s"),
            Column::figures("reads_achieved_percent", "of asked", "%"),
            Column::figures("server_transactions_per_s", "server counted", "per s"),
            Column::figures("errors", "errors", ""),
        ],
    );
    let lead = lead_node(detail).unwrap_or_default();
    for trial in steps::representative(detail) {
        let own: Vec<&OperationStat> = trial.operations.iter().filter(|stat| !stat.probe).collect();
        if own.is_empty() {
            continue;
        }
        let (word, mark) = words::outcome(trial.outcome);
        let mut row = vec![Cell::text(words::step(trial, &detail.run.unit)).suffix(word).mark(mark)];
        for reads in [false, true] {
            row.extend(rates(own.iter().copied().filter(|stat| is_read(stat) == reads)));
        }
        row.push(Cell::sampled(trial.metric(&lead, "transactions_per_s").map(|stat| stat.mean)));
        row.push(Cell::number(own.iter().map(|stat| stat.failed() as f64).sum()));
        table.push(if mark == Mark::Good { Mark::None } else { mark }, row);
    }
    table.notes.push(
        "Server counted: transactions of all clients, the probe's among them, by the server's own zxid.".to_owned(),
    );
    table
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
                    Cell::number(f64::from(trial.step)),
                    Cell::number(trial.load as f64),
                    Cell::text(words::outcome(trial.outcome).0),
                    Cell::text(&stat.stream),
                    Cell::text(&stat.operation),
                    Cell::text(if is_read(stat) { "read" } else { "transaction" }),
                    asked.map_or_else(|| Cell::missing("no schedule"), Cell::number),
                    Cell::number(stat.ops_per_s),
                    share_cell(asked.filter(|asked| *asked > 0.0).map(|asked| stat.ops_per_s / asked)),
                    Cell::percentile(stat.latency.p99_us),
                    Cell::number(stat.failed() as f64),
                ],
            );
        }
    }
    table
}

/// What the load should have added, against what the target itself counted.
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
        Cell::number(check.expected as f64),
        Cell::sampled(observed),
        Cell::sampled(observed.map(|observed| observed - check.expected as f64)),
        Cell::number(check.tolerance as f64),
        Cell::text(word).mark(mark),
    ]
}
