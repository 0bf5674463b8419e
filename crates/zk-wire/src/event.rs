//! What a hub tells its caller, and why a call can be refused.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use crate::{
    hub::SessionKey,
    reply::{Reply, ReplyError, WatchKind},
    tls::{Tls, TlsFault},
};

/// One thing that happened to a session.
#[derive(Debug)]
pub enum Event<'a, T> {
    /// The server gave (or gave back) a session. `timeout_ms` is what it granted, not what was asked for.
    Connected { session: SessionKey, timeout_ms: u32, reattached: bool },
    /// The server does not know the session that was to be attached to any more. The key is dead.
    Expired { session: SessionKey },
    /// The connection is gone; each request in flight got its [`ReplyError::ConnectionLoss`] before. The key is
    /// dead. The session lives on at the server until its timeout, so that the caller may attach to it again.
    Disconnected { session: SessionKey, cause: Disconnect },
    /// The answer to one request, with the tag it was submitted with. `zxid` is the server's last transaction
    /// as of this reply, 0 when there was no reply.
    Reply { session: SessionKey, tag: T, zxid: i64, result: Result<Reply<'a>, ReplyError> },
    /// A watch fired, once.
    Watch { session: SessionKey, kind: WatchKind, path: &'a str },
    /// The server refused the credentials of [`ConnectOptions::auth`]; it closes the connection next.
    AuthFailed { session: SessionKey },
    /// The session was closed as asked for. The key is dead.
    Closed { session: SessionKey },
}

/// Why a connection ended without being asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Disconnect {
    /// Accepted, then closed before a session was given: what a server does at a connection limit, without a
    /// quorum, or to a client that has seen more transactions than it has.
    #[error("closed before a session was given (connection limit, or not serving)")]
    EofBeforeSession,
    #[error("connection refused")]
    Refused,
    /// No session within [`ConnectOptions::connect_timeout`].
    #[error("no session in time")]
    ConnectTimeout,
    #[error("closed by the server")]
    Eof,
    #[error("{0}")]
    Io(io::ErrorKind),
    /// Nothing was heard for two thirds of the session timeout after something was sent.
    #[error("the server fell silent")]
    ReadTimeout,
    /// By [`Hub::cut`](crate::Hub::cut).
    #[error("cut on purpose")]
    Cut,
    /// The server sent what this protocol does not have.
    #[error("protocol broken: {0}")]
    Protocol(&'static str),
    /// TLS was not agreed on, or was broken off.
    #[error("{0}")]
    Tls(TlsFault),
}

impl Disconnect {
    /// Whether the server let go before it gave a session, as it does at a connection limit.
    #[must_use]
    pub const fn is_before_session(self) -> bool {
        matches!(self, Self::EofBeforeSession | Self::Tls(TlsFault::Closed))
    }

    /// The stable name of the kind of cause.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EofBeforeSession => "eof_before_session",
            Self::Refused => "refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::Eof => "eof",
            Self::Io(_) => "io",
            Self::ReadTimeout => "read_timeout",
            Self::Cut => "cut",
            Self::Protocol(_) => "protocol",
            Self::Tls(_) => "tls",
        }
    }
}

/// What lets a client attach to its session again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionId {
    pub id: i64,
    pub password: [u8; 16],
}

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // As the server logs it, and without the password, which would let others take the session over.
        write!(f, "SessionId({:#x})", self.id)
    }
}

/// An identity given to the server as soon as the session is there.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// Such as `digest`.
    pub scheme: String,
    /// For `digest`: `user:password`.
    pub auth: Vec<u8>,
}

impl Auth {
    /// `user:password` in the scheme `digest`.
    #[must_use]
    pub fn digest(user_and_password: &str) -> Self {
        Self { scheme: "digest".to_owned(), auth: user_and_password.as_bytes().to_vec() }
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the credentials themselves: this stands in logs.
        f.debug_struct("Auth").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// How to open one connection.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    pub server: SocketAddr,
    /// The local address to connect from: servers limit connections by source address.
    pub source: Option<IpAddr>,
    /// Asked for; the server clamps it (by default to 2..20 of its ticks).
    pub session_timeout_ms: u32,
    /// For the TCP connection and the session together.
    pub connect_timeout: Duration,
    /// Requests submitted and not yet answered; more are refused as [`SubmitError::Full`].
    pub max_in_flight: u32,
    /// Attach to this session instead of asking for a new one.
    pub reattach: Option<SessionId>,
    /// The last transaction seen by the client; a server that is behind it closes the connection.
    pub last_zxid_seen: i64,
    pub auth: Option<Auth>,
    /// Speak TLS.
    pub tls: Option<Tls>,
}

impl ConnectOptions {
    /// A new session from any local address, without TLS: 30 s session timeout, 10 s to connect, 1,000 in flight.
    #[must_use]
    pub const fn new(server: SocketAddr) -> Self {
        Self {
            server,
            source: None,
            session_timeout_ms: 30_000,
            connect_timeout: Duration::from_secs(10),
            max_in_flight: 1_000,
            reattach: None,
            last_zxid_seen: 0,
            auth: None,
            tls: None,
        }
    }
}

/// Why a connection could not even be begun.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No local port left for this source and server (`EADDRNOTAVAIL` on connect, `EADDRINUSE` on bind).
    #[error("no local port is left")]
    NoPorts(#[source] io::Error),
    /// The process or the system may open no more files (`EMFILE`, `ENFILE`).
    #[error("too many open files")]
    NoFiles(#[source] io::Error),
    /// [`ConnectOptions::source`] is no address of this machine (`EADDRNOTAVAIL` on bind).
    #[error("{source_ip} is no address of this machine")]
    NoSuchSource {
        source_ip: IpAddr,
        #[source]
        cause: io::Error,
    },
    #[error("connect")]
    Io(#[source] io::Error),
}

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SubmitError {
    /// As many are in flight as the session may have.
    #[error("as many requests are in flight as allowed")]
    Full,
    /// The key is dead, the session not there yet, or being closed.
    #[error("not connected")]
    NotConnected,
    /// Larger than the limit ([`crate::Hub::set_max_request_bytes`]): a server would close the connection.
    #[error("the request is larger than the server's limit")]
    TooLarge,
    /// Watches were written in an order that the wire does not have.
    #[error("data watches come before exist watches, these before child watches")]
    OutOfOrder,
}

/// What a live session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionView {
    /// All zero until the server has given the session.
    pub id: SessionId,
    /// As granted by the server.
    pub timeout_ms: u32,
    pub last_zxid: i64,
    pub local: Option<SocketAddr>,
    pub server: SocketAddr,
    pub in_flight: usize,
    /// The server has given the session, and it is not being closed.
    pub connected: bool,
}
