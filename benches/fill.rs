//! How fast a population is put in place: 700 domains of the source report, with and without its constant background
//! of 1.51 M further znodes and 3.56 M watches. Counts are confirmed by the server.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod common;

use std::time::{Duration, Instant};

use common::{Figure, finish};
use rampart::{
    launch::Managed,
    model::{Clock, Load, RunId},
    target::TargetSpec,
    workload::{self, Progress, Site},
};

const DOMAINS: u64 = 700;
/// Dead registrations a domain, in the mean: 7,120 in all hold 1.52 M znodes and 3.56 M watches.
const BACKGROUND: f64 = 10.1715;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let domains: u64 = std::env::var("RAMPART_BENCH_DOMAINS").ok().and_then(|n| n.parse().ok()).unwrap_or(DOMAINS);
    let mut figures = Vec::new();
    let whole = fill(domains, BACKGROUND).await;
    figures.push(Figure::at_most("fill.seconds", whole.seconds, "s", "<= 75", 75.0));
    figures.push(Figure::at_most("fill.driver_cpu_s", whole.cpu_s, "s", "<= 5", 5.0));
    figures.push(Figure::at_most("fill.driver_rss_mib", whole.rss_mib, "MiB", "<= 32", 32.0));
    figures.push(Figure::plain("fill.znodes", whole.znodes, "znodes"));
    figures.push(Figure::plain("fill.watches", whole.watches, "watches"));
    let lean = fill(domains, 0.0).await;
    figures.push(Figure::plain("fill.lean_seconds", lean.seconds, "s"));
    finish("fill", &figures);
}

struct Filled {
    seconds: f64,
    cpu_s: f64,
    rss_mib: f64,
    znodes: f64,
    watches: f64,
}

async fn fill(domains: u64, background: f64) -> Filled {
    let manager = [("zookeeper.watchManagerName", "org.apache.zookeeper.server.watch.WatchManagerOptimized")];
    let (managed, run) = common::zookeeper(12_288, &["-XX:+UseG1GC"], &manager, &[]).await;
    let spec = managed.spec();
    let (options, root) = (format!("fill = \"fast\"\ntraffic = false\ndead_executors = {background}"), run.root());
    let cpu_before = common::cpu_s();
    let started = Instant::now();
    // The unit works on a thread of its own, as in a run.
    let unit_spec = spec.clone();
    let (seconds, unit) =
        tokio::task::spawn_blocking(move || put_in_place(&options, unit_spec, root, run, domains, started))
            .await
            .expect("the unit's thread ends");
    let (cpu_s, rss_mib) = (common::cpu_s() - cpu_before, common::peak_rss_mib());
    let (znodes, watches) = confirm(managed.as_ref(), &options_demand(domains, background)).await;
    println!(
        "{domains} domains, background {background}: {seconds:.1} s, {cpu_s:.2} CPU-s, {rss_mib:.1} MiB; the server counts {znodes} znodes, {watches} watches"
    );
    drop(unit);
    managed.stop().await;
    Filled { seconds, cpu_s, rss_mib, znodes, watches }
}

fn put_in_place(
    options: &str,
    target: TargetSpec,
    root: String,
    run: RunId,
    domains: u64,
    started: Instant,
) -> (f64, Box<dyn workload::LoadUnit>) {
    let workload =
        workload::workload("zookeeper.domains", "zookeeper", toml::from_str(options).expect("options are TOML"))
            .expect("options are right");
    let zookeeper = target.zookeeper().expect("a ZooKeeper");
    let mut control =
        zk_wire::Client::connect(&zk_wire::ConnectOptions::new(zookeeper.servers[0]), Duration::from_secs(10))
            .expect("a control session");
    control.create(&root, b"", zk_wire::CreateMode::Persistent).expect("the root is made");
    let _ = run;
    let clock = Clock::start();
    let site = Site {
        target,
        nodes: vec![],
        root,
        clock,
        unit: 0,
        seed: 1,
        sources: vec![],
        connections_per_address: None,
        max_request_bytes: None,
    };
    let mut unit = workload.unit(site).expect("a unit");
    unit.prepare(&Load::Population { axis: "domains".to_owned(), ids: 0..domains });
    loop {
        unit.turn(clock.now_ns() + 200_000_000);
        match unit.report().progress {
            Progress::Ready { .. } => break,
            Progress::Moving { .. } => assert!(started.elapsed() < Duration::from_secs(600), "the fill does not end"),
            Progress::Failed { text, .. } => panic!("the fill failed: {text}"),
        }
    }
    (started.elapsed().as_secs_f64(), unit)
}

fn options_demand(domains: u64, background: f64) -> (u64, u64) {
    let text = format!("dead_executors = {background}\ntraffic = false");
    let workload =
        workload::workload("zookeeper.domains", "zookeeper", toml::from_str(&text).expect("TOML")).expect("options");
    let demand = workload.demand(domains);
    (demand.counts[0].1, demand.counts[1].1)
}

/// The server's own counts, held against what was asked: a figure of a fill that is not there would be no figure.
async fn confirm(managed: &dyn Managed, (znodes, watches): &(u64, u64)) -> (f64, f64) {
    let counts = managed.spec().open(&managed.nodes()).counts().await.total;
    let (seen_znodes, seen_watches) = (counts["znodes"], counts["watches"]);
    assert!(
        seen_znodes >= *znodes && seen_znodes - znodes < 50,
        "{znodes} znodes were asked, the server counts {seen_znodes}"
    );
    assert_eq!(seen_watches, *watches, "watches");
    (seen_znodes as f64, seen_watches as f64)
}
