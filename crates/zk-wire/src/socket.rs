//! Opening TCP connections, and what the system's errors mean.

use std::{
    io,
    net::{SocketAddr, TcpStream},
};

use nix::{
    errno::Errno,
    sys::socket::{setsockopt, sockopt::IpBindAddressNoPort},
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    event::{ConnectError, ConnectOptions, Disconnect},
    tls::TlsFault,
};

pub(crate) fn cause_of(error: &io::Error) -> Disconnect {
    if let Some(fault) = TlsFault::in_error(error) {
        return Disconnect::Tls(fault);
    }
    let kind = error.kind();
    if kind == io::ErrorKind::ConnectionRefused { Disconnect::Refused } else { Disconnect::Io(kind) }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

fn failed(error: io::Error) -> ConnectError {
    if matches!(errno(&error), Errno::EMFILE | Errno::ENFILE) {
        ConnectError::NoFiles(error)
    } else {
        ConnectError::Io(error)
    }
}

/// Begins a TCP connection. True when it was refused on the spot, as happens on loopback.
pub(crate) fn open(options: &ConnectOptions) -> Result<(TcpStream, bool), ConnectError> {
    let domain = Domain::for_address(options.server);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    // A request must not wait for the answer to the one before.
    socket.set_tcp_nodelay(true).map_err(failed)?;
    if let Some(source_ip) = options.source {
        // Lets the port be chosen on connect, when the server is known: one port then serves many servers. Where the
        // kernel does not have it, binding takes a port at once, which works as well with fewer sessions.
        let _ = setsockopt(&socket, IpBindAddressNoPort, &true);
        let bound = socket.bind(&SocketAddr::new(source_ip, 0).into());
        bound.map_err(|cause| {
            if cause.kind() == io::ErrorKind::AddrNotAvailable {
                ConnectError::NoSuchSource { source_ip, cause }
            } else if cause.kind() == io::ErrorKind::AddrInUse {
                ConnectError::NoPorts(cause)
            } else {
                failed(cause)
            }
        })?;
    }
    let refused = match socket.connect(&options.server.into()) {
        Ok(()) => false,
        Err(error) if errno(&error) == Errno::EINPROGRESS => false,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => true,
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => return Err(ConnectError::NoPorts(error)),
        Err(error) => return Err(failed(error)),
    };
    Ok((socket.into(), refused))
}
