//! Little's law on closed loops: where a rate is the number of calls in flight over their latency, the client is the limit, and the
//! rate says how long a call takes and not how many the target could take.

use super::figure;
use crate::model::{Outcome, Trial};

/// How near the product of rate and latency lies to the calls in flight.
const NEAR: f64 = 0.1;
/// Calls that a mean needs.
const CALLS_MIN: u64 = 100;

/// The sentence for people; `None` where no closed loop was measured, or its rate is not bound by its own latency.
#[must_use]
pub(super) fn remark(history: &[Trial]) -> Option<String> {
    let judged = history.iter().filter(|trial| trial.load > 0 && trial.outcome != Outcome::Void);
    let trial = judged.max_by_key(|trial| trial.load)?;
    let closed = trial.operations.iter().filter(|stat| stat.probe && stat.done >= CALLS_MIN);
    let in_flight: Vec<(&str, f64)> =
        closed.map(|stat| (stat.operation.as_str(), stat.ops_per_s * stat.latency.mean_us / 1e6)).collect();
    let bound = !in_flight.is_empty() && in_flight.iter().all(|(_, calls)| (calls - 1.0).abs() <= NEAR);
    bound.then(|| {
        let mean = in_flight.iter().map(|(_, calls)| calls).sum::<f64>() / in_flight.len() as f64;
        format!(
            "the probe has one call in flight, and its rate is one over its latency (rate times latency is {}): it says how long a call takes, not how many the target could take",
            figure((mean * 100.0).round() / 100.0)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judge::tests::{probe, trial};

    fn told(calls: f64) -> Option<String> {
        let mut stat = probe("get", 1_000.0, 1_000);
        stat.latency.mean_us = 1_000.0 * calls;
        remark(&[Trial { outcome: Outcome::Held, ..trial(1, 10, vec![stat]) }])
    }

    #[test]
    fn a_rate_that_is_one_over_its_latency_is_the_clients() {
        assert!(told(0.97).is_some_and(|text| text.contains("is 0.97)")), "{:?}", told(0.97));
        assert_eq!(told(0.5), None, "the client was busy with something else");
        assert_eq!(remark(&[]), None);
    }
}
