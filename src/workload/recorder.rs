//! Histograms and counts of one thread. Nothing here is shared, locked or allocated per operation.

use std::collections::BTreeMap;

use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};
use serde::{Deserialize, Serialize};

use crate::model::{OperationStat, Percentiles, stat};

/// The longest latency that is told apart, in microseconds; longer ones are counted as this long.
pub const MAX_US: u64 = 600_000_000;

/// A histogram of microseconds with explicit bounds: an auto-resizing one clamps silently.
#[must_use]
pub fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_US, digits).expect("1..600 s at 1 to 5 digits are bounds that HdrHistogram takes")
}

/// A histogram and what it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedHistogram {
    /// The server that was asked; empty where the stream spans all.
    pub node: String,
    pub operation: String,
    /// `ok`, or an error code.
    pub outcome: String,
    /// `due` or `service`.
    pub clock: String,
    pub count: u64,
    /// HdrHistogram V2 with deflate, of microseconds.
    pub v2_deflate: Vec<u8>,
}

impl NamedHistogram {
    /// Encodes a histogram; an empty one gives `None`.
    #[must_use]
    pub fn of(node: &str, operation: &str, outcome: &str, clock: &str, histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).ok()?;
        Some(Self {
            node: node.to_owned(),
            operation: operation.to_owned(),
            outcome: outcome.to_owned(),
            clock: clock.to_owned(),
            count: histogram.len(),
            v2_deflate: bytes,
        })
    }

    /// Decodes it again.
    #[must_use]
    pub fn decode(&self) -> Option<Histogram<u64>> {
        Deserializer::new().deserialize(&mut self.v2_deflate.as_slice()).ok()
    }
}

/// What one unit did between two cuts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    pub from_ns: i64,
    pub to_ns: i64,
    pub unit: u32,
    /// Counts up by one a block: a gap is a lost block.
    pub sequence: u64,
    /// Operations that fell due, by operation.
    pub asked: BTreeMap<String, u64>,
    /// Operations that ended well.
    pub done: BTreeMap<String, u64>,
    /// Failures, by operation and code: `get/connection_loss`.
    pub failed: BTreeMap<String, u64>,
    /// Due operations that were never sent.
    pub missed: u64,
    /// Operations under way at the end, where the unit counts them.
    #[serde(default)]
    pub in_flight: Option<u64>,
    pub histograms: Vec<NamedHistogram>,
    /// How late due operations were sent.
    pub start_lag: Option<NamedHistogram>,
    /// Share of one core that this unit's thread used (0..1), where it could be read.
    pub thread_share: Option<f64>,
}

/// Counts and histograms of a fixed list of operations, indexed by position.
#[derive(Debug)]
pub struct Recorder {
    names: &'static [&'static str],
    unit: u32,
    sequence: u64,
    from_ns: i64,
    asked: Vec<u64>,
    done: Vec<u64>,
    failed: BTreeMap<(usize, &'static str), u64>,
    missed: u64,
    due: Vec<Histogram<u64>>,
    service: Vec<Histogram<u64>>,
    lag: Histogram<u64>,
}

