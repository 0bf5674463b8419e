//! `rampart compare`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;

use super::say;
use crate::{
    model::RunId,
    report::{compare, text},
    store::{RunDetail, Store, StoreError},
};

/// Arguments of `rampart compare`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The database that has both runs.
    #[arg(long, env = "RAMPART_DB", value_name = "FILE")]
    db: PathBuf,
    /// Prints the comparison as JSON, as the API gives it.
    #[arg(long)]
    json: bool,
    /// The id of the run that the other is compared with.
    #[arg(value_name = "RUN")]
    before: String,
    /// The id of the other run.
    #[arg(value_name = "RUN")]
    after: String,
}

pub(super) async fn compare(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let path = arguments.db.display();
    // Opening makes a database where there is none.
    anyhow::ensure!(arguments.db.is_file(), "there is no database {path}");
    let store = match Store::open(&arguments.db).await {
        Err(held @ StoreError::Held { .. }) => {
            let (one, other) = (&arguments.before, &arguments.after);
            return Err(held).context(format!("ask that server: GET /api/v1/runs/{one}/compare/{other}"));
        }
        opened => opened.with_context(|| format!("cannot open {path}"))?,
    };
    let (before, after) = (whole(&store, &arguments.before).await?, whole(&store, &arguments.after).await?);
    let found = compare::of(&before, &after)?;
    if arguments.json {
        say(&serde_json::to_string_pretty(&found)?);
        return Ok(ExitCode::SUCCESS);
    }
    if found.differences.is_empty() {
        say("Nothing differs of what is known of both targets.\n");
    } else {
        say(&text::render(&found.differences(), None));
    }
    for warning in &found.warnings {
        say(&format!("Warning: {warning}"));
    }
    if !found.rates.is_empty() {
        say(&format!("\n{}", text::render(&found.rates(), None).trim_end()));
    }
    Ok(ExitCode::SUCCESS)
}

async fn whole(store: &Store, id: &str) -> anyhow::Result<RunDetail> {
    let run: RunId = id.parse().map_err(|why| anyhow::anyhow!("{id:?} is not the id of a run: {why}"))?;
    store.detail(run).await?.with_context(|| format!("there is no run {id} in this database"))
}
