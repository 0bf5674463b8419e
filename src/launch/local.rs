//! The launcher `local`: servers as processes of this machine, in a folder of their own, at lower priority than the
//! driver. Everything it starts, it ends; everything it writes, it removes.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::{
    LaunchError, Launcher, Managed, ProcessKind, ProcessState, Recipe,
    orphan::{self, Owner, Server},
    process,
    zookeeper::{self, Node, Places, Programs},
};
use crate::{
    model::{RunId, Setting},
    target::{
        ManagedNode, TargetSpec,
        zookeeper::{
            ZookeeperSpec,
            four_letter::{ask, sampler_source},
        },
    },
};

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Below the ephemeral ports, of which any client socket may hold one.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// How often a server is started again with other ports when somebody took one meanwhile.
const PORT_TRIES: usize = 5;
const READY_WITHIN: Duration = Duration::from_secs(60);
const TERM_WAIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);
/// Lines of a log that an error quotes.
const QUOTED_LINES: usize = 30;
/// Bytes read from the end of a log for its tail.
const TAIL_BYTES: u64 = 64 << 10;
/// What the log says when a port was taken between choosing and binding it.
const TAKEN: &[&str] = &["Address already in use", "BindException", "Failed to bind"];

/// Starts one standalone ZooKeeper on loopback.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

#[async_trait]
impl Launcher for Local {
    async fn start(&self, recipe: &Recipe, run: RunId) -> Result<Box<dyn Managed>, LaunchError> {
        recipe.check()?;
        let programs = Programs::find(recipe, &Places::of_environment())?;
        let mut target = tokio::task::spawn_blocking(move || {
            // What an earlier crash left would share this machine with the measurement.
            let _ = orphan::reap_orphans();
            Target::create(&orphan::managed_base(), run)
        })
        .await
        .map_err(|error| io_error("preparing a folder", io::Error::other(error)))??;

        let mut tries = 0;
        loop {
            tries += 1;
            match target.start_server(recipe, &programs).await? {
                Started::Ready => return Ok(Box::new(target)),
                Started::PortTaken { .. } if tries < PORT_TRIES && fixed_port(recipe).is_none() => {}
                Started::PortTaken { log } => return Err(port_taken(recipe, tries, &log)),
            }
        }
    }
}

fn port_taken(recipe: &Recipe, tries: usize, log: &str) -> LaunchError {
    LaunchError::Missing(match fixed_port(recipe) {
        Some(port) => format!(
            "no port: {HOST}:{port} is in use; free it, or leave zoo_cfg.clientPort out of the recipe to get a free one"
        ),
        None => format!("no port: {tries} times another process took one between choosing and binding it:\n{log}"),
    })
}

fn fixed_port(recipe: &Recipe) -> Option<u16> {
    recipe.zoo_cfg.get("clientPort")?.parse().ok()
}

fn io_error(what: &str, source: io::Error) -> LaunchError {
    LaunchError::Io { what: what.to_owned(), source }
}

/// How a start went when it went well, or nearly.
enum Started {
    Ready,
    PortTaken { log: String },
}

/// A folder and the servers in it. Dropping it kills them and removes the folder.
#[derive(Debug)]
struct Target {
    dir: PathBuf,
    servers: Vec<Running>,
    /// The same servers, as samplers know them.
    nodes: Vec<ManagedNode>,
}

/// One process that was started.
#[derive(Debug)]
struct Running {
    name: String,
    log: PathBuf,
    started_s: u64,
    pid: u32,
    /// Behind a lock because asking a child for its end changes it, while `process_states` only looks.
    child: Mutex<Child>,
}

impl Target {
    /// Makes the folder `<base>/<short id>`, or `<short id>-2` and so on while another arm of the run has it.
    fn create(base: &Path, run: RunId) -> Result<Self, LaunchError> {
        orphan::prepare_base(base)?;
        for number in 1..100 {
            let name = if number == 1 { run.short() } else { format!("{}-{number}", run.short()) };
            let dir = base.join(name);
            match fs::create_dir(&dir) {
                Ok(()) => {
                    let target = Self { dir, servers: Vec::new(), nodes: Vec::new() };
                    target.write_owner()?;
                    return Ok(target);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error(&format!("making {}", dir.display()), error)),
            }
        }
        Err(io_error("making a folder", io::Error::other(format!("100 targets of run {} exist", run.short()))))
    }

