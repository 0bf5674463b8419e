//! A hub against a server that misbehaves on purpose. One thread plays both sides.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use proptest::prelude::*;
use zk_wire::{
    Auth, ConnectError, ConnectOptions, CreateMode, Disconnect, ErrorCode, Event, Hub, ReplyError, Request, SessionId,
    SessionKey, SubmitError,
};

/// What happened, without what is borrowed.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Connected(u32, bool),
    Expired,
    Gone(Disconnect),
    Reply(u64, Result<usize, ReplyError>),
    Watch(String),
    AuthFailed,
    Closed,
}

fn turn(hub: &mut Hub<u64>, timeout: Duration, seen: &mut Vec<Seen>) {
    hub.turn(timeout, |_, event| {
        seen.push(match event {
            Event::Connected { timeout_ms, reattached, .. } => Seen::Connected(timeout_ms, reattached),
            Event::Expired { .. } => Seen::Expired,
            Event::Disconnected { cause, .. } => Seen::Gone(cause),
            Event::Reply { tag, result, .. } => {
                Seen::Reply(tag, result.map(|reply| reply.data().map_or(0, <[u8]>::len)))
            }
            Event::Watch { path, .. } => Seen::Watch(path.to_owned()),
            Event::AuthFailed { .. } => Seen::AuthFailed,
            Event::Closed { .. } => Seen::Closed,
        });
    })
    .unwrap();
}

/// Turns until `enough` or for five seconds.
fn until(hub: &mut Hub<u64>, mut enough: impl FnMut(&[Seen]) -> bool) -> Vec<Seen> {
    let (mut seen, end) = (Vec::new(), Instant::now() + Duration::from_secs(5));
    while !enough(&seen) {
        assert!(Instant::now() < end, "waited in vain; seen {seen:?}");
        turn(hub, Duration::from_millis(20), &mut seen);
    }
    seen
}

fn gone(seen: &[Seen]) -> bool {
    matches!(seen.last(), Some(Seen::Gone(_) | Seen::Expired | Seen::Closed))
}

fn listen() -> (TcpListener, ConnectOptions) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let options = ConnectOptions::new(listener.local_addr().unwrap());
    (listener, options)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

fn welcome(timeout_ms: u32, id: i64) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(timeout_ms.to_be_bytes());
    body.extend(id.to_be_bytes());
    body.extend([0, 0, 0, 16]);
    body.extend([7; 16]);
    body.push(0);
    frame(&body)
}

fn answer(xid: i32, err: i32, body: &[u8]) -> Vec<u8> {
    let mut out = xid.to_be_bytes().to_vec();
    out.extend(77_i64.to_be_bytes());
    out.extend(err.to_be_bytes());
    out.extend(body);
    frame(&out)
}

fn data_of(len: usize) -> Vec<u8> {
    let mut body = frame(&vec![b'x'; len]);
    body.extend([0; 68]);
    body
}

fn read_frame(peer: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 4];
    peer.read_exact(&mut len).unwrap();
    let mut body = vec![0; u32::from_be_bytes(len) as usize];
    peer.read_exact(&mut body).unwrap();
    body
}

/// A session that is up, and the server's end of its connection.
fn session(options: impl FnOnce(&mut ConnectOptions), timeout_ms: u32) -> (Hub<u64>, SessionKey, TcpStream) {
    let (listener, mut wanted) = listen();
    options(&mut wanted);
    let mut hub = Hub::new().unwrap();
    let key = hub.connect(&wanted).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    turn(&mut hub, Duration::from_secs(1), &mut Vec::new());
    assert_eq!(read_frame(&mut peer).len(), 45);
    peer.write_all(&welcome(timeout_ms, 9)).unwrap();
    let seen = until(&mut hub, |seen| !seen.is_empty());
    assert_eq!(seen, [Seen::Connected(timeout_ms, wanted.reattach.is_some())]);
    (hub, key, peer)
}

const GET: Request<'_> = Request::GetData { path: "/a", watch: false };

#[test]
fn requests_in_flight_are_bounded_and_all_end_with_the_connection() {
    let (mut hub, key, peer) = session(|options| options.max_in_flight = 3, 30_000);
    for tag in 0..3 {
        hub.submit(key, tag, &GET).unwrap();
    }
    assert_eq!(hub.submit(key, 3, &GET), Err(SubmitError::Full));
    assert_eq!(hub.in_flight(key), 3);
    drop(peer);
    let seen = until(&mut hub, gone);
    let lost = |tag| Seen::Reply(tag, Err(ReplyError::ConnectionLoss));
    assert_eq!(seen[..3], [lost(0), lost(1), lost(2)]);
    assert!(matches!(seen[3], Seen::Gone(Disconnect::Eof | Disconnect::Io(_))), "{seen:?}");
    assert_eq!(hub.submit(key, 4, &GET), Err(SubmitError::NotConnected));
    assert_eq!((hub.in_flight(key), hub.sessions(), hub.session(key)), (0, 0, None));
}

