//! What this machine's generator can send at most: operations at a rate to a service that answers at once.

use std::{collections::VecDeque, time::Duration};

use super::{
    LoadUnit as _,
    arrivals::Spacing,
    paced::{Mix, Paced, Service, Ticket},
};
use crate::model::{Clock, Incident, Load};

/// What one thread can send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// The highest rate that was kept.
    pub per_s: u64,
    /// How late operations were sent at that rate, in microseconds.
    pub start_lag_p50_us: u64,
    pub start_lag_p99_us: u64,
}

/// One rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paces {
    /// Operations that ended over those that should have fallen due by the clock.
    pub achieved: f64,
    pub start_lag_p50_us: u64,
    pub start_lag_p99_us: u64,
    /// Latency from due, in microseconds.
    pub p99_us: u64,
}

/// A rate is kept when so much of it is sent, and nearly all in good time.
const KEPT: f64 = 0.999;
const LAG_P99_US: u64 = 20_000;
const START_PER_S: u64 = 20_000;
/// Between two rates that are tried, as a share.
const STEP: f64 = 1.15;

/// Raises the rate until it is not kept any more. Takes about `each` for every rate, some twenty of them.
#[must_use]
pub fn measure(clock: Clock, each: Duration) -> Ceiling {
    let mut ceiling = Ceiling { per_s: 0, start_lag_p50_us: 0, start_lag_p99_us: 0 };
    let mut per_s = START_PER_S;
    loop {
        let paces = keep_null(clock, per_s, each);
        if paces.achieved < KEPT || paces.start_lag_p99_us > LAG_P99_US {
            return ceiling;
        }
        ceiling = Ceiling { per_s, start_lag_p50_us: paces.start_lag_p50_us, start_lag_p99_us: paces.start_lag_p99_us };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate, below 2^53")]
        let more = (per_s as f64 * STEP) as u64;
        per_s = more;
    }
}

/// Sends at a constant rate for a time on this thread, and tells how well that went.
#[must_use]
pub fn keep<S: Service>(service: S, clock: Clock, per_s: u64, time: Duration) -> Paces {
    let mix = Mix { operations: &["null"], shares: vec![1.0], spacing: Spacing::Constant, in_flight_max: u64::MAX };
    let mut unit = Paced::new(service, mix, clock, 0, 1);
    unit.prepare(&Load::Rate { axis: "rate".to_owned(), per_s });
    // Warm: the first moments of a thread are not those that count.
    unit.turn(clock.now_ns() + 200_000_000);
    drop(unit.report());
    let from_ns = clock.now_ns();
    unit.turn(from_ns + crate::model::clock::nanos(time));
    let block = unit.report().block;
    unit.stop();
    let seconds = (block.to_ns - block.from_ns) as f64 / 1e9;
    let done: u64 = block.done.values().sum();
    let decoded = |named: &super::recorder::NamedHistogram| named.decode();
    let lag = block.start_lag.as_ref().and_then(decoded);
    let at = |quantile: f64| lag.as_ref().map_or(0, |lag| lag.value_at_quantile(quantile));
    let due = block.histograms.iter().find(|named| named.clock == "due").and_then(decoded);
    Paces {
        achieved: done as f64 / (per_s as f64 * seconds),
        start_lag_p50_us: at(0.5),
        start_lag_p99_us: at(0.99),
        p99_us: due.map_or(0, |due| due.value_at_quantile(0.99)),
    }
}

/// As [`keep`], to a service that answers at once.
#[must_use]
pub fn keep_null(clock: Clock, per_s: u64, time: Duration) -> Paces {
    keep(Null::default(), clock, per_s, time)
}

/// Answers at once.
#[derive(Debug, Default)]
struct Null(VecDeque<Ticket>);

impl Service for Null {
    fn make_ready(&mut self) -> Result<bool, (bool, String)> {
        Ok(true)
    }

    fn send(&mut self, ticket: Ticket) -> Result<(), &'static str> {
        self.0.push_back(ticket);
        Ok(())
    }

    fn turn(&mut self, wait: Duration, ended: &mut dyn FnMut(Ticket, Result<(), &'static str>)) {
        if self.0.is_empty() && !wait.is_zero() {
            std::thread::sleep(wait);
        }
        self.0.drain(..).for_each(|ticket| ended(ticket, Ok(())));
    }

    fn incidents(&mut self) -> Vec<Incident> {
        Vec::new()
    }

    fn close(&mut self) {
        self.0.clear();
    }
}
