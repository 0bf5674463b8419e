//! The only writer of a run's state: one transaction an event, then followers hear of it.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::{
    model::{Clock, RunEvent, RunId, Sample, Status, StopCode, Trial, Validity, Verdict},
    scenario::plan::Outline,
    store::{Store, StoreError, Write, arms, chunks, events, histograms, launched, rows::PhaseNow, runs, trials},
};

/// What a follower hears: a stored event with its number, or a passing one (samples, progress) without.
#[derive(Debug, Clone)]
pub struct Live {
    /// What `Last-Event-ID` names; absent for what is not stored as an event.
    pub seq: Option<u64>,
    pub kind: &'static str,
    /// The [`RunEvent`] as JSON; made once for all followers.
    pub json: Arc<str>,
}

/// Stores one run's events and tells them.
#[derive(Debug)]
pub(super) struct Journal {
    store: Store,
    clock: Clock,
    run: RunId,
    followers: broadcast::Sender<Live>,
    seq: u64,
    arm: u32,
    phase: Option<PhaseNow>,
    phase_changed: bool,
    /// Samples that wait for the next flush, all of one arm.
    samples: Vec<Sample>,
    over: bool,
}

impl Journal {
    /// A journal of a run of which nothing is stored but that it was asked for.
    pub(super) fn new(store: Store, clock: Clock, run: RunId, followers: broadcast::Sender<Live>) -> Self {
        Self {
            store,
            clock,
            run,
            followers,
            seq: 0,
            arm: 0,
            phase: None,
            phase_changed: false,
            samples: Vec::new(),
            over: false,
        }
    }

    /// A journal that goes on where a stored run stands.
    pub(super) async fn resume(
        store: Store,
        clock: Clock,
        run: RunId,
        followers: broadcast::Sender<Live>,
    ) -> Result<Self, StoreError> {
        let last_seq = store.detail(run).await?.map_or(0, |detail| detail.last_seq);
        Ok(Self { seq: last_seq, ..Self::new(store, clock, run, followers) })
    }

    /// The same, telling nobody: followers of the run hear that it is over.
    pub(super) fn without_followers(self) -> Self {
        Self { followers: broadcast::channel(1).0, ..self }
    }