#[test]
fn a_cut_connection_is_told_as_lost_and_its_session_can_be_attached_again() {
    let (mut hub, key, mut peer) = session(|_| (), 30_000);
    hub.submit(key, 1, &GET).unwrap();
    let id = hub.session(key).unwrap().id;
    hub.cut(key);
    let seen = until(&mut hub, gone);
    assert_eq!(seen, [Seen::Reply(1, Err(ReplyError::ConnectionLoss)), Seen::Gone(Disconnect::Cut)]);
    let mut left = Vec::new();
    peer.read_to_end(&mut left).unwrap();
    assert!(!left.ends_with(&(-11_i32).to_be_bytes()), "the session is not closed");
    assert_eq!(hub.session(key), None);
    let (_, _, _) = session(|options| options.reattach = Some(id), 30_000);
    // Twice, or too late, is nothing.
    hub.cut(key);
    let mut more = Vec::new();
    turn(&mut hub, Duration::from_millis(5), &mut more);
    assert_eq!(more, []);
}

#[test]
fn replies_in_pieces_and_in_heaps_are_the_same() {
    let (mut hub, key, mut peer) = session(|_| (), 30_000);
    let mut bytes = Vec::new();
    for xid in 1..=5 {
        hub.submit(key, xid, &GET).unwrap();
        bytes.extend(answer(i32::try_from(xid).unwrap(), if xid == 2 { -101 } else { 0 }, &data_of(10)));
    }
    hub.flush();
    for piece in bytes[..200].chunks(1) {
        peer.write_all(piece).unwrap();
        turn(&mut hub, Duration::from_millis(5), &mut Vec::new());
    }
    peer.write_all(&bytes[200..]).unwrap();
    let seen = until(&mut hub, |seen| seen.len() == 4);
    let missing = Seen::Reply(2, Err(ReplyError::Code(ErrorCode::NoNode)));
    assert_eq!(seen, [missing, Seen::Reply(3, Ok(10)), Seen::Reply(4, Ok(10)), Seen::Reply(5, Ok(10))]);
    assert_eq!(hub.session(key).unwrap().last_zxid, 77);
}

#[test]
fn a_large_reply_is_read_and_one_beyond_the_limit_is_refused_before_it_comes() {
    let (mut hub, key, mut peer) = session(|_| (), 30_000);
    hub.submit(key, 1, &GET).unwrap();
    let large = answer(1, 0, &data_of(3 << 20));
    let writer = std::thread::spawn(move || {
        peer.write_all(&large).unwrap();
        peer
    });
    assert_eq!(until(&mut hub, |seen| !seen.is_empty()), [Seen::Reply(1, Ok(3 << 20))]);
    let mut peer = writer.join().unwrap();
    assert!(hub.heap_bytes() < 1 << 20, "the large frame was given back");
    peer.write_all(&(65_u32 << 20).to_be_bytes()).unwrap();
    assert_eq!(until(&mut hub, gone), [Seen::Gone(Disconnect::Protocol("length of a frame"))]);
}

#[test]
fn a_request_beyond_the_limit_is_refused_and_leaves_no_trace() {
    let (mut hub, key, mut peer) = session(|_| (), 30_000);
    let data = vec![0; 0xf_ffff];
    let create = Request::Create { path: "/a", data: &data, mode: CreateMode::Persistent };
    assert_eq!(hub.submit(key, 1, &create), Err(SubmitError::TooLarge));
    let out_of_order = hub.submit_set_watches(key, 1, 0, |w| {
        w.child("/a");
        w.data("/a");
    });
    assert_eq!(out_of_order, Err(SubmitError::OutOfOrder));
    hub.submit(key, 2, &GET).unwrap();
    hub.flush();
    assert_eq!(read_frame(&mut peer)[..8], [0, 0, 0, 1, 0, 0, 0, 4]);
    assert_eq!(hub.in_flight(key), 1);
}

