//! Sessions over TLS: against a server of this test's own, which cuts and heaps what it sends, and against a real
//! ZooKeeper with a `secureClientPort`.
#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets what it does not expect fails"
)]

mod zookeeper;

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use zk_wire::{
    Client, ClientError, ConnectOptions, CreateMode, Disconnect, Event, Hub, Request, Tls, TlsError, TlsFault,
};

use zookeeper::{Server, free_port};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
struct Pair {
    certificate: String,
    key: String,
}

/// An authority and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Pair { certificate: params.signed_by(&key, &self.0).unwrap().pem(), key: key.serialize_pem() }
    }
}

fn tls(ca: &Authority, identity: Option<&Pair>, server_name: Option<&str>) -> Tls {
    let identity = identity.map(|pair| (pair.certificate.as_bytes(), pair.key.as_bytes()));
    Tls::new(ca.pem().as_bytes(), identity, server_name).unwrap()
}

fn options(server: SocketAddr, tls: &Tls) -> ConnectOptions {
    ConnectOptions { tls: Some(tls.clone()), ..ConnectOptions::new(server) }
}

/// The server's side of TLS; `wants` is who signs the clients that it lets in.
fn server_config(pair: &Pair, wants: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = match wants {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    Arc::new(builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap()).unwrap())
}

type Peer = StreamOwned<ServerConnection, TcpStream>;

/// A server that serves one connection.
fn serve(
    config: Arc<ServerConfig>,
    play: impl FnOnce(&mut Peer) -> std::io::Result<()> + Send + 'static,
) -> (SocketAddr, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (socket, _) = listener.accept()?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
        let mut peer = StreamOwned::new(connection, socket);
        play(&mut peer)?;
        // Until the client is gone, so that its end is not this one's.
        let _ = peer.read(&mut [0]);
        Ok(())
    });
    (address, thread)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

fn read_frame(peer: &mut Peer) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 4];
    peer.read_exact(&mut len)?;
    let mut body = vec![0; u32::from_be_bytes(len) as usize];
    peer.read_exact(&mut body)?;
    Ok(body)
}

fn welcome() -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(30_000_u32.to_be_bytes());
    body.extend(9_i64.to_be_bytes());
    body.extend([0, 0, 0, 16]);
    body.extend([7; 17]);
    frame(&body)
}

