//! What is done to a target. One file or folder a workload or probe, and one line in [`WORKLOADS`] or [`PROBES`].
//! Knows targets and the model; never judges, never stores.

pub mod arrivals;
pub mod ceiling;
pub mod domains;
pub mod latencies;
pub mod paced;
pub mod recorder;
pub mod requests;
pub mod sim_requests;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU64},
};

use serde::{Deserialize, Serialize};

pub use recorder::{Block, Recorder};

use crate::{
    config::read_value,
    model::{Axis, Clock, Fault, Incident, Load, NodeInfo, OperationStat},
    target::{TargetSpec, zookeeper::ZookeeperSpec},
};

/// Every workload: its name, the target kind it is for, and how its options are read.
pub const WORKLOADS: &[WorkloadEntry] = &[
    WorkloadEntry { name: domains::NAME, target: "zookeeper", build: domains::build },
    WorkloadEntry { name: requests::NAME, target: "zookeeper", build: requests::build },
    WorkloadEntry { name: sim_requests::NAME, target: "sim", build: sim_requests::build },
];

/// Every probe.
pub const PROBES: &[ProbeEntry] = &[ProbeEntry { name: latencies::NAME, target: "zookeeper", build: latencies::build }];

/// One line of [`WORKLOADS`].
#[derive(Debug)]
pub struct WorkloadEntry {
    pub name: &'static str,
    pub target: &'static str,
    build: fn(toml::Value) -> Result<Arc<dyn Workload>, Fault>,
}

/// One line of [`PROBES`].
#[derive(Debug)]
pub struct ProbeEntry {
    pub name: &'static str,
    pub target: &'static str,
    build: fn(toml::Value) -> Result<Arc<dyn Probe>, Fault>,
}

/// The workload of that name for a target kind, with its options. Field names in faults are relative to the options.
///
/// # Errors
/// An unknown name (with the allowed ones), a workload for another kind of target, or a wrong option.
pub fn workload(name: &str, target: &str, options: toml::Value) -> Result<Arc<dyn Workload>, Fault> {
    let entry = WORKLOADS
        .iter()
        .find(|entry| entry.name == name && entry.target == target)
        .ok_or_else(|| unknown("workload", name, target, WORKLOADS.iter().map(|entry| (entry.name, entry.target))))?;
    (entry.build)(options)
}

/// The probe of that name, as [`workload`].
///
/// # Errors
/// As [`workload`].
pub fn probe(name: &str, target: &str, options: toml::Value) -> Result<Arc<dyn Probe>, Fault> {
    let entry = PROBES
        .iter()
        .find(|entry| entry.name == name && entry.target == target)
        .ok_or_else(|| unknown("probe", name, target, PROBES.iter().map(|entry| (entry.name, entry.target))))?;
    (entry.build)(options)
}

fn unknown(what: &str, name: &str, target: &str, known: impl Iterator<Item = (&'static str, &'static str)>) -> Fault {
    let allowed: Vec<_> = known.filter(|(_, kind)| *kind == target).map(|(name, _)| name).collect();
    Fault::new("", format!("there is no {what} {name:?} for a {target} target; allowed: {}", allowed.join(", ")))
}

/// Options of a workload or probe from TOML, defaults filled in.
fn options<T: serde::de::DeserializeOwned>(value: toml::Value) -> Result<T, Fault> {
    read_value(value, "")
}

/// Refuses a number outside its range.
fn within(field: &str, value: f64, low: f64, high: f64) -> Result<(), Fault> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Fault::new(field, format!("is {value}; allowed: {low} to {high}")))
    }
}

/// What is done to a target, and on which axis it can be raised.
pub trait Workload: Send + Sync + std::fmt::Debug {
    /// Its name, what can be raised, and what it asks of a target.
    fn about(&self) -> About;

    /// What a load needs and what it should add to the target.
    fn demand(&self, load: u64) -> Demand;

    /// A unit that puts load on a target from one thread.
    ///
    /// # Errors
    /// When its event loop cannot be made.
    fn unit(&self, site: Site) -> std::io::Result<Box<dyn LoadUnit>>;

    /// What a reader of the result must know of the options, in sentences.
    fn remarks(&self) -> Vec<String>;
}

/// What a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The name in scenarios, and of its stream of operations.
    pub name: &'static str,
    pub axis: Axis,
    /// The operations of its traffic: first those that change the target, then those that read.
    pub operations: &'static [&'static str],
    /// How many of the operations change the target.
    pub write_count: usize,
}

