//! The population of domains on a real ZooKeeper, put there by the real engine: counts, growth, traffic, lost sessions.

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use rampart::model::{
    Incident, IncidentKind, OperationStat, Outcome, Phase, RunEvent, Status, StopCode, Trial, Verdict,
};

use crate::{
    engine_run::{Proxy, Run, SMALL, alone, config, counts, exact, exact_but, run, scenario, until_counts},
    zookeeper::Server,
};

const RESTING: &str = "executors = 2\njobs = 3\nshards = 2\nfill_per_s = 20\ntraffic = false\n";

fn levels(levels: &str, settle_s: u32, measure_s: u32) -> String {
    format!("kind = \"levels\"\nlevels = {levels}\nsettle_s = {settle_s}\nmeasure_s = {measure_s}\n")
}

fn expected(trial: &Trial) -> Vec<u64> {
    trial.counts.iter().map(|count| count.expected).collect()
}

/// What a run must give back: everything. Sessions too: one that is left would hold its ephemeral znodes, and would
/// be counted against the next run until it expires.
async fn same_as(server: SocketAddr, before: &std::collections::BTreeMap<String, i64>) {
    let after = counts(server).await;
    for what in ["znode_count", "watch_count", "ephemerals_count", "global_sessions"] {
        assert_eq!(after[what], before[what], "{what} after the run");
    }
}

fn amount(trial: &Trial, kind: IncidentKind) -> f64 {
    trial.incidents.iter().filter(|incident| incident.kind == kind).map(|incident| incident.amount).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_domains_are_confirmed_by_the_server_in_both_ways_to_fill() {
    let both = ["faithful", "fast"].map(async |fill| {
        let server = Server::start("", &[]);
        let before = counts(server.addr).await;
        let options = format!("fill = \"{fill}\"\nfill_per_s = 20\ntraffic = false");
        let verdict =
            run(&scenario("use = \"zk\"", &levels("[2]", 1, 1), &options, ""), &config(server.addr, "")).await;
        assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(2)), "{}", verdict.sentence);
        let trial = verdict.steps.last().unwrap();
        assert_eq!(expected(trial), [2 * 2_196, 2 * 5_736, 2 * 144, 2 * 6], "{fill}");
        exact(trial);
        same_as(server.addr, &before).await;
    });
    join_all(both).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn domains_grow_and_shrink_by_any_number_and_leave_nothing() {
    let both = ["faithful", "fast"].map(async |fill| {
        let server = Server::start("", &[]);
        let before = counts(server.addr).await;
        let options = format!("{RESTING}fill = \"{fill}\"\ndead_executors = 0.5\n");
        let scenario = scenario("use = \"zk\"", &levels("[6, 2, 5]", 1, 1), &options, "");
        let verdict = run(&scenario, &config(server.addr, "")).await;
        assert_eq!(verdict.steps.iter().map(|trial| trial.load).collect::<Vec<_>>(), [0, 6, 2, 5]);
        verdict.steps[1..].iter().for_each(exact);
        same_as(server.addr, &before).await;
    });
    join_all(both).await;
}

/// The sum of what was asked and what was done, of some operations.
fn asked_and_done(trial: &Trial, operations: &[&str]) -> (u64, u64) {
    let of = |stat: &&OperationStat| !stat.probe && operations.contains(&stat.operation.as_str());
    let sum = |(asked, done), stat: &OperationStat| (asked + stat.asked.unwrap(), done + stat.done);
    trial.operations.iter().filter(of).fold((0, 0), sum)
}

/// Fast enough that every job runs several times in a short test: each runs once in 3 s, for 1.5 s.
const LIVELY: &str = "traffic_factor = 20.0\n";

