//! Free ports on the loopback addresses of a target's servers. Another process may take one between choosing and
//! binding: whoever binds must be ready to choose again.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
};

use super::LaunchError;

/// Below the ephemeral ports, of which any client socket may hold one.
pub(super) const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Ports that are tried for one server's one purpose.
const TRIES: usize = 200;

/// The address of the server with a number, from 1: each of an ensemble has its own.
pub(super) const fn host(id: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, id))
}

/// Whether somebody listens there.
pub(super) fn in_use(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err()
}

/// Gives addresses that nobody holds at this moment, none of them twice.
#[derive(Debug, Default)]
pub(super) struct Ports {
    given: BTreeSet<SocketAddr>,
}

impl Ports {
    pub(super) fn free(&mut self, host: IpAddr) -> Result<SocketAddr, LaunchError> {
        let mut tried = BTreeSet::new();
        while tried.len() < TRIES {
            let address = SocketAddr::new(host, random_port());
            if !tried.insert(address.port()) || self.given.contains(&address) {
                continue;
            }
            match TcpListener::bind(address) {
                Ok(_) => {
                    self.given.insert(address);
                    return Ok(address);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    return Err(LaunchError::Missing(format!("no port: {host} is no address of this machine")));
                }
                Err(_) => {}
            }
        }
        let (first, last) = (PORTS.start, PORTS.end - 1);
        Err(LaunchError::Missing(format!("no port: {TRIES} of {host}:{first}-{last} are in use")))
    }
}

fn random_port() -> u16 {
    // A fresh id is a random number without a further dependency.
    let id = uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)).as_u128();
    let offset = id % u128::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(offset).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice_and_none_is_ephemeral() {
        let mut ports = Ports::default();
        let given: BTreeSet<_> = (0..300).map(|_| ports.free(host(3)).unwrap()).collect();
        assert_eq!(given.len(), 300);
        assert!(given.iter().all(|address| PORTS.contains(&address.port()) && address.port() < 32_768));
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let error = Ports::default().free(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))).unwrap_err().to_string();
        assert_eq!(error, "no port: 192.0.2.1 is no address of this machine");
    }
}
