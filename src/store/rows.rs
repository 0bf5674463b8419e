//! What is read back: one run in a list, one run whole, one series.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    model::{CampaignId, Inventory, Phase, RunId, RunState, Status, StopCode, Trial, Verdict},
    scenario::{Campaign, plan::Outline},
};

/// One run as lists show it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RunRow {
    #[schema(value_type = String)]
    pub id: RunId,
    pub scenario: String,
    pub target: String,
    pub workload: String,
    pub axis: String,
    pub unit: String,
    #[schema(value_type = String)]
    pub state: RunState,
    pub status: Option<Status>,
    pub stop_code: Option<StopCode>,
    pub last_good: Option<u64>,
    pub first_bad: Option<u64>,
    pub sentence: Option<String>,
    /// `page`, `api` or `command line`.
    pub origin: String,
    pub created_ns: i64,
    pub started_ns: Option<i64>,
    pub ended_ns: Option<i64>,
}

/// Where a live run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PhaseNow {
    pub phase: Phase,
    #[serde(default)]
    pub arm: u32,
    pub step: u32,
    pub trial: u32,
    pub load: u64,
    pub since_ns: i64,
    pub until_ns: Option<i64>,
    /// What the target has confirmed of the load, while it is filled.
    pub confirmed: Option<u64>,
}

/// One run whole, without its series.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RunDetail {
    pub run: RunRow,
    /// The file as it was.
    pub scenario_text: String,
    pub outline: Outline,
    pub inventory: Option<Inventory>,
    /// Of each arm, by its number; `inventory` is that of the arm that was launched last.
    pub inventories: BTreeMap<u32, Inventory>,
    pub phase: Option<PhaseNow>,
    /// Measured so far, in order; void and repeated trials too.
    pub trials: Vec<Trial>,
    pub verdict: Option<Verdict>,
    /// What readers should know, with absolute nanoseconds.
    pub notes: Vec<(i64, String)>,
    /// The sequence number of the newest stored event: where a follower goes on.
    pub last_seq: u64,
}

impl RunDetail {
    /// Whether the run measures its target in several forms, or several times.
    #[must_use]
    pub fn has_arms(&self) -> bool {
        !self.outline.arms.is_empty()
    }

    /// The run as if it had only this arm: its trials, what it ran on, its own verdict. `None` without such an arm.
    #[must_use]
    pub fn of_arm(&self, arm: u32) -> Option<Self> {
        self.outline.arms.iter().find(|known| known.number == arm)?;
        let trials: Vec<Trial> = self.trials.iter().filter(|trial| trial.arm == arm).cloned().collect();
        let result = self.verdict.as_ref().and_then(|verdict| verdict.arms.iter().find(|of| of.arm.number == arm));
        let verdict = result.map(|result| Verdict { steps: trials.clone(), ..result.verdict.clone() });
        Some(Self {
            run: self.run.clone(),
            scenario_text: self.scenario_text.clone(),
            outline: Outline { arms: Vec::new(), ..self.outline.clone() },
            inventory: self.inventories.get(&arm).cloned(),
            inventories: BTreeMap::new(),
            phase: self.phase.clone().filter(|phase| phase.arm == arm),
            trials,
            verdict,
            notes: self.notes.clone(),
            last_seq: self.last_seq,
        })
    }
}

/// A campaign and how far it has come.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CampaignDetail {
    #[schema(value_type = String)]
    pub id: CampaignId,
    pub campaign: Campaign,
    /// `page`, `api` or `command line`.
    pub origin: String,
    pub created_ns: i64,
    /// As many as the campaign has, in its order.
    pub parts: Vec<PartState>,
}

/// What has become of one part of a campaign: nothing yet, a run, or why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct PartState {
    #[schema(value_type = Option<String>)]
    pub run: Option<RunId>,
    pub why: Option<String>,
}

/// One series, in time order.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Series {
    /// 0 unless the run has several.
    pub arm: u32,
    pub node: String,
    pub metric: String,
    pub unit: String,
    /// `(absolute nanoseconds, value)`.
    pub points: Vec<(i64, f64)>,
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Part of the scenario's or the target's name.
    pub text: Option<String>,
    pub state: Option<RunState>,
    pub status: Option<Status>,
    /// Only runs made before this one (keyset paging).
    pub before: Option<RunId>,
    /// At most this many; 0 means 50.
    pub limit: u32,
}

/// One stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// 1, 2, 3 within its run.
    pub seq: u64,
    pub kind: String,
    /// The event as JSON, with its `kind`.
    pub json: String,
}

/// One stored histogram without its contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct HistogramRow {
    pub arm: u32,
    pub step: u32,
    pub trial: u32,
    pub unit: u32,
    pub node: String,
    pub stream: String,
    pub operation: String,
    /// `ok`, or an error code.
    pub outcome: String,
    /// `due` or `service`.
    pub clock: String,
    /// Recorded values.
    pub count: u64,
}
