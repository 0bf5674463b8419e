//! `rampart campaign`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;

use super::{ConfigFile, ends::Ends, read_scenario, run};
use crate::{
    model::CampaignId,
    report,
    runs::{AskedBy, NextPart, Runs},
    scenario::Campaign,
    store::Store,
};

/// Arguments of `rampart campaign`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Database that keeps the campaign and its runs.
    #[arg(long, env = "RAMPART_DB", value_name = "FILE", default_value = "rampart.db")]
    db: PathBuf,
    /// Takes on a campaign that was interrupted; finished parts are not measured again.
    #[arg(long, value_name = "ID", conflicts_with = "campaign")]
    resume: Option<CampaignId>,
    /// Prints the report of a stored campaign, made anew from its runs; measures nothing.
    #[arg(long, value_name = "ID", conflicts_with_all = ["campaign", "resume"])]
    report: Option<CampaignId>,
    /// Prints no progress.
    #[arg(long, short)]
    quiet: bool,
    /// The campaign.
    #[arg(value_name = "FILE", required_unless_present_any = ["resume", "report"])]
    campaign: Option<PathBuf>,
}

pub(super) async fn campaign(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut ends = Ends::listen()?;
    let config = Arc::new(arguments.config.load()?);
    // Before the database is made: a file that is not sound leaves nothing behind.
    let asked = arguments.campaign.as_deref().map(read).transpose()?;
    let store = Store::open(&arguments.db).await.with_context(|| format!("cannot open {}", arguments.db.display()))?;
    if let Some(id) = arguments.report {
        super::say(&markdown(&store, id).await?);
        return Ok(ExitCode::SUCCESS);
    }
    let runs = Runs::new(store.clone(), config);
    runs.put_right().await?;
    let id = match (asked, arguments.resume) {
        (Some(campaign), _) => runs.begin_campaign(&campaign, AskedBy::CommandLine).await?,
        (None, Some(id)) => id,
        (None, None) => anyhow::bail!("name a campaign, or --resume one"),
    };
    let mut first_bad = ExitCode::SUCCESS;
    loop {
        match runs.next_of(id).await? {
            NextPart::Run(run) => {
                // The code of the first part that did not pass.
                let code = run::finish(&runs, &store, run, &mut ends, arguments.quiet, false).await?;
                if first_bad == ExitCode::SUCCESS {
                    first_bad = code;
                }
            }
            NextPart::Over => break,
            NextPart::Unknown => anyhow::bail!("there is no campaign {id} in {}", arguments.db.display()),
        }
    }
    runs.drain().await;
    super::say(&markdown(&store, id).await?);
    Ok(first_bad)
}

/// Reads a campaign and the scenarios that it names, which lie beside it.
fn read(path: &Path) -> anyhow::Result<Campaign> {
    let text = read_scenario(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let open =
        |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|cause| format!("cannot be read: {cause}"));
    Campaign::parse(&text, &open).map_err(|faults| anyhow::anyhow!("{} is not sound:\n{faults}", path.display()))
}

async fn markdown(store: &Store, id: CampaignId) -> anyhow::Result<String> {
    let detail = store.campaign(id).await?.with_context(|| format!("there is no campaign {id}"))?;
    let runs = store.runs_of(&detail).await?;
    Ok(report::campaign::markdown(&detail, &report::campaign::parts(&detail, runs)))
}
