//! What a search is worth: thousands of searches on models of targets whose capacity is known, of six kinds, with trials
//! that fail by chance.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "loads and seeds are small and positive")]

mod common;

use std::fmt::Write as _;

use common::{Figure, finish};
use rampart::analysis::search::{Growth, Judged, Search};

/// The capacity of every model: half of the trials at this load hold.
const CAPACITY: f64 = 10_000.0;
/// Searches for each kind of knee and share of false failures.
const SEARCHES: usize = 10_000;
/// Shares of trials that fail by chance; the bars are for the third.
const FALSE_FAILURES: [f64; 4] = [0.0, 0.02, 0.05, 0.10];
const BAR: f64 = 0.05;

/// How the chance that a trial holds falls around the capacity, by the load as a share of it.
type Knee = (&'static str, fn(f64) -> f64);

const KNEES: [Knee; 6] = [
    ("hard", |share| if share <= 1.0 { 1.0 } else { 0.0 }),
    ("soft, 1 %", |share| logistic((1.0 - share) / 0.01)),
    ("soft, 3 %", |share| logistic((1.0 - share) / 0.03)),
    // A limit of a percentile in an open queue: the latency grows as 1 / (1 - load), and is read with 5 % noise.
    ("queue, p99 limit", |share| {
        let latency = 1.0 / (1.0 - (share * 0.9).min(0.999));
        logistic((10.0 - latency) / (10.0 * 0.05))
    }),
    // Contention and coherence (Gunther's law): achieved over offered at 99.5 %, read with 0.1 % noise.
    ("contention", |share| {
        let achieved = 1.0 - 0.005 * share.powi(6);
        logistic((achieved - 0.995) / 0.001)
    }),
    // Hard above, and below it a zone in which one trial of five fails: snapshots that do or do not fall into it.
    ("hard, uneasy below", |share| match share {
        share if share > 1.0 => 0.0,
        share if share > 0.97 => 0.8,
        _ => 1.0,
    }),
];

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// SplitMix64 (Steele, Lea, Flood 2014), as numbers from 0 to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What many searches found.
struct Found {
    /// More than 20 % low, or no answer.
    gross_share: f64,
    bias: f64,
    spread: f64,
    trials_median: f64,
}

fn measure(knee: fn(f64) -> f64, false_failures: f64, seed: u64) -> Found {
    let mut random = Random(seed);
    let (mut answers, mut trials, mut gross) = (Vec::new(), Vec::new(), 0_usize);
    for _ in 0..SEARCHES {
        // Starts differ, so that no grid of loads happens to meet the capacity.
        let start = 300.0 + 400.0 * random.next();
        let search = Search {
            start: start as u64,
            min: 1,
            max: 1_000_000,
            growth: Growth::Factor(2.0),
            width: 0.02,
            resolution: 1,
            trials_max: 1_000,
            relaunch: false,
        };
        let mut made: Vec<Judged> = Vec::new();
        let bounds = loop {
            let bounds = search.after(made.iter().copied());
            let Some(load) = bounds.next else { break bounds };
            let held = random.next() < knee(load as f64 / CAPACITY) && random.next() >= false_failures;
            made.push(Judged { load, held });
        };
        trials.push(made.len() as f64);
        // The middle of the bounds: the lower one alone is low by half the width.
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) => answers.push(f64::midpoint(lower as f64, upper as f64) / CAPACITY),
            (Some(only), None) | (None, Some(only)) => answers.push(only as f64 / CAPACITY),
            (None, None) => {}
        }
        gross += usize::from(bounds.lower.is_none_or(|lower| (lower as f64) < 0.8 * CAPACITY));
    }
    let fine: Vec<f64> = answers.iter().copied().filter(|answer| *answer >= 0.8).collect();
    let mean = fine.iter().sum::<f64>() / fine.len().max(1) as f64;
    let variance = fine.iter().map(|answer| (answer - mean).powi(2)).sum::<f64>() / fine.len().max(1) as f64;
    trials.sort_by(f64::total_cmp);
    Found {
        gross_share: gross as f64 / SEARCHES as f64,
        bias: mean - 1.0,
        spread: variance.sqrt() / mean,
        trials_median: trials[trials.len() / 2],
    }
}

fn main() {
    let mut table = String::from(
        "| knee | false failures | more than 20 % low | bias | spread | trials, median |\n| :--- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut worst = Found { gross_share: 0.0, bias: 0.0, spread: 0.0, trials_median: 0.0 };
    for (at, (name, knee)) in KNEES.iter().enumerate() {
        for share in FALSE_FAILURES {
            let found = measure(*knee, share, at as u64 * 1_000 + (share * 1_000.0) as u64);
            let _ = writeln!(
                table,
                "| {name} | {:.0} % | {:.2} % | {:+.2} % | {:.2} % | {:.0} |",
                share * 100.0,
                found.gross_share * 100.0,
                found.bias * 100.0,
                found.spread * 100.0,
                found.trials_median
            );
            if (share - BAR).abs() < 1e-9 {
                worst.gross_share = worst.gross_share.max(found.gross_share);
                worst.bias = worst.bias.max(found.bias.abs());
                worst.spread = worst.spread.max(found.spread);
                worst.trials_median = worst.trials_median.max(found.trials_median);
            }
        }
    }
    println!("{table}");
    common::document("calibration", &table);
    finish(
        "calibration",
        &[
            Figure::at_most("search.gross_error_share", worst.gross_share, "share, worst knee", "<= 0.001", 0.001),
            Figure::at_most("search.bias", worst.bias, "share, worst knee", "<= 0.02", 0.02),
            Figure::at_most("search.spread", worst.spread, "share, worst knee", "<= 0.02", 0.02),
            Figure::at_most("search.trials_median", worst.trials_median, "trials, worst knee", "<= 45", 45.0),
        ],
    );
}
