//! The launcher `command` with a script that starts a real ZooKeeper: in the foreground, in the background, after a crash,
//! and with programs that do not do what they should.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use rampart::{
    config::Config,
    launch::{LaunchError, Managed, NodeAction, ProcessKind, Recipe, launcher},
    model::{IncidentKind, Phase, RunId, Status},
    target::{
        Condition,
        zookeeper::four_letter::{ask, sampler_source},
    },
};
use sysinfo::Signal;
use zk_wire::{Client, ConnectOptions};

use crate::{
    binary::{self, Place, in_phase},
    engine_run::{Run, SMALL, run, scenario, signal},
};

/// Starts ZooKeeper on the port `$2` with data beside this script: `$1` is `foreground`, `background`, or an end.
const SCRIPT: &str = r#"#!/bin/bash
here=$(dirname "$0")
serve="java -Xmx64m -XX:+UseSerialGC -cp /usr/share/java/zookeeper.jar org.apache.zookeeper.server.ZooKeeperServerMain"
case $1 in
foreground|background)
    echo "starting in the $1, with data in $here"
    mkdir -p "$here/data"
    printf 'dataDir=%s/data\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n' "$here" "$2" >"$here/zoo.cfg"
    printf '4lw.commands.whitelist=*\nmaxClientCnxns=0\ntickTime=500\nsnapCount=%s\n' "${RAMPART_SETTING_SNAPCOUNT:-100000}" >>"$here/zoo.cfg"
    echo "$RAMPART_DIR" >"$here/dir"
    if [ "$1" = foreground ]; then echo $$ >"$here/pid"; exec $serve "$here/zoo.cfg"; fi
    $serve "$here/zoo.cfg" >"$here/log" 2>&1 &
    echo $! >"$here/pid";;
stop)
    echo stop >>"$here/stops"
    pid=$(cat "$here/pid" 2>/dev/null) && kill "$pid" 2>/dev/null && while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    true;;
kill)
    kill -9 "$(cat "$here/pid")";;
ready)
    exec 3<>"/dev/tcp/127.0.0.1/$2" && echo srvr >&3 && grep Mode <&3;;
esac
"#;

/// A folder with the script, and a port for its server.
struct Build {
    dir: tempfile::TempDir,
    server: SocketAddr,
}

impl Build {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("zk.sh"), SCRIPT).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { dir, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn call(&self, what: &str) -> String {
        format!("[\"bash\", {:?}, {what:?}, \"{}\"]", self.path("zk.sh"), self.server.port())
    }

    /// A configuration with the recipe `build`.
    fn config(&self, start: &str, more: &str) -> String {
        format!(
            "[recipes.build]\nkind = \"zookeeper\"\nlauncher = \"command\"\nallow = [\"snapCount\"]\n\
             [recipes.build.command]\nstart = {}\nstop = {}\n{more}\n\
             [recipes.build.command.target]\nservers = [\"{}\"]\n",
            self.call(start),
            self.call("stop"),
            self.server
        )
    }

    fn recipe(&self, start: &str, more: &str) -> Recipe {
        Config::parse(&self.config(start, more)).unwrap().recipes["build"].clone()
    }

    /// How often the stop command was run.
    fn stops(&self) -> usize {
        fs::read_to_string(self.path("stops")).unwrap_or_default().lines().count()
    }

    async fn is_gone(&self) -> bool {
        let asked = ask(self.server, sampler_source(self.server), "srvr", Duration::from_secs(10)).await;
        asked.is_err_and(|error| error.condition() == Condition::Unreachable)
    }

    /// The folder that Rampart gave the target.
    fn managed_dir(&self) -> PathBuf {
        fs::read_to_string(self.path("dir")).unwrap().trim().into()
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        binary::kill_all_with(&self.path("zoo.cfg").display().to_string());
    }
}

async fn start(recipe: &Recipe) -> Result<Box<dyn Managed>, LaunchError> {
    launcher(recipe)?.start(recipe, RunId::new()).await
}

