//! What a target is: nodes, roles, versions, and the settings and limits that change results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Fingerprint;

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
    /// Where it keeps its data on its host, where it tells.
    #[serde(default)]
    pub data_dir: Option<String>,
    /// What its snapshots take on its disk, and its transaction logs; each is both where they share a folder.
    #[serde(default)]
    pub data_bytes: Option<u64>,
    #[serde(default)]
    pub log_bytes: Option<u64>,
    /// Free space of the file system of `data_dir` before the load.
    #[serde(default)]
    pub disk_free_bytes: Option<u64>,
    /// What it held before the load.
    #[serde(default)]
    pub znodes: Option<u64>,
    /// Connections that others had to it before the load.
    #[serde(default)]
    pub other_connections: Option<u64>,
}

/// What is known of a machine; absent where nothing tells it. Also what a configuration may declare.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostFacts {
    pub name: Option<String>,
    /// The model of its processor.
    pub cpu: Option<String>,
    pub cores: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub os: Option<String>,
    pub kernel: Option<String>,
    /// Speed of its network, in megabits as cards are sold.
    pub network_mbit_per_s: Option<u64>,
    /// The Java that runs the server.
    pub java: Option<String>,
}

impl HostFacts {
    /// Takes over what is not known yet, and names what that was.
    pub fn fill(&mut self, other: &Self) -> Vec<&'static str> {
        fn take<T: Clone>(name: &'static str, gap: &mut Option<T>, other: Option<&T>) -> Option<&'static str> {
            if gap.is_some() || other.is_none() {
                return None;
            }
            *gap = other.cloned();
            Some(name)
        }
        [
            take("name", &mut self.name, other.name.as_ref()),
            take("CPU", &mut self.cpu, other.cpu.as_ref()),
            take("cores", &mut self.cores, other.cores.as_ref()),
            take("memory", &mut self.memory_bytes, other.memory_bytes.as_ref()),
            take("OS", &mut self.os, other.os.as_ref()),
            take("kernel", &mut self.kernel, other.kernel.as_ref()),
            take("network", &mut self.network_mbit_per_s, other.network_mbit_per_s.as_ref()),
            take("Java", &mut self.java, other.java.as_ref()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// One machine that a run used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostInfo {
    /// The servers on it, and `generator` for Rampart itself.
    pub nodes: Vec<String>,
    pub facts: HostFacts,
    /// Where the facts come from, such as `read here`, or `node_exporter (cores, memory), declared (CPU)`.
    pub source: String,
}

impl HostInfo {
    /// A machine as several sources tell it, the most trusted first.
    #[must_use]
    pub fn of(nodes: Vec<String>, sources: &[(&str, HostFacts)]) -> Self {
        let mut facts = HostFacts::default();
        let told: Vec<(&str, Vec<&str>)> = sources.iter().map(|(source, more)| (*source, facts.fill(more))).collect();
        let mut told: Vec<_> = told.into_iter().filter(|(_, names)| !names.is_empty()).collect();
        let source = match told.as_mut_slice() {
            [] => "nothing tells what it is".to_owned(),
            [(source, _)] => (*source).to_owned(),
            several => {
                let parts: Vec<_> =
                    several.iter().map(|(source, names)| format!("{source} ({})", names.join(", "))).collect();
                parts.join(", ")
            }
        };
        Self { nodes, facts, source }
    }
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
    /// The machines of the target and of Rampart.
    #[serde(default)]
    pub hosts: Vec<HostInfo>,
    /// What changes results, for telling whether two runs can be compared.
    #[serde(default)]
    pub fingerprint: Fingerprint,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_of_before_is_still_read() {
        let stored = r#"{"nodes":[{"name":"a","version":"3.8.0","role":"leader","local":true,"pid":7}],"settings":[],
            "limits":[],"sampling":["srvr every 1 s"],"remarks":[]}"#;
        let inventory: Inventory = serde_json::from_str(stored).unwrap();
        assert_eq!((inventory.nodes[0].disk_free_bytes, inventory.hosts.len()), (None, 0));
        assert_eq!(inventory.fingerprint, Fingerprint::default());
    }

    #[test]
    fn the_first_source_that_tells_a_fact_counts_and_is_named() {
        let read = HostFacts { cores: Some(8), java: Some("17".to_owned()), ..HostFacts::default() };
        let declared = HostFacts { cores: Some(4), cpu: Some("EPYC".to_owned()), ..HostFacts::default() };
        let host = HostInfo::of(vec!["a".to_owned()], &[("node_exporter", read.clone()), ("declared", declared)]);
        assert_eq!((host.facts.cores, host.facts.cpu.as_deref()), (Some(8), Some("EPYC")));
        assert_eq!(host.source, "node_exporter (cores, Java), declared (CPU)");
        assert_eq!(HostInfo::of(Vec::new(), &[("read here", read)]).source, "read here");
        assert_eq!(HostInfo::of(Vec::new(), &[("declared", HostFacts::default())]).source, "nothing tells what it is");
    }
}
