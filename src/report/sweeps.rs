//! Tables of a run with several arms: what each found, and the same figure at every value of what varies.

use super::{Cell, Column, Mark, Table, format, lead_node, steps, target_data, words};
use crate::{
    model::{Arm, ArmResult, OperationStat, Outcome, Trial, stat::median},
    store::RunDetail,
};

/// One row an arm, in the order in which they were measured.
#[must_use]
pub fn arms(detail: &RunDetail) -> Table {
    let setting = detail.outline.arms.first().map_or("", |arm| arm.setting.as_str());
    let unit = &detail.run.unit;
    let mut table = Table::new(
        "arms",
        "Arms, in the order in which they were measured",
        vec![
            Column::figures("arm", "arm", ""),
            Column::words("value", if setting.is_empty() { "value" } else { setting }),
            Column::figures("repetition", "repetition", ""),
            Column::words("leader", "leader"),
            Column::figures("last_good", "held", unit),
            Column::figures("first_bad", "broke", unit),
            Column::words("stop_code", "ended by"),
            Column::words("status", "answer"),
        ],
    );
    for result in detail.verdict.iter().flat_map(|verdict| &verdict.arms) {
        let verdict = &result.verdict;
        let count = |load: Option<u64>| load.map_or_else(|| Cell::missing("none"), Cell::count);
        let mark = words::status_mark(verdict.status);
        table.push(
            if mark == Mark::Good { Mark::None } else { mark },
            vec![
                Cell::count(u64::from(result.arm.number)),
                Cell::text(value_or_same(&result.arm)),
                Cell::count(u64::from(result.arm.repetition)),
                result.leader.as_ref().map_or_else(|| Cell::missing("not known"), Cell::text),
                count(verdict.last_good),
                count(verdict.first_bad),
                Cell::text(verdict.stop_code.as_str()),
                Cell::text(verdict.status.as_str().replace('_', " ")).mark(mark),
            ],
        );
    }
    table
}

fn value_or_same(arm: &Arm) -> String {
    if arm.value.is_empty() { "the same".to_owned() } else { arm.value.clone() }
}

/// One arm that was measured, seen as a run of its own.
struct View {
    arm: Arm,
    run: RunDetail,
    /// The node that led, by the name that it had in this arm.
    lead: String,
}

fn views(detail: &RunDetail) -> Vec<View> {
    let made = detail.outline.arms.iter().filter_map(|arm| {
        let run = detail.of_arm(arm.number)?;
        let lead = lead_node(&run)?;
        Some(View { arm: arm.clone(), run, lead })
    });
    made.collect()
}

/// Values in the order of the scenario.
#[must_use]
pub fn values(detail: &RunDetail) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for arm in &detail.outline.arms {
        if !values.contains(&arm.value) {
            values.push(arm.value.clone());
        }
    }
    values
}

/// One operation of the probe at one load: the rates of the repetitions, for each value.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub load: u64,
    pub operation: String,
    /// As many as there are values; empty where none was measured.
    pub rates: Vec<Vec<f64>>,
}

impl Compared {
    /// The median for the value at a place.
    #[must_use]
    pub fn median(&self, at: usize) -> Option<f64> {
        self.rates.get(at).filter(|rates| !rates.is_empty()).map(|rates| median(rates))
    }

    /// The median against that of the first value: -0.24 is a fall by 24 %.
    #[must_use]
    pub fn change(&self, at: usize) -> Option<f64> {
        let first = self.median(0).filter(|first| *first > 0.0)?;
        self.median(at).map(|median| median / first - 1.0)
    }

    /// Half of the way from the lowest to the highest, as a share of the median; `None` of one measurement.
    #[must_use]
    pub fn spread(&self, at: usize) -> Option<f64> {
        let rates = self.rates.get(at).filter(|rates| rates.len() > 1)?;
        let (low, high) = range(rates);
        Some((high - low) / 2.0 / median(rates))
    }
}

/// The lowest and the highest.
#[must_use]
pub fn range(rates: &[f64]) -> (f64, f64) {
    rates.iter().fold((f64::MAX, f64::MIN), |(low, high), rate| (low.min(*rate), high.max(*rate)))
}