impl Recorder {
    /// A recorder of these operations; two digits, since a unit reports every second.
    #[must_use]
    pub fn new(names: &'static [&'static str], unit: u32, now_ns: i64) -> Self {
        let histograms = || names.iter().map(|_| histogram(2)).collect::<Vec<_>>();
        Self {
            names,
            unit,
            sequence: 0,
            from_ns: now_ns,
            asked: vec![0; names.len()],
            done: vec![0; names.len()],
            failed: BTreeMap::new(),
            missed: 0,
            due: histograms(),
            service: histograms(),
            lag: histogram(2),
        }
    }

    /// Operations fell due.
    pub fn ask(&mut self, operation: usize, count: u64) {
        self.asked[operation] += count;
    }

    /// A due operation was sent this late.
    pub fn lag(&mut self, lag_ns: i64) {
        self.lag.saturating_record(micros(lag_ns));
    }

    /// Due operations will never be sent.
    pub fn miss(&mut self, count: u64) {
        self.missed += count;
    }

    /// An operation ended well.
    pub fn done(&mut self, operation: usize, due_ns: i64, sent_ns: i64, now_ns: i64) {
        self.done[operation] += 1;
        self.due[operation].saturating_record(micros(now_ns - due_ns));
        self.service[operation].saturating_record(micros(now_ns - sent_ns));
    }

    /// An operation failed with a code.
    pub fn fail(&mut self, operation: usize, code: &'static str) {
        *self.failed.entry((operation, code)).or_default() += 1;
    }

    /// What happened since the last cut; begins anew.
    pub fn cut(&mut self, now_ns: i64) -> Block {
        let counts = |values: &[u64]| {
            self.names.iter().zip(values).filter(|(_, n)| **n > 0).map(|(name, n)| ((*name).to_owned(), *n)).collect()
        };
        let mut histograms = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            histograms.extend(NamedHistogram::of("", name, "ok", "due", &self.due[index]));
            histograms.extend(NamedHistogram::of("", name, "ok", "service", &self.service[index]));
        }
        let block = Block {
            from_ns: self.from_ns,
            to_ns: now_ns,
            unit: self.unit,
            sequence: self.sequence,
            asked: counts(&self.asked),
            done: counts(&self.done),
            failed: self.failed.iter().map(|((op, code), n)| (format!("{}/{code}", self.names[*op]), *n)).collect(),
            missed: self.missed,
            in_flight: None,
            histograms,
            start_lag: NamedHistogram::of("", "start", "ok", "due", &self.lag),
            thread_share: None,
        };
        self.sequence += 1;
        self.from_ns = now_ns;
        self.asked.fill(0);
        self.done.fill(0);
        self.failed.clear();
        self.missed = 0;
        self.due.iter_mut().chain(&mut self.service).filter(|h| !h.is_empty()).for_each(Histogram::reset);
        self.lag.reset();
        block
    }
}

/// Merges blocks of one measurement, of any number of units, into summaries and whole histograms.
#[derive(Debug, Default)]
pub struct Merged {
    asked: BTreeMap<String, u64>,
    done: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    histograms: BTreeMap<(String, String, String), Histogram<u64>>,
    lag: Option<Histogram<u64>>,
    pub missed: u64,
    units: BTreeMap<u32, Unit>,
}

/// What was merged of one unit.
#[derive(Debug, Default)]
struct Unit {
    covered_ns: i64,
    thread_covered_ns: i64,
    thread_ns: f64,
    last: Option<u64>,
    gap: bool,
}

impl Merged {
    /// Adds one block.
    pub fn add(&mut self, block: &Block) {
        let Block {
            from_ns,
            to_ns,
            unit,
            sequence,
            asked,
            done,
            failed,
            missed,
            histograms,
            start_lag,
            thread_share,
            ..
        } = block;
        for (into, from) in [(&mut self.asked, asked), (&mut self.done, done), (&mut self.failed, failed)] {
            for (name, count) in from {
                *into.entry(name.clone()).or_default() += count;
            }
        }
        self.missed += missed;
        let of_unit = self.units.entry(*unit).or_default();
        let covered_ns = to_ns - from_ns;
        of_unit.covered_ns += covered_ns;
        of_unit.gap |= of_unit.last.is_some_and(|last| last + 1 != *sequence);
        of_unit.last = Some(*sequence);
        if let Some(share) = thread_share {
            of_unit.thread_covered_ns += covered_ns;
            of_unit.thread_ns += share * covered_ns as f64;
        }
        for named in histograms {
            let Some(decoded) = named.decode() else { continue };
            let key = (named.operation.clone(), named.outcome.clone(), named.clock.clone());
            add(self.histograms.entry(key).or_insert_with(|| histogram(2)), &decoded);
        }
        if let Some(decoded) = start_lag.as_ref().and_then(NamedHistogram::decode) {
            add(self.lag.get_or_insert_with(|| histogram(2)), &decoded);
        }
    }

    /// 99th percentile of start lag in microseconds; `None` without any scheduled operation.
    #[must_use]
    pub fn start_lag_p99_us(&self) -> Option<u64> {
        self.lag.as_ref().filter(|lag| !lag.is_empty()).map(|lag| lag.value_at_quantile(0.99))
    }

    /// Seconds that the blocks of each unit cover, the least of all units: what rates are to be divided by.
    #[must_use]
    pub fn covered_s(&self) -> f64 {
        self.units.values().map(|unit| unit.covered_ns as f64 / 1e9).min_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// Share of one core that the busiest unit's thread used (0..1), over all its blocks.
    #[must_use]
    pub fn thread_share(&self) -> Option<f64> {
        let share = |unit: &Unit| (unit.thread_covered_ns > 0).then(|| unit.thread_ns / unit.thread_covered_ns as f64);
        self.units.values().filter_map(share).max_by(f64::total_cmp)
    }

    /// Whether a block between two others never came.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        self.units.values().any(|unit| unit.gap)
    }

