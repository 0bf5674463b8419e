//! Two runs beside each other: the pure part on fixtures, then the API and the command line on a database.

use std::collections::BTreeMap;

use rampart::{
    model::{Arm, Fingerprint, Outcome, RunEvent, RunId, RunState},
    report::{
        compare::{self, Comparison},
        format::THIN,
        markdown,
    },
    store::Store,
};

use crate::{
    app::TestApp,
    binary::Place,
    fixture::{self, Made},
    stored,
};

/// The same run made a second time, with other settings of its target.
fn again(settings: &[(&str, &str)]) -> Made {
    let mut made = fixture::capacity();
    let inventory = made.detail.inventory.as_mut().unwrap();
    for (name, value) in settings {
        inventory.settings.iter_mut().find(|setting| setting.name == *name).unwrap().value = (*value).to_owned();
    }
    inventory.fingerprint = Fingerprint::of(inventory);
    made
}

fn compared(before: &Made, after: &Made) -> Comparison {
    compare::of(&before.detail, &after.detail).unwrap()
}

fn warned(found: &Comparison, part: &str) -> bool {
    found.warnings.iter().any(|warning| warning.contains(part))
}

#[test]
fn one_thing_that_differs_is_named_and_two_are_warned_of() {
    let before = fixture::capacity();
    let same = compared(&before, &again(&[]));
    assert_eq!((same.differences.len(), same.warnings.as_slice()), (0, &[][..]));
    let one = compared(&before, &again(&[("heap", "512 MiB")]));
    let text = markdown::render(&one.differences());
    assert!(text.contains("| heap | 1024 MiB | 512 MiB |"), "{text}");
    assert_eq!(one.warnings, Vec::<String>::new(), "one thing is what a comparison is for");
    let two = compared(&before, &again(&[("heap", "512 MiB"), ("snapCount", "1000")]));
    assert_eq!(
        two.warnings,
        ["2 things differ (heap, snapCount): what the rates show cannot be put down to one of them."]
    );
}

#[test]
fn rates_stand_by_operation_and_load_with_their_ratio() {
    let before = fixture::capacity();
    let mut after = again(&[]);
    after.detail.trials.retain(|trial| trial.step != 3);
    for stat in after.detail.trials.iter_mut().flat_map(|trial| &mut trial.operations) {
        stat.ops_per_s *= if stat.operation == "get" { 0.5 } else { 1.0 };
    }
    let found = compared(&before, &after);
    let of = |operation: &str, load: u64| {
        let mut pairs = found.rates.iter();
        pairs.find(|pair| (pair.operation.as_str(), pair.load) == (operation, load)).unwrap().clone()
    };
    assert_eq!((of("get", 25).ratio, of("set", 25).ratio), (Some(0.5), Some(1.0)));
    assert_eq!((of("get", 25).before_per_s, of("get", 25).after_per_s), (Some(4_120.0), Some(2_060.0)));
    assert_eq!((of("get", 75).after_per_s, of("get", 75).ratio), (None, None), "only one run measured it");
    let text = markdown::render(&found.rates()).replace(THIN, " ");
    assert!(text.contains("| zookeeper.latencies | get | 25 | 4 120 | 2 060 | 0.50 |"), "{text}");
    assert!(text.contains("| get | 75 | 2 874 | not measured | no ratio |"), "{text}");
    let gets: Vec<u64> = found.rates.iter().filter(|pair| pair.operation == "get").map(|pair| pair.load).collect();
    assert!(gets.starts_with(&[0, 25, 50, 75]), "the loads of one operation stand together: {gets:?}");
}

#[test]
fn a_void_trial_and_one_with_an_action_are_not_compared() {
    let before = fixture::capacity();
    let mut after = again(&[]);
    for trial in after.detail.trials.iter_mut().filter(|trial| trial.load == 25) {
        trial.outcome = Outcome::Void;
    }
    let mut acted = fixture::acted(after.detail.trials.iter().find(|trial| trial.load == 50).unwrap());
    acted.operations.iter_mut().for_each(|stat| stat.ops_per_s = 1.0);
    after.detail.trials.push(acted);
    let found = compared(&before, &after);
    assert!(found.rates.iter().filter(|pair| pair.load == 25).all(|pair| pair.after_per_s.is_none()));
    assert!(found.rates.iter().filter(|pair| pair.load == 50).all(|pair| pair.ratio == Some(1.0)));
}

#[test]
fn what_keeps_two_runs_from_being_compared_is_said() {
    let before = fixture::capacity();
    assert!(compare::of(&before.detail, &before.detail).unwrap_err().to_string().contains("is named twice"));

    let mut bare = again(&[]);
    bare.detail.inventory = None;
    let found = compared(&before, &bare);
    assert!(warned(&found, "has no inventory") && found.differences.is_empty() && !found.rates.is_empty());

    let mut other = again(&[]);
    other.detail.scenario_text.push('\n');
    assert!(warned(&compared(&before, &other), "are called saturn-max-load and differ"));
    other.detail.run.scenario = "other".to_owned();
    assert!(warned(&compared(&before, &other), "The scenarios differ (saturn-max-load and other)"));

    let (mut axis, mut live) = (again(&[]), again(&[]));
    axis.detail.run.unit = "clients".to_owned();
    let found = compared(&before, &axis);
    assert!(warned(&found, "in domains, the other in clients") && found.rates.is_empty());

    live.detail.run.state = RunState::Running;
    live.detail.verdict = None;
    live.detail.trials.clear();
    let found = compared(&before, &live);
    assert!(warned(&found, "is running") && warned(&found, "No operation was measured at the same load in both"));
    assert!(warned(&compared(&before, &fixture::invalid()), "not fit to judge"));
}

