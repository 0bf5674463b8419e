//! When a run has to be stopped for the target's sake, apart from what it is to find out. A state machine over readings:
//! no clock, no I/O.

use std::collections::BTreeMap;

use super::figure;
use crate::model::{Sample, metric::GENERATOR};

/// Readings further apart than this are not one spell: nothing is known of the time between.
const SPELL_GAP_NS: i64 = 30_000_000_000;
/// A sum over servers is taken only of readings as fresh as this.
const FRESH_NS: i64 = 5_000_000_000;
/// What the load says of its own connections may be so much older or younger than what the servers say.
const OWN_AGE_NS: i64 = 3_000_000_000;

/// What a guard looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// Heap in use after collection, as a share of its limit.
    HeapShare,
    /// Free space of the file system with the target's data.
    DiskFreeBytes,
    /// Requests inside one server.
    Outstanding,
    /// What a client of its own waits for one read.
    CanaryMs,
    /// Connections of other clients that were there before the load.
    OthersLost,
}

impl Guard {
    /// Every guard, in the order of the documents.
    pub const ALL: [Self; 5] =
        [Self::HeapShare, Self::DiskFreeBytes, Self::Outstanding, Self::CanaryMs, Self::OthersLost];

    /// The key in scenarios.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::HeapShare => "heap_share",
            Self::DiskFreeBytes => "disk_free_bytes",
            Self::Outstanding => "outstanding",
            Self::CanaryMs => "canary_ms",
            Self::OthersLost => "others_lost",
        }
    }

    /// The threshold of a target that is not managed; docs/SCENARIOS.md says why.
    #[must_use]
    pub const fn default_threshold(self) -> Threshold {
        let (limit, for_s) = match self {
            Self::HeapShare => (0.9, 10.0),
            Self::DiskFreeBytes => (1_073_741_824.0, 5.0),
            Self::Outstanding => (1_000.0, 10.0),
            Self::CanaryMs => (1_000.0, 20.0),
            Self::OthersLost => (5.0, 10.0),
        };
        Threshold { limit, for_s }
    }

    /// The smallest and the largest limit that make sense.
    #[must_use]
    pub const fn range(self) -> (f64, f64) {
        match self {
            Self::HeapShare => (0.01, 1.0),
            Self::DiskFreeBytes => (1.0, 1e15),
            Self::Outstanding => (0.0, 1e9),
            Self::CanaryMs => (1.0, 600_000.0),
            Self::OthersLost => (0.0, 1e6),
        }
    }

    fn is_beyond(self, value: f64, limit: f64) -> bool {
        if self == Self::DiskFreeBytes { value < limit } else { value > limit }
    }

    fn words(self, node: &str, value: f64, limit: f64) -> String {
        let mib = |bytes: f64| figure((bytes / 1_048_576.0).round());
        match self {
            Self::HeapShare => format!(
                "the heap of {node} was {} % full after collection, above the {} % of the guard heap_share",
                figure(value * 100.0),
                figure(limit * 100.0)
            ),
            Self::DiskFreeBytes => format!(
                "{node} had {} MiB of disk left, less than the {} MiB of the guard disk_free_bytes",
                mib(value),
                mib(limit)
            ),
            Self::Outstanding => format!(
                "{node} had {} outstanding requests, above the {} of the guard outstanding",
                figure(value),
                figure(limit)
            ),
            Self::CanaryMs => format!(
                "a read of a client of its own took {} ms, above the {} ms of the guard canary_ms",
                figure(value),
                figure(limit)
            ),
            Self::OthersLost => format!(
                "other clients had {} connections fewer than before the load, above the {} of the guard others_lost",
                figure(value),
                figure(limit)
            ),
        }
    }
}

/// From where on a guard counts, and for how long before it trips.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    pub limit: f64,
    pub for_s: f64,
}

/// Why a run has to stop.
#[derive(Debug, Clone, PartialEq)]
pub struct Trip {
    pub guard: Guard,
    pub node: String,
    pub value: f64,
    pub limit: f64,
    /// Since when it was beyond the limit without a break.
    pub since_ns: i64,
    pub at_ns: i64,
}

impl Trip {
    /// Guard, value, limit and since when, as a clause.
    #[must_use]
    pub fn words(&self) -> String {
        let seconds = (self.at_ns - self.since_ns) as f64 / 1e9;
        format!(
            "{}, for {} s since {} UTC",
            self.guard.words(&self.node, self.value, self.limit),
            figure((seconds * 10.0).round() / 10.0),
            time_of_day(self.since_ns)
        )
    }
}

