//! Samples a ZooKeeper server from outside: the short list each second, the long list seldom. What makes both lists
//! rates and incidents is pure and tested on written answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::{server::Server, srvr::Srvr, stats::Stats};
use crate::{
    model::{Clock, Incident, IncidentKind, Sample},
    sample::{Rate, sample},
    target::{Condition, NodeCondition, Observation, Sampler},
};

pub(super) const SRVR_EVERY: Duration = Duration::from_secs(1);
pub(super) const STATS_EVERY: Duration = Duration::from_secs(10);
const STATS_AT_MOST_EVERY: Duration = Duration::from_secs(60);
/// A long list that takes longer disturbs what is measured: it is asked for less often.
const STATS_SLOW: Duration = Duration::from_secs(1);

/// Bytes of a znode in a snapshot beside its path and its data: stat, ACL and lengths.
const SNAPSHOT_BYTES_OF_ZNODE: f64 = 76.0;

/// When a server's last restart was told, in nanoseconds: both samplers of it can see one, one of them tells it.
pub(super) type Restarts = Arc<AtomicI64>;

/// Asks `srvr` each second.
#[derive(Debug)]
pub(super) struct SrvrSampler {
    clock: Clock,
    server: Server,
    series: SrvrSeries,
}

impl SrvrSampler {
    pub(super) fn new(clock: Clock, server: Server, restarts: Restarts) -> Self {
        let series = SrvrSeries { node: server.name.clone(), restarts, ..SrvrSeries::default() };
        Self { clock, server, series }
    }
}

#[async_trait]
impl Sampler for SrvrSampler {
    fn every(&self) -> Duration {
        SRVR_EVERY
    }

    async fn sample(&mut self) -> Observation {
        let since = Instant::now();
        let answer = self.server.srvr().await;
        let took_ms = since.elapsed().as_secs_f64() * 1e3;
        let at_ns = self.clock.now_ns();
        let (condition, text) = match &answer {
            Ok(_) => (Condition::Serving, format!("srvr took {took_ms:.1} ms")),
            Err(error) => (error.condition(), error.to_string()),
        };
        let mut seen = match &answer {
            Ok(srvr) => self.series.next(at_ns, took_ms, srvr),
            Err(_) => Observation::default(),
        };
        let role = answer.ok().map(|srvr| srvr.mode);
        seen.conditions = vec![NodeCondition { at_ns, node: self.server.name.clone(), condition, role, text }];
        seen
    }
}

/// What one answer of `srvr` means after the one before.
#[derive(Debug, Default)]
struct SrvrSeries {
    node: String,
    restarts: Restarts,
    last: Option<(i64, Srvr)>,
    transactions: Rate,
    packets: Rate,
}

impl SrvrSeries {
    fn next(&mut self, at_ns: i64, took_ms: f64, srvr: &Srvr) -> Observation {
        let incidents = self.incidents(at_ns, srvr);
        if !incidents.is_empty() {
            // The numbers of another epoch or another process are no continuation.
            self.transactions.reset();
            self.packets.reset();
        }
        let number = srvr.epoch_and_number().map(|(_, number)| number);
        let figures = [
            ("srvr_ms", Some(took_ms)),
            ("leads", leads(&srvr.mode)),
            ("znodes", srvr.znodes.map(float)),
            ("connections", srvr.connections.map(float)),
            ("outstanding_requests", srvr.outstanding.map(float)),
            ("transactions_per_s", number.and_then(|number| self.transactions.next(at_ns, float(number)))),
            ("packets_in_per_s", srvr.received.and_then(|received| self.packets.next(at_ns, float(received)))),
        ];
        self.last = Some((at_ns, srvr.clone()));
        Observation { samples: samples(at_ns, &self.node, &figures), conditions: Vec::new(), incidents }
    }

    fn incidents(&self, at_ns: i64, srvr: &Srvr) -> Vec<Incident> {
        let Some((then_ns, last)) = &self.last else { return Vec::new() };
        let mut incidents = Vec::new();
        if let (Some((before, _)), Some((now, _))) = (last.epoch_and_number(), srvr.epoch_and_number())
            && before != now
        {
            let text = format!("{}: a new leader was elected, epoch {before} became {now}", self.node);
            incidents.push(incident(at_ns, IncidentKind::Election, &self.node, text));
        }
        if let (Some(before), Some(now)) = (last.received, srvr.received)
            && now < before
            && self.restarts.load(Ordering::Relaxed) <= *then_ns
        {
            self.restarts.store(at_ns, Ordering::Relaxed);
            let text = format!(
                "{}: its count of packets fell from {before} to {now}: it was restarted, or somebody sent srst",
                self.node
            );
            incidents.push(incident(at_ns, IncidentKind::Restarted, &self.node, text));
        }
        incidents
    }
}