    /// Whether the run has ended in the store.
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    /// The queued run begins.
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        runs::start(&mut tx, self.run, self.clock.now_ns()).await?;
        Ok(tx.commit().await?)
    }

    /// Stores one event, then tells it. Samples and progress are told at once and stored with the next flush.
    pub(super) async fn record(&mut self, event: RunEvent) -> Result<(), StoreError> {
        if self.over {
            tracing::warn!(run.id = %self.run, "an event after the verdict of run {} is left out", self.run);
            return Ok(());
        }
        let json = to_json(&event)?;
        match event {
            RunEvent::Samples { samples } => {
                self.samples.extend(samples);
                self.tell(None, "samples", json);
                Ok(())
            }
            RunEvent::Progress { confirmed, .. } => {
                if let Some(phase) = &mut self.phase {
                    phase.confirmed = Some(confirmed);
                    self.phase_changed = true;
                }
                self.tell(None, "progress", json);
                Ok(())
            }
            event @ (RunEvent::Phase { .. }
            | RunEvent::Launched { .. }
            | RunEvent::Inventory { .. }
            | RunEvent::Root { .. }
            | RunEvent::Note { .. }
            | RunEvent::Trial { .. }
            | RunEvent::Verdict { .. }) => self.record_stored(event, json).await,
        }
    }

    async fn record_stored(&mut self, event: RunEvent, json: String) -> Result<(), StoreError> {
        let (run, seq) = (self.run, self.seq + 1);
        let (kind, at_ns) = kind_and_time(&event, &self.clock);
        let mut tx = self.store.begin().await?;
        if flushes(&event, self.arm) {
            self.write_samples(&mut tx).await?;
        }
        events::insert(&mut tx, run, seq, at_ns, kind, &json).await?;
        let mut phase_now = None;
        match &event {
            RunEvent::Phase { at_ns, phase, arm, step, trial, load, until_ns } => {
                let (phase, arm, step, trial, load) = (*phase, *arm, *step, *trial, *load);
                let now =
                    PhaseNow { phase, arm, step, trial, load, since_ns: *at_ns, until_ns: *until_ns, confirmed: None };
                runs::set_phase(&mut tx, run, &now).await?;
                phase_now = Some(now);
            }
            RunEvent::Launched { at_ns: _, node: _, pid, process_started_s, dir } => {
                let (pid, process_started_s) = (*pid, *process_started_s);
                launched::insert(&mut tx, &launched::Launched { run, pid, process_started_s, dir: dir.into() }).await?;
            }
            RunEvent::Inventory { at_ns: _, inventory } => {
                runs::set_inventory(&mut tx, run, inventory).await?;
                arms::insert(&mut tx, run, self.arm, inventory).await?;
            }
            RunEvent::Root { at_ns: _, root } => runs::set_root(&mut tx, run, root).await?,
            RunEvent::Trial { trial, histograms } => {
                trials::insert(&mut tx, run, seq, trial).await?;
                for record in histograms {
                    histograms::insert(&mut tx, run, record).await?;
                }
            }
            RunEvent::Verdict { at_ns, verdict } => {
                runs::finish(&mut tx, run, verdict, *at_ns).await?;
                launched::forget(&mut tx, run).await?;
            }
            RunEvent::Note { .. } | RunEvent::Progress { .. } | RunEvent::Samples { .. } => {}
        }
        runs::set_last_seq(&mut tx, run, seq).await?;
        tx.commit().await?;

        // Only now: what could not be stored has not happened.
        self.seq = seq;
        if flushes(&event, self.arm) {
            self.samples.clear();
        }
        if let RunEvent::Phase { arm, .. } = &event {
            (self.arm, self.phase, self.phase_changed) = (*arm, phase_now, false);
        }
        self.over = matches!(event, RunEvent::Verdict { .. });
        self.tell(Some(seq), kind, json);
        if self.over {
            self.merge().await;
        }
        Ok(())
    }

    /// Stores buffered samples and the latest progress.
    pub(super) async fn flush(&mut self) -> Result<(), StoreError> {
        if self.samples.is_empty() && !self.phase_changed {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        self.write_samples(&mut tx).await?;
        if let Some(phase) = self.phase.as_ref().filter(|_| self.phase_changed) {
            runs::set_phase(&mut tx, self.run, phase).await?;
        }
        tx.commit().await?;
        self.samples.clear();
        self.phase_changed = false;
        Ok(())
    }

    async fn write_samples(&self, tx: &mut Write) -> Result<(), StoreError> {
        chunks::append(tx, self.run, self.arm, &self.samples).await
    }

    /// The run is over without a verdict. `reason` becomes its sentence, with how many steps are kept.
    pub(super) async fn interrupt(&mut self, status: Status, reason: &str) -> Result<(), StoreError> {
        let at_ns = self.clock.now_ns();
        let seq = self.seq + 1;
        let mut tx = self.store.begin().await?;
        self.write_samples(&mut tx).await?;
        let steps = trials::steps(&mut tx, self.run).await?;
        let kept = match steps {
            0 => "no step was measured".to_owned(),
            1 => "1 step is kept".to_owned(),
            steps => format!("{steps} steps are kept"),
        };
        let text = format!("{reason}; {kept}");
        let json = to_json(&RunEvent::Note { at_ns, text: text.clone() })?;
        events::insert(&mut tx, self.run, seq, at_ns, "note", &json).await?;
        runs::interrupt(&mut tx, self.run, status, &text, at_ns).await?;
        runs::set_last_seq(&mut tx, self.run, seq).await?;
        tx.commit().await?;
        self.seq = seq;
        self.samples.clear();
        self.over = true;
        self.tell(Some(seq), "note", json);
        self.merge().await;
        Ok(())
    }

    /// Says something to followers that could not be stored.
    pub(super) fn tell_unstored(&self, text: String) {
        if let Ok(json) = to_json(&RunEvent::Note { at_ns: self.clock.now_ns(), text }) {
            self.tell(None, "note", json);
        }
    }

    fn tell(&self, seq: Option<u64>, kind: &'static str, json: String) {
        // No follower is no fault.
        let _ = self.followers.send(Live { seq, kind, json: json.into() });
    }

    /// Long parts read faster; short ones are as right, so that failing is no fault of the run.
    async fn merge(&self) {
        let merged = async {
            let mut tx = self.store.begin().await?;
            chunks::merge(&mut tx, self.run).await?;
            Ok::<_, StoreError>(tx.commit().await?)
        };
        if let Err(error) = merged.await {
            tracing::warn!(run.id = %self.run, %error, "the series of run {} stay in short parts", self.run);
        }
    }
}