/// Every operation of the probe on the lead server, by load.
#[must_use]
pub fn compared(detail: &RunDetail) -> Vec<Compared> {
    let values = values(detail);
    let mut all: Vec<Compared> = Vec::new();
    for view in views(detail) {
        let Some(value) = values.iter().position(|value| *value == view.arm.value) else { continue };
        for trial in valid(&view.run) {
            for stat in of_lead(trial, &view.lead) {
                let known = all.iter().position(|row| row.load == trial.load && row.operation == stat.operation);
                let at = known.unwrap_or_else(|| {
                    let rates = vec![Vec::new(); values.len()];
                    all.push(Compared { load: trial.load, operation: stat.operation.clone(), rates });
                    all.len() - 1
                });
                all[at].rates[value].push(stat.ops_per_s);
            }
        }
    }
    all.sort_by_key(|row| row.load);
    all
}

fn valid(run: &RunDetail) -> impl Iterator<Item = &Trial> {
    steps::representative(run).into_iter().filter(|trial| trial.outcome != Outcome::Void)
}

/// The probe's operations on the lead server; all, where it asked none by name.
fn of_lead<'a>(trial: &'a Trial, lead: &str) -> Vec<&'a OperationStat> {
    let probe: Vec<_> = trial.operations.iter().filter(|stat| stat.probe && stat.ops_per_s > 0.0).collect();
    let named = probe.iter().any(|stat| stat.node == lead);
    probe.into_iter().filter(|stat| !named || stat.node == lead).collect()
}

/// Operations per second at each value: the median of the repetitions, their spread, the change against the first value.
#[must_use]
pub fn operations(detail: &RunDetail) -> Table {
    let values = values(detail);
    let mut columns = vec![Column::figures("load", "load", &detail.run.unit), Column::words("operation", "operation")];
    for (at, value) in values.iter().enumerate() {
        let label = if value.is_empty() { "median" } else { value };
        columns.push(Column::figures(&format!("median_{at}_per_s"), label, "per s"));
        columns.push(Column::figures(&format!("spread_{at}_percent"), "spread", "± %"));
        if at > 0 {
            columns.push(Column::figures(&format!("change_{at}_percent"), "change", "%"));
        }
    }
    let mut table = Table::new("sweep-operations", "Operations per second at each value", columns);
    for row in compared(detail).iter().filter(|_| detail.has_arms()) {
        let mut cells = vec![Cell::count(row.load), Cell::text(row.operation.replace('_', " "))];
        for at in 0..values.len() {
            let figure = |value: Option<f64>, why| value.map_or_else(|| Cell::missing(why), Cell::number);
            cells.push(figure(row.median(at), "not run"));
            cells.push(figure(row.spread(at).map(|share| share * 100.0), "once"));
            if at > 0 {
                cells.push(row.change(at).map_or_else(|| Cell::missing("no share"), |share| Cell::text(signed(share))));
            }
        }
        table.push(Mark::None, cells);
    }
    if let Some(first) = values.first().filter(|first| !first.is_empty()) {
        table.notes.push(format!(
            "Medians of the repetitions on the lead server; spread is half of the way from the lowest to the highest; change \
             is against {first}. What differs beyond the spread stands under Findings."
        ));
    }
    table
}

/// `+2.4`, `-24`.
fn signed(share: f64) -> String {
    let percent = share * 100.0;
    let sign = if percent < 0.0 { "\u{2212}" } else { "+" };
    format!("{sign}{}", format::figure(percent.abs()))
}

