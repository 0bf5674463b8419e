//! Whether an overload of one part in a hundred is seen, and whether a load that fits is left in peace: minutes of Poisson
//! arrivals at systems of known capacity, in reckoned time, judged by the rules on what the load achieved.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates and counts are small and positive")]

mod common;

use std::{cmp::Reverse, collections::BinaryHeap, fmt::Write as _};

use common::{Figure, finish};
use rampart::{
    analysis::Rule,
    model::{Health, OperationStat, Outcome, Percentiles, Sample, Trial, metric::GENERATOR},
    target::sim::{Answer, Handle, ServiceTime, SimSpec},
    workload::arrivals::{Arrivals, Spacing},
};

const SECOND_NS: i64 = 1_000_000_000;
const SECONDS: i64 = 60;
/// Before it a queue has not found its level.
const SETTLE: i64 = 10;
const MINUTES: u64 = 200;

const KINDS: [(&str, ServiceTime, u32); 3] = [
    ("constant service, 8 servers", ServiceTime::Constant, 8),
    ("exponential service, 1 server", ServiceTime::Exponential, 1),
    ("lognormal service (cv 1), 4 servers", ServiceTime::Lognormal, 4),
];

/// One minute at a rate, at a share of the capacity: whether a rule broke.
fn broke(per_s: u64, share: f64, service_time: ServiceTime, servers: u32, seed: u64) -> bool {
    let capacity = per_s as f64 / share;
    let spec =
        SimSpec { servers, service_ms: f64::from(servers) / capacity * 1e3, service_time, seed, ..SimSpec::default() };
    let system = Handle::of(&spec);
    let mut arrivals = Arrivals::new(Spacing::Poisson, seed ^ 0x5eed);
    arrivals.begin(per_s, 0);
    let (from_ns, until_ns) = (SETTLE * SECOND_NS, (SETTLE + SECONDS) * SECOND_NS);
    let mut ends: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
    let (mut asked, mut done, mut waited_ns) = (0_u64, 0_u64, 0.0);
    let mut samples = Vec::new();
    let mut next_sample_ns = from_ns;
    while let Some(due_ns) = arrivals.pop(until_ns) {
        while next_sample_ns <= due_ns {
            settle(&mut ends, next_sample_ns, from_ns, &mut done, &mut waited_ns);
            samples.push(Sample {
                at_ns: next_sample_ns,
                node: GENERATOR.to_owned(),
                metric: "load_in_flight".to_owned(),
                value: ends.len() as f64,
            });
            next_sample_ns += SECOND_NS;
        }
        asked += u64::from(due_ns >= from_ns);
        let (Answer::Done { at_ns } | Answer::Failed { at_ns, .. }) = system.arrive(due_ns);
        ends.push(Reverse((at_ns, due_ns)));
    }
    settle(&mut ends, until_ns, from_ns, &mut done, &mut waited_ns);
    let trial = trial(asked, done, waited_ns / done.max(1) as f64 / 1e3, per_s);
    let rules = [Rule::ACHIEVED, Rule::BacklogGrowth { growth: 0.002 }];
    rules.iter().any(|rule| rule.read(&trial, &[], &samples, "requests per second").broke == Some(true))
}

/// Takes off what has ended by a moment.
fn settle(ends: &mut BinaryHeap<Reverse<(i64, i64)>>, now_ns: i64, from_ns: i64, done: &mut u64, waited_ns: &mut f64) {
    while let Some(Reverse((at_ns, due_ns))) = ends.peek().filter(|Reverse((at_ns, _))| *at_ns <= now_ns).copied() {
        ends.pop();
        if at_ns >= from_ns {
            *done += 1;
            *waited_ns += (at_ns - due_ns) as f64;
        }
    }
}

fn trial(asked: u64, done: u64, mean_us: f64, load: u64) -> Trial {
    let stat = OperationStat {
        stream: "sim.requests".to_owned(),
        operation: "request".to_owned(),
        asked: Some(asked),
        done,
        elapsed_s: SECONDS as f64,
        ops_per_s: done as f64 / SECONDS as f64,
        latency: Percentiles { mean_us, ..Percentiles::default() },
        ..OperationStat::default()
    };
    Trial {
        arm: 0,
        step: 1,
        trial: 1,
        load,
        started_ns: 0,
        measure_from_ns: SETTLE * SECOND_NS,
        ended_ns: (SETTLE + SECONDS) * SECOND_NS,
        fill_s: 0.0,
        settle_s: SETTLE as f64,
        measure_s: SECONDS as f64,
        operations: vec![stat],
        counts: Vec::new(),
        census: std::collections::BTreeMap::new(),
        nodes: std::collections::BTreeMap::new(),
        health: Health::default(),
        incidents: Vec::new(),
        gave_way: false,
        outcome: Outcome::Undecided,
        stop_code: None,
        rules: Vec::new(),
        remarks: Vec::new(),
        action: None,
        holding: false,
    }
}

fn main() {
    let mut table = String::from(
        "| system | rate | 101 % load seen | alarms at 99 % | alarms at 95 % |\n| :--- | ---: | ---: | ---: | ---: |\n",
    );
    let mut worst = [1.0_f64, 0.0, 0.0];
    for per_s in [10_000, 1_000] {
        for (name, service_time, servers) in KINDS {
            let shares = [1.01, 0.99, 0.95].map(|share| {
                let seen = (0..MINUTES).filter(|seed| broke(per_s, share, service_time, servers, *seed)).count();
                seen as f64 / MINUTES as f64
            });
            let percent = shares.map(|share| format!("{:.1} %", share * 100.0));
            let _ = writeln!(table, "| {name} | {per_s}/s | {} | {} | {} |", percent[0], percent[1], percent[2]);
            if per_s == 10_000 {
                worst = [worst[0].min(shares[0]), worst[1].max(shares[1]), worst[2].max(shares[2])];
            }
        }
    }
    println!("{table}");
    common::document("overload", &table);
    finish(
        "overload",
        &[
            Figure::at_least("overload.seen_share", worst[0], "share, worst system", ">= 0.99", 0.99),
            Figure::at_most("overload.false_99", worst[1], "share, worst system", "<= 0.03", 0.03),
            Figure::at_most("overload.false_95", worst[2], "share, worst system", "<= 0.01", 0.01),
        ],
    );
}
