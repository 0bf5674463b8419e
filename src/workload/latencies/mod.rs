//! `zookeeper.latencies`: seven phases by one client with one call in flight, as phunt/zk-smoketest's zk-latencies does
//! them with `--synchronous`. Its rate is 1 / latency of one client, not what the server could take.

mod run;
mod sweep;

use std::{net::SocketAddr, sync::Arc};

use serde::Deserialize;

use super::{
    Probe, ProbeReport, Site, Window, options,
    recorder::{NamedHistogram, percentiles},
    within,
};
use crate::model::{Fault, Incident, IncidentKind, OperationStat, inventory::AWAY};
use run::{DELETE_EPHEMERAL, Run, Server, WATCH};

/// The name in scenarios.
pub const NAME: &str = "zookeeper.latencies";

/// The phases, in order.
pub const OPERATIONS: &[&str] = &["create", "set", "get", "delete", "create_ephemeral", "watch", "delete_ephemeral"];

/// Options of `[[probe]]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Znodes a phase.
    pub count: u32,
    pub size_bytes: u32,
    /// The longest that the whole probe may take; `measure_s` when absent.
    pub max_s: Option<f64>,
    /// The count is done in so many rounds, spread over the measurement, so that it sees more than one moment of it.
    pub rounds: u32,
    /// Which servers are asked, each in its turn while the others rest; the leader alone when absent.
    pub servers: Option<Servers>,
    pub session_timeout_ms: u32,
}

/// Servers of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected \"leader\", \"each\" or a list of the target's addresses")]
pub enum Servers {
    Word(Which),
    /// Addresses of the target.
    List(Vec<SocketAddr>),
}

/// Servers by role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The leader, or the only server.
    Leader,
    /// All, the leader first.
    Each,
}

impl Default for Options {
    fn default() -> Self {
        Self { count: 10_000, size_bytes: 100, max_s: None, rounds: 5, servers: None, session_timeout_ms: 20_000 }
    }
}

/// Reads the options.
pub(super) fn build(value: toml::Value) -> Result<Arc<dyn Probe>, Fault> {
    let options: Options = options(value)?;
    within("count", f64::from(options.count), 1.0, 10_000_000.0)?;
    within("size_bytes", f64::from(options.size_bytes), 0.0, 1_000_000.0)?;
    within("rounds", f64::from(options.rounds), 1.0, 1_000.0)?;
    within("session_timeout_ms", f64::from(options.session_timeout_ms), 1_000.0, 600_000.0)?;
    if let Some(max_s) = options.max_s {
        within("max_s", max_s, 0.1, 86_400.0)?;
    }
    Ok(Arc::new(Latencies { options }))
}

/// The probe with its options.
#[derive(Debug, Clone)]
pub struct Latencies {
    pub options: Options,
}

impl Probe for Latencies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operations(&self) -> &'static [&'static str] {
        OPERATIONS
    }

    fn asks(&self, servers: usize) -> usize {
        match &self.options.servers {
            None | Some(Servers::Word(Which::Leader)) => 1,
            Some(Servers::Word(Which::Each)) => servers,
            Some(Servers::List(named)) => named.len(),
        }
    }

    fn remark(&self) -> String {
        let Options { count, size_bytes, rounds, .. } = &self.options;
        format!(
            "The probe is one client with one call in flight: {count} znodes of {size_bytes} bytes a phase, in {rounds} rounds; its rates are 1 / latency."
        )
    }

    fn run(&self, site: &Site, window: &Window) -> ProbeReport {
        let servers = match self.servers(site) {
            // All that it was to ask are away on purpose.
            Ok(servers) if servers.is_empty() => return ProbeReport::default(),
            Ok(servers) => servers,
            Err(text) => return unusable(site, text),
        };
        let mut run = match Run::new(&self.options, site, window, &servers) {
            Ok(run) => run,
            Err(text) => return unusable(site, text),
        };
        run.connect();
        run.rounds();
        run.close();
        let mut report = ProbeReport::default();
        for server in &run.servers {
            self.tell(site, server, &mut report);
        }
        report
    }
}

