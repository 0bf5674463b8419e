//! Bursts, restarts of executors and storms of reconnections on a real ZooKeeper: as many as asked, all of them back, and
//! nothing lost for the step that follows.

use futures::future::join_all;
use rampart::model::{IncidentKind, OperationStat, Status, Trial};

use crate::{
    engine_run::{SMALL, alone, config, counts, exact, run, scenario},
    zookeeper::Server,
};

/// The first disturbance comes after half of the least interval, of 5 s; the second 5 s later.
const TWO: &str = "kind = \"levels\"\nlevels = [4, 3]\nsettle_s = 1\nmeasure_s = 8\n";
/// Each job runs once in 3 s, for 1.5 s.
const LIVELY: &str = "traffic_factor = 20.0\n";

fn operation<'t>(trial: &'t Trial, name: &str) -> &'t OperationStat {
    let found = trial.operations.iter().find(|stat| !stat.probe && stat.operation == name);
    found.unwrap_or_else(|| panic!("no {name}: {:#?}", trial.operations))
}

/// Every session is back with everything, none was lost, and nobody took it for the target's doing.
fn all_back(trial: &Trial, name: &str, times: u64) {
    let stat = operation(trial, name);
    assert_eq!((stat.asked, stat.done), (Some(times), times), "{stat:#?}");
    assert!(stat.errors.is_empty() && stat.latency.max_us > 0, "{stat:#?}");
    let blamed = [IncidentKind::ConnectionClosed, IncidentKind::SessionExpired];
    assert!(!trial.incidents.iter().any(|incident| blamed.contains(&incident.kind)), "{:#?}", trial.incidents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_jobs_of_a_burst_run_at_the_same_moment() {
    let _alone = alone().await;
    let server = Server::start("", &[]);
    let before = counts(server.addr).await["ephemerals_count"];
    let load = "kind = \"levels\"\nlevels = [4]\nsettle_s = 1\nmeasure_s = 12\n";
    let text = scenario("use = \"zk\"", load, &format!("{SMALL}burst = {{ every_s = 8, share = 1 }}\n"), "");
    let mut run = crate::engine_run::Run::start(&text, &config(server.addr, ""));
    run.phase(rampart::model::Phase::Measuring, 1).await;
    let mut most = 0;
    for _ in 0..70 {
        most = most.max(counts(server.addr).await["ephemerals_count"]);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let verdict = run.verdict().await;
    let trial = verdict.steps.last().unwrap();
    // Of 4 domains, 3 jobs of 2 items: each item is marked when it begins and when it ends. One burst, at 4 s; the
    // next would be at 12 s.
    let create = operation(trial, "create");
    assert_eq!((create.asked, create.done), (Some(48), 48), "{create:#?}");
    let ephemerals = i64::try_from(trial.counts[2].expected).unwrap();
    // The lease of the run is ephemeral too.
    assert_eq!(most, before + 1 + ephemerals + 24, "all 24 items run at the same time");
    assert_eq!(trial.health.missed, 0);
    assert!(trial.operations.iter().all(|stat| stat.errors.is_empty()), "{:#?}", trial.operations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_that_restart_are_back_with_everything() {
    let _alone = alone().await;
    let both = ["traffic = false\n", LIVELY].map(async |traffic| {
        let server = Server::start("", &[]);
        let options = format!("{SMALL}{traffic}restarts = {{ every_s = 5, executors = 3 }}\n");
        let verdict = run(&scenario("use = \"zk\"", TWO, &options, ""), &config(server.addr, "")).await;
        assert_eq!((verdict.status, verdict.steps.len()), (Status::NotReached, 3), "{}", verdict.sentence);
        for trial in &verdict.steps[1..] {
            all_back(trial, "restart", 6);
        }
        verdict
    });
    let verdicts = join_all(both).await;
    verdicts[0].steps[1..].iter().for_each(exact);
    let trial = &verdicts[1].steps[1];
    assert!(trial.health.missed > 0, "runs of executors that are away are missed");
    watches_kept(&verdicts[1].steps[2]);
    // What an executor had begun went with its session: it does not end it, and begins anew without an error.
    assert!(trial.operations.iter().all(|stat| stat.errors.is_empty()), "{:#?}", trial.operations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_reconnections_brings_all_sessions_back() {
    let _alone = alone().await;
    let both = ["traffic = false\n", LIVELY].map(async |traffic| {
        let server = Server::start("", &[]);
        let options = format!("{SMALL}{traffic}storm = {{ every_s = 5, share = 0.5 }}\n");
        let verdict = run(&scenario("use = \"zk\"", TWO, &options, ""), &config(server.addr, "")).await;
        assert_eq!((verdict.status, verdict.steps.len()), (Status::NotReached, 3), "{}", verdict.sentence);
        // Half of 4 times 5 sessions, twice; of 3 times 5 sessions, 7.5.
        all_back(&verdict.steps[1], "reattach", 20);
        all_back(&verdict.steps[2], "reattach", 16);
        verdict
    });
    let verdicts = join_all(both).await;
    verdicts[0].steps[1..].iter().for_each(exact);
    watches_kept(&verdicts[1].steps[2]);
}

/// What fired while a session was away is armed again: with traffic, as many watches as expected but for those that fire
/// at this moment.
fn watches_kept(trial: &Trial) {
    let watches = &trial.counts[1];
    let off = i64::try_from(watches.expected).unwrap() - watches.observed.unwrap();
    assert!((0..=i64::try_from(watches.tolerance).unwrap()).contains(&off), "{watches:?}");
}
