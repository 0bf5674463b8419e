//! The queue, the journal, and what is left after a crash.

use std::{sync::Arc, time::Duration};

use rampart::{
    launch::Orphan,
    model::{Phase, RunEvent, RunState, Status, StopCode},
    runs::{AskedBy, Cancelled, FOLLOWER_LAG, Recovered, SubmitError},
};
use tokio::sync::broadcast::error::RecvError;

use crate::app::{
    SCENARIO, TestApp, hear, hear_end, note, other_scenario, phase, samples, trial, trial_event, verdict, within,
};

#[tokio::test]
async fn the_journal_keeps_order_and_tells_what_it_stored() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.say(phase(Phase::Filling, 10)).await;
    stage.say(RunEvent::Progress { at_ns: 2, asked: 10, confirmed: 4 }).await;
    stage.say(samples(1, 2)).await;
    stage.say(RunEvent::Root { at_ns: 2, root: id.root() }).await;
    stage.say(note("one")).await;
    stage.say(trial_event(1, 10)).await;
    stage.finish().await;
    let mut told = Vec::new();
    while let Ok(live) = within(follower.recv()).await {
        told.push(live);
    }
    let kinds: Vec<_> = told.iter().map(|live| (live.seq, live.kind)).collect();
    let expected = [
        (Some(1), "phase"),
        (None, "progress"),
        (None, "samples"),
        (Some(2), "root"),
        (Some(3), "note"),
        (Some(4), "trial"),
        (Some(5), "verdict"),
    ];
    assert_eq!(kinds, expected);
    let stored = app.store().events(id, 0).await.unwrap();
    let live: Vec<_> = told.iter().filter_map(|live| Some((live.seq?, live.json.to_string()))).collect();
    assert_eq!(stored.into_iter().map(|event| (event.seq, event.json)).collect::<Vec<_>>(), live);
    assert!(app.runs().follow(id).is_none());
}

#[tokio::test]
async fn a_live_run_shows_its_phase() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.say(phase(Phase::Filling, 10)).await;
    hear(&mut follower, "phase").await;
    let detail = app.store().detail(id).await.unwrap().unwrap();
    assert_eq!(detail.run.state, RunState::Running);
    assert_eq!(detail.phase.map(|now| (now.phase, now.load)), Some((Phase::Filling, 10)));
    stage.finish().await;
    hear_end(&mut follower).await;
    assert_eq!(app.store().detail(id).await.unwrap().unwrap().phase, None);
}

#[tokio::test]
async fn one_run_at_a_time_first_in_first_out() {
    let app = TestApp::new().await;
    let (first, stage, _) = app.live().await;
    let (second, third) = (app.submit().await, app.submit().await);
    assert_eq!(app.runs().waiting(), [second, third]);
    assert_eq!(app.store().row(second).await.unwrap().unwrap().state, RunState::Queued);
    stage.finish().await;
    let stage = app.stage().await;
    assert_eq!(stage.run, second);
    assert_eq!(app.store().row(first).await.unwrap().unwrap().state, RunState::Finished, "before the next begins");
    stage.finish().await;
    assert_eq!(app.stage().await.run, third);
}

#[tokio::test]
async fn a_queued_run_can_be_cancelled_and_never_begins() {
    let app = TestApp::new().await;
    let (_, stage, _) = app.live().await;
    let (second, third) = (app.submit().await, app.submit().await);
    let mut follower = app.runs().follow(second).unwrap();
    assert_eq!(app.runs().cancel(second).await.unwrap(), Cancelled::NeverBegan);
    assert_eq!(app.runs().cancel(second).await.unwrap(), Cancelled::Over);
    hear(&mut follower, "verdict").await;
    hear_end(&mut follower).await;
    let row = app.store().row(second).await.unwrap().unwrap();
    assert_eq!((row.state, row.status), (RunState::Finished, Some(Status::Aborted)));
    assert_eq!(row.stop_code, Some(StopCode::UserAbort));
    assert_eq!(app.store().verdict(second).await.unwrap().unwrap().exit_code, 8);
    stage.finish().await;
    assert_eq!(app.stage().await.run, third);
}

#[tokio::test]
async fn cancelling_a_live_run_tells_the_engine_and_waits_for_its_verdict() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    assert!(!stage.cancel.is_cancelled());
    assert_eq!(app.runs().cancel(id).await.unwrap(), Cancelled::Stopping);
    assert_eq!(app.runs().cancel(id).await.unwrap(), Cancelled::Stopping);
    within(stage.cancel.cancelled()).await;
    assert_eq!(app.store().row(id).await.unwrap().unwrap().state, RunState::Running);
    stage.finish().await;
    hear_end(&mut follower).await;
    assert_eq!(app.runs().cancel(id).await.unwrap(), Cancelled::Over);
    assert_eq!(app.runs().cancel(rampart::model::RunId::new()).await.unwrap(), Cancelled::Unknown);
}

