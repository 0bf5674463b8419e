//! One server of a target as a process of this machine: starts it, signals it, tells its state and the end of its log.
//! Knows nothing of the other servers, and waits for nothing but its own process.

use std::{
    fs, io,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard},
};

use super::{
    ProcessKind, ProcessState, Recipe, orphan, process, program,
    zookeeper::{Node, Programs},
};
use crate::target::ManagedNode;

/// Lines of a log that an error quotes.
const QUOTED_LINES: usize = 30;
/// What the log says when a port was taken between choosing and binding it.
const TAKEN: &[&str] = &["Address already in use", "BindException", "Failed to bind"];

/// A place of a server, and the process that is in it now.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) node: Node,
    /// `address:port` of its client port.
    pub(super) name: String,
    /// One order at a time, of which each may wait.
    pub(super) order: tokio::sync::Mutex<()>,
    /// What samplers know of it, without the pid of now; `None` until it was ready once.
    pub(super) info: Option<ManagedNode>,
    /// Behind a lock because asking a child for its end changes it, while `process_states` only looks.
    process: Mutex<Process>,
}

/// One process that was started.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    started_s: u64,
    /// Where the log ended before: what stands before is of another process.
    log_from: u64,
    /// Whether it was told to end.
    on_purpose: bool,
}

impl Process {
    /// Starts the server of a place, whose files are written already.
    pub(super) fn spawn(recipe: &Recipe, programs: &Programs, node: &Node) -> io::Result<Self> {
        use std::os::unix::process::CommandExt;

        let log = fs::OpenOptions::new().create(true).append(true).open(node.server_log())?;
        let log_from = log.metadata()?.len();
        let child = Command::new("nice")
            .args(["-n", "5"])
            .arg(&programs.java)
            .args(node.arguments(recipe, programs))
            // Crash reports of the JVM go to the working folder.
            .current_dir(&node.dir)
            // The recipe alone says what the JVM is started with.
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("JDK_JAVA_OPTIONS")
            .env_remove("_JAVA_OPTIONS")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C at the terminal goes to Rampart, which then stops the server in order.
            .process_group(0)
            .spawn()?;
        let started_s = process::look(child.id()).map_or(0, |seen| seen.started_s);
        Ok(Self { child, started_s, log_from, on_purpose: false })
    }

    /// How it ended, if it did.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// How a process ended that should have become ready.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) log: String,
}

impl Ended {
    /// Whether it ended because somebody else has one of its ports.
    pub(super) fn for_a_port(&self) -> bool {
        TAKEN.iter().any(|words| self.log.contains(words))
    }
}

impl Server {
    pub(super) fn new(node: Node, process: Process) -> Self {
        let name = node.client.to_string();
        Self { node, name, order: tokio::sync::Mutex::default(), info: None, process: Mutex::new(process) }
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().expect("nothing panics while it holds the process")
    }

    pub(super) fn pid(&self) -> u32 {
        self.process().child.id()
    }

    /// As the owner file has it.
    pub(super) fn owned(&self) -> orphan::Server {
        let process = self.process();
        orphan::Server { node: self.name.clone(), pid: process.child.id(), started_s: process.started_s }
    }

    /// Puts another process into the place, and gives the one that was there.
    pub(super) fn replace(&self, process: Process) -> Process {
        std::mem::replace(&mut *self.process(), process)
    }

    /// How its process ended, if it did.
    pub(super) fn ended(&self) -> Option<Ended> {
        let (status, from) = {
            let mut process = self.process();
            (process.exit_status()?, process.log_from)
        };
        Some(Ended { status, log: tail(&self.node.server_log(), from, QUOTED_LINES).join("\n") })
    }

    /// The end of what its present process wrote.
    pub(super) fn quote(&self) -> String {
        let from = self.process().log_from;
        tail(&self.node.server_log(), from, QUOTED_LINES).join("\n")
    }

    /// The end of the log, whichever process wrote it.
    pub(super) fn log_tail(&self, lines: usize) -> Vec<String> {
        tail(&self.node.server_log(), 0, lines)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.process().exit_status().is_some()
    }

    pub(super) fn kind(&self) -> ProcessKind {
        let mut process = self.process();
        match process.exit_status() {
            Some(status) if process.on_purpose => ProcessKind::EndedOnPurpose(status.to_string()),
            Some(status) => ProcessKind::Exited(status.to_string()),
            None if process::look(process.child.id()).is_some_and(|seen| seen.stopped) => ProcessKind::Stopped,
            None => ProcessKind::Running,
        }
    }

    pub(super) fn state(&self) -> ProcessState {
        let kind = self.kind();
        let process = self.process();
        ProcessState { node: self.name.clone(), pid: process.child.id(), started_s: process.started_s, kind }
    }

    /// Asks it to end; also a paused one, which hears nothing until it goes on.
    pub(super) fn terminate(&self) {
        let mut process = self.process();
        process.on_purpose = true;
        // The child is not waited for yet, or the pid might be another's.
        if process.exit_status().is_none() {
            process::terminate(process.child.id());
            process::resume(process.child.id());
        }
    }

    /// Ends it, without waiting until it is gone.
    pub(super) fn kill(&self) {
        let mut process = self.process();
        process.on_purpose = true;
        // An error means that it has ended already.
        let _ = process.child.kill();
    }

    /// Waits until a killed process is gone; blocks.
    pub(super) fn reap(&self) {
        let _ = self.process().child.wait();
    }

    pub(super) fn pause(&self) {
        let mut process = self.process();
        if process.exit_status().is_none() {
            process::pause(process.child.id());
        }
    }

    pub(super) fn resume(&self) {
        let mut process = self.process();
        if process.exit_status().is_none() {
            process::resume(process.child.id());
        }
    }

    /// Whether it is this process that listens on its client port. Somebody else's server may have taken the port and
    /// answer just as well. Unknown counts as yes: the process lives, and one that cannot bind its port ends.
    pub(super) async fn listens(&self) -> bool {
        let (pid, address): (u32, SocketAddr) = (self.pid(), self.node.client);
        let seen = tokio::task::spawn_blocking(move || {
            let all = listeners::get_all().ok()?;
            Some(all.iter().any(|each| each.process.pid == pid && each.socket.port() == address.port()))
        });
        seen.await.ok().flatten().unwrap_or(true)
    }
}

/// The last lines of a log from an offset on, oldest first; none when it cannot be read.
fn tail(path: &Path, from: u64, lines: usize) -> Vec<String> {
    fs::File::open(path).map(|log| program::tail(&log, from, lines)).unwrap_or_default()
}
