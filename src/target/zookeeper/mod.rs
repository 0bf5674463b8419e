//! ZooKeeper as a target: inventory, samplers, the run's root and its lease.

pub mod admin;
mod census;
mod claim;
mod files;
pub mod four_letter;
pub mod gc_log;
mod inventory;
mod sampler;
mod server;
pub mod snapshots;
pub mod srvr;
pub mod stats;

use std::net::SocketAddr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zk_wire::{Auth, ConnectOptions};

use super::{Claim, CleanPace, CleanReport, Counts, ManagedNode, Sampler, Target, TargetError};
use crate::{
    model::{Clock, Inventory, RunId},
    sample::{Generator, Interface, Process},
};
use server::Server;

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

impl ZookeeperSpec {
    /// How to open a session to one of its servers: with the credentials of the target.
    #[must_use]
    pub fn connect_options(&self, server: SocketAddr) -> ConnectOptions {
        ConnectOptions { auth: self.digest.as_deref().map(Auth::digest), ..ConnectOptions::new(server) }
    }
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

    fn servers(&self) -> Vec<Server> {
        Server::all(&self.spec, &self.managed)
    }
}

#[async_trait]
impl Target for Zookeeper {
    async fn inventory(&self) -> Result<Inventory, TargetError> {
        inventory::take(&self.servers()).await
    }

    fn samplers(&self, clock: Clock, inventory: &Inventory) -> Vec<Box<dyn Sampler>> {
        let mut samplers: Vec<Box<dyn Sampler>> = Vec::new();
        for server in self.servers() {
            let restarts = sampler::Restarts::default();
            let node = inventory.nodes.iter().find(|node| node.name == server.name);
            if let Some(managed) = &server.managed {
                samplers.push(Box::new(files::GcSampler::new(clock, managed)));
                samplers.push(Box::new(files::SnapshotSampler::new(clock, managed)));
            }
            let process = node.and_then(|node| Process::new(clock, &node.name, node.pid?));
            samplers.extend(process.map(|process| Box::new(process) as Box<dyn Sampler>));
            if node.is_some_and(inventory::uses_interface) {
                samplers.push(Box::new(Interface::new(clock, &server.name, server.address.ip())));
            }
            samplers.push(Box::new(sampler::SrvrSampler::new(clock, server.clone(), restarts.clone())));
            samplers.push(Box::new(sampler::StatsSampler::new(clock, server, restarts)));
        }
        samplers.extend(Generator::new(clock).map(|generator| Box::new(generator) as Box<dyn Sampler>));
        samplers
    }

    async fn counts(&self) -> Counts {
        census::take(&self.servers()).await.unwrap_or_default()
    }

    async fn claim(&self, run: RunId) -> Result<Box<dyn Claim>, TargetError> {
        claim::claim(self.spec.clone(), run).await
    }

    async fn clean(&self, pace: CleanPace) -> Result<CleanReport, TargetError> {
        claim::clean(self.spec.clone(), pace).await
    }
}
