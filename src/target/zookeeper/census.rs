//! Asks once, now, how much a target holds: what the engine compares with what the load should have put there.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::{four_letter::AskError, server::Server, srvr::Srvr, stats::Stats};
use crate::target::{Condition, Counts, TargetError};

/// How much a target holds. Watches and connections are summed over all servers, since each has its own; znodes,
/// ephemerals and sessions are of one server, since all have the same. `None`: not every server that is needed told it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Census {
    znodes: Option<u64>,
    watches: Option<u64>,
    ephemerals: Option<u64>,
    /// Sessions of the ensemble (3.6 and later). A session of a closed connection counts until it expires.
    sessions: Option<u64>,
    /// The connections that asked are among them.
    connections: Option<u64>,
}

impl Census {
    /// The figures that are known, by the names `znodes`, `watches`, `ephemerals`, `sessions`, `connections`.
    fn counts(&self) -> BTreeMap<String, u64> {
        let Self { znodes, watches, ephemerals, sessions, connections } = *self;
        let named = [
            ("znodes", znodes),
            ("watches", watches),
            ("ephemerals", ephemerals),
            ("sessions", sessions),
            ("connections", connections),
        ];
        named.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?))).collect()
    }
}

/// Asks all servers at once: the census of the whole, and of each server by itself.
///
/// # Errors
/// When no server answers `srvr`.
pub(super) async fn take(servers: &[Server]) -> Result<Counts, TargetError> {
    let ask = async |server: &Server| {
        let srvr = server.srvr().await;
        // One that does not answer the short list is not asked for the long one.
        let stats = if srvr.is_ok() { server.stats().await.ok().map(|(stats, _)| stats) } else { None };
        (srvr, stats)
    };
    let answers = join_all(servers.iter().map(ask)).await;
    let failure = answers.iter().zip(servers).find_map(|((srvr, _), server)| Some((server, srvr.as_ref().err()?)));
    if let Some((server, error)) = failure
        && answers.iter().all(|(srvr, _)| srvr.is_err())
    {
        let (address, cause) = (server.name.clone(), error.to_string());
        return Err(if error.condition() == Condition::NotServing {
            TargetError::NotServing { address, text: cause }
        } else {
            TargetError::Unreachable { address, cause }
        });
    }
    let by_node = answers
        .iter()
        .zip(servers)
        .map(|(answer, server)| (server.name.clone(), count(std::slice::from_ref(answer)).counts()));
    Ok(Counts { total: count(&answers).counts(), by_node: by_node.collect() })
}

fn count(answers: &[(Result<Srvr, AskError>, Option<Stats>)]) -> Census {
    let srvr = |field: fn(&Srvr) -> Option<u64>| {
        answers.iter().map(move |(srvr, _)| srvr.as_ref().ok().and_then(field)).collect::<Vec<_>>()
    };
    let stats = |name: &'static str| {
        answers.iter().map(move |(_, stats)| stats.as_ref().and_then(|stats| stats.count(name))).collect::<Vec<_>>()
    };
    // A sum without one of its parts would be taken for a loss.
    let all = |parts: Vec<Option<u64>>| parts.into_iter().sum::<Option<u64>>().filter(|_| !answers.is_empty());
    let first = |parts: Vec<Option<u64>>| parts.into_iter().flatten().next();
    Census {
        znodes: first(srvr(|srvr| srvr.znodes)),
        watches: all(stats("watch_count")),
        ephemerals: first(stats("ephemerals_count")),
        sessions: first(stats("global_sessions")),
        connections: all(srvr(|srvr| srvr.connections)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(znodes: u64, connections: u64, stats: &str) -> (Result<Srvr, AskError>, Option<Stats>) {
        let srvr = Srvr { znodes: Some(znodes), connections: Some(connections), ..Srvr::default() };
        (Ok(srvr), (!stats.is_empty()).then(|| Stats::parse_mntr(stats)))
    }

    #[test]
    fn watches_and_connections_are_summed_and_the_rest_is_of_one() {
        let stats = "zk_watch_count\t10\nzk_ephemerals_count\t3\nzk_global_sessions\t2\n";
        let census = count(&[answer(100, 4, stats), answer(100, 5, stats)]);
        let want = Census {
            znodes: Some(100),
            watches: Some(20),
            ephemerals: Some(3),
            sessions: Some(2),
            connections: Some(9),
        };
        assert_eq!(census, want);
        assert_eq!(census.counts().len(), 5);
    }

    #[test]
    fn a_sum_without_one_of_its_parts_is_not_known() {
        let census = count(&[answer(100, 4, "zk_watch_count\t10\n"), answer(100, 5, "")]);
        assert_eq!((census.watches, census.connections, census.znodes), (None, Some(9), Some(100)));
        assert_eq!(census.counts().keys().collect::<Vec<_>>(), ["connections", "znodes"]);
        assert_eq!(count(&[]), Census::default());
    }
}