/// Whether a server of an ensemble leads it; nothing for one that stands alone.
fn leads(mode: &str) -> Option<f64> {
    match mode {
        "leader" => Some(1.0),
        "follower" | "observer" => Some(0.0),
        _ => None,
    }
}

/// Asks for the long list every 10 s, less often when that takes long.
#[derive(Debug)]
pub(super) struct StatsSampler {
    clock: Clock,
    server: Server,
    every: Duration,
    series: StatsSeries,
}

impl StatsSampler {
    pub(super) fn new(clock: Clock, server: Server, restarts: Restarts) -> Self {
        // The files of a launched server say more of its heap, its collections and its snapshots.
        let has_files = server.managed.is_some();
        let series = StatsSeries { node: server.name.clone(), has_files, restarts, ..StatsSeries::default() };
        Self { clock, server, every: STATS_EVERY, series }
    }
}

#[async_trait]
impl Sampler for StatsSampler {
    fn every(&self) -> Duration {
        self.every
    }

    /// Tells no conditions: how the server answers, `srvr` says each second, and better.
    async fn sample(&mut self) -> Observation {
        let since = Instant::now();
        let answer = self.server.stats().await;
        let took = since.elapsed();
        self.every = next_every(self.every, took);
        match answer {
            Ok((stats, _)) => self.series.next(self.clock.now_ns(), took.as_secs_f64() * 1e3, &stats),
            Err(_) => Observation::default(),
        }
    }
}

/// Doubles the interval after a slow answer, halves it again once answers are fast.
fn next_every(every: Duration, took: Duration) -> Duration {
    if took > STATS_SLOW {
        (every * 2).min(STATS_AT_MOST_EVERY)
    } else if took < STATS_SLOW / 4 {
        (every / 2).max(STATS_EVERY)
    } else {
        every
    }
}

/// What one long list means after the one before.
#[derive(Debug, Default)]
struct StatsSeries {
    node: String,
    /// Whether GC log and snapshots are read elsewhere.
    has_files: bool,
    restarts: Restarts,
    /// Time of the last list and the start of the server that it told, in nanoseconds.
    last: Option<(i64, Option<i64>)>,
    net_in: Rate,
    net_out: Rate,
    fsync: Mean,
    latency: Mean,
    prep_queue: Mean,
    sync_queue: Mean,
    commit_queue: Mean,
    throttle: Rate,
    collections: Rate,
    snapshots: Counted,
}

impl StatsSeries {
    fn next(&mut self, at_ns: i64, took_ms: f64, stats: &Stats) -> Observation {
        let started_ns =
            stats.count("uptime").and_then(|ms| Some(at_ns - i64::try_from(ms).ok()?.checked_mul(1_000_000)?));
        let incidents = self.incidents(at_ns, started_ns);
        self.last = Some((at_ns, started_ns));
        let sum = |a: &str, b: &str| Some(stats.number(a)? + stats.number(b)?);
        let latency = stats.sum_and_count("readlatency").zip(stats.sum_and_count("updatelatency"));
        let latency = latency.map(|((read, reads), (update, updates))| (read + update, reads + updates));
        let figures = [
            ("mntr_ms", Some(took_ms)),
            ("watches", stats.count("watch_count").map(float)),
            ("ephemerals", stats.count("ephemerals_count").map(float)),
            ("sessions", stats.count("global_sessions").map(float)),
            ("net_in_bytes_per_s", stats.number("bytes_received_count").and_then(|n| self.net_in.next(at_ns, n))),
            ("net_out_bytes_per_s", sum("response_bytes", "watch_bytes").and_then(|n| self.net_out.next(at_ns, n))),
            ("fsync_mean_ms", stats.sum_and_count("fsynctime").and_then(|pair| self.fsync.next(pair))),
            ("request_latency_ms", latency.and_then(|pair| self.latency.next(pair))),
            ("prep_queue", mean_of(stats, "prep_processor_queue_size", &mut self.prep_queue)),
            ("sync_queue", mean_of(stats, "sync_processor_queue_size", &mut self.sync_queue)),
            (
                "throttle_waits_per_s",
                stats.number("request_throttle_wait_count").and_then(|n| self.throttle.next(at_ns, n)),
            ),
            ("commit_queue", mean_of(stats, "write_commit_proc_req_queued", &mut self.commit_queue)),
        ];
        let mut samples = samples(at_ns, &self.node, &figures);
        if !self.has_files {
            samples.extend(self.without_files(at_ns, stats));
        }
        Observation { samples, conditions: Vec::new(), incidents }
    }

