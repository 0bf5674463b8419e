//! Starts, watches and stops targets of a run's own. A launcher is a recipe of a target kind on a host (this machine).
//! Never decides what to launch: recipes come from the configuration.

pub mod recipe;

use std::path::PathBuf;

use async_trait::async_trait;

use crate::{
    model::RunId,
    target::{ManagedNode, TargetSpec},
};
pub use recipe::Recipe;

/// Starts the target that a recipe describes.
#[async_trait]
pub trait Launcher: Send + Sync + std::fmt::Debug {
    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// Names what is missing (Java, ZooKeeper, a port) or quotes the end of the server's log.
    async fn start(&self, recipe: &Recipe, run: RunId) -> Result<Box<dyn Managed>, LaunchError>;
}

/// A launched target. Dropping it kills what runs and removes its folder.
#[async_trait]
pub trait Managed: Send + std::fmt::Debug {
    /// How to reach it.
    fn spec(&self) -> TargetSpec;

    fn nodes(&self) -> &[ManagedNode];

    /// What its processes do right now.
    fn process_states(&self) -> Vec<ProcessState>;

    /// The end of a node's own log, at most `lines` lines, oldest first.
    fn log_tail(&self, node: &str, lines: usize) -> Vec<String>;

    /// Stops all processes and removes all files.
    async fn stop(self: Box<Self>);
}

/// What one process of a managed target does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessState {
    pub node: String,
    pub pid: u32,
    /// Seconds since the epoch at which the process started: with the pid, its identity.
    pub started_s: u64,
    pub kind: ProcessKind,
}

/// Running, stopped by a signal, or gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessKind {
    Running,
    /// SIGSTOP: no load does that.
    Stopped,
    /// It ended; what it ended with.
    Exited(String),
}

/// What a crash left behind: enough to find it and to be sure that it is it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    pub pid: u32,
    pub process_started_s: u64,
    pub dir: PathBuf,
}

/// Ends what a crash left behind, if it is still the same process; tells whether there was anything to end.
#[must_use]
pub fn reap(_orphan: &Orphan) -> bool {
    false
}

/// Why a target could not be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("{0}")]
    Missing(String),
    #[error("{what} did not become ready within {waited_s} s; the end of its log:\n{log}")]
    NotReady { what: String, waited_s: u64, log: String },
    #[error("{what} ended at once ({status}); the end of its log:\n{log}")]
    Died { what: String, status: String, log: String },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("the recipe says {field} = {value}; allowed: {allowed}")]
    Setting { field: String, value: String, allowed: String },
}
