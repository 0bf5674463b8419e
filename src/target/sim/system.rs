//! A system of known capacity: requests queue for servers, and what is known of real systems can be turned on. Knows no
//! clock: whoever asks says when, so that it runs in real time as in reckoned time.

use std::{cmp::Reverse, collections::BinaryHeap};

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use rand_distr::{Distribution as _, Exp1, LogNormal};

use super::{ServiceTime, SimSpec};

/// How a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done {
        at_ns: i64,
    },
    /// With the code of the failure.
    Failed {
        at_ns: i64,
        code: &'static str,
    },
}

/// The state of the queue.
#[derive(Debug)]
pub(super) struct System {
    spec: SimSpec,
    random: SmallRng,
    /// When the first request came.
    began_ns: Option<i64>,
    /// When each server is free.
    free: BinaryHeap<Reverse<i64>>,
    /// When each request that is inside ends.
    ends: BinaryHeap<Reverse<i64>>,
    served_ns: f64,
    pub(super) answered: u64,
}

const HOUR_NS: f64 = 3.6e12;

impl System {
    pub(super) fn new(spec: &SimSpec) -> Self {
        Self {
            random: SmallRng::seed_from_u64(spec.seed),
            began_ns: None,
            free: (0..spec.servers.max(1)).map(|_| Reverse(i64::MIN)).collect(),
            ends: BinaryHeap::new(),
            served_ns: 0.0,
            answered: 0,
            spec: spec.clone(),
        }
    }

    /// A request comes at this moment, which is not before those of earlier calls.
    pub(super) fn arrive(&mut self, now_ns: i64) -> Answer {
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let inside = self.inside(now_ns);
        let spec = &self.spec;
        if spec.errors_above > 0 && inside >= spec.errors_above {
            return Answer::Failed { at_ns: now_ns, code: "refused" };
        }
        let age_ns = (now_ns - began_ns) as f64;
        let busy = (inside + 1).min(u64::from(spec.servers)) as f64;
        let mut factor = 1.0 + spec.contention * (busy - 1.0) + spec.coherence * busy * (busy - 1.0);
        factor *= 1.0 + spec.leak_per_hour * age_ns / HOUR_NS;
        if age_ns < spec.warm_up_s * 1e9 {
            factor *= spec.warm_up_factor;
        }
        if spec.collapse_above > 0 && inside > spec.collapse_above {
            factor *= spec.collapse_factor;
        }
        let service_ns = self.draw() * factor;
        let Reverse(free_ns) = self.free.pop().unwrap_or(Reverse(now_ns));
        let end_ns = self.spec.through_pauses(free_ns.max(now_ns), service_ns);
        self.free.push(Reverse(end_ns));
        self.ends.push(Reverse(end_ns));
        self.served_ns += service_ns;
        self.answered += 1;
        if self.spec.error_share > 0.0 && self.random.random::<f64>() < self.spec.error_share {
            return Answer::Failed { at_ns: end_ns, code: "transient" };
        }
        Answer::Done { at_ns: end_ns }
    }

    /// Requests that wait or are served at this moment.
    pub(super) fn inside(&mut self, now_ns: i64) -> u64 {
        while self.ends.peek().is_some_and(|Reverse(end_ns)| *end_ns <= now_ns) {
            self.ends.pop();
        }
        self.ends.len() as u64
    }

    /// Time that servers have worked so far or are going to for what is inside, in nanoseconds.
    pub(super) const fn served_ns(&self) -> f64 {
        self.served_ns
    }

    fn draw(&mut self) -> f64 {
        let mean_ns = self.spec.service_ms * 1e6;
        match self.spec.service_time {
            ServiceTime::Constant => mean_ns,
            ServiceTime::Exponential => {
                mean_ns * {
                    let drawn: f64 = Exp1.sample(&mut self.random);
                    drawn
                }
            }
            ServiceTime::Lognormal => {
                let cv = self.spec.variation;
                LogNormal::from_mean_cv(mean_ns, cv).map_or(mean_ns, |drawn| drawn.sample(&mut self.random))
            }
        }
    }
}

