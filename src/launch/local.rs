//! The launcher `local`: servers as processes of this machine, in a folder of their own, at lower priority than the
//! driver. Everything it starts, it ends; everything it writes, it removes.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::future::join_all;

use super::{
    LaunchError, Launcher, Managed, Recipe,
    orphan::{self, Owner},
    ports::{self, Ports},
    ready::{self, Says},
    server::{Process, Server},
    zookeeper::{self, Node, Peer, Places, Programs},
};
use crate::{
    model::{RunId, Setting},
    target::ManagedNode,
};

/// How often servers are started again with other ports when somebody took one meanwhile.
const PORT_TRIES: usize = 5;
/// For one server, and for the election of several on a machine that they share with the driver.
const READY_WITHIN: Duration = Duration::from_secs(60);
const ENSEMBLE_READY_WITHIN: Duration = Duration::from_secs(120);
/// Servers are asked to end, killed where they do not, and their folder is removed.
pub(super) const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// How long the others wait for the server that shall lead.
const FIRST_UP_WITHIN: Duration = Duration::from_secs(20);
pub(super) const POLL: Duration = Duration::from_millis(50);

/// Starts one standalone ZooKeeper on loopback, or an ensemble on loopback addresses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

#[async_trait]
impl Launcher for Local {
    async fn start(&self, recipe: &Recipe, run: RunId) -> Result<Box<dyn Managed>, LaunchError> {
        recipe.check()?;
        let programs = Programs::find(recipe, &Places::of_environment()).await?;
        let recipe = recipe.clone();
        let mut target = tokio::task::spawn_blocking(move || {
            // What an earlier crash left would share this machine with the measurement.
            let _ = orphan::reap_orphans();
            Target::create(&orphan::managed_base(), run, recipe, programs)
        })
        .await
        .map_err(|error| io_error("preparing a folder", io::Error::other(error)))??;

        let mut tries = 0;
        loop {
            tries += 1;
            match target.start_servers().await? {
                Started::Ready => return Ok(Box::new(target)),
                Started::PortTaken { .. } if tries < PORT_TRIES => {}
                Started::PortTaken { log } => {
                    let text = format!(
                        "no port: {tries} times another process took one between choosing and binding it:\n{log}"
                    );
                    return Err(LaunchError::Missing(text));
                }
            }
        }
    }
}

/// How long so many servers may take until they serve.
const fn ready_within(nodes: u32) -> Duration {
    if nodes > 1 { ENSEMBLE_READY_WITHIN } else { READY_WITHIN }
}

