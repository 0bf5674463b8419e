//! Roots and leases on a real ZooKeeper.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use rampart::{
    model::RunId,
    target::{Claim, CleanPace, ManagedNode, Target, TargetError, zookeeper::Zookeeper, zookeeper::ZookeeperSpec},
};
use zk_wire::{Client, ConnectOptions, CreateMode};

use crate::zookeeper::Server;

fn spec(server: &Server, chroot: &str) -> ZookeeperSpec {
    ZookeeperSpec {
        servers: vec![server.addr],
        chroot: chroot.to_owned(),
        digest: None,
        admin_urls: Vec::new(),
        metrics_urls: Vec::new(),
        node_exporters: Vec::new(),
        hosts: Vec::new(),
        source_addresses: Vec::new(),
        tls: None,
    }
}

fn target(server: &Server, chroot: &str) -> Zookeeper {
    Zookeeper::new(spec(server, chroot), Vec::<ManagedNode>::new())
}

fn client(server: &Server) -> Client {
    Client::connect(&ConnectOptions::new(server.addr), Duration::from_secs(10)).unwrap()
}

/// A tree of `1 + wide * (1 + deep)` znodes.
fn fill(client: &mut Client, under: &str, wide: usize, deep: usize) {
    client.create(under, b"", CreateMode::Persistent).unwrap();
    for branch in 0..wide {
        let failed = client.multi_with(|w| {
            let path = format!("{under}/branch-{branch}");
            w.create(&path, b"", CreateMode::Persistent);
            for leaf in 0..deep {
                w.create(&format!("{path}/leaf-{leaf}"), b"x", CreateMode::Persistent);
            }
        });
        assert_eq!(failed.unwrap(), None);
    }
}

