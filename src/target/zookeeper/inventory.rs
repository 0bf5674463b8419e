//! Looks at every server of a ZooKeeper before the load: versions, roles, limits, settings, and what can be sampled.
//! Whether the chroot exists and credentials are accepted shows when the run claims its root.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr, UdpSocket},
};

use futures::future::join_all;
use serde_json::{Map, Value};

use super::{
    four_letter::AskError,
    sampler::{SRVR_EVERY, STATS_EVERY},
    server::Server,
    srvr::Srvr,
    stats::Stats,
    tls,
};
use crate::{
    model::{Inventory, Limit, NodeInfo, Setting},
    sample,
    target::{Condition, TargetError},
};

/// `jute.maxbuffer` where it is not set, in bytes.
const DEFAULT_MAX_BUFFER: u64 = 0xf_ffff;
/// Settings of `conf` that change results, and what `configuration` of the AdminServer calls them.
const CONF: &[(&str, &str)] = &[
    ("maxClientCnxns", "max_client_cnxns"),
    ("tickTime", "tick_time"),
    ("minSessionTimeout", "min_session_timeout"),
    ("maxSessionTimeout", "max_session_timeout"),
];
/// System properties that change results, with ZooKeeper's defaults.
const PROPERTIES: &[(&str, &str, &str)] =
    &[("snapCount", "zookeeper.snapCount", "100000"), ("forceSync", "zookeeper.forceSync", "yes")];
const DEFAULT: &str = "ZooKeeper's default";

/// What one server told.
#[derive(Debug)]
struct Looked<'a> {
    server: &'a Server,
    srvr: Result<Srvr, AskError>,
    /// Settings by their names in `conf`, with their source.
    conf: Result<(BTreeMap<String, String>, &'static str), AskError>,
    stats: Result<(Stats, &'static str), AskError>,
    /// System properties, of an AdminServer of 3.6 or later.
    properties: Option<Map<String, Value>>,
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
    limits_and_settings(&looked, &mut inventory);
    inventory.sampling = sampling(&looked, &inventory.nodes);
    Ok(inventory)
}

async fn look(server: &Server) -> Looked<'_> {
    let srvr = server.srvr().await;
    if let Err(error) = &srvr {
        // The other questions would end alike, each after its own time.
        let (conf, stats) = (Err(error.clone()), Err(error.clone()));
        return Looked { server, srvr, conf, stats, properties: None };
    }
    let conf = conf(server).await;
    let stats = server.stats().await;
    let properties = match &server.admin {
        Some(admin) => admin.ask("system_properties", super::server::SRVR_WITHIN).await.ok(),
        None => None,
    };
    Looked { server, srvr, conf, stats, properties }
}

async fn conf(server: &Server) -> Result<(BTreeMap<String, String>, &'static str), AskError> {
    let refused = match server.four_letter("conf").await {
        Ok(text) => return Ok((parse_conf(&text), "conf")),
        Err(error) => error,
    };
    let Some(admin) = &server.admin else { return Err(refused) };
    let object = admin.ask("configuration", super::server::SRVR_WITHIN).await?;
    let named = CONF.iter().filter_map(|(name, json)| Some(((*name).to_owned(), object.get(*json)?.to_string())));
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
    let mut node = NodeInfo { name: server.name.clone(), version, role, local: is_local(server), pid: None };
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
    if let Err(error) = &looked.conf {
        remarks.push(format!("{name}: limits are not known: {error}"));
    }
    if let Err(error) = &looked.stats {
        remarks.push(format!("{name}: watches, ephemerals and sessions are not sampled: {error}"));
    }
}

fn limits_and_settings(looked: &[Looked<'_>], inventory: &mut Inventory) {
    for (name, _) in CONF {
        let said = looked.iter().filter_map(|each| {
            let (conf, source) = each.conf.as_ref().ok()?;
            Some(Said { node: &each.server.name, value: conf.get(*name)?.clone(), source: (*source).to_owned() })
        });
        add(name, &said.collect::<Vec<_>>(), inventory);
    }
    add("jute.maxbuffer", &property(looked, "jute.maxbuffer", &DEFAULT_MAX_BUFFER.to_string()), inventory);
    for (name, property_name, default) in PROPERTIES {
        add(name, &property(looked, property_name, default), inventory);
    }
    let files = looked.iter().filter_map(|each| {
        let (stats, source) = each.stats.as_ref().ok()?;
        let value = stats.count("max_file_descriptor_count")?.to_string();
        Some(Said { node: &each.server.name, value, source: (*source).to_owned() })
    });
    add("max_file_descriptor_count", &files.collect::<Vec<_>>(), inventory);
    let java = looked.iter().filter(|each| each.server.managed.is_none()).filter_map(|each| {
        let value = each.properties.as_ref()?.get("java.version")?.as_str()?.to_owned();
        Some(Said { node: &each.server.name, value, source: "AdminServer system_properties".to_owned() })
    });
    add("java_version", &java.collect::<Vec<_>>(), inventory);
    for node in looked.iter().filter_map(|each| each.server.managed.as_ref()) {
        for setting in &node.settings {
            if !inventory.settings.contains(setting) {
                inventory.settings.push(setting.clone());
            }
        }
    }
}

/// One server's word on one setting.
#[derive(Debug, Clone)]
struct Said<'a> {
    node: &'a str,
    value: String,
    source: String,
}