fn time_of_day(at_ns: i64) -> String {
    let seconds = at_ns.div_euclid(1_000_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// The guards of a run and what they have seen.
#[derive(Debug, Clone, Default)]
pub struct Guards {
    thresholds: BTreeMap<Guard, Threshold>,
    /// Since when, and until when, a guard saw a node beyond its limit.
    spells: BTreeMap<(Guard, String), (i64, i64)>,
    heap_max_bytes: BTreeMap<String, f64>,
    /// What each server said last of its connections.
    connections: BTreeMap<String, (i64, f64)>,
    /// What the load said lately of its own.
    own: Vec<(i64, f64)>,
    /// Connections without those of the load, before there was any.
    others_before: Option<f64>,
    /// There has been load.
    loaded: bool,
    trip: Option<Trip>,
}

impl Guards {
    #[must_use]
    pub fn new(thresholds: BTreeMap<Guard, Threshold>) -> Self {
        Self { thresholds, ..Self::default() }
    }

    /// Whether this guard is on.
    #[must_use]
    pub fn has(&self, guard: Guard) -> bool {
        self.thresholds.contains_key(&guard)
    }

    /// The first guard that tripped; there is no way back.
    #[must_use]
    pub const fn trip(&self) -> Option<&Trip> {
        self.trip.as_ref()
    }

    /// Takes one reading. Those of one node are in the order of time.
    pub fn take(&mut self, sample: &Sample) {
        let Sample { at_ns, node, metric, value } = sample;
        match metric.as_str() {
            "heap_max_bytes" => drop(self.heap_max_bytes.insert(node.clone(), *value)),
            "heap_after_gc_bytes" => {
                if let Some(most) = self.heap_max_bytes.get(node).filter(|most| **most > 0.0) {
                    let share = value / most;
                    self.look(Guard::HeapShare, *at_ns, node, share);
                }
            }
            "disk_free_bytes" | "host_disk_free_bytes" => self.look(Guard::DiskFreeBytes, *at_ns, node, *value),
            "outstanding_requests" => self.look(Guard::Outstanding, *at_ns, node, *value),
            "canary_ms" => self.look(Guard::CanaryMs, *at_ns, node, *value),
            "connections" => {
                self.connections.insert(node.clone(), (*at_ns, *value));
                self.look_at_others(*at_ns);
            }
            "load_sessions" => {
                self.own.retain(|(then_ns, _)| at_ns - then_ns <= OWN_AGE_NS);
                self.own.push((*at_ns, *value));
            }
            _ => {}
        }
    }

    /// Compares the connections that are not of the load with those of before it. The least that the load said of its own
    /// lately is taken off: what comes or goes just now must not be taken for another's.
    fn look_at_others(&mut self, at_ns: i64) {
        if self.connections.values().any(|(then_ns, _)| at_ns - then_ns > FRESH_NS) {
            return;
        }
        let all: f64 = self.connections.values().map(|(_, count)| count).sum();
        let own = self.own.iter().map(|(_, count)| *count).fold(f64::INFINITY, f64::min);
        let most_own = self.own.iter().map(|(_, count)| *count).fold(0.0, f64::max);
        let others = if own.is_finite() { all - own } else { all };
        self.loaded |= most_own > 0.0;
        if self.loaded {
            if let Some(before) = self.others_before {
                self.look(Guard::OthersLost, at_ns, GENERATOR, (before - others).max(0.0));
            }
        } else {
            // As long as there is no load: a connection more at one moment may be one that just asks a question.
            self.others_before = Some(self.others_before.map_or(others, |before| before.min(others)));
        }
    }

    fn look(&mut self, guard: Guard, at_ns: i64, node: &str, value: f64) {
        let Some(Threshold { limit, for_s }) = self.thresholds.get(&guard).copied() else { return };
        let key = (guard, node.to_owned());
        if !guard.is_beyond(value, limit) {
            self.spells.remove(&key);
            return;
        }
        let since_ns = match self.spells.get(&key) {
            Some((since_ns, until_ns)) if at_ns - until_ns <= SPELL_GAP_NS => *since_ns,
            _ => at_ns,
        };
        self.spells.insert(key, (since_ns, at_ns));
        if self.trip.is_none() && (at_ns - since_ns) as f64 >= for_s * 1e9 {
            self.trip = Some(Trip { guard, node: node.to_owned(), value, limit, since_ns, at_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: i64 = 1_000_000_000;

    fn sample(at_s: i64, node: &str, metric: &str, value: f64) -> Sample {
        Sample { at_ns: at_s * S, node: node.into(), metric: metric.into(), value }
    }

    fn guards(guard: Guard, limit: f64, for_s: f64) -> Guards {
        Guards::new([(guard, Threshold { limit, for_s })].into())
    }

    /// The first second at which the run of `true` before it is long enough, by counting.
    fn expected(beyond: &[bool], for_s: usize) -> Option<usize> {
        (0..beyond.len()).find(|at| *at >= for_s && beyond[at - for_s..=*at].iter().all(|over| *over))
    }

    proptest! {
        #[test]
        fn a_guard_trips_when_every_reading_of_its_time_is_beyond_and_never_else(
            beyond in proptest::collection::vec(prop::bool::weighted(0.8), 0..60), for_s in 0_usize..8,
        ) {
            for (guard, metric, calm, wild) in [
                (Guard::Outstanding, "outstanding_requests", 10.0, 11.0),
                (Guard::DiskFreeBytes, "disk_free_bytes", 10.0, 9.0),
                (Guard::CanaryMs, "canary_ms", 10.0, 10.1),
            ] {
                let mut watch = guards(guard, 10.0, for_s as f64);
                let mut tripped = None;
                for (at, over) in beyond.iter().enumerate() {
                    watch.take(&sample(at as i64, "a", metric, if *over { wild } else { calm }));
                    // Another server's calm readings change nothing.
                    watch.take(&sample(at as i64, "b", metric, calm));
                    tripped = tripped.or_else(|| watch.trip().map(|_| at));
                }
                prop_assert_eq!(tripped, expected(&beyond, for_s));
                if let Some(trip) = watch.trip() {
                    prop_assert_eq!((trip.node.as_str(), trip.at_ns - trip.since_ns), ("a", for_s as i64 * S));
                }
            }
        }

        #[test]
        fn what_the_load_opens_and_closes_is_never_taken_for_others(
            moves in proptest::collection::vec(0_u32..500, 1..60), servers in 1_usize..4, lag in 0_usize..2,
        ) {
            let mut watch = guards(Guard::OthersLost, 0.0, 3.0);
            let feed = |watch: &mut Guards, at: i64, own: f64, counted: f64| {
                watch.take(&sample(at, GENERATOR, "load_sessions", own));
                for server in 0..servers {
                    let share = if server == 0 { counted } else { 0.0 };
                    watch.take(&sample(at, &format!("s{server}"), "connections", 7.0 + share));
                }
            };
            (0..3).for_each(|at| feed(&mut watch, at, 0.0, 0.0));
            for (at, own) in moves.iter().enumerate() {
                // The servers' word is a little older than the load's own.
                let counted = if at >= lag { f64::from(moves[at - lag]) } else { 0.0 };
                feed(&mut watch, 3 + at as i64, f64::from(*own), counted);
            }
            prop_assert_eq!(watch.trip(), None);
        }
    }

    #[test]
    fn connections_of_others_that_are_gone_trip() {
        let mut watch = guards(Guard::OthersLost, 5.0, 2.0);
        for at in 0..20 {
            let own = if at < 5 { 0.0 } else { 60.0 };
            watch.take(&sample(at, GENERATOR, "load_sessions", own));
            let others = if at < 12 { 20.0 } else { 14.0 };
            watch.take(&sample(at, "a", "connections", own + others));
        }
        let trip = watch.trip().unwrap();
        assert_eq!((trip.value, trip.since_ns / S), (6.0, 12));
        let said = "other clients had 6 connections fewer than before the load, above the 5 of the guard others_lost, \
                    for 2 s since 00:00:12 UTC";
        assert_eq!(trip.words(), said);
    }

    #[test]
    fn the_heap_is_a_share_of_its_own_servers_limit_and_silence_is_no_spell() {
        let mut watch = guards(Guard::HeapShare, 0.9, 5.0);
        watch.take(&sample(0, "a", "heap_after_gc_bytes", 95.0));
        watch.take(&sample(0, "a", "heap_max_bytes", 100.0));
        watch.take(&sample(0, "b", "heap_max_bytes", 1_000.0));
        for at in 1..10 {
            watch.take(&sample(at, "b", "heap_after_gc_bytes", 95.0));
        }
        assert_eq!(watch.trip(), None, "b has room");
        watch.take(&sample(1, "a", "heap_after_gc_bytes", 95.0));
        watch.take(&sample(60, "a", "heap_after_gc_bytes", 95.0));
        assert_eq!(watch.trip(), None, "nothing is known of a minute without readings");
        watch.take(&sample(65, "a", "heap_after_gc_bytes", 95.0));
        assert_eq!(watch.trip().map(|trip| trip.since_ns / S), Some(60));
    }

    #[test]
    fn a_guard_that_is_off_sees_nothing() {
        let mut watch = guards(Guard::CanaryMs, 10.0, 0.0);
        watch.take(&sample(0, "a", "outstanding_requests", 1e9));
        assert!(watch.trip().is_none() && !watch.has(Guard::Outstanding));
        watch.take(&sample(0, GENERATOR, "canary_ms", 11.0));
        assert_eq!(watch.trip().map(|trip| trip.guard), Some(Guard::CanaryMs));
    }
}
