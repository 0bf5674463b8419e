//! When servers are ready: what each says of its role, and whether these roles make one ensemble.

use std::{fmt, net::SocketAddr, time::Duration};

use zk_wire::Tls;

use crate::target::{
    Condition,
    zookeeper::{
        four_letter::{ask_over, sampler_source},
        srvr::Srvr,
    },
};

const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What a server says of itself when it is asked `srvr`, which no whitelist can take away since 3.5.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Says {
    /// It serves, as `leader`, `follower`, `standalone` and the like.
    Role(String),
    /// It is up, but without a quorum.
    NotServing,
    /// Anything else, in words.
    Nothing(String),
}

impl fmt::Display for Says {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => f.write_str(role),
            Self::NotServing => f.write_str("up, but without a quorum"),
            Self::Nothing(text) => f.write_str(text),
        }
    }
}

/// Asks one server for its role.
pub(super) async fn role(server: SocketAddr) -> Says {
    role_over(None, server).await
}

/// As [`role`], over TLS if there is any.
pub(super) async fn role_over(tls: Option<&Tls>, server: SocketAddr) -> Says {
    match ask_over(tls, server, sampler_source(server), "srvr", ANSWER_WITHIN).await {
        Ok(text) => match Srvr::parse(&text).mode {
            none if none.is_empty() => Says::Nothing("its answer to srvr names no mode".to_owned()),
            mode => Says::Role(mode),
        },
        Err(error) if error.condition() == Condition::NotServing => Says::NotServing,
        Err(error) => Says::Nothing(error.to_string()),
    }
}

/// Whether all servers serve, several of them as one ensemble: exactly one leads, the others follow it.
pub(super) fn all_serve(said: &[Says]) -> bool {
    let count = |wanted: &str| said.iter().filter(|says| matches!(says, Says::Role(role) if role == wanted)).count();
    match said {
        [one] => matches!(one, Says::Role(_)),
        several => count("leader") == 1 && count("follower") == several.len() - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(roles: &[&str]) -> Vec<Says> {
        roles.iter().map(|role| Says::Role((*role).to_owned())).collect()
    }

    #[test]
    fn an_ensemble_has_exactly_one_leader() {
        assert!(all_serve(&says(&["standalone"])));
        assert!(all_serve(&says(&["follower", "leader", "follower"])));
        for wrong in [["follower"; 3], ["leader"; 3], ["leader", "leader", "follower"], ["leader", "follower", "x"]] {
            assert!(!all_serve(&says(&wrong)), "{wrong:?}");
        }
        assert!(!all_serve(&[Says::NotServing]));
        let mut silent = says(&["leader", "follower"]);
        silent.push(Says::NotServing);
        assert!(!all_serve(&silent));
        assert!(!all_serve(&[]));
    }
}
