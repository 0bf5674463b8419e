//! The real binary as a process, in a folder of its own: configuration, database, and the `TMPDIR` under which the
//! targets lie that it launches. What it started is killed when the test ends, however it ends.

use std::{
    fmt::Write as _,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rampart::target::zookeeper::four_letter::{ask, sampler_source};
use serde_json::Value;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, Signal, System, UpdateKind};

/// A bound on what would else hang for ever; says nothing about how long things take.
const HANGS: Duration = Duration::from_secs(180);

/// A scenario of a few seconds: tiny domains at rest, so that a busy machine voids nothing. `%TARGET%` and `%LEVELS%`
/// are put in; everything after `[[probe]]` may be followed by more.
const SMALL: &str = r#"
name = "small"
[target]
kind = "zookeeper"
%TARGET%
[load]
workload = "zookeeper.domains"
kind = "levels"
levels = %LEVELS%
settle_s = 1
measure_s = 2
[load.options]
executors = 2
jobs = 3
shards = 2
fill_per_s = 20
traffic = false
[[probe]]
kind = "zookeeper.latencies"
count = 20
"#;

/// The small scenario on a target of its own.
pub fn launched(levels: &str) -> String {
    SMALL.replace("%TARGET%", "launch = \"tiny\"").replace("%LEVELS%", levels)
}

/// The small scenario on a target of the configuration.
pub fn on(target: &str, levels: &str) -> String {
    SMALL.replace("%TARGET%", &format!("use = \"{target}\"")).replace("%LEVELS%", levels)
}

/// The same, but so long in its fill that a test can do what it wants meanwhile.
pub fn slow_to_fill(scenario: &str) -> String {
    scenario.replace("fill_per_s = 20", "fill_per_s = 2")
}

/// The same, but so long in its measurements of which the first is step 0.
pub fn slow_to_measure(scenario: &str) -> String {
    scenario.replace("measure_s = 2", "measure_s = 120")
}

