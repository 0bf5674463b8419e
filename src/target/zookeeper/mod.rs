//! ZooKeeper as a target: inventory, samplers, the run's root and its lease.

pub mod admin;
pub mod four_letter;
pub mod gc_log;
pub mod srvr;
pub mod stats;

use std::net::SocketAddr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Claim, CleanPace, CleanReport, ManagedNode, Sampler, Target, TargetError};
use crate::model::{Clock, Inventory, RunId};

/// Where a ZooKeeper is, and how to get in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZookeeperSpec {
    /// Client addresses, `host:port`; resolved when the configuration is read.
    pub servers: Vec<SocketAddr>,
    /// Everything happens under this path; empty for the root.
    #[serde(default)]
    pub chroot: String,
    /// `user:password` of the digest scheme.
    #[serde(default, skip_serializing)]
    pub digest: Option<String>,
    /// AdminServer base addresses, one a server, such as `http://10.0.0.1:8080`.
    #[serde(default)]
    pub admin_urls: Vec<String>,
    /// Local addresses that sessions of the load come from; empty: chosen by the system, or a pool of loopback
    /// addresses when the servers are on loopback.
    #[serde(default)]
    pub source_addresses: Vec<std::net::IpAddr>,
}

/// A ZooKeeper that can be looked at.
#[derive(Debug)]
pub struct Zookeeper {
    spec: ZookeeperSpec,
    managed: Vec<ManagedNode>,
}

impl Zookeeper {
    /// A target of these addresses; `managed` is empty unless Rampart launched it.
    #[must_use]
    pub fn new(spec: ZookeeperSpec, managed: Vec<ManagedNode>) -> Self {
        Self { spec, managed }
    }
}

#[async_trait]
impl Target for Zookeeper {
    async fn inventory(&self) -> Result<Inventory, TargetError> {
        let _ = (&self.spec, &self.managed);
        Err(TargetError::Other("not yet".to_owned()))
    }

    fn samplers(&self, _clock: Clock, _inventory: &Inventory) -> Vec<Box<dyn Sampler>> {
        Vec::new()
    }

    async fn claim(&self, _run: RunId) -> Result<Box<dyn Claim>, TargetError> {
        Err(TargetError::Other("not yet".to_owned()))
    }

    async fn clean(&self, _pace: CleanPace) -> Result<CleanReport, TargetError> {
        Err(TargetError::Other("not yet".to_owned()))
    }
}
