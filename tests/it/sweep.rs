//! Runs of several arms, on real servers: each launched anew with its own value, what fails left behind, one verdict.

use std::collections::BTreeMap;

use rampart::model::{Phase, RunEvent, Status, StopCode};

use crate::engine_run::{Run, SMALL, alone, recipe, run, scenario};

const LOAD: &str = "kind = \"levels\"\nlevels = [2]\nsettle_s = 0\nmeasure_s = 2\nwarm_up_s = 1";
const PROBE: &str = "[[probe]]\nkind = \"zookeeper.latencies\"\ncount = 50\nmax_s = 0.2";

fn swept(sweep: &str) -> String {
    scenario("launch = \"tiny\"", LOAD, SMALL, &format!("{PROBE}\n[sweep]\n{sweep}"))
}

/// What is left of the servers that a run launched.
fn alive(run: &Run) -> Vec<u32> {
    let pids = run.seen.iter().filter_map(|event| {
        let RunEvent::Launched { pid, .. } = event else { return None };
        Some(*pid)
    });
    pids.filter(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()).collect()
}

#[tokio::test]
async fn each_arm_is_launched_with_its_own_value_and_filled_anew() {
    let _alone = alone().await;
    let text = swept("setting = \"zoo_cfg.snapCount\"\nvalues = [5000, 90000]\nrepetitions = 2\norder = \"abba\"");
    let mut run = Run::start(&text, &recipe(""));
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.stop_code), (Status::NotReached, StopCode::MaxLoad), "{}", verdict.sentence);
    assert_eq!((verdict.last_good, verdict.arms.len(), verdict.steps.len()), (Some(2), 4, 8), "{}", verdict.sentence);
    let order: Vec<u32> = verdict.arms.iter().map(|result| result.arm.number).collect();
    assert_eq!(order, [0, 1, 3, 2], "the second time backwards");
    // What each server said of itself, under the number of its arm.
    let (mut arm, mut counts) = (0, BTreeMap::new());
    for event in &run.seen {
        if let RunEvent::Phase { arm: now, .. } = event {
            arm = *now;
        }
        if let RunEvent::Inventory { inventory, .. } = event {
            let set = inventory.settings.iter().find(|setting| setting.name.ends_with("snapCount")).unwrap();
            counts.insert(arm, set.value.clone());
        }
    }
    let expected = [(0, "5000"), (1, "90000"), (2, "5000"), (3, "90000")];
    assert_eq!(counts, expected.map(|(arm, value)| (arm, value.to_owned())).into());
    for result in &verdict.arms {
        let steps: Vec<_> = verdict.steps.iter().filter(|trial| trial.arm == result.arm.number).collect();
        assert_eq!(steps.iter().map(|trial| trial.load).collect::<Vec<_>>(), [0, 2], "{}", result.arm.label());
        // A server that was not launched anew would hold the domains of the arm before.
        let znodes = |at: usize| steps[at].census["znodes"];
        assert!(znodes(0) < 60 && znodes(1) > znodes(0) + 50, "{} {}", znodes(0), znodes(1));
        assert_eq!(result.leader.as_deref(), Some("127.0.0.1"));
    }
    assert!(!verdict.findings.is_empty());
    assert_eq!(alive(&run), Vec::<u32>::new());
}

#[tokio::test]
async fn a_value_that_does_not_start_is_told_and_the_sweep_goes_on() {
    let _alone = alone().await;
    let text = swept(
        "setting = \"jvm_args\"\nvalues = [\"-XX:+NoSuchThing\", \"-XX:+UseSerialGC\"]\nrepetitions = 1\norder = \"abba\"",
    );
    let verdict = run(&text, &recipe("")).await;
    assert_eq!((verdict.status, verdict.exit_code), (Status::Inconclusive, 4), "{}", verdict.sentence);
    let of = |value: &str| verdict.arms.iter().find(|result| result.arm.value == value).unwrap();
    assert_eq!(of("-XX:+NoSuchThing").verdict.status, Status::Failed);
    assert!(
        of("-XX:+NoSuchThing").verdict.sentence.contains("NoSuchThing"),
        "the server's own words: {}",
        verdict.sentence
    );
    assert_eq!(of("-XX:+UseSerialGC").verdict.status, Status::NotReached);
    assert_eq!(verdict.steps.len(), 2);
    assert!(verdict.sentence.contains("at least 2 with -XX:+UseSerialGC"), "{}", verdict.sentence);
}

#[tokio::test]
async fn a_cancel_ends_all_arms_and_leaves_no_server() {
    let _alone = alone().await;
    let mut run = Run::start(&swept("repetitions = 3"), &recipe(""));
    run.until(|event| matches!(event, RunEvent::Phase { phase: Phase::Measuring, arm: 1, .. }).then_some(())).await;
    run.cancel.cancel();
    let verdict = run.verdict().await;
    assert_eq!((verdict.status, verdict.stop_code), (Status::Aborted, StopCode::UserAbort), "{}", verdict.sentence);
    assert_eq!(verdict.arms.len(), 2, "the third was not begun");
    assert_eq!(verdict.steps.iter().filter(|trial| trial.arm == 0).count(), 2, "the first is kept");
    assert_eq!(alive(&run), Vec::<u32>::new());
}

#[tokio::test]
async fn a_time_budget_is_of_the_whole_run() {
    let _alone = alone().await;
    let text = swept("repetitions = 20") + "\n[limits]\ntime_budget_s = 14\n";
    let verdict = run(&text, &recipe("")).await;
    assert_eq!(verdict.stop_code, StopCode::TimeBudget, "{}", verdict.sentence);
    assert!((1..6).contains(&verdict.arms.len()), "{}", verdict.sentence);
}
