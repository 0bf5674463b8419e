//! Plain data shared by every layer: ids, time, loads, samples, trials, verdicts, events.
//! Depends on nothing else in the crate; does no I/O.

pub mod action;
pub mod arm;
pub mod clock;
pub mod distribution;
pub mod event;
pub mod expected;
pub mod fault;
pub mod figure;
pub mod fingerprint;
pub mod id;
pub mod inventory;
pub mod load;
pub mod metric;
pub mod stat;
pub mod trial;
pub mod verdict;

pub use action::{ActionReport, Deed, Victim};
pub use arm::{Arm, ArmResult, Finding};
pub use clock::Clock;
pub use distribution::{Above, BOUNDS, Distribution};
pub use event::{HistogramRecord, Phase, RunEvent};
pub use expected::Expected;
pub use fault::{Fault, Faults};
pub use fingerprint::Fingerprint;
pub use id::{CampaignId, RunId, RunState};
pub use inventory::{HostFacts, HostInfo, Inventory, Limit, NodeInfo, Setting};
pub use load::{Axis, AxisKind, Load};
pub use metric::Sample;
pub use stat::{Health, OperationStat, Percentiles, SeriesStat};
pub use trial::{CountCheck, Incident, IncidentKind, Outcome, Reading, RuleReading, Trial};
pub use verdict::{CapacityInterval, Certainty, Evidence, GoalCapacity, Holding, Status, StopCode, Validity, Verdict};