/// Watches the server's counts of watches and ephemerals until the first load is judged.
async fn watched(run: &mut Run, server: SocketAddr) -> (Vec<(i64, i64)>, Verdict) {
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let readings = tokio::spawn(async move {
        let mut readings = Vec::new();
        while stopped.try_recv().is_err() {
            let now = counts(server).await;
            readings.push((now["watch_count"], now["ephemerals_count"]));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        readings
    });
    run.until(|event| matches!(event, RunEvent::Phase { phase: Phase::Judging, step: 1, .. }).then_some(())).await;
    stop.send(()).unwrap();
    let readings = readings.await.unwrap();
    (readings, run.verdict().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traffic_is_achieved_and_watches_stay_armed() {
    let _alone = alone().await;
    let server = Server::start("", &[]);
    let before = counts(server.addr).await;
    let options = format!("{SMALL}{LIVELY}");
    let text = scenario("use = \"zk\"", &levels("[4]", 3, 22), &options, "");
    let mut run = Run::start(&text, &config(server.addr, ""));
    run.phase(Phase::Measuring, 1).await;
    let (readings, verdict) = watched(&mut run, server.addr).await;
    let trial = verdict.steps.last().unwrap();

    let (asked, done) = asked_and_done(trial, &["create", "delete", "set"]);
    // 4 domains of 3 jobs, each run of 2 items by 2 executors with 12 transactions, in 22 s of 3 s each.
    assert!((900..1_200).contains(&asked), "{asked} transactions were asked");
    assert!(done.abs_diff(asked) * 10 <= asked, "{done} of {asked} transactions were achieved");
    let (asked, done) = asked_and_done(trial, &["exists", "get", "children", "rearm"]);
    assert!(asked > 5_000 && done.abs_diff(asked) * 10 <= asked, "{done} of {asked} reads were achieved");
    let errors: Vec<_> = trial.operations.iter().filter(|stat| !stat.errors.is_empty()).collect();
    assert!(errors.is_empty(), "{errors:#?}");

    let ephemerals = i64::try_from(trial.counts[2].expected).unwrap();
    let seen = |at: usize| readings.iter().map(move |reading| [reading.0, reading.1][at]);
    // 24 items run half of the time.
    assert!(seen(1).max().unwrap() >= before["ephemerals_count"] + ephemerals + 4, "none ran: {readings:?}");
    assert!(seen(1).max().unwrap() <= before["ephemerals_count"] + ephemerals + 24 + 2, "too many: {readings:?}");
    assert_ne!(seen(1).max(), seen(1).min(), "running marks come and go");
    let watches = before["watch_count"] + i64::try_from(trial.counts[1].expected).unwrap();
    let tolerance = i64::try_from(trial.counts[1].tolerance).unwrap();
    assert!(seen(0).all(|now| (watches - tolerance..=watches).contains(&now)), "{watches} expected: {readings:?}");
    // In between all that fired are armed again: not one is lost for good.
    let late = readings.len() / 2;
    assert_eq!(seen(0).skip(late).max(), Some(watches), "{readings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_factor_and_the_reads_of_the_traffic_are_as_asked() {
    let _alone = alone().await;
    let asked = join_all(["10.0", "40.0"].map(async |factor| {
        let server = Server::start("", &[]);
        let options = format!("{SMALL}traffic_factor = {factor}\nreads = \"rearm\"\n");
        let text = scenario("use = \"zk\"", &levels("[4]", 1, 12), &options, "");
        let verdict = run(&text, &config(server.addr, "")).await;
        let trial = verdict.steps.last().unwrap();
        assert_eq!(asked_and_done(trial, &["exists", "get", "children"]), (0, 0), "only watches are armed again");
        let (rearm, done) = asked_and_done(trial, &["rearm"]);
        assert!(rearm > 100 && done.abs_diff(rearm) * 10 <= rearm, "{done} of {rearm} were armed again");
        asked_and_done(trial, &["create", "delete", "set"]).0 as f64
    }))
    .await;
    let ratio = asked[1] / asked[0];
    assert!((3.4..4.6).contains(&ratio), "four times the factor asked {ratio} times as much: {asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_connections_are_attached_again_with_all_their_watches() {
    let both = ["faithful", "fast"].map(async |fill| {
        let server = Server::start("", &[]);
        let proxy = Proxy::start(server.addr);
        let options = format!("{RESTING}fill = \"{fill}\"\n");
        let mut run =
            Run::start(&scenario("use = \"zk\"", &levels("[3]", 4, 1), &options, ""), &config(proxy.addr, ""));
        run.phase(Phase::Settling, 1).await;
        let cut = proxy.cut();
        let verdict = run.verdict().await;
        let trial = verdict.steps.last().unwrap();
        assert_eq!(cut, 3 * 5, "every session has its own connection");
        assert_eq!(amount(trial, IncidentKind::ConnectionClosed), cut as f64, "{:#?}", trial.incidents);
        let [Incident { text, .. }] = trial.incidents.as_slice() else { panic!("{:#?}", trial.incidents) };
        assert_eq!(text, "15 connections of the load were closed by the target and attached again");
        exact(trial);
        assert_eq!(trial.outcome, Outcome::Held, "a closed connection is no loss");
    });
    join_all(both).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_fire_while_their_connection_is_gone_are_armed_again() {
    let _alone = alone().await;
    let server = Server::start("", &[]);
    let before = counts(server.addr).await;
    let proxy = Proxy::start(server.addr);
    let options = format!("{SMALL}{LIVELY}");
    let mut run = Run::start(&scenario("use = \"zk\"", &levels("[3]", 1, 16), &options, ""), &config(proxy.addr, ""));
    run.phase(Phase::Measuring, 1).await;
    for _ in 0..3 {
        assert_eq!(proxy.cut(), 15);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    let (readings, verdict) = watched(&mut run, server.addr).await;
    // A busy machine may void the trial for the generator's own lag; it is then measured again, without cuts.
    let cut = |trial: &&Trial| amount(trial, IncidentKind::ConnectionClosed) > 0.0;
    let trial = verdict.steps.iter().find(cut).expect("a trial whose connections were closed");
    let watches = before["watch_count"] + i64::try_from(trial.counts[1].expected).unwrap();
    let late = readings.iter().skip(readings.len() / 2).map(|reading| reading.0);
    assert_eq!(late.max(), Some(watches), "{readings:?}");
    assert_eq!(amount(trial, IncidentKind::ConnectionClosed), 45.0, "{:#?}", trial.incidents);
    let (asked, done) = asked_and_done(trial, &["create", "delete", "set"]);
    assert!(asked > done && done > asked / 2, "what fell due without a connection is missed: {done} of {asked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_closed_while_domains_come_and_go_lose_nothing() {
    let both = ["faithful", "fast"].map(async |fill| {
        let server = Server::start("", &[]);
        let before = counts(server.addr).await;
        let proxy = Proxy::start(server.addr);
        let options = format!("{RESTING}fill = \"{fill}\"\nsession_timeout_ms = 4000\n");
        let text = scenario("use = \"zk\"", &levels("[4, 1]", 1, 1), &options, "");
        let mut run = Run::start(&text, &config(proxy.addr, ""));
        run.phase(Phase::Filling, 1).await;
        proxy.lose(40);
        run.phase(Phase::Settling, 1).await;
        assert!(!proxy.still_lossy(), "too little was lost");
        run.phase(Phase::Filling, 2).await;
        // Some sessions lose their connection while they are being closed, and the deletions theirs.
        proxy.cut();
        proxy.lose(3);
        let verdict = run.verdict().await;
        assert!(!proxy.still_lossy(), "too little was lost");
        assert_eq!(verdict.steps.len(), 3, "{}", verdict.sentence);
        assert!(amount(&verdict.steps[1], IncidentKind::ConnectionClosed) >= 20.0, "{:#?}", verdict.steps[1].incidents);
        exact(&verdict.steps[1]);
        // A session that could not be closed counts until it expires.
        exact_but(&verdict.steps[2], "sessions");
        until_counts(server.addr, "global_sessions", |now| now == before["global_sessions"]).await;
        same_as(server.addr, &before).await;
    });
    join_all(both).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_session_fails_the_step() {
    let server = Server::start("", &[]);
    let before = counts(server.addr).await;
    let proxy = Proxy::start(server.addr);
    let options = format!("{RESTING}session_timeout_ms = 1500\n");
    let mut run =
        Run::start(&scenario("use = \"zk\"", &levels("[3, 4]", 1, 12), &options, ""), &config(proxy.addr, ""));
    run.phase(Phase::Measuring, 1).await;
    proxy.hold(true);
    // The lease of the run, whose connection is not held, remains.
    until_counts(server.addr, "ephemerals_count", |now| now == before["ephemerals_count"] + 1).await;
    proxy.hold(false);
    let verdict = run.verdict().await;
    let trial = &verdict.steps[1];
    assert_eq!(amount(trial, IncidentKind::SessionExpired), 15.0, "{:#?}", trial.incidents);
    assert_eq!((trial.outcome, trial.stop_code), (Outcome::Void, Some(StopCode::TargetUnhealthy)));
    assert_eq!(
        (verdict.status, verdict.exit_code, verdict.steps.len()),
        (Status::Failed, 6, 2),
        "{}",
        verdict.sentence
    );
    let said = "15 sessions of the load expired: their ephemeral znodes and watches are gone";
    assert!(verdict.sentence.contains(said), "{}", verdict.sentence);
}
