//! The database: one writer, readers apart, what goes in comes out.

use rampart::{
    model::{RunEvent, RunId, RunState, Sample, Status, Verdict},
    runs::AskedBy,
    store::{Store, StoreError, chunks, events, histograms, runs, trials},
};

use crate::app::{TestApp, database, hear, histogram, samples, trial, trial_event, verdict};

/// A store with one queued run that nobody executes.
async fn with_run() -> (tempfile::TempDir, Store, RunId) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&database(&dir)).await.unwrap();
    let id = insert(&store, "demo").await;
    (dir, store, id)
}

async fn insert(store: &Store, scenario: &str) -> RunId {
    let outline = serde_json::from_value(serde_json::json!({
        "scenario": scenario, "target": "staging", "target_kind": "zookeeper", "managed": false,
        "workload": "zookeeper.domains", "axis": "domains", "unit": "domains", "ladder": [0, 10],
        "longest_s": 60, "needs": [], "remarks": [],
    }))
    .unwrap();
    let id = RunId::new();
    let new = runs::NewRun {
        id,
        scenario_text: "text",
        outline: &outline,
        origin: AskedBy::Api.as_str(),
        created_ns: 1,
        utc_offset_s: 3_600,
    };
    let mut tx = store.begin().await.unwrap();
    runs::insert(&mut tx, &new).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn append(store: &Store, run: RunId, samples: &[Sample]) {
    let mut tx = store.begin().await.unwrap();
    chunks::append(&mut tx, run, 0, samples).await.unwrap();
    tx.commit().await.unwrap();
}

fn of_metric(metric: &str, points: impl Iterator<Item = (i64, f64)>) -> Vec<Sample> {
    let sample = |(at_ns, value)| Sample { at_ns, node: "n1".to_owned(), metric: metric.to_owned(), value };
    points.map(sample).collect()
}

#[tokio::test]
async fn a_second_server_on_the_database_is_told_who_holds_it() {
    let (dir, store, _) = with_run().await;
    let path = database(&dir);
    let refused = Store::open(&path).await.unwrap_err();
    let StoreError::Held { holder, .. } = &refused else { panic!("{refused:?}") };
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    drop(store);
    Store::open(&path).await.expect("the lock goes with its holder");
}

#[tokio::test]
async fn readings_come_back_bit_by_bit_whatever_the_batches() {
    let (_dir, store, run) = with_run().await;
    let value = |at: i64| (at as f64).sin() * 1e9;
    let points: Vec<(i64, f64)> = (0..3_000).map(|at| (at * 1_000_000_007, value(at))).collect();
    let mut rest = points.as_slice();
    for size in [1, 7, 1_000, 500, 3, 1_024, 2].into_iter().cycle() {
        let (batch, left) = rest.split_at(rest.len().min(size));
        append(&store, run, &of_metric("memory_bytes", batch.iter().copied())).await;
        rest = left;
        if rest.is_empty() {
            break;
        }
    }
    append(&store, run, &of_metric("znodes", [(5, 1.0)].into_iter())).await;
    for merged in [false, true] {
        if merged {
            let mut tx = store.begin().await.unwrap();
            chunks::merge(&mut tx, run).await.unwrap();
            tx.commit().await.unwrap();
        }
        let series = store.series(run, &["memory_bytes"], usize::MAX).await.unwrap();
        assert_eq!(series.len(), 1);
        assert_eq!((series[0].node.as_str(), series[0].unit.as_str()), ("n1", "bytes"));
        assert_eq!(series[0].points, points, "merged: {merged}");
    }
    assert_eq!(store.series(run, &[], 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_thinned_series_keeps_its_spike() {
    let (_dir, store, run) = with_run().await;
    let spike = |at: i64| if at == 4_321 { 1e6 } else { 1.0 };
    append(&store, run, &of_metric("znodes", (0..10_000).map(|at| (at, spike(at))))).await;
    let points = store.series(run, &["znodes"], 100).await.unwrap().remove(0).points;
    assert!(points.len() <= 100 && points.contains(&(4_321, 1e6)), "{points:?}");
}

#[tokio::test]
async fn a_histogram_comes_back_under_its_key() {
    let (_dir, store, run) = with_run().await;
    let record = histogram(3);
    let mut tx = store.begin().await.unwrap();
    histograms::insert(&mut tx, run, &record).await.unwrap();
    let twice = histograms::insert(&mut tx, run, &record).await;
    assert!(matches!(twice, Err(StoreError::Sql(_))), "{twice:?}");
    tx.commit().await.unwrap();
    let read = store.histograms(run, 3).await.unwrap();
    assert_eq!(read, [record]);
    let histogram: hdrhistogram::Histogram<u64> =
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut read[0].v2_deflate.as_slice()).unwrap();
    assert_eq!((histogram.len(), histogram.min()), (4, 10));
    assert_eq!(store.histogram_list(run, None).await.unwrap()[0].count, 4);
    assert!(store.histogram_list(run, Some(4)).await.unwrap().is_empty());
}

#[tokio::test]
async fn readers_go_on_while_something_is_written() {
    let (_dir, store, run) = with_run().await;
    let mut tx = store.begin().await.unwrap();
    runs::start(&mut tx, run, 7).await.unwrap();
    events::insert(&mut tx, run, 1, 1, "note", "{}").await.unwrap();
    assert_eq!(store.row(run).await.unwrap().unwrap().state, RunState::Queued);
    assert!(store.events(run, 0).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    assert_eq!(store.row(run).await.unwrap().unwrap().state, RunState::Running);
    assert_eq!(store.events(run, 0).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing() {
    let (_dir, store, run) = with_run().await;
    let mut tx = store.begin().await.unwrap();
    runs::start(&mut tx, run, 7).await.unwrap();
    drop(tx);
    // The next transaction proves that the first is gone, not only unseen.
    store.begin().await.unwrap().commit().await.unwrap();
    assert_eq!(store.row(run).await.unwrap().unwrap().state, RunState::Queued);
}

#[tokio::test]
async fn a_full_disk_is_told_as_such_and_reading_goes_on() {
    let (_dir, store, run) = with_run().await;
    store.limit_pages(1).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let note = format!("{{\"kind\":\"note\",\"at_ns\":1,\"text\":\"{}\"}}", "x".repeat(100_000));
    let full = events::insert(&mut tx, run, 1, 1, "note", &note).await;
    assert!(matches!(full, Err(StoreError::Full)), "{full:?}");
    drop(tx);
    assert_eq!(store.list(&Default::default()).await.unwrap().len(), 1);
    store.limit_pages(u32::MAX - 1).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    events::insert(&mut tx, run, 1, 1, "note", &note).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn what_would_not_read_back_is_not_stored() {
    let (_dir, store, run) = with_run().await;
    let mut broken = trial(1, 10);
    broken.fill_s = f64::NAN;
    let mut tx = store.begin().await.unwrap();
    let refused = trials::insert(&mut tx, run, 1, &broken).await;
    assert!(matches!(refused, Err(StoreError::Unstorable { .. })), "{refused:?}");
}

#[tokio::test]
async fn lists_are_filtered_and_paged_by_id() {
    let (_dir, store, first) = with_run().await;
    let second = insert(&store, "Ramp%Up").await;
    let third = insert(&store, "demo").await;
    let mut tx = store.begin().await.unwrap();
    runs::finish(&mut tx, third, &verdict(third), 99).await.unwrap();
    tx.commit().await.unwrap();
    let ids = async |filter: rampart::store::RunFilter| -> Vec<RunId> {
        store.list(&filter).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(ids(Default::default()).await, [third, second, first]);
    let text = |text: &str| rampart::store::RunFilter { text: Some(text.to_owned()), ..Default::default() };
    assert_eq!(ids(text("ramp%")).await, [second], "a % is a character, not a pattern");
    assert_eq!(ids(text("STAG")).await.len(), 3, "the target's name counts");
    let status = rampart::store::RunFilter { status: Some(Status::CapacityFound), ..Default::default() };
    assert_eq!(ids(status).await, [third]);
    let page = rampart::store::RunFilter { before: Some(third), limit: 1, ..Default::default() };
    assert_eq!(ids(page).await, [second]);
}

#[tokio::test]
async fn a_run_comes_back_whole() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.say(samples(10, 3)).await;
    stage.say(RunEvent::Note { at_ns: 4, text: "one".to_owned() }).await;
    stage.say(trial_event(1, 10)).await;
    stage.say(RunEvent::Verdict { at_ns: 9, verdict: Box::new(verdict(id)) }).await;
    hear(&mut follower, "verdict").await;
    let detail = app.store().detail(id).await.unwrap().unwrap();
    assert_eq!(detail.trials, [trial(1, 10)]);
    assert_eq!(detail.verdict, Some(verdict(id)));
    assert_eq!(detail.notes, [(4, "one".to_owned())]);
    assert_eq!(detail.scenario_text, crate::app::SCENARIO);
    assert_eq!(detail.last_seq, 3);
    let Verdict { last_good, first_bad, status, stop_code, .. } = verdict(id);
    assert_eq!((detail.run.last_good, detail.run.first_bad), (last_good, first_bad));
    assert_eq!((detail.run.status, detail.run.stop_code), (Some(status), Some(stop_code)));
    assert_eq!(detail.run.ended_ns, Some(9));
    assert_eq!(app.store().series(id, &[], 10).await.unwrap()[0].points, [(10, 10.0), (11, 11.0), (12, 12.0)]);
}
