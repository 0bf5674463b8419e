//! The command line and the server as processes, with real ZooKeepers: exit codes, signals, crashes, two at once.

use std::{collections::BTreeSet, net::SocketAddr};

use serde_json::{Value, json};
use sysinfo::Signal;

use crate::{
    binary::{self, Place, Process, Server, in_phase, until, znodes},
    zookeeper,
};

/// A ZooKeeper of the test's own, whose sessions end so soon that a test can wait for it.
fn target() -> zookeeper::Server {
    zookeeper::Server::start("maxSessionTimeout=6000", &[])
}

fn gone() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_scenario_of_the_project_is_sound() {
    let place = Place::new(&[]);
    let mut seen = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            seen += 1;
            let ended = place.run(&["check", path.to_str().unwrap()]);
            assert_eq!(ended.code, Some(0), "{}: {}", path.display(), ended.stderr);
            for wanted in ["ladder: 0, ", "at the longest: ", "sessions at the highest load: ", "open files"] {
                assert!(ended.stdout.contains(wanted), "{}: no {wanted:?} in {}", path.display(), ended.stdout);
            }
            let ended = place.run(&["check", "--json", path.to_str().unwrap()]);
            assert_eq!(ended.json()["ladder"][0], 0);
        }
    }
    assert!(seen > 0);
}