#[tokio::test]
async fn one_key_is_one_run() {
    let app = TestApp::new().await;
    let submit = async |text: &str| app.runs().submit(text, AskedBy::Api, Some("key")).await;
    let (one, two) = tokio::join!(submit(SCENARIO), submit(SCENARIO));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.id, two.id);
    assert_eq!((one.existing, two.existing), (false, true));
    let other = submit(&other_scenario()).await.unwrap_err();
    assert!(matches!(other, SubmitError::Conflict { existing } if existing == one.id), "{other:?}");
    let unkeyed = app.submit().await;
    assert_ne!(unkeyed, one.id);
}

#[tokio::test]
async fn a_scenario_with_faults_makes_no_run() {
    let app = TestApp::new().await;
    let refused = app.runs().submit(&SCENARIO.replace("staging", "nowhere"), AskedBy::Api, Some("key")).await;
    let Err(SubmitError::Faults(faults)) = refused else { panic!("{refused:?}") };
    assert_eq!(faults.0[0].field, "target.use");
    assert!(app.store().list(&Default::default()).await.unwrap().is_empty());
    assert!(!app.runs().submit(SCENARIO, AskedBy::Api, Some("key")).await.unwrap().existing, "the key is still free");
}

#[tokio::test]
async fn an_engine_that_fails_interrupts_its_run_and_only_that() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    let next = app.submit().await;
    stage.say(trial_event(1, 10)).await;
    stage.panic();
    hear_end(&mut follower).await;
    let row = app.store().row(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.status, row.stop_code), (RunState::Interrupted, Some(Status::Failed), None));
    let sentence = row.sentence.unwrap();
    assert!(sentence.contains("the script says so") && sentence.contains("1 step is kept"), "{sentence}");
    assert_eq!(app.stage().await.run, next);
}

#[tokio::test]
async fn a_verdict_that_was_only_returned_is_stored_too() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.end_silently();
    hear(&mut follower, "verdict").await;
    assert_eq!(app.store().verdict(id).await.unwrap(), Some(verdict(id)));
}

#[test]
fn after_a_crash_steps_are_kept_leftovers_removed_and_the_queue_goes_on() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let before = runtime();
    let (dir, first, second) = before.block_on(async {
        let app = TestApp::new().await;
        let (first, stage, mut follower) = app.live().await;
        let second = app.submit().await;
        let dir = "/tmp/zk".to_owned();
        stage.say(RunEvent::Root { at_ns: 1, root: first.root() }).await;
        stage.say(RunEvent::Launched { at_ns: 1, node: "n".to_owned(), pid: 77, process_started_s: 5, dir }).await;
        stage.say(samples(1, 5)).await;
        stage.say(trial_event(1, 10)).await;
        stage.say(trial_event(2, 20)).await;
        hear(&mut follower, "trial").await;
        hear(&mut follower, "trial").await;
        (Arc::clone(&app.dir), first, second)
    });
    // As a kill does it: every task ends where it is.
    drop(before);
    runtime().block_on(async {
        let app = TestApp::on(dir).await;
        let recovered = app.runs().recover().await.unwrap();
        assert_eq!(recovered, Recovered { interrupted: vec![first], queued: vec![second] });
        let detail = app.store().detail(first).await.unwrap().unwrap();
        assert_eq!((detail.run.state, detail.run.status), (RunState::Interrupted, Some(Status::Aborted)));
        assert_eq!((detail.run.stop_code, detail.verdict), (None, None));
        assert!(detail.run.sentence.unwrap().ends_with("2 steps are kept"));
        assert_eq!(detail.trials, [trial(1, 10), trial(2, 20)]);
        assert_eq!(app.store().series(first, &[], 10).await.unwrap()[0].points.len(), 5);
        let orphan = Orphan { pid: 77, process_started_s: 5, dir: "/tmp/zk".into() };
        assert_eq!(*app.reaped.lock().unwrap(), [orphan]);
        assert!(app.store().launched().await.unwrap().is_empty());
        let stage = app.stage().await;
        assert_eq!(stage.run, second);
        assert_eq!(stage.cleaned, ["staging"], "a run waits until its target is clean");
        assert_eq!(app.store().uncleaned().await.unwrap(), [], "and what is clean is not cleaned again");
    });
}