#[test]
fn a_silent_session_pings_and_a_silent_server_is_left() {
    let (mut hub, _, mut peer) = session(|_| (), 300);
    let start = Instant::now();
    for ping in 1..=3_u32 {
        let mut seen = Vec::new();
        peer.set_nonblocking(true).unwrap();
        while peer.peek(&mut [0]).is_err() {
            turn(&mut hub, Duration::from_millis(5), &mut seen);
        }
        peer.set_nonblocking(false).unwrap();
        assert_eq!(read_frame(&mut peer), [255, 255, 255, 254, 0, 0, 0, 11]);
        assert!(start.elapsed() >= Duration::from_millis(95) * ping, "too early: {:?}", start.elapsed());
        assert_eq!(seen, []);
        peer.write_all(&answer(-2, 0, &[])).unwrap();
    }
    // From here on the server says nothing: one more ping, then 200 ms.
    let start = Instant::now();
    assert_eq!(until(&mut hub, gone), [Seen::Gone(Disconnect::ReadTimeout)]);
    assert!(start.elapsed() >= Duration::from_millis(250), "too early: {:?}", start.elapsed());
    assert_eq!(read_frame(&mut peer), [255, 255, 255, 254, 0, 0, 0, 11]);
}

#[test]
fn a_busy_session_does_not_ping() {
    let (mut hub, key, mut peer) = session(|_| (), 300);
    let mut seen = Vec::new();
    for xid in 1..=10 {
        hub.submit(key, 0, &GET).unwrap();
        turn(&mut hub, Duration::ZERO, &mut seen);
        assert_eq!(read_frame(&mut peer)[4..8], [0, 0, 0, 4], "no ping");
        peer.write_all(&answer(xid, 0, &data_of(1))).unwrap();
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            turn(&mut hub, Duration::from_millis(10), &mut seen);
        }
    }
    assert_eq!(seen, vec![Seen::Reply(0, Ok(1)); 10]);
}

#[test]
fn a_stall_of_the_caller_is_no_silence_of_the_server() {
    let (mut hub, key, mut peer) = session(|_| (), 300);
    hub.submit(key, 1, &GET).unwrap();
    hub.flush();
    peer.write_all(&answer(1, 0, &data_of(1))).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    let mut seen = Vec::new();
    turn(&mut hub, Duration::ZERO, &mut seen);
    assert_eq!(seen, [Seen::Reply(1, Ok(1))]);
}

#[test]
fn each_way_of_not_getting_a_session_has_its_own_name() {
    let mut hub = Hub::<u64>::new().unwrap();
    let (listener, mut options) = listen();
    hub.connect(&options).unwrap();
    drop(listener.accept().unwrap());
    assert_eq!(until(&mut hub, gone), [Seen::Gone(Disconnect::EofBeforeSession)]);

    // The same when the connection is reset before the hub has looked at it, or while it sends its request.
    for wait in [true, false].repeat(20) {
        hub.connect(&options).unwrap();
        let (peer, _) = listener.accept().unwrap();
        if wait {
            turn(&mut hub, Duration::from_millis(50), &mut Vec::new());
        }
        socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        drop(peer);
        assert_eq!(until(&mut hub, gone), [Seen::Gone(Disconnect::EofBeforeSession)]);
    }

    options.connect_timeout = Duration::from_millis(50);
    hub.connect(&options).unwrap();
    let silent = listener.accept().unwrap();
    assert_eq!(until(&mut hub, gone), [Seen::Gone(Disconnect::ConnectTimeout)]);
    drop(silent);

    options.reattach = Some(SessionId { id: 5, password: [1; 16] });
    options.connect_timeout = Duration::from_secs(5);
    let key = hub.connect(&options).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    assert_eq!(hub.submit(key, 0, &GET), Err(SubmitError::NotConnected));
    assert_eq!(hub.close(key), Err(SubmitError::NotConnected));
    peer.write_all(&welcome(0, 0)).unwrap();
    assert_eq!(until(&mut hub, gone), [Seen::Expired]);

    drop(listener);
    hub.connect(&options).unwrap();
    assert_eq!(until(&mut hub, gone), [Seen::Gone(Disconnect::Refused)]);

    options.source = Some([192, 0, 2, 1].into());
    assert!(matches!(hub.connect(&options), Err(ConnectError::NoSuchSource { .. })));
    assert_eq!(hub.sessions(), 0);
}

#[test]
fn answers_to_auth_may_come_ahead_and_a_refusal_is_told() {
    let (mut hub, key, mut peer) = session(|_| (), 30_000);
    hub.submit(key, 1, &GET).unwrap();
    hub.submit(key, 2, &Request::AddAuth { scheme: "digest", auth: b"u:p" }).unwrap();
    peer.write_all(&answer(-4, 0, &[])).unwrap();
    peer.write_all(&answer(1, 0, &data_of(1))).unwrap();
    let seen = until(&mut hub, |seen| seen.len() == 2);
    assert_eq!(seen, [Seen::Reply(2, Ok(0)), Seen::Reply(1, Ok(1))]);

    let (mut hub, _, mut peer) = session(|options| options.auth = Some(Auth::digest("u:p")), 30_000);
    turn(&mut hub, Duration::ZERO, &mut Vec::new());
    assert_eq!(read_frame(&mut peer)[..8], [255, 255, 255, 252, 0, 0, 0, 100]);
    peer.write_all(&answer(-4, -115, &[])).unwrap();
    drop(peer);
    assert_eq!(until(&mut hub, gone), [Seen::AuthFailed, Seen::Gone(Disconnect::Eof)]);
}

