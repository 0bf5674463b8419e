//! Sources of samples beside the four-letter words: a Prometheus provider, a node_exporter, a process that was started again.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use rampart::{
    launch::{Managed, NodeAction, Recipe, launcher},
    model::{Clock, Inventory, RunId},
    target::{Sampler, Target, TargetSpec},
};
use serde_json::json;

const NEW: &str = include_str!("../../src/sample/recorded/node_exporter-1.5.0.txt");
const OLD: &str = include_str!("../../src/sample/recorded/node_exporter-0.15.2.txt");

/// What an HTTP server of the test says, which may change.
type Said = Arc<Mutex<(StatusCode, String)>>;

/// Serves a text as `/metrics` and as any command of an AdminServer.
async fn saying(text: &str) -> (SocketAddr, Said) {
    let said: Said = Arc::new(Mutex::new((StatusCode::OK, text.to_owned())));
    let answer = async |State(said): State<Said>| said.lock().unwrap().clone();
    let app = Router::new().route("/metrics", get(answer)).route("/commands/{name}", get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.with_state(Arc::clone(&said));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, said)
}

async fn start(recipe: &Recipe) -> Box<dyn Managed> {
    launcher(recipe).unwrap().start(recipe, RunId::new()).await.unwrap()
}

fn small() -> Recipe {
    Recipe { heap_mib: 64, ..Recipe::new("zookeeper") }
}

/// A launched server as somebody else's, with more keys in its configuration.
fn configured(managed: &dyn Managed, keys: &serde_json::Value) -> Box<dyn Target> {
    let mut spec = json!({"kind": "zookeeper", "servers": [managed.nodes()[0].name]});
    spec.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    serde_json::from_value::<TargetSpec>(spec).unwrap().open(&[])
}

async fn round(samplers: &mut [Box<dyn Sampler>]) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for sampler in samplers {
        values.extend(sampler.sample().await.samples.into_iter().map(|sample| (sample.metric, sample.value)));
    }
    values
}

fn sampled_by(inventory: &Inventory, what: &str) -> bool {
    inventory.sampling.iter().any(|line| line.starts_with(what))
}

#[tokio::test]
async fn a_prometheus_provider_gives_the_long_list_and_the_figures_of_the_jvm() {
    let managed = start(&Recipe { version: Some("3.9.4".to_owned()), heap_mib: 96, ..Recipe::new("zookeeper") }).await;
    let url = managed.nodes()[0].metrics_url.clone().unwrap();
    let target = configured(&*managed, &json!({"metrics_urls": [url]}));
    let inventory = target.inventory().await.unwrap();
    assert!(sampled_by(&inventory, "Prometheus provider every 10 s"), "{:?}", inventory.sampling);
    assert!(inventory.settings.iter().any(|each| each.name == "metricsProvider" && each.source == url));
    let mut samplers = target.samplers(Clock::start(), &inventory);
    let first = round(&mut samplers).await;
    let client = zookeeper_client::Client::connect(&managed.nodes()[0].name).await.unwrap();
    let options = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    client.create("/a", &[7; 2_000], &options).await.unwrap();
    let second = round(&mut samplers).await;
    for level in ["watches", "ephemerals", "sessions", "mntr_ms", "heap_max_bytes"] {
        assert!(first.contains_key(level), "no {level} in {first:?}");
    }
    assert_eq!(second["heap_max_bytes"], f64::from(96 << 20));
    assert_eq!(second["sessions"], 1.0);
    for rate in ["net_in_bytes_per_s", "fsync_mean_ms", "request_latency_ms"] {
        assert!(second.contains_key(rate), "no {rate} in {second:?}");
    }
    assert!(second["net_in_bytes_per_s"] > 0.0 && (0.0..=1.0).contains(&second["gc_pause_share"]), "{second:?}");
    assert_eq!(target.counts().await.total["znodes"], second["znodes"] as u64);
    managed.stop().await;
}

#[tokio::test]
async fn doors_that_say_something_else_are_passed_over() {
    let managed = start(&small()).await;
    let (wrong, _) = saying("<html>a web server of something else</html>").await;
    let (refusing, _) = saying("{\"command\":\"monitor\",\"error\":\"Unknown command: monitor\"}").await;
    let admin = managed.nodes()[0].admin_url.clone().unwrap();
    let metrics = format!("http://{wrong}/metrics");
    let target = configured(&*managed, &json!({"metrics_urls": [metrics], "admin_urls": [admin]}));
    let inventory = target.inventory().await.unwrap();
    assert!(sampled_by(&inventory, "AdminServer monitor"), "{:?}", inventory.sampling);
    // HTTP 200 with an error in it is an error too.
    let target =
        configured(&*managed, &json!({"metrics_urls": [metrics], "admin_urls": [format!("http://{refusing}")]}));
    let inventory = target.inventory().await.unwrap();
    assert!(sampled_by(&inventory, "mntr"), "{:?}", inventory.sampling);
    assert!(target.counts().await.total.contains_key("watches"));
    managed.stop().await;
}

