//! What a rule compares with.

use serde::{Deserialize, Serialize};

use super::figure;

/// What a rule compares with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"empty\" or a load of the ladder")]
pub enum Baseline {
    /// `"empty"`: step 0, measured before any load.
    Named(EmptyTarget),
    /// The trial at this load.
    Load(u64),
}

/// The only baseline with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyTarget {
    Empty,
}

impl Default for Baseline {
    fn default() -> Self {
        Self::Named(EmptyTarget::Empty)
    }
}

impl Baseline {
    /// The load that is the baseline; 0 for the empty target.
    #[must_use]
    pub const fn load(&self) -> u64 {
        match self {
            Self::Named(EmptyTarget::Empty) => 0,
            Self::Load(load) => *load,
        }
    }

    /// As pages print it beside the rule.
    #[must_use]
    pub fn words(&self, unit: &str) -> String {
        match self {
            Self::Named(EmptyTarget::Empty) => "step 0, the empty target".to_owned(),
            Self::Load(load) => format!("the step at {} {unit}", figure(*load as f64)),
        }
    }
}
