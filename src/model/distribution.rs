//! How the readings of one series were spread over one measurement.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::stat::{P50_MIN_SAMPLES, P90_MIN_SAMPLES, P99_MIN_SAMPLES};

/// Bounds above which readings are counted: outstanding requests of a server that rests, of one at work, of one that
/// falls behind, and ZooKeeper's own limit.
pub const BOUNDS: [u32; 4] = [0, 10, 100, 1_000];

/// Percentiles, and how often a bound was exceeded. What needs more readings than there are is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Distribution {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    /// In the order of their bounds.
    pub above: Vec<Above>,
}

/// How many readings were above a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Above {
    pub bound: u32,
    pub readings: u64,
}

impl Distribution {
    /// Of readings in any order; `None` without any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |percent: usize, least: u64| {
            // The smallest reading that is not below so many of all.
            let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(at).copied().filter(|_| sorted.len() as u64 >= least)
        };
        let above = |bound: u32| {
            let readings = sorted.iter().filter(|value| **value > f64::from(bound)).count() as u64;
            Above { bound, readings }
        };
        Some(Self {
            p50: rank(50, P50_MIN_SAMPLES),
            p90: rank(90, P90_MIN_SAMPLES),
            p99: rank(99, P99_MIN_SAMPLES),
            above: BOUNDS.map(above).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_readings_and_need_enough_of_them() {
        let up_to = |n: u32| Distribution::of(&(1..=n).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!(up_to(500).p50.zip(up_to(500).p90).zip(up_to(500).p99), Some(((250.0, 450.0), 495.0)));
        assert_eq!((up_to(6).p50, up_to(7).p50), (None, Some(4.0)));
        assert_eq!((up_to(43).p90, up_to(44).p90), (None, Some(40.0)));
        assert_eq!((up_to(458).p99, up_to(459).p99), (None, Some(455.0)));
        assert_eq!(Distribution::of(&[]), None);
    }

    #[test]
    fn a_reading_at_a_bound_is_not_above_it() {
        let counted = Distribution::of(&[0.0, 10.0, 11.0, 100.0, 101.0, 1_000.0, 5_000.0]).unwrap();
        let above: Vec<_> = counted.above.iter().map(|above| (above.bound, above.readings)).collect();
        assert_eq!(above, [(0, 6), (10, 5), (100, 3), (1_000, 1)]);
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_higher_bounds_are_exceeded_less(
            mut values in proptest::collection::vec(0.0..2_000.0_f64, 1..600),
        ) {
            let found = Distribution::of(&values).unwrap();
            values.reverse();
            prop_assert_eq!(Distribution::of(&values).unwrap(), found.clone());
            prop_assert!(found.above.is_sorted_by(|a, b| a.readings >= b.readings));
            let known: Vec<f64> = [found.p50, found.p90, found.p99].into_iter().flatten().collect();
            prop_assert!(known.is_sorted() && known.iter().all(|value| values.contains(value)));
        }
    }
}