fn data(xid: i32, len: usize) -> Vec<u8> {
    let mut body = xid.to_be_bytes().to_vec();
    body.extend(77_i64.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
    body.extend(frame(&vec![b'x'; len]));
    body.extend([0; 68]);
    frame(&body)
}

/// How an attempt to connect ended.
fn end(options: &ConnectOptions) -> Disconnect {
    match Client::connect(options, TIMEOUT) {
        Err(ClientError::Disconnected(cause)) => cause,
        // Where the server judges us, it does so after we think that all is agreed on.
        Ok(mut client) => match client.sync("/") {
            Err(ClientError::Disconnected(cause)) => cause,
            other => panic!("{other:?}"),
        },
        Err(other) => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Replies of any size, sent in any number of pieces, are read whole and in order; so are requests of any size.
    #[test]
    fn what_goes_through_tls_is_what_was_sent(
        sizes in prop::collection::vec(0_usize..200_000, 1..8),
        pieces in 1_usize..300,
        written in 0_usize..300_000,
    ) {
        let ca = Authority::new("ca");
        let count = i32::try_from(sizes.len()).unwrap();
        let replies: Vec<u8> = (1..).zip(&sizes).flat_map(|(xid, len)| data(xid, *len)).collect();
        let piece = replies.len() / pieces + 1;
        let (address, server) = serve(server_config(&ca.sign(&["127.0.0.1"], |_| ()), None), move |peer| {
            assert_eq!(read_frame(peer)?.len(), 45);
            peer.write_all(&welcome())?;
            for _ in 0..count {
                read_frame(peer)?;
            }
            let set = read_frame(peer)?;
            assert!(set.ends_with(&[&vec![b'y'; written][..], &[0xff; 4]].concat()));
            for part in replies.chunks(piece) {
                peer.write_all(part)?;
                peer.flush()?;
            }
            peer.write_all(&frame(&[&(count + 1).to_be_bytes()[..], &78_i64.to_be_bytes(), &[0; 4 + 68]].concat()))?;
            peer.flush()
        });
        let mut hub = Hub::<u64>::new().unwrap();
        let key = hub.connect(&options(address, &tls(&ca, None, None))).unwrap();
        let (mut seen, mut connected, until) = (Vec::new(), false, Instant::now() + TIMEOUT);
        while seen.len() <= sizes.len() {
            prop_assert!(Instant::now() < until, "waited in vain; seen {seen:?}");
            hub.turn(Duration::from_millis(20), |hub, event| match event {
                Event::Connected { .. } => {
                    connected = true;
                    for tag in 0..sizes.len() {
                        hub.submit(key, tag as u64, &Request::GetData { path: "/a", watch: false }).unwrap();
                    }
                    let data = vec![b'y'; written];
                    hub.submit(key, 99, &Request::SetData { path: "/a", data: &data, version: -1 }).unwrap();
                }
                Event::Reply { tag, result, .. } => {
                    seen.push((tag, result.unwrap().data().map_or(0, <[u8]>::len)));
                }
                other => panic!("{other:?}"),
            })
            .unwrap();
        }
        let mut expected: Vec<_> = (0..).zip(sizes.iter().copied()).collect();
        expected.push((99, 0));
        prop_assert_eq!(seen, expected);
        drop(hub);
        server.join().unwrap().unwrap();
    }
}

#[test]
fn a_server_is_believed_by_its_authority_its_name_and_its_dates() {
    let (ca, other) = (Authority::new("ca"), Authority::new("other"));
    let old = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let good = ca.sign(&["127.0.0.1", "zk.example"], |_| ());
    for (pair, name, fault) in [
        (good.clone(), None, None),
        (good.clone(), Some("zk.example"), None),
        (good, Some("zk.other"), Some(TlsFault::WrongName)),
        (ca.sign(&["zk.example"], |_| ()), None, Some(TlsFault::WrongName)),
        (other.sign(&["127.0.0.1"], |_| ()), None, Some(TlsFault::UnknownIssuer)),
        (ca.sign(&["127.0.0.1"], old), None, Some(TlsFault::Expired)),
    ] {
        let (address, server) = serve(server_config(&pair, None), |peer| {
            read_frame(peer)?;
            peer.write_all(&welcome())
        });
        let options = options(address, &tls(&ca, None, name));
        match fault {
            None => drop(Client::connect(&options, TIMEOUT).unwrap()),
            Some(fault) => assert_eq!(end(&options), Disconnect::Tls(fault), "{name:?}"),
        }
        assert_eq!(server.join().unwrap().is_ok(), fault.is_none());
    }
}

#[test]
fn a_client_is_believed_by_its_certificate() {
    let (ca, other) = (Authority::new("ca"), Authority::new("other"));
    let server = ca.sign(&["127.0.0.1"], |_| ());
    for (identity, believed) in
        [(Some(ca.sign(&["me"], |_| ())), true), (Some(other.sign(&["me"], |_| ())), false), (None, false)]
    {
        let (address, thread) = serve(server_config(&server, Some(&ca)), |peer| {
            read_frame(peer)?;
            peer.write_all(&welcome())
        });
        let options = options(address, &tls(&ca, identity.as_ref(), None));
        if believed {
            drop(Client::connect(&options, TIMEOUT).unwrap());
        } else {
            let end = end(&options);
            assert!(matches!(end, Disconnect::Tls(TlsFault::Alert(_))), "{end:?}");
            assert!(end.to_string().contains("client certificate"), "{end}");
        }
        assert_eq!(thread.join().unwrap().is_ok(), believed);
    }
}

#[test]
fn a_port_without_tls_is_told() {
    let ca = Authority::new("ca");
    for (answer, fault) in [(&b"imok"[..], None), (b"", Some(TlsFault::Closed)), (b"HTTP/1.1 400 Bad", None)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let options = options(listener.local_addr().unwrap(), &tls(&ca, None, None));
        let thread = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut hello = [0; 5];
            peer.read_exact(&mut hello).unwrap();
            peer.write_all(answer).unwrap();
        });
        let end = end(&options);
        // What is no whole record, or is cut off by the reset of what was left unread, is an end like any other.
        let expected = fault.map_or([TlsFault::Unspoken, TlsFault::Closed], |fault| [fault; 2]);
        assert!(expected.map(Disconnect::Tls).contains(&end), "{end:?}");
        thread.join().unwrap();
    }
}

#[test]
fn a_port_with_nothing_but_tls_is_told() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let options = ConnectOptions::new(listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        peer.read_exact(&mut [0; 49]).unwrap();
        // The alert `unexpected_message`.
        peer.write_all(&[0x15, 3, 3, 0, 2, 2, 10]).unwrap();
    });
    assert_eq!(end(&options), Disconnect::Tls(TlsFault::Required));
    thread.join().unwrap();
}

