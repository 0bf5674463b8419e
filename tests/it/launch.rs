//! The launcher against a real ZooKeeper: Java and the server must be installed, or these tests fail.

use std::time::Duration;

use rampart::{
    launch::{LaunchError, Managed, Orphan, ProcessKind, Recipe, launcher, managed_base, reap, reap_orphans},
    model::RunId,
    target::{
        Condition,
        zookeeper::four_letter::{AskError, ask, sampler_source},
    },
};
use sysinfo::{Pid, ProcessesToUpdate, Signal, System};

const WITHIN: Duration = Duration::from_secs(20);

fn recipe() -> Recipe {
    Recipe { heap_mib: 64, ..Recipe::new("zookeeper") }
}

async fn start(recipe: &Recipe) -> Result<Box<dyn Managed>, LaunchError> {
    launcher(recipe)?.start(recipe, RunId::new()).await
}

async fn srvr(managed: &dyn Managed) -> Result<String, AskError> {
    let address = managed.nodes()[0].name.parse().unwrap();
    ask(address, sampler_source(address), "srvr", WITHIN).await
}

fn signal(managed: &dyn Managed, signal: Signal) {
    let pid = Pid::from_u32(managed.nodes()[0].pid);
    let mut system = System::new().unwrap();
    system.refresh_processes(ProcessesToUpdate::Some(&[pid]), true);
    assert_eq!(system.process(pid).unwrap().kill_with(signal), Some(true));
}