#[tokio::test]
async fn a_node_exporter_of_either_age_gives_the_host() {
    let managed = start(&small()).await;
    for (text, from, to, written) in [
        (
            NEW,
            "written_bytes_total{device=\"vda\"} 1.71106738176e+11",
            "written_bytes_total{device=\"vda\"} 1.8e+11",
            8.8e9,
        ),
        (OLD, "written{device=\"sda\"} 9e+09", "written{device=\"sda\"} 9.5e+09", 5e8),
    ] {
        let (address, said) = saying(text).await;
        let url = format!("http://{address}/metrics");
        let declared = json!([{"cpu": "declared", "network_mbit_per_s": 10_000}]);
        let target = configured(&*managed, &json!({"node_exporters": [url], "hosts": declared}));
        let inventory = target.inventory().await.unwrap();
        assert!(inventory.sampling.iter().any(|line| line.contains(&url)), "{:?}", inventory.sampling);
        assert!(inventory.hosts[0].source.starts_with("read here ("), "{:?}", inventory.hosts);
        assert_eq!(
            inventory.hosts[0].facts.network_mbit_per_s,
            Some(10_000),
            "declared, since this machine tells none"
        );
        assert_ne!(inventory.hosts[0].facts.cpu.as_deref(), Some("declared"), "what can be read counts");
        let mut samplers = target.samplers(Clock::start(), &inventory);
        let first = round(&mut samplers).await;
        assert!(first["host_memory_bytes"] > 0.0 && first["host_disk_free_bytes"] > 0.0, "{first:?}");
        assert!(!first.contains_key("host_disk_write_bytes_per_s"), "a rate needs two readings");
        said.lock().unwrap().1 = text.replace(from, to);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let second = round(&mut samplers).await;
        let rate = second["host_disk_write_bytes_per_s"];
        assert!(rate > written / 30.0 && rate <= written / 0.2, "{rate} of {written} bytes");
        // Back to where it was: the counter fell.
        said.lock().unwrap().1 = text.to_owned();
        let third = round(&mut samplers).await;
        assert!(!third.contains_key("host_disk_write_bytes_per_s") && third.contains_key("host_net_in_bytes_per_s"));
        said.lock().unwrap().0 = StatusCode::INTERNAL_SERVER_ERROR;
        let fourth = round(&mut samplers).await;
        assert!(fourth.keys().all(|name| !name.starts_with("host_")), "{fourth:?}");
        let remark = &target.inventory().await.unwrap().remarks[0];
        assert!(remark.contains("its host is not sampled") && remark.contains("500"), "{remark}");
    }
    managed.stop().await;
}

#[tokio::test]
async fn a_process_that_is_started_again_is_followed() {
    let managed = start(&small()).await;
    let node = managed.nodes()[0].clone();
    let target = managed.spec().open(&managed.nodes());
    let inventory = target.inventory().await.unwrap();
    let mut samplers = target.samplers(Clock::start(), &inventory);
    assert!(round(&mut samplers).await.contains_key("memory_bytes"));
    managed.control(&node.name, NodeAction::Stop).await.unwrap();
    let gone = round(&mut samplers).await;
    for metric in ["memory_bytes", "process_cpu_share", "disk_write_bytes_per_s"] {
        assert!(!gone.contains_key(metric), "{metric} of a process that is gone: {gone:?}");
    }
    managed.control(&node.name, NodeAction::Start).await.unwrap();
    assert_ne!(managed.nodes()[0].pid, node.pid);
    // The first reading finds it, the second reads it, the third has rates.
    let mut last = BTreeMap::new();
    for _ in 0..3 {
        last = round(&mut samplers).await;
    }
    for metric in ["memory_bytes", "process_cpu_share", "disk_write_bytes_per_s", "disk_free_bytes"] {
        assert!(last.contains_key(metric), "no {metric} after the start: {last:?}");
    }
    assert!((0.0..=1.0).contains(&last["process_cpu_share"]), "{last:?}");
    managed.stop().await;
}

#[tokio::test]
async fn an_estimate_of_the_snapshot_is_near_the_file() {
    let managed = start(&small()).await;
    let node = managed.nodes()[0].clone();
    let client = zookeeper_client::Client::connect(&node.name).await.unwrap();
    let options = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    for number in 0..1_000 {
        client.create(&format!("/of-some-length-{number}"), &[7; 40], &options).await.unwrap();
    }
    drop(client);
    // A server writes a snapshot when it starts.
    managed.control(&node.name, NodeAction::Stop).await.unwrap();
    managed.control(&node.name, NodeAction::Start).await.unwrap();
    let own = managed.spec().open(&managed.nodes());
    let mut samplers = own.samplers(Clock::start(), &own.inventory().await.unwrap());
    let _ = round(&mut samplers).await;
    let file = round(&mut samplers).await["snapshot_bytes"];
    let foreign = configured(&*managed, &json!({}));
    let estimate =
        round(&mut foreign.samplers(Clock::start(), &foreign.inventory().await.unwrap())).await["snapshot_bytes"];
    assert!(file > 100_000.0 && (estimate / file - 1.0).abs() < 0.03, "{estimate} estimated, {file} on the disk");
    managed.stop().await;
}
