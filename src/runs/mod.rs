//! Where engine meets store: ask for a run, follow it, cancel it, recover after a crash. One run at a time on this
//! generator, first in, first out. Only the journal writes a run's state.

mod campaigns;
mod ceiling;
mod journal;
mod queue;
mod recover;
mod seams;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::{Notify, broadcast};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use campaigns::NextPart;
pub use journal::Live;
pub use recover::Recovered;
pub use seams::{CleanFn, EngineFn, PlanFn, ReapAllFn, ReapFn, Seams, surroundings};

use crate::{
    config::Config,
    model::{Clock, RunEvent, RunId},
    scenario::{Faults, Origin, Plan},
    store::{self, Store, StoreError},
};
use journal::Journal;

/// Events that a follower may be behind before it is cut off; about two minutes of a busy run.
pub const FOLLOWER_LAG: usize = 1_024;
/// How long shutting down waits for the live run to take its load away and clean up.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// Who asks for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    Page,
    Api,
    CommandLine,
}

impl AskedBy {
    /// The word stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Api => "api",
            Self::CommandLine => "command line",
        }
    }

    /// What may be launched for it.
    #[must_use]
    pub const fn origin(self) -> Origin {
        match self {
            Self::Page | Self::Api => Origin::Network,
            Self::CommandLine => Origin::LocalUser,
        }
    }
}

/// A run that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    pub id: RunId,
    /// True when the idempotency key was known: this is the run of the earlier request.
    pub existing: bool,
}

/// Why a run was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Faults(#[from] Faults),
    /// The key was used with another scenario.
    #[error("the idempotency key was used for run {existing}, which has another scenario")]
    Conflict { existing: RunId },
    #[error("the server is shutting down")]
    Closing,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What cancelling came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited, and is over now.
    NeverBegan,
    /// It takes its load away; its verdict follows.
    Stopping,
    /// It was over already.
    Over,
    /// There is no such run.
    Unknown,
}

/// The runs of one server. Cheap to clone.
#[derive(Clone)]
pub struct Runs(Arc<Inner>);

struct Inner {
    store: Store,
    config: Arc<Config>,
    seams: Seams,
    clock: Clock,
    lanes: Mutex<Lanes>,
    wake: Notify,
    /// Keeps the order of rows and queue the same, and a key from being used twice at once.
    submitting: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    /// No run begins any more.
    stopping: CancellationToken,
    /// The live run had its time: its engine is dropped.
    abandon: CancellationToken,
    /// Nothing more will be told.
    closed: CancellationToken,
}

#[derive(Default)]
struct Lanes {
    queue: VecDeque<Waiting>,
    /// Queued and live runs.
    handles: HashMap<RunId, Handle>,
    /// Targets that are being cleaned after a crash, until the token is cancelled.
    cleaning: HashMap<String, CancellationToken>,
}

struct Waiting {
    id: RunId,
    plan: Box<Plan>,
}

/// Where a run was when it was to be cancelled.
enum Taken {
    /// In the queue, at that place.
    Waiting(usize, Waiting, Handle),
    Live(Handle),
    Neither,
}

#[derive(Clone)]
struct Handle {
    followers: broadcast::Sender<Live>,
    cancel: CancellationToken,
}

impl Handle {
    fn new() -> Self {
        Self { followers: broadcast::channel(FOLLOWER_LAG).0, cancel: CancellationToken::new() }
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").finish_non_exhaustive()
    }
}

impl Inner {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().expect("no code panics while it holds the lanes")
    }

    /// Takes a run out of the queue, if it still waits.
    fn take_waiting(&self, id: RunId) -> Taken {
        let mut lanes = self.lanes();
        let Some(handle) = lanes.handles.get(&id).cloned() else { return Taken::Neither };
        let at = lanes.queue.iter().position(|waiting| waiting.id == id);
        match at.and_then(|at| lanes.queue.remove(at).map(|waiting| (at, waiting))) {
            Some((at, waiting)) => Taken::Waiting(at, waiting, handle),
            None => Taken::Live(handle),
        }
    }

    fn enqueue(&self, waiting: Waiting) {
        let mut lanes = self.lanes();
        lanes.handles.insert(waiting.id, Handle::new());
        lanes.queue.push_back(waiting);
        drop(lanes);
        self.wake.notify_one();
    }
}

impl Runs {
    /// The runs of this store, with the real engine. Must be called within a runtime; [`Runs::recover`] comes next.
    #[must_use]
    pub fn new(store: Store, config: Arc<Config>) -> Self {
        Self::with(store, config, Seams::default())
    }

