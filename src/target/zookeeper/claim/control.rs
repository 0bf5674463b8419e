//! Control sessions: connecting to whichever server answers, and what went wrong in the target's own words.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use zk_wire::{Client, ClientError, ConnectError, Disconnect, ErrorCode, SessionId};

use crate::target::{
    TargetError,
    zookeeper::{NO_KERBEROS, ZookeeperSpec, tls},
};

/// How long a control session outlives its process: so long does a crashed run hold its target.
const SESSION_TIMEOUT_MS: u32 = 20_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// A control session, and the server it is on.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) client: Client,
    pub(super) server: SocketAddr,
    /// The path of the chroot without a slash at its end; empty for the root.
    pub(super) chroot: String,
}

impl Control {
    /// Connects to the first server that gives a session. `reattach` takes up an earlier session.
    pub(super) fn connect(spec: &ZookeeperSpec, reattach: Option<SessionId>) -> Result<Self, TargetError> {
        let mut first = None;
        for &server in &spec.servers {
            match connect(spec, server, reattach) {
                Ok(client) => {
                    return Ok(Self { client, server, chroot: spec.chroot.trim_end_matches('/').to_owned() });
                }
                Err(error) => {
                    let swapped = matches!(error, ClientError::Disconnected(cause) if cause.is_before_session());
                    if let Some(text) = swapped.then(|| tls::mismatch(server, spec.tls.is_some())).flatten() {
                        return Err(TargetError::Other(text));
                    }
                    // A server that said something tells more than one that is not there.
                    let error = explain(server, error);
                    if first.is_none() || matches!(first, Some(TargetError::Unreachable { .. })) {
                        first = Some(error);
                    }
                }
            }
        }
        Err(first.unwrap_or_else(|| TargetError::Other("the target names no server".to_owned())))
    }

    /// The error of a call, as the target's.
    pub(super) fn explain(&self, error: ClientError) -> TargetError {
        explain(self.server, error)
    }

    /// Sees to it that later reads are up to date, that the credentials hold, and that the chroot is there.
    pub(super) fn check_chroot(&mut self) -> Result<(), TargetError> {
        let path = if self.chroot.is_empty() { "/" } else { &self.chroot };
        let found = self.client.sync(path).and_then(|()| self.client.exists(path));
        if found.map_err(|error| explain(self.server, error))?.is_none() {
            return Err(TargetError::NoChroot { address: self.server.to_string(), path: path.to_owned() });
        }
        Ok(())
    }
}

fn connect(spec: &ZookeeperSpec, server: SocketAddr, reattach: Option<SessionId>) -> Result<Client, ClientError> {
    let mut options = spec.connect_options(server);
    options.session_timeout_ms = SESSION_TIMEOUT_MS;
    options.connect_timeout = CONNECT_TIMEOUT;
    options.source = source(server.ip());
    options.reattach = reattach;
    Client::connect(&options, CALL_TIMEOUT)
}

/// Servers limit connections by source address: on loopback control sessions have one of their own, so that they are
/// neither counted in the load's limit nor locked out by it.
fn source(server: IpAddr) -> Option<IpAddr> {
    (server.is_ipv4() && server.is_loopback()).then_some(IpAddr::from([127, 0, 2, 1]))
}

fn explain(server: SocketAddr, error: ClientError) -> TargetError {
    let address = server.to_string();
    match error {
        ClientError::Server(ErrorCode::NoAuth) => {
            TargetError::Auth { address, text: "the access rules under the root path do not allow it".to_owned() }
        }
        ClientError::Server(ErrorCode::SessionClosedRequireSaslAuth) => {
            TargetError::Auth { address, text: NO_KERBEROS.to_owned() }
        }
        ClientError::Server(ErrorCode::AuthFailed) | ClientError::AuthFailed => {
            TargetError::Auth { address, text: "it does not accept the digest".to_owned() }
        }
        ClientError::Connect(ConnectError::NoFiles(cause)) => {
            TargetError::Limit { what: "connecting".to_owned(), text: cause.to_string() }
        }
        ClientError::Connect(cause) => TargetError::Unreachable { address, cause: cause.to_string() },
        ClientError::Disconnected(
            cause @ (Disconnect::Refused | Disconnect::ConnectTimeout | Disconnect::Io(_) | Disconnect::Tls(_)),
        ) => TargetError::Unreachable { address, cause: cause.to_string() },
        ClientError::Disconnected(cause) => TargetError::NotServing { address, text: cause.to_string() },
        ClientError::TimedOut => TargetError::NotServing { address, text: "no answer in time".to_owned() },
        ClientError::Server(_)
        | ClientError::Expired
        | ClientError::Closed
        | ClientError::Refused(_)
        | ClientError::Malformed
        | ClientError::Io(_) => TargetError::Other(format!("{address}: {error}")),
    }
}
