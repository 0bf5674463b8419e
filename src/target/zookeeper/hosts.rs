//! The machines of a target, each by what can be read of it: here, by its node_exporter, from the server itself, else as the
//! configuration declares it.

use std::collections::BTreeMap;

use super::{
    inventory::Looked,
    server::{SRVR_WITHIN, Server},
};
use crate::{
    model::{HostFacts, HostInfo, NodeInfo, metric::GENERATOR},
    sample,
};

/// Asks a server what it runs on. The AdminServer first, since no whitelist restricts it.
pub(super) async fn environment(server: &Server) -> Option<(HostFacts, &'static str)> {
    if let Some(admin) = &server.admin
        && let Ok(object) = admin.ask("environment", SRVR_WITHIN).await
    {
        let text = |key: &str| object.get(key)?.as_str().map(str::to_owned);
        return Some((facts(text), "AdminServer environment"));
    }
    let answer = server.four_letter("envi").await.ok()?;
    let pairs: BTreeMap<_, _> = answer.lines().filter_map(|line| line.split_once('=')).collect();
    Some((facts(|key| pairs.get(key).map(|value| (*value).to_owned())), "envi"))
}

fn facts(of: impl Fn(&str) -> Option<String>) -> HostFacts {
    let java = of("java.version").map(|version| match of("java.vendor") {
        Some(vendor) => format!("{version} ({vendor})"),
        None => version,
    });
    HostFacts {
        // A server on loopback names no host.
        name: of("host.name").filter(|name| name != "localhost"),
        os: of("os.name"),
        kernel: of("os.version"),
        java,
        ..HostFacts::default()
    }
}

/// All machines: this one first, then the others in the order of their servers. Servers of one address share a machine.
pub(super) async fn all(looked: &[Looked<'_>], nodes: &[NodeInfo]) -> Vec<HostInfo> {
    let here = tokio::task::spawn_blocking(sample::this_machine).await.unwrap_or_default();
    let is_local = |each: &Looked<'_>| nodes.iter().any(|node| node.local && node.name == each.server.name);
    let (local, remote): (Vec<_>, Vec<_>) = looked.iter().partition(|each| is_local(each));
    let names = |of: &[&Looked<'_>]| of.iter().map(|each| each.server.name.clone()).collect::<Vec<_>>();

    let mut sources = vec![("read here", here)];
    sources.extend(told(&local));
    let mut hosts = vec![HostInfo::of([names(&local), vec![GENERATOR.to_owned()]].concat(), &sources)];
    let mut rest = remote;
    while let Some(first) = rest.first() {
        let ip = first.server.address.ip();
        let (same, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|each| each.server.address.ip() == ip);
        hosts.push(HostInfo::of(names(&same), &told(&same)));
        rest = others;
    }
    hosts
}

/// What the servers of one machine tell of it, the most trusted source first.
fn told<'a>(servers: &[&'a Looked<'_>]) -> Vec<(&'a str, HostFacts)> {
    let exporters = servers.iter().filter_map(|each| each.host.as_ref()?.as_ref().ok());
    let environments = servers.iter().filter_map(|each| each.environment.as_ref());
    let declared = servers.iter().filter_map(|each| each.server.declared.as_ref());
    exporters
        .map(|host| ("node_exporter", host.facts.clone()))
        .chain(environments.map(|(facts, source)| (*source, facts.clone())))
        .chain(declared.map(|facts| ("declared", facts.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sample::node_exporter::Host, target::zookeeper::four_letter::AskError};

    #[tokio::test]
    async fn servers_of_one_address_share_a_machine_and_rampart_has_its_own() {
        let spec = serde_json::json!({
            "servers": ["10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.1:2182"],
            "hosts": [{"cores": 4, "java": "8"}, {}, {"cpu": "EPYC"}],
        });
        let servers = Server::all(&serde_json::from_value(spec).unwrap(), &[]);
        let refused = AskError::TooLong { command: "srvr".to_owned(), limit: 0 };
        let read = HostFacts { cores: Some(8), ..HostFacts::default() };
        let told = |host| Some(Ok(Host { facts: host, disk_free_bytes: None }));
        let looked: Vec<_> = servers
            .iter()
            .map(|server| {
                Looked::silent(server, refused.clone(), told(read.clone()).filter(|_| server.name == "10.0.0.1:2181"))
            })
            .collect();
        let hosts = all(&looked, &[]).await;
        let nodes: Vec<_> = hosts.iter().map(|host| host.nodes.join(" ")).collect();
        assert_eq!(nodes, ["generator", "10.0.0.1:2181 10.0.0.1:2182", "10.0.0.2:2181"]);
        assert_eq!(hosts[1].source, "node_exporter (cores), declared (Java), declared (CPU)");
        let facts = &hosts[1].facts;
        assert_eq!((facts.cores, facts.java.as_deref(), facts.cpu.as_deref()), (Some(8), Some("8"), Some("EPYC")));
        assert_eq!(hosts[2].source, "nothing tells what it is");
        assert!(hosts[0].source == "read here" && hosts[0].facts.cores.is_some());
    }

    #[test]
    fn a_server_tells_its_java_and_its_kernel() {
        let answer =
            [("java.version", "17.0.15"), ("java.vendor", "Debian"), ("os.name", "Linux"), ("host.name", "localhost")];
        let told = facts(|key| Some(answer.iter().find(|(name, _)| *name == key)?.1.to_owned()));
        assert_eq!((told.java.as_deref(), told.os.as_deref()), (Some("17.0.15 (Debian)"), Some("Linux")));
        assert_eq!((told.name, told.kernel), (None, None), "what is not said is not known");
    }
}
