//! One measurement of one step, with everything that judging it needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ActionReport, Health, OperationStat, SeriesStat, StopCode};

/// A count that was expected on the target, and what the target itself said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CountCheck {
    /// What is counted: `znodes`, `watches`, `ephemerals`, `sessions`.
    pub what: String,
    /// What the load should have added.
    pub expected: u64,
    /// What the target has more than before the load; `None` when it could not be read.
    pub observed: Option<i64>,
    /// The largest difference that is not evidence.
    pub tolerance: u64,
}

impl CountCheck {
    /// Whether the target confirmed the count; `None` when it could not be read.
    #[must_use]
    pub fn within(&self) -> Option<bool> {
        let expected = i64::try_from(self.expected).unwrap_or(i64::MAX);
        self.observed.map(|observed| observed.abs_diff(expected) <= self.tolerance)
    }
}

/// Something that happened to the target during a trial, apart from rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// The server answered nothing for a while (its own process was stopped, swapped or collecting).
    Stall,
    /// A managed server was stopped from outside (SIGSTOP): no load does that.
    Paused,
    /// The server's process ended.
    Died,
    /// The server came back with a new start.
    Restarted,
    /// A new leader epoch.
    Election,
    /// A server of an ensemble changed its role.
    RoleChanged,
    /// In one round of samples no server of an ensemble led, or several did.
    NotOneLeader,
    /// A session of the load expired.
    SessionExpired,
    /// A connection of the load was closed and attached again.
    ConnectionClosed,
    /// The server said that it does not serve.
    NotServing,
    /// The next load could not be put in place: something was refused.
    CannotApply,
    /// The time for putting the next load in place was over.
    FillTimedOut,
    /// A configured limit was met.
    LimitReached,
}

/// One incident with its figures, in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Incident {
    pub at_ns: i64,
    pub kind: IncidentKind,
    pub node: String,
    /// A sentence with figures and units.
    pub text: String,
    /// How often or how long, where that has a number: sessions, connections, milliseconds.
    pub amount: f64,
}

/// One figure that a rule or the attribution read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reading {
    /// The name, such as `get.ops_per_s` or `heap_after_gc_bytes`.
    pub name: String,
    pub node: String,
    pub value: f64,
    pub unit: String,
}

/// What one rule said of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleReading {
    /// The stop code that a breach of this rule has.
    pub rule: StopCode,
    /// What was judged, such as `get`.
    pub subject: String,
    pub value: Option<f64>,
    pub limit: f64,
    pub unit: String,
    /// `None`: too little data to say.
    pub broke: Option<bool>,
    /// The sentence for people, with figures and units.
    pub text: String,
}

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The reference that others are compared with; not judged.
    Baseline,
    /// Every rule was kept.
    Held,
    /// A rule was broken, or the target gave way.
    Broke,
    /// The generator was not fit to judge, or the target changed under it: says nothing.
    Void,
    /// A rule had too little data.
    Undecided,
}

/// One measurement of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Trial {
    pub arm: u32,
    /// 0 is the empty target.
    pub step: u32,
    /// 1 for the first measurement of a step.
    pub trial: u32,
    /// The load's value on the axis of the run.
    pub load: u64,
    pub started_ns: i64,
    pub measure_from_ns: i64,
    pub ended_ns: i64,
    /// Seconds that putting the load in place took.
    pub fill_s: f64,
    pub settle_s: f64,
    pub measure_s: f64,
    /// Probes and the load's own operations.
    pub operations: Vec<OperationStat>,
    pub counts: Vec<CountCheck>,
    /// What the target counted in all when the load was in place, before the probe: watches and connections summed
    /// over its servers, the rest of one.
    #[serde(default)]
    pub census: BTreeMap<String, u64>,
    /// node -> metric -> summary over the measurement.
    pub nodes: BTreeMap<String, BTreeMap<String, SeriesStat>>,
    pub health: Health,
    pub incidents: Vec<Incident>,
    /// The trial ended early: the target died, or answered nothing for too long.
    #[serde(default)]
    pub gave_way: bool,
    pub outcome: Outcome,
    /// The code of what broke, when something did.
    pub stop_code: Option<StopCode>,
    pub rules: Vec<RuleReading>,
    /// Remarks that a reader needs beside the figures, such as a window shorter than a snapshot cycle.
    pub remarks: Vec<String>,
    /// What the scenario did to the target in this trial; absent in a plain measurement of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ActionReport>,
    /// Measured after the answer was found, to see whether it lasts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub holding: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Trial {
    /// Whether its outcome says something of the load's capacity: that of an action does only where the scenario
    /// requires it.
    #[must_use]
    pub fn decides(&self) -> bool {
        !self.holding && self.action.as_ref().is_none_or(|action| action.required)
    }

    /// The number of the next trial at a step, when this was the last trial of all.
    #[must_use]
    pub const fn trial_after(&self, step: u32) -> u32 {
        if self.step == step { self.trial + 1 } else { 1 }
    }

    /// The summary of one operation: of the probe, of the first node that has it; without a probe, of the load.
    #[must_use]
    pub fn operation(&self, operation: &str) -> Option<&OperationStat> {
        let probed = self.operations.iter().any(|stat| stat.probe);
        self.operations.iter().find(|stat| stat.operation == operation && stat.probe == probed)
    }

    /// The summary of one metric of one node.
    #[must_use]
    pub fn metric(&self, node: &str, metric: &str) -> Option<&SeriesStat> {
        self.nodes.get(node)?.get(metric)
    }

    /// When the measurement ended; the same as its begin when there was none.
    #[must_use]
    pub fn measured_until_ns(&self) -> i64 {
        self.measure_from_ns.saturating_add(super::clock::seconds_ns(self.measure_s))
    }

    /// The nodes of the target, without the generator.
    pub fn target_nodes(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, SeriesStat>)> {
        self.nodes
            .iter()
            .filter(|(node, _)| node.as_str() != super::metric::GENERATOR)
            .map(|(node, series)| (node.as_str(), series))
    }
}
