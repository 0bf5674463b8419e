//! Arms of a run: the same load and probes against the target in several forms, or in one form several times.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Verdict;

/// One arm: the target with one value of the setting that a sweep varies, launched and measured once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Arm {
    /// The key of everything that the arm measures.
    pub number: u32,
    /// What the sweep varies, such as `zoo_cfg.snapCount`; empty where it only repeats.
    pub setting: String,
    /// This arm's value as people write it.
    pub value: String,
    /// 1 for the first measurement of this value.
    pub repetition: u32,
}

impl Arm {
    /// `zoo_cfg.snapCount = 1000`, or nothing where nothing is varied.
    #[must_use]
    pub fn what(&self) -> String {
        if self.setting.is_empty() { String::new() } else { format!("{} = {}", self.setting, self.value) }
    }

    /// `zoo_cfg.snapCount = 1000, repetition 2`.
    #[must_use]
    pub fn label(&self) -> String {
        let repetition = format!("repetition {}", self.repetition);
        if self.setting.is_empty() { repetition } else { format!("{}, {repetition}", self.what()) }
    }
}

/// What one arm found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ArmResult {
    pub arm: Arm,
    /// The address of the server that led, without its port; absent where none was launched.
    pub leader: Option<String>,
    /// The arm's own verdict. Its steps are those of the run that carry the arm's number.
    #[schema(no_recursion)]
    pub verdict: Verdict,
}

/// Something that the arms of a run show together, only said where it is beyond the spread of the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The load at which it shows.
    pub load: u64,
    /// The value that was compared, and with which: `3000000`, `1000000`; empty where loads were compared.
    pub value: String,
    pub against: String,
    /// The sentence for people, with figures.
    pub text: String,
    /// Whether anything differs beyond the spread.
    pub differs: bool,
}
