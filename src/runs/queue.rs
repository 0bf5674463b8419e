//! Takes queued runs one after the other and brings the engine's events to the journal.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    task::{JoinError, JoinHandle},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;

use super::{Handle, Inner, Waiting, journal::Journal, recover};
use crate::{
    model::{RunEvent, RunId, Status, Verdict},
    store::StoreError,
};

/// Events that the engine may be ahead of the journal before it waits.
const EVENTS: usize = 256;
/// How often samples are stored: a transaction each second would write to the disk that may be under test.
const FLUSH: Duration = Duration::from_secs(5);
/// How often it is tried to write the end of a run that could not be written.
const RETRY: Duration = Duration::from_secs(5);

/// Works until the server stops.
pub(super) async fn work(inner: Arc<Inner>) {
    while !inner.stopping.is_cancelled() {
        // In one go: a run that is out of the queue is live for whoever cancels it.
        let next = {
            let mut lanes = inner.lanes();
            lanes.queue.pop_front().map(|waiting| {
                let handle = lanes.handles.entry(waiting.id).or_insert_with(Handle::new).clone();
                (handle, waiting)
            })
        };
        let Some((handle, waiting)) = next else {
            tokio::select! {
                () = inner.wake.notified() => {}
                () = inner.stopping.cancelled() => {}
            }
            continue;
        };
        let id = waiting.id;
        let journal = execute(&inner, waiting, handle).await;
        // Followers' receivers close here, after the last event.
        inner.lanes().handles.remove(&id);
        if let Some((journal, unsettled)) = journal {
            drop_followers_and_settle(&inner, id, journal, unsettled).await;
        }
    }
}

/// What remains to be written of a run whose end could not be stored.
struct Unsettled {
    status: Status,
    reason: String,
}

/// Executes one run to its end. Gives back what could not be written.
async fn execute(inner: &Arc<Inner>, waiting: Waiting, handle: Handle) -> Option<(Journal, Unsettled)> {
    let Waiting { id, plan } = waiting;
    let target = plan.outline.target.clone();
    await_cleaning(inner, &target, &handle.cancel).await;
    if inner.stopping.is_cancelled() {
        return None;
    }
    let mut journal = Journal::new(inner.store.clone(), inner.clock, id, handle.followers.clone());
    if let Err(error) = journal.begin().await {
        let reason = format!("the run could not begin: {error}");
        return settle(inner, journal, Unsettled { status: Status::Aborted, reason }).await;
    }
    tracing::info!(run.id = %id, "run {id} begins");
    let (events, received) = mpsc::channel(EVENTS);
    let engine = tokio::spawn((inner.seams.engine)(*plan, id, events, handle.cancel.clone()));
    let (ended, broken) = listen(inner, &mut journal, received, engine, &handle.cancel).await;
    let unsettled = match (broken, ended) {
        _ if journal.is_over() => return None,
        (Some(error), _) => Unsettled {
            status: Status::Aborted,
            reason: format!("the run was stopped because the store cannot be written ({error})"),
        },
        (None, Ok(verdict)) => {
            let at_ns = inner.clock.now_ns();
            match journal.record(RunEvent::Verdict { at_ns, verdict: Box::new(verdict) }).await {
                Ok(()) => return None,
                Err(error) => Unsettled {
                    status: Status::Aborted,
                    reason: format!("the run ended, but its verdict could not be stored ({error})"),
                },
            }
        }
        (None, Err(error)) => without_verdict(error),
    };
    let settled = settle(inner, journal, unsettled).await;
    recover::sweep(inner, Some(id), [(target, vec![id])].into()).await;
    settled
}

/// Brings events to the journal until the engine has ended. After the first that cannot be stored, the load is stopped
/// and the rest is only let through, so that the engine can clean up.
async fn listen(
    inner: &Inner,
    journal: &mut Journal,
    mut received: mpsc::Receiver<RunEvent>,
    mut engine: JoinHandle<Verdict>,
    cancel: &CancellationToken,
) -> (Result<Verdict, JoinError>, Option<StoreError>) {
    let mut ticks = tokio::time::interval(FLUSH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut broken = None;
    let mut ended = None;
    let mut open = true;
    let mut abandoned = false;
    let mut told = false;
    while open || ended.is_none() {
        let stored = tokio::select! {
            biased;
            () = inner.abandon.cancelled(), if !abandoned => {
                abandoned = true;
                engine.abort();
                Ok(())
            }
            () = inner.stopping.cancelled(), if !told => {
                told = true;
                let text = "The server was asked to end: it stops this run and cleans up first.".to_owned();
                journal.record(RunEvent::Note { at_ns: inner.clock.now_ns(), text }).await
            }
            _ = ticks.tick(), if broken.is_none() => journal.flush().await,
            event = received.recv(), if open => match event {
                Some(event) if broken.is_none() => journal.record(event).await,
                Some(_) => Ok(()),
                None => {
                    open = false;
                    Ok(())
                }
            },
            result = &mut engine, if ended.is_none() => {
                ended = Some(result);
                // What was sent before the end is still there; a sender that outlives the engine is not waited for.
                received.close();
                Ok(())
            }
        };
        if let Err(error) = stored {
            tracing::error!(%error, "the store cannot be written; the run is stopped");
            journal.tell_unstored(format!("The store cannot be written ({error}): the run is being stopped."));
            cancel.cancel();
            broken = Some(error);
        }
    }
    (ended.expect("the loop ends with it"), broken)
}

fn without_verdict(error: JoinError) -> Unsettled {
    match error.try_into_panic() {
        Ok(panic) => {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("it did not say why");
            Unsettled { status: Status::Failed, reason: format!("Rampart itself failed during the run ({said})") }
        }
        Err(_) => Unsettled {
            status: Status::Aborted,
            reason: "the server was stopped before the run had cleaned up".to_owned(),
        },
    }
}

async fn settle(inner: &Inner, mut journal: Journal, end: Unsettled) -> Option<(Journal, Unsettled)> {
    match journal.interrupt(end.status, &end.reason).await {
        Ok(()) => None,
        Err(error) => {
            tracing::error!(%error, stopping = inner.stopping.is_cancelled(), "the end of a run cannot be written yet");
            Some((journal, end))
        }
    }
}

/// Tries until the end of the run is written: a run that cannot be stored must not be followed by another.
async fn drop_followers_and_settle(inner: &Inner, id: RunId, journal: Journal, unsettled: Unsettled) {
    let mut rest = Some((journal.without_followers(), unsettled));
    while let Some((journal, end)) = rest {
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = inner.stopping.cancelled() => {
                // The last try; else the next start finds the run and marks it.
                if settle(inner, journal, end).await.is_some() {
                    tracing::error!(run.id = %id, "the end of run {id} is not written; the next start does it");
                }
                return;
            }
        }
        rest = settle(inner, journal, end).await;
    }
}

/// A target that is being cleaned after a crash is not measured meanwhile.
async fn await_cleaning(inner: &Inner, target: &str, cancel: &CancellationToken) {
    let cleaning = inner.lanes().cleaning.get(target).cloned();
    if let Some(done) = cleaning {
        tokio::select! {
            () = done.cancelled() => {}
            () = cancel.cancelled() => {}
            () = inner.stopping.cancelled() => {}
        }
    }
}