impl Latencies {
    /// The servers that are asked, the leader first.
    fn servers(&self, site: &Site) -> Result<Vec<SocketAddr>, String> {
        let spec = site.zookeeper().map_err(|error| error.to_string())?;
        let is_leader = |address: &SocketAddr| {
            site.nodes
                .iter()
                .any(|node| node.name == address.to_string() && matches!(node.role.as_str(), "leader" | "standalone"))
        };
        let is_away =
            |address: &SocketAddr| site.nodes.iter().any(|node| node.name == address.to_string() && node.role == AWAY);
        let mut all = spec.servers.clone();
        all.sort_by_key(|address| !is_leader(address));
        match &self.options.servers {
            Some(Servers::Word(Which::Each)) => Ok(all.into_iter().filter(|address| !is_away(address)).collect()),
            Some(Servers::Word(Which::Leader)) | None => {
                Ok(all.into_iter().filter(|address| !is_away(address)).take(1).collect())
            }
            Some(Servers::List(wanted)) => match wanted.iter().find(|address| !all.contains(address)) {
                Some(stranger) => Err(format!("the probe was to ask {stranger}, which is no server of the target")),
                None => Ok(wanted.iter().copied().filter(|address| !is_away(address)).collect()),
            },
        }
    }

    /// The figures of one server.
    fn tell(&self, site: &Site, server: &Server, report: &mut ProbeReport) {
        let (node, requested) = (&server.name, u64::from(self.options.count));
        // A znode that was not deleted notifies nobody.
        let last = &server.phases[DELETE_EPHEMERAL];
        let deleted = !last.cut && last.errors.is_empty() && server.lost.is_none();
        let missing = if deleted { server.phases[WATCH].done.saturating_sub(server.watches_fired) } else { 0 };
        for (index, (operation, phase)) in OPERATIONS.iter().zip(&server.phases).enumerate() {
            // A phase that was never reached has no rate; 0 would be one.
            if phase.busy_ns == 0 {
                continue;
            }
            let elapsed_s = phase.busy_ns as f64 / 1e9;
            let latency = percentiles(&phase.latency);
            let mut errors = phase.errors.clone();
            if index == WATCH && missing > 0 {
                errors.insert("notification_missing".to_owned(), missing);
            }
            report.operations.push(OperationStat {
                stream: NAME.to_owned(),
                probe: true,
                write: !matches!(*operation, "get" | "watch"),
                node: node.clone(),
                operation: (*operation).to_owned(),
                done: phase.done,
                elapsed_s,
                ops_per_s: phase.done as f64 / elapsed_s,
                asked: Some(requested),
                cut: phase.cut,
                latency: latency.clone(),
                service: latency,
                errors,
            });
            report.histograms.extend(NamedHistogram::of(node, operation, "ok", "service", &phase.latency));
        }
        if let Some((kind, why)) = &server.lost {
            report.incidents.push(Incident {
                at_ns: site.clock.now_ns(),
                kind: *kind,
                node: node.clone(),
                text: format!("the probe of {node} ended early: {why}"),
                amount: 1.0,
            });
        }
    }
}

fn unusable(site: &Site, text: String) -> ProbeReport {
    let incident = Incident {
        at_ns: site.clock.now_ns(),
        kind: IncidentKind::CannotApply,
        node: String::new(),
        text,
        amount: 1.0,
    };
    ProbeReport { incidents: vec![incident], ..ProbeReport::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outside_their_range_are_named() {
        let fault = build(toml::from_str("count = 0").unwrap()).unwrap_err();
        assert!(fault.field == "count" && fault.message.contains("1 to"), "{fault}");
        let fault = build(toml::from_str("servers = \"all\"").unwrap()).unwrap_err();
        assert!(fault.field == "servers" && fault.message.contains("\"each\""), "{fault}");
        build(toml::from_str("servers = [\"127.0.0.1:2181\"]").unwrap()).unwrap();
    }
}
