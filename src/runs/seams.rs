//! What runs are made of, as functions: tests put a scripted engine in place of the real one.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    launch::Orphan,
    model::{RunEvent, RunId, Verdict},
    scenario::{Faults, Origin, Plan, Scenario},
    target::{CleanPace, TargetSpec},
};

/// Scenario text to plan.
pub type PlanFn = dyn Fn(&str, &Config, Origin) -> Result<Plan, Faults> + Send + Sync;
/// [`crate::engine::run`].
pub type EngineFn =
    dyn Fn(Plan, RunId, mpsc::Sender<RunEvent>, CancellationToken) -> BoxFuture<'static, Verdict> + Send + Sync;
/// [`crate::launch::reap`]; may block.
pub type ReapFn = dyn Fn(&Orphan) -> bool + Send + Sync;
/// Removes what dead runs left on a target; logs what it did.
pub type CleanFn = dyn Fn(String, TargetSpec) -> BoxFuture<'static, ()> + Send + Sync;

/// The functions that [`super::Runs`] calls. The default is the real ones.
#[derive(Clone)]
pub struct Seams {
    pub plan: Arc<PlanFn>,
    pub engine: Arc<EngineFn>,
    pub reap: Arc<ReapFn>,
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
                let limit = crate::sample::open_files().and_then(|(_, limit)| limit);
                crate::scenario::plan(&Scenario::parse(text)?, config, origin, limit)
            }),
            engine: Arc::new(|plan, run, events, cancel| Box::pin(crate::engine::run(plan, run, events, cancel))),
            reap: Arc::new(crate::launch::reap),
            clean: Arc::new(|name, spec| Box::pin(clean(name, spec))),
        }
    }
}

async fn clean(name: String, spec: TargetSpec) {
    match spec.open(&[]).clean(CleanPace::default()).await {
        Ok(report) => tracing::info!(
            target.name = %name,
            "cleaned {name} after a crash: {} roots, {} znodes removed, {} left alone",
            report.removed_roots.len(),
            report.removed_znodes,
            report.skipped.len(),
        ),
        Err(error) => tracing::error!(target.name = %name, %error, "cannot clean {name} after a crash"),
    }
}
