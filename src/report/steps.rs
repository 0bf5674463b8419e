//! Which of a run's trials stands for a step where there is room for one.

use super::{Cell, Column, Mark, Table, lead_node, words};
use crate::{
    model::{Outcome, Trial},
    store::RunDetail,
};

/// One trial for each step: the last that is not void, else the last. In the order of steps.
#[must_use]
pub fn representative(detail: &RunDetail) -> Vec<&Trial> {
    let mut steps: Vec<&Trial> = Vec::new();
    for trial in &detail.trials {
        match steps.iter_mut().find(|other| (other.arm, other.step) == (trial.arm, trial.step)) {
            Some(other) if speaks_for(detail, trial, other) => *other = trial,
            Some(_) => {}
            None => steps.push(trial),
        }
    }
    // The steps of a search go up and down: its loads are what a reader follows.
    let order = |trial: &Trial| if detail.outline.search { trial.load } else { u64::from(trial.step) };
    steps.sort_by_key(|trial| (trial.arm, order(trial)));
    steps
}

/// Whether a later trial of a step stands for it in place of an earlier one. Of a load that held and broke by turns, one that
/// went as most did. One with an action is of less than the whole target, and stands only where there is no plain one.
fn speaks_for(detail: &RunDetail, later: &Trial, earlier: &Trial) -> bool {
    let of_step = |trial: &&Trial| (trial.arm, trial.step) == (later.arm, later.step);
    let plain = || detail.trials.iter().filter(of_step).filter(|trial| trial.action.is_none());
    let count = |outcome| plain().filter(|trial| trial.outcome == outcome).count();
    let rank = |trial: &Trial| {
        let outcome = if trial.outcome == Outcome::Void { 0 } else { 1 + count(trial.outcome) };
        (trial.action.is_none(), outcome)
    };
    rank(later) >= rank(earlier)
}

/// How many trials a step had.
#[must_use]
pub fn trials_of(detail: &RunDetail, of: &Trial) -> usize {
    detail.trials.iter().filter(|trial| (trial.arm, trial.step) == (of.arm, of.step)).count()
}

/// The step that broke: the last broken trial at the lowest load that broke, else the last of all.
#[must_use]
pub fn broken(detail: &RunDetail) -> Option<&Trial> {
    let broken = || detail.trials.iter().rev().filter(|trial| trial.outcome == Outcome::Broke && !trial.holding);
    let at_bound = |trial: &&Trial| Some(trial.load) == detail.run.first_bad;
    broken().find(at_bound).or_else(|| broken().next())
}

/// The step that others are compared with.
#[must_use]
pub fn baseline(detail: &RunDetail) -> Option<&Trial> {
    detail.trials.iter().find(|trial| trial.outcome == Outcome::Baseline)
}

/// A note for tables that show one trial a step, where a step had more.
#[must_use]
pub fn repeats_note(detail: &RunDetail) -> Option<String> {
    let shown = representative(detail);
    let more = detail.trials.len().saturating_sub(shown.len());
    (more > 0).then(|| {
        format!(
            "A step that was measured more than once is shown by its last valid trial; {more} further {} under Trials.",
            if more == 1 { "trial stands" } else { "trials stand" }
        )
    })
}

/// Every finished trial, newest first, with the few figures that a watcher of a live run needs.
#[must_use]
pub fn finished(detail: &RunDetail) -> Table {
    let lead = lead_node(detail).unwrap_or_default();
    let judged = ["create", "get"];
    let mut columns = vec![
        Column::words("step", "step"),
        Column::figures("znodes", "znodes", ""),
        Column::figures("watches", "watches", ""),
        Column::figures("connections", "connections", ""),
        Column::figures("outstanding", "outstanding", "mean"),
    ];
    columns.extend(judged.map(|operation| Column::figures(operation, operation, "per s")));
    columns.push(Column::figures("cpu_percent", "CPU", "%"));
    columns.push(Column::figures("start_lag_p99_ms", "start lag p99", "ms"));
    let mut table = Table::new("finished", "Finished steps, newest first", columns);
    for trial in detail.trials.iter().rev() {
        let (word, mark) = words::outcome(trial.outcome);
        let last = |metric: &str| Cell::counted(trial.metric(&lead, metric).map(|stat| stat.last));
        let mean = |metric: &str, by: f64| Cell::sampled(trial.metric(&lead, metric).map(|stat| stat.mean * by));
        let mut row = vec![Cell::text(words::step(trial, &detail.run.unit)).suffix(word).mark(mark)];
        row.extend([last("znodes"), last("watches"), last("connections"), mean("outstanding_requests", 1.0)]);
        row.extend(judged.map(|operation| Cell::sampled(trial.operation(operation).map(|stat| stat.ops_per_s))));
        row.extend([
            mean("process_cpu_share", 100.0),
            Cell::sampled(trial.health.start_lag_p99_us.map(|us| us as f64 / 1_000.0)),
        ]);
        table.push(if mark == Mark::Good { Mark::None } else { mark }, row);
    }
    table
}
