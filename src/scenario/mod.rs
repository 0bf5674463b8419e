//! The file that a person writes: reading it, checking it, and the plan that follows from it.
//! Does no I/O: texts come in, a plan or errors with line, field and allowed values go out.

pub mod actions;
pub mod campaign;
mod expected;
mod file;
mod guards;
mod ladder;
pub mod plan;
mod read;
pub mod sweep;

pub use campaign::Campaign;
pub use plan::{Origin, Plan, PlannedArm, PlannedTarget, Surroundings, plan};
pub use read::{Scenario, TargetChoice};

pub use crate::model::{Fault, Faults};
