//! `rampart rejudge`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;

use super::say;
use crate::{
    analysis::{
        rejudge::{Rejudged, rejudge},
        verdict::Question,
    },
    model::{RunId, Sample, Trial, Verdict},
    scenario::Scenario,
    store::{RunDetail, Series, Store, StoreError},
};

/// Arguments of `rampart rejudge`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The database that has the run.
    #[arg(long, env = "RAMPART_DB", value_name = "FILE")]
    db: PathBuf,
    /// Judges by the rules of this scenario file in place of the run's own.
    #[arg(long, value_name = "FILE")]
    rules_of: Option<PathBuf>,
    /// Prints the new verdict as JSON.
    #[arg(long)]
    json: bool,
    /// The id of the run.
    #[arg(value_name = "RUN")]
    run: String,
}

/// The exit code when the verdict differs.
const DIFFERS: u8 = 3;
/// What rules read of time, beside the trial itself.
const READ: &[&str] = &["outstanding_requests", "load_in_flight"];

pub(super) async fn command(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let path = arguments.db.display();
    // Opening makes a database where there is none.
    anyhow::ensure!(arguments.db.is_file(), "there is no database {path}");
    let store = match Store::open(&arguments.db).await {
        Err(held @ StoreError::Held { .. }) => {
            return Err(held).context("stop that server first, or give a copy of it");
        }
        opened => opened.with_context(|| format!("cannot open {path}"))?,
    };
    let run: RunId =
        arguments.run.parse().map_err(|why| anyhow::anyhow!("{:?} is not the id of a run: {why}", arguments.run))?;
    let detail = store.detail(run).await?.with_context(|| format!("there is no run {run} in this database"))?;
    let stored =
        store.verdict(run).await?.with_context(|| format!("run {run} has no verdict that could be judged again"))?;
    let text = match &arguments.rules_of {
        Some(path) => super::read_scenario(path)?,
        None => detail.scenario_text.clone(),
    };
    let scenario = Scenario::parse(&text).map_err(|faults| anyhow::anyhow!("the scenario is not sound:\n{faults}"))?;
    let series = store.series(run, READ, usize::MAX).await?;
    let found = again(&detail, &scenario, &stored, &series)?;
    if arguments.json {
        say(&serde_json::to_string_pretty(&found.verdict)?);
    } else {
        say(&format!("run {run}, judged again by Rampart {}", env!("CARGO_PKG_VERSION")));
        if found.changes.is_empty() {
            say("The verdict is the same, to the byte.");
        }
        found.changes.iter().for_each(|change| say(change));
    }
    Ok(if found.changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

fn again(detail: &RunDetail, scenario: &Scenario, stored: &Verdict, series: &[Series]) -> anyhow::Result<Rejudged> {
    let question = Question {
        run: stored.run_id,
        arm: stored.arm,
        axis: &detail.run.axis,
        unit: &detail.run.unit,
        rules: &scenario.rules,
        actions: &scenario.actions,
        ladder: &scenario.ladder,
        required: scenario.required,
        peak: scenario.peak,
        hold: scenario.hold,
        shared_machine: stored.validity.shared_machine,
        reason: None,
        arms: detail.outline.arms.len().max(1),
    };
    Ok(rejudge(&question, stored, |trial| readings(series, trial))?)
}

/// The readings within a trial's measurement, as they were seen.
fn readings(series: &[Series], trial: &Trial) -> Vec<Sample> {
    let window = trial.measure_from_ns..=trial.measured_until_ns();
    let own = series.iter().filter(|series| series.arm == trial.arm);
    own.flat_map(|series| {
        series.points.iter().filter(|(at_ns, _)| window.contains(at_ns)).map(|(at_ns, value)| Sample {
            at_ns: *at_ns,
            node: series.node.clone(),
            metric: series.metric.clone(),
            value: *value,
        })
    })
    .collect()
}