fn in_use(claimed: Result<Box<dyn Claim>, TargetError>) -> String {
    match claimed {
        Err(TargetError::InUse { holder }) => holder,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn of_two_claims_at_once_exactly_one_wins() {
    let server = Server::start("", &[]);
    for _ in 0..5 {
        let runs = [RunId::new(), RunId::new()];
        let (first, second) = (target(&server, ""), target(&server, ""));
        let (first, second) = tokio::join!(first.claim(runs[0]), second.claim(runs[1]));
        let (won, lost, winner) = if first.is_ok() { (first, second, runs[0]) } else { (second, first, runs[1]) };
        let (won, holder) = (won.unwrap(), in_use(lost));
        assert!(holder.starts_with(&format!("run {} (", winner.short())), "{holder}");
        assert!(holder.contains(&format!("pid {}", std::process::id())), "{holder}");
        assert_eq!(won.root(), winner.root());
        let mut names = client(&server).children("/").unwrap();
        names.sort_unstable();
        assert_eq!(names, [&winner.root()[1..], "zookeeper"], "the loser leaves nothing");
        won.release(CleanPace::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_creates_under_the_chroot_and_removes_all_when_released() {
    let server = Server::start("", &[]);
    let mut client = client(&server);
    let target = target(&server, "/app/load/");
    let missing = target.claim(RunId::new()).await;
    assert!(matches!(&missing, Err(TargetError::NoChroot { path, .. }) if path == "/app/load"), "{missing:?}");

    client.create("/app", b"", CreateMode::Persistent).unwrap();
    client.create("/app/load", b"", CreateMode::Persistent).unwrap();
    client.create("/app/load/rampart-notours", b"", CreateMode::Persistent).unwrap();
    let run = RunId::new();
    let claim = target.claim(run).await.unwrap();
    assert_eq!(claim.root(), format!("/app/load{}", run.root()));
    let lease = format!("{}/lease", claim.root());
    let (text, stat) = client.get(&lease).unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with(&format!("\n{}\n{run}\n", std::process::id())));
    assert_ne!(stat.ephemeral_owner, 0);
    fill(&mut client, &format!("{}/d", claim.root()), 7, 300);
    let report = claim.release(CleanPace::default()).await.unwrap();
    assert_eq!((report.removed_roots.len(), report.removed_znodes), (1, 1 + 7 * 301 + 2));
    assert_eq!(client.children("/app/load").unwrap(), ["rampart-notours"]);
}

#[tokio::test]
async fn cleaning_removes_what_a_crash_left_and_skips_what_lives() {
    // A short session timeout, so that a crash is noticed soon.
    let server = Server::start("maxSessionTimeout=2000", &[]);
    let mut client = client(&server);
    let target = target(&server, "");
    let crashed = RunId::new().root();
    let mut gone = Client::connect(&ConnectOptions::new(server.addr), Duration::from_secs(10)).unwrap();
    fill(&mut gone, &crashed, 25, 200);
    gone.create(&format!("{crashed}/lease"), b"there\n7\n", CreateMode::Ephemeral).unwrap();
    gone.abandon();

    // Until its session has expired, a crashed run holds the target.
    let holder = in_use(target.claim(RunId::new()).await);
    assert_eq!(holder, format!("run {} (there, pid 7)", &crashed[9..]));
    let report = target.clean(CleanPace::default()).await.unwrap();
    assert_eq!((report.removed_znodes, report.skipped.len()), (0, 1));
    let end = Instant::now() + Duration::from_secs(20);
    while client.exists(&format!("{crashed}/lease")).unwrap().is_some() {
        assert!(Instant::now() < end, "the lease does not go");
        client.idle(Duration::from_millis(100)).unwrap();
    }

    let living = target.claim(RunId::new()).await.unwrap();
    let report = target.clean(CleanPace::default()).await.unwrap();
    assert_eq!(report.removed_roots, [crashed]);
    assert_eq!(report.removed_znodes, 1 + 25 * 201);
    assert_eq!(report.skipped.len(), 1);
    assert!(report.skipped[0].starts_with(&format!("{}: its lease is held by run ", living.root())), "{report:?}");
    client.sync("/").unwrap();
    assert!(client.exists(living.root()).unwrap().is_some());

    // Let go without removal, it is left to cleaning.
    let root = living.root().to_owned();
    living.abandon();
    let end = Instant::now() + Duration::from_secs(5);
    while client.exists(&format!("{root}/lease")).unwrap().is_some() {
        assert!(Instant::now() < end, "the lease is not let go");
        client.idle(Duration::from_millis(20)).unwrap();
    }
    assert_eq!(target.clean(CleanPace::default()).await.unwrap().removed_roots, [root]);
}

#[tokio::test]
async fn removal_keeps_to_its_pace_and_to_its_limit() {
    let server = Server::start("", &[]);
    let mut client = client(&server);
    let target = target(&server, "");
    let claim = target.claim(RunId::new()).await.unwrap();
    let root = claim.root().to_owned();
    fill(&mut client, &format!("{root}/d"), 10, 300);
    let start = Instant::now();
    let pace = CleanPace { deletes_per_s: 1_000.0, limit: Duration::from_millis(1_000) };
    let cut = claim.release(pace).await.unwrap_err().to_string();
    assert!(cut.contains(&root), "what is left is named: {cut}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());

    // The lease is let go all the same, so that cleaning can do the rest.
    let end = Instant::now() + Duration::from_secs(5);
    while client.exists(&format!("{root}/lease")).unwrap().is_some() {
        assert!(Instant::now() < end, "the lease is not let go");
        client.idle(Duration::from_millis(20)).unwrap();
    }
    let start = Instant::now();
    let report = target.clean(CleanPace { deletes_per_s: 1_000.0, limit: Duration::from_secs(60) }).await.unwrap();
    assert_eq!(report.removed_roots, [root]);
    assert!((1_000..2_300).contains(&report.removed_znodes), "{report:?}");
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let at_pace = Duration::from_secs_f64(report.removed_znodes as f64 / 1_000.0);
    assert!(start.elapsed() + Duration::from_millis(300) >= at_pace, "{:?} for {report:?}", start.elapsed());
}

#[tokio::test]
async fn removal_copes_with_others_who_create_and_delete_meanwhile() {
    let server = Server::start("", &[]);
    let mut filler = client(&server);
    let claim = target(&server, "").claim(RunId::new()).await.unwrap();
    let tree = format!("{}/d", claim.root());
    fill(&mut filler, &tree, 10, 200);
    let mut others = client(&server);
    let meddling = std::thread::spawn(move || {
        let (mut created, mut deleted) = (0_u64, 0);
        for round in 0..400 {
            let branch = format!("{tree}/branch-{}", round % 10);
            let leaf = format!("{branch}/leaf-{}", round / 2);
            created += u64::from(others.create(&format!("{leaf}/new"), b"", CreateMode::Persistent).is_ok());
            created += u64::from(others.create(&format!("{branch}/new-{round}"), b"", CreateMode::Persistent).is_ok());
            deleted += u64::from(others.delete(&format!("{branch}/leaf-{}", 199 - round / 2), -1).is_ok());
        }
        (created, deleted)
    });
    let pace = CleanPace { deletes_per_s: 4_000.0, limit: Duration::from_secs(30) };
    let report = claim.release(pace).await.unwrap();
    let (created, deleted) = meddling.join().unwrap();
    assert!(created > 0 && deleted > 0, "{created} created, {deleted} deleted by others");
    assert_eq!(report.removed_znodes + deleted, 1 + 10 * 201 + 2 + created);
    assert_eq!(filler.children("/").unwrap(), ["zookeeper"]);
}

#[tokio::test]
async fn a_target_that_is_not_there_is_told_from_one_that_does_not_serve() {
    let server = Server::start("maxClientCnxns=1", &[]);
    let target = target(&server, "");
    let mut options = ConnectOptions::new(server.addr);
    options.source = Some([127, 0, 2, 1].into());
    let _only = Client::connect(&options, Duration::from_secs(10)).unwrap();
    let full = target.claim(RunId::new()).await;
    assert!(matches!(full, Err(TargetError::NotServing { .. })), "{full:?}");
    drop(server);
    let gone = target.clean(CleanPace::default()).await;
    assert!(matches!(gone, Err(TargetError::Unreachable { .. })), "{gone:?}");
}

#[tokio::test]
async fn a_closed_chroot_needs_the_digest() {
    use zookeeper_client as other;

    let server = Server::start("", &[]);
    let ann = other::Client::connector().with_auth("digest", b"ann:secret");
    let ann = ann.connect(&server.addr.to_string()).await.unwrap();
    ann.create("/own", b"", &other::CreateMode::Persistent.with_acls(other::Acls::creator_all())).await.unwrap();
    let refused = target(&server, "/own").claim(RunId::new()).await;
    assert!(matches!(refused, Err(TargetError::Auth { .. })), "{refused:?}");

    let spec = ZookeeperSpec { digest: Some("ann:secret".to_owned()), ..spec(&server, "/own") };
    let target = Zookeeper::new(spec, Vec::new());
    let claim = target.claim(RunId::new()).await.unwrap();
    assert!(claim.root().starts_with("/own/rampart-"));
    claim.release(CleanPace::default()).await.unwrap();
    assert_eq!(ann.list_children("/own").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_lease_outlives_a_lost_connection() {
    let server = Server::start("", &[]);
    let mut client = client(&server);
    let (proxy, links) = proxy(server.addr);
    let spec = ZookeeperSpec { servers: vec![proxy], ..spec(&server, "") };
    let claim = Zookeeper::new(spec, Vec::new()).claim(RunId::new()).await.unwrap();
    let lease = format!("{}/lease", claim.root());
    let owner = client.get(&lease).unwrap().1.ephemeral_owner;
    for _ in 0..2 {
        let link = links.recv_timeout(Duration::from_secs(10)).unwrap();
        link.shutdown(std::net::Shutdown::Both).unwrap();
    }
    // A third link is the proof that it was taken up twice.
    let _link = links.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(client.get(&lease).unwrap().1.ephemeral_owner, owner);
    let report = claim.release(CleanPace::default()).await.unwrap();
    assert_eq!(report.removed_znodes, 2);
    assert_eq!(client.children("/").unwrap(), ["zookeeper"]);
}

/// Passes connections on to `to`, and hands out each so that it can be cut.
fn proxy(to: SocketAddr) -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, (tell, told)) = (listener.local_addr().unwrap(), channel());
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(to).unwrap());
            let pairs = [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far.try_clone().unwrap(), near.try_clone().unwrap()),
            ];
            for (mut from, mut to) in pairs {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
            if tell.send(near).is_err() {
                return;
            }
        }
    });
    (addr, told)
}
