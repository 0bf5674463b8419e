//! TLS to a server: whom to trust, who we are, and what went wrong in words. How bytes get through it stands in
//! `session.rs`.

use std::{
    io::{self, Read as _, Write as _},
    net::SocketAddr,
    sync::Arc,
};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, InvalidMessage, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};

/// How to speak TLS: shared by all connections that use it, and cheap to clone.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    /// The name that certificates must bear; the server's address when `None`.
    server_name: Option<ServerName<'static>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the key: this stands in logs.
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// What is wrong with what TLS was to be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("the CA: {0}")]
    Ca(String),
    #[error("the client certificate: {0}")]
    Certificate(String),
    #[error("the client's key: {0}")]
    Key(String),
    #[error("{0:?} is neither a host name nor an address")]
    ServerName(String),
}

impl Tls {
    /// Trusts servers whose certificate comes from one of the authorities in `ca` and bears `server_name`, or the
    /// address that is connected to. `identity` is a client certificate (with its chain) and its key. All in PEM.
    ///
    /// # Errors
    /// Which of the texts cannot be used, and why.
    pub fn new(ca: &[u8], identity: Option<(&[u8], &[u8])>, server_name: Option<&str>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(ca).map_err(TlsError::Ca)? {
            roots.add(authority).map_err(|error| TlsError::Ca(error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        // The provider is ours, so that nothing but a fault of this crate can make it unfit.
        let builder = builder.map_err(|error| TlsError::Ca(error.to_string()))?.with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates(chain).map_err(TlsError::Certificate)?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| TlsError::Key(error.to_string()))?
            }
        };
        let server_name = server_name.map(|name| {
            ServerName::try_from(name.to_owned()).map_err(|_not_a_name| TlsError::ServerName(name.to_owned()))
        });
        Ok(Self { config: Arc::new(config), server_name: server_name.transpose()? })
    }

    /// What other TLS connections to `server` are made of, such as those of four-letter words.
    #[must_use]
    pub fn for_server(&self, server: SocketAddr) -> (Arc<ClientConfig>, ServerName<'static>) {
        let name = self.server_name.clone().unwrap_or_else(|| ServerName::IpAddress(server.ip().into()));
        (Arc::clone(&self.config), name)
    }

    pub(crate) fn connection(&self, server: SocketAddr) -> io::Result<Box<ClientConnection>> {
        let (config, name) = self.for_server(server);
        ClientConnection::new(config, name).map(Box::new).map_err(io::Error::other)
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

/// Why TLS was not agreed on, or broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TlsFault {
    /// A connection without TLS met a port that has nothing else.
    #[error("the port speaks TLS only")]
    Required,
    /// What came was no TLS.
    #[error("the port does not speak TLS")]
    Unspoken,
    #[error("closed before TLS was agreed on (a port without TLS, or a connection limit)")]
    Closed,
    #[error("the server's certificate comes from no authority that is trusted")]
    UnknownIssuer,
    #[error("the server's certificate has expired, or is not valid yet")]
    Expired,
    #[error("the server's certificate bears another name than the one that is expected")]
    WrongName,
    #[error("the server's certificate cannot be used")]
    BadCertificate,
    /// The server's own word, which for a client certificate is all it says.
    #[error("the server broke TLS off with the alert {0}; does it want a client certificate, or another one?")]
    Alert(&'static str),
    #[error("the server has no version or cipher of TLS that this client has")]
    Incompatible,
    #[error("the server breaks the rules of TLS")]
    Broken,
}

impl TlsFault {
    /// The fault in an error of a stream that speaks TLS; `None` for errors of the socket below.
    #[must_use]
    pub fn in_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().map(Self::of)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what a reader can do about the others is the same")]
    fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge,
            ) => Self::Unspoken,
            rustls::Error::PeerIncompatible(_) => Self::Incompatible,
            rustls::Error::InvalidCertificate(why) => Self::of_certificate(why),
            rustls::Error::AlertReceived(alert) => Self::Alert(name(*alert)),
            _ => Self::Broken,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "as above")]
    const fn of_certificate(why: &CertificateError) -> Self {
        use CertificateError::{
            Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
            UnknownIssuer,
        };

        match why {
            UnknownIssuer => Self::UnknownIssuer,
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => Self::Expired,
            NotValidForName | NotValidForNameContext { .. } => Self::WrongName,
            _ => Self::BadCertificate,
        }
    }
}

fn name(alert: AlertDescription) -> &'static str {
    alert.as_str().unwrap_or("(unknown)")
}

/// Whether bytes that came unasked for are the beginning of a TLS record: an alert or a handshake.
pub(crate) const fn is_record(head: [u8; 4]) -> bool {
    matches!(head, [0x15 | 0x16, 0x03, _, _])
}

/// As `read` of a socket, with what comes out of TLS.
pub(crate) fn receive(
    tls: &mut ClientConnection,
    sock: &mut (impl io::Read + io::Write),
    buf: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buf) {
            // The end without TLS's own farewell is an end: frames have lengths, so that nothing can be cut off unseen.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        // At the end of the stream too: the reader tells it.
        tls.read_tls(sock)?;
        if let Err(error) = tls.process_new_packets() {
            // The alert tells the server why; whether it arrives changes nothing.
            let _ = tls.write_tls(sock);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
    }
}

/// Takes what it can of `out` and hands it to the socket; how much was taken, and whether the socket was full.
pub(crate) fn send(
    tls: &mut ClientConnection,
    sock: &mut (impl io::Read + io::Write),
    out: &[u8],
) -> io::Result<(usize, bool)> {
    let mut taken = 0;
    loop {
        // Takes little at a time while the socket is full.
        let more = tls.writer().write(&out[taken..])?;
        taken += more;
        if !tls.wants_write() {
            if taken < out.len() && more > 0 {
                continue;
            }
            return Ok((taken, false));
        }
        match tls.write_tls(sock) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((taken, true)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