impl SimSpec {
    /// The end of work that begins at a moment, with the pauses in which everything stands still.
    #[expect(clippy::cast_possible_truncation, reason = "durations of a run in nanoseconds")]
    fn through_pauses(&self, begin_ns: i64, work_ns: f64) -> i64 {
        let (every_ns, pause_ns) = ((self.pause_every_s * 1e9) as i64, (self.pause_s * 1e9) as i64);
        let mut left_ns = work_ns.round() as i64;
        if every_ns <= 0 || pause_ns <= 0 {
            return begin_ns.saturating_add(left_ns);
        }
        // Each round is a pause and then the time until the next.
        let mut at_ns = begin_ns;
        loop {
            let in_round = at_ns.rem_euclid(every_ns);
            if in_round < pause_ns {
                at_ns += pause_ns - in_round;
                continue;
            }
            let until_pause_ns = every_ns - in_round;
            if left_ns < until_pause_ns {
                return at_ns + left_ns;
            }
            left_ns -= until_pause_ns;
            at_ns += until_pause_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::arrivals::{Arrivals, Spacing};

    const SECOND_NS: i64 = 1_000_000_000;

    /// Asks at a share of its capacity for some seconds; how many ended well a second, and how many were inside at the end.
    fn asked(spec: &SimSpec, share: f64, seconds: i64) -> (f64, u64) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "capacities of tests are small")]
        let per_s = (spec.capacity_per_s() * share) as u64;
        let mut system = System::new(spec);
        let mut arrivals = Arrivals::new(Spacing::Poisson, 3);
        arrivals.begin(per_s, 0);
        let end_ns = seconds * SECOND_NS;
        let mut done = 0_u32;
        while let Some(due_ns) = arrivals.pop(end_ns) {
            if let Answer::Done { at_ns } = system.arrive(due_ns) {
                done += u32::from(at_ns <= end_ns);
            }
        }
        (f64::from(done) / seconds as f64, system.inside(end_ns))
    }

    #[test]
    fn it_carries_what_it_says_and_no_more() {
        let plain = SimSpec { servers: 4, service_ms: 2.0, ..SimSpec::default() };
        let usl = SimSpec { servers: 8, contention: 0.03, coherence: 0.002, ..plain.clone() };
        let pausing = SimSpec { pause_every_s: 1.0, pause_s: 0.2, ..plain.clone() };
        let failing = SimSpec { error_share: 0.1, ..plain.clone() };
        let varied = SimSpec { service_time: ServiceTime::Lognormal, variation: 2.0, ..plain.clone() };
        for spec in [plain, usl, pausing, failing, varied] {
            let capacity = spec.capacity_per_s();
            let over = asked(&spec, 1.3, 60).0;
            assert!((over / capacity - 1.0).abs() < 0.03, "{over} of {capacity}: {spec:?}");
            let (under, inside) = asked(&spec, 0.9, 60);
            let share = under / (capacity * 0.9) / (1.0 - spec.error_share);
            assert!((share - 1.0).abs() < 0.02 && inside < 2_000, "{under} of {capacity}, {inside} inside: {spec:?}");
        }
    }

    #[test]
    fn beyond_its_knee_a_collapse_carries_less_than_before_it() {
        let spec = SimSpec { collapse_above: 200, collapse_factor: 3.0, ..SimSpec::default() };
        let capacity = spec.capacity_per_s();
        let over = asked(&spec, 1.2, 60).0;
        assert!(over < capacity * 0.5, "{over} of {capacity}");
    }

    #[test]
    fn a_leak_takes_capacity_with_time_and_warming_up_gives_it() {
        let spec = SimSpec { leak_per_hour: 60.0, ..SimSpec::default() };
        assert!(asked(&spec, 0.9, 5).1 < 500 && asked(&spec, 0.9, 120).1 > 5_000);
        let cold = SimSpec { warm_up_s: 10.0, warm_up_factor: 3.0, ..SimSpec::default() };
        assert!(asked(&cold, 0.5, 10).1 > 500 && asked(&cold, 0.5, 60).1 < 50);
    }

    #[test]
    fn a_queue_that_is_too_long_refuses() {
        let spec = SimSpec { errors_above: 100, ..SimSpec::default() };
        let capacity = spec.capacity_per_s();
        let (done, inside) = asked(&spec, 2.0, 20);
        assert!(inside <= 100 && (done / capacity - 1.0).abs() < 0.05, "{done} of {capacity}, {inside}");
    }

    #[test]
    fn the_same_seed_gives_the_same_answers() {
        let spec = SimSpec { service_time: ServiceTime::Exponential, error_share: 0.2, ..SimSpec::default() };
        let answers = |spec: &SimSpec| {
            let mut system = System::new(spec);
            (0..1_000).map(|n| system.arrive(n * 1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(answers(&spec), answers(&spec));
        assert_ne!(answers(&spec), answers(&SimSpec { seed: 2, ..spec.clone() }));
    }

    #[test]
    fn work_stands_still_in_pauses() {
        let spec = SimSpec { pause_every_s: 10.0, pause_s: 1.0, ..SimSpec::default() };
        let ns = crate::model::clock::seconds_ns;
        let end = |begin_s: f64, work_s: f64| spec.through_pauses(ns(begin_s), work_s * 1e9) as f64 / 1e9;
        for (begin_s, work_s, end_s) in [(2.0, 3.0, 5.0), (0.25, 1.0, 2.0), (9.0, 2.0, 12.0), (9.0, 20.0, 32.0)] {
            assert!((end(begin_s, work_s) - end_s).abs() < 1e-6, "{begin_s} {work_s}: {}", end(begin_s, work_s));
        }
    }
}
