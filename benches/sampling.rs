//! What sampling costs: five servers at 1 Hz, on the driver as a share of one core, on the target as a loss of a probe's
//! throughput. Pairs of short measures, with and without sampling in turns, so that drift of the machine meets both. The
//! servers do not force their logs to the disk: sampling does not write, and the disk's own moods would hide what it takes.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod common;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use common::{Figure, finish};
use rampart::{
    launch::{self, Recipe},
    model::{Clock, RunId},
    target::Sampler,
};
use zk_wire::{Client, ConnectOptions, CreateMode};

const PAIRS: usize = 48;
/// 97.5 % quantile of Student's t with 47 degrees of freedom: of 48 pairs, both ends of a 95 % interval.
const T_975: f64 = 2.012;
/// A call that takes so long is not the rule.
const HELD_UP: Duration = Duration::from_secs(1);
/// A pair is four of these: with, without, without, with, or the other way round.
const QUARTER: Duration = Duration::from_millis(1_500);
/// The share of a core is of so much time, in which nothing but sampling goes on.
const ALONE: Duration = Duration::from_secs(40);

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let recipe = Recipe {
        nodes: 5,
        heap_mib: 128,
        jvm_args: vec!["-XX:+UseSerialGC".to_owned()],
        system_properties: [("zookeeper.forceSync".to_owned(), "no".to_owned())].into(),
        ..Recipe::new("zookeeper")
    };
    let managed = launch::launcher(&recipe)
        .expect("a local launcher")
        .start(&recipe, RunId::new())
        .await
        .expect("the ensemble starts");
    let target = managed.spec().open(&managed.nodes());
    let inventory = target.inventory().await.expect("an inventory");
    for line in &inventory.sampling {
        println!("sampled: {line}");
    }
    let leader = inventory.nodes.iter().find(|node| node.role == "leader").expect("a leader").name.clone();
    let target_spec = managed.spec();
    let spec = target_spec.zookeeper().expect("a ZooKeeper");
    let server = *spec.servers.iter().find(|server| server.to_string() == leader).expect("the leader's address");
    let sampling = Arc::new(AtomicBool::new(false));
    for sampler in target.samplers(Clock::start(), &inventory) {
        tokio::spawn(sample(sampler, Arc::clone(&sampling)));
    }

    // The JVMs are warm before anything is counted.
    tokio::task::spawn_blocking(move || calls_per_s(server, Duration::from_secs(10))).await.expect("the probe ends");
    let core_share = driver_share(&sampling).await;
    let mut losses = Vec::new();
    for pair in 0..PAIRS {
        let (mut with, mut without) = (0.0, 0.0);
        for first in [true, false, false, true] {
            let on = first == (pair % 2 == 0);
            sampling.store(on, Ordering::Relaxed);
            let rate = tokio::task::spawn_blocking(move || calls_per_s(server, QUARTER)).await.expect("the probe ends");
            *(if on { &mut with } else { &mut without }) += rate;
        }
        losses.push(1.0 - with / without);
    }
    managed.stop().await;

    let count = losses.len() as f64;
    let mean = losses.iter().sum::<f64>() / count;
    let variance = losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half_width = T_975 * (variance / count).sqrt();
    println!(
        "{PAIRS} pairs of {:.0} s each way: sampling takes {:.2} % of the probe's throughput, 95 % interval {:.2} to {:.2} % (paired differences, Student's t)",
        QUARTER.as_secs_f64() * 2.0,
        mean * 100.0,
        (mean - half_width) * 100.0,
        (mean + half_width) * 100.0
    );
    finish(
        "sampling",
        &[
            Figure::at_most("sampling.driver_core_share", core_share, "share of a core", "<= 0.01", 0.01),
            Figure::at_most("sampling.target_loss", mean + half_width, "share, upper end", "<= 0.02", 0.02),
            Figure::plain("sampling.target_loss_mean", mean, "share, mean"),
        ],
    );
}

/// Asks at the sampler's own pace while sampling is on.
async fn sample(mut sampler: Box<dyn Sampler>, on: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(sampler.every()).await;
        if on.load(Ordering::Relaxed) {
            std::hint::black_box(sampler.sample().await);
        }
    }
}

/// CPU of this process as a share of one core while nothing but sampling goes on, less what it takes when that is off.
async fn driver_share(sampling: &AtomicBool) -> f64 {
    let mut shares = [0.0, 0.0];
    for (on, share) in [false, true].into_iter().zip(&mut shares) {
        sampling.store(on, Ordering::Relaxed);
        let (cpu, since) = (common::cpu_s(), Instant::now());
        tokio::time::sleep(ALONE).await;
        *share = (common::cpu_s() - cpu) / since.elapsed().as_secs_f64();
    }
    sampling.store(false, Ordering::Relaxed);
    println!("the driver used {:.4} of a core while sampling alone, {:.4} without", shares[1], shares[0]);
    shares[1] - shares[0]
}

/// The rate of a spell in which no call was held up: on an idle ensemble of 3.8.0 some are until the client's next
/// ping, with sampling and without.
fn calls_per_s(server: SocketAddr, time: Duration) -> f64 {
    loop {
        let (rate, longest) = spell(server, time);
        if longest < HELD_UP {
            return rate;
        }
        println!("a call took {:.1} s: that spell is measured again", longest.as_secs_f64());
    }
}

/// One client with one call in flight: nine reads and one write of 100 bytes in turns. Its rate, and its longest call.
fn spell(server: SocketAddr, time: Duration) -> (f64, Duration) {
    let options = ConnectOptions { session_timeout_ms: 6_000, ..ConnectOptions::new(server) };
    let mut client = Client::connect(&options, Duration::from_secs(10)).expect("a session");
    // It is there from the second time on.
    let _ = client.create("/bench", &[b'x'; 100], CreateMode::Persistent);
    let (since, mut calls, mut longest) = (Instant::now(), 0_u32, Duration::ZERO);
    while since.elapsed() < time {
        let begun = Instant::now();
        if calls % 10 == 0 {
            client.set("/bench", &[b'y'; 100], -1).expect("the write is taken");
        } else {
            client.get("/bench").expect("the znode is there");
        }
        calls += 1;
        longest = longest.max(begun.elapsed());
    }
    let rate = f64::from(calls) / since.elapsed().as_secs_f64();
    let _ = client.close();
    (rate, longest)
}
