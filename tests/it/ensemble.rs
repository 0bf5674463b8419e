//! Ensembles of real servers, orders to single servers, and a version of Maven Central. Java, ZooKeeper and, for the
//! last, Maven with its network must be there, or these tests fail.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use crate::launch::let_go;
use rampart::{
    analysis::leadership::{Rounds, Said},
    launch::{LaunchError, Managed, NodeAction, ProcessKind, Recipe, launcher, managed_base, reap_orphans},
    model::{Clock, IncidentKind, RunId},
    target::{
        Condition, Sampler,
        zookeeper::{
            four_letter::{AskError, ask, sampler_source},
            srvr::Srvr,
        },
    },
};
use zookeeper_client::{Acls, Client, CreateMode};

const WITHIN: Duration = Duration::from_secs(20);

/// Three small servers that miss each other soon.
fn recipe() -> Recipe {
    let mut recipe = Recipe { nodes: 3, heap_mib: 64, ..Recipe::new("zookeeper") };
    for (key, value) in [("tickTime", "500"), ("syncLimit", "4"), ("initLimit", "40")] {
        recipe.zoo_cfg.insert(key.to_owned(), value.to_owned());
    }
    recipe
}

async fn start(recipe: &Recipe) -> Result<Box<dyn Managed>, LaunchError> {
    launcher(recipe)?.start(recipe, RunId::new()).await
}

async fn srvr(name: &str, within: Duration) -> Result<Srvr, AskError> {
    let address: SocketAddr = name.parse().unwrap();
    ask(address, sampler_source(address), "srvr", within).await.map(|text| Srvr::parse(&text))
}

fn names(managed: &dyn Managed) -> Vec<String> {
    managed.nodes().into_iter().map(|node| node.name).collect()
}

