//! How outstanding requests were spread at each step and server: a mean hides a queue that is long at times.

use super::{Cell, Column, Mark, Table, format, lead_node, steps, target_data, words};
use crate::{
    model::{BOUNDS, Distribution, SeriesStat, Trial, stat::P50_MIN_SAMPLES},
    store::RunDetail,
};

/// The series that the table is of.
pub const METRIC: &str = "outstanding_requests";

/// One row a step and server, the leader first.
#[must_use]
pub fn by_step(detail: &RunDetail) -> Table {
    let mut columns = vec![
        Column::words("step", "step"),
        Column::words("node", "server"),
        Column::figures("samples", "samples", ""),
        Column::figures("measured_s", "measured", "s"),
        Column::figures("mean", "mean", ""),
        Column::figures("p50", "p50", ""),
        Column::figures("p90", "p90", ""),
        Column::figures("p99", "p99", ""),
        Column::figures("max", "max", ""),
    ];
    columns.extend(BOUNDS.map(|bound| {
        Column::figures(
            &format!("above_{bound}_percent"),
            &format!("above {}", format::count(bound.into())),
            "% of time",
        )
    }));
    let mut table = Table::new("outstanding", "Outstanding requests at each step", columns);
    let mut known = true;
    for trial in steps::representative(detail) {
        for node in servers(detail) {
            let Some(stat) = trial.metric(&node, METRIC) else { continue };
            known &= stat.distribution.is_some();
            let (word, mark) = words::outcome(trial.outcome);
            let mut row = vec![Cell::text(words::step(trial, &detail.run.unit)).suffix(word).mark(mark)];
            row.extend(cells(trial, &node, stat));
            table.push(if mark == Mark::Good { Mark::None } else { mark }, row);
        }
    }
    notes(detail, known, &mut table);
    table
}

/// The servers that were sampled, the leader first.
fn servers(detail: &RunDetail) -> Vec<String> {
    let lead = lead_node(detail);
    let mut nodes = target_data::nodes(detail);
    nodes.sort_by_key(|node| Some(node) != lead.as_ref());
    nodes
}

fn cells(trial: &Trial, node: &str, stat: &SeriesStat) -> Vec<Cell> {
    let mut cells =
        vec![Cell::text(node), Cell::count(stat.readings), Cell::number(trial.measure_s), Cell::number(stat.mean)];
    let Some(Distribution { p50, p90, p99, above: _ }) = &stat.distribution else {
        cells.extend([NOT_KEPT; 3].map(Cell::missing));
        cells.push(Cell::counted(Some(stat.max)));
        cells.extend(BOUNDS.map(|_| Cell::missing(NOT_KEPT)));
        return cells;
    };
    let percentile =
        |value: &Option<f64>| value.map_or_else(|| Cell::missing(format::TOO_FEW), |value| Cell::counted(Some(value)));
    cells.extend([p50, p90, p99].map(percentile));
    cells.push(Cell::counted(Some(stat.max)));
    cells.extend(BOUNDS.map(|bound| {
        share_above(stat, bound).map_or_else(|| Cell::missing(format::TOO_FEW), |share| Cell::number(share * 100.0))
    }));
    cells
}

/// What stands in rows of runs that kept mean and maximum only.
const NOT_KEPT: &str = "not kept";

/// Share of readings above one of [`BOUNDS`]; `None` where there are too few to speak of a share.
#[must_use]
pub fn share_above(stat: &SeriesStat, bound: u32) -> Option<f64> {
    let above = stat.distribution.as_ref()?.above.iter().find(|above| above.bound == bound)?;
    (stat.readings >= P50_MIN_SAMPLES).then(|| above.readings as f64 / stat.readings as f64)
}

fn notes(detail: &RunDetail, known: bool, table: &mut Table) {
    table.notes.push(
        "Samples are one answer to srvr a second at most, so that shares of samples stand for shares of the time; a \
         server that does not answer gives none, so few samples in a long measurement mean that it was worse than this."
            .to_owned(),
    );
    table.notes.push(format!(
        "A percentile that needs more samples than there are is left out: p50 {}, p90 {}, p99 {}.",
        P50_MIN_SAMPLES,
        crate::model::stat::P90_MIN_SAMPLES,
        crate::model::stat::P99_MIN_SAMPLES
    ));
    if !known {
        table.notes.push("Some of this was measured by a version that kept mean and maximum only.".to_owned());
    }
    table.notes.extend(steps::repeats_note(detail));
}
