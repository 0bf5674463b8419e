//! Systems under test: what each must offer. One folder a system and one line in [`TargetSpec`].
//! Knows the model only: nothing here loads, judges or stores.

mod host;
pub mod sim;
pub mod zookeeper;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::model::{Clock, Incident, Inventory, RunId, Sample};

/// A target's addresses and credentials, by kind: what the configuration names or a launcher started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TargetSpec {
    Sim(sim::SimSpec),
    Zookeeper(zookeeper::ZookeeperSpec),
}

impl TargetSpec {
    /// The word that scenarios use, such as `zookeeper`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Sim(_) => "sim",
            Self::Zookeeper(_) => "zookeeper",
        }
    }

    /// What a reader must know of a run before it begins, in sentences.
    #[must_use]
    pub fn preflight(&self, inventory: &Inventory, ahead: &Ahead) -> Vec<String> {
        match self {
            Self::Sim(_) => Vec::new(),
            Self::Zookeeper(_) => zookeeper::preflight::remarks(inventory, ahead),
        }
    }

    /// The target behind the addresses. `managed` tells what only the one who launched a node knows of it.
    #[must_use]
    pub fn open(&self, managed: &[ManagedNode]) -> Box<dyn Target> {
        match self {
            Self::Sim(spec) => Box::new(sim::Sim::new(spec.clone())),
            Self::Zookeeper(spec) => Box::new(zookeeper::Zookeeper::new(spec.clone(), managed.to_vec())),
        }
    }

    /// The addresses that clients connect to; none where nothing is connected.
    #[must_use]
    pub fn servers(&self) -> &[SocketAddr] {
        match self {
            Self::Sim(_) => &[],
            Self::Zookeeper(spec) => &spec.servers,
        }
    }

    /// The local addresses that clients shall come from; none: whichever.
    #[must_use]
    pub fn source_addresses(&self) -> &[IpAddr] {
        match self {
            Self::Sim(_) => &[],
            Self::Zookeeper(spec) => &spec.source_addresses,
        }
    }

    /// As a ZooKeeper, where it is one.
    #[must_use]
    pub const fn zookeeper(&self) -> Option<&zookeeper::ZookeeperSpec> {
        match self {
            Self::Sim(_) => None,
            Self::Zookeeper(spec) => Some(spec),
        }
    }

    /// As a simulated system, where it is one.
    #[must_use]
    pub const fn sim(&self) -> Option<&sim::SimSpec> {
        match self {
            Self::Sim(spec) => Some(spec),
            Self::Zookeeper(_) => None,
        }
    }
}

/// What a run is going to ask of a target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ahead {
    /// In the order of the ladder.
    pub steps: Vec<StepAhead>,
    /// Of the highest load.
    pub sessions: u64,
    /// The longest that the run can take, in seconds.
    pub longest_s: f64,
}

/// What one step of a run is going to ask of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepAhead {
    pub znodes: u64,
    pub writes_per_s: f64,
}

/// What is known of a node because Rampart launched it itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedNode {
    /// The node's name in samples: `address:port` of its client port.
    pub name: String,
    pub pid: u32,
    /// Holds the `version-2` folder with snapshots.
    pub data_dir: std::path::PathBuf,
    pub gc_log: std::path::PathBuf,
    /// The base address of its AdminServer, such as `http://127.0.0.1:8081`.
    pub admin_url: Option<String>,
    /// Where its Prometheus provider answers, such as `http://127.0.0.1:7000/metrics`; `None` when it is off.
    pub metrics_url: Option<String>,
    /// The heap limit it was started with.
    pub heap_max_bytes: u64,
    /// What it was started with, for the inventory: heap, JVM arguments, `zoo.cfg` keys, system properties.
    pub settings: Vec<crate::model::Setting>,
}

/// A system under test.
#[async_trait]
pub trait Target: Send + Sync + std::fmt::Debug {
    /// Nodes, roles, versions, limits and settings.
    ///
    /// # Errors
    /// When no node answers, none serves, the root path is missing, or credentials are refused.
    async fn inventory(&self) -> Result<Inventory, TargetError>;

