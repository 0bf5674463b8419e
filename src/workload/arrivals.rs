//! When the operations of an open schedule are due: reckoned from one absolute start, whatever the target does.

use rand::{SeedableRng as _, rngs::SmallRng};
use rand_distr::{Distribution as _, Exp1};
use serde::Deserialize;

/// How operations are spread over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// As those of many users who know nothing of each other: gaps are exponential.
    #[default]
    Poisson,
    /// One after the other at the same distance.
    Constant,
}

impl Spacing {
    /// What a reader of the result must know, in a sentence.
    #[must_use]
    pub fn remark(self, in_flight_max: u64) -> String {
        let how = match self {
            Self::Poisson => "as of many independent users (Poisson)",
            Self::Constant => "at the same distance",
        };
        format!(
            "Operations fall due {how}, whether or not those before were answered; what falls due while {in_flight_max} are under way is missed, and counted."
        )
    }
}

/// Due times of one rate.
#[derive(Debug)]
pub struct Arrivals {
    spacing: Spacing,
    random: SmallRng,
    start_ns: i64,
    /// Between two, as a mean; 0: nothing falls due.
    gap_ns: f64,
    /// How many fell due since the start.
    count: u64,
    /// When the next one is due, after the start.
    next_ns: f64,
}

impl Arrivals {
    #[must_use]
    pub fn new(spacing: Spacing, seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self { spacing, random, start_ns: 0, gap_ns: 0.0, count: 0, next_ns: 0.0 }
    }

    /// From `start_ns` on so many fall due each second; none at 0.
    pub fn begin(&mut self, per_s: u64, start_ns: i64) {
        self.start_ns = start_ns;
        self.gap_ns = if per_s == 0 { 0.0 } else { 1e9 / per_s as f64 };
        (self.count, self.next_ns) = (0, 0.0);
        self.step();
    }

    /// When the next operation is due; `None`: none ever.
    #[must_use]
    pub fn next_ns(&self) -> Option<i64> {
        #[expect(clippy::cast_possible_truncation, reason = "nanoseconds of a run, far below 2^53")]
        (self.gap_ns > 0.0).then(|| self.start_ns.saturating_add(self.next_ns as i64))
    }

    /// The next operation that is due by now.
    pub fn pop(&mut self, now_ns: i64) -> Option<i64> {
        let due_ns = self.next_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.step();
        Some(due_ns)
    }

    fn step(&mut self) {
        self.count += 1;
        self.next_ns = match self.spacing {
            // From the count, so that no rounding adds up.
            Spacing::Constant => self.count as f64 * self.gap_ns,
            Spacing::Poisson => {
                let gap: f64 = Exp1.sample(&mut self.random);
                self.next_ns + gap * self.gap_ns
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(spacing: Spacing, per_s: u64, until_ns: i64) -> Vec<i64> {
        let mut arrivals = Arrivals::new(spacing, 7);
        arrivals.begin(per_s, 1_000);
        std::iter::from_fn(|| arrivals.pop(until_ns)).collect()
    }

    #[test]
    fn a_constant_rate_never_drifts() {
        let due = due(Spacing::Constant, 3_333, 3_600_000_001_000);
        assert_eq!(due.len(), 3_333 * 3_600);
        assert_eq!(due.last(), Some(&3_600_000_001_000), "the last one of an hour is due at its end");
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let due = due(Spacing::Poisson, 10_000, 60_000_001_000);
        let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.01, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn nothing_falls_due_at_no_rate_or_before_its_time() {
        let mut arrivals = Arrivals::new(Spacing::Constant, 1);
        assert_eq!(arrivals.next_ns(), None);
        arrivals.begin(0, 5);
        assert_eq!((arrivals.next_ns(), arrivals.pop(i64::MAX)), (None, None));
        arrivals.begin(1_000, 5);
        assert_eq!((arrivals.pop(1_000_004), arrivals.pop(1_000_005)), (None, Some(1_000_005)));
    }
}
