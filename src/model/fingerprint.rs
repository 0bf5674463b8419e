//! What changes the results of a run, as pairs, with a short hash of them: two runs with one fingerprint were made under the
//! same conditions, and of two others it can be said what differs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::{HostFacts, Inventory, metric::GENERATOR};

/// Names and values that change results, and their hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Fingerprint {
    /// 16 hexadecimal digits; empty for a run of before there were fingerprints.
    pub hash: String,
    pub facts: BTreeMap<String, String>,
}

/// One fact in which two fingerprints differ; `None` where one does not have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Settings that are no facts of their own: where a server and its Java are, which may be elsewhere each time, and the
/// version that a recipe asks for, which the servers tell themselves.
const NO_FACTS: &[&str] = &["zoo_cfg.clientPort", "java", "version"];

impl Fingerprint {
    /// The fingerprint of a target and its hosts. Addresses and names are no part of it, and the order of servers is not:
    /// the same ensemble on other ports is the same.
    #[must_use]
    pub fn of(inventory: &Inventory) -> Self {
        let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut add = |name: String, value: String| {
            values.entry(name).or_default().insert(value);
        };
        add("servers".to_owned(), inventory.nodes.len().to_string());
        for node in inventory.nodes.iter().filter(|node| !node.version.is_empty()) {
            add("version".to_owned(), node.version.clone());
        }
        for setting in inventory.settings.iter().filter(|setting| !NO_FACTS.contains(&setting.name.as_str())) {
            add(setting.name.clone(), setting.value.clone());
        }
        for limit in &inventory.limits {
            add(limit.name.clone(), limit.value.map_or_else(|| "no limit".to_owned(), |value| value.to_string()));
        }
        for host in &inventory.hosts {
            let generates = host.nodes.iter().any(|node| node == GENERATOR);
            let serves = host.nodes.iter().any(|node| node != GENERATOR);
            for of in [("generator", generates), ("host", serves)].into_iter().filter(|(_, is)| *is).map(|(of, _)| of) {
                for (name, value) in machine(&host.facts) {
                    add(format!("{of}.{name}"), value);
                }
            }
        }
        let machines = inventory.hosts.iter().filter(|host| host.nodes.iter().any(|node| node != GENERATOR)).count();
        if machines > 0 {
            add("hosts".to_owned(), machines.to_string());
            add("shares_machine".to_owned(), inventory.shares_machine().to_string());
        }
        let joined = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
        Self::of_facts(values.into_iter().map(|(name, values)| (name, joined(values))).collect())
    }

    fn of_facts(facts: BTreeMap<String, String>) -> Self {
        let mut hasher = Sha256::new();
        for (name, value) in &facts {
            // With their lengths, so that no two lists of pairs look alike.
            hasher.update((name.len() as u64).to_be_bytes());
            hasher.update(name);
            hasher.update((value.len() as u64).to_be_bytes());
            hasher.update(value);
        }
        let hash = hasher.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Self { hash, facts }
    }
}

