//! The launcher `command`: programs of the configuration start, show and stop a target that is somebody else's build or
//! container. Nothing but these programs and addresses comes from the configuration's side, and nothing from a request.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::future::join_all;

use super::{
    CommandRecipe, LaunchError, Launcher, Managed, NodeAction, ProcessKind, ProcessState, Recipe,
    orphan::{self, Owner, Stop},
    process, program,
    ready::{self, Says},
};
use crate::{
    model::RunId,
    target::{ManagedNode, TargetSpec},
};

/// Between two looks whether the target is ready.
const POLL: Duration = Duration::from_millis(200);
/// How long something may take to answer that was there before.
const STRANGER_WITHIN: Duration = Duration::from_millis(500);
/// How long the start command's process may take to end when it is asked to; then it is killed.
pub(super) const TERM_WAIT: Duration = Duration::from_secs(5);
/// Lines of the output that errors quote.
const QUOTED_LINES: usize = 30;
/// In errors, and for the process where it is not one server's.
const START: &str = "the start command";

/// Starts a target by programs of its recipe.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByCommand;

#[async_trait]
impl Launcher for ByCommand {
    async fn start(&self, recipe: &Recipe, run: RunId) -> Result<Box<dyn Managed>, LaunchError> {
        recipe.check()?;
        let Some(command) = recipe.command.as_deref().cloned() else {
            return Err(LaunchError::Missing("the recipe has no table `command`".to_owned()));
        };
        let base = orphan::managed_base();
        let reaped = tokio::task::spawn_blocking(move || {
            // What an earlier crash left may hold the very addresses.
            let _ = orphan::reap_orphans();
            orphan::make_folder(&base, run)
        });
        let dir = reaped.await.map_err(|error| io_error("preparing a folder", std::io::Error::other(error)))??;
        if let Some(server) = somebody(&command.target.servers).await {
            let _ = fs::remove_dir_all(&dir);
            let text =
                format!("{server} is in use: something answers there before the start command ran; end it first");
            return Err(LaunchError::Missing(text));
        }
        let target = Box::new(Target::begin(command, dir)?);
        if let Err(error) = target.wait_ready().await {
            // What failed to start may run half.
            if let Some(also) = target.stop().await {
                tracing::warn!("what was started in vain could not be stopped: {also}");
            }
            return Err(error);
        }
        Ok(target)
    }
}

fn io_error(what: &str, source: std::io::Error) -> LaunchError {
    LaunchError::Io { what: what.to_owned(), source }
}

/// An address at which somebody listens already, whom to measure would be a lie.
async fn somebody(servers: &[SocketAddr]) -> Option<SocketAddr> {
    let answers = join_all(servers.iter().map(|server| async move {
        let connected = tokio::time::timeout(STRANGER_WITHIN, tokio::net::TcpStream::connect(*server)).await;
        matches!(connected, Ok(Ok(_))).then_some(*server)
    }));
    answers.await.into_iter().flatten().next()
}

/// The start command's process.
#[derive(Debug)]
struct Process {
    child: Child,
    started_s: u64,
    on_purpose: bool,
}

impl Process {
    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// What was started. Dropping it stops it and removes its folder.
#[derive(Debug)]
struct Target {
    recipe: CommandRecipe,
    dir: PathBuf,
    stop: Stop,
    log: File,
    process: Mutex<Process>,
    /// One order at a time.
    order: tokio::sync::Mutex<()>,
    /// Whether the stop command has done its work.
    stopped: bool,
}

impl Target {
    /// Runs the start command, once it is written down how to undo it.
    fn begin(recipe: CommandRecipe, dir: PathBuf) -> Result<Self, LaunchError> {
        let folder = dir.display().to_string();
        let stop = Stop {
            argv: recipe.stop.clone(),
            workdir: recipe.workdir.clone(),
            environment: recipe.environment(&folder),
            timeout_s: recipe.timeout_s,
        };
        let started = (|| {
            let owner = Owner { stop: Some(stop.clone()), ..Owner::this_process() };
            owner.write(&dir).map_err(|error| io_error("writing the owner file", error))?;
            let log = File::options().create(true).append(true).read(true).open(dir.join("start.log"));
            let log = log.map_err(|error| io_error("making start.log", error))?;
            Ok((spawn(&recipe, &folder, &log)?, log))
        })();
        match started {
            Ok((process, log)) => {
                let process = Mutex::new(process);
                Ok(Self { recipe, dir, stop, log, process, order: tokio::sync::Mutex::default(), stopped: false })
            }
            Err(error) => {
                // Nothing was started: nothing is to be stopped.
                let _ = fs::remove_dir_all(&dir);
                Err(error)
            }
        }
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().expect("nothing panics while it holds the process")
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.recipe.timeout_s)
    }

