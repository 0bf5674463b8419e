//! The scenario table of the source report: what each load consists of, and what it should bring to the target.

use super::{Cell, Column, Mark, Table, format};
use crate::{model::Expected, store::RunDetail};

/// One row a step that was measured; every planned one as long as none was.
#[must_use]
pub fn by_step(detail: &RunDetail) -> Table {
    let outline = &detail.outline;
    let mut columns = vec![
        Column::figures("step", "step", ""),
        Column::figures(&format!("load_{}", outline.axis), "load", &outline.unit),
    ];
    columns.extend(outline.expected.iter().map(|expected| {
        if expected.unit.is_empty() {
            Column::figures(&expected.name, &expected.name, "")
        } else {
            let id = format!("{}_{}", expected.name, expected.unit);
            Column::figures(&id, &expected.name, format::scale(&expected.unit, 1.0).0)
        }
    }));
    let mut table = Table::new("scenario", "What each step should be", columns);
    if outline.expected.is_empty() {
        return table;
    }
    let measured = measured(detail);
    let planned = || (0..).zip(outline.ladder.iter().copied());
    let shown: Vec<(u32, u64)> = if measured.is_empty() { planned().collect() } else { measured };
    for (step, load) in &shown {
        let mut row = vec![Cell::count(u64::from(*step)), Cell::count(*load)];
        row.extend(outline.expected.iter().map(|expected| match value(detail, expected, *load) {
            Some(value) if expected.unit.is_empty() => Cell::counted(Some(value)),
            Some(value) => Cell::number(value),
            None => Cell::missing("not planned"),
        }));
        table.push(Mark::None, row);
    }
    let left_out = planned().filter(|(_, load)| shown.iter().all(|(_, shown)| shown != load)).count();
    table.notes.push(
        "Expected from the scenario, not measured: what the load adds to the target, and what it asks of it each second."
            .to_owned(),
    );
    if left_out > 0 {
        let loads = if left_out == 1 { "load of the ladder was" } else { "loads of the ladder were" };
        table.notes.push(format!("{left_out} more {loads} not measured."));
    }
    table
}

/// Every load that was measured, in their order, with the step in which it was first.
fn measured(detail: &RunDetail) -> Vec<(u32, u64)> {
    let mut loads: Vec<(u32, u64)> = Vec::new();
    for trial in &detail.trials {
        if loads.iter().all(|(_, load)| *load != trial.load) {
            loads.push((trial.step, trial.load));
        }
    }
    loads.sort_by_key(|(_, load)| *load);
    loads
}

/// What is expected of a load. A search tries loads between those of its ladder: of a figure that is proportional to all of
/// these, it is to those too; the others are what the counts of such a step were compared with.
fn value(detail: &RunDetail, expected: &Expected, load: u64) -> Option<f64> {
    let rungs = || detail.outline.ladder.iter().copied().zip(expected.values.iter().copied());
    if let Some((_, value)) = rungs().find(|(rung, _)| *rung == load) {
        return Some(value);
    }
    let (top, of_top) = rungs().max_by_key(|(rung, _)| *rung).filter(|(rung, _)| *rung > 0)?;
    let each = of_top / top as f64;
    if rungs().all(|(rung, value)| (value - each * rung as f64).abs() <= 1e-9 * of_top.abs()) {
        return Some(each * load as f64);
    }
    let counts = detail.trials.iter().filter(|trial| trial.load == load).flat_map(|trial| &trial.counts);
    counts.into_iter().find(|check| check.what == expected.name).map(|check| check.expected as f64)
}
