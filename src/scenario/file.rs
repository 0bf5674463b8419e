//! The keys of a scenario file, as they are written. Defaults live here; checks live in [`super::read`].

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{guards::Guarded, sweep::Sweep};
use crate::analysis::{Action, Rule};

/// A scenario file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    /// One sentence for lists.
    #[serde(default)]
    pub(super) description: String,
    pub(super) target: Target,
    pub(super) load: Load,
    #[serde(default)]
    pub(super) probe: Vec<toml::Table>,
    #[serde(default)]
    pub(super) rule: Vec<Rule>,
    #[serde(default)]
    pub(super) action: Vec<Action>,
    #[serde(default)]
    pub(super) guards: BTreeMap<String, Guarded>,
    #[serde(default)]
    pub(super) sweep: Option<Sweep>,
    #[serde(default)]
    pub(super) require: Require,
    #[serde(default)]
    pub(super) expect: Expect,
    #[serde(default)]
    pub(super) limits: Limits,
}

/// What is tested: one of the configuration's targets, or one that is launched for the run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub(super) kind: String,
    #[serde(default)]
    pub(super) r#use: Option<String>,
    #[serde(default)]
    pub(super) launch: Option<String>,
    /// Settings over the recipe's.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, toml::Value>,
}

/// What is raised, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub(super) workload: String,
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) levels: Option<Vec<u64>>,
    #[serde(default)]
    pub(super) start: Option<u64>,
    #[serde(default)]
    pub(super) step: Option<u64>,
    #[serde(default)]
    pub(super) max: Option<u64>,
    #[serde(default)]
    pub(super) min: Option<u64>,
    #[serde(default)]
    pub(super) factor: Option<f64>,
    #[serde(default)]
    pub(super) width: Option<f64>,
    #[serde(default)]
    pub(super) resolution: Option<u64>,
    #[serde(default)]
    pub(super) trials_max: Option<u32>,
    #[serde(default = "settle_s")]
    pub(super) settle_s: f64,
    #[serde(default = "measure_s")]
    pub(super) measure_s: f64,
    /// Probes run so long unmeasured before step 0; by default 15 s for a target that is launched, else 0.
    #[serde(default)]
    pub(super) warm_up_s: Option<f64>,
    /// The longest that putting one load in place may take; by default four times what its pace says, and 60 s.
    #[serde(default)]
    pub(super) fill_max_s: Option<f64>,
    #[serde(default)]
    pub(super) hold: Option<Held>,
    #[serde(default)]
    pub(super) options: toml::Table,
}

/// How loads are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Levels,
    Ramp,
    Search,
}

/// What must be reached.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Require {
    /// Less than this is exit code 2.
    #[serde(default)]
    pub(super) capacity: Option<u64>,
}

/// What is expected of life, apart from what is required.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// The highest load that is expected: the verdict says how many times that the capacity is.
    #[serde(default)]
    pub(super) peak: Option<u64>,
}

/// What is held after the answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Held {
    /// Of the highest load that held.
    #[serde(default = "held_share")]
    pub(super) share: f64,
    /// How long, such as `2h`.
    pub(super) r#for: String,
}

const fn held_share() -> f64 {
    0.9
}

/// What ends a run in any case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// The longest that launch, steps and verdict may take.
    #[serde(default)]
    pub(super) time_budget_s: Option<f64>,
    /// Deletions a second of the clean-up.
    #[serde(default)]
    pub(super) deletes_per_s: Option<f64>,
    /// The longest that the clean-up may take.
    #[serde(default)]
    pub(super) clean_up_max_s: Option<f64>,
}

const fn settle_s() -> f64 {
    10.0
}

const fn measure_s() -> f64 {
    30.0
}
