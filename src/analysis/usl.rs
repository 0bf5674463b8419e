//! Gunther's universal scalability law, fitted to what was measured: it explains how throughput grows with what is under way, and
//! never decides. Source: N. J. Gunther, Guerrilla Capacity Planning, 2007: X(N) = L N / (1 + s (N - 1) + k N (N - 1)).

use super::figure;
use crate::model::{Outcome, Trial};

/// A fit, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fit {
    /// Throughput of one under way, contention, coherence, and with how many throughput is highest.
    Fitted { one_per_s: f64, contention: f64, coherence: f64, peak: f64 },
    /// The measurements do not reach far enough to tell.
    NotIdentifiable,
}

/// Fewer points say nothing.
const POINTS_MIN: usize = 6;

/// Fits by least squares: N / X is linear in 1, N - 1 and N (N - 1). Points are (under way, per second).
#[must_use]
pub(super) fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let usable: Vec<(f64, f64)> = points.iter().copied().filter(|(n, x)| *n > 0.0 && *x > 0.0).collect();
    if usable.len() < POINTS_MIN {
        return None;
    }
    let rows = usable.iter().map(|(n, x)| ([1.0, n - 1.0, n * (n - 1.0)], n / x));
    let (mut normal, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for (row, value) in rows {
        for (at, left) in row.iter().enumerate() {
            right[at] += left * value;
            for (other, by) in row.iter().enumerate() {
                normal[at][other] += left * by;
            }
        }
    }
    let Some([inverse, slope, bend]) = solve(normal, right) else { return Some(Fit::NotIdentifiable) };
    let (contention, coherence) = (slope / inverse, bend / inverse);
    let most = usable.iter().map(|(n, _)| *n).fold(0.0, f64::max);
    let peak = ((1.0 - contention) / coherence).sqrt();
    // A peak beyond what was measured is a guess.
    let bracketed = inverse > 0.0 && coherence > 0.0 && (0.0..1.0).contains(&contention) && peak <= most;
    Some(if bracketed {
        Fit::Fitted { one_per_s: 1.0 / inverse, contention, coherence, peak }
    } else {
        Fit::NotIdentifiable
    })
}

/// Solves three linear equations by Cramer's rule; `None` where they depend on each other.
fn solve(m: [[f64; 3]; 3], v: [f64; 3]) -> Option<[f64; 3]> {
    let det = |m: &[[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let whole = det(&m);
    let scale = m.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
    if !whole.is_finite() || whole.abs() <= f64::EPSILON * scale {
        return None;
    }
    Some(std::array::from_fn(|column| {
        let mut with = m;
        with.iter_mut().zip(v).for_each(|(row, value)| row[column] = value);
        det(&with) / whole
    }))
}

/// The sentence for people, from the load's own operations of all judged trials; `None` with too few of them.
#[must_use]
pub(super) fn words(history: &[Trial]) -> Option<String> {
    let judged = history.iter().filter(|trial| matches!(trial.outcome, Outcome::Held | Outcome::Broke));
    let points: Vec<(f64, f64)> = judged
        .filter_map(|trial| {
            let own = || trial.operations.iter().filter(|stat| !stat.probe && stat.asked.is_some());
            let x: f64 = own().map(|stat| stat.ops_per_s).sum();
            // By Little's law: what is under way is throughput times latency.
            let n: f64 = own().map(|stat| stat.ops_per_s * stat.latency.mean_us / 1e6).sum();
            (x > 0.0).then_some((n, x))
        })
        .collect();
    Some(match fit(&points)? {
        Fit::Fitted { contention, coherence, peak, .. } => format!(
            "contention {} and coherence {} by the universal scalability law; throughput is highest with about {} under way",
            figure(contention),
            figure(coherence),
            figure(peak.round())
        ),
        Fit::NotIdentifiable => {
            "not identifiable: the measurements do not reach beyond the highest throughput".to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn law(one: f64, contention: f64, coherence: f64, most: u32) -> Vec<(f64, f64)> {
        let x = |n: f64| one * n / (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0));
        (1..=most).map(|n| (f64::from(n), x(f64::from(n)))).collect()
    }

    proptest! {
        #[test]
        fn a_law_that_bends_is_found_again(one in 10.0..5_000.0_f64, contention in 0.01..0.3_f64, coherence in 0.002..0.02_f64) {
            let Some(Fit::Fitted { one_per_s, contention: s, coherence: k, peak }) = fit(&law(one, contention, coherence, 40)) else {
                return Err(TestCaseError::fail("no fit"));
            };
            prop_assert!((one_per_s / one - 1.0).abs() < 1e-3 && (s / contention - 1.0).abs() < 1e-2 && (k / coherence - 1.0).abs() < 1e-2);
            prop_assert!((peak / ((1.0 - contention) / coherence).sqrt() - 1.0).abs() < 1e-2);
        }
    }

    #[test]
    fn what_was_not_reached_is_not_named() {
        assert_eq!(fit(&law(100.0, 0.05, 0.001, 12)), Some(Fit::NotIdentifiable), "the peak lies at 31");
        assert_eq!(fit(&law(100.0, 0.0, 0.0, 20)), Some(Fit::NotIdentifiable));
        assert_eq!(fit(&[(3.0, 5.0); 10]), Some(Fit::NotIdentifiable));
        assert_eq!(fit(&law(100.0, 0.1, 0.01, 5)), None);
    }
}
