//! `zookeeper.domains`: the resident population of a job scheduler's domains on ZooKeeper, and its steady traffic.
//! Source of the model: the znode tree, watches, sessions and traffic of vipshop/Saturn 2.1.3, counted from its source.

mod comeback;
mod connect;
mod disturbances;
mod events;
mod fill;
mod job_runs;
mod leave;
mod members;
mod shape;
mod traffic;
mod unit;

use std::sync::Arc;

use serde::Deserialize;

pub use disturbances::{Burst, Restarts, Storm};
pub use shape::{Owner, Shape, WatchKind};

use super::{About, Demand, LoadUnit, Site, Workload, options, within};
use crate::model::{Axis, AxisKind, Fault};

/// The name in scenarios.
pub const NAME: &str = "zookeeper.domains";

/// Operations of the traffic, by index in the recorder; the last two are whole returns of sessions after a disturbance.
pub const OPERATIONS: &[&str] =
    &["create", "delete", "set", "exists", "get", "children", "rearm", "restart", "reattach"];
/// How many of [`OPERATIONS`], from the first, are transactions; the others are reads.
pub const WRITES: usize = 3;

/// How a domain is registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// As it is in life: one create a znode, one read a watch, by the session that owns it.
    #[default]
    Faithful,
    /// `multi` and `setWatches` in large batches: for backgrounds and benches.
    Fast,
}

/// Which reads the traffic makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// All of the model: about 237 a job run.
    #[default]
    Model,
    /// Only those that arm a fired watch again.
    Rearm,
}

/// Servers that sessions go to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// All servers alike.
    #[default]
    Even,
    Leader,
    Followers,
    Observers,
}

impl Spread {
    /// Whether a server of this role takes sessions.
    fn takes(self, role: &str) -> bool {
        match self {
            Self::Even => true,
            Self::Leader => matches!(role, "leader" | "standalone"),
            Self::Followers => role == "follower",
            Self::Observers => role == "observer",
        }
    }
}

/// `[load.options]` of this workload.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    pub executors: u32,
    pub jobs: u32,
    pub shards: u32,
    pub config_keys: u32,
    pub server_keys: u32,
    /// Registrations of executors that never came back, a domain, as a mean: 214 znodes and 500 watches each.
    pub dead_executors: f64,
    pub fill: Fill,
    /// Domains registered a second, at most; 0: as fast as the server takes them.
    pub fill_per_s: f64,
    /// Which servers the sessions go to.
    pub spread: Spread,
    pub traffic: bool,
    /// Multiplies the rate of the steady traffic.
    pub traffic_factor: f64,
    pub reads: Reads,
    pub session_timeout_ms: u32,
    pub burst: Option<Burst>,
    pub restarts: Option<Restarts>,
    pub storm: Option<Storm>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            executors: 3,
            jobs: 35,
            shards: 3,
            config_keys: 22,
            server_keys: 6,
            dead_executors: 0.0,
            fill: Fill::Faithful,
            fill_per_s: 2.0,
            spread: Spread::Even,
            traffic: true,
            traffic_factor: 1.0,
            reads: Reads::Model,
            session_timeout_ms: 20_000,
            burst: None,
            restarts: None,
            storm: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), Fault> {
        within("executors", f64::from(self.executors), 1.0, 64.0)?;
        within("jobs", f64::from(self.jobs), 1.0, 1_000.0)?;
        within("shards", f64::from(self.shards), 1.0, 64.0)?;
        within("config_keys", f64::from(self.config_keys), 2.0, 64.0)?;
        within("server_keys", f64::from(self.server_keys), 6.0, 64.0)?;
        within("dead_executors", self.dead_executors, 0.0, 1_000.0)?;
        within("fill_per_s", self.fill_per_s, 0.0, 10_000.0)?;
        within("traffic_factor", self.traffic_factor, 0.0, 1_000.0)?;
        within("session_timeout_ms", f64::from(self.session_timeout_ms), 1_000.0, 600_000.0)?;
        disturbances::check(self)
    }

    /// The shape of the domains of these options.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape {
            executors: self.executors,
            jobs: self.jobs,
            shards: self.shards,
            config_keys: self.config_keys,
            server_keys: self.server_keys,
        }
    }
}

/// Reads the options.
pub(super) fn build(value: toml::Value) -> Result<Arc<dyn Workload>, Fault> {
    let options: Options = options(value)?;
    options.check()?;
    Ok(Arc::new(Domains { options }))
}

/// The workload with its options.
#[derive(Debug, Clone)]
pub struct Domains {
    pub options: Options,
}

