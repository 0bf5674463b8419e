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
use crate::target::{Condition, ManagedNode};

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
            Self {
                name,
                address: *address,
                source: sampler_source(*address),
                tls: spec.tls.as_ref().map(|tls| tls.tls().clone()),
                admin: admin_url.and_then(Admin::new),
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

    /// Asks for the long list: the AdminServer where there is one, which no whitelist restricts, else `mntr`. Tells
    /// which of them answered.
    pub(super) async fn stats(&self) -> Result<(Stats, &'static str), AskError> {
        if let Some(admin) = &self.admin {
            match admin.ask("monitor", STATS_WITHIN).await {
                Ok(object) => return Ok((Stats::of_json(&object), "AdminServer monitor")),
                // A list that takes too long there takes too long here as well.
                Err(error) if matches!(error.condition(), Condition::TimedOut | Condition::NotServing) => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        let text = ask_over(self.tls.as_ref(), self.address, self.source, "mntr", STATS_WITHIN).await?;
        let stats = Stats::parse_mntr(&text);
        if stats.is_empty() {
            let text = format!("{} answered mntr without a single figure", self.name);
            return Err(AskError::Silent { condition: Condition::Refused, text });
        }
        Ok((stats, "mntr"))
    }
}
