//! Samplers of the files of managed servers: GC log and snapshots.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    gc_log::{GcEvent, GcLog},
    snapshots::SnapshotFiles,
};
use crate::{
    model::{Clock, Sample},
    sample::sample,
    target::{ManagedNode, Observation, Sampler},
};

const EVERY: Duration = Duration::from_secs(1);
/// Listing a folder on a busy disk is work for it too, and snapshots come seldom.
const SNAPSHOTS_EVERY: Duration = Duration::from_secs(2);

fn observed(samples: Vec<Sample>) -> Observation {
    Observation { samples, ..Observation::default() }
}

/// Reads what was added to a managed server's GC log.
#[derive(Debug)]
pub(super) struct GcSampler {
    clock: Clock,
    log: GcLog,
    series: GcSeries,
}

impl GcSampler {
    pub(super) fn new(clock: Clock, node: &ManagedNode) -> Self {
        let series = GcSeries { node: node.name.clone(), heap_max: node.heap_max_bytes, ..GcSeries::default() };
        Self { clock, log: GcLog::new(node.gc_log.clone()), series }
    }
}

#[async_trait]
impl Sampler for GcSampler {
    fn every(&self) -> Duration {
        EVERY
    }

    async fn sample(&mut self) -> Observation {
        let mut log = self.log.clone();
        let read = tokio::task::spawn_blocking(move || (log.read_new(), log)).await;
        // A log that cannot be read gives no readings: no pause would be a claim.
        let Ok((Ok(events), log)) = read else { return Observation::default() };
        self.log = log;
        observed(self.series.next(self.clock.now_ns(), &events))
    }
}

/// What the lines of one interval mean.
#[derive(Debug, Default)]
struct GcSeries {
    node: String,
    heap_max: u64,
    heap_after: Option<u64>,
    last_ns: Option<i64>,
    /// Milliseconds of pauses that were longer than the interval in which they were told. A pause is written when it
    /// ends: one of 11 s would be a share of 11 in one second. It is spread over the seconds that follow, so that a
    /// share is never above 1 and its mean stays right.
    owed_ms: f64,
}

impl GcSeries {
    fn next(&mut self, at_ns: i64, events: &[GcEvent]) -> Vec<Sample> {
        let mut pause_max = 0.0_f64;
        let mut pauses = 0.0;
        for event in events {
            match event {
                GcEvent::HeapMax(bytes) => self.heap_max = *bytes,
                GcEvent::HeapAfter(bytes) => self.heap_after = Some(*bytes),
                GcEvent::Pause(ms) => {
                    pauses += ms;
                    pause_max = pause_max.max(*ms);
                }
            }
        }
        let mut samples = vec![sample(at_ns, &self.node, "heap_max_bytes", self.heap_max as f64)];
        samples.extend(self.heap_after.map(|after| sample(at_ns, &self.node, "heap_after_gc_bytes", after as f64)));
        // The first reading covers the life of the server until now, which is no interval of the run.
        if let Some(last_ns) = self.last_ns.replace(at_ns) {
            let interval_ms = at_ns.saturating_sub(last_ns) as f64 / 1e6;
            self.owed_ms += pauses;
            let paused_ms = self.owed_ms.min(interval_ms);
            self.owed_ms -= paused_ms;
            let share = if interval_ms > 0.0 { paused_ms / interval_ms } else { 0.0 };
            samples.push(sample(at_ns, &self.node, "gc_pause_share", share));
            samples.push(sample(at_ns, &self.node, "gc_pause_max_ms", pause_max));
        }
        samples
    }
}

/// Looks at a managed server's snapshot files.
#[derive(Debug)]
pub(super) struct SnapshotSampler {
    clock: Clock,
    node: String,
    files: SnapshotFiles,
    /// Whether it was said that they cannot be read.
    told: bool,
}

impl SnapshotSampler {
    pub(super) fn new(clock: Clock, node: &ManagedNode) -> Self {
        Self { clock, node: node.name.clone(), files: SnapshotFiles::new(&node.data_dir), told: false }
    }
}

#[async_trait]
impl Sampler for SnapshotSampler {
    fn every(&self) -> Duration {
        SNAPSHOTS_EVERY
    }

    async fn sample(&mut self) -> Observation {
        let mut files = self.files.clone();
        let looked = tokio::task::spawn_blocking(move || (files.look(), files)).await;
        let Ok((found, files)) = looked else { return Observation::default() };
        self.files = files;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(node = %self.node, "the snapshots of {} cannot be read: {error}", self.node);
                }
                return Observation::default();
            }
        };
        let at_ns = self.clock.now_ns();
        let figures = [
            ("snapshot_bytes", found.newest_bytes.map(|bytes| bytes as f64)),
            ("snapshot_interval_s", found.interval_s),
            ("snapshots", Some(found.written as f64)),
        ];
        let figures = figures.into_iter();
        observed(figures.filter_map(|(name, value)| Some(sample(at_ns, &self.node, name, value?))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(samples: &[Sample], metric: &str) -> Option<f64> {
        samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
    }

    fn share(samples: &[Sample]) -> Option<f64> {
        value(samples, "gc_pause_share")
    }

    #[test]
    fn the_life_before_the_run_is_no_interval() {
        let mut series = GcSeries::default();
        let first = series.next(0, &[GcEvent::HeapMax(64), GcEvent::Pause(900.0), GcEvent::HeapAfter(10)]);
        assert_eq!((share(&first), value(&first, "gc_pause_max_ms")), (None, None));
        assert_eq!((value(&first, "heap_max_bytes"), value(&first, "heap_after_gc_bytes")), (Some(64.0), Some(10.0)));
        let quiet = series.next(1_000_000_000, &[]);
        assert_eq!((share(&quiet), value(&quiet, "gc_pause_max_ms")), (Some(0.0), Some(0.0)));
        assert_eq!(value(&quiet, "heap_after_gc_bytes"), Some(10.0), "the last one still stands");
    }

    #[test]
    fn a_pause_longer_than_the_interval_is_spread_and_keeps_its_mean() {
        let mut series = GcSeries::default();
        let _ = series.next(0, &[]);
        let mut shares = Vec::new();
        for second in 1..=4 {
            let events = if second == 1 { vec![GcEvent::Pause(2_500.0)] } else { Vec::new() };
            let samples = series.next(second * 1_000_000_000, &events);
            shares.extend(share(&samples));
            assert_eq!(value(&samples, "gc_pause_max_ms"), Some(if second == 1 { 2_500.0 } else { 0.0 }));
        }
        assert_eq!(shares, [1.0, 1.0, 0.5, 0.0]);
    }
}