impl Workload for Domains {
    fn about(&self) -> About {
        let axis = Axis { name: "domains", unit: "domains", max: 100_000, kind: AxisKind::Population };
        About { name: NAME, axis, operations: OPERATIONS, write_count: WRITES }
    }

    fn demand(&self, load: u64) -> Demand {
        let shape = self.options.shape();
        let dead = shape::dead_up_to(self.options.dead_executors, load);
        let znodes = load * shape.znodes() + dead * shape.dead_znodes();
        let watches = load * shape.watches() + dead * shape.dead_watches();
        let ephemerals = load * shape.ephemerals();
        // Items that run are one ephemeral more each; fired watches are armed again a moment later.
        let busy = if self.options.traffic { self.options.traffic_factor.clamp(1.0, 15.0) } else { 0.0 };
        let running = load as f64 * f64::from(self.options.jobs * self.options.shards) / 20.0 * busy;
        let traffic = traffic::Rates::of(&self.options);
        let per_member = if self.options.fill_per_s > 0.0 { 1.0 / self.options.fill_per_s } else { 0.5 };
        Demand {
            parts: vec![
                ("executors", load * u64::from(self.options.executors)),
                ("jobs", load * u64::from(self.options.jobs)),
            ],
            sessions: load * u64::from(shape.sessions()),
            session_timeout_ms: u64::from(self.options.session_timeout_ms),
            fill_s_per_member: per_member,
            counts: vec![
                ("znodes", znodes, znodes / 200 + 20),
                ("watches", watches, watches / 100 + 20),
                ("ephemerals", ephemerals, tolerance(running * 3.0) + 10),
                ("sessions", load * u64::from(shape.sessions()), 10),
            ],
            writes_per_s: traffic.writes_per_s * load as f64,
            reads_per_s: traffic.reads_per_s * load as f64,
        }
    }

    fn unit(&self, site: Site) -> std::io::Result<Box<dyn LoadUnit>> {
        Ok(Box::new(unit::Unit::new(self.options.clone(), site)?))
    }

    fn remarks(&self) -> Vec<String> {
        let Options {
            executors, jobs, shards, fill, fill_per_s, traffic, traffic_factor, reads, dead_executors, ..
        } = &self.options;
        let shape = self.options.shape();
        let mut remarks = vec![format!(
            "A domain has {executors} executors, {jobs} jobs and {shards} shards a job: {} znodes ({} ephemeral), {} watches, {} sessions.",
            shape.znodes(),
            shape.ephemerals(),
            shape.watches(),
            shape.sessions()
        )];
        remarks.push(match fill {
            Fill::Faithful if *fill_per_s > 0.0 => format!(
                "Domains register as in life (single creates, reads with watch), {fill_per_s} a second at most."
            ),
            Fill::Faithful => {
                "Domains register as in life (single creates, reads with watch), as fast as the server takes them."
                    .to_owned()
            }
            Fill::Fast => "Domains were filled with multi and setWatches, not as an application registers.".to_owned(),
        });
        remarks.push(if *traffic {
            let which = match reads {
                Reads::Model => "all reads of the model",
                Reads::Rearm => "only the reads that arm watches again",
            };
            let rates = traffic::Rates::of(&self.options);
            format!("Steady traffic at {traffic_factor} times the model: {:.2} transactions and {:.1} reads a second and domain ({which}).", rates.writes_per_s, rates.reads_per_s)
        } else {
            "No steady traffic: the population rests.".to_owned()
        });
        if *dead_executors > 0.0 {
            remarks.push(format!(
                "Each domain holds {dead_executors} registrations of executors that never came back, in the mean."
            ));
        }
        remarks.extend(disturbances::remarks(&self.options));
        remarks
    }
}

/// A tolerance as a count.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 45 times 100,000 domains' items")]
fn tolerance(count: f64) -> u64 {
    count.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outside_their_range_are_named() {
        let fault = build(toml::from_str("executors = 0").unwrap()).unwrap_err();
        assert_eq!(fault.field, "executors");
        assert!(fault.message.contains("is 0; allowed: 1 to 64"), "{fault}");
        let fault = build(toml::from_str("fil = \"fast\"").unwrap()).unwrap_err();
        assert!(fault.field == "fil" && fault.message.contains("fill_per_s"), "{fault}");
    }

    #[test]
    fn the_demand_of_the_reports_700_domains() {
        let demand = Domains { options: Options::default() }.demand(700);
        assert_eq!(demand.sessions, 4_200);
        assert_eq!(demand.counts[0].1, 1_537_200);
        assert_eq!(demand.counts[1].1, 4_015_200);
        assert!((demand.writes_per_s - 8_085.0).abs() < 1.0, "{}", demand.writes_per_s);
    }
}
