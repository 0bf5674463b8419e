//! What runs are made of, as functions: tests put a scripted engine in place of the real one.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    launch::Orphan,
    model::{RunEvent, RunId, Verdict},
    scenario::{Faults, Origin, Plan, Scenario, Surroundings},
    target::{CleanPace, TargetSpec},
};

/// Scenario text to plan.
pub type PlanFn = dyn Fn(&str, &Config, Origin) -> Result<Plan, Faults> + Send + Sync;
/// [`crate::engine::run`].
pub type EngineFn =
    dyn Fn(Plan, RunId, mpsc::Sender<RunEvent>, CancellationToken) -> BoxFuture<'static, Verdict> + Send + Sync;
/// [`crate::launch::reap`]; may block.
pub type ReapFn = dyn Fn(&Orphan) -> bool + Send + Sync;
/// [`crate::launch::reap_orphans`]; may block.
pub type ReapAllFn = dyn Fn() + Send + Sync;
/// Removes what dead runs left on a target and logs what it did. True when nothing is left of the named ones.
pub type CleanFn = dyn Fn(String, TargetSpec, Vec<RunId>) -> BoxFuture<'static, bool> + Send + Sync;

/// The functions that [`super::Runs`] calls. The default is the real ones.
#[derive(Clone)]
pub struct Seams {
    pub plan: Arc<PlanFn>,
    pub engine: Arc<EngineFn>,
    pub reap: Arc<ReapFn>,
    pub reap_all: Arc<ReapAllFn>,
    pub clean: Arc<CleanFn>,
}

impl fmt::Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seams").finish_non_exhaustive()
    }
}

impl Default for Seams {
    fn default() -> Self {
        Self {
            plan: Arc::new(|text, config, origin| {
                crate::scenario::plan(&Scenario::parse(text)?, config, origin, &surroundings())
            }),
            engine: Arc::new(|plan, run, events, cancel| Box::pin(crate::engine::run(plan, run, events, cancel))),
            reap: Arc::new(crate::launch::reap),
            reap_all: Arc::new(|| drop(crate::launch::reap_orphans())),
            clean: Arc::new(|name, spec, dead| Box::pin(clean(name, spec, dead))),
        }
    }
}

/// What plans have to know of this machine.
#[must_use]
pub fn surroundings() -> Surroundings {
    let open_files = crate::sample::open_files().and_then(|(_, limit)| limit);
    Surroundings { open_files, javas: crate::launch::installed_javas() }
}

/// How long the lease of a run that is surely dead is waited for: servers end sessions late, and round their timeouts.
const LEASE_OUTLIVES: Duration = Duration::from_secs(120);
/// Between two looks whether it is gone.
const LEASE_LOOK: Duration = Duration::from_secs(2);

async fn clean(name: String, spec: TargetSpec, dead: Vec<RunId>) -> bool {
    let target = spec.open(&[]);
    let since = Instant::now();
    loop {
        let report = match target.clean(CleanPace::default()).await {
            Ok(report) => report,
            Err(error) => {
                tracing::error!(target.name = %name, %error, "cannot clean {name} after a crash");
                return false;
            }
        };
        tracing::info!(
            target.name = %name,
            "cleaned {name} after a crash: {} roots, {} znodes removed, {} left alone",
            report.removed_roots.len(),
            report.removed_znodes,
            report.skipped.len(),
        );
        // The session of a killed run lives until the server misses it, and its lease with it.
        let left = dead.iter().any(|run| report.skipped.iter().any(|skipped| skipped.contains(&run.root())));
        if !left || since.elapsed() > LEASE_OUTLIVES {
            return !left;
        }
        tokio::time::sleep(LEASE_LOOK).await;
    }
}
