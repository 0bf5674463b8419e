//! Limits and oddities of single servers under a run: small buffers, short sessions, a throttle, files that cannot be read,
//! servers of two versions.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use rampart::{
    launch::{NodeAction, Recipe, launcher},
    model::{Phase, RunEvent, RunId, Status, StopCode},
};

use crate::{
    engine_run::{Run, config, counts, exact, recipe, run, scenario},
    ensemble_faults::{Ensemble, inventory},
    zookeeper::Server,
};

const RESTING: &str = "executors = 2\njobs = 3\nshards = 2\nfill_per_s = 20\ntraffic = false\n";
const TWO: &str = "kind = \"levels\"\nlevels = [2, 3]\nsettle_s = 1\nmeasure_s = 2\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_session_timeout_than_asked_is_told() {
    let server = Server::start("maxSessionTimeout=6000", &[]);
    for (asked_ms, said) in [(20_000, true), (6_000, false)] {
        let options = format!("{RESTING}session_timeout_ms = {asked_ms}\n");
        let mut run = Run::start(&scenario("use = \"zk\"", TWO, &options, ""), &config(server.addr, ""));
        let verdict = run.verdict().await;
        assert_eq!(verdict.last_good, Some(3), "{}", verdict.sentence);
        let text = "ask for a timeout of 20000 ms; the target gives them 6000 ms (maxSessionTimeout)";
        assert_eq!(run.notes().iter().any(|note| note.contains(text)), said, "{:?}", run.notes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_buffer_makes_batches_smaller_and_what_does_not_fit_is_a_limit() {
    let small = recipe("system_properties = { \"jute.maxbuffer\" = \"20000\" }");
    // Of the default shape: several batches of znodes and of watches.
    let load = "kind = \"levels\"\nlevels = [2]\nsettle_s = 1\nmeasure_s = 1\n";
    let options = "fill = \"fast\"\ntraffic = false\n";
    let verdict = run(&scenario("launch = \"tiny\"", load, options, ""), &small).await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(2)), "{}", verdict.sentence);
    exact(&verdict.steps[1]);

    // One znode holds the list of all items of all jobs: 55 bytes each.
    for fill in ["fast", "faithful"] {
        let options = format!("jobs = 60\nshards = 20\nfill = \"{fill}\"\ntraffic = false\n");
        let verdict = run(&scenario("launch = \"tiny\"", load, &options, ""), &small).await;
        let ended = (verdict.status, verdict.stop_code, verdict.exit_code);
        assert_eq!(ended, (Status::Inconclusive, StopCode::LimitReached, 4), "{fill}: {}", verdict.sentence);
        assert_eq!((verdict.last_good, verdict.first_bad), (None, None));
        let said = "a domain needs a request that is larger than jute.maxbuffer allows (20000 bytes)";
        assert!(verdict.sentence.contains(said), "{fill}: {}", verdict.sentence);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_throttles_is_slower_and_loses_nothing() {
    let throttled = recipe("zoo_cfg = { globalOutstandingLimit = \"5\" }");
    let options = "fill_per_s = 0\ntraffic_factor = 5.0\n";
    let load = "kind = \"levels\"\nlevels = [3]\nsettle_s = 1\nmeasure_s = 4\n";
    let mut run = Run::start(&scenario("launch = \"tiny\"", load, options, ""), &throttled);
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(3)), "{}", verdict.sentence);
    let znodes = &verdict.steps[1].counts[0];
    assert!(znodes.observed.unwrap().abs_diff(i64::try_from(znodes.expected).unwrap()) <= znodes.tolerance);
    let settings = inventory(&run).settings;
    let limit = settings.iter().find(|setting| setting.name == "zoo_cfg.globalOutstandingLimit");
    assert!(limit.is_some_and(|setting| setting.value == "5"), "{settings:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_that_cannot_be_read_are_absent_and_not_zero() {
    let mut run = Run::start(&scenario("launch = \"tiny\"", TWO, RESTING, ""), &recipe(""));
    let dir = run
        .until(|event| {
            let RunEvent::Launched { dir, .. } = event else { return None };
            Some(std::path::PathBuf::from(dir))
        })
        .await;
    run.phase(Phase::Measuring, 1).await;
    // Even for root a file is no folder. The server writes on to what it holds open.
    let folder = dir.join("1/data/version-2");
    std::fs::rename(&folder, dir.join("1/data/away")).unwrap();
    std::fs::write(&folder, "").unwrap();
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(3)), "{}", verdict.sentence);
    let told = |step: usize| verdict.steps[step].target_nodes().any(|(_, series)| series.contains_key("snapshots"));
    assert!(told(0), "{:#?}", verdict.steps[0].nodes);
    let spread = |step: usize| {
        let mut nodes = verdict.steps[step].target_nodes();
        nodes.any(|(_, series)| series["outstanding_requests"].distribution.is_some())
    };
    assert!(spread(0) && spread(2), "{:#?}", verdict.steps[0].nodes);
    assert!(!told(2), "{:#?}", verdict.steps[2].nodes);
    exact(&verdict.steps[2]);
}

/// A server that the launcher did not start; it ends with the test.
struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ensemble_of_two_versions_is_measured_and_both_are_told() {
    let ensemble = Ensemble::start(&[]).await;
    let newer = ensemble.names[2].clone();
    ensemble.control(&newer, NodeAction::Stop).await;

    // What Maven Central gives is known to the process that was started from it.
    let recipe = Recipe { heap_mib: 64, version: Some("3.9.4".to_owned()), ..Recipe::new("zookeeper") };
    let other = launcher(&recipe).unwrap().start(&recipe, RunId::new()).await.unwrap();
    let command = std::fs::read(format!("/proc/{}/cmdline", other.nodes()[0].pid)).unwrap();
    other.stop().await;
    let words: Vec<_> =
        command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let class_path = &words[words.iter().position(|word| word == "-cp").unwrap() + 1];
    assert!(class_path.contains("zookeeper-3.9.4.jar"), "{class_path}");
    let cfg = ensemble.managed.dir().join("3/zoo.cfg");
    let started = Command::new("java")
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-cp", class_path.as_str()])
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(cfg)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _own = Own(started);
    ensemble.leader().await;

    let mut run = Run::start(&scenario("use = \"zk\"", TWO, RESTING, ""), &ensemble.config(""));
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(3)), "{}", verdict.sentence);
    verdict.steps[1..].iter().for_each(exact);
    let versions: Vec<_> =
        inventory(&run).nodes.iter().map(|node| node.version.split('-').next().unwrap().to_owned()).collect();
    assert_eq!(versions, ["3.8.0", "3.8.0", "3.9.4"]);
    let left = counts(newer.parse().unwrap()).await["znode_count"];
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(counts(ensemble.names[0].parse().unwrap()).await["znode_count"], left, "nothing is left on either");
    ensemble.managed.stop().await;
}