#[test]
fn texts_that_are_no_pem_are_named() {
    let ca = Authority::new("ca");
    let (pem, pair, other) = (ca.pem(), ca.sign(&["me"], |_| ()), ca.sign(&["me"], |_| ()));
    let of = |ca: &str, cert: &str, key: &str, name: &str| {
        Tls::new(ca.as_bytes(), Some((cert.as_bytes(), key.as_bytes())), Some(name)).unwrap_err()
    };
    assert!(matches!(of("", &pair.certificate, &pair.key, "a"), TlsError::Ca(text) if text.contains("no certificate")));
    assert!(matches!(of(&pem, &pair.key, &pair.key, "a"), TlsError::Certificate(_)));
    assert!(matches!(of(&pem, &pair.certificate, &pair.certificate, "a"), TlsError::Key(_)));
    assert!(matches!(of(&pem, &pair.certificate, &other.key, "a"), TlsError::Key(_)), "another certificate's key");
    assert_eq!(of(&pem, &pair.certificate, &pair.key, "a b"), TlsError::ServerName("a b".to_owned()));
    assert!(!format!("{:?}", tls(&ca, Some(&pair), None)).contains("PRIVATE"));
}

/// A real server with a plain port and one with TLS, which wants client certificates.
fn zookeeper(ca: &Authority) -> (Server, SocketAddr, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let pair = ca.sign(&["127.0.0.1"], |_| ());
    std::fs::write(dir.path().join("server.pem"), format!("{}{}", pair.key, pair.certificate)).unwrap();
    std::fs::write(dir.path().join("ca.pem"), ca.pem()).unwrap();
    let port = free_port();
    let config = format!(
        "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location={0}/server.pem\n\
         ssl.trustStore.location={0}/ca.pem\n",
        dir.path().display()
    );
    let netty = "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory";
    (Server::start(&config, &[netty]), SocketAddr::from((Ipv4Addr::LOCALHOST, port)), dir)
}

#[test]
fn a_real_server_is_the_same_over_tls() {
    let ca = Authority::new("ca");
    let (server, secure, _dir) = zookeeper(&ca);
    let me = tls(&ca, Some(&ca.sign(&["me"], |_| ())), None);
    let mut over_tls = Client::connect(&options(secure, &me), TIMEOUT).unwrap();
    let mut plain = Client::connect(&ConnectOptions::new(server.addr), TIMEOUT).unwrap();
    let large = vec![b'x'; 900_000];
    over_tls.create("/a", &large, CreateMode::Persistent).unwrap();
    assert_eq!(plain.get("/a").unwrap().0, large);
    plain.set("/a", b"small", -1).unwrap();
    over_tls.sync("/a").unwrap();
    assert_eq!(over_tls.get("/a").unwrap().0, b"small");

    let mut hub = Hub::<u64>::new().unwrap();
    let key = hub.connect(&ConnectOptions { session_timeout_ms: 3_000, ..options(secure, &me) }).unwrap();
    let (mut fired, mut replies, mut written) = (0, 0, 0_u32);
    let until = Instant::now() + Duration::from_millis(4_500);
    while Instant::now() < until {
        hub.turn(Duration::from_millis(50), |hub, event| match event {
            Event::Connected { .. } => {
                hub.submit(key, 0, &Request::GetData { path: "/a", watch: true }).unwrap();
            }
            Event::Watch { .. } => {
                fired += 1;
                hub.submit(key, 0, &Request::GetData { path: "/a", watch: true }).unwrap();
            }
            Event::Reply { result, .. } => {
                result.unwrap();
                replies += 1;
            }
            // Pings went through too: the session is beyond its timeout at the end.
            other => panic!("{other:?}"),
        })
        .unwrap();
        if replies > written && written < 3 {
            written += 1;
            plain.set("/a", b"again", -1).unwrap();
        }
        plain.idle(Duration::from_millis(1)).unwrap();
    }
    assert_eq!((fired, replies), (3, 4));
    over_tls.close().unwrap();
}

#[test]
fn a_real_server_and_a_wrong_client_tell_why() {
    let ca = Authority::new("ca");
    let (server, secure, _dir) = zookeeper(&ca);
    // Not a word comes from a port that expects TLS and gets something else, or its alert.
    let plain = end(&ConnectOptions::new(secure));
    assert!(
        matches!(plain, Disconnect::EofBeforeSession | Disconnect::Tls(TlsFault::Required)),
        "plain to a port with TLS: {plain:?}"
    );
    let me = tls(&ca, Some(&ca.sign(&["me"], |_| ())), None);
    assert_eq!(end(&options(server.addr, &me)), Disconnect::Tls(TlsFault::Closed), "TLS to a plain port");
    let nobody = end(&options(secure, &tls(&ca, None, None)));
    assert!(matches!(nobody, Disconnect::Tls(TlsFault::Alert(_))), "without a certificate: {nobody:?}");
    let other = Authority::new("other");
    let stranger = end(&options(secure, &tls(&ca, Some(&other.sign(&["me"], |_| ())), None)));
    assert!(matches!(stranger, Disconnect::Tls(TlsFault::Alert(_))), "a stranger: {stranger:?}");
    let doubt = end(&options(secure, &tls(&other, None, None)));
    assert_eq!(doubt, Disconnect::Tls(TlsFault::UnknownIssuer));
}
