//! Every version from 3.4 to 3.9 by its answers: a server of the tests replays them. Those of 3.5.10 and later are recorded
//! from leaders of real ensembles; 3.4.14 cannot be had here, and is written after its source.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use axum::{Router, extract::Path, http::StatusCode, routing::get};
use rampart::{
    model::{Clock, Inventory},
    target::{Sampler, Target, TargetSpec},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

fn recorded(version: &str, name: &str) -> Option<String> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/recorded"));
    std::fs::read_to_string(folder.join(version).join(name)).ok()
}

/// A client port that answers as the version does, and refuses what the whitelist does not name.
async fn client_port(version: &'static str, whitelist: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4];
            if stream.read_exact(&mut asked).await.is_err() {
                continue;
            }
            let word = String::from_utf8_lossy(&asked).into_owned();
            let allowed = whitelist.contains(&word.as_str()) || whitelist == ["*"];
            let answer = recorded(version, &word).filter(|_| allowed);
            let refused = format!("{word} is not executed because it is not in the whitelist.\n");
            let _ = stream.write_all(answer.unwrap_or(refused).as_bytes()).await;
        }
    });
    address
}

/// Its AdminServer and its Prometheus provider. What is not recorded is an error inside of an HTTP 200.
async fn http(version: &'static str) -> String {
    let command = async move |Path(name): Path<String>| {
        let error = || format!("{{\"command\":\"{name}\",\"error\":\"Unknown command: {name}\"}}");
        recorded(version, &format!("{name}.json")).unwrap_or_else(error)
    };
    let metrics = async move || recorded(version, "metrics").ok_or(StatusCode::NOT_FOUND);
    let app = Router::new().route("/commands/{name}", get(command)).route("/metrics", get(metrics));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    base
}

/// The target of a version and its inventory; `more` are further keys of its configuration.
async fn look(server: &str, more: serde_json::Value) -> (Box<dyn Target>, Inventory) {
    let mut spec = json!({"kind": "zookeeper", "servers": [server]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let target = serde_json::from_value::<TargetSpec>(spec).unwrap().open(&[]);
    let inventory = target.inventory().await.unwrap();
    (target, inventory)
}

/// Two rounds of samples, without those of Rampart and of the interface.
async fn sampled(target: &dyn Target, inventory: &Inventory) -> BTreeMap<String, f64> {
    let mut samplers: Vec<Box<dyn Sampler>> = target.samplers(Clock::start(), inventory);
    let mut values = BTreeMap::new();
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        for sampler in &mut samplers {
            let seen = sampler.sample().await;
            assert_eq!(seen.incidents, [], "the same answer twice is no incident");
            values.extend(seen.samples.into_iter().map(|sample| (sample.metric, sample.value)));
        }
    }
    values.retain(|name, _| !name.starts_with("generator_"));
    values
}

fn setting<'a>(inventory: &'a Inventory, name: &str) -> Option<&'a str> {
    Some(&inventory.settings.iter().find(|setting| setting.name == name)?.value)
}

const VERSIONS: [&str; 6] = ["3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.4", "3.9.4"];
const ALL: &[&str] = &["*"];

#[tokio::test]
async fn mntr_of_every_version_gives_the_series_that_it_has() {
    for version in VERSIONS {
        let (target, inventory) = look(&client_port(version, ALL).await, json!({})).await;
        let node = &inventory.nodes[0];
        assert!(node.version.starts_with(version), "{version}: {node:?}");
        assert_eq!(
            (node.role.as_str(), node.znodes),
            ("leader", if version == "3.4.14" { Some(5_081) } else { Some(7) })
        );
        assert_eq!(inventory.limit("maxClientCnxns"), Some(60), "{version}");
        assert!(inventory.limit("max_file_descriptor_count") >= Some(20_000), "{version}");
        assert!(setting(&inventory, "tickTime").is_some(), "{version}");
        assert!(inventory.sampling.iter().any(|line| line.starts_with("mntr every")), "{version}: {inventory:?}");
        let values = sampled(&*target, &inventory).await;
        let has = |name: &str| values.contains_key(name);
        for series in
            ["znodes", "watches", "ephemerals", "connections", "outstanding_requests", "transactions_per_s", "leads"]
        {
            assert!(has(series), "{version} has no {series}: {values:?}");
        }
        assert_eq!(values["leads"], 1.0);
        assert_eq!(values["transactions_per_s"], 0.0);
        // 76 bytes a znode, and paths and data as it says.
        let approximate = if version == "3.4.14" { 200_132.0 + 76.0 * 5_081.0 } else { 191.0 + 76.0 * 7.0 };
        assert_eq!(values["snapshot_bytes"], approximate, "{version}");
        // 3.6 began to count sessions, bytes and snapshots; 3.7 the bytes that it sends.
        let since_36 = !matches!(version, "3.4.14" | "3.5.10");
        for series in ["sessions", "snapshots"] {
            assert_eq!(has(series), since_36, "{version}: {series} in {values:?}");
        }
        assert!(!has("heap_max_bytes"), "{version}: only a provider tells of the JVM");
        // Old servers count no bytes, so that their interface is read instead.
        assert!(has("net_in_bytes_per_s"), "{version}: {values:?}");
        assert_eq!(inventory.sampling.iter().any(|line| line.contains("its interface")), !since_36, "{version}");
        if since_36 {
            assert_eq!(values["net_in_bytes_per_s"], 0.0, "{version}");
            assert_eq!(has("net_out_bytes_per_s"), version != "3.6.4", "{version}: {values:?}");
        }
    }
}