#[test]
fn arms_are_compared_with_their_like_and_their_values_stand_together() {
    let of_arms = |values: [&str; 2]| {
        let mut made = fixture::capacity();
        let detail = &mut made.detail;
        for (number, value) in (0..).zip(values) {
            let mut inventory = again(&[("snapCount", value)]).detail.inventory.unwrap();
            inventory.fingerprint = Fingerprint::default();
            detail.inventories.insert(number, inventory);
            let arm = Arm { number, setting: "snapCount".into(), value: value.into(), repetition: 1 };
            detail.outline.arms.push(arm);
        }
        let mut second = detail.trials.clone();
        second.iter_mut().for_each(|trial| trial.arm = 1);
        detail.trials.extend(second);
        made
    };
    let found = compared(&of_arms(["1000", "9000"]), &of_arms(["1000", "5000"]));
    let told: Vec<_> = found.differences.iter().map(|each| (each.before.clone(), each.after.clone())).collect();
    assert_eq!(told, [(Some("1000, 9000".to_owned()), Some("1000, 5000".to_owned()))]);
    let mut both: BTreeMap<&str, bool> = BTreeMap::new();
    for pair in &found.rates {
        both.insert(&pair.arm, pair.ratio.is_some());
    }
    let wanted =
        [("snapCount = 1000, time 1", true), ("snapCount = 5000, time 1", false), ("snapCount = 9000, time 1", false)];
    assert_eq!(both.into_iter().collect::<Vec<_>>(), wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_compares_two_stored_runs_and_names_what_is_wrong() {
    let stored = stored::serve().await;
    let mut ids = Vec::new();
    for made in [fixture::capacity(), again(&[("heap", "512 MiB")])] {
        let run = stored.begin(&made).await;
        let verdict = Box::new(made.detail.verdict.clone().unwrap());
        stored.tell.send(RunEvent::Verdict { at_ns: made.now_ns, verdict }).await.unwrap();
        stored.until(run, |detail| detail.run.state.is_over()).await;
        ids.push(run);
    }
    let ask = async |one: String, other: String| {
        let answer = reqwest::get(format!("{}/api/v1/runs/{one}/compare/{other}", stored.base)).await.unwrap();
        (answer.status().as_u16(), answer.json::<serde_json::Value>().await.unwrap())
    };
    let (status, found) = ask(ids[0].to_string(), ids[1].to_string()).await;
    assert_eq!((status, &found["differences"][0]["after"]), (200, &"512 MiB".into()), "{found}");
    assert!(found["rates"].as_array().unwrap().iter().any(|pair| pair["ratio"] == 1.0), "{found}");
    let (status, problem) = ask(ids[0].to_string(), ids[0].to_string()).await;
    assert_eq!((status, &problem["errors"][0]["field"]), (400, &"other".into()), "{problem}");
    for unknown in [RunId::new().to_string(), "nonsense".to_owned()] {
        let (status, problem) = ask(ids[0].to_string(), unknown.clone()).await;
        assert!(status == 404 && problem["detail"].as_str().unwrap().contains(&unknown), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_compares_two_runs_of_a_database() {
    let app = TestApp::new().await;
    let (one, other) = (app.submit().await.to_string(), app.submit().await.to_string());
    let database = crate::app::database(&app.dir);
    let file = database.display().to_string();
    let place = Place::new(&[]);
    let held = place.run(&["compare", &one, &other, "--db", &file]);
    assert!(held.code == Some(1) && held.stderr.contains("GET /api/v1/runs/"), "{}", held.stderr);
    app.state.store.close().await;
    let copy = place.path("copy.db");
    std::fs::copy(&database, &copy).unwrap();
    let file = copy.display().to_string();
    let ended = place.run(&["compare", &one, &other, "--db", &file]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("Nothing differs of what is known") && ended.stdout.contains("has no inventory"));
    for (wrong, said) in [
        (vec!["compare", &one, &one, "--db", &file], "is named twice"),
        (vec!["compare", &one, "x", "--db", &file], "\"x\" is not the id of a run"),
        (vec!["compare", &one, &RunId::new().to_string(), "--db", &file], "there is no run"),
        (vec!["compare", &one, &other, "--db", "none.db"], "there is no database none.db"),
    ] {
        let ended = place.run(&wrong);
        assert!(ended.code == Some(1) && ended.stderr.contains(said), "{wrong:?}: {}", ended.stderr);
    }
    assert!(!place.path("none.db").exists());
    drop(Store::open(&copy).await.unwrap());
}