    /// What takes readings while a run goes on, for the nodes of an inventory.
    fn samplers(&self, clock: Clock, inventory: &Inventory) -> Vec<Box<dyn Sampler>>;

    /// How much the target holds now, as it says itself. What it cannot tell is absent, never zero.
    async fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Creates the run's root with a lease, which locks the target across servers and command lines.
    ///
    /// # Errors
    /// [`TargetError::InUse`] when another run holds the target.
    async fn claim(&self, run: RunId) -> Result<Box<dyn Claim>, TargetError>;

    /// Removes roots whose lease does not live any more, paced; tells what was removed.
    ///
    /// # Errors
    /// When the target cannot be reached or a removal is refused.
    async fn clean(&self, pace: CleanPace) -> Result<CleanReport, TargetError>;
}

/// How much a target holds, by names such as `znodes`, `watches`, `ephemerals`, `sessions`, `connections`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of the whole target: what each server has of its own is summed, what all have is counted once.
    pub total: BTreeMap<String, u64>,
    /// As each server says.
    pub by_node: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A run's hold on a target.
#[async_trait]
pub trait Claim: Send + Sync + std::fmt::Debug {
    /// The full path under which the run may create.
    fn root(&self) -> &str;

    /// Roots that runs which are gone have left on the target.
    fn leftovers(&self) -> &[String];

    /// Removes everything under the root, then the root, then lets the lease go.
    ///
    /// # Errors
    /// When the target refuses or is gone, or the limit of time is over; what is left is named.
    async fn release(self: Box<Self>, pace: CleanPace) -> Result<CleanReport, TargetError>;

    /// Lets go without removing: for a managed target whose data goes with it.
    fn abandon(self: Box<Self>);
}

/// How fast removal may go, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct CleanPace {
    /// Deletions a second; removing 1.5 M znodes is a write storm of its own.
    pub deletes_per_s: f64,
    pub limit: Duration,
}

impl Default for CleanPace {
    fn default() -> Self {
        Self { deletes_per_s: 20_000.0, limit: Duration::from_secs(600) }
    }
}

/// What a removal did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanReport {
    /// Roots that are gone.
    pub removed_roots: Vec<String>,
    pub removed_znodes: u64,
    /// Roots left alone, each with the reason (a lease lives).
    pub skipped: Vec<String>,
}

/// Takes readings of one source at its own interval.
#[async_trait]
pub trait Sampler: Send + std::fmt::Debug {
    /// How often it wants to be asked; may change (a slow source is asked less often).
    fn every(&self) -> Duration;

    /// One round of readings. A source that does not answer is an observation too, never an error and never zero.
    async fn sample(&mut self) -> Observation;
}

/// What one round of a sampler saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    pub samples: Vec<Sample>,
    pub conditions: Vec<NodeCondition>,
    /// Elections, restarts: what happened since the last round.
    pub incidents: Vec<Incident>,
}

/// How a node answered at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    pub at_ns: i64,
    pub node: String,
    pub condition: Condition,
    /// The role that it named, where it named one.
    pub role: Option<String>,
    /// What it said, for people.
    pub text: String,
}

/// Three ways of not answering are three things, none of them zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Serving,
    /// "not currently serving requests": up, but without a quorum.
    NotServing,
    /// The command is not allowed there.
    Refused,
    /// Connected, then closed without a byte: a connection limit.
    Empty,
    /// No connection.
    Unreachable,
    /// No answer in time: connected without a reply, or a connection attempt that nobody took.
    TimedOut,
}

/// Why a target could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("{address} cannot be reached: {cause}")]
    Unreachable { address: String, cause: String },
    #[error("{address} is up but does not serve: {text}")]
    NotServing { address: String, text: String },
    #[error("the root path {path:?} does not exist on {address}; create it or change `chroot`")]
    NoChroot { address: String, path: String },
    #[error("{address} refused the credentials: {text}")]
    Auth { address: String, text: String },
    #[error("the target is in use by {holder}")]
    InUse { holder: String },
    #[error("{what} hit a configured limit: {text}")]
    Limit { what: String, text: String },
    #[error("{0}")]
    Other(String),
}
