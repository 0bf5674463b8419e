//! TLS as the configuration gives it: files in PEM, read once when the configuration is. A wrong file is a fault of the
//! configuration, with its field and line, and not of a run hours later.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, crypto::ring, pki_types::ServerName};
use zk_wire::{Tls, TlsError};

/// `[targets.NAME.tls]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Authorities that sign the servers' certificates.
    pub ca: PathBuf,
    /// A client certificate, with its chain.
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// The client certificate's key.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// The name that the servers' certificates bear; their addresses when absent.
    #[serde(default)]
    pub server_name: Option<String>,
}

/// Files, and what they came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "TlsFiles", into = "TlsFiles")]
pub struct TlsOptions {
    files: TlsFiles,
    tls: Tls,
}

/// Two are the same when they name the same files.
impl PartialEq for TlsOptions {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for TlsOptions {}

impl From<TlsOptions> for TlsFiles {
    fn from(options: TlsOptions) -> Self {
        options.files
    }
}

/// A key of `[targets.NAME.tls]`, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {message}")]
pub struct TlsFileError {
    pub field: &'static str,
    pub message: String,
}

impl TryFrom<TlsFiles> for TlsOptions {
    type Error = TlsFileError;

    fn try_from(files: TlsFiles) -> Result<Self, Self::Error> {
        let wrong = |field, message: &str| TlsFileError { field, message: message.to_owned() };
        let ca = read("ca", &files.ca)?;
        let identity = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => Some((read("cert", cert)?, read("key", key)?)),
            (None, None) => None,
            (Some(_), None) => return Err(wrong("cert", "needs a key: both or neither")),
            (None, Some(_)) => return Err(wrong("key", "needs a cert: both or neither")),
        };
        let identity = identity.as_ref().map(|(cert, key)| (cert.as_slice(), key.as_slice()));
        let tls = Tls::new(&ca, identity, files.server_name.as_deref()).map_err(|error| {
            let unusable = |field, path: Option<&Path>, why: &str| {
                let path = path.unwrap_or(Path::new("")).display().to_string();
                TlsFileError { field, message: format!("= {path:?} cannot be used: {why}") }
            };
            match &error {
                TlsError::Ca(why) => unusable("ca", Some(&files.ca), why),
                TlsError::Certificate(why) => unusable("cert", files.cert.as_deref(), why),
                TlsError::Key(why) => unusable("key", files.key.as_deref(), why),
                TlsError::ServerName(_) => wrong("server_name", &error.to_string()),
            }
        })?;
        Ok(Self { files, tls })
    }
}

impl TlsOptions {
    /// For connections.
    #[must_use]
    pub const fn tls(&self) -> &Tls {
        &self.tls
    }

    /// Whether it shows the servers a certificate.
    #[must_use]
    pub const fn has_certificate(&self) -> bool {
        self.files.cert.is_some()
    }
}

fn read(field: &'static str, path: &Path) -> Result<Vec<u8>, TlsFileError> {
    fs::read(path).map_err(|error| {
        let path = path.display().to_string();
        TlsFileError { field, message: format!("= {path:?} cannot be read: {error}") }
    })
}

/// How long a port may take to show whether it speaks TLS.
const WORD_WITHIN: Duration = Duration::from_secs(2);

/// What to change in the configuration when a port did not answer: whether it is one with TLS that was asked without, or
/// the other way round. `None` when neither is the matter. Blocks, for 4 s at most.
pub(super) fn mismatch(server: SocketAddr, with_tls: bool) -> Option<String> {
    if with_tls {
        let plain = first_bytes(server, b"srvr").ok()?;
        // What a port with TLS has to say to this, if anything, is an alert.
        let speaks_plain = plain.first().is_some_and(u8::is_ascii_alphabetic);
        return speaks_plain.then(|| format!("{server} does not speak TLS: take tls out of the target"));
    }
    let answer = first_bytes(server, &hello()?).ok()?;
    let is_record = matches!(answer.as_slice(), [0x15 | 0x16, 0x03, ..]);
    is_record.then(|| format!("{server} speaks TLS only: add tls to the target"))
}

/// The head of what comes back for some bytes.
fn first_bytes(server: SocketAddr, word: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, WORD_WITHIN)?;
    stream.set_read_timeout(Some(WORD_WITHIN))?;
    stream.write_all(word)?;
    let mut head = vec![0; 16];
    let len = stream.read(&mut head)?;
    head.truncate(len);
    Ok(head)
}

/// A TLS client's first word, which a server with TLS answers and one without does not understand.
fn hello() -> Option<Vec<u8>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let nobody = ServerName::IpAddress(IpAddr::from([127, 0, 0, 1]).into());
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), nobody).ok()?.write_tls(&mut hello).ok()?;
    Some(hello)
}
