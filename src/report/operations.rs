//! The operations-per-second table of the source report, and its long form with latencies.

use super::{Cell, Column, Mark, Table, format, steps, words};
use crate::{
    model::{OperationStat, Outcome, Trial},
    store::RunDetail,
};

/// Rows are the probe's operations in the order in which it does them, columns are steps.
#[must_use]
pub fn by_step(detail: &RunDetail) -> Table {
    let shown = steps::representative(detail);
    let unit = &detail.run.unit;
    let mut columns = vec![Column::words("operation", "operation, per second")];
    for trial in &shown {
        let id = format!("step_{}_per_s", trial.step);
        columns.push(Column::figures(&id, &format::count(trial.load), words::outcome(trial.outcome).0));
    }
    let ends = shown.first().zip(shown.last()).filter(|_| shown.len() > 1);
    if let Some((first, last)) = ends {
        let label = format!("{} / {}", format::count(last.load), format::count(first.load));
        columns.push(Column::figures("last_of_first_percent", &label, "%"));
    }
    let tail = shown.iter().rev().find(|trial| trial.outcome == Outcome::Held).or(shown.last());
    if let Some(tail) = tail {
        let at = format::count(tail.load);
        columns.push(Column::figures("p99_ms", &format!("p99 at {at}"), "ms"));
        columns.push(Column::figures("samples", &format!("n at {at}"), ""));
    }
    columns.push(Column::figures("errors", "errors", "all steps"));

    let mut table = Table::new("operations", "Operations per second", columns);
    let mut cut = false;
    for key in keys(&shown, true) {
        let stats: Vec<Option<&OperationStat>> = shown.iter().map(|trial| key.find(trial)).collect();
        let mut row = vec![Cell::text(key.label())];
        for (trial, stat) in shown.iter().zip(&stats) {
            let cell = stat.map_or_else(|| Cell::missing("not run"), |stat| Cell::number(stat.ops_per_s));
            let is_cut = stat.is_some_and(|stat| stat.cut);
            cut |= is_cut;
            let mark = if trial.outcome == Outcome::Broke { Mark::Bad } else { Mark::None };
            row.push(cell.suffix(if is_cut { "cut" } else { "" }).mark(mark));
        }
        if ends.is_some() {
            let first = stats.first().copied().flatten().map(|stat| stat.ops_per_s).filter(|rate| *rate > 0.0);
            let last = stats.last().copied().flatten().map(|stat| stat.ops_per_s);
            row.push(
                first
                    .zip(last)
                    .map_or_else(|| Cell::missing("no share"), |(first, last)| Cell::number(last / first * 100.0)),
            );
        }
        if let Some(stat) = tail.map(|trial| key.find(trial)) {
            row.push(stat.map_or_else(|| Cell::missing("not run"), |stat| Cell::percentile(stat.latency.p99_us)));
            row.push(stat.map_or_else(|| Cell::missing("not run"), |stat| Cell::count(stat.done)));
        }
        row.push(Cell::count(stats.iter().flatten().map(|stat| stat.failed()).sum()));
        table.push(Mark::None, row);
    }
    table.notes.push(format!("Columns are steps, in {unit}. One client with one call in flight asks each operation."));
    if cut {
        table
            .notes
            .push("cut: the limit of time came before all calls were done; the rate is done / elapsed.".to_owned());
    }
    table.notes.extend(steps::repeats_note(detail));
    table
}

/// One row for each step and operation, of probes and of the load, with latencies from the due time and from sending.
#[must_use]
pub fn long(detail: &RunDetail) -> Table {
    let mut table = Table::new(
        "operations",
        "Each operation at each step",
        vec![
            Column::figures("step", "step", ""),
            Column::figures(&format!("load_{}", detail.run.axis), "load", &detail.run.unit),
            Column::words("outcome", "outcome"),
            Column::words("stream", "stream"),
            Column::words("node", "server"),
            Column::words("operation", "operation"),
            Column::figures("ops_per_s", "rate", "per s"),
            Column::figures("done", "n", ""),
            Column::figures("elapsed_s", "over", "s"),
            Column::words("cut", "cut"),
            Column::figures("mean_ms", "mean", "ms"),
            Column::figures("p50_ms", "p50", "ms"),
            Column::figures("p95_ms", "p95", "ms"),
            Column::figures("p99_ms", "p99", "ms"),
            Column::figures("p999_ms", "p99.9", "ms"),
            Column::figures("max_ms", "max", "ms"),
            Column::figures("service_p99_ms", "service p99", "ms"),
            Column::figures("errors", "errors", ""),
            Column::words("error_codes", "by code"),
        ],
    );
    for trial in steps::representative(detail) {
        for stat in &trial.operations {
            table.push(Mark::None, long_row(trial, stat));
        }
    }
    table.notes.push(
        "Latency counts from when an operation was due, service from when it was sent. A percentile is shown from \
         459 samples (p99) and 4 603 samples (p99.9) on."
            .to_owned(),
    );
    table
}

fn long_row(trial: &Trial, stat: &OperationStat) -> Vec<Cell> {
    let codes: Vec<String> = stat.errors.iter().map(|(code, n)| format!("{code} {}", format::count(*n))).collect();
    vec![
        Cell::count(u64::from(trial.step)),
        Cell::count(trial.load),
        Cell::text(words::outcome(trial.outcome).0),
        Cell::text(&stat.stream),
        Cell::text(if stat.node.is_empty() { "all" } else { &stat.node }),
        Cell::text(&stat.operation),
        Cell::number(stat.ops_per_s),
        Cell::count(stat.done),
        Cell::number(stat.elapsed_s),
        Cell::text(if stat.cut { "cut" } else { "no" }),
        Cell::number(stat.latency.mean_us / 1_000.0),
        Cell::number(stat.latency.p50_us as f64 / 1_000.0),
        Cell::percentile(stat.latency.p95_us),
        Cell::percentile(stat.latency.p99_us),
        Cell::percentile(stat.latency.p999_us),
        Cell::number(stat.latency.max_us as f64 / 1_000.0),
        Cell::percentile(stat.service.p99_us),
        Cell::count(stat.failed()),
        Cell::text(codes.join(", ")),
    ]
}

/// One operation of one stream of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub stream: String,
    pub node: String,
    pub operation: String,
    /// Whether the server must be named because several were asked.
    named: bool,
}

impl Key {
    /// The operation, with its server where several were asked.
    #[must_use]
    pub fn label(&self) -> String {
        let operation = self.operation.replace('_', " ");
        if self.named { format!("{operation}, {}", self.node) } else { operation }
    }

    /// What it did in a trial.
    #[must_use]
    pub fn find<'a>(&self, trial: &'a Trial) -> Option<&'a OperationStat> {
        trial
            .operations
            .iter()
            .find(|stat| stat.stream == self.stream && stat.node == self.node && stat.operation == self.operation)
    }
}

/// The operations of the probes (or of the load), in the order of their first appearance.
#[must_use]
pub fn keys(trials: &[&Trial], probe: bool) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for stat in trials.iter().flat_map(|trial| &trial.operations).filter(|stat| stat.probe == probe) {
        let key = Key {
            stream: stat.stream.clone(),
            node: stat.node.clone(),
            operation: stat.operation.clone(),
            named: false,
        };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let several = keys.iter().any(|key| keys.first().is_some_and(|first| first.node != key.node));
    for key in &mut keys {
        key.named = several;
    }
    keys
}
