//! Inventory, census and samplers against a real ZooKeeper with a little in it.

use std::collections::BTreeMap;

use rampart::{
    launch::{Managed, Recipe, launcher},
    model::{Clock, Inventory, RunId, metric},
    target::{Condition, Observation, Sampler, Target, TargetError, TargetSpec},
};
use zookeeper_client::{Acls, Client, CreateMode};

async fn start(recipe: &Recipe) -> (Box<dyn Managed>, Box<dyn Target>) {
    let managed = launcher(recipe).unwrap().start(recipe, RunId::new()).await.unwrap();
    let target = managed.spec().open(&managed.nodes());
    (managed, target)
}

fn recipe() -> Recipe {
    let mut recipe = Recipe { heap_mib: 64, ..Recipe::new("zookeeper") };
    recipe.zoo_cfg.insert("maxClientCnxns".to_owned(), "77".to_owned());
    recipe.zoo_cfg.insert("snapCount".to_owned(), "5000".to_owned());
    recipe
}

/// One client with 20 nodes of 1 KiB, 5 of them ephemeral, and watches on 3.
async fn fill(managed: &dyn Managed) -> Client {
    let client = Client::connect(&managed.nodes()[0].name).await.unwrap();
    write(&client, 0).await;
    for i in 0..3 {
        let (_, _, watcher) = client.get_and_watch_data(&format!("/n0-{i}")).await.unwrap();
        std::mem::forget(watcher);
    }
    client
}

async fn write(client: &Client, round: u32) {
    for i in 0..20 {
        let mode = if i < 5 { CreateMode::Ephemeral } else { CreateMode::Persistent };
        let options = mode.with_acls(Acls::anyone_all());
        client.create(&format!("/n{round}-{i}"), &[7; 1_024], &options).await.unwrap();
    }
}

async fn round(samplers: &mut [Box<dyn Sampler>]) -> (BTreeMap<String, f64>, Vec<Observation>) {
    let mut values = BTreeMap::new();
    let mut seen = Vec::new();
    for sampler in samplers {
        let observation = sampler.sample().await;
        values.extend(observation.samples.iter().map(|sample| (sample.metric.clone(), sample.value)));
        seen.push(observation);
    }
    (values, seen)
}

fn setting<'a>(inventory: &'a Inventory, name: &str) -> Option<&'a str> {
    Some(&inventory.settings.iter().find(|setting| setting.name == name)?.value)
}

#[tokio::test]
async fn the_inventory_of_a_launched_server_is_complete() {
    let (managed, target) = start(&recipe()).await;
    let inventory = target.inventory().await.unwrap();
    let node = &inventory.nodes[0];
    assert_eq!((node.role.as_str(), node.local, node.pid), ("standalone", true, Some(managed.nodes()[0].pid)));
    assert!(node.version.starts_with("3."), "{node:?}");
    assert_eq!(inventory.limit("maxClientCnxns"), Some(77));
    assert_eq!(inventory.limit("jute.maxbuffer"), Some(1_048_575));
    assert!(inventory.limit("max_file_descriptor_count").is_some());
    assert_eq!(setting(&inventory, "snapCount"), Some("5000"));
    assert_eq!(setting(&inventory, "heap_mib"), Some("64"));
    assert_eq!(setting(&inventory, "tickTime"), Some("3000"));
    assert!(setting(&inventory, "java_version").is_some());
    assert!(inventory.sampling.iter().any(|line| line.contains("AdminServer monitor")), "{:?}", inventory.sampling);
    assert_eq!(inventory.remarks, Vec::<String>::new());
    managed.stop().await;
}

#[tokio::test]
async fn a_server_of_somebody_else_on_this_machine_is_found_by_its_port() {
    let (managed, _) = start(&recipe()).await;
    let foreign = managed.spec().open(&[]);
    let inventory = foreign.inventory().await.unwrap();
    let node = &inventory.nodes[0];
    assert_eq!((node.local, node.pid), (true, Some(managed.nodes()[0].pid)));
    assert_eq!(setting(&inventory, "snapCount"), Some("5000"), "the AdminServer tells it");
    managed.stop().await;
}

