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
    launch::{NamedCommand, Recipe},
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
    /// What a scenario may have run by name.
    #[serde(default)]
    pub commands: BTreeMap<String, NamedCommand>,
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
            let chroot = &zookeeper.chroot;
            if !chroot.is_empty() && (!chroot.starts_with('/') || chroot.ends_with('/')) {
                faults.push(Fault::new(
                    format!("targets.{name}.chroot"),
                    format!("is {chroot:?}; allowed: empty, or a path such as \"/staging\" that starts with / and does not end with it"),
                ));
            }
        }
        for (name, command) in &self.commands {
            if let Err((field, message)) = command.check() {
                faults.push(Fault::new(format!("commands.{name}.{field}"), message));
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
    fn a_command_needs_a_program_and_an_end() {
        let config = Config::parse("[commands.fail-over]\nrun = [\"true\"]\n").unwrap();
        assert_eq!(config.commands["fail-over"].timeout_s, 30);
        for (text, field, line) in [
            ("[commands.a]\nrun = []\n", "commands.a.run", 2),
            ("[commands.a]\nrun = [\"\"]\n", "commands.a.run", 2),
            ("[commands.a]\nrun = [\"x\"]\ntimeout_s = 0\n", "commands.a.timeout_s", 3),
            ("[commands.a]\nrun = [\"x\"]\ntimeout_s = 86401\n", "commands.a.timeout_s", 3),
            ("[commands.a]\nrun = \"x y\"\n", "commands.a.run", 2),
            ("[commands.a]\nrun = [\"x\"]\nshell = true\n", "commands.a.shell", 3),
        ] {
            let faults = Config::parse(text).unwrap_err();
            assert_eq!((faults.0[0].field.as_str(), faults.0[0].line), (field, Some(line)), "{text}: {faults}");
        }
    }

    #[test]
    fn an_unknown_key_of_the_server_is_an_error() {
        let faults = Config::parse("[server]\nlisen = \"127.0.0.1:1\"\n").unwrap_err();
        assert!(faults.to_string().contains("line 2: server.lisen"), "{faults}");
    }
}
