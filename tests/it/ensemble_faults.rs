//! Faults of ensembles under a run, with the real engine: what is the target's own doing is never a capacity, and every
//! fault is told in its own words.

use std::{net::SocketAddr, time::Duration};

use rampart::{
    launch::{Managed, NodeAction, Recipe, launcher},
    model::{IncidentKind, Inventory, Outcome, Phase, RunEvent, RunId, Status, StopCode, Trial, Verdict},
    target::zookeeper::{
        four_letter::{ask, sampler_source},
        srvr::Srvr,
    },
};
use sysinfo::Signal;

use crate::engine_run::{Run, alone, exact, planned, recipe, scenario, signal};

const RESTING: &str = "executors = 2\njobs = 3\nshards = 2\nfill_per_s = 20\ntraffic = false\n";
/// Small servers that miss each other soon.
const THREE: &str = "nodes = 3\nzoo_cfg = { tickTime = \"500\", syncLimit = \"4\", initLimit = \"40\" }";

/// The canary's session that was lost with a leader would be counted beside the load's.
const UNGUARDED: &str = "[guards]\ncanary_ms = false\n";

/// An ensemble that a run knows only by its addresses, as somebody else's.
pub struct Ensemble {
    pub managed: Box<dyn Managed>,
    pub names: Vec<String>,
}

impl Ensemble {
    pub async fn start(zoo_cfg: &[(&str, &str)]) -> Self {
        let mut recipe = Recipe { nodes: 3, heap_mib: 128, ..Recipe::new("zookeeper") };
        recipe.jvm_args.push("-XX:+UseSerialGC".to_owned());
        let soon = [("tickTime", "500"), ("syncLimit", "4"), ("initLimit", "40")];
        for (key, value) in soon.iter().chain(zoo_cfg) {
            recipe.zoo_cfg.insert((*key).to_owned(), (*value).to_owned());
        }
        let managed = launcher(&recipe).unwrap().start(&recipe, RunId::new()).await.unwrap();
        let names = managed.nodes().into_iter().map(|node| node.name).collect();
        Self { managed, names }
    }

    /// Its configuration as a target; `more` are further lines.
    pub fn config(&self, more: &str) -> String {
        format!("[targets.zk]\nkind = \"zookeeper\"\nservers = {:?}\n{more}\n", self.names)
    }

    pub async fn control(&self, name: &str, action: NodeAction) {
        self.managed.control(name, action).await.unwrap();
    }

