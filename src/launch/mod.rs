//! Starts, watches and stops targets of a run's own. A launcher is a recipe of a target kind on a host (this machine).
//! Never decides what to launch: recipes come from the configuration.

mod command;
mod command_recipe;
mod control;
mod java;
mod local;
mod maven;
pub mod named_command;
mod orphan;
mod ports;
mod process;
mod program;
mod ready;
pub mod recipe;
mod server;
mod settings;
mod zookeeper;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    model::RunId,
    target::{ManagedNode, TargetSpec},
};
pub use command::ByCommand;
pub use command_recipe::CommandRecipe;
pub use java::{InstalledJava, installed as installed_javas};
pub use local::Local;
pub use named_command::NamedCommand;
pub use orphan::{managed_base, reap, reap_orphans};
pub use recipe::Recipe;
pub use settings::{HEAP_MIB, LAUNCHERS, NODES, flat as flat_settings};

/// The launcher of a recipe, which is checked first.
///
/// # Errors
/// [`LaunchError::Setting`] when the recipe is wrong, or names a kind or launcher that does not exist.
pub fn launcher(recipe: &Recipe) -> Result<Box<dyn Launcher>, LaunchError> {
    // The check knows the list of launchers, and that each recipe has what its launcher needs.
    recipe.check()?;
    Ok(if recipe.command.is_some() { Box::new(ByCommand) } else { Box::new(Local) })
}

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
pub trait Managed: Send + Sync + std::fmt::Debug {
    /// How to reach it.
    fn spec(&self) -> TargetSpec;

    /// Its servers with the pids of now, in a fixed order, which is that of [`Managed::process_states`]. None where the
    /// launcher does not know which process is which server's.
    fn nodes(&self) -> Vec<ManagedNode>;

    /// The folder that holds everything it wrote: with a pid and a start time, what an [`Orphan`] is found by.
    /// Empty for a target without one, which is then never reaped.
    fn dir(&self) -> &Path {
        Path::new("")
    }

    /// What its processes do right now.
    fn process_states(&self) -> Vec<ProcessState>;

    /// The end of a node's own log, at most `lines` lines, oldest first.
    fn log_tail(&self, node: &str, lines: usize) -> Vec<String>;

    /// Does something to one server, by its name in [`Managed::nodes`], and waits until it is done: a server that is
    /// stopped or killed is gone, a paused one halted. A started one serves; where so few others run that it cannot, it
    /// is up. Orders to one server follow one another. A start that fails leaves the server as it was before.
    ///
    /// # Errors
    /// [`LaunchError::Order`] when there is no such server, its state does not fit the action, or a port of it was
    /// taken meanwhile; for a start also what [`Launcher::start`] says.
    async fn control(&self, node: &str, action: NodeAction) -> Result<(), LaunchError>;

    /// Whether its data outlive it: then what a run created must be removed before it is stopped.
    fn keeps_data(&self) -> bool {
        false
    }

    /// Stops all processes and removes all files; why that failed, if it did.
    async fn stop(self: Box<Self>) -> Option<LaunchError>;
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
    /// It ended by itself; what it ended with.
    Exited(String),
    /// It ended because [`Managed::control`] told it to; what it ended with.
    EndedOnPurpose(String),
}

/// What can be done to one server of a managed target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeAction {
    /// Asks it to end (SIGTERM).
    Stop,
    /// Ends it at once (SIGKILL).
    Kill,
    /// Halts it where it is (SIGSTOP): it holds its connections and answers nothing.
    Pause,
    /// Lets a halted one go on (SIGCONT).
    Resume,
    /// Starts one that has ended again, with the same data and the same ports.
    Start,
}

impl std::fmt::Display for NodeAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Start => "start",
        })
    }
}

/// What a crash left behind: enough to find it and to be sure that it is it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    pub pid: u32,
    pub process_started_s: u64,
    pub dir: PathBuf,
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
    #[error("cannot {action} {node}: {why}")]
    Order { node: String, action: NodeAction, why: String },
    #[error("{what}: {why}; the end of its output:\n{output}")]
    Command { what: String, why: String, output: String },
    #[error("the recipe says {field} = {value}; allowed: {allowed}")]
    Setting { field: String, value: String, allowed: String },
}
