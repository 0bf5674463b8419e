//! ZooKeeper as a target: inventory, samplers, the run's root and its lease.

pub mod admin;
mod census;
mod claim;
mod dirs;
mod files;
pub mod four_letter;
pub mod gc_log;
mod hosts;
mod inventory;
pub mod preflight;
mod sampler;
mod server;
mod settings;
pub mod snapshots;
pub mod srvr;
pub mod stats;
pub mod tls;

use std::net::SocketAddr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zk_wire::{Auth, ConnectOptions};

use super::{Claim, CleanPace, CleanReport, Counts, ManagedNode, Sampler, Target, TargetError};
use crate::{
    model::{Clock, HostFacts, Inventory, RunId},
    sample::{Disk, Generator, Interface, NodeExporter, Process, Quota},
};
use server::Server;
pub use tls::TlsOptions;

/// What is said of a target that wants SASL, whether the configuration says so or the server does.
pub const NO_KERBEROS: &str = "it requires SASL (Kerberos), which Rampart does not speak; what it does speak is digest \
     (`digest`) and TLS with a client certificate (`tls`): allow one of them there, or test another target";

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
    /// Prometheus providers, one a server, such as `http://10.0.0.1:7000/metrics`.
    #[serde(default)]
    pub metrics_urls: Vec<String>,
    /// A node_exporter of each server's host, such as `http://10.0.0.1:9100/metrics`.
    #[serde(default)]
    pub node_exporters: Vec<String>,
    /// What the host of each server is, where it cannot be read.
    #[serde(default)]
    pub hosts: Vec<HostFacts>,
    /// Local addresses that sessions of the load come from; empty: chosen by the system, or a pool of loopback
    /// addresses when the servers are on loopback.
    #[serde(default)]
    pub source_addresses: Vec<std::net::IpAddr>,
    /// Speak TLS on the client ports.
    #[serde(default)]
    pub tls: Option<Box<TlsOptions>>,
}

impl ZookeeperSpec {
    /// How to open a session to one of its servers: with the credentials and the TLS of the target.
    #[must_use]
    pub fn connect_options(&self, server: SocketAddr) -> ConnectOptions {
        ConnectOptions {
            auth: self.digest.as_deref().map(Auth::digest),
            tls: self.tls.as_ref().map(|tls| tls.tls().clone()),
            ..ConnectOptions::new(server)
        }
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
            let process = process.map(|process| process.listening_on(server.address));
            samplers.extend(process.map(|process| Box::new(process) as Box<dyn Sampler>));
            let quota = node.and_then(|node| Some(Quota::new(clock, &node.name, node.pid?)));
            samplers.extend(quota.map(|quota| Box::new(quota) as Box<dyn Sampler>));
            let data_dir = node.and_then(|node| node.data_dir.clone());
            let exporter = server.exporter.as_deref();
            let exporter = exporter.and_then(|url| NodeExporter::new(clock, &server.name, url, data_dir.clone()));
            samplers.extend(exporter.map(|exporter| Box::new(exporter) as Box<dyn Sampler>));
            if let Some(folder) =
                data_dir.filter(|_| node.is_some_and(|node| node.local && node.disk_free_bytes.is_some()))
            {
                samplers.push(Box::new(Disk::new(clock, &server.name, folder.into())));
            }
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