#[test]
fn wrong_usage_is_exit_code_1_and_says_where_and_what_is_allowed() {
    let place = Place::new(&[]);
    let wrong = binary::launched("[1, 2]").replace("settle_s = 1", "settel_s = 1");
    let ended = place.run(&["run", "--json", place.scenario("wrong.toml", &wrong).to_str().unwrap()]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    for wanted in ["line 10", "load.settel_s", "settle_s", "measure_s", "wrong.toml"] {
        assert!(ended.stderr.contains(wanted), "no {wanted:?} in {}", ended.stderr);
    }
    let wrong = binary::launched("[1, 2]").replace("measure_s = 2", "measure_s = -2");
    let ended = place.run(&["check", place.scenario("wrong.toml", &wrong).to_str().unwrap()]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("load.measure_s") && ended.stderr.contains("-2; allowed: 1 to"), "{}", ended.stderr);
    let ended = place.run(&["run", "nowhere.toml"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("nowhere.toml cannot be read"), "{ended:?}");
    let ended = place.run(&["run", "--jsonn", "a.toml"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("--jsonn"), "{ended:?}");
    let ended = place.run(&["--help"]);
    assert!(ended.code == Some(0) && ended.stdout.contains("Exit codes:"), "{ended:?}");
    assert_eq!(place.left_over(), Vec::<String>::new());
    assert_eq!(place.scratch(), Vec::<String>::new());
}

/// The keys of a verdict that issue and API promise.
const KEYS: [&str; 11] = [
    "run_id",
    "status",
    "stop_code",
    "axis",
    "unit",
    "last_good",
    "first_bad",
    "sentence",
    "evidence",
    "validity",
    "steps",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_prints_its_verdict_as_the_api_gives_it_and_the_server_shows_it_later() {
    let place = Place::new(&[]);
    let scenario = place.scenario("small.toml", &binary::launched("[1, 2]"));
    let ended = place.run(&["run", "--db", "rampart.db", "--json", scenario.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let verdict = ended.json();
    assert_eq!((text(&verdict["status"]), text(&verdict["stop_code"])), ("not_reached", "max_load"));
    assert_eq!((&verdict["last_good"], &verdict["first_bad"]), (&json!(2), &json!(null)));
    assert_eq!((text(&verdict["axis"]), text(&verdict["unit"])), ("domains", "domains"));
    assert!(text(&verdict["sentence"]).starts_with("At least 2 domains hold"), "{verdict}");
    assert!(verdict["evidence"].is_array() && verdict["validity"]["shared_machine"] == true);
    let loads: Vec<&Value> = verdict["steps"].as_array().unwrap().iter().map(|step| &step["load"]).collect();
    assert_eq!(loads, [0, 1, 2]);
    for line in ["step    load outcome", "baseline", "held"] {
        assert!(ended.stderr.contains(line), "no {line:?} in {}", ended.stderr);
    }
    assert!(!ended.stderr.contains('\u{1b}'), "a file is no terminal: {:?}", ended.stderr);
    assert_eq!(place.left_over(), Vec::<String>::new());
    assert_eq!(place.scratch(), Vec::<String>::new());

    let server = place.serve(&[]);
    assert!(!server.process.stderr().contains('\u{1b}'), "a file is no terminal: {:?}", server.process.stderr());
    let id = text(&verdict["run_id"]);
    let of_api = server.json(&format!("/api/v1/runs/{id}/verdict")).await;
    assert!(KEYS.iter().all(|key| keys(&of_api).contains(*key)), "{:?}", keys(&of_api));
    assert_eq!(of_api, verdict, "one document, whichever way it comes");
    let list = server.text("/runs").await;
    assert!(list.contains(id) && list.contains("at least 2 domains") && list.contains("command line"), "{list}");
    let page = server.text(&format!("/runs/{id}")).await.replace('\u{202f}', " ");
    assert!(page.contains("At least 2 domains hold") && page.contains("table-target-data"), "{page}");
    let health = place.run(&["health", "--url", &server.base]);
    assert_eq!((health.code, health.stdout.as_str()), (Some(0), ""), "{}", health.stderr);
    server.process.signal(Signal::Interrupt);
    assert_eq!(server.process.end().code, Some(0), "Ctrl-C is how a server is ended");
}

#[test]
fn exit_codes_say_what_the_run_found() {
    let place = Place::new(&[("gone", gone())]);
    let run = |name: &str, text: &str| {
        let ended = place.run(&["run", "--json", place.scenario(name, text).to_str().unwrap()]);
        let verdict = ended.json();
        assert_eq!(verdict["exit_code"], json!(ended.code));
        (ended.code, text_of(&verdict, "status"), text_of(&verdict, "stop_code"), text_of(&verdict, "sentence"))
    };
    let required = binary::launched("[1]") + "[require]\ncapacity = 5\n";
    let (code, status, _, sentence) = run("required.toml", &required);
    assert_eq!((code, status.as_str()), (Some(2), "not_reached"));
    assert!(sentence.ends_with("That is less than the required 5 domains."), "{sentence}");

    let budget = binary::slow_to_measure(&binary::launched("[1]")) + "[limits]\ntime_budget_s = 6\n";
    let (code, status, stop, sentence) = run("budget.toml", &budget);
    assert_eq!((code, status.as_str(), stop.as_str()), (Some(4), "inconclusive", "time_budget"), "{sentence}");

    let (code, status, stop, sentence) = run("gone.toml", &binary::on("gone", "[1]"));
    assert_eq!((code, status.as_str(), stop.as_str()), (Some(6), "failed", "target_unhealthy"));
    assert!(sentence.contains("127.0.0.1:1") && sentence.contains("refused"), "{sentence}");
    assert_eq!(place.left_over(), Vec::<String>::new());

    let health = place.run(&["health", "--url", "http://127.0.0.1:1"]);
    assert!(health.code == Some(10) && health.stderr.contains("127.0.0.1:1"), "{health:?}");
}

fn text_of(value: &Value, key: &str) -> String {
    text(&value[key]).to_owned()
}

/// Ends a run on the command line in the middle of filling.
fn stopped_while_filling(place: &Place, scenario: &str, which: Signal, filled: impl Fn(&Process) -> bool) {
    let scenario = place.scenario("slow.toml", &binary::slow_to_fill(scenario));
    let process = place.start(&["run", "--json", scenario.to_str().unwrap()]);
    until("the run fills", || filled(&process) || !process.lives());
    process.signal(which);
    let ended = process.end();
    assert_eq!(ended.code, Some(8), "{ended:?}");
    let verdict = ended.json();
    assert_eq!((text(&verdict["status"]), text(&verdict["stop_code"])), ("aborted", "user_abort"));
    assert!(ended.stderr.contains("stopping and cleaning up"), "{}", ended.stderr);
    assert_eq!(place.left_over(), Vec::<String>::new());
    assert_eq!(place.scratch(), Vec::<String>::new());
}

/// Whether the first step has been measured, after which the long filling begins.
fn has_step_0(process: &Process) -> bool {
    process.stderr().contains("baseline")
}

#[test]
fn ctrl_c_while_filling_stops_and_removes_everything() {
    let place = Place::new(&[]);
    for which in [Signal::Interrupt, Signal::Term] {
        stopped_while_filling(&place, &binary::launched("[500]"), which, has_step_0);
    }
}

#[test]
fn a_campaign_runs_its_parts_at_what_was_found_and_its_report_can_be_made_again() {
    let place = Place::new(&[]);
    let name = |text: String, name: &str| text.replacen("name = \"", &format!("name = \"{name}-"), 1);
    place.scenario("first.toml", &name(binary::launched("[1, 2]"), "first"));
    place.scenario("second.toml", &name(binary::launched("[7]"), "second"));
    let first = "first-small";
    let part = |file: &str| format!("[[part]]\nscenario = \"{file}\"\n");
    let text = format!("name = \"two\"\n{}{}load = \"capacity of {first}\"\n", part("first.toml"), part("second.toml"));
    let campaign = place.scenario("two.toml", &text);
    let ended =
        place.run(&["campaign", "--quiet", "--db", place.path("c.db").to_str().unwrap(), campaign.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let at = ended.stdout.find("# two").expect("a report");
    let report = &ended.stdout[at..];
    assert!(report.contains(&format!("Measured at the capacity of {first}.")), "{report}");
    let second = &report[report.find("Measured at").unwrap()..];
    assert!(second.contains("At least 2 domains hold") && second.contains("### Target at each step"), "{second}");
    let id =
        report.lines().find_map(|line| line.strip_prefix("Campaign ")).unwrap().split(',').next().unwrap().to_owned();
    let whole = place.run(&["campaign", "--db", place.path("c.db").to_str().unwrap(), "--report", &id]);
    assert_eq!((whole.code, whole.stdout.trim_end()), (Some(0), report.trim_end()), "{}", whole.stderr);
    let wrong = text.replace("second.toml", "third.toml");
    let ended = place.run(&["campaign", place.scenario("wrong.toml", &wrong).to_str().unwrap()]);
    assert!(ended.code == Some(1) && ended.stderr.contains("part[1].scenario: is \"third.toml\""), "{ended:?}");
    assert_eq!(place.left_over(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_while_filling_leaves_nothing_on_a_configured_target() {
    let target = target();
    let place = Place::new(&[("box", target.addr)]);
    let empty = znodes(target.addr).await;
    let many = |_: &Process| {
        let text = target.ask("srvr").unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("Node count: ")).and_then(|n| n.parse().ok());
        count.unwrap_or(0) > empty + 200
    };
    tokio::task::block_in_place(|| stopped_while_filling(&place, &binary::on("box", "[500]"), Signal::Interrupt, many));
    assert_eq!(znodes(target.addr).await, empty);
}

/// Kills the server in the middle of a run of `scenario` when `now` says so, with another run waiting; starts it
/// again. The run must be marked and keep its steps, nothing may be left, the waiting run must come to its verdict.
async fn killed_and_started_again(place: &Place, scenario: &str, next: &str, now: impl Fn(&Value) -> bool) {
    let server = place.serve(&[]);
    let (run, waiting) = (server.submit(scenario).await, server.submit(next).await);
    let seen = server.until("the moment to kill", &run, &now).await;
    let steps = seen["trials"].as_array().unwrap().clone();
    server.kill();
    let server = place.serve(&[]);
    let after = server.run(&run).await;
    assert_eq!((text(&after["run"]["state"]), text(&after["run"]["status"])), ("interrupted", "aborted"));
    assert_eq!(after["trials"].as_array().unwrap(), &steps, "finished steps are kept");
    let sentence = text(&after["run"]["sentence"]);
    assert!(sentence.starts_with("the server went away while the run was going on"), "{sentence}");
    let next = server.over(&waiting).await;
    assert_eq!((text(&next["run"]["state"]), text(&next["run"]["status"])), ("finished", "not_reached"), "{next}");
    // Nothing of the killed run, and nothing of the one that followed it.
    assert_eq!(place.left_over(), Vec::<String>::new());
    let page = server.text(&format!("/runs/{run}")).await;
    assert!(page.contains("Interrupted"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_launching_leaves_no_process_and_no_folder() {
    let place = Place::new(&[]);
    let server = place.serve(&[]);
    let run = server.submit(&binary::launched("[1]")).await;
    until("a ZooKeeper is launched", || !place.launched().is_empty());
    let before = server.run(&run).await;
    assert!(in_phase(&before, "launching"), "the test came too late: {}", before["phase"]);
    server.kill();
    assert!(!place.left_over().is_empty(), "the ZooKeeper outlives a kill");
    // No further run that would clean up before it launches.
    let server = place.serve(&[]);
    assert_eq!(text(&server.run(&run).await["run"]["state"]), "interrupted");
    assert_eq!(place.left_over(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_filling_is_put_right_and_the_queue_goes_on() {
    let place = Place::new(&[]);
    let slow = binary::slow_to_fill(&binary::launched("[1, 500]"));
    let filling = |run: &Value| in_phase(run, "filling") && run["phase"]["load"] == 500;
    killed_and_started_again(&place, &slow, &binary::launched("[1]"), filling).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_measuring_leaves_nothing_though_nothing_follows() {
    let place = Place::new(&[]);
    let server = place.serve(&[]);
    let run = server.submit(&binary::slow_to_measure(&binary::launched("[1]"))).await;
    server.until("it measures", &run, |run| in_phase(run, "measuring")).await;
    server.kill();
    assert!(!place.left_over().is_empty(), "the ZooKeeper outlives a kill");
    let server = place.serve(&[]);
    assert_eq!(text(&server.run(&run).await["run"]["state"]), "interrupted");
    assert_eq!(place.left_over(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_on_a_configured_target_cleans_it_before_the_next_run() {
    let target = target();
    let place = Place::new(&[("box", target.addr)]);
    let empty = znodes(target.addr).await;
    let slow = binary::slow_to_fill(&binary::on("box", "[1, 500]"));
    let filling = |run: &Value| {
        in_phase(run, "filling") && run["phase"]["load"] == 500 && run["phase"]["confirmed"].as_u64().unwrap_or(0) > 2
    };
    killed_and_started_again(&place, &slow, &binary::on("box", "[1]"), filling).await;
    assert_eq!(znodes(target.addr).await, empty, "the roots of both runs are gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_it_cleans_after_another_is_followed_by_one_that_does() {
    let target = target();
    let place = Place::new(&[("box", target.addr)]);
    let empty = znodes(target.addr).await;
    let server = place.serve(&[]);
    let run = server.submit(&binary::slow_to_measure(&binary::on("box", "[1]"))).await;
    server.until("it measures", &run, |run| in_phase(run, "measuring")).await;
    server.kill();
    // This one waits for the lease of the killed run, which the target still keeps.
    let server = place.serve(&[]);
    assert_eq!(text(&server.run(&run).await["run"]["state"]), "interrupted");
    server.kill();
    assert!(target.ask("dump").unwrap_or_default().contains("/lease"), "the test came too late");
    let server = place.serve(&[]);
    until("the root is gone", || {
        assert!(server.process.lives());
        target.ask("srvr").unwrap_or_default().lines().any(|line| line == format!("Node count: {empty}"))
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_on_one_target_never_meet() {
    let target = target();
    let place = Place::new(&[("box", target.addr)]);
    let long = place.scenario("long.toml", &binary::slow_to_measure(&binary::on("box", "[1]")));
    let server = place.serve(&[]);
    let first = server.submit(&std::fs::read_to_string(&long).unwrap()).await;
    server.until("it measures", &first, |run| in_phase(run, "measuring")).await;
    let refused = tokio::task::block_in_place(|| place.run(&["run", "--json", long.to_str().unwrap()]));
    assert_eq!(refused.code, Some(6), "{refused:?}");
    let verdict = refused.json();
    let who = format!("in use by run {}", &first[first.len() - 8..]);
    assert!(text(&verdict["sentence"]).contains(&who), "no {who:?} in {verdict}");
    let cleaned = tokio::task::block_in_place(|| place.run(&["clean", "box"]));
    assert!(cleaned.code == Some(0) && cleaned.stdout.contains("left alone: /rampart-"), "{cleaned:?}");
    let (status, _) = server.post(&format!("/api/v1/runs/{first}/cancel"), "application/json", String::new()).await;
    assert_eq!(status, 202);
    assert_eq!(text(&server.over(&first).await["run"]["status"]), "aborted");

    // Now the other way: the server waits, and goes on when the target is free.
    let holder = place.start(&["run", "--json", long.to_str().unwrap()]);
    until("the command line holds the target", || target.ask("dump").unwrap_or_default().contains("/lease"));
    let second = server.submit(&binary::on("box", "[1]")).await;
    let waits = server.until("it waits", &second, |run| in_phase(run, "waiting")).await;
    let notes = waits["notes"].to_string();
    assert!(notes.contains("in use by run"), "the run says what it waits for: {notes}");
    holder.signal(Signal::Interrupt);
    assert_eq!(tokio::task::block_in_place(|| holder.end()).code, Some(8));
    assert_eq!(text(&server.over(&second).await["run"]["status"]), "not_reached");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_a_taken_port_and_an_open_address_are_refused() {
    let place = Place::new(&[]);
    let server = place.serve(&[]);
    let second = place.run(&["serve"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let pid = format!("pid {}", server.process.pid());
    assert!(second.stderr.contains(&pid) && second.stderr.contains("rampart.db"), "no {pid:?} in {}", second.stderr);
    let run = place.run(&[
        "run",
        "--db",
        "rampart.db",
        place.scenario("small.toml", &binary::launched("[1]")).to_str().unwrap(),
    ]);
    assert!(run.code == Some(1) && run.stderr.contains(&pid), "{run:?}");

    let address = server.base.trim_start_matches("http://");
    let taken = place.run(&["serve", "--db", "other.db", "--listen", address]);
    assert_eq!(taken.code, Some(1), "{taken:?}");
    assert!(taken.stderr.contains(address) && taken.stderr.contains("in use"), "{}", taken.stderr);
    assert!(!place.path("other.db").exists(), "nothing is made by a server that cannot serve");

    // Not before it has begun a run that waits.
    let long = binary::slow_to_measure(&binary::launched("[1]"));
    let (live, waiting) = (server.submit(&long).await, server.submit(&long).await);
    server.until("it measures", &live, |run| in_phase(run, "measuring")).await;
    server.kill();
    let open = place.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, Some(1), "{open:?}");
    assert!(open.stderr.contains("0.0.0.0") && open.stderr.contains("only loopback"), "{}", open.stderr);
    assert!(!open.stderr.contains("interrupted"), "it touched the runs: {}", open.stderr);
    let server = place.serve(&[]);
    assert_eq!(text(&server.run(&live).await["run"]["state"]), "interrupted");
    server.until("the waiting run begins", &waiting, |run| in_phase(run, "measuring")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_may_not_launch_what_the_recipe_does_not_allow_nor_come_from_elsewhere() {
    let place = Place::new(&[]);
    let server = place.serve(&[]);
    let scenario = binary::launched("[1]")
        .replace("launch = \"tiny\"", "launch = \"tiny\"\nsettings = { jvm_args = ['-javaagent:/tmp/x.jar'] }");
    let (status, problem) = server.post("/api/v1/runs", "application/toml", scenario.clone()).await;
    assert_eq!(status, 400, "{problem}");
    let fault = &problem["errors"][0];
    assert_eq!(text(&fault["field"]), "target.settings.jvm_args");
    assert!(fault["line"].is_u64(), "{fault}");
    let message = text(&fault["message"]);
    assert!(message.contains("-javaagent:/tmp/x.jar") && message.contains("allowed: heap_mib"), "{message}");

    let client = reqwest::Client::new();
    for path in ["/api/v1/runs", "/runs"] {
        let request = client
            .post(format!("{}{path}", server.base))
            .header("origin", "http://evil.example")
            .header("content-type", "text/plain");
        let answer = request.body(binary::launched("[1]")).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{path}");
    }
    assert_eq!(server.json("/api/v1/runs").await["runs"], json!([]), "nothing was started");
    // The local user may: the command line only asks whether the setting is one at all.
    let ended = place.run(&["check", place.scenario("agent.toml", &scenario).to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clean_removes_what_dead_runs_left_and_says_so() {
    let target = target();
    let place = Place::new(&[("box", target.addr), ("gone", gone())]);
    let clean = |name: &str| tokio::task::block_in_place(|| place.run(&["clean", name]));
    let ended = clean("box");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "0 roots and 0 znodes removed from box\n"), "{ended:?}");

    let empty = znodes(target.addr).await;
    let scenario = place.scenario("slow.toml", &binary::slow_to_measure(&binary::on("box", "[3]")));
    let killed = place.start(&["run", scenario.to_str().unwrap()]);
    until("it holds the target", || target.ask("dump").unwrap_or_default().contains("/lease"));
    killed.signal(Signal::Kill);
    assert_eq!(tokio::task::block_in_place(|| killed.end()).code, None);
    until("its lease is gone", || !target.ask("dump").unwrap_or_default().contains("/lease"));
    let ended = clean("box");
    assert!(ended.code == Some(0) && ended.stdout.starts_with("removed /rampart-"), "{ended:?}");
    assert!(ended.stdout.contains("\n1 root and "), "{ended:?}");
    assert_eq!(znodes(target.addr).await, empty);

    let ended = clean("nowhere");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("\"nowhere\"") && ended.stderr.contains("allowed: box, gone"), "{}", ended.stderr);
    let ended = clean("gone");
    assert!(ended.code == Some(6) && ended.stderr.contains("127.0.0.1:1"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_asked_to_end_takes_its_run_away_first_and_keeps_the_queue() {
    let place = Place::new(&[]);
    let server = place.serve(&[]);
    let long = binary::slow_to_measure(&binary::launched("[1]"));
    let (run, waiting) = (server.submit(&long).await, server.submit(&binary::launched("[1]")).await);
    server.until("it measures", &run, |run| in_phase(run, "measuring")).await;
    // A follower that never reads must not keep it.
    let events = reqwest::get(format!("{}/api/v1/runs/{run}/events", server.base)).await.unwrap();
    server.process.signal(Signal::Term);
    let Server { process, .. } = server;
    let ended = tokio::task::block_in_place(|| process.end());
    drop(events);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(place.left_over(), Vec::<String>::new());

    // A run on the command line into the same database leaves the queue to a server.
    let scenario = place.scenario("small.toml", &binary::launched("[2]"));
    let own =
        tokio::task::block_in_place(|| place.run(&["run", "--db", "rampart.db", "--json", scenario.to_str().unwrap()]));
    assert_eq!((own.code, &own.json()["last_good"]), (Some(0), &json!(2)), "{own:?}");
    let server = place.serve(&[]);
    let after = server.run(&run).await;
    assert_eq!((text(&after["run"]["state"]), text(&after["run"]["status"])), ("finished", "aborted"), "{after}");
    assert!(after["notes"].to_string().contains("The server was asked to end"), "{}", after["notes"]);
    let went = server.over(&waiting).await;
    assert_eq!(text(&went["run"]["status"]), "not_reached");
    let list = server.json("/api/v1/runs").await;
    let row = |id: &str| list["runs"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
    let own_id = own.json()["run_id"].as_str().unwrap().to_owned();
    assert!(row(&waiting)["started_ns"].as_i64() > row(&own_id)["ended_ns"].as_i64(), "{list}");
}