/// The same, one row a measurement.
#[must_use]
pub fn operations_long(detail: &RunDetail) -> Table {
    let mut columns = arm_columns();
    columns.extend([
        Column::figures(&format!("load_{}", detail.run.axis), "load", &detail.run.unit),
        Column::words("operation", "operation"),
        Column::figures("ops_per_s", "rate", "per s"),
        Column::figures("samples", "n", ""),
        Column::words("outcome", "outcome"),
    ]);
    let mut table = Table::new("sweep-operations", "Operations per second, every arm", columns);
    for view in views(detail) {
        for trial in steps::representative(&view.run) {
            for stat in of_lead(trial, &view.lead) {
                let mut row = arm_cells(&view.arm);
                row.extend([
                    Cell::count(trial.load),
                    Cell::text(&stat.operation),
                    Cell::number(stat.ops_per_s),
                    Cell::count(stat.done),
                    Cell::text(words::outcome(trial.outcome).0),
                ]);
                table.push(Mark::None, row);
            }
        }
    }
    table
}

/// Columns that name an arm in files.
#[must_use]
pub fn arm_columns() -> Vec<Column> {
    vec![
        Column::figures("arm", "arm", ""),
        Column::words("setting", "setting"),
        Column::words("value", "value"),
        Column::figures("repetition", "repetition", ""),
    ]
}

/// What stands in [`arm_columns`].
#[must_use]
pub fn arm_cells(arm: &Arm) -> Vec<Cell> {
    vec![
        Cell::count(u64::from(arm.number)),
        Cell::text(&arm.setting),
        Cell::text(&arm.value),
        Cell::count(u64::from(arm.repetition)),
    ]
}

/// The target-data table at each load and value: medians of the repetitions, of the lead server.
#[must_use]
pub fn target(detail: &RunDetail) -> Table {
    let values = values(detail);
    let setting = detail.outline.arms.first().map_or("", |arm| arm.setting.as_str());
    let mut columns = vec![
        Column::figures("load", "load", &detail.run.unit),
        Column::words("value", if setting.is_empty() { "value" } else { setting }),
    ];
    columns.extend(target_data::plain_columns());
    let mut table = Table::new("sweep-target-data", "Target at each value", columns);
    let views = if detail.has_arms() { views(detail) } else { Vec::new() };
    let mut loads: Vec<u64> = views.iter().flat_map(|view| valid(&view.run)).map(|trial| trial.load).collect();
    loads.sort_unstable();
    loads.dedup();
    for load in loads {
        for value in &values {
            let of_value = views.iter().filter(|view| view.arm.value == *value);
            let rows: Vec<Vec<Option<f64>>> = of_value
                .flat_map(|view| valid(&view.run).map(move |trial| (trial, &view.lead)))
                .filter(|(trial, _)| trial.load == load)
                .map(|(trial, lead)| target_data::figures_of(trial, lead))
                .collect();
            if rows.is_empty() {
                continue;
            }
            let mut cells = vec![Cell::count(load), Cell::text(if value.is_empty() { "the same" } else { value })];
            for at in 0..rows[0].len() {
                let known: Vec<f64> = rows.iter().filter_map(|row| row[at]).collect();
                cells.push(target_data::plain_cell(at, (!known.is_empty()).then(|| median(&known))));
            }
            table.push(Mark::None, cells);
        }
    }
    if !table.is_empty() {
        table.notes.push("Medians of the repetitions, of the lead server of each arm.".to_owned());
    }
    table
}

/// A table of one arm, with the arm in its title.
#[must_use]
pub fn titled(mut table: Table, arm: &Arm) -> Table {
    table.title = format!("{} ({})", table.title, arm.label());
    table
}

/// The same table of every arm as one, with the arm in front of each row.
#[must_use]
pub fn joined(detail: &RunDetail, made: impl Fn(&RunDetail) -> Table) -> Option<Table> {
    let mut whole: Option<Table> = None;
    for view in views(detail) {
        let mut table = made(&view.run);
        let mut columns = arm_columns();
        columns.append(&mut table.columns);
        let joined = whole.get_or_insert_with(|| Table::new(&table.id, table.title.clone(), columns));
        for mut row in table.rows {
            row.cells.splice(0..0, arm_cells(&view.arm));
            joined.rows.push(row);
        }
    }
    whole
}

/// What an arm found, of a run that has several.
#[must_use]
pub fn result_of(detail: &RunDetail, arm: u32) -> Option<&ArmResult> {
    detail.verdict.as_ref()?.arms.iter().find(|result| result.arm.number == arm)
}