/// A folder of one test.
#[derive(Debug)]
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// With these targets in its configuration.
    pub fn new(targets: &[(&str, SocketAddr)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        fs::create_dir(dir.path().join("scenarios")).unwrap();
        let mut config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\ndatabase = {:?}\nscenarios = {:?}\n\
             [recipes.tiny]\nkind = \"zookeeper\"\nlauncher = \"local\"\nheap_mib = 64\nallow = [\"heap_mib\"]\n",
            dir.path().join("rampart.db"),
            dir.path().join("scenarios"),
        );
        for (name, address) in targets {
            let _ = writeln!(config, "[targets.{name}]\nkind = \"zookeeper\"\nservers = [\"{address}\"]");
        }
        fs::write(dir.path().join("rampart.toml"), config).unwrap();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a scenario file; gives its path.
    pub fn scenario(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path("scenarios").join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn tmp(&self) -> PathBuf {
        self.path("tmp")
    }

    /// Starts the binary with these arguments; its output goes to files.
    pub fn start(&self, arguments: &[&str]) -> Process {
        let out = tempfile::tempdir_in(self.dir.path()).unwrap();
        let file = |name: &str| File::create(out.path().join(name)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart"));
        for name in ["RAMPART_DB", "RAMPART_LISTEN", "RAMPART_LOG", "RAMPART_SCENARIOS", "RAMPART_URL"] {
            command.env_remove(name);
        }
        let child = command
            .args(arguments)
            .env("TMPDIR", self.tmp())
            .env("RAMPART_CONFIG", self.path("rampart.toml"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Process { child, out }
    }

    /// Runs the binary to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// Starts the server and waits until it serves.
    pub fn serve(&self, arguments: &[&str]) -> Server {
        let process = self.start(&[&["serve"], arguments].concat());
        let mut base = None;
        until("the server tells its address", || {
            base = process.stderr().split("serves on ").nth(1).and_then(|rest| {
                let (url, _) = rest.split_once(' ')?;
                Some(url.to_owned())
            });
            assert!(base.is_some() || process.lives(), "the server ended: {}", process.stderr());
            base.is_some()
        });
        Server { process, base: base.unwrap() }
    }

    /// The pids of servers that were launched in this place and still run.
    pub fn launched(&self) -> Vec<u32> {
        let mark = format!("-Drampart.dir={}", self.tmp().display());
        processes(ProcessesToUpdate::All)
            .processes()
            .iter()
            .filter(|(_, process)| process.cmd().iter().any(|word| word.to_string_lossy().starts_with(&mark)))
            .map(|(pid, _)| pid.as_u32())
            .collect()
    }

    /// What is left of everything that was launched: nothing, after whatever end.
    pub fn left_over(&self) -> Vec<String> {
        let mut left: Vec<String> = self.launched().iter().map(|pid| format!("process {pid}")).collect();
        left.extend(files(&self.tmp().join("rampart-managed")));
        left
    }

    /// What runs have left in the folder for temporary files.
    pub fn scratch(&self) -> Vec<String> {
        let all = files(&self.tmp());
        all.into_iter().filter(|path| !path.ends_with("rampart-managed")).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for pid in self.launched() {
            signal(pid, Signal::Kill);
        }
    }
}

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

/// Kills every process that carries this on its command line: the path of a folder that only it was given.
pub fn kill_all_with(mark: &str) {
    for (pid, process) in processes(ProcessesToUpdate::All).processes() {
        if process.cmd().iter().any(|word| word.to_string_lossy().contains(mark)) {
            signal(pid.as_u32(), Signal::Kill);
        }
    }
}

fn processes(which: ProcessesToUpdate<'_>) -> System {
    let mut system = System::new().unwrap();
    let kind = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always).without_tasks();
    system.refresh_processes_specifics(which, true, kind);
    system
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_u32(pid);
    if let Some(process) = processes(ProcessesToUpdate::Some(&[pid])).process(pid) {
        process.kill_with(signal);
    }
}

/// Waits until something holds; fails with its name when it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < HANGS, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that is killed with the test.
#[derive(Debug)]
pub struct Process {
    child: Child,
    out: tempfile::TempDir,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The only JSON document of the standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        fs::read_to_string(self.out.path().join("stdout")).unwrap()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(self.out.path().join("stderr")).unwrap()
    }

    pub fn lives(&self) -> bool {
        !matches!(
            processes(ProcessesToUpdate::Some(&[Pid::from_u32(self.child.id())]))
                .process(Pid::from_u32(self.child.id()))
                .map(sysinfo::Process::status),
            None | Some(sysinfo::ProcessStatus::Zombie | sysinfo::ProcessStatus::Dead)
        )
    }

    pub fn signal(&self, which: Signal) {
        signal(self.child.id(), which);
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let mut status = None;
        let since = Instant::now();
        while status.is_none() {
            assert!(since.elapsed() < HANGS, "it does not end: {}\n{}", self.stdout(), self.stderr());
            status = self.child.try_wait().unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        let code = status.and_then(|status| status.code());
        Ended { code, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that serves.
#[derive(Debug)]
pub struct Server {
    pub process: Process,
    pub base: String,
}

impl Server {
    pub async fn text(&self, path: &str) -> String {
        let answer = reqwest::get(format!("{}{path}", self.base)).await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status}: {text}");
        text
    }

    pub async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path).await).unwrap()
    }

    /// Posts a scenario; gives status and body.
    pub async fn post(&self, path: &str, kind: &str, body: String) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.base)).header("content-type", kind);
        let answer = request.body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Asks for a run; gives its id.
    pub async fn submit(&self, scenario: &str) -> String {
        let (status, body) = self.post("/api/v1/runs", "application/toml", scenario.to_owned()).await;
        assert_eq!(status, 202, "{body}");
        body["run"]["id"].as_str().unwrap().to_owned()
    }

    pub async fn run(&self, id: &str) -> Value {
        self.json(&format!("/api/v1/runs/{id}")).await
    }

    /// Waits until a run looks as wanted; gives it.
    pub async fn until(&self, what: &str, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let run = self.run(id).await;
            if wanted(&run) {
                return run;
            }
            let brief = (&run["run"], &run["phase"], &run["notes"]);
            assert!(since.elapsed() < HANGS, "never: {what}; {brief:?}\n{}", self.process.stderr());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a run is over; gives it.
    pub async fn over(&self, id: &str) -> Value {
        let state = |run: &Value| run["run"]["state"].as_str().unwrap().to_owned();
        self.until("the run is over", id, |run| matches!(state(run).as_str(), "finished" | "interrupted")).await
    }

    /// Ends it as nothing can be ended more suddenly.
    pub fn kill(self) {
        self.process.signal(Signal::Kill);
        self.process.end();
    }
}

/// Whether a run is in a phase.
pub fn in_phase(run: &Value, phase: &str) -> bool {
    run["phase"]["phase"] == phase
}

/// The names of the znodes on a server's top that runs have made, and how many znodes it has.
pub async fn znodes(address: SocketAddr) -> u64 {
    let text = ask(address, sampler_source(address), "srvr", Duration::from_secs(10)).await.unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix("Node count: ")).unwrap();
    count.trim().parse().unwrap()
}
