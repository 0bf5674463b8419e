//! What sampling costs: the driver's CPU for five servers, and what a probe loses of its rate while they are sampled.

mod common;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use common::{Figure, finish};
use rampart::{
    launch::{self, Recipe},
    model::{Clock, RunId},
    target::{Target, TargetSpec},
};
use tokio::task::JoinSet;
use zk_wire::{Client, ConnectOptions, CreateMode};

const SERVERS: u32 = 5;
/// How long the driver's CPU is watched.
const WATCHED: Duration = Duration::from_secs(60);
/// Windows with and without sampling, in the order A B B A, so that drift of the machine meets both.
const PAIRS: usize = 24;
const WINDOW: Duration = Duration::from_secs(4);
/// Of Student's distribution, for the two-sided 95 % interval of 24 pairs.
const T_975: f64 = 2.069;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let recipe = Recipe { nodes: SERVERS, heap_mib: 256, ..Recipe::new("zookeeper") };
    let launched = launch::launcher(&recipe).expect("a local launcher").start(&recipe, RunId::new()).await;
    let managed = launched.expect("an ensemble starts");
    let target = managed.spec().open(&managed.nodes());
    let TargetSpec::Zookeeper(spec) = managed.spec();

    let sampling = sample(target.as_ref()).await;
    // The first round of each sampler opens what it keeps.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, since) = (common::cpu_s(), Instant::now());
    tokio::time::sleep(WATCHED).await;
    let share = (common::cpu_s() - before) / since.elapsed().as_secs_f64();
    drop(sampling);

    let mut losses = Vec::new();
    for pair in 0..PAIRS {
        let mut rates = [0.0; 2];
        for sampled in if pair % 2 == 0 { [true, false] } else { [false, true] } {
            let sampling = if sampled { Some(sample(target.as_ref()).await) } else { None };
            let server = spec.servers[0];
            let rate = tokio::task::spawn_blocking(move || gets_per_s(server)).await.expect("the probe ends");
            drop(sampling);
            rates[usize::from(sampled)] = rate;
        }
        losses.push(1.0 - rates[1] / rates[0]);
    }
    managed.stop().await;
    let mean = losses.iter().sum::<f64>() / PAIRS as f64;
    let variance = losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / (PAIRS - 1) as f64;
    let upper = mean + T_975 * (variance / PAIRS as f64).sqrt();
    finish(
        "sampling",
        &[
            Figure::at_most("sampling.driver_core_share", share, "of one core", "<= 0.01", 0.01),
            Figure::at_most("sampling.target_loss", upper, "share, upper end", "<= 0.02", 0.02),
            Figure::plain("sampling.target_loss_mean", mean, "share"),
        ],
    );
}

/// Samples as a run does: one task a sampler. Dropping it ends them.
async fn sample(target: &dyn Target) -> JoinSet<()> {
    let inventory = target.inventory().await.expect("an inventory");
    let mut tasks = JoinSet::new();
    for mut sampler in target.samplers(Clock::start(), &inventory) {
        tasks.spawn(async move {
            loop {
                let next = tokio::time::Instant::now() + sampler.every();
                let _ = sampler.sample().await;
                tokio::time::sleep_until(next).await;
            }
        });
    }
    tasks
}

/// The rate of one client with one call in flight.
fn gets_per_s(server: SocketAddr) -> f64 {
    let mut client = Client::connect(&ConnectOptions::new(server), Duration::from_secs(10)).expect("a session");
    let path = "/bench";
    let _ = client.create(path, &[b'x'; 100], CreateMode::Persistent);
    let (since, mut done) = (Instant::now(), 0_u32);
    while since.elapsed() < WINDOW {
        client.get(path).expect("the znode is there");
        done += 1;
    }
    let rate = f64::from(done) / since.elapsed().as_secs_f64();
    let _ = client.close();
    rate
}
