//! Actions of a scenario on real ensembles: a server is killed, paused or restarted while a load is on it, and the run says
//! what was still carried and how long recovery took.

use std::net::TcpListener;

use rampart::model::{ActionReport, Deed, Outcome, Phase, RunEvent, Status, StopCode, Trial, Verdict};

use crate::{
    engine_run::{Run, SMALL, alone, scenario},
    launch::let_go,
};

/// Three small servers that miss each other soon.
const ENSEMBLE: &str = "[recipes.three]\nkind = \"zookeeper\"\nnodes = 3\nheap_mib = 64\njvm_args = [\"-XX:+UseSerialGC\"]\n\
     zoo_cfg = { tickTime = \"500\", syncLimit = \"4\", initLimit = \"40\" }\n[commands.note]\nrun = [\"sh\", \"-c\", \"echo done\"]\n\
     [commands.break]\nrun = [\"sh\", \"-c\", \"echo no such host; exit 4\"]\n";
const LEVELS: &str = "kind = \"levels\"\nlevels = [1, 2]\nsettle_s = 3\nmeasure_s = 3\nwarm_up_s = 0\n";
const PROBE: &str = "[[probe]]\nkind = \"zookeeper.latencies\"\ncount = 50\nrounds = 2\n";

fn with(action: &str) -> String {
    let options = format!("{SMALL}session_timeout_ms = 8000\ntraffic_factor = 20\n");
    scenario("launch = \"three\"", LEVELS, &options, &format!("{PROBE}[[action]]\n{action}\n"))
}

fn of_action(verdict: &Verdict) -> (&Trial, &ActionReport) {
    let trial = verdict.steps.iter().find(|trial| trial.action.is_some()).expect("no action was done");
    (trial, trial.action.as_ref().unwrap())
}

/// The loads of plain trials, with what became of them.
fn plain(verdict: &Verdict) -> Vec<(u64, Outcome)> {
    verdict.steps.iter().filter(|trial| trial.action.is_none()).map(|trial| (trial.load, trial.outcome)).collect()
}

