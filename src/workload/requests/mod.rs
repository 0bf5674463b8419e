//! `zookeeper.requests`: gets and sets at a rate, open loop, on a set of records.

mod sessions;

use std::sync::Arc;

use serde::Deserialize;

use super::{
    About, Demand, LoadUnit, Site, Workload,
    arrivals::Spacing,
    options,
    paced::{IN_FLIGHT_MAX, Mix, Paced},
    within,
};
use crate::model::{Axis, AxisKind, Fault};
use sessions::Sessions;

/// The name in scenarios.
pub const NAME: &str = "zookeeper.requests";

const OPERATIONS: &[&str] = &["set", "get"];
const SET: u8 = 0;

/// `[load.options]` of this workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Options {
    /// Znodes that are read and written, each as often as any other.
    records: u32,
    value_bytes: u32,
    /// The share of operations that read.
    read_share: f64,
    /// Sessions that carry them, in turns over all servers.
    sessions: u32,
    arrivals: Spacing,
    in_flight_max: u64,
    session_timeout_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            records: 1_000,
            value_bytes: 100,
            read_share: 0.9,
            sessions: 12,
            arrivals: Spacing::Poisson,
            in_flight_max: IN_FLIGHT_MAX,
            session_timeout_ms: 20_000,
        }
    }
}

/// Reads the options.
pub(super) fn build(value: toml::Value) -> Result<Arc<dyn Workload>, Fault> {
    let options: Options = options(value)?;
    within("records", f64::from(options.records), 1.0, 1_000_000.0)?;
    within("value_bytes", f64::from(options.value_bytes), 0.0, 1_000_000.0)?;
    within("read_share", options.read_share, 0.0, 1.0)?;
    within("sessions", f64::from(options.sessions), 1.0, 10_000.0)?;
    within("in_flight_max", options.in_flight_max as f64, 1.0, 1e7)?;
    within("session_timeout_ms", f64::from(options.session_timeout_ms), 1_000.0, 600_000.0)?;
    Ok(Arc::new(Requests { options }))
}

#[derive(Debug)]
struct Requests {
    options: Options,
}

impl Workload for Requests {
    fn about(&self) -> About {
        let axis = Axis { name: "rate", unit: "requests per second", max: 1_000_000, kind: AxisKind::Rate };
        About { name: NAME, axis, operations: OPERATIONS, write_count: 1 }
    }

    fn demand(&self, load: u64) -> Demand {
        let Options { records, sessions, read_share, session_timeout_ms, .. } = self.options;
        let there = u64::from(load > 0);
        Demand {
            sessions: u64::from(sessions) * there,
            session_timeout_ms: u64::from(session_timeout_ms),
            counts: vec![("znodes", u64::from(records) * there, 20), ("sessions", u64::from(sessions) * there, 10)],
            writes_per_s: load as f64 * (1.0 - read_share),
            reads_per_s: load as f64 * read_share,
            ..Demand::default()
        }
    }

    fn unit(&self, site: Site) -> std::io::Result<Box<dyn LoadUnit>> {
        let options = &self.options;
        let mix = Mix {
            operations: OPERATIONS,
            shares: vec![1.0 - options.read_share, options.read_share],
            spacing: options.arrivals,
            in_flight_max: options.in_flight_max,
        };
        let (clock, number, seed) = (site.clock, site.unit, site.seed);
        Ok(Box::new(Paced::new(Sessions::new(options.clone(), site)?, mix, clock, number, seed)))
    }

    fn remarks(&self) -> Vec<String> {
        let Options { records, value_bytes, read_share, sessions, arrivals, in_flight_max, .. } = &self.options;
        vec![
            format!(
                "Of the requests {} % read and the others write, over {sessions} sessions, on {records} znodes of {value_bytes} bytes, each as often as any other.",
                read_share * 100.0
            ),
            arrivals.remark(*in_flight_max),
        ]
    }
}
