//! Looks at every server of a ZooKeeper before the load: versions, roles, limits, settings, and what can be sampled.
//! Whether the chroot exists and credentials are accepted shows when the run claims its root.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use futures::future::join_all;
use serde_json::{Map, Value};

use super::{
    dirs::{self, Dirs},
    four_letter::AskError,
    hosts,
    sampler::{SRVR_EVERY, STATS_EVERY},
    server::{SRVR_WITHIN, Server, Source},
    settings::{CONF, limits_and_settings},
    srvr::Srvr,
    stats::Stats,
    tls,
};
use crate::{
    model::{Fingerprint, HostFacts, Inventory, NodeInfo},
    sample::{
        self,
        node_exporter::{self, Host},
    },
    target::{Condition, TargetError, host::EXPORTER_EVERY},
};

/// Where a server keeps its data, as `conf` calls it.
const DATA_DIR: &str = "dataDir";

/// What one server told.
#[derive(Debug)]
pub(super) struct Looked<'a> {
    pub(super) server: &'a Server,
    pub(super) srvr: Result<Srvr, AskError>,
    /// Settings by their names in `conf`, with their source.
    pub(super) conf: Result<(BTreeMap<String, String>, &'static str), AskError>,
    pub(super) stats: Result<(Stats, Source), AskError>,
    /// System properties, of an AdminServer of 3.6 or later.
    pub(super) properties: Option<Map<String, Value>>,
    /// What the server says of its Java and its host, with the source.
    pub(super) environment: Option<(HostFacts, &'static str)>,
    pub(super) dirs: Dirs,
    /// What its node_exporter says, where one is configured.
    pub(super) host: Option<Result<Host, String>>,
    /// Connections of others, without the one that asks.
    pub(super) other_connections: Option<u64>,
}

impl<'a> Looked<'a> {
    /// What is known when a server does not answer at all.
    pub(super) fn silent(server: &'a Server, error: AskError, host: Option<Result<Host, String>>) -> Self {
        Self {
            server,
            srvr: Err(error.clone()),
            conf: Err(error.clone()),
            stats: Err(error),
            properties: None,
            environment: None,
            dirs: Dirs::default(),
            host,
            other_connections: None,
        }
    }

    fn data_dir(&self) -> Option<String> {
        let managed = self.server.managed.as_ref().map(|managed| managed.data_dir.display().to_string());
        managed.or_else(|| self.conf.as_ref().ok()?.0.get(DATA_DIR).cloned())
    }
}

/// Looks at all servers at once.
pub(super) async fn take(servers: &[Server]) -> Result<Inventory, TargetError> {
    let looked = join_all(servers.iter().map(look)).await;
    if let Err(error) = serving(&looked) {
        return Err(swapped(&looked).await.unwrap_or(error));
    }
    let mut inventory = Inventory::default();
    for each in &looked {
        let node = node(each, &mut inventory.remarks).await;
        inventory.nodes.push(node);
        remark_refusals(each, &mut inventory.remarks);
    }
    inventory.remarks.extend(mixed_versions(&inventory.nodes));
    limits_and_settings(&looked, &mut inventory);
    inventory.hosts = hosts::all(&looked, &inventory.nodes).await;
    inventory.sampling = sampling(&looked, &inventory.nodes);
    inventory.fingerprint = Fingerprint::of(&inventory);
    Ok(inventory)
}

async fn look(server: &Server) -> Looked<'_> {
    let srvr = match server.srvr().await {
        Ok(srvr) => srvr,
        // The other questions would end alike, each after its own time.
        Err(error) => return Looked::silent(server, error, look_at_host(server, None).await),
    };
    let conf = conf(server).await;
    let stats = server.stats().await;
    let properties = match &server.admin {
        Some(admin) => admin.ask("system_properties", SRVR_WITHIN).await.ok(),
        None => None,
    };
    let environment = hosts::environment(server).await;
    let dirs = dirs::ask(server, &srvr.version).await;
    // Asked twice: a connection that was just closed may still have been counted the first time.
    let again = server.srvr().await.ok().and_then(|srvr| srvr.connections);
    let connections = srvr.connections.into_iter().chain(again).min();
    let mut looked = Looked {
        server,
        srvr: Ok(srvr),
        conf,
        stats,
        properties,
        environment,
        dirs,
        host: None,
        other_connections: connections.map(|connections| connections.saturating_sub(1)),
    };
    looked.host = look_at_host(server, looked.data_dir().as_deref()).await;
    looked
}