/// A system property of every server that can tell it: from the AdminServer, else from the recipe it was launched with.
fn property<'a>(looked: &[Looked<'a>], name: &str, default: &str) -> Vec<Said<'a>> {
    let of = |each: &Looked<'a>| {
        let node = each.server.name.as_str();
        let said = |value: &str, source: &str| Some(Said { node, value: value.to_owned(), source: source.to_owned() });
        if let Some(properties) = &each.properties {
            return match properties.get(name).and_then(Value::as_str) {
                Some(value) => said(value, "AdminServer system_properties"),
                None => said(default, DEFAULT),
            };
        }
        let managed = each.server.managed.as_ref()?;
        // Keys of zoo.cfg that ZooKeeper does not know become properties that begin with `zookeeper.`.
        let key = name.strip_prefix("zookeeper.").map(|key| format!("zoo_cfg.{key}"));
        let names = [key, Some(format!("system_properties.{name}"))];
        let setting = managed.settings.iter().find(|setting| names.iter().flatten().any(|name| *name == setting.name));
        match setting {
            Some(setting) => said(&setting.value, &setting.source),
            None => said(default, DEFAULT),
        }
    };
    looked.iter().filter(|each| each.srvr.is_ok()).filter_map(of).collect()
}

/// What is a limit that a load can meet; the others are settings.
const LIMITS: &[&str] = &["maxClientCnxns", "jute.maxbuffer", "max_file_descriptor_count"];

/// Adds a limit or setting; where servers differ, the tightest limit or the first setting, and a remark.
fn add(name: &str, said: &[Said<'_>], inventory: &mut Inventory) {
    let Some(first) = said.first().cloned() else { return };
    let values: BTreeSet<_> = said.iter().map(|each| each.value.as_str()).collect();
    if values.len() > 1 {
        let list: Vec<_> = said.iter().map(|each| format!("{} on {}", each.value, each.node)).collect();
        inventory.remarks.push(format!("{name} differs between servers: {}", list.join(", ")));
    }
    if !LIMITS.contains(&name) {
        let setting = Setting { name: name.to_owned(), value: first.value, source: first.source };
        inventory.settings.push(setting);
        return;
    }
    let tightest = said.iter().filter_map(|each| Some((limit(&each.value)?, &each.source))).min();
    let (value, source) = match tightest {
        Some((value, source)) => (Some(value), source.clone()),
        None => (None, first.source),
    };
    inventory.limits.push(Limit { name: name.to_owned(), value, source });
}

/// A limit's value; 0 and less mean none. Java reads hexadecimal too.
fn limit(text: &str) -> Option<u64> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    value.filter(|value| *value > 0)
}

fn sampling(looked: &[Looked<'_>], nodes: &[NodeInfo]) -> Vec<String> {
    let mut lines = Vec::new();
    let source = looked.iter().find_map(|each| each.server.source).map(|ip| format!(" from {ip}")).unwrap_or_default();
    lines.push(format!("srvr every {} s{source}", SRVR_EVERY.as_secs()));
    let by: BTreeSet<_> = looked.iter().filter_map(|each| Some(each.stats.as_ref().ok()?.1)).collect();
    for source in by {
        lines.push(format!("{source} every {} s, less often while it takes over 1 s", STATS_EVERY.as_secs()));
    }
    if looked.iter().any(|each| each.server.managed.is_some()) {
        lines.push("GC log every 1 s".to_owned());
        lines.push("snapshot files every 2 s".to_owned());
    }
    if nodes.iter().any(|node| node.pid.is_some()) {
        lines.push("the server's process every 1 s (sysinfo)".to_owned());
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
