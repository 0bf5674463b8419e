//! Summaries: of one stream of operations, of one series, of the generator itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Distribution;

/// Samples below which a percentile is not shown: for 99 % confidence that the sample reaches into the tail.
pub const P99_MIN_SAMPLES: u64 = 459;
/// As [`P99_MIN_SAMPLES`], for the 95th percentile.
pub const P95_MIN_SAMPLES: u64 = 90;
/// As [`P99_MIN_SAMPLES`], for the 99.9th percentile.
pub const P999_MIN_SAMPLES: u64 = 4_603;

/// As [`P99_MIN_SAMPLES`], for the 90th percentile.
pub const P90_MIN_SAMPLES: u64 = 44;
/// As [`P99_MIN_SAMPLES`], for the median.
pub const P50_MIN_SAMPLES: u64 = 7;

/// Latency figures in microseconds. A percentile that needs more samples than there are is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Percentiles {
    pub mean_us: f64,
    pub p50_us: u64,
    pub p95_us: Option<u64>,
    pub p99_us: Option<u64>,
    pub p999_us: Option<u64>,
    pub max_us: u64,
}

/// What one operation of one stream did during one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationStat {
    /// The stream: the workload's or the probe's name, such as `zookeeper.latencies`.
    pub stream: String,
    /// True for a probe's stream, false for the load's own traffic.
    pub probe: bool,
    /// True for operations that change the target (transactions), false for reads.
    #[serde(default)]
    pub write: bool,
    /// The node that was asked, or empty where the stream spans all.
    pub node: String,
    /// The operation, such as `get`.
    pub operation: String,
    /// Operations that ended well.
    pub done: u64,
    /// Seconds over which they were counted.
    pub elapsed_s: f64,
    /// `done / elapsed_s`.
    pub ops_per_s: f64,
    /// Operations that were asked for, where the stream has a schedule or a count.
    pub asked: Option<u64>,
    /// True when the probe was cut by its time limit before it had done all.
    pub cut: bool,
    /// From when the operation was due until its end.
    pub latency: Percentiles,
    /// From when it was sent until its end.
    pub service: Percentiles,
    /// Failures by code, such as `connection_loss`; `not_found` is counted here too where it was not expected.
    pub errors: BTreeMap<String, u64>,
}

impl OperationStat {
    /// Failures of all codes.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Failures over all that ended; 0 when nothing ended.
    #[must_use]
    pub fn error_share(&self) -> f64 {
        let failed = self.failed();
        let all = self.done + failed;
        if all == 0 { 0.0 } else { failed as f64 / all as f64 }
    }
}

/// One series of one node over one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesStat {
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    /// The last reading of the measurement.
    pub last: f64,
    /// Readings; 0 never occurs: an absent series is absent.
    pub readings: u64,
    /// How the readings were spread, where a mean says too little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Of what is counted since the run began: by how much it rose from the begin of the measurement to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rose: Option<f64>,
}

impl SeriesStat {
    /// The summary of readings in time order; `None` without any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let last = *values.last()?;
        Some(Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            last,
            readings: values.len() as u64,
            distribution: None,
            rose: None,
        })
    }
}

/// How fit the generator was during one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// 99th percentile of how late due operations were sent, in microseconds; absent when none were due.
    pub start_lag_p99_us: Option<u64>,
    /// Operations that were due and never sent, because the target had not answered those before.
    pub missed: u64,
    /// Share of all cores of this machine that Rampart used (0..1); absent when it was not sampled.
    pub cpu_share: Option<f64>,
    /// Share of this machine's time that its hypervisor took away (0..1), where the kernel tells it.
    #[serde(default)]
    pub steal_share: Option<f64>,
    /// Cores of this machine.
    #[serde(default)]
    pub cores: u32,
    /// Share of one core that the busiest load thread used (0..1), where it could be read.
    pub busiest_thread_share: Option<f64>,
    /// Open file descriptors of this process.
    pub open_files: u64,
    /// How many it may have; 0: no limit, or not known.
    pub open_files_limit: u64,
    /// How far the wall clock moved against the monotonic one, in milliseconds.
    pub clock_jump_ms: f64,
}

/// The middle of what was measured; between the two middle ones of an even number.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}
