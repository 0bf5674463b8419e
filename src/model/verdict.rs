//! What a run found.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ArmResult, Finding, Reading, RunId, Trial};

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable word of API, store and pages.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
                    .ok_or_else(|| format!("unknown {} {text:?}", stringify!($name)))
            }
        }
    };
}

codes! {
    /// Why a run stopped. Stable: in API, command line and pages.
    StopCode {
        SloLatency => "slo_latency",
        SloErrors => "slo_errors",
        ThroughputDrop => "throughput_drop",
        OutstandingHigh => "outstanding_high",
        /// Of what fell due of the load too little ended well.
        AchievedShort => "achieved_short",
        BacklogGrowth => "backlog_growth",
        Plateau => "plateau",
        Retrograde => "retrograde",
        CannotApply => "cannot_apply",
        TargetSaturated => "target_saturated",
        TargetUnhealthy => "target_unhealthy",
        /// A configured limit (connections, open files, ports, jute.maxbuffer), not a bottleneck.
        LimitReached => "limit_reached",
        GeneratorSaturated => "generator_saturated",
        NoData => "no_data",
        MaxLoad => "max_load",
        TimeBudget => "time_budget",
        UserAbort => "user_abort",
        SafetyAbort => "safety_abort",
    }
}

codes! {
    /// What kind of answer a run has.
    Status {
        CapacityFound => "capacity_found",
        NotReached => "not_reached",
        Inconclusive => "inconclusive",
        Invalid => "invalid",
        Failed => "failed",
        Aborted => "aborted",
    }
}

codes! {
    /// How sure a piece of evidence is.
    Certainty {
        Strong => "strong",
        Likely => "likely",
        Weak => "weak",
        RuledOut => "ruled_out",
    }
}

/// One line of the chain that proves a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evidence {
    pub certainty: Certainty,
    /// A sentence with figures and units.
    pub text: String,
    /// The first step at which it showed.
    pub since_step: Option<u32>,
    pub node: String,
    pub readings: Vec<Reading>,
}

/// Whether the generator was fit to judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Validity {
    pub valid: bool,
    /// Why not, or what limited it.
    pub reasons: Vec<String>,
    /// The worst start lag of all judged trials, in microseconds.
    pub start_lag_p99_us: Option<u64>,
    pub missed: u64,
    /// The largest share of this machine's cores that Rampart used in a judged trial.
    pub cpu_share: Option<f64>,
    /// True when target and generator shared a machine.
    pub shared_machine: bool,
    /// Where the rate of a probe is its own client's, in words.
    #[serde(default)]
    pub closed_loop: Option<String>,
}

/// What one rule alone says of the capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GoalCapacity {
    pub rule: StopCode,
    /// What the rule reads, such as `get p99`.
    pub subject: String,
    pub limit: f64,
    pub unit: String,
    /// The highest load at which most trials kept it.
    pub last_good: Option<u64>,
    /// The lowest load at which most trials broke it; absent when none did.
    pub first_bad: Option<u64>,
}

/// A capacity from several searches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapacityInterval {
    pub searches: u32,
    pub median: f64,
    pub low: u64,
    pub high: u64,
    /// That the true median lies between `low` and `high` (0..1).
    pub confidence: f64,
}

/// Whether a share of the answer lasted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Holding {
    pub load: u64,
    pub asked_s: f64,
    pub held_s: f64,
    pub lasted: bool,
    /// The sentence for people.
    pub text: String,
}

/// What a run found: how much the target carries, what stopped it, and what proves that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    #[schema(value_type = String)]
    pub run_id: RunId,
    pub arm: u32,
    pub status: Status,
    pub stop_code: StopCode,
    /// The axis that was raised, such as `domains`.
    pub axis: String,
    /// The unit of `last_good` and `first_bad`.
    pub unit: String,
    /// The highest load that held; absent when the first load broke.
    pub last_good: Option<u64>,
    /// The lowest load that broke.
    pub first_bad: Option<u64>,
    /// `[require] capacity` of the scenario.
    pub required: Option<u64>,
    /// The answer in words.
    pub sentence: String,
    /// What ended the run, where it was not what the trials say: someone, a guard, the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub evidence: Vec<Evidence>,
    pub validity: Validity,
    /// What rules compared with: `step 0, the empty target` or a named load.
    pub baseline: String,
    /// The exit code of `rampart run`.
    pub exit_code: u8,
    /// What the scenario did to the target on purpose and what came of it, a sentence each.
    #[serde(default)]
    pub actions: Vec<String>,
    /// What each rule alone says of the capacity.
    #[serde(default)]
    pub goals: Vec<GoalCapacity>,
    /// Whether a share of the answer lasted, where that was asked.
    #[serde(default)]
    pub holding: Option<Holding>,
    /// How throughput grows with what is under way, in words; it explains and never decides.
    #[serde(default)]
    pub scaling: Option<String>,
    /// Of the same measured several times.
    #[serde(default)]
    pub interval: Option<CapacityInterval>,
    /// What each arm found, of a run that has several; the run's own bounds are then the lowest of them.
    #[serde(default)]
    pub arms: Vec<ArmResult>,
    /// What the arms show together, the most telling first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    pub steps: Vec<Trial>,
}

impl Verdict {
    /// Whether a required capacity was asked and not reached.
    #[must_use]
    pub fn below_required(&self) -> bool {
        self.required.is_some_and(|required| self.last_good.unwrap_or(0) < required)
    }
}