/// What of a machine changes results. Its memory is rounded to whole GiB: kernels keep some of it for themselves, each a
/// little other.
fn machine(facts: &HostFacts) -> Vec<(&'static str, String)> {
    let HostFacts { name: _, cpu, cores, memory_bytes, os, kernel, network_mbit_per_s, java } = facts;
    let gib = memory_bytes.map(|bytes| ((bytes + (1 << 29)) >> 30).to_string());
    let pairs = [
        ("cpu", cpu.clone()),
        ("cores", cores.map(|cores| cores.to_string())),
        ("memory_gib", gib),
        ("os", os.clone()),
        ("kernel", kernel.clone()),
        ("network_mbit_per_s", network_mbit_per_s.map(|speed| speed.to_string())),
        ("java", java.clone()),
    ];
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// What differs between two runs, by name.
#[must_use]
pub fn differences(before: &Fingerprint, after: &Fingerprint) -> Vec<Difference> {
    let names: BTreeSet<&String> = before.facts.keys().chain(after.facts.keys()).collect();
    let all = names.into_iter().map(|name| Difference {
        name: name.clone(),
        before: before.facts.get(name).cloned(),
        after: after.facts.get(name).cloned(),
    });
    all.filter(|difference| difference.before != difference.after).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{HostInfo, Limit, NodeInfo, Setting};

    fn setting(name: &str, value: &str) -> Setting {
        Setting { name: name.to_owned(), value: value.to_owned(), source: "conf".to_owned() }
    }

    fn inventory() -> Inventory {
        let node = |name: &str| NodeInfo { name: name.to_owned(), version: "3.9.4".to_owned(), ..NodeInfo::default() };
        let facts = HostFacts { cores: Some(2), memory_bytes: Some(25_200_000_000), ..HostFacts::default() };
        Inventory {
            nodes: vec![node("127.0.0.1:2181"), node("127.0.0.2:2181")],
            settings: vec![setting("tickTime", "2000"), setting("snapCount", "100000")],
            limits: vec![Limit { name: "maxClientCnxns".to_owned(), value: None, source: "conf".to_owned() }],
            hosts: vec![HostInfo::of(vec!["127.0.0.1:2181".to_owned()], &[("read here", facts)])],
            ..Inventory::default()
        }
    }

    #[test]
    fn what_changes_results_is_a_fact_and_where_a_server_is_is_none() {
        let one = Fingerprint::of(&inventory());
        assert_eq!(one.facts["version"], "3.9.4");
        assert_eq!((one.facts["maxClientCnxns"].as_str(), one.facts["host.memory_gib"].as_str()), ("no limit", "23"));
        let mut moved = inventory();
        moved.nodes.reverse();
        moved.nodes[0].name = "10.0.0.9:2182".to_owned();
        moved.nodes[0].role = "leader".to_owned();
        moved.settings.reverse();
        moved.settings.push(setting("zoo_cfg.clientPort", "2182"));
        moved.settings.push(setting("version", "3.9"));
        assert_eq!(Fingerprint::of(&moved), one);
    }

    #[test]
    fn each_difference_is_named_with_both_values() {
        let before = Fingerprint::of(&inventory());
        let mut other = inventory();
        other.settings[1].value = "10000".to_owned();
        other.nodes[1].version = "3.8.0".to_owned();
        other.limits.clear();
        let after = Fingerprint::of(&other);
        assert_ne!(before.hash, after.hash);
        let told: Vec<_> = differences(&before, &after)
            .into_iter()
            .map(|each| (each.name, each.before.unwrap_or_default(), each.after.unwrap_or_default()))
            .collect();
        let wanted = [
            ("maxClientCnxns", "no limit", ""),
            ("snapCount", "100000", "10000"),
            ("version", "3.9.4", "3.8.0, 3.9.4"),
        ];
        assert_eq!(told, wanted.map(|(name, a, b)| (name.to_owned(), a.to_owned(), b.to_owned())));
        assert_eq!(differences(&before, &before), []);
    }

    #[test]
    fn a_hash_stays_the_same_from_version_to_version() {
        let facts = [("a", "1"), ("b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(Fingerprint::of_facts(facts.into()).hash, "63662dceceaac3ca");
    }

    proptest! {
        #[test]
        fn two_sets_of_facts_have_one_hash_only_when_they_are_the_same(
            a in proptest::collection::btree_map("[ab1]{0,2}", "[ab1]{0,2}", 0..3),
            b in proptest::collection::btree_map("[ab1]{0,2}", "[ab1]{0,2}", 0..3),
        ) {
            let (one, other) = (Fingerprint::of_facts(a.clone()), Fingerprint::of_facts(b.clone()));
            prop_assert_eq!(one.hash == other.hash, a == b);
            prop_assert_eq!(differences(&one, &other).is_empty(), a == b);
        }
    }
}
