//! What a run says before its load: disk, leftovers, other clients. Real servers.

use std::time::Duration;

use rampart::{
    model::{Inventory, Phase, RunEvent, RunId},
    target::{CleanPace, TargetSpec},
};
use serde_json::json;
use zk_wire::{Client, ConnectOptions, CreateMode};

use crate::{
    engine_run::{Run, SMALL, config, planned, recipe, scenario},
    zookeeper::Server,
};

fn inventory(run: &Run) -> &Inventory {
    let found = run.seen.iter().find_map(|event| {
        let RunEvent::Inventory { inventory, .. } = event else { return None };
        Some(&**inventory)
    });
    found.unwrap()
}

/// The first note that begins so.
async fn note(run: &mut Run, begin: &str) -> String {
    run.until(|event| {
        let RunEvent::Note { text, .. } = event else { return None };
        text.starts_with(begin).then(|| text.clone())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_the_snapshots_would_fill_is_said_before_the_load() {
    let target = "launch = \"tiny\"\nsettings = { zoo_cfg = { snapCount = 10, \"autopurge.purgeInterval\" = 0 } }";
    let mut run = Run::start(&scenario(target, "kind = \"levels\"\nlevels = [5000]", "", ""), &recipe(""));
    let text = note(&mut run, "The disk is too small for this run: ").await;
    assert!(text.contains("(never purged) come to") && text.contains("free, and up to"), "{text}");
    let node = &inventory(&run).nodes[0];
    assert!(node.disk_free_bytes > Some(0) && text.contains(&node.name), "{node:?}");
    run.cancel.cancel();
    run.verdict().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_and_other_clients_are_said_before_the_load() {
    let server = Server::start("", &[]);
    let mut other = Client::connect(&ConnectOptions::new(server.addr), Duration::from_secs(10)).unwrap();
    let left = RunId::new().root();
    other.create(&left, b"", CreateMode::Persistent).unwrap();
    let scenario = scenario("use = \"zk\"", "kind = \"levels\"\nlevels = [1]\nmeasure_s = 1", SMALL, "");
    let mut run = Run::start(&scenario, &config(server.addr, ""));
    let others = note(&mut run, "Others had connections").await;
    assert!(others.contains(&format!("(1 to {})", server.addr)), "{others}");
    let text = note(&mut run, &left).await;
    assert!(text.contains("`rampart clean zk`"), "{text}");
    run.verdict().await;
    assert!(other.exists(&left).unwrap().is_some(), "a run removes its own root only");

    // Alone, the run says nothing of others.
    other.close().unwrap();
    let mut run = Run::start(&scenario, &config(server.addr, ""));
    run.verdict().await;
    assert!(run.notes().iter().all(|note| !note.starts_with("Others had connections")), "{:?}", run.notes());
    assert_eq!(inventory(&run).nodes[0].other_connections, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_run_that_was_waited_for_is_no_other_client() {
    let server = Server::start("", &[]);
    let spec = serde_json::from_value::<TargetSpec>(json!({"kind": "zookeeper", "servers": [server.addr]})).unwrap();
    let held = spec.open(&[]).claim(RunId::new()).await.unwrap();
    let scenario = scenario("use = \"zk\"", "kind = \"levels\"\nlevels = [1]\nmeasure_s = 1", SMALL, "");
    let mut plan = planned(&scenario, &config(server.addr, ""));
    plan.wait_for_target = Duration::from_secs(60);
    let mut run = Run::of(plan);
    run.phase(Phase::Waiting, 0).await;
    held.release(CleanPace::default()).await.unwrap();
    run.verdict().await;
    assert!(run.notes().iter().any(|note| note.contains("waits until it is free")), "{:?}", run.notes());
    assert!(run.notes().iter().all(|note| !note.starts_with("Others had connections")), "{:?}", run.notes());
    assert_eq!(inventory(&run).nodes[0].other_connections, None, "who it was is not known any more");
}
