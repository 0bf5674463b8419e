//! Starts a real ZooKeeper on loopback for tests; kills it and removes its files when dropped.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

const JAR: &str = "/usr/share/java/zookeeper.jar";
/// Debian's jar names itself what it needs, but for a few of Netty's, which only TLS needs.
const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar:\
    /usr/share/java/netty-resolver.jar:/usr/share/java/netty-transport-native-unix-common.jar";

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Server {
    /// A standalone server with `extra` lines in its zoo.cfg and `props` as JVM arguments. Panics with the log when
    /// it does not serve: a test that needs a server must not pass without one.
    pub(crate) fn start(extra: &str, props: &[&str]) -> Self {
        assert!(Path::new(JAR).exists(), "{JAR} is missing: install Debian's package zookeeper");
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let config = format!(
            "dataDir={0}\nclientPortAddress=127.0.0.1\nclientPort={port}\nadmin.enableServer=false\nmaxClientCnxns=0\n\
             tickTime=1000\nminSessionTimeout=600\nmaxSessionTimeout=60000\n4lw.commands.whitelist=*\n{extra}\n",
            dir.path().display()
        );
        std::fs::write(dir.path().join("zoo.cfg"), config).unwrap();
        let log = dir.path().join("log");
        let output = std::fs::File::create(&log).unwrap();
        let child = Command::new("java")
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-Dzookeeper.forceSync=no"])
            .args(props)
            .args(["-cp", CLASS_PATH, "org.apache.zookeeper.server.ZooKeeperServerMain"])
            .arg(dir.path().join("zoo.cfg"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .expect("java must be installed");
        let mut server = Self { addr: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), child, _dir: dir };
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.ask("srvr").is_none_or(|text| !text.contains("Mode:")) {
            let gone = server.child.try_wait().unwrap();
            assert!(
                gone.is_none() && Instant::now() < deadline,
                "ZooKeeper does not serve ({gone:?}):\n{}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// The answer to a four-letter word.
    pub(crate) fn ask(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.addr).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port outside the range that clients are given theirs from, another one at each call.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap() + offset;
        assert!(port < 32_768, "no free port");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