#[tokio::test]
async fn a_store_that_is_full_stops_the_load_and_the_server_goes_on() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.say(trial_event(1, 10)).await;
    hear(&mut follower, "trial").await;
    app.store().limit_pages(1).await.unwrap();
    stage.say(note("x".repeat(200_000))).await;
    within(stage.cancel.cancelled()).await;
    let told = hear(&mut follower, "note").await;
    assert!(told.seq.is_none() && told.json.contains("the run is being stopped"), "{}", told.json);
    // The engine cleans up; what it tells is heard by nobody, and it is not held up.
    for _ in 0..1_000 {
        stage.say(note("cleaning")).await;
    }
    assert_eq!(app.get("/api/v1/runs").await.json()["runs"][0]["id"], id.to_string());
    let refused =
        app.post("/api/v1/runs", "application/toml", &(SCENARIO.to_owned() + &"# long\n".repeat(50_000))).await;
    assert_eq!(refused.problem()["type"], "/problems/store-full", "{refused:?}");
    assert_eq!(refused.status, 507);
    app.store().limit_pages(u32::MAX - 1).await.unwrap();
    stage.finish().await;
    hear_end(&mut follower).await;
    app.runs().drain().await;
    let row = app.store().row(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.status), (RunState::Interrupted, Some(Status::Aborted)));
    let sentence = row.sentence.unwrap();
    assert!(sentence.contains("store cannot be written") && sentence.contains("1 step is kept"), "{sentence}");
}

#[tokio::test]
async fn an_end_that_cannot_be_written_holds_the_queue_and_is_written_when_there_is_room() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    let next = app.submit().await;
    app.store().limit_pages(1).await.unwrap();
    // Wait in the buffer: the end of the run writes them too, so that it does not fit either.
    stage.say(samples(0, 5_000)).await;
    stage.say(note("y".repeat(200_000))).await;
    within(stage.cancel.cancelled()).await;
    stage.finish().await;
    hear_end(&mut follower).await;
    assert_eq!(app.store().row(id).await.unwrap().unwrap().state, RunState::Running, "its end is not written");
    assert_eq!(app.runs().waiting(), [next], "no other run begins meanwhile");
    app.store().limit_pages(u32::MAX - 1).await.unwrap();
    app.runs().drain().await;
    assert_eq!(app.store().row(id).await.unwrap().unwrap().state, RunState::Interrupted);
    assert_eq!(app.store().row(next).await.unwrap().unwrap().state, RunState::Queued);
}

#[tokio::test]
async fn draining_cancels_the_live_run_and_keeps_the_queue() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    let next = app.submit().await;
    let script = async {
        stage.cancel.cancelled().await;
        stage.finish().await;
    };
    within(async { tokio::join!(app.runs().drain(), script) }).await;
    hear(&mut follower, "verdict").await;
    assert_eq!(app.store().row(id).await.unwrap().unwrap().state, RunState::Finished);
    assert_eq!(app.store().row(next).await.unwrap().unwrap().state, RunState::Queued);
    let refused = app.runs().submit(SCENARIO, AskedBy::Api, None).await;
    assert!(matches!(refused, Err(SubmitError::Closing)), "{refused:?}");
    assert!(app.runs().closed().is_cancelled());
}

#[tokio::test]
async fn a_run_that_does_not_end_in_time_is_interrupted() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.say(trial_event(1, 10)).await;
    hear(&mut follower, "trial").await;
    within(app.runs().drain_within(Duration::ZERO)).await;
    let row = app.store().row(id).await.unwrap().unwrap();
    assert_eq!(row.state, RunState::Interrupted);
    assert!(row.sentence.unwrap().contains("before the run had cleaned up"));
    drop(stage);
}

#[tokio::test]
async fn a_follower_that_does_not_listen_never_slows_the_run() {
    let app = TestApp::new().await;
    let (id, stage, mut deaf) = app.live().await;
    let mut follower = app.runs().follow(id).unwrap();
    let all = FOLLOWER_LAG as i64 * 2;
    let say = async {
        for at in 0..all {
            stage.say(samples(at, 1)).await;
        }
        stage.finish().await;
    };
    let hear = async {
        let mut heard = 0;
        while follower.recv().await.is_ok() {
            heard += 1;
        }
        heard
    };
    let ((), heard) = within(async { tokio::join!(say, hear) }).await;
    assert_eq!(heard, all + 1);
    assert!(matches!(deaf.recv().await, Err(RecvError::Lagged(_))));
}
