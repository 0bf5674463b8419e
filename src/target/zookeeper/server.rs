//! One server of a ZooKeeper target: how it is asked, and by which of its doors.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use zk_wire::Tls;

use super::{
    ZookeeperSpec,
    admin::Admin,
    four_letter::{AskError, ask_over, sampler_source},
    srvr::Srvr,
    stats::Stats,
};
use crate::{
    model::HostFacts,
    sample::{Fetcher, exposition},
    target::{Condition, ManagedNode},
};

/// How long `srvr` may take: a server that needs longer for so little is not well, and is asked again each second.
pub(super) const SRVR_WITHIN: Duration = Duration::from_secs(2);
/// How long the long list may take: with millions of watches it walks through all of them.
const STATS_WITHIN: Duration = Duration::from_secs(20);

/// A server with the ways to ask it.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// The node's name in samples.
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) source: Option<IpAddr>,
    pub(super) tls: Option<Tls>,
    pub(super) admin: Option<Admin>,
    pub(super) metrics: Option<Metrics>,
    /// Where the node_exporter of its host answers.
    pub(super) exporter: Option<String>,
    /// What the configuration says of its host.
    pub(super) declared: Option<HostFacts>,
    pub(super) managed: Option<ManagedNode>,
}

impl Server {
    /// All servers of a target.
    pub(super) fn all(spec: &ZookeeperSpec, managed: &[ManagedNode]) -> Vec<Self> {
        let server = |(index, address): (usize, &SocketAddr)| {
            let name = address.to_string();
            let managed = managed.iter().find(|node| node.name == name).cloned();
            let of_managed = managed.as_ref().and_then(|node| node.admin_url.as_deref());
            let admin_url = of_managed.or_else(|| spec.admin_urls.get(index).map(String::as_str));
            let of_managed = managed.as_ref().and_then(|node| node.metrics_url.as_deref());
            let metrics_url = of_managed.or_else(|| spec.metrics_urls.get(index).map(String::as_str));
            Self {
                name,
                address: *address,
                source: sampler_source(*address),
                tls: spec.tls.as_ref().map(|tls| tls.tls().clone()),
                admin: admin_url.and_then(Admin::new),
                metrics: metrics_url.and_then(Metrics::new),
                exporter: spec.node_exporters.get(index).cloned(),
                declared: spec.hosts.get(index).cloned(),
                managed,
            }
        };
        spec.servers.iter().enumerate().map(server).collect()
    }

    /// Asks for the short list.
    pub(super) async fn srvr(&self) -> Result<Srvr, AskError> {
        let text = self.four_letter("srvr").await?;
        let srvr = Srvr::parse(&text);
        if srvr.mode.is_empty() {
            let head: String = text.chars().take(80).collect();
            let text = format!("{} answered srvr with {head:?}, which names no mode", self.name);
            return Err(AskError::Silent { condition: Condition::Refused, text });
        }
        Ok(srvr)
    }

    /// Asks a four-letter word.
    pub(super) async fn four_letter(&self, command: &str) -> Result<String, AskError> {
        ask_over(self.tls.as_ref(), self.address, self.source, command, SRVR_WITHIN).await
    }

    /// Asks for the long list, of the first of its doors that answers, and tells which:
    ///
    /// 1. the Prometheus provider, which has all figures of the others and those of the JVM;
    /// 2. the AdminServer's `monitor`, which no whitelist restricts;
    /// 3. `mntr`, which takes a connection of the client port as well.
    ///
    /// To the server they cost alike (3 to 4 ms each on an idle 3.9.4): behind all of them it walks through its watches.
    pub(super) async fn stats(&self) -> Result<(Stats, Source), AskError> {
        if let Some(metrics) = &self.metrics {
            match metrics.ask().await {
                Ok(stats) => return Ok((stats, Source::Prometheus)),
                Err(error) if ends_asking(&error) => return Err(error),
                Err(_) => {}
            }
        }
        if let Some(admin) = &self.admin {
            match admin.ask("monitor", STATS_WITHIN).await {
                Ok(object) => return Ok((Stats::of_json(&object), Source::Monitor)),
                Err(error) if ends_asking(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let text = ask_over(self.tls.as_ref(), self.address, self.source, "mntr", STATS_WITHIN).await?;
        let stats = Stats::parse_mntr(&text);
        if stats.is_empty() {
            let text = format!("{} answered mntr without a single figure", self.name);
            return Err(AskError::Silent { condition: Condition::Refused, text });
        }
        Ok((stats, Source::Mntr))
    }
}

/// A list that takes too long at one door takes too long at the others as well.
const fn ends_asking(error: &AskError) -> bool {
    matches!(error.condition(), Condition::TimedOut | Condition::NotServing)
}

/// Where a long list came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Prometheus,
    Monitor,
    Mntr,
}

impl Source {
    /// As the inventory has it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Prometheus => "Prometheus provider",
            Self::Monitor => "AdminServer monitor",
            Self::Mntr => "mntr",
        }
    }
}

/// One server's Prometheus provider.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    pub(super) url: String,
    fetcher: Fetcher,
}

impl Metrics {
    fn new(url: &str) -> Option<Self> {
        Some(Self { url: url.to_owned(), fetcher: Fetcher::new()? })
    }

    async fn ask(&self) -> Result<Stats, AskError> {
        let body = self.fetcher.get(&self.url, STATS_WITHIN).await?;
        let stats = Stats::of_exposition(&exposition::parse(&String::from_utf8_lossy(&body)));
        // A web server of something else answers too, and so does a provider before the server serves.
        if stats.number("znode_count").is_none() {
            let text = format!("{} has no znode_count; is it a ZooKeeper's Prometheus provider?", self.url);
            return Err(AskError::Silent { condition: Condition::Refused, text });
        }
        Ok(stats)
    }
}