    fn write_owner(&self) -> Result<(), LaunchError> {
        let server =
            |server: &Running| Server { node: server.name.clone(), pid: server.pid, started_s: server.started_s };
        let owner = Owner { servers: self.servers.iter().map(server).collect(), ..Owner::this_process() };
        owner.write(&self.dir).map_err(|error| io_error("writing the owner file", error))
    }

    /// Starts one more server and waits until it serves. On every way out but `Ready`, it is gone again.
    async fn start_server(&mut self, recipe: &Recipe, programs: &Programs) -> Result<Started, LaunchError> {
        let node = self.place(recipe)?;
        if TcpListener::bind(node.client).is_err() {
            return Ok(Started::PortTaken { log: String::new() });
        }
        let spawned = node.write_files(recipe).and_then(|()| spawn(recipe, programs, &node));
        let child = spawned.map_err(|error| io_error(&format!("starting {}", programs.java.display()), error))?;
        let pid = child.id();
        let name = node.client.to_string();
        let started_s = process::look(pid).map_or(0, |seen| seen.started_s);
        self.servers.push(Running { name, log: node.server_log(), started_s, pid, child: Mutex::new(child) });
        self.write_owner()?;

        let result = self.wait_ready(&node).await;
        match &result {
            Ok(Started::Ready) => self.nodes.push(managed_node(recipe, programs, &node, pid)),
            Ok(Started::PortTaken { .. }) | Err(_) => {
                if let Some(server) = self.servers.pop() {
                    server.kill();
                }
                let _ = fs::remove_dir_all(&node.dir);
            }
        }
        result
    }

    fn place(&self, recipe: &Recipe) -> Result<Node, LaunchError> {
        let client = match fixed_port(recipe) {
            Some(port) => SocketAddr::new(HOST, port),
            None => free_address()?,
        };
        let admin = if zookeeper::wants_admin(recipe) { Some(free_address()?) } else { None };
        let dir = self.dir.join((self.servers.len() + 1).to_string());
        Ok(Node { run_dir: self.dir.clone(), dir, client, admin })
    }

    async fn wait_ready(&self, node: &Node) -> Result<Started, LaunchError> {
        let Some(server) = self.servers.last() else { return Ok(Started::Ready) };
        let what = format!("ZooKeeper on {}", node.client);
        let since = Instant::now();
        loop {
            if let Some(status) = server.exit_status() {
                let log = tail(&server.log, QUOTED_LINES).join("\n");
                if TAKEN.iter().any(|words| log.contains(words)) {
                    return Ok(Started::PortTaken { log });
                }
                return Err(LaunchError::Died { what, status: status.to_string(), log });
            }
            if answers(node).await && listens(server.pid, node.client).await {
                return Ok(Started::Ready);
            }
            if since.elapsed() > READY_WITHIN {
                let log = tail(&server.log, QUOTED_LINES).join("\n");
                return Err(LaunchError::NotReady { what, waited_s: READY_WITHIN.as_secs(), log });
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Whether the server answers `srvr` with a mode: no whitelist can take that word away since 3.5.3.
async fn answers(node: &Node) -> bool {
    let answer = ask(node.client, sampler_source(node.client), "srvr", Duration::from_secs(2)).await;
    answer.is_ok_and(|text| text.contains("Mode:"))
}

/// Whether it is this process that listens there. Somebody else's server may have taken the port and answer just as
/// well. Unknown counts as yes: the process lives, and one that cannot bind its port ends.
async fn listens(pid: u32, address: SocketAddr) -> bool {
    let seen = tokio::task::spawn_blocking(move || {
        let all = listeners::get_all().ok()?;
        Some(all.iter().any(|each| each.process.pid == pid && each.socket.port() == address.port()))
    });
    seen.await.ok().flatten().unwrap_or(true)
}

fn spawn(recipe: &Recipe, programs: &Programs, node: &Node) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;

    let log = fs::OpenOptions::new().create(true).append(true).open(node.server_log())?;
    Command::new("nice")
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
        .spawn()
}

fn managed_node(recipe: &Recipe, programs: &Programs, node: &Node, pid: u32) -> ManagedNode {
    let mut settings = zookeeper::settings(recipe, programs);
    if let Some(version) = java_version(&node.gc_log()) {
        settings.push(Setting { name: "java_version".to_owned(), value: version, source: "GC log".to_owned() });
    }
    ManagedNode {
        name: node.client.to_string(),
        pid,
        data_dir: node.data_dir(),
        gc_log: node.gc_log(),
        admin_url: node.admin.map(|admin| format!("http://{admin}")),
        heap_max_bytes: u64::from(recipe.heap_mib) << 20,
        settings,
    }
}

/// `17.0.15+6-Debian-1deb12u1 (release)` from the head of a GC log.
fn java_version(gc_log: &Path) -> Option<String> {
    let log = fs::read_to_string(gc_log).ok()?;
    let version = log.lines().find_map(|line| line.split_once("[gc,init] Version: "))?.1;
    Some(version.trim().to_owned())
}

/// An address on loopback that nobody holds at this moment.
fn free_address() -> Result<SocketAddr, LaunchError> {
    let mut tried = BTreeSet::new();
    while tried.len() < 200 {
        // A fresh id is a random number without a further dependency.
        let random =
            uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)).as_u128() % u128::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(random).unwrap_or_default();
        let address = SocketAddr::new(HOST, port);
        if tried.insert(port) && TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(LaunchError::Missing(format!("no port: 200 of {HOST}:{}-{} are in use", PORTS.start, PORTS.end - 1)))
}

/// The last lines of a file, oldest first; none when it cannot be read.
fn tail(path: &Path, lines: usize) -> Vec<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};