#[expect(clippy::float_cmp, reason = "counts are exact")]
#[tokio::test]
async fn samplers_and_census_see_what_is_there() {
    let (managed, target) = start(&recipe()).await;
    let before = target.counts().await.total;
    let client = fill(&*managed).await;
    let after = target.counts().await.total;
    let grown = |name: &str| after[name] - before[name];
    assert_eq!(["znodes", "ephemerals", "watches", "sessions"].map(grown), [20, 5, 3, 1]);

    let inventory = target.inventory().await.unwrap();
    let mut samplers = target.samplers(Clock::start(), &inventory);
    let (first, seen) = round(&mut samplers).await;
    let levels = ["znodes", "ephemerals", "watches", "sessions", "outstanding_requests", "snapshots"];
    let levels = levels.map(|name| first[name]);
    assert_eq!(levels, [before["znodes"] as f64 + 20.0, 5.0, 3.0, 1.0, 0.0, 0.0]);
    assert!(!first.contains_key("transactions_per_s"), "a rate needs two readings");
    assert_eq!(first["heap_max_bytes"], f64::from(64 << 20));
    assert!(first["memory_bytes"] > 10e6 && first["connections"] >= 2.0);
    let conditions: Vec<_> = seen.iter().flat_map(|seen| &seen.conditions).map(|each| each.condition).collect();
    assert_eq!(conditions, [Condition::Serving]);

    write(&client, 1).await;
    let (second, seen) = round(&mut samplers).await;
    for rate in ["transactions_per_s", "packets_in_per_s", "net_in_bytes_per_s", "disk_write_bytes_per_s"] {
        assert!(second[rate] > 0.0, "{rate}: {second:?}");
    }
    assert!(second["request_latency_ms"] >= 0.0 && second["fsync_mean_ms"] >= 0.0);
    assert!((0.0..=1.0).contains(&second["process_cpu_share"]) && (0.0..=1.0).contains(&second["gc_pause_share"]));
    assert!(second["snapshot_bytes"] > 0.0);
    assert!(seen.iter().all(|seen| seen.incidents.is_empty()), "{seen:?}");
    assert!(second.keys().all(|name| metric::find(name).is_some()), "{second:?}");
    managed.stop().await;
}

#[tokio::test]
async fn mntr_stands_in_for_a_missing_admin_server() {
    let mut recipe = recipe();
    recipe.zoo_cfg.insert("admin.enableServer".to_owned(), "false".to_owned());
    let (managed, target) = start(&recipe).await;
    let inventory = target.inventory().await.unwrap();
    assert!(inventory.sampling.iter().any(|line| line.starts_with("mntr")), "{:?}", inventory.sampling);
    assert_eq!(setting(&inventory, "snapCount"), Some("5000"), "the recipe tells it");
    assert!(target.counts().await.total.contains_key("watches"));
    managed.stop().await;
}

#[tokio::test]
async fn refused_commands_are_remarks_and_absent_figures() {
    let mut recipe = recipe();
    recipe.zoo_cfg.insert("admin.enableServer".to_owned(), "false".to_owned());
    recipe.zoo_cfg.insert("4lw.commands.whitelist".to_owned(), "ruok".to_owned());
    let (managed, target) = start(&recipe).await;
    let inventory = target.inventory().await.unwrap();
    assert_eq!(inventory.limit("maxClientCnxns"), None);
    assert_eq!(inventory.remarks.len(), 2, "{:?}", inventory.remarks);
    assert!(inventory.remarks.iter().all(|remark| remark.contains("whitelist")), "{:?}", inventory.remarks);
    let counts = target.counts().await.total;
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["connections", "znodes"]);
    let (values, _) = round(&mut target.samplers(Clock::start(), &inventory)).await;
    assert!(values.contains_key("znodes") && !values.contains_key("watches"));
    managed.stop().await;
}

#[tokio::test]
async fn a_target_that_is_gone_is_unreachable_and_gives_no_figures() {
    let (managed, target) = start(&recipe()).await;
    let inventory = target.inventory().await.unwrap();
    let mut samplers = target.samplers(Clock::start(), &inventory);
    managed.stop().await;
    let (values, seen) = round(&mut samplers).await;
    assert!(values.keys().all(|name| name.starts_with("generator_")), "{values:?}");
    let conditions: Vec<_> = seen.iter().flat_map(|seen| &seen.conditions).map(|each| each.condition).collect();
    assert_eq!(conditions, [Condition::Unreachable]);
    assert!(target.counts().await.total.is_empty());
    let error = target.inventory().await.unwrap_err();
    assert!(matches!(error, TargetError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_restart_is_an_incident() {
    let mut recipe = recipe();
    let (managed, target) = start(&recipe).await;
    let inventory = target.inventory().await.unwrap();
    let mut samplers = target.samplers(Clock::start(), &inventory);
    let client = fill(&*managed).await;
    let _ = round(&mut samplers).await;
    drop(client);
    let port = managed.nodes()[0].name.rsplit_once(':').unwrap().1.to_owned();
    managed.stop().await;
    recipe.zoo_cfg.insert("clientPort".to_owned(), port);
    let (managed, _) = start(&recipe).await;
    let (_, seen) = round(&mut samplers).await;
    let incidents: Vec<_> = seen.iter().flat_map(|seen| &seen.incidents).map(|incident| incident.kind).collect();
    assert_eq!(incidents, [rampart::model::IncidentKind::Restarted]);
    managed.stop().await;
}

#[tokio::test]
async fn nothing_at_an_address_is_unreachable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let spec: TargetSpec =
        serde_json::from_value(serde_json::json!({"kind": "zookeeper", "servers": [free.to_string()]})).unwrap();
    let error = spec.open(&[]).inventory().await.unwrap_err();
    assert!(matches!(error, TargetError::Unreachable { .. }), "{error}");
}
