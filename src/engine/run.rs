//! The life of a run: its arms one after the other, each launched, filled and measured, then what they say together.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Climbed, Floor, intake::Intake, site};
use crate::{
    analysis::{
        Ladder, Trip, arms,
        verdict::{Question, conclude},
    },
    model::{Arm, ArmResult, Clock, Inventory, RunEvent, RunId, StopCode, Trial, Verdict, clock::seconds_ns},
    scenario::{Plan, PlannedArm},
};

/// Executes a plan to its verdict, which is also the last event. Always cleans up; ends early when `cancel` is
/// cancelled (`user_abort`) or when nobody receives the events any more. An arm that fails leaves the others alone.
pub async fn run(plan: Plan, run: RunId, events: mpsc::Sender<RunEvent>, cancel: CancellationToken) -> Verdict {
    let clock = Clock::start();
    let budget_ns =
        plan.scenario.time_budget_s.map_or(i64::MAX, |budget_s| clock.now_ns().saturating_add(seconds_ns(budget_s)));
    let mut results = Vec::new();
    for planned in in_order(&plan, run) {
        let mut intake = Intake::new(clock, events.clone(), cancel.clone());
        (intake.arm, intake.budget_ns) = (planned.arm.number, budget_ns);
        let result = measure(&plan, planned, run, intake).await;
        let over = ends_run(result.verdict.stop_code) || clock.now_ns() >= budget_ns;
        results.push(result);
        if over {
            break;
        }
    }
    let verdict = match (&plan.scenario.sweep, results.as_slice()) {
        (None, [only]) => only.verdict.clone(),
        _ => arms::conclude(results, plan.arms.len())
            .unwrap_or_else(|| conclude(&question(&plan, run, 0, None, true), &[], StopCode::NoData)),
    };
    // Nobody may be left to hear it.
    let _ = events.send(RunEvent::Verdict { at_ns: clock.now_ns(), verdict: Box::new(verdict.clone()) }).await;
    verdict
}

fn in_order(plan: &Plan, run: RunId) -> Vec<&PlannedArm> {
    let Some(sweep) = &plan.scenario.sweep else { return plan.arms.iter().collect() };
    let all: Vec<Arm> = plan.arms.iter().map(|planned| planned.arm.clone()).collect();
    arms::order(&all, sweep.order, site::seed(run)).into_iter().filter_map(|at| plan.arms.get(at)).collect()
}

/// What ends the whole run and not only the arm.
const fn ends_run(code: StopCode) -> bool {
    matches!(code, StopCode::UserAbort | StopCode::SafetyAbort)
}

/// One arm, from launch to its own verdict.
async fn measure(plan: &Plan, planned: &PlannedArm, run: RunId, intake: Intake) -> ArmResult {
    let mut history: Vec<Trial> = Vec::new();
    let mut shared_machine = plan.outline.managed;
    let mut leader = None;
    let (mut intake, mut empty_counts) = (intake, BTreeMap::new());
    let (intake, stop, reason) = loop {
        let mut floor = match Floor::open(plan, &planned.target, run, intake).await {
            Ok(floor) => floor,
            Err((intake, stop, reason)) => break (*intake, stop, Some(reason)),
        };
        shared_machine = floor.inventory.shares_machine();
        leader = leading(&floor.inventory).filter(|_| plan.outline.managed);
        // One that was launched again is compared with the empty one before it.
        floor.empty_counts.append(&mut empty_counts);
        let climbed = floor.climb(&mut history).await;
        empty_counts = std::mem::take(&mut floor.empty_counts);
        let closed = floor.close().await;
        match climbed {
            Climbed::Over(stop) => break (closed, stop, None),
            Climbed::Gone => intake = closed.renewed(),
        }
    };
    let reason = reason.or_else(|| {
        let in_time = intake.clock.now_ns() < intake.budget_ns;
        match (stop, &plan.scenario.ladder) {
            (StopCode::UserAbort, _) => Some("someone stopped it".to_owned()),
            (StopCode::TimeBudget, Ladder::Search(search)) if in_time => {
                Some(format!("the search was not done after {} trials (`trials_max`)", search.trials_max))
            }
            (StopCode::TimeBudget, _) => Some("its time budget was over".to_owned()),
            _ => intake.guards.trip().filter(|_| stop == StopCode::SafetyAbort).map(Trip::words),
        }
    });
    let question = question(plan, run, planned.arm.number, reason.as_deref(), shared_machine);
    ArmResult { arm: planned.arm.clone(), leader, verdict: conclude(&question, &history, stop) }
}

fn question<'a>(plan: &'a Plan, run: RunId, arm: u32, reason: Option<&'a str>, shared_machine: bool) -> Question<'a> {
    Question {
        run,
        arm,
        axis: &plan.outline.axis,
        unit: &plan.outline.unit,
        rules: &plan.scenario.rules,
        actions: &plan.scenario.actions,
        ladder: &plan.scenario.ladder,
        required: plan.scenario.required,
        peak: plan.scenario.peak,
        hold: plan.scenario.hold,
        shared_machine,
        reason,
        arms: plan.arms.len(),
    }
}

/// The address of the server that leads before the load, without its port, which differs from launch to launch.
fn leading(inventory: &Inventory) -> Option<String> {
    let leads = |role: &str| role == "leader" || role == "standalone";
    let name = &inventory.nodes.iter().find(|node| leads(&node.role))?.name;
    Some(name.rsplit_once(':').map_or(name.as_str(), |(address, _)| address).to_owned())
}
