//! The scenario table of the source report: what each load consists of, and what it should bring to the target.

use super::{Cell, Column, Mark, Table, format};
use crate::store::RunDetail;

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
    let measured = |load: u64| detail.trials.iter().any(|trial| trial.load == load);
    let mut left_out = 0;
    for (step, load) in outline.ladder.iter().enumerate() {
        if !detail.trials.is_empty() && !measured(*load) {
            left_out += 1;
            continue;
        }
        let mut row = vec![Cell::count(step as u64), Cell::count(*load)];
        row.extend(outline.expected.iter().map(|expected| match expected.values.get(step) {
            Some(value) if expected.unit.is_empty() => Cell::counted(Some(*value)),
            Some(value) => Cell::number(*value),
            None => Cell::missing("not planned"),
        }));
        table.push(Mark::None, row);
    }
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