/// Waits until the server's process is in a state; the limit only keeps a broken launcher from hanging the tests.
async fn until(managed: &dyn Managed, wanted: impl Fn(&ProcessKind) -> bool) -> ProcessKind {
    for _ in 0..6_000 {
        let kind = managed.process_states().remove(0).kind;
        if wanted(&kind) {
            return kind;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the process stays {:?}", managed.process_states());
}

/// Lets a port go. A process that another test just starts holds a copy of the socket until it runs its program.
pub(super) async fn let_go(listener: std::net::TcpListener) {
    let address = listener.local_addr().unwrap();
    drop(listener);
    for _ in 0..6_000 {
        if std::net::TcpListener::bind(address).is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{address} stays in use");
}

#[tokio::test]
async fn a_server_starts_serves_and_leaves_nothing() {
    let managed = start(&recipe()).await.unwrap();
    let node = managed.nodes()[0].clone();
    assert!(srvr(&*managed).await.unwrap().contains("Mode: standalone"));
    let state = managed.process_states().remove(0);
    assert_eq!((state.kind, state.pid, &state.node), (ProcessKind::Running, node.pid, &node.name));
    assert!(managed.log_tail(&node.name, 200).iter().any(|line| line.contains("INFO")), "the server logs");
    assert!(node.gc_log.is_file());
    assert!(node.data_dir.join("version-2").is_dir());
    assert!(node.settings.iter().any(|setting| setting.name == "java_version"));
    let dir = managed.dir().to_path_buf();
    assert!(dir.starts_with(managed_base()));
    managed.stop().await;
    assert!(!dir.exists());
    assert!(!std::path::Path::new(&format!("/proc/{}", node.pid)).exists());
}

#[tokio::test]
async fn dropping_a_target_kills_it() {
    let managed = start(&recipe()).await.unwrap();
    let (pid, dir) = (managed.nodes()[0].pid, managed.dir().to_path_buf());
    drop(managed);
    assert!(!dir.exists());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test]
async fn a_stopped_server_is_stopped_and_silent() {
    let managed = start(&recipe()).await.unwrap();
    signal(&*managed, Signal::Stop);
    until(&*managed, |kind| *kind == ProcessKind::Stopped).await;
    let address = managed.nodes()[0].name.parse().unwrap();
    let silent = ask(address, None, "srvr", Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(silent.condition(), Condition::TimedOut);
    signal(&*managed, Signal::Continue);
    until(&*managed, |kind| *kind == ProcessKind::Running).await;
    assert!(srvr(&*managed).await.is_ok());
    signal(&*managed, Signal::Kill);
    let exited = until(&*managed, |kind| matches!(kind, ProcessKind::Exited(_))).await;
    assert_eq!(exited, ProcessKind::Exited("signal: 9 (SIGKILL)".to_owned()));
    let gone = srvr(&*managed).await.unwrap_err();
    assert_eq!(gone.condition(), Condition::Unreachable);
    managed.stop().await;
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut recipe = recipe();
    recipe.zoo_cfg.insert("clientPort".to_owned(), port.to_string());
    let error = start(&recipe).await.unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port} is in use")), "{error}");
    let_go(taken).await;
    let managed = start(&recipe).await.unwrap();
    assert_eq!(managed.nodes()[0].name, format!("127.0.0.1:{port}"));
    managed.stop().await;
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_said() {
    let no_java = Recipe { java: Some("/nonexistent/java".to_owned()), ..recipe() };
    let error = start(&no_java).await.unwrap_err();
    assert!(matches!(&error, LaunchError::Missing(text) if text.starts_with("no Java")), "{error}");

    let wrong = Recipe { jvm_args: vec!["-XX:+NoSuchThing".to_owned()], ..recipe() };
    let error = start(&wrong).await.unwrap_err();
    assert!(matches!(&error, LaunchError::Died { log, .. } if log.contains("NoSuchThing")), "{error}");

    let mut no_timeout = recipe();
    no_timeout.zoo_cfg.insert("tickTime".to_owned(), "soon".to_owned());
    let error = start(&no_timeout).await.unwrap_err();
    assert!(matches!(&error, LaunchError::Died { log, .. } if log.contains("soon")), "{error}");
}

#[tokio::test]
async fn a_whitelist_refuses_what_it_does_not_name() {
    let mut recipe = recipe();
    recipe.zoo_cfg.insert("4lw.commands.whitelist".to_owned(), "ruok".to_owned());
    let managed = start(&recipe).await.unwrap();
    let address = managed.nodes()[0].name.parse().unwrap();
    let refused = ask(address, None, "mntr", WITHIN).await.unwrap_err();
    assert_eq!(refused.condition(), Condition::Refused, "{refused}");
    assert!(srvr(&*managed).await.is_ok(), "srvr is always allowed");
    managed.stop().await;
}

#[tokio::test]
async fn at_the_connection_limit_answers_are_empty_from_that_address_only() {
    let mut recipe = recipe();
    recipe.zoo_cfg.insert("maxClientCnxns".to_owned(), "1".to_owned());
    let managed = start(&recipe).await.unwrap();
    let address: std::net::SocketAddr = managed.nodes()[0].name.parse().unwrap();
    let load = tokio::net::TcpStream::connect(address).await.unwrap();
    // The server counts a connection some time after it was accepted.
    loop {
        match ask(address, None, "srvr", WITHIN).await {
            Err(error) if error.condition() == Condition::Empty => break,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(srvr(&*managed).await.is_ok(), "another address of the sampler is another count");
    drop(load);
    managed.stop().await;
}

#[tokio::test]
async fn what_a_crash_left_is_found_and_ended() {
    let managed = start(&recipe()).await.unwrap();
    let owner = managed.dir().join("owner.json");
    let mut written: serde_json::Value = serde_json::from_slice(&std::fs::read(&owner).unwrap()).unwrap();
    assert_eq!(written["owner_pid"], std::process::id());
    assert_eq!(written["servers"][0]["pid"], managed.nodes()[0].pid);
    let _ = reap_orphans();
    assert_eq!(managed.process_states().remove(0).kind, ProcessKind::Running, "its owner lives");

    // The owner's pid belongs to another process now.
    written["owner_started_s"] = 1.into();
    std::fs::write(&owner, written.to_string()).unwrap();
    // A start of another test may find it first.
    let _ = reap_orphans();
    until(&*managed, |kind| matches!(kind, ProcessKind::Exited(_))).await;
    // The other finder may still be removing.
    for _ in 0..1_000 {
        if !managed.dir().exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} is still there", managed.dir().display());
}

#[tokio::test]
async fn an_orphan_of_the_journal_is_ended_only_if_it_is_it() {
    let managed = start(&recipe()).await.unwrap();
    let state = managed.process_states().remove(0);
    let orphan = Orphan { pid: state.pid, process_started_s: state.started_s, dir: managed.dir().to_path_buf() };
    let other =
        Orphan { process_started_s: state.started_s - 100, dir: managed_base().join("other"), ..orphan.clone() };
    let _ = reap(&other);
    assert_eq!(managed.process_states().remove(0).kind, ProcessKind::Running);
    assert!(reap(&orphan));
    until(&*managed, |kind| matches!(kind, ProcessKind::Exited(_))).await;
    assert!(!managed.dir().exists());
}
