//! What goes wrong around a run, with the real engine and real ZooKeepers: each fault has its own end and its own words.

use std::{io::Write as _, net::SocketAddr, process::Command, time::Duration};

use futures::future::join_all;
use rampart::{
    config::Config,
    model::{IncidentKind, Outcome, Phase, RunEvent, Status, StopCode, Verdict},
    scenario::{Origin, Scenario, Surroundings, plan},
    target::{CleanPace, Target as _, zookeeper::Zookeeper, zookeeper::ZookeeperSpec},
};
use sysinfo::Signal;

use crate::{
    engine_run::{Proxy, Run, alone, config, counts, exact, pid, recipe, run, scenario, signal, until_counts},
    zookeeper::Server,
};

const RESTING: &str = "executors = 2\njobs = 3\nshards = 2\nfill_per_s = 20\ntraffic = false\n";
const LEVELS: &str = "kind = \"levels\"\nlevels = [1, 2]\nsettle_s = 1\nmeasure_s = 2\n";
const PROBE: &str = "[[probe]]\nkind = \"zookeeper.latencies\"\ncount = 50\nrounds = 2\n";

/// How a verdict ends.
fn ended(verdict: &Verdict) -> (Status, StopCode, u8) {
    (verdict.status, verdict.stop_code, verdict.exit_code)
}

const UNUSABLE: (Status, StopCode, u8) = (Status::Failed, StopCode::TargetUnhealthy, 6);

/// A run that must not come to its first step; what it said.
async fn not_begun(target: &str, config: &str) -> String {
    let verdict = run(&scenario(target, LEVELS, RESTING, ""), config).await;
    assert_eq!(ended(&verdict), UNUSABLE, "{}", verdict.sentence);
    assert!(verdict.steps.is_empty());
    verdict.sentence
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
}

