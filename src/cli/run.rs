//! `rampart run`: one scenario from here to its verdict.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use tokio::sync::broadcast::error::RecvError;

use super::{
    ConfigFile,
    ends::Ends,
    live::{self, Live},
    read_scenario, say,
};
use crate::{
    model::{RunEvent, RunId, Verdict},
    report,
    runs::{AskedBy, Runs, SubmitError, Submitted},
    store::{RunDetail, Store},
};

/// Arguments of `rampart run`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Keeps the run in this database, for a server to show later; without it nothing is kept.
    #[arg(long, env = "RAMPART_DB", value_name = "FILE")]
    db: Option<PathBuf>,
    /// Prints the verdict as JSON, as the API gives it.
    #[arg(long)]
    json: bool,
    /// Shows no progress.
    #[arg(long, short)]
    quiet: bool,
    /// The scenario.
    #[arg(value_name = "FILE")]
    scenario: PathBuf,
}

/// The exit code of a run that was stopped before it had a verdict.
const ABORTED: u8 = 8;

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut ends = Ends::listen()?;
    let config = Arc::new(arguments.config.load()?);
    let text = read_scenario(&arguments.scenario)?;
    // Without a database to keep, the run uses one that goes with the command: one path for both.
    let scratch = ScratchFolder::new()?;
    let database = arguments.db.clone().unwrap_or_else(|| scratch.0.join("run.db"));
    let store = Store::open(&database).await.with_context(|| format!("cannot open {}", database.display()))?;
    let runs = Runs::new(store.clone(), config);
    if arguments.db.is_some() {
        // What waits in the database waits for a server: this command has one run to make.
        runs.put_right().await?;
    }
    let submitted =
        submit(&runs, &text).await.with_context(|| format!("cannot run {}", arguments.scenario.display()))?;
    let code = finish(&runs, &store, submitted.id, &mut ends, arguments.quiet, arguments.json).await;
    runs.drain().await;
    code
}

/// Asks for a run as the local user.
pub(super) async fn submit(runs: &Runs, text: &str) -> anyhow::Result<Submitted> {
    match runs.submit(text, AskedBy::CommandLine, None).await {
        Ok(submitted) => Ok(submitted),
        Err(SubmitError::Faults(faults)) => anyhow::bail!("the scenario is not sound:\n{faults}"),
        Err(error) => Err(error.into()),
    }
}

/// Shows a run until it is over, and says what it found.
pub(super) async fn finish(
    runs: &Runs,
    store: &Store,
    id: RunId,
    ends: &mut Ends,
    quiet: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    match follow(runs, store, id, ends, quiet).await? {
        Some(verdict) => {
            if json {
                say(&serde_json::to_string_pretty(&verdict)?);
            } else {
                let detail = store.detail(id).await?;
                let of_arms = detail.as_ref().is_some_and(RunDetail::has_arms);
                let shown: &[&str] = if of_arms {
                    &["arms", "sweep-target-data", "sweep-operations"]
                } else {
                    &["target-data", "operations", "actions"]
                };
                // Where no probe measures, the load itself is what was measured.
                let probed = verdict.steps.iter().flat_map(|trial| &trial.operations).any(|stat| stat.probe);
                let load: &[&str] = if of_arms || probed { &[] } else { &["load"] };
                for table in shown.iter().chain(load).filter_map(|name| report::find(name)) {
                    let made = detail.as_ref().map(|detail| (table.page)(detail)).filter(|made| !made.is_empty());
                    if let Some(made) = made {
                        say(&report::text::render(&made, None));
                    }
                }
                for finding in &verdict.findings {
                    say(&format!("{} {}", if finding.differs { "*" } else { "-" }, finding.text));
                }
                say(live::verdict(&verdict).trim_end());
            }
            Ok(ExitCode::from(verdict.exit_code))
        }
        None => {
            let sentence = store.row(id).await?.and_then(|row| row.sentence).unwrap_or_default();
            super::complain(&anyhow::anyhow!("the run has no verdict: {sentence}"));
            Ok(ExitCode::from(ABORTED))
        }
    }
}

/// Shows a run until it is over; being asked to end stops it and cleans up, asked again ends at once.
async fn follow(
    runs: &Runs,
    store: &Store,
    id: RunId,
    ends: &mut Ends,
    quiet: bool,
) -> anyhow::Result<Option<Verdict>> {
    let mut live = Live::new(quiet);
    let Some(mut events) = runs.follow(id) else { return Ok(store.verdict(id).await?) };
    if let Some(detail) = store.detail(id).await? {
        live.begin(&detail);
    }
    let mut interrupted = false;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = ends.next() => {
                if interrupted {
                    std::process::exit(i32::from(ABORTED));
                }
                interrupted = true;
                live.note("stopping and cleaning up; once more ends at once and leaves what is there");
                runs.cancel(id).await?;
                continue;
            }
        };
        match event {
            Ok(event) => {
                if let Ok(event) = serde_json::from_str::<RunEvent>(&event.json) {
                    live.show(&event);
                }
            }
            // Only what is shown is late; what is stored is whole.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => break,
        }
        if store.row(id).await?.is_some_and(|row| row.state.is_over()) {
            break;
        }
    }
    live.end();
    Ok(store.verdict(id).await?)
}

/// A folder that goes with the command.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("rampart-run-{}", RunId::new().short()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