    let read = || -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<_> = text.lines().map(str::to_owned).collect();
    all[all.len().saturating_sub(lines)..].to_vec()
}

impl Running {
    /// How it ended, if it did.
    fn exit_status(&self) -> Option<ExitStatus> {
        self.child.lock().expect("nothing panics while it holds the child").try_wait().ok().flatten()
    }

    /// Ends it now and waits until it is gone.
    fn kill(&self) {
        let mut child = self.child.lock().expect("nothing panics while it holds the child");
        // An error means that it has ended already.
        let _ = child.kill();
        let _ = child.wait();
    }

    fn state(&self) -> ProcessState {
        let kind = match self.exit_status() {
            Some(status) => ProcessKind::Exited(status.to_string()),
            None if process::look(self.pid).is_some_and(|seen| seen.stopped) => ProcessKind::Stopped,
            None => ProcessKind::Running,
        };
        ProcessState { node: self.name.clone(), pid: self.pid, started_s: self.started_s, kind }
    }
}

#[async_trait]
impl Managed for Target {
    fn spec(&self) -> TargetSpec {
        let addresses = self.nodes.iter().filter_map(|node| node.name.parse().ok());
        TargetSpec::Zookeeper(ZookeeperSpec {
            servers: addresses.collect(),
            chroot: String::new(),
            digest: None,
            admin_urls: self.nodes.iter().filter_map(|node| node.admin_url.clone()).collect(),
            source_addresses: Vec::new(),
        })
    }

    fn nodes(&self) -> &[ManagedNode] {
        &self.nodes
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn process_states(&self) -> Vec<ProcessState> {
        self.servers.iter().map(Running::state).collect()
    }

    fn log_tail(&self, node: &str, lines: usize) -> Vec<String> {
        self.servers
            .iter()
            .find(|server| server.name == node)
            .map(|server| tail(&server.log, lines))
            .unwrap_or_default()
    }

    async fn stop(self: Box<Self>) {
        for server in self.servers.iter().filter(|server| server.exit_status().is_none()) {
            process::terminate(server.pid);
        }
        let since = Instant::now();
        while self.servers.iter().any(|server| server.exit_status().is_none()) && since.elapsed() < TERM_WAIT {
            tokio::time::sleep(POLL).await;
        }
        // Killing what is left and removing gigabytes of snapshots is work for a blocking thread.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.servers.iter().for_each(Running::kill);
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::warn!(dir = %self.dir.display(), "could not remove {}: {error}", self.dir.display());
        }
    }
}
