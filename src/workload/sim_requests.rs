//! `sim.requests`: requests at a rate to a simulated system.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc, time::Duration};

use serde::Deserialize;

use super::{
    About, Demand, LoadUnit, Site, Workload,
    arrivals::Spacing,
    options,
    paced::{IN_FLIGHT_MAX, Mix, Paced, Service, Ticket},
    within,
};
use crate::{
    model::{Axis, AxisKind, Clock, Fault, Incident},
    target::sim::{Answer, Handle, SimSpec},
};

/// The name in scenarios.
pub const NAME: &str = "sim.requests";

const OPERATIONS: &[&str] = &["request"];

/// `[load.options]` of this workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    arrivals: Spacing,
    in_flight_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { arrivals: Spacing::Poisson, in_flight_max: IN_FLIGHT_MAX }
    }
}

/// Reads the options.
pub(super) fn build(value: toml::Value) -> Result<Arc<dyn Workload>, Fault> {
    let options: Options = options(value)?;
    within("in_flight_max", options.in_flight_max as f64, 1.0, 1e7)?;
    Ok(Arc::new(SimRequests { options }))
}

#[derive(Debug)]
struct SimRequests {
    options: Options,
}

impl Workload for SimRequests {
    fn about(&self) -> About {
        let axis = Axis { name: "rate", unit: "requests per second", max: 1_000_000, kind: AxisKind::Rate };
        About { name: NAME, axis, operations: OPERATIONS, write_count: 0 }
    }

    fn demand(&self, load: u64) -> Demand {
        Demand { reads_per_s: load as f64, ..Demand::default() }
    }

    fn unit(&self, site: Site) -> std::io::Result<Box<dyn LoadUnit>> {
        let spec = site.target.sim().ok_or_else(|| std::io::Error::other("the target is not simulated"))?;
        let service = client(spec, site.clock);
        let mix = Mix {
            operations: OPERATIONS,
            shares: vec![1.0],
            spacing: self.options.arrivals,
            in_flight_max: self.options.in_flight_max,
        };
        Ok(Box::new(Paced::new(service, mix, site.clock, site.unit, site.seed)))
    }

    fn remarks(&self) -> Vec<String> {
        vec![self.options.arrivals.remark(self.options.in_flight_max)]
    }
}

/// Carries requests to a simulated system in real time.
#[must_use]
pub fn client(spec: &SimSpec, clock: Clock) -> impl Service + std::fmt::Debug + use<> {
    Client { handle: Handle::of(spec), clock, waiting: BinaryHeap::new() }
}

/// When a request ends, which it is, and how it ends.
type Waiting = Reverse<(i64, Ticket, Result<(), &'static str>)>;

/// Holds what the system will have answered until it is time.
#[derive(Debug)]
struct Client {
    handle: Handle,
    clock: Clock,
    waiting: BinaryHeap<Waiting>,
}

impl Service for Client {
    fn make_ready(&mut self) -> Result<bool, (bool, String)> {
        Ok(true)
    }

    fn send(&mut self, ticket: Ticket) -> Result<(), &'static str> {
        let (at_ns, result) = match self.handle.arrive(ticket.sent_ns) {
            Answer::Done { at_ns } => (at_ns, Ok(())),
            Answer::Failed { at_ns, code } => (at_ns, Err(code)),
        };
        self.waiting.push(Reverse((at_ns, ticket, result)));
        Ok(())
    }

    fn turn(&mut self, wait: Duration, ended: &mut dyn FnMut(Ticket, Result<(), &'static str>)) {
        let until = self.waiting.peek().map_or(i64::MAX, |Reverse((at_ns, ..))| *at_ns) - self.clock.now_ns();
        std::thread::sleep(wait.min(Duration::from_nanos(u64::try_from(until).unwrap_or(0))));
        let now_ns = self.clock.now_ns();
        while let Some(Reverse((_, ticket, result))) =
            self.waiting.peek().filter(|Reverse((at_ns, ..))| *at_ns <= now_ns).copied()
        {
            self.waiting.pop();
            ended(ticket, result);
        }
    }

    fn incidents(&mut self) -> Vec<Incident> {
        Vec::new()
    }

    fn close(&mut self) {
        self.waiting.clear();
    }
}
