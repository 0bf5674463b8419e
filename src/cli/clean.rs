//! `rampart clean`.

use std::process::ExitCode;

use super::ConfigFile;
use crate::target::{CleanPace, TargetError};

/// Arguments of `rampart clean`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Deletions a second at most.
    #[arg(long, default_value_t = CleanPace::default().deletes_per_s, value_name = "NUMBER")]
    deletes_per_s: f64,
    /// Seconds that it may take.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    limit_s: u64,
    /// A target of the configuration.
    #[arg(value_name = "TARGET")]
    target: String,
}

/// The exit code of a target that cannot be used.
const UNHEALTHY: u8 = 6;

pub(super) async fn clean(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.config.load()?;
    let Some(spec) = config.targets.get(&arguments.target) else {
        let known: Vec<_> = config.targets.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "none (name targets in a file given with --config)".to_owned()
        } else {
            known.join(", ")
        };
        anyhow::bail!("the configuration names no target {:?}; allowed: {known}", arguments.target);
    };
    anyhow::ensure!(
        (1.0..=1e6).contains(&arguments.deletes_per_s),
        "--deletes-per-s is {}; allowed: 1 to 1000000",
        arguments.deletes_per_s
    );
    let limit = std::time::Duration::from_secs(arguments.limit_s);
    let report = match spec.open(&[]).clean(CleanPace { deletes_per_s: arguments.deletes_per_s, limit }).await {
        Ok(report) => report,
        Err(error @ (TargetError::Unreachable { .. } | TargetError::NotServing { .. })) => {
            super::complain(&error.into());
            return Ok(ExitCode::from(UNHEALTHY));
        }
        Err(error) => return Err(error.into()),
    };
    for root in &report.removed_roots {
        super::say(&format!("removed {root}"));
    }
    for skipped in &report.skipped {
        super::say(&format!("left alone: {skipped}"));
    }
    super::say(&format!(
        "{} roots and {} znodes removed from {}",
        report.removed_roots.len(),
        report.removed_znodes,
        arguments.target
    ));
    Ok(ExitCode::SUCCESS)
}
