//! What a run did to its target on purpose: what was still carried meanwhile, and how long recovery took.

use super::{Cell, Column, Mark, Table, format, words};
use crate::store::RunDetail;

/// One row an action, in the order in which they were done.
#[must_use]
pub fn all(detail: &RunDetail) -> Table {
    let columns = vec![
        Column::figures("step", "step", ""),
        Column::figures(&format!("load_{}", detail.run.axis), "load", &detail.run.unit),
        Column::words("action", "with"),
        Column::words("outcome", "the load"),
        Column::figures("without_per_s", "get meanwhile", "per s"),
        Column::figures("before_per_s", "get before", "per s"),
        Column::figures("served_s", "served again after", "s"),
        Column::figures("recovery_s", "recovered after", "s"),
        Column::figures("rejoined_s", "whole again after", "s"),
        Column::figures("sessions_moved", "sessions moved", ""),
        Column::figures("sessions_expired", "sessions lost", ""),
    ];
    let mut table = Table::new("actions", "Actions on the target", columns);
    for trial in &detail.trials {
        let Some(report) = &trial.action else { continue };
        let plain = detail.trials.iter().rev().find(|other| {
            (other.arm, other.step) == (trial.arm, trial.step) && other.action.is_none() && other.trial < trial.trial
        });
        let rate = |of: &crate::model::Trial| of.operation("get").map(|stat| stat.ops_per_s);
        let seconds = |value: Option<f64>| value.map_or_else(|| Cell::missing("never"), Cell::number);
        let (word, mark) = words::outcome(trial.outcome);
        table.push(
            if mark == Mark::Good { Mark::None } else { mark },
            vec![
                Cell::count(u64::from(trial.step)),
                Cell::count(trial.load),
                Cell::text(report.words()),
                Cell::text(report.failed.as_ref().map_or(word, |_| "not done")).mark(mark),
                Cell::sampled(rate(trial)),
                Cell::sampled(plain.and_then(rate)),
                seconds(report.served_s),
                seconds(report.recovery_s),
                seconds(report.rejoined_s),
                Cell::count(report.sessions_moved),
                Cell::count(report.sessions_expired),
            ],
        );
        if let Some(failed) = &report.failed {
            table.notes.push(format!("At {} {}: {}", format::count(trial.load), detail.run.unit, words::ended(failed)));
        }
    }
    if !table.is_empty() {
        table.notes.push(
            "Times count from the action. Served again: a write through one of the other servers was answered. Recovered: all \
             sessions of the load were attached, its operations ended well and every other server served. Whole again: all \
             servers served as one ensemble."
                .to_owned(),
        );
    }
    table
}
