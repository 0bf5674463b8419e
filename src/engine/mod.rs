//! Clock and sockets: what a run does, from launch to verdict. Tells everything as events, reads no database.
//! `run` goes from arm to arm, this file has what stands while one is measured, `units` and `intake` are its hands and ears, `step` is one trial, `act` one with an action and `recovery` its end,
//! `gather` what it saw, `vital_signs` whether the target lives, `guards` and `canary` whether it suffers, `site` where load
//! comes from.

mod act;
mod canary;
mod gather;
mod guards;
mod intake;
mod launched;
mod recovery;
mod run;
mod site;
mod step;
pub mod units;
mod vital_signs;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    analysis::{Ladder, ValidityLimits, controller, controller::Next, hold, judge::judge, leadership::Rounds},
    launch::{self, LaunchError, Managed},
    model::{Inventory, Outcome, Phase, RunEvent, RunId, StopCode, Trial, clock::nanos},
    scenario::{Plan, PlannedTarget},
    target::{Claim, Counts, Target, TargetError},
    workload::Site,
};
use intake::{Ended, Intake};
use launched::Launched;
pub use run::run;
use units::Units;

/// How long traffic may take to cease.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks at a target that another run holds.
const LOCK_RETRY: Duration = Duration::from_secs(2);

/// Everything that stands while an arm is measured.
pub(crate) struct Floor {
    plan: Plan,
    intake: Intake,
    managed: Launched,
    target: Arc<dyn Target>,
    claim: Option<Box<dyn Claim>>,
    inventory: Inventory,
    probe_site: Site,
    /// The load that was asked last.
    load: u64,
    /// An action cost the load sessions, so that what is in place is not what was asked.
    lost: bool,
    /// What the units said last of how much is in place.
    confirmed: u64,
    /// What the target counted last.
    counts: Counts,
    /// What the target counted before any load.
    empty_counts: BTreeMap<String, u64>,
    /// Nothing has been asked of the target yet: its probes are cold.
    fresh: bool,
    /// How far the wall clock was from the monotonic one when the trial began.
    wall_offset_ns: i64,
}

/// How a climb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Climbed {
    Over(StopCode),
    /// The target is gone, and shall be launched again.
    Gone,
}

/// A run that did not come to its first step: why, in words.
type NotOpened = (Box<Intake>, StopCode, String);

impl Floor {
    /// Launches, looks at the target, locks it, starts samplers and units.
    async fn open(plan: &Plan, planned: &PlannedTarget, run: RunId, mut intake: Intake) -> Result<Self, NotOpened> {
        let clock = intake.clock;
        let (spec, managed) = match planned {
            PlannedTarget::Use(spec) => (spec.clone(), None),
            PlannedTarget::Launch(recipe) => {
                tell_phase(&intake, Phase::Launching).await;
                let cancel = intake.cancel_token();
                let launched = async { launch::launcher(recipe)?.start(recipe, run).await };
                let managed = tokio::select! {
                    () = cancel.cancelled() => return Err(aborted(intake)),
                    launched = launched => match launched {
                        Ok(managed) => managed,
                        Err(error) => return Err(failed(intake, &format!("the target could not be launched: {error}"))),
                    },
                };
                let dir = managed.dir().display().to_string();
                for (node, state) in managed.nodes().iter().zip(managed.process_states()) {
                    intake
                        .tell(RunEvent::Launched {
                            at_ns: clock.now_ns(),
                            node: node.name.clone(),
                            pid: node.pid,
                            process_started_s: state.started_s,
                            dir: dir.clone(),
                        })
                        .await;
                }
                (managed.spec(), Some(managed))
            }
        };
        let nodes = managed.as_ref().map(|managed| managed.nodes()).unwrap_or_default();
        let target: Arc<dyn Target> = Arc::from(spec.open(&nodes));
        tell_phase(&intake, Phase::Preflight).await;
        let opened = Self::preflight(plan, run, &intake, target.as_ref()).await;
        let (inventory, claim) = match opened {
            Ok(found) => found,
            Err(reason) => {
                if let Some(error) = stop(managed).await {
                    intake.note(format!("The target could not be stopped: {error}")).await;
                }
                return Err(if intake.is_cancelled() { aborted(intake) } else { failed(intake, &reason) });
            }
        };
        intake.tell(RunEvent::Inventory { at_ns: clock.now_ns(), inventory: Box::new(inventory.clone()) }).await;
        let mut notes = spec.preflight(&inventory, &site::ahead(plan));
        notes.extend(site::of_leftovers(claim.leftovers(), &plan.outline.target));
        let sites = site::sites(plan, &spec, &inventory, claim.root(), clock, site::seed_of_arm(run, plan, intake.arm));
        notes.extend(sites.notes);
        for text in notes {
            intake.tell(RunEvent::Note { at_ns: clock.now_ns(), text }).await;
        }
        intake.leadership = Rounds::new(roles(&inventory));
        let mut samplers = target.samplers(clock, &inventory);
        samplers.extend(guards::put_up(&mut intake, plan, &spec, claim.root()).await);
        intake.writes = plan.scenario.workload.about().writes();
        intake.sample_with(samplers);
        let mut floor = Self {
            plan: plan.clone(),
            intake,
            managed: Launched::new(managed),
            target,
            claim: Some(claim),
            inventory,
            probe_site: sites.probe,
            load: 0,
            lost: false,
            confirmed: 0,
            counts: Counts::default(),
            empty_counts: BTreeMap::new(),
            fresh: true,
            wall_offset_ns: 0,
        };
        match Units::start(plan.scenario.workload.as_ref(), vec![sites.load]) {
            Ok(units) => {
                floor.intake.units = Some(units);
                Ok(floor)
            }
            Err(error) => {
                let intake = floor.close().await;
                Err((
                    Box::new(intake),
                    StopCode::GeneratorSaturated,
                    format!("a load unit could not be started: {error}"),
                ))
            }
        }
    }