    /// The leader's name, as soon as there is one that all others follow.
    pub async fn leader(&self) -> String {
        for _ in 0..600 {
            let mut modes = Vec::new();
            for name in &self.names {
                modes.push(mode(name).await);
            }
            let followers = modes.iter().filter(|mode| *mode == "follower").count();
            if let Some(leader) = modes.iter().position(|mode| mode == "leader")
                && followers == self.names.len() - 1
            {
                return self.names[leader].clone();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no leader");
    }
}

async fn mode(name: &str) -> String {
    let address: SocketAddr = name.parse().unwrap();
    let answer = ask(address, sampler_source(address), "srvr", Duration::from_secs(2)).await;
    answer.map_or_else(|_| String::new(), |text| Srvr::parse(&text).mode)
}

pub fn inventory(run: &Run) -> Inventory {
    let found = run.seen.iter().find_map(|event| {
        let RunEvent::Inventory { inventory, .. } = event else { return None };
        Some((**inventory).clone())
    });
    found.unwrap()
}

fn outcomes(verdict: &Verdict) -> Vec<(u32, u32, Outcome)> {
    verdict.steps.iter().map(|trial| (trial.step, trial.trial, trial.outcome)).collect()
}

const VOID_THEN_HELD: [(u32, u32, Outcome); 3] =
    [(0, 1, Outcome::Baseline), (1, 1, Outcome::Void), (1, 2, Outcome::Held)];

fn has(trial: &Trial, kind: IncidentKind) -> bool {
    trial.incidents.iter().any(|incident| incident.kind == kind)
}

fn levels(load: u32, measure_s: u32) -> String {
    format!("kind = \"levels\"\nlevels = [{load}]\nsettle_s = 2\nmeasure_s = {measure_s}\n")
}

/// Waits for a trial of step 1 to be measured, and a little longer.
async fn into_measurement(run: &mut Run) {
    run.phase(Phase::Measuring, 1).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_voids_a_trial_once_and_twice_ends_the_run() {
    let _alone = alone().await;
    let ensemble = Ensemble::start(&[]).await;
    for kills in [1, 2] {
        let mut run = Run::start(&scenario("use = \"zk\"", &levels(2, 8), RESTING, UNGUARDED), &ensemble.config(""));
        for _ in 0..kills {
            into_measurement(&mut run).await;
            let leader = ensemble.leader().await;
            ensemble.control(&leader, NodeAction::Kill).await;
            ensemble.control(&leader, NodeAction::Start).await;
        }
        let verdict = run.verdict().await;
        let voided = &verdict.steps[1];
        assert!(has(voided, IncidentKind::Election), "{:#?}", voided.incidents);
        assert_eq!(voided.stop_code, Some(StopCode::TargetUnhealthy));
        assert!(voided.remarks[0].contains("a new leader was elected, epoch "), "{:#?}", voided.remarks);
        assert!(!has(voided, IncidentKind::SessionExpired), "{:#?}", voided.incidents);
        if kills == 1 {
            assert_eq!(outcomes(&verdict), VOID_THEN_HELD, "{}", verdict.sentence);
            exact(&verdict.steps[2]);
            assert_eq!((verdict.status, verdict.exit_code), (Status::NotReached, 0), "{}", verdict.sentence);
        } else {
            assert_eq!((verdict.status, verdict.exit_code), (Status::Failed, 6), "{}", verdict.sentence);
            assert_eq!(verdict.stop_code, StopCode::TargetUnhealthy);
            assert_eq!((verdict.steps.len(), verdict.last_good, verdict.first_bad), (3, None, None));
            assert!(verdict.sentence.contains("a new leader was elected"), "{}", verdict.sentence);
        }
    }
    ensemble.managed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launched_ensemble_whose_leader_is_killed_has_lost_a_server_and_no_capacity_is_told() {
    let _alone = alone().await;
    let load = "kind = \"ramp\"\nstart = 1\nstep = 1\nmax = 3\nsettle_s = 2\nmeasure_s = 6\n";
    let mut run = Run::start(&scenario("launch = \"tiny\"", load, RESTING, ""), &recipe(THREE));
    into_measurement(&mut run).await;
    let leader = inventory(&run).nodes.into_iter().find(|node| node.role == "leader").unwrap();
    signal(leader.pid.unwrap(), Signal::Kill);
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.stop_code, verdict.exit_code), (Status::Failed, StopCode::TargetUnhealthy, 6));
    assert_eq!((verdict.last_good, verdict.first_bad), (None, None), "{}", verdict.sentence);
    assert!(has(&verdict.steps[1], IncidentKind::Died), "{:#?}", verdict.steps[1].incidents);
    assert_eq!(verdict.steps[1].outcome, Outcome::Void);
    let said = format!("{} ended (signal: 9 (SIGKILL))", leader.name);
    assert!(verdict.sentence.contains(&said), "{}", verdict.sentence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_follower_voids_the_trial_and_the_next_one_holds() {
    let _alone = alone().await;
    let mut run = Run::start(&scenario("launch = \"tiny\"", &levels(2, 8), RESTING, ""), &recipe(THREE));
    into_measurement(&mut run).await;
    let follower = inventory(&run).nodes.into_iter().find(|node| node.role == "follower").unwrap();
    signal(follower.pid.unwrap(), Signal::Stop);
    tokio::time::sleep(Duration::from_secs(5)).await;
    signal(follower.pid.unwrap(), Signal::Continue);
    let verdict = run.verdict().await;
    assert_eq!(outcomes(&verdict), VOID_THEN_HELD, "{}", verdict.sentence);
    let said = format!("{} was stopped by a signal (SIGSTOP) from outside", follower.name);
    assert!(verdict.steps[1].remarks[0].contains(&said), "{:#?}", verdict.steps[1].remarks);
    // Its sessions are attached again, to it or to others, with all their watches.
    exact(&verdict.steps[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_is_lost_and_comes_back_voids_the_trial() {
    let _alone = alone().await;
    let ensemble = Ensemble::start(&[]).await;
    let mut run = Run::start(&scenario("use = \"zk\"", &levels(2, 10), RESTING, UNGUARDED), &ensemble.config(""));
    into_measurement(&mut run).await;
    let leader = ensemble.leader().await;
    let others: Vec<_> = ensemble.names.iter().filter(|name| **name != leader).collect();
    for name in &others {
        ensemble.control(name, NodeAction::Pause).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    for name in &others {
        ensemble.control(name, NodeAction::Resume).await;
    }
    let verdict = run.verdict().await;
    assert_eq!(outcomes(&verdict), VOID_THEN_HELD, "{}", verdict.sentence);
    let lost = &verdict.steps[1];
    assert_eq!(lost.stop_code, Some(StopCode::TargetUnhealthy));
    assert!(has(lost, IncidentKind::NotServing), "the leader alone says so: {:#?}", lost.incidents);
    assert!(!has(lost, IncidentKind::SessionExpired), "{:#?}", lost.incidents);
    exact(&verdict.steps[2]);
    ensemble.managed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_that_refuses_four_letter_words_leaves_sums_unknown_and_the_rest_told() {
    let ensemble = Ensemble::start(&[]).await;
    let refusing = ensemble.names[2].clone();
    ensemble.control(&refusing, NodeAction::Stop).await;
    let cfg = ensemble.managed.dir().join("3/zoo.cfg");
    let text = std::fs::read_to_string(&cfg).unwrap();
    assert!(text.contains("4lw.commands.whitelist=*"), "{text}");
    std::fs::write(&cfg, text.replace("4lw.commands.whitelist=*", "4lw.commands.whitelist=ruok")).unwrap();
    ensemble.control(&refusing, NodeAction::Start).await;
    ensemble.leader().await;
    let mut run = Run::start(&scenario("use = \"zk\"", &levels(2, 2), RESTING, ""), &ensemble.config(""));
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.exit_code), (Status::NotReached, 0), "{}", verdict.sentence);
    let remarks = inventory(&run).remarks;
    let said = format!("{refusing}: watches, ephemerals and sessions are not sampled: mntr is not executed");
    assert_eq!(remarks.iter().filter(|remark| remark.contains("are not sampled")).count(), 1, "{remarks:#?}");
    assert!(remarks.iter().any(|remark| remark.starts_with(&said)), "{remarks:#?}");
    let told: Vec<_> = verdict.steps[1].counts.iter().map(|count| (&*count.what, count.observed)).collect();
    let expected = |at: usize| i64::try_from(verdict.steps[1].counts[at].expected).ok();
    // Watches are the sum of all servers: without one of them there is none.
    let want = [("znodes", expected(0)), ("watches", None), ("ephemerals", expected(2)), ("sessions", expected(3))];
    assert_eq!(told, want);
    ensemble.managed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_connections_an_address_are_a_limit_of_the_ensemble_and_no_bottleneck() {
    let ensemble = Ensemble::start(&[("maxClientCnxns", "60")]).await;
    let options = format!("{RESTING}fill = \"fast\"\n");
    // Five sessions a domain, evenly spread over three servers: 180 connections are 36 domains.
    let load = "kind = \"ramp\"\nstart = 30\nstep = 10\nmax = 50\nsettle_s = 1\nmeasure_s = 1\n";
    let config = ensemble.config("source_addresses = [\"127.0.0.1\"]");
    let mut run = Run::start(&scenario("use = \"zk\"", load, &options, ""), &config);
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.stop_code), (Status::Inconclusive, StopCode::LimitReached));
    assert_eq!((verdict.last_good, verdict.first_bad, verdict.exit_code), (Some(30), None, 4), "{}", verdict.sentence);
    exact(&verdict.steps[1]);
    assert!(verdict.sentence.contains("maxClientCnxns allows 60 from one address"), "{}", verdict.sentence);
    assert!(run.notes().join("\n").contains("expect `limit_reached`"), "{:?}", run.notes());
    ensemble.managed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_servers_have_one_leader_and_hold_a_step() {
    let _alone = alone().await;
    let recipe = recipe("nodes = 5");
    let mut run = Run::of(planned(&scenario("launch = \"tiny\"", &levels(3, 2), RESTING, ""), &recipe));
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(3)), "{}", verdict.sentence);
    let inventory = inventory(&run);
    let count = |role: &str| inventory.nodes.iter().filter(|node| node.role == role).count();
    assert_eq!((count("leader"), count("follower"), inventory.nodes.len()), (1, 4, 5), "{:?}", inventory.nodes);
    exact(&verdict.steps[1]);
    assert_eq!(verdict.steps[1].target_nodes().count(), 5, "each has its own readings");
}