    /// As [`Runs::new`], with other functions in place of the real ones.
    #[must_use]
    pub fn with(store: Store, config: Arc<Config>, seams: Seams) -> Self {
        let inner = Arc::new(Inner {
            store,
            config,
            seams,
            clock: Clock::start(),
            lanes: Mutex::default(),
            wake: Notify::new(),
            submitting: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            abandon: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        inner.tasks.spawn(queue::work(Arc::clone(&inner)));
        Self(inner)
    }

    /// Checks a scenario and puts its run into the queue. The same key with the same text gives the same run.
    ///
    /// # Errors
    /// Every fault of the scenario; a key that stands for another scenario; a store that cannot be written.
    pub async fn submit(
        &self,
        scenario_text: &str,
        by: AskedBy,
        idempotency_key: Option<&str>,
    ) -> Result<Submitted, SubmitError> {
        let inner = &self.0;
        let _one_at_a_time = inner.submitting.lock().await;
        if inner.stopping.is_cancelled() {
            return Err(SubmitError::Closing);
        }
        let mut tx = inner.store.begin().await?;
        // Before planning: a repeated request has the same answer even if the configuration has changed since.
        if let Some(key) = idempotency_key
            && let Some((id, text)) = store::idempotency::find(&mut tx, key).await?
        {
            return if text == scenario_text {
                Ok(Submitted { id, existing: true })
            } else {
                Err(SubmitError::Conflict { existing: id })
            };
        }
        let mut plan = (inner.seams.plan)(scenario_text, &inner.config, by.origin())?;
        plan.outline.remarks.extend(ceiling::remark(&inner.store, &plan).await?);
        let id = RunId::new();
        let created_ns = inner.clock.now_ns();
        let new = store::runs::NewRun {
            id,
            scenario_text,
            outline: &plan.outline,
            origin: by.as_str(),
            created_ns,
            utc_offset_s: local_offset_s(),
        };
        store::runs::insert(&mut tx, &new).await?;
        if let Some(key) = idempotency_key {
            store::idempotency::insert(&mut tx, key, id, created_ns).await?;
        }
        tx.commit().await.map_err(StoreError::from)?;
        tracing::info!(run.id = %id, origin = by.as_str(), "run {id} of {} is queued", plan.outline.scenario);
        inner.enqueue(Waiting { id, plan: Box::new(plan) });
        Ok(Submitted { id, existing: false })
    }

    /// What a scenario comes to on this server, without running it.
    ///
    /// # Errors
    /// Every fault of the scenario.
    pub fn check(&self, scenario_text: &str, by: AskedBy) -> Result<Plan, Faults> {
        (self.0.seams.plan)(scenario_text, &self.0.config, by.origin())
    }

    /// Ends a run. Calling it again changes nothing.
    ///
    /// # Errors
    /// When the store cannot be read, or the end of a queued run cannot be written: it then stays queued.
    pub async fn cancel(&self, id: RunId) -> Result<Cancelled, StoreError> {
        let inner = &self.0;
        let (at, waiting, handle) = match inner.take_waiting(id) {
            Taken::Waiting(at, waiting, handle) => (at, waiting, handle),
            Taken::Live(handle) => {
                handle.cancel.cancel();
                return Ok(Cancelled::Stopping);
            }
            Taken::Neither => {
                let row = inner.store.row(id).await?;
                return Ok(if row.is_some() { Cancelled::Over } else { Cancelled::Unknown });
            }
        };
        let mut journal = Journal::new(inner.store.clone(), inner.clock, id, handle.followers);
        let verdict = Box::new(journal::never_began(id, &waiting.plan.outline));
        let stored = journal.record(RunEvent::Verdict { at_ns: inner.clock.now_ns(), verdict }).await;
        let mut lanes = inner.lanes();
        if let Err(error) = stored {
            let at = at.min(lanes.queue.len());
            lanes.queue.insert(at, waiting);
            drop(lanes);
            inner.wake.notify_one();
            return Err(error);
        }
        lanes.handles.remove(&id);
        Ok(Cancelled::NeverBegan)
    }

    /// What happens to a queued or live run from now on; `None` when it is over. The receiver closes with the run, and
    /// a follower that is more than [`FOLLOWER_LAG`] events behind loses the oldest: the run never waits for it.
    #[must_use]
    pub fn follow(&self, id: RunId) -> Option<broadcast::Receiver<Live>> {
        self.0.lanes().handles.get(&id).map(|handle| handle.followers.subscribe())
    }

    /// Runs that wait, the next one first.
    #[must_use]
    pub fn waiting(&self) -> Vec<RunId> {
        self.0.lanes().queue.iter().map(|waiting| waiting.id).collect()
    }

    /// Cancelled when the server has stopped its runs: streams end then.
    #[must_use]
    pub fn closed(&self) -> CancellationToken {
        self.0.closed.clone()
    }

    /// Shuts down: queued runs stay queued, the live one is cancelled and given [`DRAIN_LIMIT`] to clean up.
    pub async fn drain(&self) {
        self.drain_within(DRAIN_LIMIT).await;
    }

    /// As [`Runs::drain`], with another limit. A run that is not done by then becomes interrupted.
    pub async fn drain_within(&self, limit: Duration) {
        /// An engine that is dropped leaves little to write.
        const AFTER_LIMIT: Duration = Duration::from_secs(10);
        let inner = &self.0;
        inner.stopping.cancel();
        for handle in inner.lanes().handles.values() {
            handle.cancel.cancel();
        }
        inner.tasks.close();
        if tokio::time::timeout(limit, inner.tasks.wait()).await.is_err() {
            inner.abandon.cancel();
            if tokio::time::timeout(AFTER_LIMIT, inner.tasks.wait()).await.is_err() {
                tracing::error!("a run could not be ended in time; the next start marks it as interrupted");
            }
        }
        inner.closed.cancel();
        let mut lanes = inner.lanes();
        lanes.queue.clear();
        lanes.handles.clear();
    }
}

/// The system's offset from UTC now, seconds east.
fn local_offset_s() -> i32 {
    jiff::ZonedDateTime::now().offset().seconds()
}