    fn quote(&self) -> String {
        program::tail(&self.log, 0, QUOTED_LINES).join("\n")
    }

    async fn wait_ready(&self) -> Result<(), LaunchError> {
        let since = Instant::now();
        loop {
            let ended = self.process().exit_status();
            if let Some(status) = ended.filter(|status| !status.success()) {
                let what = START.to_owned();
                return Err(LaunchError::Died { what, status: status.to_string(), log: self.quote() });
            }
            let left = self.timeout().saturating_sub(since.elapsed());
            let Err(why) = self.ready(left).await? else { return Ok(()) };
            if since.elapsed() + POLL > self.timeout() {
                let what = format!("the target of {START} ({why})");
                return Err(LaunchError::NotReady { what, waited_s: self.recipe.timeout_s, log: self.quote() });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Whether it is ready; if not, why. An error when that cannot even be asked.
    async fn ready(&self, left: Duration) -> Result<Result<(), String>, LaunchError> {
        let dir = self.dir.display().to_string();
        let Some(argv) = &self.recipe.ready else {
            let said = join_all(self.recipe.target.servers.iter().map(|server| self.role(*server))).await;
            let silent = said.iter().zip(&self.recipe.target.servers).find(|(says, _)| !matches!(says, Says::Role(_)));
            return Ok(silent.map_or(Ok(()), |(says, server)| Err(format!("{server}: {says}"))));
        };
        let Some(command) = self.recipe.program(argv, &dir) else { return Ok(Ok(())) };
        match program::succeed("the ready command", command, left.max(POLL)).await {
            Ok(_) => Ok(Ok(())),
            Err(LaunchError::Command { why, output, .. }) => {
                let last = output.lines().next_back().unwrap_or_default();
                Ok(Err(format!("the ready command: {why}; it wrote {last:?}")))
            }
            Err(error) => Err(error),
        }
    }

    async fn role(&self, server: SocketAddr) -> Says {
        let tls = self.recipe.target.tls.as_ref().map(|tls| tls.tls());
        ready::role_over(tls, server).await
    }

    /// Runs the stop command and ends what is left of the start command. Blocks.
    fn end(&mut self) -> Option<LaunchError> {
        if self.stopped {
            return None;
        }
        self.stopped = true;
        self.process().on_purpose = true;
        // A process that has ended is there until its parent asks for its end, and the command may wait for it to go.
        let ask = || {
            self.process().exit_status();
        };
        let mut failed = self.stop.run(ask).err();
        self.end_process();
        // What it put into the background of this machine has inherited the name of the folder.
        if !orphan::end_marked(&self.dir) {
            let why = "processes that it has started do not end".to_owned();
            failed = failed.or(Some(LaunchError::Missing(why)));
        }
        let kept = match &failed {
            None => fs::remove_dir_all(&self.dir).err().map(|error| error.to_string()),
            // The folder says how to stop it: the next start after this process tries again.
            Some(error) => Some(error.to_string()),
        };
        if let Some(why) = kept {
            tracing::warn!(dir = %self.dir.display(), "{} is left: {why}", self.dir.display());
        }
        failed
    }

    /// Ends the start command's process, if the stop command has not.
    fn end_process(&self) {
        let mut process = self.process();
        if process.exit_status().is_none() {
            process::terminate(process.child.id());
        }
        let since = Instant::now();
        while process.exit_status().is_none() && since.elapsed() < TERM_WAIT {
            std::thread::sleep(POLL / 10);
        }
        // An error means that it has ended.
        let _ = process.child.kill();
        let _ = process.child.wait();
    }

    /// What the foreground process is called, which is a server only where there is one.
    fn name(&self) -> String {
        match self.recipe.target.servers.as_slice() {
            [one] => one.to_string(),
            _ => START.to_owned(),
        }
    }
}

fn spawn(recipe: &CommandRecipe, dir: &str, log: &File) -> Result<Process, LaunchError> {
    use std::os::unix::process::CommandExt as _;

    let Some(mut command) = recipe.program(&recipe.start, dir) else {
        return Err(LaunchError::Missing(format!("{START} names no program")));
    };
    let program = command.get_program().to_string_lossy().into_owned();
    let output = || log.try_clone().map_err(|error| io_error("start.log", error));
    // Ctrl-C at the terminal goes to Rampart, which then stops the target in order.
    command.process_group(0).stdin(Stdio::null()).stdout(output()?).stderr(output()?);
    let child = command.spawn().map_err(|error| program::unstarted(START, &program, error))?;
    let started_s = process::look(child.id()).map_or(0, |seen| seen.started_s);
    Ok(Process { child, started_s, on_purpose: false })
}

#[async_trait]
impl Managed for Target {
    fn spec(&self) -> TargetSpec {
        TargetSpec::Zookeeper(self.recipe.target.clone())
    }

    fn nodes(&self) -> Vec<ManagedNode> {
        Vec::new()
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    /// The start command's process, while that is the target: one that ended with 0 has put it elsewhere.
    fn process_states(&self) -> Vec<ProcessState> {
        let mut process = self.process();
        let kind = match process.exit_status() {
            Some(status) if status.success() => return Vec::new(),
            Some(status) if process.on_purpose => ProcessKind::EndedOnPurpose(status.to_string()),
            Some(status) => ProcessKind::Exited(status.to_string()),
            None if process::look(process.child.id()).is_some_and(|seen| seen.stopped) => ProcessKind::Stopped,
            None => ProcessKind::Running,
        };
        vec![ProcessState { node: self.name(), pid: process.child.id(), started_s: process.started_s, kind }]
    }

    fn log_tail(&self, _node: &str, lines: usize) -> Vec<String> {
        program::tail(&self.log, 0, lines)
    }

    async fn control(&self, node: &str, action: NodeAction) -> Result<(), LaunchError> {
        let order = |why: String| LaunchError::Order { node: node.to_owned(), action, why };
        let servers = &self.recipe.target.servers;
        let Some(server) = servers.iter().find(|server| server.to_string() == node) else {
            let names: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
            return Err(order(format!("it is no server of this target; there are {}", names.join(", "))));
        };
        let Some(argv) = self.recipe.for_node(action, node) else {
            return Err(order(format!("this recipe has no command for {action}")));
        };
        let _one_at_a_time = self.order.lock().await;
        let ends = matches!(action, NodeAction::Stop | NodeAction::Kill) && servers.len() == 1;
        let before = std::mem::replace(&mut self.process().on_purpose, ends);
        let Some(command) = self.recipe.program(&argv, &self.dir.display().to_string()) else {
            return Err(order(format!("the command for {action} names no program")));
        };
        let what = format!("the command for {action} of {node}");
        if let Err(error) = program::succeed(&what, command, self.timeout()).await {
            self.process().on_purpose = before;
            return Err(error);
        }
        if action == NodeAction::Start { self.until_up(*server, order).await } else { Ok(()) }
    }

    fn keeps_data(&self) -> bool {
        self.recipe.keeps_data
    }

    async fn stop(mut self: Box<Self>) -> Option<LaunchError> {
        tokio::task::spawn_blocking(move || self.end()).await.ok().flatten()
    }
}

impl Target {
    /// Waits until a server that was started again is up; alone among many it may be that without serving.
    async fn until_up(&self, server: SocketAddr, order: impl Fn(String) -> LaunchError) -> Result<(), LaunchError> {
        let since = Instant::now();
        loop {
            let says = self.role(server).await;
            if matches!(says, Says::Role(_) | Says::NotServing) {
                return Ok(());
            }
            if since.elapsed() > self.timeout() {
                return Err(order(format!("it did not come up within {} s: {says}", self.recipe.timeout_s)));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
