//! `rampart calibrate`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;

use super::say;
use crate::{
    model::Clock,
    report::format,
    sample::this_machine,
    store::{
        Store,
        calibrations::{self, Calibration},
    },
    workload::ceiling,
};

/// Arguments of `rampart calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The database that keeps the figure; without it, it is only printed.
    #[arg(long, env = "RAMPART_DB", value_name = "FILE")]
    db: Option<PathBuf>,
    /// Seconds for each rate that is tried, about forty of them.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    each_s: f64,
}

pub(super) async fn calibrate(arguments: Arguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!((0.1..=60.0).contains(&arguments.each_s), "--each-s is {}; allowed: 0.1 to 60", arguments.each_s);
    let store = match &arguments.db {
        Some(path) => Some(Store::open(path).await.with_context(|| format!("cannot open {}", path.display()))?),
        None => None,
    };
    let (clock, each) = (Clock::start(), Duration::from_secs_f64(arguments.each_s));
    let found = tokio::task::spawn_blocking(move || ceiling::measure(clock, each)).await?;
    let host = this_machine().name.unwrap_or_else(|| "unknown".to_owned());
    say(&format!(
        "{host}: one load thread sends {} operations per second to a service that answers at once, {} (p50) and {} ms (p99) after they are due.\nWire and target take more: this bounds what the schedule itself can do.",
        format::count(found.per_s),
        format::ms(found.start_lag_p50_us),
        format::ms(found.start_lag_p99_us)
    ));
    if let Some(store) = store {
        let made = Calibration {
            at_ns: clock.now_ns(),
            host,
            ceiling_per_s: found.per_s,
            start_lag_p50_us: found.start_lag_p50_us,
            start_lag_p99_us: found.start_lag_p99_us,
        };
        let mut tx = store.begin().await?;
        calibrations::insert(&mut tx, &made).await?;
        tx.commit().await?;
        say("Stored: plans of this database say when they ask for more than 80 % of it.");
    }
    Ok(ExitCode::SUCCESS)
}