    /// What the server itself tells of its JVM (with a Prometheus provider) and of its snapshots (3.6 and later).
    fn without_files(&mut self, at_ns: i64, stats: &Stats) -> Vec<Sample> {
        let heap = "{area=\"heap\"}";
        let heap_max = ["jvm_memory_bytes_max", "jvm_memory_max_bytes"];
        let heap_max = heap_max.iter().find_map(|name| stats.number(&format!("{name}{heap}")));
        let collecting_s = stats.over_labels("jvm_gc_collection_seconds_sum");
        let share = collecting_s.and_then(|seconds| self.collections.next(at_ns, seconds));
        let written = stats.sum_and_count("snapshottime").map(|(_, count)| self.snapshots.next(at_ns, count));
        let data = stats.number("approximate_data_size").zip(stats.number("znode_count"));
        let figures = [
            ("snapshot_bytes", data.map(|(paths_and_data, znodes)| paths_and_data + SNAPSHOT_BYTES_OF_ZNODE * znodes)),
            ("snapshot_interval_s", self.snapshots.interval_s),
            ("heap_max_bytes", heap_max.filter(|bytes| *bytes > 0.0)),
            // A pause is counted when it ends: a long one may be more than the interval.
            ("gc_pause_share", share.map(|share| share.min(1.0))),
            ("snapshots", written),
        ];
        samples(at_ns, &self.node, &figures)
    }

    /// A server that started after the last list, unless the other sampler has told it.
    fn incidents(&self, at_ns: i64, started_ns: Option<i64>) -> Vec<Incident> {
        let (Some((then_ns, Some(_))), Some(started_ns)) = (self.last, started_ns) else { return Vec::new() };
        if started_ns <= then_ns || self.restarts.load(Ordering::Relaxed) >= started_ns {
            return Vec::new();
        }
        self.restarts.store(at_ns, Ordering::Relaxed);
        let ago_s = (at_ns - started_ns) as f64 / 1e9;
        let text = format!("{}: it was restarted {ago_s:.1} s ago", self.node);
        vec![incident(at_ns, IncidentKind::Restarted, &self.node, text)]
    }
}

/// The mean of what was added to a summary since the last reading.
#[derive(Debug, Default)]
struct Mean {
    last: Option<(f64, f64)>,
}

impl Mean {
    /// `None` for the first reading, when nothing was added, and when the summary began anew.
    fn next(&mut self, (sum, count): (f64, f64)) -> Option<f64> {
        let (sum_before, count_before) = self.last.replace((sum, count))?;
        (count > count_before && sum >= sum_before).then(|| (sum - sum_before) / (count - count_before))
    }
}

fn mean_of(stats: &Stats, name: &str, mean: &mut Mean) -> Option<f64> {
    stats.sum_and_count(name).and_then(|pair| mean.next(pair))
}

/// Snapshots by a server's own counter: how many since the first reading, over restarts, and how often they came last.
#[derive(Debug, Default)]
struct Counted {
    last: Option<f64>,
    written: f64,
    /// When the counter was seen to have grown last.
    grew_ns: Option<i64>,
    interval_s: Option<f64>,
}

impl Counted {
    fn next(&mut self, at_ns: i64, counter: f64) -> f64 {
        let before = self.last.replace(counter).unwrap_or(counter);
        // One that went back has begun anew, at 0.
        let more = if counter >= before { counter - before } else { counter };
        if more > 0.0 {
            let since_ns = self.grew_ns.replace(at_ns);
            self.interval_s = since_ns.map(|since_ns| at_ns.saturating_sub(since_ns) as f64 / 1e9 / more);
        }
        self.written += more;
        self.written
    }
}

fn samples(at_ns: i64, node: &str, figures: &[(&str, Option<f64>)]) -> Vec<Sample> {
    figures.iter().filter_map(|(name, value)| Some(sample(at_ns, node, name, (*value)?))).collect()
}

fn incident(at_ns: i64, kind: IncidentKind, node: &str, text: String) -> Incident {
    Incident { at_ns, kind, node: node.to_owned(), text, amount: 1.0 }
}

/// Counts of a server stay far below 2^53.
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