    /// One summary an operation, over `elapsed_s` seconds.
    #[must_use]
    pub fn stats(&self, stream: &str, elapsed_s: f64) -> Vec<OperationStat> {
        let mut names: Vec<&String> = self.asked.keys().chain(self.done.keys()).collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .map(|name| {
                let done = self.done.get(name).copied().unwrap_or(0);
                let latency = |clock: &str| {
                    let key = (name.clone(), "ok".to_owned(), clock.to_owned());
                    self.histograms.get(&key).map(percentiles).unwrap_or_default()
                };
                OperationStat {
                    stream: stream.to_owned(),
                    operation: name.clone(),
                    done,
                    elapsed_s,
                    ops_per_s: if elapsed_s > 0.0 { done as f64 / elapsed_s } else { 0.0 },
                    asked: self.asked.get(name).copied(),
                    latency: latency("due"),
                    service: latency("service"),
                    errors: self
                        .failed
                        .iter()
                        .filter_map(|(key, count)| {
                            let (operation, code) = key.split_once('/')?;
                            (operation == name).then(|| (code.to_owned(), *count))
                        })
                        .collect(),
                    ..OperationStat::default()
                }
            })
            .collect()
    }

    /// The merged histograms, encoded.
    #[must_use]
    pub fn histograms(&self) -> Vec<NamedHistogram> {
        self.histograms
            .iter()
            .filter_map(|((operation, outcome, clock), histogram)| {
                NamedHistogram::of("", operation, outcome, clock, histogram)
            })
            .collect()
    }
}

fn add(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    // Both have the same bounds, so that addition cannot fail; a histogram of another origin is counted value by value.
    if into.add(from).is_err() {
        for value in from.iter_recorded() {
            into.saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
    }
}

/// The figures of a histogram of microseconds; those that need more samples than there are stay absent.
#[must_use]
pub fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let count = histogram.len();
    if count == 0 {
        return Percentiles::default();
    }
    let at = |quantile: f64, least: u64| (count >= least).then(|| histogram.value_at_quantile(quantile));
    Percentiles {
        mean_us: histogram.mean(),
        p50_us: histogram.value_at_quantile(0.5),
        p95_us: at(0.95, stat::P95_MIN_SAMPLES),
        p99_us: at(0.99, stat::P99_MIN_SAMPLES),
        p999_us: at(0.999, stat::P999_MIN_SAMPLES),
        max_us: histogram.max(),
    }
}

/// Nanoseconds as whole microseconds, at least 1: what a histogram can hold.
#[must_use]
pub fn micros(ns: i64) -> u64 {
    u64::try_from(ns / 1_000).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_two_units_merge_to_what_one_would_have_seen() {
        let names: &[&str] = &["get"];
        let (mut one, mut two, mut whole) =
            (Recorder::new(names, 0, 0), Recorder::new(names, 1, 0), Recorder::new(names, 0, 0));
        for us in 1..2_000_i64 {
            let half = if us % 2 == 0 { &mut one } else { &mut two };
            for recorder in [half, &mut whole] {
                recorder.ask(0, 1);
                recorder.lag(us * 10);
                recorder.done(0, 0, us * 500, us * 1_000);
            }
        }
        two.fail(0, "no_node");
        whole.fail(0, "no_node");
        let merge = |blocks: &[Block]| {
            let mut merged = Merged::default();
            blocks.iter().for_each(|block| merged.add(block));
            (merged.stats("s", 2.0), merged.start_lag_p99_us())
        };
        let split = merge(&[one.cut(5), two.cut(5)]);
        assert_eq!(split, merge(&[whole.cut(5)]));
        assert_eq!(split.0[0].done, 1_999);
        assert_eq!(split.0[0].errors["no_node"], 1);
        assert!((990..=1_010).contains(&split.0[0].latency.p50_us), "{:?}", split.0[0].latency);
    }

    #[test]
    fn latencies_beyond_the_bounds_are_kept_as_the_longest() {
        let mut recorder = Recorder::new(&["get"], 0, 0);
        recorder.done(0, 0, 0, 3_600_000_000_000);
        let mut merged = Merged::default();
        merged.add(&recorder.cut(1));
        assert!(merged.stats("s", 1.0)[0].latency.max_us >= MAX_US);
    }
}