/// Waits until servers have roles, leader first and the names of all as given; tells the leader's name.
async fn until_one_leads(names: &[String]) -> String {
    let mut seen = Vec::new();
    for _ in 0..1_200 {
        seen.clear();
        for name in names {
            seen.push(srvr(name, Duration::from_secs(2)).await.map(|srvr| srvr.mode).unwrap_or_default());
        }
        let leader = seen.iter().position(|mode| mode == "leader");
        if let Some(leader) = leader
            && seen.iter().filter(|mode| *mode == "follower").count() == names.len() - 1
        {
            return names[leader].clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{names:?} stay {seen:?}");
}

async fn until_condition(name: &str, wanted: Condition) {
    let mut seen = None;
    for _ in 0..1_200 {
        let condition =
            srvr(name, Duration::from_secs(2)).await.map_or_else(|error| error.condition(), |_| Condition::Serving);
        if condition == wanted {
            return;
        }
        seen = Some(condition);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} stays {seen:?}");
}

fn kind(managed: &dyn Managed, name: &str) -> ProcessKind {
    managed.process_states().into_iter().find(|state| state.node == name).unwrap().kind
}

fn pid(managed: &dyn Managed, name: &str) -> u32 {
    managed.nodes().into_iter().find(|node| node.name == name).unwrap().pid
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn without(names: &[String], left_out: &str) -> Vec<String> {
    names.iter().filter(|name| *name != left_out).cloned().collect()
}

#[tokio::test]
async fn three_servers_are_one_ensemble_and_the_inventory_says_so() {
    let managed = start(&recipe()).await.unwrap();
    let nodes = managed.nodes();
    let hosts: Vec<_> = nodes.iter().map(|node| node.name.split(':').next().unwrap()).collect();
    assert_eq!(hosts, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let target = managed.spec().open(&nodes);
    let inventory = target.inventory().await.unwrap();
    // Always the same one, so that launches can be compared.
    let roles: Vec<_> = inventory.nodes.iter().map(|node| node.role.as_str()).collect();
    assert_eq!(roles, ["follower", "follower", "leader"], "{inventory:?}");
    assert_eq!(inventory.remarks, Vec::<String>::new());
    for (node, seen) in nodes.iter().zip(&inventory.nodes) {
        assert_eq!((&node.name, Some(node.pid), true), (&seen.name, seen.pid, seen.local));
        assert!(node.gc_log.is_file() && node.data_dir.join("version-2").is_dir());
        assert!(managed.log_tail(&node.name, 500).iter().any(|line| line.contains("INFO")));
        assert!(managed.process_states().iter().any(|state| state.pid == node.pid && state.node == node.name));
        let port = |url: &str| url.rsplit(':').next().unwrap().parse::<u16>().unwrap();
        assert!(port(node.admin_url.as_ref().unwrap()) < 32_768 && port(&node.name) < 32_768);
    }
    assert!(inventory.settings.iter().any(|setting| setting.name == "nodes" && setting.value == "3"));

    let mut of: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let mut serving = Vec::new();
    for sampler in &mut target.samplers(Clock::start(), &inventory) {
        let seen = sampler.sample().await;
        serving.extend(
            seen.conditions.into_iter().filter(|seen| seen.condition == Condition::Serving).map(|seen| seen.node),
        );
        for sample in seen.samples {
            of.entry(sample.node).or_default().insert(sample.metric, sample.value);
        }
    }
    assert_eq!(serving, names(&*managed));
    for node in &nodes {
        let samples = &of[&node.name];
        for metric in ["znodes", "connections", "watches", "sessions", "memory_bytes", "snapshots", "srvr_ms"] {
            assert!(samples.contains_key(metric), "{} has no {metric}: {samples:?}", node.name);
        }
        assert_eq!(samples["heap_max_bytes"], f64::from(64 << 20));
    }

    let dir = managed.dir().to_path_buf();
    assert!(dir.starts_with(managed_base()));
    managed.stop().await;
    assert!(!dir.exists());
    assert!(nodes.iter().all(|node| !lives(node.pid)));
}

#[tokio::test]
async fn a_killed_leader_is_replaced_and_comes_back_as_a_follower() {
    let managed = start(&recipe()).await.unwrap();
    let names = names(&*managed);
    let leader = until_one_leads(&names).await;
    let first = pid(&*managed, &leader);
    managed.control(&leader, NodeAction::Kill).await.unwrap();
    assert_eq!(kind(&*managed, &leader), ProcessKind::EndedOnPurpose("signal: 9 (SIGKILL)".to_owned()));
    assert!(!lives(first));
    let rest = without(&names, &leader);
    let heir = until_one_leads(&rest).await;
    assert_ne!(heir, leader);
    assert!(rest.iter().all(|name| kind(&*managed, name) == ProcessKind::Running));
    let error = managed.control(&leader, NodeAction::Pause).await.unwrap_err().to_string();
    assert_eq!(error, format!("cannot pause {leader}: it has ended (signal: 9 (SIGKILL))"));

    managed.control(&leader, NodeAction::Start).await.unwrap();
    assert_eq!(srvr(&leader, WITHIN).await.unwrap().mode, "follower");
    assert_eq!(kind(&*managed, &leader), ProcessKind::Running);
    let second = pid(&*managed, &leader);
    assert_ne!(first, second);
    let owner: serde_json::Value =
        serde_json::from_slice(&std::fs::read(managed.dir().join("owner.json")).unwrap()).unwrap();
    let written: Vec<_> = owner["servers"].as_array().unwrap().iter().map(|server| &server["pid"]).collect();
    assert_eq!(written, managed.nodes().iter().map(|node| node.pid).collect::<Vec<_>>());
    assert_eq!(until_one_leads(&names).await, heir);

    // Ended by somebody else, it has died.
    let killed = std::process::Command::new("kill").args(["-9", &second.to_string()]).status().unwrap();
    assert!(killed.success());
    for _ in 0..1_000 {
        if kind(&*managed, &leader) != ProcessKind::Running {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(kind(&*managed, &leader), ProcessKind::Exited("signal: 9 (SIGKILL)".to_owned()));
    managed.stop().await;
}

#[tokio::test]
async fn a_paused_follower_is_stopped_and_the_others_serve() {
    let managed = start(&recipe()).await.unwrap();
    let names = names(&*managed);
    let leader = until_one_leads(&names).await;
    let follower = without(&names, &leader).remove(0);
    managed.control(&follower, NodeAction::Pause).await.unwrap();
    assert_eq!(kind(&*managed, &follower), ProcessKind::Stopped);
    let silent = srvr(&follower, Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(silent.condition(), Condition::TimedOut);
    let rest = without(&names, &follower);
    let client = Client::connect(&rest.join(",")).await.unwrap();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/written-without-one", &[], &options).await.unwrap();
    assert_eq!(until_one_leads(&rest).await, leader);
    for (action, why) in [(NodeAction::Pause, "it is paused already"), (NodeAction::Start, "it is paused; resume it")] {
        let error = managed.control(&follower, action).await.unwrap_err().to_string();
        assert_eq!(error, format!("cannot {action} {follower}: {why}"));
    }
    managed.control(&follower, NodeAction::Resume).await.unwrap();
    assert_eq!(kind(&*managed, &follower), ProcessKind::Running);
    assert_eq!(until_one_leads(&names).await, leader);
    let error = managed.control(&follower, NodeAction::Start).await.unwrap_err().to_string();
    assert_eq!(error, format!("cannot start {follower}: it runs"));

    // A halted server ends too, whether it is told alone or with all others.
    managed.control(&follower, NodeAction::Pause).await.unwrap();
    managed.control(&follower, NodeAction::Stop).await.unwrap();
    assert_eq!(kind(&*managed, &follower), ProcessKind::EndedOnPurpose("exit status: 143".to_owned()));
    managed.control(&leader, NodeAction::Pause).await.unwrap();
    let pids: Vec<_> = managed.nodes().iter().map(|node| node.pid).collect();
    managed.stop().await;
    assert!(!pids.into_iter().any(lives));
}

#[tokio::test]
async fn without_a_majority_nothing_is_served_until_it_is_back() {
    let managed = start(&recipe()).await.unwrap();
    let names = names(&*managed);
    managed.control(&names[0], NodeAction::Stop).await.unwrap();
    managed.control(&names[1], NodeAction::Stop).await.unwrap();
    until_condition(&names[2], Condition::NotServing).await;
    assert_eq!(kind(&*managed, &names[2]), ProcessKind::Running, "it lives");
    managed.control(&names[2], NodeAction::Stop).await.unwrap();

    // Alone it cannot serve: being up is all that its start can wait for.
    managed.control(&names[2], NodeAction::Start).await.unwrap();
    assert_eq!(srvr(&names[2], WITHIN).await.unwrap_err().condition(), Condition::NotServing);
    managed.control(&names[0], NodeAction::Start).await.unwrap();
    until_one_leads(&[names[0].clone(), names[2].clone()]).await;
    managed.control(&names[1], NodeAction::Start).await.unwrap();
    until_one_leads(&names).await;
    managed.stop().await;
}

#[tokio::test]
async fn a_port_that_was_taken_meanwhile_is_named() {
    let managed = start(&recipe()).await.unwrap();
    let names = names(&*managed);
    let name = &names[1];
    managed.control(name, NodeAction::Stop).await.unwrap();
    let before = kind(&*managed, name);
    assert_eq!(before, ProcessKind::EndedOnPurpose("exit status: 143".to_owned()));
    let cfg = std::fs::read_to_string(managed.dir().join("2/zoo.cfg")).unwrap();
    let election = cfg.lines().find_map(|line| line.strip_prefix("server.2=127.0.0.2:")?.split(':').nth(1)).unwrap();
    for (what, address) in [("client port", name.clone()), ("election port", format!("127.0.0.2:{election}"))] {
        let thief = std::net::TcpListener::bind(&address).unwrap();
        let error = managed.control(name, NodeAction::Start).await.unwrap_err().to_string();
        let why = format!("its {what} {address} is in use by another process; free it and start it again");
        assert_eq!(error, format!("cannot start {name}: {why}"));
        assert_eq!(kind(&*managed, name), before, "a start that fails leaves things as they were");
        let_go(thief).await;
    }
    managed.control(name, NodeAction::Start).await.unwrap();
    until_one_leads(&names).await;
    let error = managed.control("127.0.0.9:1", NodeAction::Kill).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot kill 127.0.0.9:1: it is no server of this target; there are "), "{error}");
    managed.stop().await;
}

#[tokio::test]
async fn a_start_that_fails_quotes_the_log_and_leaves_the_server_as_it_was() {
    let managed = start(&Recipe { nodes: 1, ..recipe() }).await.unwrap();
    let node = managed.nodes().remove(0);
    managed.control(&node.name, NodeAction::Kill).await.unwrap();
    let cfg = managed.dir().join("1/zoo.cfg");
    let good = std::fs::read_to_string(&cfg).unwrap();
    std::fs::write(&cfg, good.replace("tickTime=500", "tickTime=soon")).unwrap();
    let error = managed.control(&node.name, NodeAction::Start).await.unwrap_err();
    assert!(matches!(&error, LaunchError::Died { log, .. } if log.contains("soon")), "{error}");
    assert_eq!(kind(&*managed, &node.name), ProcessKind::EndedOnPurpose("signal: 9 (SIGKILL)".to_owned()));
    std::fs::write(&cfg, good).unwrap();
    managed.control(&node.name, NodeAction::Start).await.unwrap();
    assert_eq!(srvr(&node.name, WITHIN).await.unwrap().mode, "standalone");
    let pid = pid(&*managed, &node.name);
    drop(managed);
    assert!(!lives(pid), "also the second one goes with the target");
}

#[tokio::test]
async fn an_ensemble_that_cannot_start_quotes_the_log_and_leaves_nothing() {
    let mut recipe = recipe();
    recipe.zoo_cfg.insert("initLimit".to_owned(), "often".to_owned());
    let error = start(&recipe).await.unwrap_err();
    let LaunchError::Died { what, log, .. } = &error else { panic!("{error}") };
    assert!(what.starts_with("ZooKeeper on 127.0.0.") && log.contains("often"), "{error}");
}

#[tokio::test]
async fn servers_of_one_port_have_addresses_of_their_own() {
    let thief = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let port = thief.local_addr().unwrap().port();
    let mut recipe = recipe();
    recipe.zoo_cfg.insert("clientPort".to_owned(), port.to_string());
    let error = start(&recipe).await.unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.2:{port} is in use")), "{error}");
    let_go(thief).await;
    let managed = start(&recipe).await.unwrap();
    assert_eq!(names(&*managed), [1, 2, 3].map(|id| format!("127.0.0.{id}:{port}")));
    managed.stop().await;
}

#[tokio::test]
async fn what_a_crash_left_of_an_ensemble_is_ended_with_what_was_started_again() {
    let managed = start(&recipe()).await.unwrap();
    let names = names(&*managed);
    managed.control(&names[0], NodeAction::Kill).await.unwrap();
    managed.control(&names[0], NodeAction::Start).await.unwrap();
    managed.control(&names[1], NodeAction::Pause).await.unwrap();
    let owner = managed.dir().join("owner.json");
    let mut written: serde_json::Value = serde_json::from_slice(&std::fs::read(&owner).unwrap()).unwrap();
    written["owner_started_s"] = 1.into();
    std::fs::write(&owner, written.to_string()).unwrap();
    // A start of another test may find it first.
    let _ = reap_orphans();
    for _ in 0..3_000 {
        let states = managed.process_states();
        if states.iter().all(|state| matches!(state.kind, ProcessKind::Exited(_))) && !managed.dir().exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}, {}", managed.process_states(), managed.dir().display());
}

#[tokio::test]
async fn a_version_of_maven_central_starts_and_tells_its_metrics() {
    let recipe = Recipe { heap_mib: 96, version: Some("3.9.4".to_owned()), ..Recipe::new("zookeeper") };
    // No Maven, or none that may fetch, fails here with its words.
    let managed = start(&recipe).await.unwrap_or_else(|error| panic!("3.9.4 must be fetched for this test: {error}"));
    let node = managed.nodes().remove(0);
    assert!(srvr(&node.name, WITHIN).await.unwrap().version.starts_with("3.9.4"));
    let url = node.metrics_url.clone().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/metrics"), "{url}");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let text = client.get(&url).send().await.unwrap().error_for_status().unwrap().text().await.unwrap();
    assert!(text.contains("\nznode_count ") && text.contains("jvm_memory_bytes_used{"), "{text}");
    assert!(managed.log_tail(&node.name, 500).iter().any(|line| line.contains("INFO")), "it logs");

    let inventory = managed.spec().open(&managed.nodes()).inventory().await.unwrap();
    assert!(inventory.sampling.iter().any(|line| line.contains("Prometheus provider")), "{:?}", inventory.sampling);
    let setting = |name: &str| inventory.settings.iter().find(|setting| setting.name == name).map(|it| &*it.value);
    assert_eq!(setting("version"), Some("3.9.4"));
    assert!(setting("zoo_cfg.metricsProvider.className").is_some_and(|class| class.contains("Prometheus")));
    managed.stop().await;
}

/// One round of all samplers: the incidents that they and the roles in it tell, and who leads.
async fn look(samplers: &mut [Box<dyn Sampler>], rounds: &mut Rounds) -> (Vec<IncidentKind>, BTreeMap<String, f64>) {
    let (mut kinds, mut leads) = (Vec::new(), BTreeMap::new());
    for sampler in samplers {
        let seen = sampler.sample().await;
        kinds.extend(seen.incidents.iter().map(|incident| incident.kind));
        let leading = seen.samples.into_iter().filter(|sample| sample.metric == "leads");
        leads.extend(leading.map(|sample| (sample.node, sample.value)));
        for condition in seen.conditions {
            let said = condition.role.map_or(Said::Nothing, Said::Role);
            kinds.extend(rounds.take(condition.at_ns, &condition.node, said).iter().map(|incident| incident.kind));
        }
    }
    (kinds, leads)
}

#[tokio::test]
async fn samples_say_who_leads_and_when_nobody_does() {
    let managed = start(&recipe()).await.unwrap();
    let names = names(&*managed);
    let target = managed.spec().open(&managed.nodes());
    let inventory = target.inventory().await.unwrap();
    let roles = inventory.nodes.iter().map(|node| (node.name.clone(), node.role.clone())).collect();
    let mut rounds = Rounds::new(roles);
    let mut samplers = target.samplers(Clock::start(), &inventory);
    let leader = until_one_leads(&names).await;
    let (kinds, leads) = look(&mut samplers, &mut rounds).await;
    assert_eq!(kinds, []);
    assert_eq!((leads.len(), leads.values().sum::<f64>(), leads[&leader]), (3, 1.0, 1.0));

    let others = without(&names, &leader);
    managed.control(&others[0], NodeAction::Kill).await.unwrap();
    managed.control(&others[1], NodeAction::Kill).await.unwrap();
    until_condition(&leader, Condition::NotServing).await;
    let (kinds, leads) = look(&mut samplers, &mut rounds).await;
    assert!(kinds.contains(&IncidentKind::NotOneLeader) && leads.is_empty(), "{kinds:?} {leads:?}");
    assert_eq!(look(&mut samplers, &mut rounds).await.0, [], "told once while it lasts");

    // One of the others leads now, or the same again: what was before is told as it was.
    managed.control(&others[0], NodeAction::Start).await.unwrap();
    let two = without(&names, &others[1]);
    let next = until_one_leads(&two).await;
    let (kinds, leads) = look(&mut samplers, &mut rounds).await;
    assert_eq!(leads[&next], 1.0);
    assert!(kinds.contains(&IncidentKind::Election), "{kinds:?}");
    assert_eq!(kinds.contains(&IncidentKind::RoleChanged), next != leader, "{kinds:?}");
    managed.stop().await;
}
