//! Limits and settings of an inventory, out of what servers told. Does no I/O.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{inventory::Looked, server::Source};
use crate::model::{Inventory, Limit, Setting};

/// `jute.maxbuffer` where it is not set, in bytes.
const DEFAULT_MAX_BUFFER: u64 = 0xf_ffff;
/// Settings of `conf` that change results, and what `configuration` of the AdminServer calls them.
pub(super) const CONF: &[(&str, &str)] = &[
    ("maxClientCnxns", "max_client_cnxns"),
    ("tickTime", "tick_time"),
    ("minSessionTimeout", "min_session_timeout"),
    ("maxSessionTimeout", "max_session_timeout"),
];
/// System properties that change results, with ZooKeeper's defaults.
const PROPERTIES: &[(&str, &str, &str)] =
    &[("snapCount", "zookeeper.snapCount", "100000"), ("forceSync", "zookeeper.forceSync", "yes")];
pub(super) const DEFAULT: &str = "ZooKeeper's default";

pub(super) fn limits_and_settings(looked: &[Looked<'_>], inventory: &mut Inventory) {
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
        Some(Said { node: &each.server.name, value, source: source.as_str().to_owned() })
    });
    add("max_file_descriptor_count", &files.collect::<Vec<_>>(), inventory);
    let java = looked.iter().filter(|each| each.server.managed.is_none()).filter_map(|each| {
        let value = each.properties.as_ref()?.get("java.version")?.as_str()?.to_owned();
        Some(Said { node: &each.server.name, value, source: "AdminServer system_properties".to_owned() })
    });
    add("java_version", &java.collect::<Vec<_>>(), inventory);
    // The recipe tells it of a launched one.
    let provider = looked.iter().filter(|each| each.server.managed.is_none()).filter_map(|each| {
        let (_, Source::Prometheus) = each.stats.as_ref().ok()? else { return None };
        let source = each.server.metrics.as_ref().map(|metrics| metrics.url.clone()).unwrap_or_default();
        Some(Said { node: &each.server.name, value: "Prometheus".to_owned(), source })
    });
    add("metricsProvider", &provider.collect::<Vec<_>>(), inventory);
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