#[test]
fn a_session_closes_after_what_is_in_flight() {
    let (mut hub, key, mut peer) = session(|_| (), 30_000);
    hub.submit(key, 1, &GET).unwrap();
    hub.close(key).unwrap();
    assert_eq!(hub.submit(key, 2, &GET), Err(SubmitError::NotConnected));
    hub.flush();
    read_frame(&mut peer);
    assert_eq!(read_frame(&mut peer), [0, 0, 0, 2, 255, 255, 255, 245]);
    peer.write_all(&answer(1, 0, &data_of(1))).unwrap();
    peer.write_all(&answer(2, 0, &[])).unwrap();
    assert_eq!(until(&mut hub, gone), [Seen::Reply(1, Ok(1)), Seen::Closed]);
}

#[test]
fn the_handler_may_use_the_hub_it_is_given() {
    let (mut hub, key, mut peer) = session(|_| (), 30_000);
    hub.submit(key, 1, &GET).unwrap();
    hub.submit(key, 2, &GET).unwrap();
    peer.write_all(&[answer(1, 0, &data_of(1)), answer(2, 0, &data_of(1))].concat()).unwrap();
    let mut replies = 0;
    let end = Instant::now() + Duration::from_secs(5);
    while replies == 0 && Instant::now() < end {
        hub.turn(Duration::from_millis(20), |hub, event| {
            if let Event::Reply { session, .. } = event {
                replies += 1;
                assert_eq!(hub.turn(Duration::ZERO, |_, _| ()).unwrap(), 0);
                hub.abandon(session);
            }
        })
        .unwrap();
    }
    assert_eq!((replies, hub.sessions()), (1, 0), "no event of a session that was left");
}

#[test]
fn a_waker_ends_a_pass() {
    let mut hub = Hub::<u64>::new().unwrap();
    let waker = hub.waker().unwrap();
    let thread = std::thread::spawn(move || waker.wake().map(|()| waker));
    let start = Instant::now();
    hub.turn(Duration::from_secs(20), |_, _| ()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    thread.join().unwrap().unwrap();
}

#[test]
fn a_short_wait_is_not_rounded_up_to_a_millisecond() {
    let mut hub = Hub::<u64>::new().unwrap();
    let waits: Vec<_> = (0..50)
        .map(|_| {
            let start = Instant::now();
            hub.turn(Duration::from_micros(300), |_, _| ()).unwrap();
            start.elapsed()
        })
        .collect();
    // The shortest, since others use this machine too.
    let shortest = waits.iter().min().unwrap();
    assert!((300..900).contains(&shortest.as_micros()), "{waits:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever a server sends, each request is answered once, the session ends once, and nothing grows.
    #[test]
    fn a_hub_fed_any_bytes_disconnects_cleanly(
        greet in any::<bool>(),
        frames in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                (-9_i32..6, -1_i32..1, prop::collection::vec(0_u8..6, 0..90)).prop_map(|(xid, err, body)| answer(xid, err, &body)),
            ],
            0..6,
        ),
    ) {
        let (listener, options) = listen();
        let mut hub = Hub::new().unwrap();
        let key = hub.connect(&options).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        if greet {
            peer.write_all(&welcome(30_000, 1)).unwrap();
            seen = until(&mut hub, |seen| !seen.is_empty());
            for (tag, request) in [
                GET,
                Request::Exists { path: "/", watch: true },
                Request::Multi(&[]),
                Request::SetWatches { relative_zxid: 0, data: &[], exist: &[], child: &[] },
                Request::GetChildren2 { path: "/", watch: false },
            ].iter().enumerate() {
                hub.submit(key, u64::try_from(tag).unwrap(), request).unwrap();
            }
        }
        // The hub may hang up in the middle.
        let _ = peer.write_all(&frames.concat());
        drop(peer);
        seen.extend(until(&mut hub, gone));
        let ends = seen.iter().filter(|seen| matches!(seen, Seen::Gone(_) | Seen::Expired)).count();
        prop_assert_eq!(ends, 1);
        let mut tags: Vec<_> =
            seen.iter().filter_map(|seen| if let Seen::Reply(tag, _) = seen { Some(*tag) } else { None }).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, if greet { vec![0, 1, 2, 3, 4] } else { vec![] });
        prop_assert_eq!(hub.sessions(), 0);
        prop_assert!(hub.heap_bytes() < 200 << 10, "{}", hub.heap_bytes());
    }
}