    /// Looks at the target and locks it, waiting while another run holds it.
    async fn preflight(
        plan: &Plan,
        run: RunId,
        intake: &Intake,
        target: &dyn Target,
    ) -> Result<(Inventory, Box<dyn Claim>), String> {
        let cancel = intake.cancel_token();
        let look = async {
            let mut inventory = target.inventory().await.map_err(|error| error.to_string())?;
            let give_up_ns = intake.clock.now_ns().saturating_add(nanos(plan.wait_for_target));
            let mut waits_for = None;
            loop {
                match target.claim(run).await {
                    Ok(claim) => {
                        // Who was connected then was the run that this one waited for.
                        if waits_for.is_some() {
                            inventory.nodes.iter_mut().for_each(|node| node.other_connections = None);
                        }
                        return Ok((inventory, claim));
                    }
                    Err(TargetError::InUse { holder }) if intake.clock.now_ns() < give_up_ns => {
                        if waits_for.as_ref() != Some(&holder) {
                            tell_waiting(intake, &holder, give_up_ns).await;
                            waits_for = Some(holder);
                        }
                        tokio::time::sleep(LOCK_RETRY).await;
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        let (inventory, claim) = tokio::select! {
            () = cancel.cancelled() => return Err("cancelled".to_owned()),
            found = look => found?,
        };
        intake.tell(RunEvent::Root { at_ns: intake.clock.now_ns(), root: claim.root().to_owned() }).await;
        Ok((inventory, claim))
    }

    /// Measures step after step until the controller has its answer, or the target has to be launched again.
    async fn climb(&mut self, history: &mut Vec<Trial>) -> Climbed {
        let before = history.len();
        let relaunch = matches!(&self.plan.scenario.ladder, Ladder::Search(search) if search.relaunch);
        let rules = self.plan.scenario.rules.clone();
        let limits = ValidityLimits::of(&rules);
        let unit = self.plan.outline.unit.clone();
        loop {
            let next =
                hold::next(&self.plan.scenario.ladder, &self.plan.scenario.actions, self.plan.scenario.hold, history);
            if let Next::Stop(code) = next {
                return Climbed::Over(code);
            }
            if relaunch && history.len() > before && history.last().is_some_and(controller::is_gone) {
                return Climbed::Gone;
            }
            // What is left of a pause or a stall belongs to the trial in which it began.
            self.intake.recover(self.managed.as_deref()).await;
            self.replace_what_was_lost().await;
            self.wall_offset_ns = self.intake.clock.wall_offset_ns();
            let gathered = match next {
                Next::Stop(code) => return Climbed::Over(code),
                Next::Measure { load, step, trial } => self.measure(load, step, trial).await,
                Next::Hold { load, step, trial } => {
                    let mut gathered = self.measure(load, step, trial).await;
                    gathered.trial.holding = true;
                    gathered
                }
                Next::Act { action, load, step, trial } => self.act(action, load, step, trial).await,
            };
            let (mut trial, samples) = (gathered.trial, gathered.samples);
            if let Some(ended) = gathered.ended {
                return Climbed::Over(match ended {
                    Ended::TimeBudget => StopCode::TimeBudget,
                    Ended::Guarded => StopCode::SafetyAbort,
                    Ended::Cancelled | Ended::Reached | Ended::Deadline | Ended::GaveWay => StopCode::UserAbort,
                });
            }
            let judgement = judge(&rules, &trial, history, &samples, limits, &unit);
            trial.outcome = judgement.outcome;
            trial.stop_code = judgement.stop_code;
            trial.rules = judgement.rules;
            trial.remarks.splice(0..0, judgement.remarks);
            if trial.outcome == Outcome::Broke && trial.action.is_none() && controller::is_gone(&trial) {
                let what = if relaunch {
                    "the target is launched again after this trial"
                } else {
                    "not measured once more: the target could not be filled again"
                };
                trial.remarks.push(what.to_owned());
            }
            self.intake.tell(RunEvent::Trial { trial: Box::new(trial.clone()), histograms: gathered.histograms }).await;
            history.push(trial);
        }
    }

    /// Ends the load, removes what the run created, stops a managed target.
    async fn close(self) -> Intake {
        let Self { plan, mut intake, managed, claim, .. } = self;
        tell_phase(&intake, Phase::Cleaning).await;
        if let Some(mut units) = intake.units.take()
            && !units.stop(STOP_LIMIT).await
        {
            tracing::warn!("a load unit did not end within {} s", STOP_LIMIT.as_secs());
        }
        intake.stop_sampling().await;
        match (managed.into_inner(), claim) {
            (Some(managed), claim) => {
                match claim {
                    Some(claim) if managed.keeps_data() => {
                        let root = claim.root().to_owned();
                        if intake.is_gone() {
                            // Waiting for it would last as long as removing may.
                            claim.abandon();
                            intake.note(format!("{root} is left in the target's data: the target is gone.")).await;
                        } else if let Err(error) = claim.release(plan.scenario.clean_pace).await {
                            intake.note(format!("{root} could not be removed: {error}.")).await;
                        }
                    }
                    Some(claim) => claim.abandon(),
                    None => {}
                }
                if let Some(error) = managed.stop().await {
                    intake.note(format!("The target could not be stopped: {error}")).await;
                }
            }
            (None, Some(claim)) => {
                let root = claim.root().to_owned();
                if let Err(error) = claim.release(plan.scenario.clean_pace).await {
                    let text = format!(
                        "{root} could not be removed: {error}. `rampart clean {}` removes it when the target is back.",
                        plan.outline.target
                    );
                    intake.note(text).await;
                }
            }
            (None, None) => {}
        }
        intake
    }
}

async fn stop(managed: Option<Box<dyn Managed>>) -> Option<LaunchError> {
    match managed {
        Some(managed) => managed.stop().await,
        None => None,
    }
}

/// The role of each server before the load.
fn roles(inventory: &Inventory) -> BTreeMap<String, String> {
    inventory.nodes.iter().map(|node| (node.name.clone(), node.role.clone())).collect()
}

async fn tell_phase(intake: &Intake, phase: Phase) {
    tell_phase_until(intake, phase, None).await;
}

async fn tell_phase_until(intake: &Intake, phase: Phase, until_ns: Option<i64>) {
    let at_ns = intake.clock.now_ns();
    intake.tell(RunEvent::Phase { at_ns, phase, arm: intake.arm, step: 0, trial: 0, load: 0, until_ns }).await;
}

/// Says for whom the run waits, once for each holder: it may be a long time.
async fn tell_waiting(intake: &Intake, holder: &str, until_ns: i64) {
    // Who sees that it waits must find for whom.
    let text = format!("The target is in use by {holder}: this run waits until it is free.");
    intake.tell(RunEvent::Note { at_ns: intake.clock.now_ns(), text }).await;
    tell_phase_until(intake, Phase::Waiting, Some(until_ns)).await;
}

fn aborted(intake: Intake) -> NotOpened {
    (Box::new(intake), StopCode::UserAbort, "someone stopped it before its first step".to_owned())
}

fn failed(intake: Intake, reason: &str) -> NotOpened {
    (Box::new(intake), StopCode::TargetUnhealthy, reason.to_owned())
}
