//! What resting sessions cost the driver: 4,200 sessions at a timeout of 20 s, kept alive by their pings alone.

mod common;

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use common::{Figure, finish};
use zk_wire::{ConnectOptions, Event, Hub};

const SESSIONS: usize = 4_200;
const WATCHED: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (managed, _) = common::zookeeper(1_024, &[], &[], &[]).await;
    let target_spec = managed.spec();
    let spec = target_spec.zookeeper().expect("a ZooKeeper");
    let mut hub: Hub<()> = Hub::new().expect("a hub");
    let empty = common::peak_rss_mib();
    let (mut opened, mut connected) = (0, 0);
    while connected < SESSIONS {
        while opened < SESSIONS && opened - connected < 30 {
            let options = ConnectOptions {
                source: Some(IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1))),
                session_timeout_ms: 20_000,
                max_in_flight: 256,
                ..ConnectOptions::new(spec.servers[0])
            };
            hub.connect(&options).expect("a session");
            opened += 1;
        }
        hub.turn(Duration::from_millis(100), |_, event| match event {
            Event::Connected { .. } => connected += 1,
            Event::Disconnected { cause, .. } => panic!("a session was lost: {cause}"),
            Event::Expired { .. }
            | Event::Reply { .. }
            | Event::Watch { .. }
            | Event::AuthFailed { .. }
            | Event::Closed { .. } => {}
        })
        .expect("a turn");
    }
    let (cpu, started, mut lost) = (common::cpu_s(), Instant::now(), 0);
    while started.elapsed() < WATCHED {
        // As a load unit turns: at most 20 ms a pass.
        hub.turn(Duration::from_millis(20), |_, event| {
            lost += usize::from(matches!(event, Event::Disconnected { .. }));
        })
        .expect("a turn");
    }
    let share = (common::cpu_s() - cpu) / started.elapsed().as_secs_f64();
    assert_eq!(lost, 0, "sessions were lost while they rested");
    let figures = [
        Figure::at_most("idle.core_share", share, "of one core", "<= 0.02", 0.02),
        Figure::plain("idle.heap_bytes_per_session", hub.heap_bytes() as f64 / SESSIONS as f64, "bytes"),
        Figure::plain("idle.rss_growth_mib", common::peak_rss_mib() - empty, "MiB"),
    ];
    managed.stop().await;
    finish("idle", &figures);
}
