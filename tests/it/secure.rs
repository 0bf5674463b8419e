//! Targets that let not everybody in: TLS, digest, and SASL, which is refused by name. Real servers, the real engine.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
};

use rampart::{
    config::Config,
    model::{Outcome, Status, StopCode},
    target::{CleanPace, TargetError},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::{
    engine_run::{SMALL, config, counts, run, scenario},
    zookeeper::Server,
};

const LEVELS: &str = "kind = \"levels\"\nlevels = [2]\nsettle_s = 2\nmeasure_s = 3\n";
const PROBE: &str = "[[probe]]\nkind = \"zookeeper.latencies\"\ncount = 50\n";

/// Writes what an authority `name` signs: `<name>-ca.pem`, and of a server and a client `.pem` (key and certificate),
/// `-cert.pem` and `-key.pem`.
fn write_certificates(dir: &Path, name: &str) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let write = |file: String, text: String| std::fs::write(dir.join(file), text).unwrap();
    write(format!("{name}-ca.pem"), ca.pem());
    for (whose, of) in [("server", "zk.example"), ("client", "rampart")] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![of.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        write(format!("{name}-{whose}.pem"), format!("{}{}", key.serialize_pem(), certificate.pem()));
        write(format!("{name}-{whose}-key.pem"), key.serialize_pem());
        write(format!("{name}-{whose}-cert.pem"), certificate.pem());
    }
}

/// A server with a plain port and one with TLS, which wants client certificates of the authority `own`.
fn with_tls(dir: &Path) -> (Server, SocketAddr) {
    write_certificates(dir, "own");
    write_certificates(dir, "other");
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let keys = format!(
        "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location={0}/own-server.pem\n\
         ssl.trustStore.location={0}/own-ca.pem\n",
        dir.display()
    );
    let netty = "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory";
    (Server::start(&keys, &[netty]), SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn tls(dir: &Path, ca: &str, client: Option<&str>) -> String {
    let path = |file: String| dir.join(file).display().to_string();
    let mut keys = format!("[targets.zk.tls]\nca = {:?}\nserver_name = \"zk.example\"\n", path(format!("{ca}-ca.pem")));
    if let Some(client) = client {
        keys += &format!("cert = {:?}\n", path(format!("{client}-client-cert.pem")));
        keys += &format!("key = {:?}\n", path(format!("{client}-client-key.pem")));
    }
    keys
}

/// Cleans the target of a configuration, as `rampart clean` does.
async fn clean(config: &str) -> Result<(), TargetError> {
    let config = Config::parse(config).unwrap();
    assert!(config.targets["zk"].zookeeper().is_some());
    config.targets["zk"].open(&[]).clean(CleanPace::default()).await.map(|_| ())
}

/// The words by which a run that cannot begin says why.
async fn refusal(config: &str) -> String {
    let verdict = run(&scenario("use = \"zk\"", LEVELS, SMALL, ""), config).await;
    assert_eq!((verdict.status, verdict.stop_code), (Status::Failed, StopCode::TargetUnhealthy), "{verdict:?}");
    verdict.sentence
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_probe_samplers_counts_and_clean_up_go_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let (server, secure) = with_tls(dir.path());
    let before = counts(server.addr).await;
    let config = config(secure, &tls(dir.path(), "own", Some("own")));
    let verdict = run(&scenario("use = \"zk\"", LEVELS, SMALL, PROBE), &config).await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(2)), "{}", verdict.sentence);
    let trial = verdict.steps.last().unwrap();
    assert_eq!(trial.outcome, Outcome::Held);
    assert!(trial.operations.iter().any(|stat| stat.probe && stat.done > 0), "{:?}", trial.operations);
    assert!(trial.counts.iter().all(|count| count.observed.is_some()), "{:?}", trial.counts);
    let after = counts(server.addr).await;
    for what in ["znode_count", "watch_count", "ephemerals_count"] {
        assert_eq!(after[what], before[what], "{what} after the run");
    }
    clean(&config).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_word_on_tls_is_told_with_what_to_change() {
    let dir = tempfile::tempdir().unwrap();
    let (server, secure) = with_tls(dir.path());
    let good = tls(dir.path(), "own", Some("own"));
    let other_name = good.replace("zk.example", "zk.elsewhere");
    for (address, keys, words) in [
        (secure, String::new(), "speaks TLS only: add tls to the target"),
        (server.addr, good, "does not speak TLS: take tls out of the target"),
        (secure, tls(dir.path(), "own", None), "does it want a client certificate"),
        (secure, tls(dir.path(), "own", Some("other")), "does it want a client certificate, or another one?"),
        (secure, tls(dir.path(), "other", Some("own")), "certificate comes from no authority that is trusted"),
        (secure, other_name, "certificate bears another name"),
    ] {
        let config = config(address, &keys);
        let sentence = refusal(&config).await;
        assert!(sentence.contains(words) && sentence.contains(&address.to_string()), "no {words:?} in {sentence}");
        let error = clean(&config).await.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(&address.to_string()), "no {words:?} in {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_probe_and_clean_up_use_the_digest() {
    use zookeeper_client as other;

    let server = Server::start("", &[]);
    let ann = other::Client::connector().with_auth("digest", b"ann:secret");
    let ann = ann.connect(&server.addr.to_string()).await.unwrap();
    ann.create("/own", b"", &other::CreateMode::Persistent.with_acls(other::Acls::creator_all())).await.unwrap();
    let text = scenario("use = \"zk\"", LEVELS, SMALL, PROBE);

    let verdict = run(&text, &config(server.addr, "chroot = \"/own\"\ndigest = \"ann:secret\"")).await;
    assert_eq!((verdict.status, verdict.last_good), (Status::NotReached, Some(2)), "{}", verdict.sentence);
    let probed = verdict.steps.last().unwrap().operations.iter().filter(|stat| stat.probe);
    assert!(probed.clone().count() > 0 && probed.clone().all(|stat| stat.done > 0), "{:?}", verdict.steps.last());
    assert_eq!(ann.list_children("/own").await.unwrap(), Vec::<String>::new());

    for wrong in ["", "digest = \"ann:wrong\"", "digest = \"bob:secret\""] {
        let sentence = refusal(&config(server.addr, &format!("chroot = \"/own\"\n{wrong}"))).await;
        assert!(sentence.contains(&format!("{} refused the credentials", server.addr)), "{wrong}: {sentence}");
        assert!(!sentence.contains("secret"), "{sentence}");
    }
    assert_eq!(ann.list_children("/own").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_requires_sasl_is_refused_by_name() {
    let sasl = "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let server = Server::start("", &["-Dzookeeper.sessionRequireClientSASLAuth=true", sasl]);
    for keys in ["", "digest = \"ann:secret\""] {
        let sentence = refusal(&config(server.addr, keys)).await;
        let words = "it requires SASL (Kerberos), which Rampart does not speak";
        assert!(sentence.contains(words) && sentence.contains(&server.addr.to_string()), "{sentence}");
    }
}
