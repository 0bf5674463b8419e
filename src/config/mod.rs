//! The server's own configuration file: where it listens and stores, which targets and recipes exist.
//! Targets and what may be launched come from here, never from a request alone.

mod read;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;

pub use read::{Document, read_value};

use crate::{
    launch::Recipe,
    model::{Fault, Faults},
    target::TargetSpec,
};

/// A configuration, with built-in recipes where the file names none of that name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    pub server: Server,
    #[serde(default)]
    pub targets: BTreeMap<String, TargetSpec>,
    #[serde(default)]
    pub recipes: BTreeMap<String, Recipe>,
}

/// How the server runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Loopback unless told otherwise; anything else is refused until there are tokens.
    pub listen: SocketAddr,
    pub database: PathBuf,
    /// Where scenario files of the server lie.
    pub scenarios: PathBuf,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7117)),
            database: "rampart.db".into(),
            scenarios: "scenarios".into(),
        }
    }
}

/// Recipes that exist without a configuration file.
const BUILT_IN: &str = include_str!("built_in.toml");

impl Config {
    /// Reads the file, or gives the built-in configuration without one.
    ///
    /// # Errors
    /// Every fault with line, field and what is allowed.
    pub fn load(path: Option<&Path>) -> Result<Self, Faults> {
        let text = match path {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|cause| Fault::new("", format!("{} cannot be read: {cause}", path.display())))?,
            None => String::new(),
        };
        Self::parse(&text)
    }

    /// Reads a configuration's text over the built-in one.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str) -> Result<Self, Faults> {
        let built_in: Self = Document::parse(BUILT_IN)?.read()?;
        let document = Document::parse(text)?;
        let mut config: Self = document.read()?;
        for (name, recipe) in built_in.recipes {
            config.recipes.entry(name).or_insert(recipe);
        }
        let faults: Vec<Fault> = config.faults().into_iter().map(|fault| document.locate(fault)).collect();
        if faults.is_empty() { Ok(config) } else { Err(Faults(faults)) }
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (name, target) in &self.targets {
            let TargetSpec::Zookeeper(zookeeper) = target;
            if zookeeper.servers.is_empty() {
                faults.push(Fault::new(
                    format!("targets.{name}.servers"),
                    "is empty; at least one address:port is needed",
                ));
            }
            let servers = zookeeper.servers.len();
            let lists = [
                ("admin_urls", zookeeper.admin_urls.len()),
                ("metrics_urls", zookeeper.metrics_urls.len()),
                ("node_exporters", zookeeper.node_exporters.len()),
                ("hosts", zookeeper.hosts.len()),
            ];
            // One that is missing would give its neighbour's figures to a server.
            for (key, entries) in lists.into_iter().filter(|(_, entries)| *entries != 0 && *entries != servers) {
                faults.push(Fault::new(
                    format!("targets.{name}.{key}"),
                    format!("has {entries} entries; allowed: {servers}, one a server and in their order, or none"),
                ));
            }
            let chroot = &zookeeper.chroot;
            if !chroot.is_empty() && (!chroot.starts_with('/') || chroot.ends_with('/')) {
                faults.push(Fault::new(
                    format!("targets.{name}.chroot"),
                    format!("is {chroot:?}; allowed: empty, or a path such as \"/staging\" that starts with / and does not end with it"),
                ));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_configuration_is_sound() {
        let config = Config::load(None).unwrap();
        assert!(config.recipes.contains_key("local-small") && config.recipes.contains_key("local"));
        let ensemble = &config.recipes["local-ensemble"];
        assert_eq!((ensemble.nodes, ensemble.heap_mib), (3, 256));
        assert!(config.recipes.values().all(|recipe| recipe.check().is_ok()));
    }

    #[test]
    fn a_target_without_servers_is_named_with_its_line() {
        let faults = Config::parse("[targets.staging]\nkind = \"zookeeper\"\nservers = []\n").unwrap_err();
        assert_eq!(faults.0[0].line, Some(3));
        assert_eq!(faults.0[0].field, "targets.staging.servers");
    }

    #[test]
    fn what_stands_once_a_server_has_an_entry_for_each() {
        let head = "[targets.box]\nkind = \"zookeeper\"\nservers = [\"10.0.0.1:2181\", \"10.0.0.2:2181\"]\n";
        for key in ["admin_urls", "metrics_urls", "node_exporters"] {
            let faults = Config::parse(&format!("{head}{key} = [\"http://10.0.0.2:1\"]\n")).unwrap_err();
            assert_eq!(
                (faults.0[0].line, faults.0[0].field.as_str()),
                (Some(4), format!("targets.box.{key}").as_str())
            );
            assert!(faults.to_string().contains("has 1 entries; allowed: 2"), "{faults}");
        }
        let hosts = "hosts = [{ cores = 16, memory_bytes = 64000000000 }, { name = \"b\", cpu = \"EPYC\" }]\n";
        let TargetSpec::Zookeeper(target) = &Config::parse(&format!("{head}{hosts}")).unwrap().targets["box"];
        assert_eq!((target.hosts[0].cores, target.hosts[1].cpu.as_deref()), (Some(16), Some("EPYC")));
        let faults = Config::parse(&format!("{head}hosts = [{{ core = 16 }}, {{}}]\n")).unwrap_err();
        assert!(faults.to_string().contains("core") && faults.to_string().contains("memory_bytes"), "{faults}");
    }

    #[test]
    fn an_unknown_key_of_the_server_is_an_error() {
        let faults = Config::parse("[server]\nlisen = \"127.0.0.1:1\"\n").unwrap_err();
        assert!(faults.to_string().contains("line 2: server.lisen"), "{faults}");
    }
}