/// How long a start may take: of an ensemble the others wait for the one that shall lead.
pub(super) const fn started_within(nodes: u32) -> Duration {
    let first = if nodes > 1 { FIRST_UP_WITHIN } else { Duration::ZERO };
    first.saturating_add(ready_within(nodes))
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
pub(super) struct Target {
    pub(super) dir: PathBuf,
    pub(super) servers: Vec<Server>,
    recipe: Recipe,
    programs: Programs,
    /// One writer of the owner file at a time.
    owner_file: Mutex<()>,
}

impl Target {
    fn create(base: &Path, run: RunId, recipe: Recipe, programs: Programs) -> Result<Self, LaunchError> {
        let dir = orphan::make_folder(base, run)?;
        Ok(Self { dir, servers: Vec::new(), recipe, programs, owner_file: Mutex::default() })
    }

    fn write_owner(&self) -> Result<(), LaunchError> {
        let _alone = self.owner_file.lock().expect("nothing panics while it writes the owner file");
        let owner = Owner { servers: self.servers.iter().map(Server::owned).collect(), ..Owner::this_process() };
        owner.write(&self.dir).map_err(|error| io_error("writing the owner file", error))
    }

    /// Starts all servers and waits until they serve. On every way out but `Ready`, they are gone again.
    async fn start_servers(&mut self) -> Result<Started, LaunchError> {
        let nodes = self.place()?;
        let result = match self.spawn_all(nodes).await {
            Ok(()) => self.wait_ready().await,
            Err(error) => Err(error),
        };
        if let Ok(Started::Ready) = &result {
            for server in &mut self.servers {
                server.info = Some(describe(&self.recipe, &self.programs, &server.node));
            }
        } else {
            self.servers.iter().for_each(Server::kill);
            for server in self.servers.drain(..) {
                server.reap();
                let _ = fs::remove_dir_all(&server.node.dir);
            }
        }
        result
    }

    /// The server with the highest id is up first: with equal data it then leads, launch after launch, so that what is
    /// compared had the same leader.
    async fn spawn_all(&mut self, nodes: Vec<Node>) -> Result<(), LaunchError> {
        for (at, node) in nodes.into_iter().rev().enumerate() {
            node.write_files(&self.recipe).map_err(|error| io_error("writing a server's files", error))?;
            let process = self.spawn(&node)?;
            self.servers.insert(0, Server::new(node, process));
            self.write_owner()?;
            if at == 0 && self.recipe.nodes > 1 {
                self.wait_up().await;
            }
        }
        Ok(())
    }

    /// Waits until the only server that was started answers, for a while: whether all is well is seen later.
    async fn wait_up(&self) {
        let since = Instant::now();
        while let Some(server) = self.servers.first()
            && since.elapsed() < FIRST_UP_WITHIN
            && server.ended().is_none()
            && matches!(ready::role(server.node.client).await, Says::Nothing(_))
        {
            tokio::time::sleep(POLL).await;
        }
    }

    fn spawn(&self, node: &Node) -> Result<Process, LaunchError> {
        Process::spawn(&self.recipe, &self.programs, node)
            .map_err(|error| io_error(&format!("starting {}", self.programs.java.display()), error))
    }

    /// Chooses the addresses of all servers: each has an IP address of its own.
    fn place(&self) -> Result<Vec<Node>, LaunchError> {
        let (recipe, mut ports) = (&self.recipe, Ports::default());
        let fixed = recipe.zoo_cfg.get("clientPort").and_then(|port| port.parse().ok());
        let mut nodes = Vec::new();
        for id in 1..=u8::try_from(recipe.nodes).unwrap_or(u8::MAX) {
            let host = ports::host(id);
            let client = match fixed.map(|port| (host, port).into()) {
                Some(client) if ports::in_use(client) => {
                    return Err(LaunchError::Missing(format!(
                        "no port: {client} is in use; free it, or leave zoo_cfg.clientPort out of the recipe to get a \
                         free one"
                    )));
                }
                Some(client) => client,
                None => ports.free(host)?,
            };
            let mut free_if = |wanted: bool| wanted.then(|| ports.free(host)).transpose();
            let admin = free_if(zookeeper::wants_admin(recipe))?;
            let metrics = free_if(zookeeper::wants_metrics(recipe, &self.programs))?;
            let (quorum, election) = (free_if(recipe.nodes > 1)?, free_if(recipe.nodes > 1)?);
            let peer = quorum.zip(election).map(|(quorum, election)| Peer { quorum, election });
            let dir = self.dir.join(id.to_string());
            let run_dir = self.dir.clone();
            nodes.push(Node { id, run_dir, dir, client, admin, metrics, peer, peers: Vec::new() });
        }
        let peers: Vec<_> = nodes.iter().filter_map(|node| node.peer).collect();
        nodes.iter_mut().for_each(|node| node.peers.clone_from(&peers));
        Ok(nodes)
    }

    fn within(&self) -> Duration {
        ready_within(self.recipe.nodes)
    }

    /// Waits until all serve, with one leader where there are several.
    async fn wait_ready(&self) -> Result<Started, LaunchError> {
        let since = Instant::now();
        loop {
            if let Some((server, ended)) = self.servers.iter().find_map(|server| Some((server, server.ended()?))) {
                if ended.for_a_port() {
                    return Ok(Started::PortTaken { log: ended.log });
                }
                let (what, status) = (title(&server.name), ended.status.to_string());
                return Err(LaunchError::Died { what, status, log: ended.log });
            }
            let said = join_all(self.servers.iter().map(|server| ready::role(server.node.client))).await;
            if ready::all_serve(&said) && join_all(self.servers.iter().map(Server::listens)).await.iter().all(|it| *it)
            {
                return Ok(Started::Ready);
            }
            if since.elapsed() > self.within() {
                return Err(self.not_ready(&said));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn not_ready(&self, said: &[Says]) -> LaunchError {
        // Of several the one to blame cannot be told: the log of the first that does not serve says most.
        let silent = |(_, says): &(&Server, &Says)| !matches!(says, Says::Role(_));
        let all = || self.servers.iter().zip(said);
        let log = all().find(silent).or_else(|| all().next()).map(|(server, _)| server.quote()).unwrap_or_default();
        let what = all().fold("ZooKeeper on ".to_owned(), |mut text, (server, says)| {
            let _ = write!(text, "{}{} ({says})", if text.ends_with(')') { ", " } else { "" }, server.name);
            text
        });
        LaunchError::NotReady { what, waited_s: self.within().as_secs(), log }
    }

    /// Starts a server that has ended again in its place. On every way out but success the place is as it was.
    pub(super) async fn start_again(&self, server: &Server) -> Result<(), LaunchError> {
        let before = server.replace(self.spawn(&server.node)?);
        let result = match self.write_owner() {
            Ok(()) => self.wait_again(server).await,
            Err(error) => Err(error),
        };
        if result.is_err() {
            server.kill();
            server.reap();
            server.replace(before);
            let _ = self.write_owner();
        }
        result
    }

    async fn wait_again(&self, server: &Server) -> Result<(), LaunchError> {
        let since = Instant::now();
        loop {
            if let Some(ended) = server.ended() {
                let (what, status) = (title(&server.name), ended.status.to_string());
                return Err(LaunchError::Died { what, status, log: ended.log });
            }
            let says = ready::role(server.node.client).await;
            let serves = match &says {
                Says::Role(_) => true,
                // It cannot serve before others run; that it is up is all it can do.
                Says::NotServing => !self.has_quorum(),
                Says::Nothing(_) => false,
            };
            if serves && server.listens().await {
                return Ok(());
            }
            if since.elapsed() > self.within() {
                let what = format!("{} ({says})", title(&server.name));
                return Err(LaunchError::NotReady { what, waited_s: self.within().as_secs(), log: server.quote() });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Whether so many servers run that they can serve.
    fn has_quorum(&self) -> bool {
        let running = self.servers.iter().filter(|server| server.kind() == super::ProcessKind::Running);
        running.count() * 2 > self.servers.len()
    }
}

fn title(server: &str) -> String {
    format!("ZooKeeper on {server}")
}

/// What samplers know of a server, but for its pid.
fn describe(recipe: &Recipe, programs: &Programs, node: &Node) -> ManagedNode {
    let mut settings = zookeeper::settings(recipe, programs);
    if let Some(version) = java_version(&node.gc_log()) {
        settings.push(Setting { name: "java_version".to_owned(), value: version, source: "GC log".to_owned() });
    }
    ManagedNode {
        name: node.client.to_string(),
        pid: 0,
        data_dir: node.data_dir(),
        gc_log: node.gc_log(),
        admin_url: node.admin.map(|admin| format!("http://{admin}")),
        metrics_url: node.metrics.map(|metrics| format!("http://{metrics}/metrics")),
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