/// The verdict of a run that was cancelled before it began.
pub(super) fn never_began(run: RunId, outline: &Outline) -> Verdict {
    let reason = "the run was cancelled before it began";
    Verdict {
        run_id: run,
        arm: 0,
        status: Status::Aborted,
        stop_code: StopCode::UserAbort,
        axis: outline.axis.clone(),
        unit: outline.unit.clone(),
        last_good: None,
        first_bad: None,
        required: None,
        sentence: "Cancelled before it began: nothing was measured.".to_owned(),
        reason: Some(reason.to_owned()),
        evidence: Vec::new(),
        validity: Validity {
            valid: false,
            reasons: vec![reason.to_owned()],
            start_lag_p99_us: None,
            missed: 0,
            cpu_share: None,
            shared_machine: false,
            closed_loop: None,
        },
        baseline: String::new(),
        exit_code: 8,
        actions: Vec::new(),
        goals: Vec::new(),
        holding: None,
        scaling: None,
        interval: None,
        arms: Vec::new(),
        findings: Vec::new(),
        steps: Vec::<Trial>::new(),
    }
}

/// Whether buffered samples go into the transaction of this event: a trial is judged on them, a verdict is the last
/// chance, and another arm has other series.
fn flushes(event: &RunEvent, arm_before: u32) -> bool {
    match event {
        RunEvent::Trial { .. } | RunEvent::Verdict { .. } => true,
        RunEvent::Phase { arm, .. } => *arm != arm_before,
        RunEvent::Launched { .. }
        | RunEvent::Inventory { .. }
        | RunEvent::Root { .. }
        | RunEvent::Progress { .. }
        | RunEvent::Samples { .. }
        | RunEvent::Note { .. } => false,
    }
}

fn kind_and_time(event: &RunEvent, clock: &Clock) -> (&'static str, i64) {
    match event {
        RunEvent::Phase { at_ns, .. } => ("phase", *at_ns),
        RunEvent::Launched { at_ns, .. } => ("launched", *at_ns),
        RunEvent::Inventory { at_ns, .. } => ("inventory", *at_ns),
        RunEvent::Root { at_ns, .. } => ("root", *at_ns),
        RunEvent::Progress { at_ns, .. } => ("progress", *at_ns),
        RunEvent::Samples { .. } => ("samples", clock.now_ns()),
        RunEvent::Note { at_ns, .. } => ("note", *at_ns),
        RunEvent::Trial { trial, .. } => ("trial", trial.ended_ns),
        RunEvent::Verdict { at_ns, .. } => ("verdict", *at_ns),
    }
}

fn to_json(event: &RunEvent) -> Result<String, StoreError> {
    serde_json::to_string(event).map_err(|cause| StoreError::Unstorable { what: "an event", cause: cause.to_string() })
}
