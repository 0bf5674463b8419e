//! What to launch: a recipe of the configuration, and which of its settings a scenario may change.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{CommandRecipe, command, local};

/// How a target of a run's own is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The target's kind: `zookeeper`.
    pub kind: String,
    /// `local`: processes on this machine; `command`: programs of the configuration.
    #[serde(default = "launcher_local")]
    pub launcher: String,
    /// How many servers: 1 alone, or an ensemble of 3 or 5, each a process with an address of its own.
    #[serde(default = "one")]
    pub nodes: u32,
    /// The version to fetch from Maven Central, such as `3.9.4`, with its Prometheus provider on; `ZOOKEEPER_HOME` or
    /// Debian's package when absent.
    #[serde(default)]
    pub version: Option<String>,
    /// Heap limit of each server, in MiB.
    #[serde(default = "default_heap_mib")]
    pub heap_mib: u32,
    /// Further JVM arguments, such as `-XX:+UseSerialGC`.
    #[serde(default)]
    pub jvm_args: Vec<String>,
    /// Keys of `zoo.cfg`, over the launcher's own.
    #[serde(default)]
    pub zoo_cfg: BTreeMap<String, String>,
    /// System properties, such as `zookeeper.snapCount`.
    #[serde(default)]
    pub system_properties: BTreeMap<String, String>,
    /// The `java` to use; found on PATH when absent.
    #[serde(default)]
    pub java: Option<String>,
    /// What a scenario that comes over the network may set: names as in `[target.settings]`, such as `heap_mib`,
    /// `zoo_cfg.snapCount`, `zoo_cfg.*`. JVM arguments and paths are code execution.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Of the launcher `command` only, which has nothing else but `allow`.
    #[serde(default)]
    pub command: Option<Box<CommandRecipe>>,
}

impl Recipe {
    /// The recipe of a kind with nothing set: launched here, with the default heap.
    #[must_use]
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            launcher: launcher_local(),
            nodes: one(),
            version: None,
            heap_mib: default_heap_mib(),
            jvm_args: Vec::new(),
            zoo_cfg: BTreeMap::new(),
            system_properties: BTreeMap::new(),
            java: None,
            allow: Vec::new(),
            command: None,
        }
    }

    /// The longest that starting it may take until it serves. Fetching a version for the first time comes on top.
    #[must_use]
    pub fn start_within(&self) -> Duration {
        match &self.command {
            Some(command) => Duration::from_secs(command.timeout_s),
            None => local::started_within(self.nodes),
        }
    }

    /// The longest that stopping it may take.
    #[must_use]
    pub fn stop_within(&self) -> Duration {
        match &self.command {
            Some(command) => Duration::from_secs(command.timeout_s) + command::TERM_WAIT,
            None => local::STOPPED_WITHIN,
        }
    }

    /// Whether its data outlive it: then what a run created is removed before it is stopped.
    #[must_use]
    pub fn keeps_data(&self) -> bool {
        self.command.as_ref().is_some_and(|command| command.keeps_data)
    }
}

fn launcher_local() -> String {
    "local".to_owned()
}

const fn one() -> u32 {
    1
}

const fn default_heap_mib() -> u32 {
    1_024
}
