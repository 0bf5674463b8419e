//! Drives the real engine against real ZooKeepers and keeps what it tells; a proxy of the tests stands in for a bad network.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rampart::{
    config::Config,
    engine,
    model::{CountCheck, Phase, RunEvent, RunId, Trial, Verdict},
    scenario::{Origin, Plan, Scenario, Surroundings, plan},
    target::zookeeper::four_letter::ask,
};
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// Only keeps a broken engine from hanging the tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// A small domain: enough to see everything, little enough for a busy machine.
pub const SMALL: &str = "executors = 2\njobs = 3\nshards = 2\nfill_per_s = 20\n";

/// Tests whose measurements would disturb each other hold this while they run.
pub async fn alone() -> MutexGuard<'static, ()> {
    static ONE: AsyncMutex<()> = AsyncMutex::const_new(());
    ONE.lock().await
}

/// A scenario of domains. `target`: a line such as `use = "zk"`; `load`: further lines of `[load]`; `options`: lines
/// of `[load.options]`; `rest`: probes, rules and the like.
pub fn scenario(target: &str, load: &str, options: &str, rest: &str) -> String {
    format!(
        "name = \"test\"\n[target]\nkind = \"zookeeper\"\n{target}\n[load]\nworkload = \"zookeeper.domains\"\n{load}\n\
         [load.options]\n{options}\n{rest}\n"
    )
}

/// A configuration whose only target, `zk`, is at this address.
pub fn config(server: SocketAddr, more: &str) -> String {
    format!("[targets.zk]\nkind = \"zookeeper\"\nservers = [\"{server}\"]\n{more}\n")
}

/// A configuration with a recipe `tiny`; `more` are further lines of the recipe.
pub fn recipe(more: &str) -> String {
    format!(
        "[recipes.tiny]\nkind = \"zookeeper\"\nheap_mib = 128\njvm_args = [\"-XX:+UseSerialGC\"]\n\
         allow = [\"heap_mib\", \"zoo_cfg.snapCount\"]\n{more}\n"
    )
}

/// A plan of the local user.
pub fn planned(scenario: &str, config: &str) -> Plan {
    let scenario = Scenario::parse(scenario).unwrap();
    plan(&scenario, &Config::parse(config).unwrap(), Origin::LocalUser, &Surroundings::default()).unwrap()
}

/// A run under way.
pub struct Run {
    pub id: RunId,
    pub seen: Vec<RunEvent>,
    pub cancel: CancellationToken,
    events: mpsc::Receiver<RunEvent>,
    task: JoinHandle<Verdict>,
}

impl Run {
    pub fn start(scenario: &str, config: &str) -> Self {
        Self::of(planned(scenario, config))
    }

    pub fn of(plan: Plan) -> Self {
        let (id, cancel) = (RunId::new(), CancellationToken::new());
        let (sender, events) = mpsc::channel(256);
        let task = tokio::spawn(engine::run(plan, id, sender, cancel.clone()));
        Self { id, seen: Vec::new(), cancel, events, task }
    }

