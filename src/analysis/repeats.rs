//! A capacity from several searches: their median, and an interval that says how sure it is.

use super::figure;
use crate::model::CapacityInterval;

/// An interval wider than this share of the median names no capacity.
pub(super) const WIDTH_MAX: f64 = 0.10;
/// What an interval should cover, where there are searches enough.
const CONFIDENCE: f64 = 0.9375;

/// The median of capacities and an interval between two of them. Between the `k`-th smallest and the `k`-th largest of `n`
/// independent values lies their true median with the probability that a fair coin shows between `k` and `n - k` heads in `n` throws
/// (order statistics; no distribution is assumed). The narrowest that covers enough is taken, else all of them. `None` with fewer
/// than two.
#[must_use]
pub(super) fn interval(capacities: &[u64]) -> Option<CapacityInterval> {
    let mut sorted = capacities.to_vec();
    sorted.sort_unstable();
    let count = sorted.len();
    if count < 2 {
        return None;
    }
    let ranks = 1..=count / 2;
    let rank = ranks.clone().rev().find(|rank| covered(count, *rank) >= CONFIDENCE).unwrap_or(1);
    let values: Vec<f64> = sorted.iter().map(|capacity| *capacity as f64).collect();
    Some(CapacityInterval {
        searches: u32::try_from(count).unwrap_or(u32::MAX),
        median: crate::model::stat::median(&values),
        low: sorted[rank - 1],
        high: sorted[count - rank],
        confidence: covered(count, rank),
    })
}

/// One less twice the chance of fewer than `rank` heads in `count` throws.
fn covered(count: usize, rank: usize) -> f64 {
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for heads in 0..rank {
        below += term;
        term *= (count - heads) as f64 / (heads + 1) as f64;
    }
    1.0 - 2.0 * below
}

/// Whether it is too wide to name a capacity.
#[must_use]
pub(super) fn is_wide(interval: &CapacityInterval) -> bool {
    width(interval) > WIDTH_MAX
}

fn width(interval: &CapacityInterval) -> f64 {
    if interval.median > 0.0 { (interval.high - interval.low) as f64 / interval.median } else { f64::INFINITY }
}

/// The sentence for people.
#[must_use]
pub(super) fn words(interval: &CapacityInterval, unit: &str) -> String {
    let text = format!(
        "The capacity is {} {unit}, the median of {} searches; it lies between {} and {} with {} % confidence",
        figure(interval.median),
        interval.searches,
        figure(interval.low as f64),
        figure(interval.high as f64),
        figure((interval.confidence * 1_000.0).round() / 10.0)
    );
    if is_wide(interval) {
        format!(
            "{text}: {} % apart, more than the {} % that name a capacity.",
            figure((width(interval) * 100.0).round()),
            figure(WIDTH_MAX * 100.0)
        )
    } else {
        format!("{text}.")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_confidence_is_that_of_order_statistics() {
        let of = |count: u64| interval(&(1..=count).collect::<Vec<_>>()).unwrap();
        assert!((of(3).confidence - 0.75).abs() < 1e-9 && (of(5).confidence - 0.9375).abs() < 1e-9);
        assert_eq!((of(5).low, of(5).high, of(5).median), (1, 5, 3.0));
        // With nine the second on each side covers 96.1 %.
        assert_eq!((of(9).low, of(9).high), (2, 8));
        assert!((of(9).confidence - 0.961).abs() < 0.001, "{}", of(9).confidence);
        assert_eq!(interval(&[7]), None);
    }

    #[test]
    fn what_is_too_wide_says_so() {
        let wide = interval(&[900, 1_000, 1_100]).unwrap();
        assert!(
            is_wide(&wide) && words(&wide, "domains").ends_with("20 % apart, more than the 10 % that name a capacity.")
        );
        let narrow = interval(&[990, 1_000, 1_010, 1_000, 995]).unwrap();
        assert!(
            !is_wide(&narrow) && words(&narrow, "domains").contains("with 93.8 % confidence."),
            "{}",
            words(&narrow, "domains")
        );
    }

    proptest! {
        #[test]
        fn the_median_lies_within(capacities in proptest::collection::vec(0_u64..1_000_000, 2..40)) {
            let found = interval(&capacities).unwrap();
            prop_assert!(found.low as f64 <= found.median && found.median <= found.high as f64);
            prop_assert!(found.confidence > 0.49 && found.confidence < 1.0);
        }
    }
}
