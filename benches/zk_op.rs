//! What one synchronous operation costs the driver: our wire session and the `zookeeper-client` crate, in turns on one
//! server in one run.

mod common;

use std::time::Duration;

use common::{Figure, finish};
use zk_wire::{Client, ConnectOptions, CreateMode, Event, Hub, Request};

/// Operations of one turn; turns alternate so that drift of the machine meets both.
const OPERATIONS: u32 = 10_000;
const TURNS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (managed, _) = common::zookeeper(512, &[], &[], &[]).await;
    let target_spec = managed.spec();
    let spec = target_spec.zookeeper().expect("a ZooKeeper");
    let server = spec.servers[0];
    let mut control =
        Client::connect(&ConnectOptions::new(server), Duration::from_secs(10)).expect("a control session");
    control.create("/bench", &[b'x'; 100], CreateMode::Persistent).expect("a znode to read");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(wire(server));
        theirs.push(peer(server).await);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours / theirs;
    managed.stop().await;
    finish(
        "zk_op",
        &[
            Figure::plain("zk_op.cpu_us", ours, "us of CPU per get"),
            Figure {
                peer: Some("zookeeper-client"),
                peer_value: Some(theirs),
                ratio: Some(ratio),
                ..Figure::at_most("zk_op.cpu_ratio", ratio, "share of the peer", "<= 0.5", 0.5)
            },
        ],
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU microseconds per synchronous get through our session.
fn wire(server: std::net::SocketAddr) -> f64 {
    let mut hub: Hub<()> = Hub::new().expect("a hub");
    let session = hub.connect(&ConnectOptions::new(server)).expect("a session");
    let mut connected = false;
    while !connected {
        hub.turn(Duration::from_secs(1), |_, event| connected |= matches!(event, Event::Connected { .. }))
            .expect("a turn");
    }
    let before = common::cpu_s();
    for _ in 0..OPERATIONS {
        hub.submit(session, (), &Request::GetData { path: "/bench", watch: false }).expect("a free window");
        let mut answered = false;
        while !answered {
            hub.turn(Duration::from_secs(1), |_, event| {
                if let Event::Reply { result, .. } = event {
                    result.expect("the znode is there");
                    answered = true;
                }
            })
            .expect("a turn");
        }
    }
    let cpu_us = (common::cpu_s() - before) * 1e6 / f64::from(OPERATIONS);
    hub.abandon(session);
    cpu_us
}

/// The same through the peer.
async fn peer(server: std::net::SocketAddr) -> f64 {
    let client = zookeeper_client::Client::connect(&server.to_string()).await.expect("the peer connects");
    let before = common::cpu_s();
    for _ in 0..OPERATIONS {
        let (data, _) = client.get_data("/bench").await.expect("the znode is there");
        assert_eq!(data.len(), 100);
    }
    (common::cpu_s() - before) * 1e6 / f64::from(OPERATIONS)
}
