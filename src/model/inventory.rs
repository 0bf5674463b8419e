//! What a target is: nodes, roles, versions, and the settings and limits that change results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The role of a server that the scenario itself took away for a while.
pub const AWAY: &str = "away";

/// One server of a target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeInfo {
    /// The name under which samples are stored: its address, `127.0.0.1:2181`.
    pub name: String,
    pub version: String,
    /// `leader`, `follower`, `observer`, `standalone`, or `unknown`; [`AWAY`] while an action lasts.
    pub role: String,
    /// Whether it runs on this machine.
    pub local: bool,
    pub pid: Option<u32>,
}

/// One setting that changes results, with where it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// Such as `conf`, `launch recipe`, `AdminServer`.
    pub source: String,
}

/// A configured limit that a load can meet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// Such as `maxClientCnxns`.
    pub name: String,
    /// `None`: no limit.
    pub value: Option<u64>,
    pub source: String,
}

/// What is known of a target before the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Inventory {
    pub nodes: Vec<NodeInfo>,
    pub settings: Vec<Setting>,
    pub limits: Vec<Limit>,
    /// How samples are taken, such as `srvr 1 s; AdminServer monitor 10 s; sysinfo 1 s; GC log`.
    pub sampling: Vec<String>,
    /// What a reader must know, such as a refused command.
    pub remarks: Vec<String>,
}

impl Inventory {
    /// The limit of that name, when it is known and finite.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<u64> {
        self.limits.iter().find(|limit| limit.name == name)?.value
    }

    /// Whether any node shares this machine with the generator.
    #[must_use]
    pub fn shares_machine(&self) -> bool {
        self.nodes.iter().any(|node| node.local)
    }
}
