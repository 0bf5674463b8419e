//! After a crash: what ran is marked as interrupted, what it left is removed, what waited goes on.

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{AskedBy, Handle, Inner, Runs, Waiting, journal::Journal};
use crate::{
    launch::Orphan,
    model::{RunId, RunState, Status},
    store::{StoreError, launched, runs},
};

/// What a start found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Runs that the last server left in the middle.
    pub interrupted: Vec<RunId>,
    /// Runs that wait again.
    pub queued: Vec<RunId>,
}

impl Runs {
    /// Puts right what the last server left, and goes on with its queue: call it once, before the first run is asked
    /// for. Cleaning of targets goes on in the background; a run on such a target waits for it.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn recover(&self) -> Result<Recovered, StoreError> {
        let interrupted = self.put_right().await?;
        let Recovered { interrupted: unfit, queued } = self.queue_again().await?;
        Ok(Recovered { interrupted: [interrupted, unfit].concat(), queued })
    }

    /// As [`Runs::recover`], but leaves queued runs to a server. Gives the runs that were interrupted.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn put_right(&self) -> Result<Vec<RunId>, StoreError> {
        let inner = &self.0;
        let mut interrupted = Vec::new();
        let mut targets: BTreeMap<String, Vec<RunId>> = BTreeMap::new();
        for row in inner.store.in_state(RunState::Running).await? {
            end(inner, row.id, Status::Aborted, "the server went away while the run was going on").await?;
            tracing::warn!(run.id = %row.id, "run {} was interrupted: the server went away", row.id);
            interrupted.push(row.id);
            targets.entry(row.target).or_default().push(row.id);
        }
        // A server that went away while it cleaned after another one.
        for (run, target) in inner.store.uncleaned().await? {
            let runs = targets.entry(target).or_default();
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        let reap_all = Arc::clone(&inner.seams.reap_all);
        // Also what was being launched and is not stored yet. It waits for processes to end.
        let _ = tokio::task::spawn_blocking(move || reap_all()).await;
        sweep(inner, None, targets).await;
        Ok(interrupted)
    }

    /// Queues what waited when the last server ended.
    async fn queue_again(&self) -> Result<Recovered, StoreError> {
        let inner = &self.0;
        let mut recovered = Recovered::default();
        for row in inner.store.in_state(RunState::Queued).await? {
            let Some(detail) = inner.store.detail(row.id).await? else { continue };
            let by = match row.origin.as_str() {
                "command line" => AskedBy::CommandLine,
                _ => AskedBy::Api,
            };
            match (inner.seams.plan)(&detail.scenario_text, &inner.config, by.origin()) {
                Ok(plan) => {
                    inner.enqueue(Waiting { id: row.id, plan: Box::new(plan) });
                    recovered.queued.push(row.id);
                }
                Err(faults) => {
                    let reason = format!("the scenario does not fit this server's configuration any more ({faults})");
                    end(inner, row.id, Status::Failed, &reason).await?;
                    recovered.interrupted.push(row.id);
                }
            }
        }
        Ok(recovered)
    }
}

async fn end(inner: &Inner, run: RunId, status: Status, reason: &str) -> Result<(), StoreError> {
    let nobody = Handle::new().followers;
    Journal::resume(inner.store.clone(), inner.clock, run, nobody).await?.interrupt(status, reason).await
}

/// Ends processes that runs have left (of all runs, or of one), and cleans configured targets in the background.
pub(super) async fn sweep(inner: &Arc<Inner>, of: Option<RunId>, targets: BTreeMap<String, Vec<RunId>>) {
    if let Err(error) = reap(inner, of).await {
        tracing::error!(%error, "cannot tell which processes runs have left");
    }
    for (name, dead) in targets {
        let Some(spec) = inner.config.targets.get(&name).cloned() else { continue };
        let done = CancellationToken::new();
        inner.lanes().cleaning.insert(name.clone(), done.clone());
        let (inner_of_task, clean) = (Arc::clone(inner), (inner.seams.clean)(name.clone(), spec, dead.clone()));
        inner.tasks.spawn(async move {
            // Also when the cleaning panics: a waiting run must go on.
            let _done = done.drop_guard();
            if inner_of_task.stopping.run_until_cancelled(clean).await == Some(true)
                && let Err(error) = forget_roots(&inner_of_task, &dead).await
            {
                tracing::error!(target.name = %name, %error, "cannot note that {name} is clean");
            }
            inner_of_task.lanes().cleaning.remove(&name);
        });
    }
}

async fn forget_roots(inner: &Inner, of: &[RunId]) -> Result<(), StoreError> {
    let mut tx = inner.store.begin().await?;
    for run in of {
        runs::forget_root(&mut tx, *run).await?;
    }
    Ok(tx.commit().await?)
}

async fn reap(inner: &Inner, of: Option<RunId>) -> Result<(), StoreError> {
    for left in inner.store.launched().await? {
        if of.is_some_and(|run| run != left.run) {
            continue;
        }
        let launched::Launched { run: _, pid, process_started_s, dir } = left.clone();
        let orphan = Orphan { pid, process_started_s, dir };
        let seam = Arc::clone(&inner.seams.reap);
        // It waits for processes to end.
        let gone = tokio::task::spawn_blocking(move || seam(&orphan)).await.unwrap_or(false);
        tracing::warn!(run.id = %left.run, pid, gone, "run {} left a process with pid {pid} behind", left.run);
        if gone {
            let mut tx = inner.store.begin().await?;
            launched::forget_one(&mut tx, &left).await?;
            tx.commit().await?;
        }
    }
    Ok(())
}
