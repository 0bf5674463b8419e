//! What each rule alone says of the capacity.

use super::{Cell, Column, Mark, Table};
use crate::{
    model::{GoalCapacity, StopCode},
    store::RunDetail,
};

/// One row a rule. Empty where there is one rule only: the answer says the same.
#[must_use]
pub fn all(detail: &RunDetail) -> Table {
    let columns = vec![
        Column::words("goal", "goal"),
        Column::words("rule", "rule"),
        Column::figures("limit", "limit", ""),
        Column::words("limit_unit", "unit"),
        Column::figures("last_good", "held up to", &detail.run.unit),
        Column::figures("first_bad", "broken from", &detail.run.unit),
    ];
    let mut table = Table::new("goals", "What each rule alone allows", columns);
    let goals = detail.verdict.as_ref().map(|verdict| verdict.goals.as_slice()).unwrap_or_default();
    if goals.len() < 2 {
        return table;
    }
    for goal in goals {
        table.push(Mark::None, row(goal));
    }
    table.notes.push(
        "Each rule by itself, over all loads that were measured; the answer is the lowest of them. A search looks closely only where the first of them breaks."
            .to_owned(),
    );
    table
}

fn row(goal: &GoalCapacity) -> Vec<Cell> {
    let load = |load: Option<u64>, word: &'static str| load.map_or_else(|| Cell::missing(word), Cell::count);
    let kind = if matches!(goal.rule, StopCode::SloLatency | StopCode::SloErrors) { "in good time" } else { "at all" };
    vec![
        Cell::text(format!("{} ({kind})", goal.subject)),
        Cell::text(goal.rule.as_str()),
        Cell::number(goal.limit),
        Cell::text(goal.unit.as_str()),
        load(goal.last_good, "none"),
        load(goal.first_bad, "not reached"),
    ]
}
