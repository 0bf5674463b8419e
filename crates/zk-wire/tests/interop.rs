//! What this client does is seen by another client (`zookeeper-client`) on a real ZooKeeper, and the other way round.
#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    reason = "a test that meets what it does not expect fails, and tells what it measured"
)]

mod zookeeper;

use std::time::{Duration, Instant};

use zk_wire::{
    Auth, Client, ClientError, ConnectOptions, CreateMode, ErrorCode, Event, Hub, MultiOp, MultiResult, Reply,
    ReplyError, Request, SessionKey, WatchKind,
};
use zookeeper_client::{self as other, Acls};

use zookeeper::Server;

const TIMEOUT: Duration = Duration::from_secs(10);

fn client(server: &Server) -> Client {
    Client::connect(&ConnectOptions::new(server.addr), TIMEOUT).unwrap()
}

fn other_mode(mode: other::CreateMode) -> other::CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}

/// Turns until `enough` says so of an event, or panics.
fn until(hub: &mut Hub<u64>, mut enough: impl FnMut(&mut Hub<u64>, Event<'_, u64>) -> bool) {
    let end = Instant::now() + TIMEOUT;
    let mut done = false;
    while !done {
        assert!(Instant::now() < end, "waited in vain");
        hub.turn(Duration::from_millis(50), |hub, event| done |= enough(hub, event)).unwrap();
    }
}

fn connect(hub: &mut Hub<u64>, options: &ConnectOptions) -> SessionKey {
    let key = hub.connect(options).unwrap();
    until(hub, |_, event| match event {
        Event::Connected { session, .. } => session == key,
        event => panic!("{event:?}"),
    });
    key
}

/// Submits and gives the reply to `read`.
fn ask<R>(
    hub: &mut Hub<u64>,
    key: SessionKey,
    request: &Request<'_>,
    read: impl Fn(Result<Reply<'_>, ReplyError>) -> R,
) -> R {
    hub.submit(key, 4711, request).unwrap();
    let mut answer = None;
    until(hub, |_, event| {
        if let Event::Reply { tag: 4711, result, .. } = event {
            answer = Some(read(result));
        }
        answer.is_some()
    });
    answer.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_is_seen_by_the_other_client() {
    let server = Server::start("", &[]);
    let theirs = other::Client::connect(&server.addr.to_string()).await.unwrap();
    let mut ours = client(&server);

    // create, in all modes
    assert_eq!(ours.create("/p", b"data", CreateMode::Persistent).unwrap(), "/p");
    assert_eq!(theirs.get_data("/p").await.unwrap().0, b"data");
    ours.create("/p/e", b"", CreateMode::Ephemeral).unwrap();
    let owner = theirs.check_stat("/p/e").await.unwrap().unwrap().ephemeral_owner;
    assert_eq!(owner, ours.session().unwrap().id.id);
    assert_eq!(ours.exists("/p/e").unwrap().unwrap().ephemeral_owner, owner);
    let first = ours.create("/p/s-", b"", CreateMode::PersistentSequential).unwrap();
    assert!(first.starts_with("/p/s-00"), "{first}");
    let second = ours.create("/p/s-", b"", CreateMode::EphemeralSequential).unwrap();
    assert!(second > first);
    let mut seen = theirs.list_children("/p").await.unwrap();
    seen.sort();
    let mut expected = ours.children("/p").unwrap();
    expected.sort();
    assert_eq!(seen, expected);
    assert_eq!(seen.len(), 3);
    let acl = theirs.get_acl("/p").await.unwrap().0;
    assert_eq!(acl, [other::Acl::new(other::Permission::ALL, other::AuthId::anyone())]);

    // set, and every number of the stat
    let stat = ours.set("/p", b"more", 0).unwrap();
    let (data, seen) = theirs.get_data("/p").await.unwrap();
    assert_eq!(data, b"more");
    assert_eq!((stat.czxid, stat.mzxid, stat.pzxid), (seen.czxid, seen.mzxid, seen.pzxid));
    assert_eq!((stat.ctime_ms, stat.mtime_ms), (seen.ctime, seen.mtime));
    assert_eq!((stat.version, stat.cversion, stat.aversion), (seen.version, seen.cversion, seen.aversion));
    assert_eq!((stat.data_bytes, stat.num_children), (seen.data_length, seen.num_children));
    assert_eq!(ours.set("/p", b"", 0).unwrap_err().code(), Some(ErrorCode::BadVersion));

    // multi: all or nothing
    let created = ours
        .multi(&[
            MultiOp::Create { path: "/m", data: b"1", mode: CreateMode::Persistent },
            MultiOp::Create { path: "/m/n-", data: b"", mode: CreateMode::PersistentSequential },
            MultiOp::SetData { path: "/m", data: b"2", version: 0 },
            MultiOp::Check { path: "/m", version: 1 },
            MultiOp::Delete { path: &first, version: -1 },
        ])
        .unwrap();
    assert_eq!(created, ["/m", "/m/n-0000000000"]);
    assert_eq!(theirs.get_data("/m").await.unwrap().0, b"2");
    assert_eq!(theirs.check_stat(&first).await.unwrap(), None);
    let failed = ours.multi_with(|w| {
        w.create("/never", b"", CreateMode::Persistent);
        w.check("/m", 99);
        w.delete("/p/e", -1);
    });
    assert_eq!(failed.unwrap(), Some((1, ErrorCode::BadVersion)));
    assert_eq!(theirs.check_stat("/never").await.unwrap(), None);

    // delete
    assert_eq!(ours.delete("/m", -1).unwrap_err().code(), Some(ErrorCode::NotEmpty));
    let paths = ["/m/n-0000000000", "/not/there", "/m"];
    assert_eq!(ours.delete_many(paths, 10).unwrap(), 2);
    assert_eq!(theirs.check_stat("/m").await.unwrap(), None);

    // and what the other one did is seen here
    theirs.create("/t", b"theirs", &other_mode(other::CreateMode::Persistent)).await.unwrap();
    theirs.create("/t/e", b"", &other_mode(other::CreateMode::Ephemeral)).await.unwrap();
    ours.sync("/t").unwrap();
    assert_eq!(ours.get("/t").unwrap().0, b"theirs");
    assert_eq!(ours.exists("/t/e").unwrap().unwrap().ephemeral_owner, theirs.session_id().0);
    theirs.delete("/t/e", None).await.unwrap();
    ours.sync("/t").unwrap();
    assert_eq!(ours.exists("/t/e").unwrap(), None);

    // closing takes ephemerals along
    ours.close().unwrap();
    assert_eq!(theirs.check_stat("/p/e").await.unwrap(), None);
}

#[test]
fn replies_with_a_stat_and_results_of_a_multi_are_read() {
    let server = Server::start("", &[]);
    let mut hub = Hub::new().unwrap();
    let key = connect(&mut hub, &ConnectOptions::new(server.addr));
    let create = Request::Create2 { path: "/a", data: b"xyz", mode: CreateMode::Persistent };
    let stat = ask(&mut hub, key, &create, |reply| {
        let reply = reply.unwrap();
        assert_eq!(reply.created(), Some("/a"));
        reply.stat().unwrap()
    });
    assert_eq!((stat.version, stat.data_bytes), (0, 3));
    let list = Request::GetChildren2 { path: "/", watch: false };
    ask(&mut hub, key, &list, |reply| {
        let reply = reply.unwrap();
        let mut names: Vec<_> = reply.children().unwrap().collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "zookeeper"]);
        assert_eq!(reply.stat().unwrap().num_children, 2);
    });
    let ops = [
        MultiOp::Create { path: "/b", data: b"", mode: CreateMode::Persistent },
        MultiOp::Check { path: "/a", version: 0 },
        MultiOp::SetData { path: "/a", data: b"", version: -1 },
        MultiOp::Delete { path: "/b", version: -1 },
    ];
    ask(&mut hub, key, &Request::Multi(&ops), |reply| {
        let results: Vec<_> = reply.unwrap().multi().unwrap().collect();
        assert_eq!(results[..2], [MultiResult::Created { path: "/b" }, MultiResult::Done]);
        assert!(matches!(results[2], MultiResult::Stat(stat) if stat.version == 1), "{results:?}");
        assert_eq!(results[3..], [MultiResult::Done]);
    });
    ask(&mut hub, key, &Request::Multi(&[ops[3], ops[0]]), |reply| {
        let results = reply.unwrap().multi().unwrap();
        assert_eq!(results.error(), Some((0, ErrorCode::NoNode)));
        let inconsistent = MultiResult::Failed(Some(ErrorCode::RuntimeInconsistency));
        assert_eq!(results.last(), Some(inconsistent));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_fire_on_both_sides() {
    let server = Server::start("", &[]);
    let theirs = other::Client::connect(&server.addr.to_string()).await.unwrap();
    let options = other_mode(other::CreateMode::Persistent);
    theirs.create("/w", b"", &options).await.unwrap();
    let mut hub = Hub::new().unwrap();
    let key = connect(&mut hub, &ConnectOptions::new(server.addr));

    ask(&mut hub, key, &Request::GetData { path: "/w", watch: true }, |reply| assert!(reply.is_ok()));
    ask(&mut hub, key, &Request::GetChildren { path: "/w", watch: true }, |reply| assert!(reply.is_ok()));
    let missing = Err(ReplyError::Code(ErrorCode::NoNode));
    ask(&mut hub, key, &Request::Exists { path: "/x", watch: true }, |reply| {
        assert_eq!(reply.map(|_| ()), missing);
    });
    theirs.set_data("/w", b"1", None).await.unwrap();
    theirs.create("/w/c", b"", &options).await.unwrap();
    theirs.create("/x", b"", &options).await.unwrap();
    let mut fired = Vec::new();
    until(&mut hub, |_, event| {
        if let Event::Watch { kind, path, .. } = event {
            fired.push((kind, path.to_owned()));
        }
        fired.len() == 3
    });
    let expected = [(WatchKind::DataChanged, "/w"), (WatchKind::ChildrenChanged, "/w"), (WatchKind::Created, "/x")];
    assert_eq!(fired, expected.map(|(kind, path)| (kind, path.to_owned())));

    // Watches set without reading: none fires on being set, each fires once on a change.
    hub.submit_set_watches(key, 1, i64::MAX, |w| {
        w.data("/w");
        w.data("/x");
        w.exist("/none");
        w.child("/w");
    })
    .unwrap();
    until(&mut hub, |_, event| match event {
        Event::Reply { tag: 1, result, .. } => {
            assert!(matches!(result, Ok(Reply::Done)), "{result:?}");
            true
        }
        event => panic!("{event:?}"),
    });
    // Not `wchs`, which leaves watches on children out.
    let counts = server.ask("mntr").unwrap();
    assert!(counts.contains("zk_watch_count\t4\n"), "{counts}");
    theirs.create("/none", b"", &options).await.unwrap();
    theirs.delete("/x", None).await.unwrap();
    theirs.delete("/w/c", None).await.unwrap();
    fired.clear();
    until(&mut hub, |_, event| {
        if let Event::Watch { kind, path, .. } = event {
            fired.push((kind, path.to_owned()));
        }
        fired.len() == 3
    });
    let expected = [(WatchKind::Created, "/none"), (WatchKind::Deleted, "/x"), (WatchKind::ChildrenChanged, "/w")];
    assert_eq!(fired, expected.map(|(kind, path)| (kind, path.to_owned())));

    // Set relative to a transaction before a change, a watch fires at once.
    hub.submit_set_watches(key, 2, 1, |w| w.data("/w")).unwrap();
    until(&mut hub, |_, event| matches!(event, Event::Watch { kind: WatchKind::DataChanged, path: "/w", .. }));

    // Theirs, fired by ours.
    let (_, _, watcher) = theirs.get_and_watch_data("/w").await.unwrap();
    ask(&mut hub, key, &Request::SetData { path: "/w", data: b"2", version: -1 }, |reply| assert!(reply.is_ok()));
    let event = tokio::time::timeout(TIMEOUT, watcher.changed()).await.unwrap();
    assert_eq!((event.event_type, event.path.as_str()), (other::EventType::NodeDataChanged, "/w"));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_open_what_the_other_client_closed() {
    let server = Server::start("", &[]);
    let theirs =
        other::Client::connector().with_auth("digest", b"ann:secret").connect(&server.addr.to_string()).await.unwrap();
    theirs.create("/own", b"x", &other::CreateMode::Persistent.with_acls(Acls::creator_all())).await.unwrap();

    let mut nobody = client(&server);
    assert_eq!(nobody.get("/own").unwrap_err().code(), Some(ErrorCode::NoAuth));
    nobody.call(&Request::AddAuth { scheme: "digest", auth: b"ann:secret" }, |_| Some(())).unwrap();
    assert_eq!(nobody.get("/own").unwrap().0, b"x");

    let mut options = ConnectOptions::new(server.addr);
    options.auth = Some(Auth::digest("ann:secret"));
    let mut ann = Client::connect(&options, TIMEOUT).unwrap();
    assert_eq!(ann.get("/own").unwrap().0, b"x");
    assert!(!format!("{options:?}").contains("secret"));

    options.auth = Some(Auth { scheme: "nosuch".to_owned(), auth: Vec::new() });
    let refused = Client::connect(&options, TIMEOUT).and_then(|mut client| client.get("/own").map(|_| ()));
    assert!(matches!(refused, Err(ClientError::AuthFailed)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_left_can_be_attached_to_until_it_expires() {
    let server = Server::start("", &[]);
    let theirs = other::Client::connect(&server.addr.to_string()).await.unwrap();
    let mut options = ConnectOptions::new(server.addr);
    options.session_timeout_ms = 2_000;
    let mut first = Client::connect(&options, TIMEOUT).unwrap();
    first.create("/e", b"", CreateMode::Ephemeral).unwrap();
    let session = first.session().unwrap();
    assert_eq!(session.timeout_ms, 2_000);
    first.abandon();

    options.reattach = Some(session.id);
    options.last_zxid_seen = session.last_zxid;
    assert!(session.last_zxid > 0);
    let mut hub = Hub::<u64>::new().unwrap();
    let key = hub.connect(&options).unwrap();
    until(&mut hub, |_, event| match event {
        Event::Connected { reattached, .. } => reattached,
        event => panic!("{event:?}"),
    });
    assert_eq!(hub.session(key).unwrap().id, session.id);
    // Pings keep it beyond its timeout.
    let end = Instant::now() + Duration::from_millis(4_500);
    while Instant::now() < end {
        hub.turn(Duration::from_millis(100), |_, event| panic!("{event:?}")).unwrap();
    }
    assert_eq!(theirs.check_stat("/e").await.unwrap().unwrap().ephemeral_owner, session.id.id);

    hub.abandon(key);
    let end = Instant::now() + TIMEOUT;
    while theirs.check_stat("/e").await.unwrap().is_some() {
        assert!(Instant::now() < end, "the session does not expire");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    hub.connect(&options).unwrap();
    until(&mut hub, |_, event| matches!(event, Event::Expired { .. }));
    assert!(matches!(Client::connect(&options, TIMEOUT), Err(ClientError::Expired)));
}

#[test]
fn a_connection_limit_is_told_from_a_refusal() {
    let server = Server::start("maxClientCnxns=2", &[]);
    let mut options = ConnectOptions::new(server.addr);
    options.source = Some([127, 0, 0, 9].into());
    let first = Client::connect(&options, TIMEOUT).unwrap();
    let _second = Client::connect(&options, TIMEOUT).unwrap();
    let third = Client::connect(&options, TIMEOUT);
    let limit = zk_wire::Disconnect::EofBeforeSession;
    assert!(matches!(&third, Err(ClientError::Disconnected(cause)) if *cause == limit), "{third:?}");
    assert_eq!(first.session().unwrap().local.unwrap().ip().to_string(), "127.0.0.9");
    options.source = Some([127, 0, 0, 10].into());
    Client::connect(&options, TIMEOUT).unwrap();
}

#[test]
fn an_idle_session_costs_less_than_two_kilobytes() {
    const SESSIONS: usize = 2_000;
    let server = Server::start("", &[]);
    client(&server).create("/a", &[b'x'; 5_000], CreateMode::Persistent).unwrap();
    let mut hub = Hub::<u64>::new().unwrap();
    let empty = hub.heap_bytes();
    let options = ConnectOptions::new(server.addr);
    let (mut begun, mut answered) = (0, 0);
    while answered < SESSIONS {
        // No more at a time than the server's backlog takes.
        while begun < SESSIONS && begun < answered + 40 {
            hub.connect(&options).unwrap();
            begun += 1;
        }
        hub.turn(Duration::from_secs(1), |hub, event| match event {
            Event::Connected { session, .. } => {
                hub.submit(session, 0, &Request::GetData { path: "/a", watch: false }).unwrap();
                hub.submit(session, 1, &Request::GetData { path: "/a", watch: false }).unwrap();
            }
            Event::Reply { tag: 1, result, .. } => {
                assert_eq!(result.unwrap().data().unwrap().len(), 5_000);
                answered += 1;
            }
            Event::Reply { .. } => {}
            event => panic!("{event:?}"),
        })
        .unwrap();
    }
    assert_eq!(hub.sessions(), SESSIONS);
    let each = (hub.heap_bytes() - empty) / SESSIONS;
    println!("{each} bytes per idle session, {empty} for a hub without any");
    assert!(each <= 1024, "{each} bytes per idle session");
}