/// Something that listens and answers every connection with these bytes.
fn answering(answer: &'static [u8]) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut asked = [0; 4];
                let _ = std::io::Read::read_exact(&mut stream, &mut asked);
                let _ = stream.write_all(answer);
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_cannot_be_reached_or_does_not_serve_is_said_so() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = not_begun("use = \"zk\"", &config(free, "")).await;
    contains(&said, &["The run failed", &format!("{free} cannot be reached"), "refused"]);

    let idle = answering(b"This ZooKeeper instance is not currently serving requests\n");
    let said = not_begun("use = \"zk\"", &config(idle, "")).await;
    contains(&said, &[&format!("{idle} is up but does not serve"), "not currently serving requests"]);

    let full = answering(b"");
    let said = not_begun("use = \"zk\"", &config(full, "")).await;
    contains(&said, &["hit a configured limit", "without a byte", "maxClientCnxns"]);

    let other = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let said = not_begun("use = \"zk\"", &config(other, "")).await;
    contains(&said, &["answered srvr with \"HTTP/1.1 400", "names no mode"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_chroot_and_refused_credentials_are_said_so() {
    use zookeeper_client as other;

    let server = Server::start("", &[]);
    let said = not_begun("use = \"zk\"", &config(server.addr, "chroot = \"/nowhere\"")).await;
    contains(&said, &["the root path \"/nowhere\" does not exist on", "create it or change `chroot`"]);

    // ZooKeeper takes any digest, and refuses what its rules do not allow: so credentials show only where rules stand.
    let ann = other::Client::connector().with_auth("digest", b"ann:secret");
    let ann = ann.connect(&server.addr.to_string()).await.unwrap();
    ann.create("/own", b"", &other::CreateMode::Persistent.with_acls(other::Acls::creator_all())).await.unwrap();
    for credentials in ["", "digest = \"ann:wrong\"\n"] {
        let said = not_begun("use = \"zk\"", &config(server.addr, &format!("chroot = \"/own\"\n{credentials}"))).await;
        contains(&said, &["refused the credentials", "the access rules under the root path do not allow it"]);
    }
    assert_eq!(ann.list_children("/own").await.unwrap(), Vec::<String>::new(), "nothing was left");

    let right = config(server.addr, "chroot = \"/own\"\ndigest = \"ann:secret\"");
    let verdict = run(&scenario("use = \"zk\"", LEVELS, RESTING, PROBE), &right).await;
    assert_eq!(verdict.last_good, Some(2), "{}", verdict.sentence);
    exact(&verdict.steps[2]);
    assert_eq!(ann.list_children("/own").await.unwrap(), Vec::<String>::new(), "nothing was left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_knows_no_digest_refuses_it_at_once() {
    let server = Server::start("", &["-Dzookeeper.DigestAuthenticationProvider.enabled=false"]);
    let said = not_begun("use = \"zk\"", &config(server.addr, "digest = \"ann:secret\"")).await;
    contains(&said, &["refused the credentials", "it does not accept the digest"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_four_letter_word_is_a_remark_and_its_counts_are_absent() {
    let server = Server::start("4lw.commands.whitelist=ruok", &[]);
    let mut run = Run::start(&scenario("use = \"zk\"", LEVELS, RESTING, ""), &config(server.addr, ""));
    let verdict = run.verdict().await;
    assert_eq!(ended(&verdict), (Status::NotReached, StopCode::MaxLoad, 0), "{}", verdict.sentence);
    let remarks = run.seen.iter().find_map(|event| {
        let RunEvent::Inventory { inventory, .. } = event else { return None };
        Some(inventory.remarks.join("\n"))
    });
    contains(
        &remarks.unwrap(),
        &["watches, ephemerals and sessions are not sampled: mntr is not executed because it is not in the whitelist"],
    );
    for trial in &verdict.steps[1..] {
        let counts: Vec<_> = trial.counts.iter().map(|count| (count.what.as_str(), count.observed)).collect();
        let znodes = i64::try_from(trial.counts[0].expected).unwrap();
        let want = [("znodes", Some(znodes)), ("watches", None), ("ephemerals", None), ("sessions", None)];
        assert_eq!(counts, want, "what was not told is not zero");
    }
    let watches = run.seen.iter().any(|event| {
        let RunEvent::Samples { samples } = event else { return false };
        samples.iter().any(|sample| sample.metric == "watches")
    });
    assert!(!watches, "no watches are sampled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_cannot_be_launched_is_said_so() {
    let said = not_begun("launch = \"tiny\"", &recipe("java = \"/nonexistent/java\"")).await;
    contains(&said, &["the target could not be launched: no Java", "\"/nonexistent/java\" is not a program here"]);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = not_begun("launch = \"tiny\"", &recipe(&format!("zoo_cfg = {{ clientPort = \"{port}\" }}"))).await;
    contains(&said, &[&format!("127.0.0.1:{port} is in use"), "zoo_cfg.clientPort"]);

    let said = not_begun("launch = \"tiny\"", &recipe("zoo_cfg = { tickTime = \"soon\" }")).await;
    contains(&said, &["ended at once", "the end of its log", "soon"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_killed_is_no_bottleneck_and_finished_steps_are_kept() {
    let _alone = alone().await;
    // The probe's last call fails with its connection: that rule breaks by the death, not by the load.
    let rules = "[[rule]]\nkind = \"throughput_drop\"\noperation = \"get\"\nbelow = 0.05\n\
                 [[rule]]\nkind = \"slo_errors\"\nabove = 0.0\n";
    let load = "kind = \"levels\"\nlevels = [1, 2, 3]\nsettle_s = 1\nmeasure_s = 3\n";
    // Never done in time, so that a call is always under way.
    let probe = PROBE.replace("count = 50", "count = 1000000").replace("rounds = 2", "rounds = 1");
    let mut run = Run::start(&scenario("launch = \"tiny\"", load, RESTING, &format!("{probe}{rules}")), &recipe(""));
    let pid = pid(&mut run).await;
    run.phase(Phase::Measuring, 2).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    signal(pid, Signal::Kill);
    let verdict = run.verdict().await;
    assert_eq!(ended(&verdict), UNUSABLE, "{}", verdict.sentence);
    assert_eq!((verdict.last_good, verdict.first_bad), (Some(1), None));
    let outcomes: Vec<_> = verdict.steps.iter().map(|trial| (trial.step, trial.trial, trial.outcome)).collect();
    assert_eq!(outcomes, [(0, 1, Outcome::Baseline), (1, 1, Outcome::Held), (2, 1, Outcome::Void)]);
    contains(&verdict.sentence, &["ended (signal: 9 (SIGKILL)); nothing shows that the load did it", "1 domains hold"]);
    let trial = &verdict.steps[2];
    assert!(
        trial.rules.iter().any(|rule| rule.broke == Some(true)),
        "the rule of errors is broken: {:#?}",
        trial.rules
    );
    assert!(trial.incidents.iter().any(|incident| incident.kind == IncidentKind::Died), "{:#?}", trial.incidents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_paused_is_measured_again_and_is_no_bottleneck() {
    let _alone = alone().await;
    let rules = "[[rule]]\nkind = \"throughput_drop\"\noperation = \"get\"\nbelow = 0.05\n\
                 [[rule]]\nkind = \"slo_errors\"\nabove = 0.0\n";
    let load = "kind = \"ramp\"\nstart = 1\nstep = 1\nmax = 2\nsettle_s = 1\nmeasure_s = 4\n";
    // Never done in time, so that a call is under way when the pause begins, and its znodes cannot be removed.
    let probe = PROBE.replace("count = 50", "count = 1000000").replace("rounds = 2", "rounds = 1");
    let mut run = Run::start(&scenario("launch = \"tiny\"", load, RESTING, &format!("{probe}{rules}")), &recipe(""));
    let pid = pid(&mut run).await;
    run.phase(Phase::Measuring, 1).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // Longer than the measurement: what is left of the pause must not meet the repetition either.
    signal(pid, Signal::Stop);
    tokio::time::sleep(Duration::from_secs(10)).await;
    signal(pid, Signal::Continue);
    let verdict = run.verdict().await;
    let outcomes: Vec<_> = verdict.steps.iter().map(|trial| (trial.step, trial.trial, trial.outcome)).collect();
    let want = [(0, 1, Outcome::Baseline), (1, 1, Outcome::Void), (1, 2, Outcome::Held), (2, 1, Outcome::Held)];
    assert_eq!(outcomes, want, "{:#?}", verdict.steps.iter().map(|trial| &trial.remarks).collect::<Vec<_>>());
    let paused = &verdict.steps[1];
    assert_eq!(paused.stop_code, Some(StopCode::TargetUnhealthy));
    assert!(paused.operations.iter().any(|stat| stat.errors.contains_key("timeout")), "{:#?}", paused.operations);
    contains(
        &paused.remarks[0],
        &["the target changed under the measurement", "was stopped by a signal (SIGSTOP) from outside"],
    );
    assert!(verdict.steps[2].incidents.is_empty(), "{:#?}", verdict.steps[2].incidents);
    // What the probe had to leave is gone, and counts no more.
    exact(&verdict.steps[3]);
    assert_eq!(ended(&verdict), (Status::NotReached, StopCode::MaxLoad, 0), "{}", verdict.sentence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_connections_is_a_limit_and_no_bottleneck() {
    let server = Server::start("maxClientCnxns=12", &[]);
    let before = counts(server.addr).await;
    let load = "kind = \"ramp\"\nstart = 1\nstep = 1\nmax = 4\nsettle_s = 1\nmeasure_s = 1\n";
    let config = config(server.addr, "source_addresses = [\"127.0.0.1\"]");
    let mut run = Run::start(&scenario("use = \"zk\"", load, RESTING, ""), &config);
    let verdict = run.verdict().await;
    assert_eq!(ended(&verdict), (Status::Inconclusive, StopCode::LimitReached, 4), "{}", verdict.sentence);
    // Five sessions a domain. ZooKeeper counts a connection a moment after it took it: a few more may get in.
    let held = verdict.last_good.unwrap();
    assert!((2..=3).contains(&held) && verdict.first_bad.is_none(), "{}", verdict.sentence);
    let in_place = format!("of {} domains could be put in place", held + 1);
    contains(
        &verdict.sentence,
        &["No capacity can be named (limit_reached)", &in_place, "maxClientCnxns allows 12 from one address"],
    );
    contains(&run.notes().join("\n"), &["needs 20 sessions", "maxClientCnxns = 12", "expect `limit_reached`"]);
    assert_eq!(counts(server.addr).await["znode_count"], before["znode_count"], "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_cancelled_while_it_fills_leaves_nothing() {
    let server = Server::start("", &[]);
    let before = counts(server.addr).await;
    let load = "kind = \"levels\"\nlevels = [500]\nsettle_s = 1\nmeasure_s = 1\n";
    let mut run = Run::start(&scenario("use = \"zk\"", load, RESTING, ""), &config(server.addr, ""));
    run.until(|event| matches!(event, RunEvent::Progress { confirmed: 5.., .. }).then_some(())).await;
    run.cancel.cancel();
    let verdict = run.verdict().await;
    assert_eq!(ended(&verdict), (Status::Aborted, StopCode::UserAbort, 8));
    assert_eq!(
        verdict.sentence,
        "The run was stopped before its answer: someone stopped it; no load was shown to hold."
    );
    assert_eq!(verdict.steps.len(), 1, "the finished step is kept");
    assert_eq!(run.notes(), Vec::<&str>::new());
    let after = counts(server.addr).await;
    for what in ["znode_count", "watch_count", "ephemerals_count", "global_sessions"] {
        assert_eq!(after[what], before[what], "{what} after the run");
    }
    // Nothing comes after the end: the server's last transaction stays the last.
    let zxid = || server.ask("srvr").unwrap().lines().find(|line| line.starts_with("Zxid")).unwrap().to_owned();
    let last = zxid();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(zxid(), last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_cancelled_while_its_target_counts_does_not_wait_for_it() {
    let server = Server::start("", &[]);
    let before = counts(server.addr).await;
    let proxy = Proxy::start(server.addr);
    let mut run = Run::start(&scenario("use = \"zk\"", LEVELS, RESTING, ""), &config(proxy.addr, ""));
    run.phase(Phase::Settling, 1).await;
    proxy.mute();
    // Settling ends after one second; the count that follows would give up after twenty.
    tokio::time::sleep(Duration::from_secs(3)).await;
    run.cancel.cancel();
    let verdict = tokio::time::timeout(Duration::from_secs(12), run.verdict()).await.expect("the run waits on");
    assert_eq!(ended(&verdict), (Status::Aborted, StopCode::UserAbort, 8));
    assert_eq!(counts(server.addr).await["znode_count"], before["znode_count"], "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_step_that_breaks_gives_an_upper_bound_only() {
    let _alone = alone().await;
    let load = "kind = \"ramp\"\nstart = 2\nstep = 2\nmax = 6\nsettle_s = 1\nmeasure_s = 1\n";
    let rule = "[[rule]]\nkind = \"slo_latency\"\noperation = \"get\"\npercentile = 0.5\nlimit_ms = 0.001\n";
    let both = [("", 0), ("[require]\ncapacity = 1\n", 2)].map(async |(require, code)| {
        let server = Server::start("", &[]);
        let text = scenario("use = \"zk\"", load, RESTING, &format!("{PROBE}{rule}{require}"));
        let verdict = run(&text, &config(server.addr, "")).await;
        assert_eq!(ended(&verdict), (Status::CapacityFound, StopCode::SloLatency, code), "{}", verdict.sentence);
        assert_eq!((verdict.last_good, verdict.first_bad), (None, Some(2)));
        let begin = "Fewer than 2 domains hold: already at the first load, get p50 was ";
        assert!(verdict.sentence.starts_with(begin), "{}", verdict.sentence);
        let trials: Vec<_> = verdict.steps.iter().map(|trial| (trial.load, trial.outcome)).collect();
        assert_eq!(trials, [(0, Outcome::Baseline), (2, Outcome::Broke), (2, Outcome::Broke)], "measured twice");
    });
    join_all(both).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_runs_on_one_target_the_second_is_told_who_holds_it() {
    let server = Server::start("", &[]);
    let mut first = Run::start(&scenario("use = \"zk\"", LEVELS, RESTING, ""), &config(server.addr, ""));
    first.phase(Phase::Settling, 1).await;
    let said = not_begun("use = \"zk\"", &config(server.addr, "")).await;
    let holder = format!("the target is in use by run {} (", first.id.short());
    contains(&said, &[&holder, &format!("pid {}", std::process::id())]);
    let verdict = first.verdict().await;
    assert_eq!(verdict.last_good, Some(2), "{}", verdict.sentence);
    verdict.steps[1..].iter().for_each(exact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_without_samples_enough_is_undecided() {
    let server = Server::start("", &[]);
    let load = "kind = \"ramp\"\nstart = 1\nstep = 1\nmax = 3\nsettle_s = 1\nmeasure_s = 1\n";
    let rule = "[[rule]]\nkind = \"slo_latency\"\noperation = \"get\"\nlimit_ms = 60000\n";
    let verdict =
        run(&scenario("use = \"zk\"", load, RESTING, &format!("{PROBE}{rule}")), &config(server.addr, "")).await;
    assert_eq!(ended(&verdict), (Status::Inconclusive, StopCode::NoData, 4), "{}", verdict.sentence);
    assert_eq!((verdict.last_good, verdict.steps.len()), (None, 2));
    contains(
        &verdict.sentence,
        &["No capacity can be named (no_data)", "get p99 has too few samples (50; 459 are needed)"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_budget_ends_a_run_with_what_is_known() {
    let server = Server::start("", &[]);
    let before = counts(server.addr).await;
    let load = "kind = \"ramp\"\nstart = 1\nstep = 1\nmax = 200\nsettle_s = 1\nmeasure_s = 1\n";
    let text = scenario("use = \"zk\"", load, RESTING, "[limits]\ntime_budget_s = 12\n");
    let verdict = run(&text, &config(server.addr, "")).await;
    assert_eq!(ended(&verdict), (Status::Inconclusive, StopCode::TimeBudget, 4), "{}", verdict.sentence);
    let held = verdict.last_good.unwrap();
    contains(&verdict.sentence, &["its time budget was over", &format!("{held} domains hold")]);
    assert!(held < 200);
    assert_eq!(counts(server.addr).await["znode_count"], before["znode_count"], "nothing is left");
}

#[test]
fn a_request_may_not_set_what_its_recipe_does_not_allow() {
    let value = "-XX:OnOutOfMemoryError=touch /tmp/owned";
    let text =
        scenario(&format!("launch = \"tiny\"\n[target.settings]\njvm_args = [\"{value}\"]"), LEVELS, RESTING, "");
    let (wanted, config) = (Scenario::parse(&text).unwrap(), Config::parse(&recipe("")).unwrap());
    let faults = plan(&wanted, &config, Origin::Network, &Surroundings::default()).unwrap_err();
    assert_eq!((faults.0.len(), faults.0[0].field.as_str()), (1, "target.settings.jvm_args"));
    contains(&faults.to_string(), &["line 6", value, "allowed: heap_mib, zoo_cfg.snapCount"]);
    assert!(
        plan(&wanted, &config, Origin::LocalUser, &Surroundings::default()).is_ok(),
        "the local user could start it anyway"
    );
    let text = text.replace("jvm_args = [\"", "zoo_cfg.dynamicConfigFile = \"").replace("\"]", "\"");
    let faults =
        plan(&Scenario::parse(&text).unwrap(), &config, Origin::Network, &Surroundings::default()).unwrap_err();
    contains(&faults.to_string(), &["target.settings.zoo_cfg.dynamicConfigFile", value, "allowed: heap_mib"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crashed_run_left_is_kept_while_its_lease_lives_and_cleaned_after() {
    let server = Server::start("maxSessionTimeout=6000", &[]);
    let before = counts(server.addr).await;
    let folder = tempfile::tempdir().unwrap();
    let (config_file, scenario_file) = (folder.path().join("rampart.toml"), folder.path().join("run.toml"));
    let config = config(server.addr, "");
    std::fs::write(&config_file, &config).unwrap();
    let load = "kind = \"levels\"\nlevels = [20]\nsettle_s = 10\nmeasure_s = 1\n";
    let options = format!("{RESTING}fill = \"fast\"\n");
    std::fs::write(&scenario_file, scenario("use = \"zk\"", load, &options, "")).unwrap();
    let rampart = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart"));
        command.args(words).arg("--config").arg(&config_file).env_remove("RAMPART_DB");
        command
    };
    let mut crashed = rampart(&["run", "--quiet"]).arg(&scenario_file).spawn().unwrap();
    until_counts(server.addr, "znode_count", |now| now > before["znode_count"] + 500).await;
    crashed.kill().unwrap();
    crashed.wait().unwrap();

    let spec = ZookeeperSpec {
        servers: vec![server.addr],
        chroot: String::new(),
        digest: None,
        admin_urls: Vec::new(),
        metrics_urls: Vec::new(),
        node_exporters: Vec::new(),
        hosts: Vec::new(),
        source_addresses: Vec::new(),
        tls: None,
    };
    let target = Zookeeper::new(spec, Vec::new());
    let left = target.clean(CleanPace::default()).await.unwrap();
    assert_eq!((left.removed_roots.len(), left.removed_znodes, left.skipped.len()), (0, 0, 1), "{left:?}");
    contains(&left.skipped[0], &["its lease is held by run ", &format!("pid {}", crashed.id())]);
    contains(&not_begun("use = \"zk\"", &config).await, &["the target is in use by run "]);

    until_counts(server.addr, "ephemerals_count", |now| now == before["ephemerals_count"]).await;
    let output = rampart(&["clean", "zk"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    contains(&said, &["removed /rampart-", "1 root and ", " znodes removed from zk"]);
    assert_eq!(counts(server.addr).await["znode_count"], before["znode_count"], "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_is_not_in_place_in_time_cannot_be_applied() {
    let server = Server::start("", &[]);
    let before = counts(server.addr).await;
    // The pace alone makes it late: nothing of the target shows signs of load, so no capacity was found.
    let options = RESTING.replace("fill_per_s = 20", "fill_per_s = 0.5");
    let load = "kind = \"ramp\"\nstart = 1\nstep = 20\nmax = 21\nsettle_s = 1\nmeasure_s = 1\nfill_max_s = 3\n";
    let verdict = run(&scenario("use = \"zk\"", load, &options, ""), &config(server.addr, "")).await;
    assert_eq!(ended(&verdict), (Status::Failed, StopCode::CannotApply, 6), "{}", verdict.sentence);
    assert_eq!((verdict.last_good, verdict.first_bad), (Some(1), None));
    contains(
        &verdict.sentence,
        &[" of 21 domains were in place after 3 s, the longest that filling may take", "1 domains hold"],
    );
    contains(&verdict.steps[2].remarks.join("\n"), &["not measured once more"]);
    assert_eq!(counts(server.addr).await["znode_count"], before["znode_count"], "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_required_capacity_that_is_not_shown_is_exit_code_2() {
    let cases = [(3, 2, "less than the required 3 domains"), (2, 0, "enough for the required 2 domains")];
    let both = cases.map(async |(required, code, said)| {
        let server = Server::start("", &[]);
        let text = scenario("use = \"zk\"", LEVELS, RESTING, &format!("[require]\ncapacity = {required}\n"));
        let verdict = run(&text, &config(server.addr, "")).await;
        assert_eq!(ended(&verdict), (Status::NotReached, StopCode::MaxLoad, code), "{}", verdict.sentence);
        contains(&verdict.sentence, &["At least 2 domains hold", said]);
    });
    join_all(both).await;
}
