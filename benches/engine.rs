//! The real engine against simulated systems in real time: whether searches with trials of two seconds find the capacity.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod common;

use std::{fmt::Write as _, sync::Arc};

use common::{Figure, finish};
use rampart::{
    config::Config,
    engine,
    model::{RunId, Verdict},
    scenario::{Origin, Scenario, Surroundings, plan},
    target::{
        TargetSpec,
        sim::{ServiceTime, SimSpec},
    },
};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

const SEARCHES: u64 = 50;
/// Searches at the same time: a simulated system needs little, and a search mostly waits.
const AT_ONCE: usize = 10;

/// Systems of several kinds that carry 1,000 to 4,000 a second.
fn system(number: u64) -> SimSpec {
    let servers = [1, 2, 4, 8, 16][usize::try_from(number % 5).unwrap_or(0)];
    let per_s = 1_000.0 + 600.0 * (number % 6) as f64;
    let plain =
        SimSpec { servers, service_ms: f64::from(servers) / per_s * 1e3, seed: number + 1, ..SimSpec::default() };
    match number % 4 {
        0 => plain,
        1 => SimSpec { service_time: ServiceTime::Exponential, ..plain },
        2 => SimSpec { contention: 0.02, coherence: 0.001, ..plain },
        _ => SimSpec { service_time: ServiceTime::Lognormal, variation: 1.5, ..plain },
    }
}

async fn search(spec: SimSpec) -> Verdict {
    let mut config = Config::load(None).expect("the built-in configuration is sound");
    config.targets.insert("known".to_owned(), TargetSpec::Sim(spec));
    let text = r#"
name = "engine"
[target]
kind = "sim"
use = "known"
[load]
workload = "sim.requests"
kind = "search"
start = 250
max = 20000
width = 0.02
resolution = 5
settle_s = 0
measure_s = 2
trials_max = 120
[[rule]]
kind = "achieved_short"
"#;
    let scenario = Scenario::parse(text).expect("the scenario is sound");
    let plan = plan(&scenario, &config, Origin::LocalUser, &Surroundings::default()).expect("the plan is sound");
    let (events, mut heard) = mpsc::channel(64);
    let drain = tokio::spawn(async move { while heard.recv().await.is_some() {} });
    let verdict = engine::run(plan, RunId::new(), events, CancellationToken::new()).await;
    drain.await.expect("the listener ends");
    verdict
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let mut all = tokio::task::JoinSet::new();
    for number in 0..SEARCHES {
        let gate = Arc::clone(&gate);
        all.spawn(async move {
            let _permit = gate.acquire().await.expect("the gate stays open");
            let spec = system(number);
            (number, spec.clone(), search(spec).await)
        });
    }
    let mut found: Vec<(u64, SimSpec, Verdict)> = Vec::new();
    while let Some(one) = all.join_next().await {
        found.push(one.expect("a search ends"));
    }
    found.sort_by_key(|(number, ..)| *number);
    let mut table = String::from(
        "| search | servers | carries | held | broke | off by | trials |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut within = 0_usize;
    for (number, spec, verdict) in &found {
        let capacity = spec.capacity_per_s();
        let middle = match (verdict.last_good, verdict.first_bad) {
            (Some(good), Some(bad)) => f64::midpoint(good as f64, bad as f64),
            (good, bad) => good.or(bad).unwrap_or(0) as f64,
        };
        let off = middle / capacity - 1.0;
        within += usize::from(off.abs() <= 0.05 && verdict.last_good.is_some() && verdict.first_bad.is_some());
        let count = |load: Option<u64>| load.map_or_else(|| "none".to_owned(), |load| load.to_string());
        let _ = writeln!(
            table,
            "| {number} | {} | {capacity:.0}/s | {} | {} | {:+.1} % | {} |",
            spec.servers,
            count(verdict.last_good),
            count(verdict.first_bad),
            off * 100.0,
            verdict.steps.len()
        );
    }
    println!("{table}");
    common::document("engine", &table);
    let share = within as f64 / found.len() as f64;
    finish("engine", &[Figure::at_least("engine.within_5_share", share, "share of searches", ">= 0.95", 0.95)]);
}