const HELD: [(u64, Outcome); 3] = [(0, Outcome::Baseline), (1, Outcome::Held), (2, Outcome::Held)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_a_trial_of_its_own_with_its_recovery_and_the_run_goes_on() {
    let _alone = alone().await;
    let mut run = Run::start(&with("do = \"kill\"\nnode = \"leader\"\nat = 1"), ENSEMBLE);
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.exit_code), (Status::NotReached, 0), "{}", verdict.sentence);
    assert_eq!(plain(&verdict), HELD);
    let (trial, report) = of_action(&verdict);
    assert_eq!((trial.load, trial.step, trial.trial, trial.outcome), (1, 1, 2, Outcome::Held), "{trial:#?}");
    assert_eq!((report.deed, report.victims.len(), report.victims[0].role.as_str()), (Deed::Kill, 1, "leader"));
    let (served_s, whole_s) = (report.served_s.unwrap(), report.recovery_s.unwrap());
    assert!(0.05 < served_s && served_s <= whole_s && whole_s < 60.0, "{report:?}");
    assert!(report.back_s.unwrap() > whole_s && report.rejoined_s.unwrap() >= report.back_s.unwrap(), "{report:?}");
    assert!(report.sessions_moved > 0 && report.sessions_expired == 0, "{report:?}");
    // The probe asked a server that was left, and what it did not do is no incident.
    let get = trial.operation("get").unwrap();
    assert!(get.node != report.victims[0].node && get.done > 0, "{get:?}");
    let gone = trial.nodes.get(&report.victims[0].node).and_then(|series| series.get("outstanding_requests"));
    assert_eq!(gone, None, "a server that is gone gives no readings");
    let said = &verdict.actions[0];
    assert!(said.starts_with("With the leader killed at 1 domains, get still ran at "), "{said}");
    assert!(
        said.contains("the target served again after ") && verdict.sentence.ends_with(said),
        "{}",
        verdict.sentence
    );
    let phases: Vec<Phase> = run
        .seen
        .iter()
        .filter_map(|event| {
            let RunEvent::Phase { phase, .. } = event else { return None };
            Some(*phase)
        })
        .collect();
    assert!(phases.contains(&Phase::Acting) && phases.contains(&Phase::Rejoining));
    let launched = run.seen.iter().filter(|event| matches!(event, RunEvent::Launched { .. })).count();
    assert_eq!(launched, 4, "a crash finds the server that was started again as well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_follower_costs_the_load_its_connections_and_is_no_pause_from_outside() {
    let _alone = alone().await;
    let verdict = Run::start(&with("do = \"pause\"\nnode = \"follower\"\nat = 2"), ENSEMBLE).verdict().await;
    assert_eq!(plain(&verdict), HELD, "{}", verdict.sentence);
    let (trial, report) = of_action(&verdict);
    assert_eq!((trial.load, trial.outcome), (2, Outcome::Held), "{trial:#?}");
    assert_eq!((report.deed, report.victims[0].role.as_str()), (Deed::Pause, "follower"));
    assert!(report.served_s.unwrap() < 5.0, "the others go on: {report:?}");
    assert!(report.recovery_s.unwrap() > 3.0, "who hung on it has to notice first: {report:?}");
    assert!(report.sessions_moved > 0 && report.rejoined_s.is_some(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_load_can_be_acted_on_and_a_restart_needs_no_word_to_come_back() {
    let _alone = alone().await;
    let verdict = Run::start(&with("do = \"restart\"\nnode = 2\nat = \"each\""), ENSEMBLE).verdict().await;
    assert_eq!(plain(&verdict), HELD, "{}", verdict.sentence);
    let acted: Vec<&Trial> = verdict.steps.iter().filter(|trial| trial.action.is_some()).collect();
    assert_eq!(acted.iter().map(|trial| trial.load).collect::<Vec<_>>(), [1, 2]);
    for trial in acted {
        let report = trial.action.as_ref().unwrap();
        assert!(report.victims[0].node.starts_with("127.0.0.2:"), "{report:?}");
        assert!(report.back_s.unwrap() <= report.recovery_s.unwrap(), "{report:?}");
        assert_eq!(trial.outcome, Outcome::Held, "{trial:#?}");
    }
    assert_eq!(verdict.actions.len(), 2);
    assert!(
        verdict.sentence.contains("With a ") && verdict.sentence.contains(" restarted at 2 domains"),
        "{}",
        verdict.sentence
    );
    assert!(!verdict.sentence.contains("restarted at 1 domains"), "the last one stands for all: {}", verdict.sentence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_is_measured_until_the_servers_are_back() {
    let _alone = alone().await;
    let action = "do = \"kill\"\nnode = [\"leader\", \"follower\"]\nat = 1\nback_s = 5";
    let verdict = Run::start(&with(action), ENSEMBLE).verdict().await;
    assert_eq!(plain(&verdict), HELD, "{}", verdict.sentence);
    let (_, report) = of_action(&verdict);
    assert_eq!(report.victims.len(), 2);
    assert!(report.served_s.unwrap() > 5.0 && report.back_s.unwrap() >= 5.0, "{report:?}");
    assert!(report.rejoined_s.is_some(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_stolen_before_the_server_comes_back_ends_the_run_in_its_words() {
    let _alone = alone().await;
    let mut run = Run::start(&with("do = \"stop\"\nnode = \"follower\"\nat = 1\nback_s = 12"), ENSEMBLE);
    run.phase(Phase::Acting, 1).await;
    // Whichever server is stopped: its port is free then, and taken at once.
    let names: Vec<String> = run
        .seen
        .iter()
        .filter_map(|event| {
            let RunEvent::Launched { node, .. } = event else { return None };
            Some(node.clone())
        })
        .collect();
    let thief = tokio::task::spawn_blocking(move || {
        for _ in 0..2_000 {
            if let Some(thief) = names.iter().find_map(|name| TcpListener::bind(name).ok()) {
                return thief;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("no server was stopped");
    })
    .await
    .unwrap();
    let address = thief.local_addr().unwrap();
    let verdict = run.verdict().await;
    let ended = (verdict.status, verdict.stop_code, verdict.exit_code);
    assert_eq!(ended, (Status::Failed, StopCode::TargetUnhealthy, 6), "{}", verdict.sentence);
    let why = format!("cannot start {address}: its client port {address} is in use by another process");
    assert!(verdict.sentence.contains(&why) && verdict.sentence.contains("1 domains hold"), "{}", verdict.sentence);
    let (_, report) = of_action(&verdict);
    assert!(report.failed.as_ref().is_some_and(|failed| failed.contains(&why)), "{report:?}");
    assert_eq!(report.rejoined_s, None);
    let_go(thief).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_run_and_one_that_fails_ends_the_run_with_its_output() {
    let _alone = alone().await;
    let verdict = Run::start(&with("do = \"run\"\ncommand = \"note\"\nat = 1"), ENSEMBLE).verdict().await;
    assert_eq!(plain(&verdict), HELD, "{}", verdict.sentence);
    let (trial, report) = of_action(&verdict);
    assert_eq!((trial.outcome, report.command.as_deref()), (Outcome::Held, Some("note")), "{trial:#?}");
    assert!(verdict.sentence.contains("With the command \"note\" run at 1 domains"), "{}", verdict.sentence);

    let verdict = Run::start(&with("do = \"run\"\ncommand = \"break\"\nat = 1"), ENSEMBLE).verdict().await;
    let ended = (verdict.status, verdict.stop_code, verdict.exit_code);
    assert_eq!(ended, (Status::Failed, StopCode::TargetUnhealthy, 6), "{}", verdict.sentence);
    assert!(verdict.sentence.contains("no such host"), "{}", verdict.sentence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_while_a_server_is_away_ends_at_once_and_leaves_nothing() {
    let _alone = alone().await;
    let mut run = Run::start(&with("do = \"kill\"\nnode = \"leader\"\nat = 1\nback_s = 600"), ENSEMBLE);
    let dir = run
        .until(|event| {
            let RunEvent::Launched { dir, .. } = event else { return None };
            Some(dir.clone())
        })
        .await;
    run.phase(Phase::Acting, 1).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let since = std::time::Instant::now();
    run.cancel.cancel();
    let verdict = run.verdict().await;
    assert_eq!(verdict.stop_code, StopCode::UserAbort, "{}", verdict.sentence);
    assert!(since.elapsed() < std::time::Duration::from_secs(15), "{:?}", since.elapsed());
    assert!(!std::path::Path::new(&dir).exists());
}
