//! Whether a target has settled after a change of load.

use crate::model::Sample;

/// Readings that must agree.
const WINDOW: usize = 3;
/// Largest distance from their mean, as a share of it.
const SPREAD: f64 = 0.10;
/// Rates and queues below this are noise, not movement.
const NEGLIGIBLE: f64 = 5.0;

/// Whether the last readings of transactions and outstanding requests of every node lie within 10 % of their mean.
#[must_use]
pub fn is_steady(samples: &[Sample], from_ns: i64) -> bool {
    let mut any = false;
    for metric in ["transactions_per_s", "outstanding_requests"] {
        let mut nodes: Vec<&str> = samples.iter().filter(|s| s.metric == metric).map(|s| s.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            let values: Vec<f64> = samples
                .iter()
                .filter(|s| s.metric == metric && s.node == node && s.at_ns >= from_ns)
                .map(|s| s.value)
                .collect();
            let Some(last) = values.len().checked_sub(WINDOW).map(|start| &values[start..]) else { return false };
            any = true;
            let mean = last.iter().sum::<f64>() / WINDOW as f64;
            if last.iter().any(|value| (value - mean).abs() > (SPREAD * mean).max(NEGLIGIBLE)) {
                return false;
            }
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Vec<Sample> {
        let sample = |(at, value): (usize, &f64)| Sample {
            at_ns: at as i64,
            node: "a".into(),
            metric: "transactions_per_s".into(),
            value: *value,
        };
        values.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn only_readings_that_agree_are_steady() {
        assert!(is_steady(&series(&[10.0, 900.0, 1_000.0, 1_020.0, 990.0]), 0));
        assert!(!is_steady(&series(&[1_000.0, 1_000.0, 1_200.0]), 0));
        assert!(!is_steady(&series(&[1_000.0, 1_000.0]), 0));
        assert!(!is_steady(&series(&[1_000.0, 1_000.0, 1_000.0]), 1), "readings from before the change do not count");
        assert!(!is_steady(&[], 0));
    }
}
