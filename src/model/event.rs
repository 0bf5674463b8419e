//! What the engine tells while a run goes on. The journal stores it, then followers see it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Inventory, Sample, Trial, Verdict};

/// What a run is doing. The order is the order of a step's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for the target's lock.
    Waiting,
    /// Starts a managed target.
    Launching,
    /// Reads limits, versions, leftovers.
    Preflight,
    /// Lets probes run unmeasured on the empty target.
    WarmingUp,
    /// Puts the next load in place, or takes load away.
    Filling,
    Settling,
    Measuring,
    Judging,
    /// Does something to the target on purpose, and waits until it serves again.
    Acting,
    /// Brings back what was taken away, and waits until all servers serve.
    Rejoining,
    /// Removes what the run created.
    Cleaning,
}

impl Phase {
    /// The word of pages and API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Launching => "launching",
            Self::Preflight => "preflight",
            Self::WarmingUp => "warming_up",
            Self::Filling => "filling",
            Self::Settling => "settling",
            Self::Measuring => "measuring",
            Self::Judging => "judging",
            Self::Acting => "acting",
            Self::Rejoining => "rejoining",
            Self::Cleaning => "cleaning",
        }
    }
}

/// A histogram of one stream of one trial, kept whole so that nothing has to be averaged later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistogramRecord {
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
    pub count: u64,
    /// HdrHistogram V2 with deflate, of microseconds.
    pub v2_deflate: Vec<u8>,
}

/// One thing that happened. Serialised with `kind` as its tag; this is what the event stream carries.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEvent {
    /// A new phase began.
    Phase {
        at_ns: i64,
        phase: Phase,
        arm: u32,
        step: u32,
        trial: u32,
        /// The load that is being put in place or held.
        load: u64,
        /// When the phase ends at the latest, where that is known.
        until_ns: Option<i64>,
    },
    /// A managed target was started: what a crash would leave behind.
    Launched { at_ns: i64, node: String, pid: u32, process_started_s: u64, dir: String },
    /// The target was looked at.
    Inventory { at_ns: i64, inventory: Box<Inventory> },
    /// Everything the run creates lies under this root.
    Root { at_ns: i64, root: String },
    /// How far filling has come.
    Progress { at_ns: i64, asked: u64, confirmed: u64 },
    /// Readings of about one second.
    Samples { samples: Vec<Sample> },
    /// Something a reader should know, in a sentence.
    Note { at_ns: i64, text: String },
    /// A trial was measured and judged.
    Trial {
        trial: Box<Trial>,
        #[serde(skip)]
        histograms: Vec<HistogramRecord>,
    },
    /// The run has its answer.
    Verdict { at_ns: i64, verdict: Box<Verdict> },
}
