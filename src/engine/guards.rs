//! Puts the guards of a scenario up. What they decide is pure (`analysis::guards`); the coordinator's ears feed them with
//! every sample, whatever the run does just then.

use super::{canary::Canary, intake::Intake};
use crate::{
    analysis::{Guard, Guards},
    model::RunEvent,
    scenario::Plan,
    target::{Sampler, TargetSpec},
};

/// Guards see all samples from here on; the canary, where it is asked for, is one of the samplers.
pub(super) async fn put_up(
    intake: &mut Intake,
    plan: &Plan,
    spec: &TargetSpec,
    root: &str,
) -> Option<Box<dyn Sampler>> {
    intake.guards = Guards::new(plan.scenario.guards.clone());
    if !intake.guards.has(Guard::CanaryMs) {
        return None;
    }
    // Nothing is connected to a simulated system.
    let zookeeper = spec.zookeeper()?;
    match Canary::reading(intake.clock, zookeeper, root) {
        Ok(canary) => Some(Box::new(canary)),
        Err(error) => {
            let text = format!("The guard canary_ms does not watch: no thread for its client ({error}).");
            intake.tell(RunEvent::Note { at_ns: intake.clock.now_ns(), text }).await;
            None
        }
    }
}
