//! What a scenario comes to on a configuration: the target, the ladder, the longest duration, the sessions it needs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The summary of a plan, as `rampart check`, the API and the live page show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Outline {
    pub scenario: String,
    /// The target's name: of the configuration, or of the recipe.
    pub target: String,
    pub target_kind: String,
    /// True when the run launches it.
    pub managed: bool,
    pub workload: String,
    pub axis: String,
    pub unit: String,
    /// The loads in the order in which they are tried; the first is 0 where the empty target is measured.
    pub ladder: Vec<u64>,
    /// The longest that the run can take, in seconds, clean-up included.
    pub longest_s: u64,
    /// What the largest load needs, against what there is.
    pub needs: Vec<Need>,
}

/// One resource that the largest load needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Need {
    /// Such as `sessions`, `open files of this process`.
    pub what: String,
    pub needed: u64,
    /// `None` when it is not known before the run.
    pub available: Option<u64>,
}

/// Who asks: decides what may be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A request over the network: only what the configuration names and allows.
    Network,
    /// The local user, who could launch anything anyway.
    LocalUser,
}

/// A scenario brought together with a configuration: all that the engine needs.
#[derive(Debug, Clone)]
pub struct Plan {
    pub outline: Outline,
    pub scenario: super::Scenario,
}

/// Brings a scenario and a configuration together.
///
/// # Errors
/// Every fault: an unknown target or recipe, a setting that the recipe does not allow, a ladder without an end.
pub fn plan(
    scenario: &super::Scenario,
    _config: &crate::config::Config,
    _origin: Origin,
) -> Result<Plan, super::Faults> {
    Err(super::Faults(vec![super::Fault { line: None, field: scenario.name.clone(), message: "not yet".to_owned() }]))
}