const LEVELS: &str = "kind = \"levels\"\nlevels = [2]\nsettle_s = 1\nmeasure_s = 2\nwarm_up_s = 0\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_in_the_foreground_or_the_background_is_measured_and_stopped() {
    for (how, more) in [("foreground", ""), ("background", "env = { A = \"b\" }")] {
        let build = Build::new();
        let ready = format!("ready = {}\n{more}", build.call("ready"));
        // Without its own sign of readiness a server must answer.
        let config = build.config(how, if how == "background" { more } else { &ready });
        let target = "launch = \"build\"\nsettings = { snapCount = 5000 }";
        let verdict = run(&scenario(target, LEVELS, SMALL, ""), &config).await;
        assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(2)), "{how}: {}", verdict.sentence);
        assert!(fs::read_to_string(build.path("zoo.cfg")).unwrap().contains("snapCount=5000\n"));
        assert!(build.is_gone().await, "{how}");
        assert_eq!(build.stops(), 1, "{how}");
        assert!(!build.managed_dir().exists());

        // Its data outlived it, without what the run created.
        let again = start(&build.recipe(how, "")).await.unwrap();
        let mut client = Client::connect(&ConnectOptions::new(build.server), Duration::from_secs(10)).unwrap();
        assert_eq!(client.children("/").unwrap(), ["zookeeper"], "{how}");
        assert!(again.stop().await.is_none());
        assert!(build.is_gone().await, "{how}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreground_process_is_watched_and_a_cancelled_run_stops_it() {
    let build = Build::new();
    let slow = LEVELS.replace("measure_s = 2", "measure_s = 60");
    let mut run = Run::start(&scenario("launch = \"build\"", &slow, SMALL, ""), &build.config("foreground", ""));
    run.phase(Phase::Measuring, 0).await;
    run.cancel.cancel();
    assert_eq!(run.verdict().await.status, Status::Aborted);
    assert!(build.is_gone().await);
    assert_eq!(build.stops(), 1);

    let mut run = Run::start(&scenario("launch = \"build\"", &slow, SMALL, ""), &build.config("foreground", ""));
    run.phase(Phase::Measuring, 0).await;
    signal(fs::read_to_string(build.path("pid")).unwrap().trim().parse().unwrap(), Signal::Kill);
    let verdict = run.verdict().await;
    let died = verdict.steps[0].incidents.iter().find(|incident| incident.kind == IncidentKind::Died);
    assert!(died.is_some_and(|died| died.text.contains(&build.server.to_string())), "{:?}", verdict.steps[0].incidents);
    assert!(run.notes().iter().any(|note| note.contains("is left in the target's data")), "{:?}", run.notes());
    assert_eq!(build.stops(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_rampart_leaves_is_stopped_by_the_next_one() {
    for how in ["foreground", "background"] {
        let build = Build::new();
        let place = Place::new(&[]);
        let config = place.path("rampart.toml");
        fs::write(&config, fs::read_to_string(&config).unwrap() + &build.config(how, "")).unwrap();
        let text = binary::slow_to_measure(&binary::launched("[1]")).replace("\"tiny\"", "\"build\"");
        let server = place.serve(&[]);
        let id = server.submit(&text).await;
        server.until("it measures", &id, |run| in_phase(run, "measuring")).await;
        server.kill();
        assert!(!build.is_gone().await, "it was stopped by nobody");
        assert!(build.managed_dir().exists());

        let server = place.serve(&[]);
        assert!(build.is_gone().await, "{how}");
        assert_eq!(build.stops(), 1, "{how}");
        assert_eq!(place.left_over(), Vec::<String>::new(), "{how}");
        assert_eq!(server.run(&id).await["run"]["state"], "interrupted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_servers_do_what_the_recipe_has_commands_for() {
    let build = Build::new();
    let orders = format!("node_commands = {{ kill = {}, start = {} }}", build.call("kill"), build.call("background"));
    let target = start(&build.recipe("foreground", &orders)).await.unwrap();
    let node = build.server.to_string();
    let refused = target.control(&node, NodeAction::Pause).await.unwrap_err().to_string();
    assert_eq!(refused, format!("cannot pause {node}: this recipe has no command for pause"));
    let refused = target.control("127.0.0.1:1", NodeAction::Kill).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("no server of this target; there are {node}")), "{refused}");
    assert_eq!(target.process_states()[0].kind, ProcessKind::Running);
    target.control(&node, NodeAction::Kill).await.unwrap();
    binary::until("it ends", || matches!(target.process_states()[0].kind, ProcessKind::EndedOnPurpose(_)));
    target.control(&node, NodeAction::Start).await.unwrap();
    assert!(!build.is_gone().await);
    // What a command says that fails is told.
    fs::rename(build.path("pid"), build.path("hidden")).unwrap();
    let failed = target.control(&node, NodeAction::Kill).await.unwrap_err().to_string();
    assert!(failed.contains("the command for kill of") && failed.contains("No such file"), "{failed}");
    fs::rename(build.path("hidden"), build.path("pid")).unwrap();
    assert!(target.stop().await.is_none());
    assert!(build.is_gone().await);
}

/// A recipe of programs that never serve.
fn broken(dir: &Path, start: &str, ready: &str, stop: &str) -> Recipe {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "[recipes.broken]\nkind = \"zookeeper\"\nlauncher = \"command\"\n[recipes.broken.command]\nstart = {start}\n\
         stop = {stop}\n{ready}\nworkdir = {dir:?}\ntimeout_s = 2\n\
         [recipes.broken.command.target]\nservers = [\"{free}\"]\n"
    );
    Config::parse(&text).unwrap().recipes["broken"].clone()
}

const STOPS: &str = "[\"sh\", \"-c\", \"echo $RAMPART_DIR >>stops\"]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_do_not_do_what_they_should_are_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let stops = || fs::read_to_string(dir.path().join("stops")).unwrap_or_default().lines().count();
    let launch = async |program: &str, ready: &str| {
        start(&broken(dir.path(), program, ready, STOPS)).await.map(|_| ()).unwrap_err().to_string()
    };
    let error = launch("[\"/nonexistent/zk\"]", "").await;
    assert_eq!(error, "the start command: there is no program /nonexistent/zk here, neither as a path nor on PATH");
    assert_eq!(stops(), 0, "nothing was started");
    let error = launch("[\"sh\", \"-c\", \"echo no licence; exit 3\"]", "").await;
    assert!(error.contains("the start command ended at once (exit status: 3)"), "{error}");
    assert!(error.ends_with("no licence"), "{error}");
    assert_eq!(stops(), 1, "what failed may run half");
    let error = launch("[\"sh\", \"-c\", \"echo waiting; sleep 300\"]", "").await;
    assert!(error.contains("did not become ready within 2 s") && error.ends_with("waiting"), "{error}");
    let error = launch("[\"true\"]", "ready = [\"sh\", \"-c\", \"echo not yet; exit 1\"]").await;
    assert!(error.contains("sh ended with exit status: 1; it wrote \"not yet\""), "{error}");
    let error = launch("[\"true\"]", "ready = [\"/nonexistent/ready\"]").await;
    assert!(error.contains("there is no program /nonexistent/ready"), "{error}");
    let error = launch("[\"true\"]", "ready = [\"sleep\", \"300\"]").await;
    assert!(error.contains("sleep was not done within") && error.contains("did not become ready"), "{error}");
    assert_eq!(stops(), 5);
    let folders = fs::read_to_string(dir.path().join("stops")).unwrap();
    assert!(folders.lines().all(|folder| !folder.is_empty() && !Path::new(folder).exists()), "{folders}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_command_that_fails_is_told_and_leaves_word_of_itself() {
    let dir = tempfile::tempdir().unwrap();
    let stop = "[\"sh\", \"-c\", \"echo container is busy; exit 7\"]";
    let recipe = broken(dir.path(), "[\"sleep\", \"300\"]", "ready = [\"true\"]", stop);
    let target = start(&recipe).await.unwrap();
    let (folder, pid) = (target.dir().to_path_buf(), target.process_states()[0].pid);
    let failed = target.stop().await.unwrap().to_string();
    assert_eq!(failed, "the stop command: sh ended with exit status: 7; the end of its output:\ncontainer is busy");
    binary::until("the foreground process is gone", || !Path::new(&format!("/proc/{pid}")).exists());
    let owner = fs::read_to_string(folder.join("owner.json")).unwrap();
    assert!(owner.contains("container is busy"), "the next start knows how to stop it: {owner}");
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_server_is_not_measured_and_not_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut recipe = broken(dir.path(), "[\"true\"]", "", STOPS);
    recipe.command.as_mut().unwrap().target.servers = vec![listener.local_addr().unwrap()];
    let error = start(&recipe).await.unwrap_err().to_string();
    assert!(error.contains("something answers there before the start command ran"), "{error}");
    assert!(!dir.path().join("stops").exists());
}