async fn look_at_host(server: &Server, data_dir: Option<&str>) -> Option<Result<Host, String>> {
    Some(node_exporter::look(server.exporter.as_deref()?, data_dir).await)
}

async fn conf(server: &Server) -> Result<(BTreeMap<String, String>, &'static str), AskError> {
    let refused = match server.four_letter("conf").await {
        Ok(text) => return Ok((parse_conf(&text), "conf")),
        Err(error) => error,
    };
    let Some(admin) = &server.admin else { return Err(refused) };
    let object = admin.ask("configuration", SRVR_WITHIN).await?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let wanted = CONF.iter().chain(&[(DATA_DIR, "data_dir")]);
    let named = wanted.filter_map(|(name, json)| Some(((*name).to_owned(), text(object.get(*json)?))));
    Ok((named.collect(), "AdminServer configuration"))
}

fn parse_conf(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Whether none serves because they were asked without TLS where they speak nothing else, or the other way round.
async fn swapped(looked: &[Looked<'_>]) -> Option<TargetError> {
    let asked = looked.iter().map(|each| {
        let (address, with_tls) = (each.server.address, each.server.tls.is_some());
        tokio::task::spawn_blocking(move || tls::mismatch(address, with_tls))
    });
    join_all(asked).await.into_iter().flatten().flatten().next().map(TargetError::Other)
}

/// At least one server must serve; otherwise what the most telling one said.
fn serving(looked: &[Looked<'_>]) -> Result<(), TargetError> {
    if looked.iter().any(|each| each.srvr.is_ok()) {
        return Ok(());
    }
    let failed = looked.iter().filter_map(|each| Some((each.server.name.clone(), each.srvr.as_ref().err()?)));
    let failed: Vec<_> = failed.collect();
    let of = |wanted: Condition| failed.iter().find(|(_, error)| error.condition() == wanted);
    if let Some((address, error)) = of(Condition::NotServing) {
        return Err(TargetError::NotServing { address: address.clone(), text: error.to_string() });
    }
    if let Some((address, error)) = of(Condition::Empty) {
        let text = format!("{error}; maxClientCnxns or maxCnxns may be used up");
        return Err(TargetError::Limit { what: address.clone(), text });
    }
    match failed.first() {
        Some((address, error)) => Err(TargetError::Unreachable { address: address.clone(), cause: error.to_string() }),
        None => Err(TargetError::Other("the target has no servers".to_owned())),
    }
}

async fn node(looked: &Looked<'_>, remarks: &mut Vec<String>) -> NodeInfo {
    let server = looked.server;
    let (version, role) = match &looked.srvr {
        Ok(srvr) => (srvr.version.clone(), srvr.mode.clone()),
        Err(error) => {
            remarks.push(format!("{} was left out of the inventory: {error}", server.name));
            (String::new(), "unknown".to_owned())
        }
    };
    let mut node = NodeInfo {
        name: server.name.clone(),
        version,
        role,
        local: is_local(server),
        data_dir: looked.data_dir(),
        data_bytes: looked.dirs.data_bytes,
        log_bytes: looked.dirs.log_bytes,
        znodes: looked.srvr.as_ref().ok().and_then(|srvr| srvr.znodes),
        other_connections: looked.other_connections,
        ..NodeInfo::default()
    };
    node.disk_free_bytes = match &looked.host {
        Some(Ok(host)) => host.disk_free_bytes,
        Some(Err(_)) | None => None,
    };
    if let Some(folder) = node.data_dir.clone().filter(|_| node.local) {
        let free = tokio::task::spawn_blocking(move || sample::disk_free_bytes(folder.as_ref())).await;
        node.disk_free_bytes = free.ok().flatten().or(node.disk_free_bytes);
    }
    if let Some(managed) = &server.managed {
        node.pid = Some(managed.pid);
        if let Err(error) = std::fs::read_dir(managed.data_dir.join("version-2")) {
            remarks.push(format!(
                "{}: snapshots are not sampled, the data directory cannot be read: {error}",
                server.name
            ));
        }
    } else if node.local {
        let address = server.address;
        let listener = tokio::task::spawn_blocking(move || sample::listener(address)).await.ok().flatten();
        match pid_of_java(listener) {
            Ok(pid) => node.pid = Some(pid),
            Err(why) => remarks.push(format!("{}: CPU, memory and disk are not sampled: {why}", server.name)),
        }
    }
    node
}

/// A port of this machine may belong to a tunnel or to a container's proxy: their readings are not the server's.
fn pid_of_java(listener: Option<(u32, String)>) -> Result<u32, String> {
    match listener {
        Some((pid, name)) if name.contains("java") => Ok(pid),
        Some((pid, name)) => Err(format!("process {pid} ({name}) listens there, which is no Java")),
        None => Err("the process that listens there cannot be seen".to_owned()),
    }
}

fn is_local(server: &Server) -> bool {
    // Only an address of this machine can be bound.
    let bindable = |ip: IpAddr| UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok();
    server.managed.is_some() || server.address.ip().is_loopback() || bindable(server.address.ip())
}

fn remark_refusals(looked: &Looked<'_>, remarks: &mut Vec<String>) {
    if looked.srvr.is_err() {
        return;
    }
    let name = &looked.server.name;
    if let Some(Err(error)) = &looked.host {
        remarks.push(format!("{name}: its host is not sampled: {error}"));
    }
    if let Err(error) = &looked.conf {
        remarks.push(format!("{name}: limits are not known: {error}"));
    }
    if let Err(error) = &looked.stats {
        remarks.push(format!("{name}: watches, ephemerals and sessions are not sampled: {error}"));
    }
}

/// Rolling upgrades leave an ensemble so for a while; its figures are of none of the versions.
fn mixed_versions(nodes: &[NodeInfo]) -> Option<String> {
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !node.version.is_empty()) {
        of.entry(&node.version).or_default().push(&node.name);
    }
    let list: Vec<_> = of.iter().map(|(version, names)| format!("{version} on {}", names.join(", "))).collect();
    (of.len() > 1).then(|| format!("the servers run different versions: {}", list.join("; ")))
}

fn sampling(looked: &[Looked<'_>], nodes: &[NodeInfo]) -> Vec<String> {
    let mut lines = Vec::new();
    let source = looked.iter().find_map(|each| each.server.source).map(|ip| format!(" from {ip}")).unwrap_or_default();
    lines.push(format!("srvr every {} s{source}", SRVR_EVERY.as_secs()));
    let mut by: BTreeMap<Source, Vec<&str>> = BTreeMap::new();
    for each in looked {
        if let Ok((_, source)) = &each.stats {
            by.entry(*source).or_default().push(&each.server.name);
        }
    }
    for (source, names) in by {
        let which = if nodes.len() > 1 { format!("; {}", names.join(", ")) } else { String::new() };
        let every = STATS_EVERY.as_secs();
        lines.push(format!("{} every {every} s, less often while it takes over 1 s{which}", source.as_str()));
    }
    for each in looked.iter().filter(|each| matches!(each.host, Some(Ok(_)))) {
        let url = each.server.exporter.as_deref().unwrap_or_default();
        lines.push(format!("{}: its host by {url} every {} s", each.server.name, EXPORTER_EVERY.as_secs()));
    }
    if looked.iter().any(|each| each.server.managed.is_some()) {
        lines.push("GC log every 1 s".to_owned());
        lines.push("snapshot files every 2 s".to_owned());
    }
    if nodes.iter().any(|node| node.pid.is_some()) {
        lines.push("the server's process every 1 s (sysinfo)".to_owned());
    }
    if nodes.iter().any(|node| node.local && node.disk_free_bytes.is_some()) {
        lines.push("free space of the data directory's file system every 1 s".to_owned());
    }
    for node in nodes.iter().filter(|node| uses_interface(node)) {
        lines.push(format!("{}: all traffic of its interface every 1 s, since it counts no bytes itself", node.name));
    }
    lines.push("Rampart's own process every 1 s".to_owned());
    lines
}

/// Whether network use has to be read from the interface: servers count bytes since 3.6.
pub(super) fn uses_interface(node: &NodeInfo) -> bool {
    let mut parts = node.version.split(['.', '-']);
    let numbers = parts.next().zip(parts.next());
    let version = numbers.and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    node.local && version.is_some_and(|version| version < (3, 6))
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