    /// The next event that `wanted` takes. Panics when the run ends before.
    pub async fn until<T>(&mut self, wanted: impl Fn(&RunEvent) -> Option<T>) -> T {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("the engine says nothing");
            let Some(event) = event else {
                let Some(RunEvent::Verdict { verdict, .. }) = self.seen.last() else { panic!("the run is over") };
                panic!("the run is over: {}", verdict.sentence);
            };
            let found = wanted(&event);
            self.seen.push(event);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Waits for a phase of a step.
    pub async fn phase(&mut self, phase: Phase, step: u32) {
        self.until(|event| {
            matches!(event, RunEvent::Phase { phase: now, step: at, .. } if *now == phase && *at == step).then_some(())
        })
        .await;
    }

    /// Waits for the end. The verdict is also the last event.
    pub async fn verdict(&mut self) -> Verdict {
        while let Some(event) = tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("the run does not end")
        {
            self.seen.push(event);
        }
        let verdict = (&mut self.task).await.unwrap();
        let Some(RunEvent::Verdict { verdict: told, .. }) = self.seen.last() else { panic!("{:#?}", self.seen.last()) };
        assert_eq!(**told, verdict);
        verdict
    }

    pub fn notes(&self) -> Vec<&str> {
        self.seen
            .iter()
            .filter_map(|event| {
                let RunEvent::Note { text, .. } = event else { return None };
                Some(text.as_str())
            })
            .collect()
    }
}

/// Executes a scenario to its verdict.
pub async fn run(scenario: &str, config: &str) -> Verdict {
    Run::start(scenario, config).verdict().await
}

/// The pid of the managed server.
pub async fn pid(run: &mut Run) -> u32 {
    run.until(|event| {
        let RunEvent::Launched { pid, .. } = event else { return None };
        Some(*pid)
    })
    .await
}

/// Sends a signal to a process that a run of these tests has launched.
pub fn signal(pid: u32, signal: sysinfo::Signal) {
    let pid = sysinfo::Pid::from_u32(pid);
    let mut system = sysinfo::System::new().unwrap();
    system.refresh_processes(sysinfo::ProcessesToUpdate::Some(&[pid]), true);
    assert_eq!(system.process(pid).unwrap().kill_with(signal), Some(true));
}

/// What the server itself counts: `znode_count`, `watch_count`, `ephemerals_count`, `global_sessions`,
/// `num_alive_connections`.
pub async fn counts(server: SocketAddr) -> BTreeMap<String, i64> {
    let text = ask(server, Some(IpAddr::from([127, 0, 4, 1])), "mntr", Duration::from_secs(20)).await.unwrap();
    let count = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.strip_prefix("zk_")?.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

/// Waits until a count of the server is this.
pub async fn until_counts(server: SocketAddr, what: &str, wanted: impl Fn(i64) -> bool) {
    for _ in 0..1_200 {
        if wanted(counts(server).await[what]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} stays at {}", counts(server).await[what]);
}

/// Sees to it that the server counted exactly what was asked, all of it.
pub fn exact(trial: &Trial) {
    exact_but(trial, "");
}

/// As [`exact`], apart from one count.
pub fn exact_but(trial: &Trial, but: &str) {
    let told: Vec<_> = trial.counts.iter().map(|count| count.what.as_str()).collect();
    assert_eq!(told, ["znodes", "watches", "ephemerals", "sessions"]);
    let differs = |count: &&CountCheck| count.what != but && count.observed != i64::try_from(count.expected).ok();
    let off: Vec<&CountCheck> = trial.counts.iter().filter(differs).collect();
    assert!(off.is_empty(), "step {} at {}: {off:#?}\n{:#?}", trial.step, trial.load, trial.incidents);
}

/// Stands between a run and its server. Connections of the load (from 127.0.1.x) can be cut, held and refused.
pub struct Proxy {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    to: SocketAddr,
    links: Mutex<Vec<(TcpStream, TcpStream)>>,
    /// Nothing of the load passes, and nothing says so.
    held: AtomicBool,
    /// Questions for the long list are not passed on.
    mute: AtomicBool,
    /// So many large packets of the load are still to come of which every other one is lost with its connection.
    lossy: AtomicUsize,
}

impl Proxy {
    pub fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            to,
            links: Mutex::default(),
            held: AtomicBool::new(false),
            mute: AtomicBool::new(false),
            lossy: AtomicUsize::new(0),
        });
        let of_threads = Arc::clone(&shared);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let Ok(far) = TcpStream::connect(of_threads.to) else { continue };
                let is_load = near.peer_addr().is_ok_and(|peer| is_load(peer.ip()));
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                for (from, to, upwards) in [(&near, &far, is_load), (&far, &near, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let shared = Arc::clone(&of_threads);
                    std::thread::spawn(move || pass(from, to, &shared, is_load, upwards));
                }
                if is_load {
                    of_threads.links.lock().unwrap().push((near, far));
                }
            }
        });
        Self { addr, shared }
    }

    /// Cuts every connection of the load; how many there were.
    pub fn cut(&self) -> usize {
        let mut links = std::mem::take(&mut *self.shared.links.lock().unwrap());
        links.retain(|(near, _)| near.peer_addr().is_ok());
        for (near, far) in &links {
            let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
        }
        links.len()
    }

    /// Leaves every `mntr` from here on without an answer.
    pub fn mute(&self) {
        self.shared.mute.store(true, Ordering::Relaxed);
    }

    /// Of so many packets with more than a few requests, every other one does not arrive, and its connection is gone.
    pub fn lose(&self, packets: usize) {
        self.shared.lossy.store(packets, Ordering::Relaxed);
    }

    pub fn still_lossy(&self) -> bool {
        self.shared.lossy.load(Ordering::Relaxed) > 0
    }

    /// Lets nothing of the load pass, or lets it pass again.
    pub fn hold(&self, hold: bool) {
        self.shared.held.store(hold, Ordering::Relaxed);
    }
}

fn is_load(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[..3] == [127, 0, 1])
}

fn pass(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_load: bool, upwards: bool) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).unwrap_or(0);
        if shared.mute.load(Ordering::Relaxed) && bytes[..read] == *b"mntr" {
            continue;
        }
        while is_load && shared.held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let loses = upwards && read > 300 && {
            let left = shared.lossy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            left.is_ok_and(|left| left % 2 == 0)
        };
        if read == 0 || loses || to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