impl About {
    /// The operations that change the target.
    #[must_use]
    pub fn writes(&self) -> &'static [&'static str] {
        self.operations.get(..self.write_count).unwrap_or(self.operations)
    }
}

/// What a load needs, and what a target should show when it is in place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    /// Name and count of what the load consists of, apart from what a target counts: executors, jobs.
    pub parts: Vec<(&'static str, u64)>,
    pub sessions: u64,
    /// What the sessions ask for.
    pub session_timeout_ms: u64,
    /// Seconds that putting one member in place should take at the stated pace.
    pub fill_s_per_member: f64,
    /// Name, count, tolerance: what the target should count more than before the load.
    pub counts: Vec<(&'static str, u64, u64)>,
    /// What the steady traffic asks of the target.
    pub writes_per_s: f64,
    pub reads_per_s: f64,
}

/// Where a unit or probe works.
#[derive(Debug, Clone)]
pub struct Site {
    pub target: TargetSpec,
    /// The target's servers with their roles when the run began.
    pub nodes: Vec<NodeInfo>,
    /// Everything is created under this path.
    pub root: String,
    pub clock: Clock,
    /// Number of this unit, from 0.
    pub unit: u32,
    pub seed: u64,
    /// Local addresses for sessions; empty: the system chooses.
    pub sources: Vec<IpAddr>,
    /// The limit of connections from one address to one server, where it is known.
    pub connections_per_address: Option<u64>,
    /// The largest request that the target takes, in bytes, where it is known.
    pub max_request_bytes: Option<u64>,
}

impl Site {
    /// The target as a ZooKeeper, for what speaks to nothing else.
    ///
    /// # Errors
    /// When the target is of another kind.
    pub(crate) fn zookeeper(&self) -> std::io::Result<&ZookeeperSpec> {
        let wrong = || std::io::Error::other(format!("a {} target is no ZooKeeper", self.target.kind()));
        self.target.zookeeper().ok_or_else(wrong)
    }
}

/// Puts load on a target from one thread that owns its sessions, schedule and recorders.
pub trait LoadUnit: Send {
    /// Starts to move to this load; [`LoadUnit::report`] tells how far it is.
    fn prepare(&mut self, load: &Load);

    /// A measurement goes from here to there: what is to disturb the load happens within it.
    fn hold(&mut self, from_ns: i64, until_ns: i64);

    /// Works (sockets, schedule, filling) until this time or shortly after.
    fn turn(&mut self, until_ns: i64);

    /// What happened since the last report.
    fn report(&mut self) -> UnitReport;

    /// Ends all traffic at once and closes its sessions, in less than 5 s; nothing else is removed from the target.
    fn stop(&mut self);
}

/// How far a unit is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Moves to the load; so many members are in place.
    Moving { confirmed: u64 },
    /// The load is in place.
    Ready { confirmed: u64 },
    /// It cannot be put in place.
    Failed { confirmed: u64, limit: bool, text: String },
}

/// What a unit tells once a second: plain data that can be sent anywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnitReport {
    pub progress: Progress,
    pub block: Block,
    pub incidents: Vec<Incident>,
    /// Sessions that are connected, by the server that they are connected to.
    pub attached: BTreeMap<SocketAddr, u64>,
    /// Sessions that were connected and are to be connected again.
    pub detached: u64,
}

/// A short measured procedure, run at each step on a thread of its own.
pub trait Probe: Send + Sync + std::fmt::Debug {
    fn name(&self) -> &'static str;

    fn operations(&self) -> &'static [&'static str];

    /// How many of so many servers it asks, one after the other.
    fn asks(&self, servers: usize) -> usize;

    /// Runs within the time given; what it did not finish is cut and says so.
    fn run(&self, site: &Site, window: &Window) -> ProbeReport;

    /// What a reader of the result must know, in a sentence.
    fn remark(&self) -> String;
}

/// The time that a probe has, and how it is followed.
#[derive(Debug, Clone)]
pub struct Window {
    pub from_ns: i64,
    pub until_ns: i64,
    /// Warming up: again and again without a pause until the time is over; the report is thrown away.
    pub warm_up: bool,
    pub cancelled: Arc<AtomicBool>,
    /// Operations done so far, for the live page.
    pub done: Arc<AtomicU64>,
}

/// What a probe measured.
#[derive(Debug, Clone, Default)]
pub struct ProbeReport {
    pub operations: Vec<OperationStat>,
    /// Operation, outcome, clock (`due` or `service`), histogram of microseconds.
    pub histograms: Vec<recorder::NamedHistogram>,
    pub incidents: Vec<Incident>,
}
