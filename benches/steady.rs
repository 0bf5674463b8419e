//! 700 domains of the source report with their steady traffic, on one launched server of 2 GiB beside the generator: what
//! is achieved of the 8,085 transactions a second that the model asks, what the run says of it, and what a transaction
//! with its 12 reads and its notifications costs the generator. A whole run through the engine, samplers and all.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod common;

use common::{Figure, finish};
use rampart::{
    config::Config,
    engine,
    model::{Phase, RunEvent, RunId},
    scenario::{Origin, Scenario, Surroundings, plan},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const DOMAINS: u64 = 700;

const CONFIG: &str = r#"
[recipes.steady]
kind = "zookeeper"
heap_mib = 2048
system_properties = { "zookeeper.watchManagerName" = "org.apache.zookeeper.server.watch.WatchManagerOptimized" }
"#;

fn scenario(domains: u64) -> String {
    format!(
        r#"
name = "steady"
[target]
kind = "zookeeper"
launch = "steady"
[load]
workload = "zookeeper.domains"
kind = "levels"
levels = [{domains}]
settle_s = 20
measure_s = 30
fill_max_s = 240
warm_up_s = 5
[load.options]
fill = "fast"
[[probe]]
kind = "zookeeper.latencies"
count = 500
[limits]
time_budget_s = 420
"#
    )
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let domains: u64 = std::env::var("RAMPART_BENCH_DOMAINS").ok().and_then(|n| n.parse().ok()).unwrap_or(DOMAINS);
    let scenario = Scenario::parse(&scenario(domains)).expect("the scenario is right");
    let config = Config::parse(CONFIG).expect("the configuration is right");
    let plan = plan(&scenario, &config, Origin::LocalUser, &Surroundings::default()).expect("the plan is right");
    let asked = plan.scenario.workload.demand(domains).writes_per_s;
    let (sender, mut events) = mpsc::channel(256);
    let run = tokio::spawn(engine::run(plan, RunId::new(), sender, CancellationToken::new()));
    // CPU of this whole process while each trial was measured, in order.
    let (mut began, mut spent) = (None, Vec::new());
    while let Some(event) = events.recv().await {
        if let RunEvent::Phase { phase: Phase::Measuring, .. } = event {
            began = Some(common::cpu_s());
        } else if let RunEvent::Phase { phase: Phase::Judging, .. } = event {
            spent.push(began.take().map(|cpu_s| common::cpu_s() - cpu_s));
        } else if let RunEvent::Note { text, .. } = event {
            println!("note: {text}");
        }
    }
    let verdict = run.await.expect("the engine ends");
    println!("{:?} ({:?}): {}", verdict.status, verdict.stop_code, verdict.sentence);
    let mut figures = Vec::new();
    for (trial, cpu_s) in verdict.steps.iter().zip(&spent).filter(|(trial, _)| trial.load > 0) {
        let sum = |write: bool| {
            let of = trial.operations.iter().filter(|stat| !stat.probe && stat.write == write);
            of.map(|stat| stat.ops_per_s).sum::<f64>()
        };
        let (writes, reads) = (sum(true), sum(false));
        println!(
            "trial {} at {} domains: {:?} ({:?}), filled in {:.1} s, measured for {:.0} s: {writes:.0} of {asked:.0} transactions/s, {reads:.0} reads/s; start lag p99 {:?} us, load thread {:?} of its core; {}",
            trial.trial,
            trial.load,
            trial.outcome,
            trial.stop_code,
            trial.fill_s,
            trial.measure_s,
            trial.health.start_lag_p99_us,
            trial.health.busiest_thread_share,
            trial.remarks.join("; ")
        );
        for (node, series) in trial.target_nodes() {
            for name in
                ["process_cpu_share", "gc_pause_share", "heap_after_gc_bytes", "outstanding_requests", "fsync_mean_ms"]
            {
                let reading =
                    series.get(name).map_or_else(|| "not read".to_owned(), |stat| format!("{:.3}", stat.mean));
                println!("  {node} {name}: {reading}");
            }
        }
        // The last trial that was measured is the one that counts; a repetition is the more settled one.
        if trial.measure_s > 0.0 && writes > 0.0 {
            figures.clear();
            figures.push(Figure::plain("steady.txn_per_s", writes, "of 8,085 asked"));
            figures.push(Figure::plain("steady.txn_share", writes / asked, "of what is asked"));
            figures.push(Figure::plain("steady.reads_per_s", reads, "reads/s"));
            if let Some(cpu_s) = cpu_s {
                let us = cpu_s * 1e6 / (writes * trial.measure_s);
                figures.push(Figure::plain("steady.driver_us_per_txn", us, "us of CPU"));
            }
        }
    }
    if figures.is_empty() {
        println!("no figure: the load was not measured");
    }
    finish("steady", &figures);
}