#[tokio::test]
async fn what_a_version_runs_on_is_told_by_envi() {
    let (_, inventory) = look(&client_port("3.4.14", ALL).await, json!({})).await;
    let host = &inventory.hosts[0];
    assert_eq!(host.facts.java.as_deref(), Some("1.8.0_212 (Oracle Corporation)"));
    assert!(host.source.starts_with("read here (") && host.source.ends_with("envi (Java)"), "{}", host.source);
    assert_eq!(inventory.nodes[0].data_dir.as_deref(), Some("/var/lib/zookeeper/version-2"));
    assert_eq!(inventory.nodes[0].disk_free_bytes, None, "there is no such folder here");
    assert_eq!(inventory.nodes[0].data_bytes, None, "3.4 knows no dirs");
    let (_, inventory) = look(&client_port("3.9.4", ALL).await, json!({})).await;
    assert_eq!(inventory.nodes[0].data_bytes, Some(67_109_498));
}

/// Since 3.5.3 a server allows srvr alone unless it is told otherwise.
const DEFAULT: &[&str] = &["srvr"];

#[tokio::test]
async fn where_words_are_refused_the_admin_server_tells() {
    for (version, sessions) in [("3.5.10", false), ("3.9.4", true)] {
        let admin = json!({"admin_urls": [http(version).await]});
        let (target, inventory) = look(&client_port(version, DEFAULT).await, admin).await;
        assert!(inventory.sampling.iter().any(|line| line.starts_with("AdminServer monitor")), "{inventory:?}");
        assert_eq!(inventory.limits[0].source, "AdminServer configuration");
        assert_eq!((inventory.limit("maxClientCnxns"), setting(&inventory, "tickTime")), (Some(60), Some("500")));
        assert_eq!(inventory.nodes[0].data_dir.as_deref(), Some("/var/lib/zookeeper-3/data/version-2"));
        assert_eq!(inventory.hosts[0].facts.java.as_deref(), Some("17.0.15 (Debian)"));
        assert_eq!(setting(&inventory, "snapCount"), None, "an error inside of an HTTP 200 tells no default");
        let values = sampled(&*target, &inventory).await;
        assert_eq!((values["watches"], values["ephemerals"]), (1.0, 1.0), "{version}");
        assert_eq!(values.contains_key("sessions"), sessions, "{version}");
    }
}

#[tokio::test]
async fn where_all_is_refused_figures_are_absent_and_said_to_be() {
    for version in VERSIONS {
        let (target, inventory) = look(&client_port(version, DEFAULT).await, json!({})).await;
        let said = inventory.remarks.join("\n");
        assert!(said.contains("conf is not executed") && said.contains("mntr is not executed"), "{said}");
        let values = sampled(&*target, &inventory).await;
        assert!(values.contains_key("znodes") && !values.contains_key("watches") && !values.contains_key("mntr_ms"));
    }
}

#[tokio::test]
async fn a_provider_has_what_the_other_doors_have() {
    let base = http("3.9.4").await;
    let metrics = json!({"metrics_urls": [format!("{base}/metrics")]});
    let (target, inventory) = look(&client_port("3.9.4", DEFAULT).await, metrics).await;
    assert!(inventory.sampling.iter().any(|line| line.starts_with("Prometheus provider")), "{inventory:?}");
    let by_provider = sampled(&*target, &inventory).await;
    let (target, inventory) = look(&client_port("3.9.4", ALL).await, json!({})).await;
    let by_mntr = sampled(&*target, &inventory).await;
    let missing: Vec<_> = by_mntr.keys().filter(|name| !by_provider.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let more: Vec<_> = by_provider.keys().filter(|name| !by_mntr.contains_key(*name)).collect();
    assert_eq!(more, ["gc_pause_share", "heap_max_bytes"]);
    assert_eq!(by_provider["heap_max_bytes"], f64::from(64 << 20));
}

#[test]
fn mntr_with_a_provider_switched_on_has_the_figures_of_plain_mntr() {
    use rampart::target::zookeeper::stats::Stats;

    let plain = Stats::parse_mntr(&recorded("3.9.4", "mntr").unwrap());
    let with = Stats::parse_mntr(&recorded("3.9.4", "mntr-with-provider").unwrap());
    for name in ["znode_count", "watch_count", "ephemerals_count", "global_sessions", "uptime", "learners"] {
        assert!(plain.count(name).is_some() && with.count(name).is_some(), "{name}");
    }
    for name in ["fsynctime", "snapshottime", "readlatency", "updatelatency", "sync_processor_queue_size"] {
        assert!(plain.sum_and_count(name).is_some() && with.sum_and_count(name).is_some(), "{name}");
    }
    for version in VERSIONS {
        let stats = Stats::parse_mntr(&recorded(version, "mntr").unwrap());
        assert_eq!(stats.count("learners"), Some(2), "{version}: called followers until 3.5");
        let whole = stats.number("avg_latency").unwrap().fract() == 0.0;
        assert_eq!(whole, matches!(version, "3.4.14" | "3.5.10"), "{version}: integers until 3.5, floats since");
    }
}
