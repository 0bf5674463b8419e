//! Whether operations are sent when they are due: up to most of what this machine can send, and through a target that stalls.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are small and positive")]

mod common;

use std::{fmt::Write as _, time::Duration};

use common::{Figure, finish};
use rampart::{
    model::Clock,
    target::sim::SimSpec,
    workload::{ceiling, sim_requests},
};

fn main() {
    let clock = Clock::start();
    let top = ceiling::measure(clock, Duration::from_secs(1));
    println!("one thread sends {} operations a second to a target that answers at once", top.per_s);
    let mut table = String::from(
        "| share of the ceiling | rate | rate error over 10 s | start lag p50 | start lag p99 |\n| ---: | ---: | ---: | ---: | ---: |\n",
    );
    let (mut error, mut lag_us) = (0.0_f64, 0);
    // Many servers that take a microsecond: the system is not what limits.
    let fast = SimSpec { servers: 1_000, service_ms: 0.001, ..SimSpec::default() };
    for share in [0.1, 0.2, 0.4, 0.6, 0.8] {
        let per_s = (top.per_s as f64 * share) as u64;
        let paces = ceiling::keep_null(clock, per_s, Duration::from_secs(10));
        error = error.max((paces.achieved - 1.0).abs());
        lag_us = lag_us.max(paces.start_lag_p50_us);
        let _ = writeln!(
            table,
            "| {:.0} % | {per_s}/s | {:.4} % | {} us | {} us |",
            share * 100.0,
            (paces.achieved - 1.0).abs() * 100.0,
            paces.start_lag_p50_us,
            paces.start_lag_p99_us
        );
    }
    // Carries 2,000 a second and is asked for half of that; once in ten seconds it stands still for one.
    let stalling = SimSpec { servers: 2, pause_every_s: 10.0, pause_s: 1.0, ..fast };
    let stalling = SimSpec { service_ms: 1.0, ..stalling };
    let stalled = ceiling::keep(sim_requests::client(&stalling, clock), clock, 1_000, Duration::from_secs(30));
    let p99_s = stalled.p99_us as f64 / 1e6;
    let _ = writeln!(table, "\nA system that stalls 1 s in 10, at half its capacity: p99 from due {p99_s:.3} s.");
    println!("{table}");
    common::document("pacing", &table);
    finish(
        "pacing",
        &[
            Figure::plain("pacing.ceiling_per_s", top.per_s as f64, "per second"),
            Figure::at_most("pacing.rate_error", error, "share", "<= 0.001", 0.001),
            Figure::at_most("pacing.start_lag_p50_us", lag_us as f64, "us", "<= 150", 150.0),
            Figure::at_least("pacing.stall_p99_s", p99_s, "s", ">= 0.9", 0.9),
        ],
    );
}
