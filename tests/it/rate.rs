//! Loads at a rate: the engine against simulated systems of known capacity and against a real ZooKeeper; what is held after
//! the answer; targets that are launched again; verdicts that are judged again.

use rampart::model::{Outcome, Phase, RunEvent, Status, StopCode, Trial};
use sysinfo::Signal;

use crate::{
    binary::Place,
    engine_run::{self, Run, signal},
};

/// Two servers that take 2 ms: 1,000 a second.
const SIM: &str = "[targets.known]\nkind = \"sim\"\nservers = 2\nservice_ms = 2\n";

fn on_sim(load: &str, rest: &str) -> String {
    format!(
        "name = \"rate\"\n[target]\nkind = \"sim\"\nuse = \"known\"\n[load]\nworkload = \"sim.requests\"\n{load}\nsettle_s = 0\nmeasure_s = 2\n{rest}"
    )
}

fn operation<'t>(trial: &'t Trial, name: &str) -> &'t rampart::model::OperationStat {
    trial.operation(name).unwrap_or_else(|| panic!("{name} was not measured: {trial:#?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_below_the_capacity_of_a_simulated_system_holds_and_one_above_does_not() {
    let config = SIM.replace("service_ms = 2", "service_ms = 2\nseed = 11");
    let verdict = engine_run::run(&on_sim("kind = \"levels\"\nlevels = [500, 1600]", ""), &config).await;
    assert_eq!((verdict.last_good, verdict.first_bad), (Some(500), Some(1_600)), "{}", verdict.sentence);
    assert_eq!(verdict.unit, "requests per second");
    let below = verdict.steps.iter().find(|trial| trial.load == 500).unwrap();
    let request = operation(below, "request");
    assert!((900..=1_100).contains(&request.done), "{request:?}");
    assert!(request.latency.p50_us >= 2_000 && request.latency.p50_us < 8_000, "{request:?}");
    let above = verdict.steps.iter().rfind(|trial| trial.load == 1_600).unwrap();
    assert_eq!(above.stop_code, Some(StopCode::AchievedShort), "that rule is there though the scenario has none");
    // 0.6 of what came each second waits longer and longer.
    let request = operation(above, "request");
    assert!(request.latency.max_us > 500_000 && request.service.max_us > 500_000, "{request:?}");
    assert!((1_800..=2_100).contains(&request.done), "what it carries and no more: {request:?}");
    assert!(above.nodes["sim"]["busy_share"].mean > 0.9, "{:?}", above.nodes["sim"]);
    assert_eq!(verdict.goals.len(), 1);
    assert_eq!((verdict.goals[0].last_good, verdict.goals[0].first_bad), (Some(500), Some(1_600)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_finds_what_a_simulated_system_carries() {
    let config = SIM.replace("service_ms = 2", "service_ms = 2\nseed = 12");
    let load = "kind = \"search\"\nstart = 250\nmax = 20000\nwidth = 0.2\nresolution = 50";
    let verdict = engine_run::run(&on_sim(load, "[expect]\npeak = 400\n"), &config).await;
    assert_eq!(verdict.status, Status::CapacityFound, "{}", verdict.sentence);
    let (good, bad) = (verdict.last_good.unwrap(), verdict.first_bad.unwrap());
    assert!((800..=1_100).contains(&good) && (900..=1_300).contains(&bad), "{}", verdict.sentence);
    assert!(verdict.sentence.contains("times the expected peak of 400 requests per second"), "{}", verdict.sentence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lasts_is_told_from_what_does_not() {
    let load = "kind = \"levels\"\nlevels = [600]\nhold = { share = 1.0, for = \"6s\" }";
    let lasting = SIM.replace("service_ms = 2", "service_ms = 2\nseed = 13");
    let verdict = engine_run::run(&on_sim(load, ""), &lasting).await;
    let holding = verdict.holding.unwrap();
    assert!(holding.lasted && holding.held_s >= 6.0, "{holding:?}");
    assert_eq!((verdict.last_good, verdict.stop_code), (Some(600), StopCode::MaxLoad), "the answer stays");

    // After ten seconds each request takes 1.7 times as long, and 590 fit into a second.
    let leaking = SIM.replace("service_ms = 2", "service_ms = 2\nseed = 14\nleak_per_hour = 250");
    let verdict = engine_run::run(&on_sim(&load.replace("6s", "60s"), ""), &leaking).await;
    let holding = verdict.holding.unwrap();
    assert!(!holding.lasted && holding.held_s < 50.0, "{holding:?}");
    assert!(verdict.sentence.contains("600 requests per second did not last: from "), "{}", verdict.sentence);
    let held: Vec<Outcome> = verdict.steps.iter().filter(|trial| trial.holding).map(|trial| trial.outcome).collect();
    assert_eq!(held[held.len() - 2..], [Outcome::Broke, Outcome::Broke], "{held:?}");
}

const ON_ZOOKEEPER: &str = r#"
name = "rate"
[target]
kind = "zookeeper"
launch = "local-small"
[load]
workload = "zookeeper.requests"
kind = "levels"
levels = [100, 300]
warm_up_s = 0
settle_s = 1
measure_s = 4
options = { records = 50, read_share = 0.75, sessions = 4, arrivals = "constant" }
[[rule]]
kind = "slo_latency"
operation = "get"
percentile = 0.95
limit_ms = 2000
[[rule]]
kind = "slo_errors"
above = 0.01
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gets_and_sets_at_a_rate_reach_a_real_zookeeper_and_are_counted() {
    let verdict = engine_run::run(ON_ZOOKEEPER, "").await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(300)), "{}", verdict.sentence);
    let trial = verdict.steps.last().unwrap();
    let (get, set) = (operation(trial, "get"), operation(trial, "set"));
    assert!(set.write && !get.write);
    let asked = get.asked.unwrap() + set.asked.unwrap();
    assert!((1_195..=1_205).contains(&asked), "4 s at 300 a second: {asked}");
    let share = get.done as f64 / (get.done + set.done) as f64;
    assert!((0.68..0.82).contains(&share), "{share}");
    assert!(get.latency.p50_us > 0 && get.latency.p50_us >= get.service.p50_us, "{get:?}");
    assert!(trial.health.start_lag_p99_us.is_some(), "{:?}", trial.health);
    let confirmed: Vec<_> = trial.counts.iter().map(|count| (count.what.as_str(), count.within())).collect();
    assert_eq!(confirmed, [("znodes", Some(true)), ("sessions", Some(true))], "{:?}", trial.counts);
    // The server's own count of transactions agrees with the sets.
    let (_, series) = trial.target_nodes().next().unwrap();
    let transactions = series["transactions_per_s"].mean;
    assert!((transactions / set.ops_per_s - 1.0).abs() < 0.25, "{transactions} of {}", set.ops_per_s);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_dies_in_a_search_is_launched_again_and_the_search_goes_on() {
    let scenario = ON_ZOOKEEPER
        .replace("kind = \"levels\"\nlevels = [100, 300]", "kind = \"search\"\nstart = 100\nmax = 200")
        .replace("measure_s = 4", "measure_s = 3");
    let mut run = Run::start(&scenario, "");
    let first = engine_run::pid(&mut run).await;
    run.phase(Phase::Measuring, 1).await;
    signal(first, Signal::Kill);
    let second = engine_run::pid(&mut run).await;
    assert_ne!(first, second);
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(200)), "{}", verdict.sentence);
    let outcomes: Vec<(u64, Outcome)> = verdict.steps.iter().map(|trial| (trial.load, trial.outcome)).collect();
    use Outcome::{Baseline, Held, Void};
    assert_eq!(outcomes, [(0, Baseline), (100, Void), (100, Held), (200, Held)], "nothing showed that the load did it");
    let counted = &verdict.steps.last().unwrap().counts;
    assert!(counted.iter().all(|count| count.within() == Some(true)), "against the empty one before: {counted:?}");
    let launched = run.seen.iter().filter(|event| matches!(event, RunEvent::Launched { .. })).count();
    assert_eq!(launched, 2);
}

#[test]
fn a_stored_run_is_judged_again_to_the_byte_or_says_what_differs() {
    let place = Place::new(&[]);
    let text = on_sim(
        "kind = \"levels\"\nlevels = [400, 1500]",
        "[[rule]]\nkind = \"outstanding_high\"\nabove = 400\nfor_s = 2\n",
    )
    .replace("use = \"known\"", "use = \"sim\"");
    let scenario = place.scenario("rate.toml", &text);
    let database = place.path("own.db").display().to_string();
    let ran = place.run(&["run", scenario.to_str().unwrap(), "--db", &database, "--json"]);
    let verdict = ran.json();
    let id = verdict["run_id"].as_str().unwrap();
    assert_eq!(verdict["last_good"], 400, "{verdict:#}");

    let same = place.run(&["rejudge", "--db", &database, id]);
    assert_eq!((same.code, same.stdout.contains("The verdict is the same, to the byte.")), (Some(0), true), "{same:?}");
    let stricter = place
        .scenario("stricter.toml", &text.replace("above = 400\n", "above = 0.5\n").replace("for_s = 2", "for_s = 1"));
    let differs = place.run(&["rejudge", "--db", &database, "--rules-of", stricter.to_str().unwrap(), id]);
    assert_eq!(differs.code, Some(3), "{differs:?}");
    assert!(differs.stdout.contains("outstanding requests of sim stayed above"), "{differs:?}");
    for (arguments, words) in [
        (["rejudge", "--db", &database, "nonsense"], "is not the id of a run"),
        (["rejudge", "--db", "/nowhere/x.db", id], "there is no database"),
    ] {
        let ended = place.run(&arguments);
        assert!(ended.code == Some(1) && ended.stderr.contains(words), "{ended:?}");
    }
}

#[test]
fn what_is_wrong_with_a_load_at_a_rate_is_named() {
    let place = Place::new(&[]);
    let good = on_sim("kind = \"search\"\nstart = 100\nmax = 2000", "").replace("use = \"known\"", "use = \"sim\"");
    for (from, to, words) in [
        ("start = 100", "start = 5000", vec!["load.start", "5000", "2000"]),
        ("max = 2000", "max = 2000000", vec!["load.max", "2000000", "1000000"]),
        ("max = 2000", "max = 2000\nwidth = 0.001\nresolution = 100", vec!["load.width", "0.001", "0.0500 or more"]),
        ("max = 2000", "max = 2000\nhold = { for = \"soon\" }", vec!["load.hold.for", "soon", "30m"]),
        ("max = 2000", "max = 2000\nhold = { share = 2, for = \"5m\" }", vec!["load.hold.share", "2", "0.05 to 1"]),
        ("sim.requests", "zookeeper.requests", vec!["load.workload", "zookeeper.requests", "sim.requests"]),
        ("measure_s = 2", "measure_s = 2\n[expect]\npeak = 0", vec!["expect.peak", "0", "1 or more"]),
        ("measure_s = 2", "measure_s = 2\n[[rule]]\nkind = \"backlog_growth\"", vec!["load.measure_s", "12 or more"]),
        (
            "measure_s = 2",
            "measure_s = 2\n[[rule]]\nkind = \"achieved_short\"\nshare = 2",
            vec!["rule[0].share", "2", "0.5 to 1"],
        ),
        (
            "measure_s = 2",
            "measure_s = 2\n[[rule]]\nkind = \"throughput_drop\"\noperation = \"request\"",
            vec!["rule[0].kind", "[[probe]]"],
        ),
        (
            "measure_s = 2",
            "measure_s = 2\n[[rule]]\nkind = \"slo_latency\"\noperation = \"get\"\nlimit_ms = 5",
            vec!["rule[0].operation", "get", "request"],
        ),
        (
            "measure_s = 2",
            "measure_s = 2\noptions = { arrivals = \"bursty\" }",
            vec!["load.options.arrivals", "bursty", "poisson"],
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let path = place.scenario("wrong.toml", &good.replace(from, to));
        let checked = place.run(&["check", path.to_str().unwrap()]);
        assert_eq!(checked.code, Some(1), "{to}: {checked:?}");
        for word in words {
            assert!(checked.stderr.contains(word), "{to:?} gave {:?}, without {word:?}", checked.stderr);
        }
    }
}

#[test]
fn a_calibration_is_stored_and_told_to_plans_that_ask_for_more() {
    let place = Place::new(&[]);
    let database = place.path("own.db").display().to_string();
    let made = place.run(&["calibrate", "--db", &database, "--each-s", "0.1"]);
    assert!(made.code == Some(0) && made.stdout.contains("operations per second"), "{made:?}");
    let wrong = place.run(&["calibrate", "--each-s", "0"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("--each-s is 0; allowed: 0.1 to 60"), "{wrong:?}");
}
