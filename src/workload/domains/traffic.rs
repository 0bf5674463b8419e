//! The steady traffic of domains: what falls due when, and what one job run asks of the target.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Options, Reads, disturbances::joins_burst, shape::CONSOLES};

/// A job runs once in this time.
const JOB_INTERVAL_S: f64 = 60.0;
/// How long one run takes.
const JOB_RUN_S: f64 = 2.0;
/// Each executor writes its counters of a job once in this time.
const COUNTER_INTERVAL_S: f64 = 300.0;
/// Reads of an executor's own cycle when a run starts, and when it ends: 27 in all.
pub(super) const CYCLE_START: u32 = 14;
pub(super) const CYCLE_END: u32 = 13;
/// Further reads of an executor when an item starts or stops to run, besides arming its watch: the client library of
/// the source checks every ancestor again (5), then the znode, then its sibling.
pub(super) const ANCESTORS: u32 = 5;

/// Indices into [`super::OPERATIONS`].
pub(super) const CREATE: usize = 0;
pub(super) const DELETE: usize = 1;
pub(super) const SET: usize = 2;
pub(super) const EXISTS: usize = 3;
pub(super) const GET: usize = 4;
pub(super) const CHILDREN: usize = 5;
pub(super) const REARM: usize = 6;
/// An executor that closed its session is registered again under a new one, with all its watches.
pub(super) const RESTART: usize = 7;
/// A session whose connection was cut is attached again, with all its watches.
pub(super) const REATTACH: usize = 8;

/// Which read number `n` of an executor's cycle is.
pub(super) const fn cycle_read(n: u32) -> usize {
    match n % 7 {
        0..=3 => GET,
        4 | 5 => EXISTS,
        _ => CHILDREN,
    }
}

/// How many of an executor's first `reads` cycle reads are of one operation.
fn cycle_count(reads: u32, operation: usize) -> u64 {
    (0..reads).filter(|n| cycle_read(*n) == operation).map(|_| 1_u64).sum()
}

/// What one edge of a job run (its start or its end) asks, by operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) asked: [u64; 7],
}

impl Edge {
    /// The reads that notifications cause are asked here too, so that a target that notifies late falls short.
    pub(super) fn of(options: &Options, start: bool) -> Self {
        let items = u64::from(options.shards);
        let active = u64::from(options.executors.min(options.shards));
        let watchers = u64::from(options.executors) * items;
        let mut asked = [0; 7];
        asked[CREATE] = items;
        asked[DELETE] = items;
        asked[SET] = active;
        asked[REARM] = watchers + active * u64::from(CONSOLES);
        if options.reads == Reads::Model {
            let cycle = if start { CYCLE_START } else { CYCLE_END };
            for operation in [EXISTS, GET, CHILDREN] {
                asked[operation] = active * cycle_count(cycle, operation);
            }
            asked[EXISTS] += watchers * u64::from(ANCESTORS + if start { 1 } else { 2 });
            asked[GET] += if start { watchers } else { 0 };
        }
        Self { asked }
    }

    pub(super) fn writes(&self) -> u64 {
        self.asked[CREATE] + self.asked[DELETE] + self.asked[SET]
    }

    fn reads(&self) -> u64 {
        self.asked.iter().sum::<u64>() - self.writes()
    }
}

/// Counter updates of one executor and job: two counters that both consoles watch, and one that nobody watches.
pub(super) const COUNTER_SETS: u64 = 3;
pub(super) const COUNTER_REARMS: u64 = 2 * CONSOLES as u64;

/// What the model asks of one domain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub writes_per_s: f64,
    pub reads_per_s: f64,
}

impl Rates {
    /// Of one domain with these options: 11.55 transactions and about 138 reads a second with the defaults.
    #[must_use]
    pub(super) fn of(options: &Options) -> Self {
        if !options.traffic {
            return Self { writes_per_s: 0.0, reads_per_s: 0.0 };
        }
        let (start, end) = (Edge::of(options, true), Edge::of(options, false));
        let runs_per_s = f64::from(options.jobs)
            * match options.burst {
                Some(burst) => {
                    (1.0 - burst.share) / JOB_INTERVAL_S * options.traffic_factor + burst.share / burst.every_s
                }
                None => options.traffic_factor / JOB_INTERVAL_S,
            };
        let counters_per_s = f64::from(options.jobs * options.executors) / COUNTER_INTERVAL_S * options.traffic_factor;
        Self {
            writes_per_s: runs_per_s * (start.writes() + end.writes()) as f64 + counters_per_s * COUNTER_SETS as f64,
            reads_per_s: runs_per_s * (start.reads() + end.reads()) as f64 + counters_per_s * COUNTER_REARMS as f64,
        }
    }
}

/// Something that falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at_ns: i64,
    pub(super) domain: u32,
    /// Which life of the domain it belongs to: a domain that left and came back has a new one.
    pub(super) life: u32,
    pub(super) what: What,
}

/// What falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Start { job: u16 },
    End { job: u16 },
    Counters { job: u16, executor: u16 },
}

/// Due times of all resident domains, computed from absolute starts.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    queue: BinaryHeap<Reverse<Due>>,
    job_interval_ns: i64,
    counter_interval_ns: i64,
    run_ns: i64,
    seed: u64,
    jobs: u32,
    /// Share of the jobs that have no phase of their own.
    burst_share: f64,
}

impl Schedule {
    pub(super) fn new(options: &Options, seed: u64) -> Self {
        let ns = |seconds: f64| crate::model::clock::seconds_ns(seconds / options.traffic_factor.max(1e-9)).max(1);
        let job_interval_ns = ns(JOB_INTERVAL_S);
        Self {
            queue: BinaryHeap::new(),
            job_interval_ns,
            counter_interval_ns: ns(COUNTER_INTERVAL_S),
            run_ns: crate::model::clock::seconds_ns(JOB_RUN_S).min(job_interval_ns / 2),
            seed,
            jobs: options.jobs,
            burst_share: options.burst.map_or(0.0, |burst| burst.share),
        }
    }

    /// A domain is resident from now: every job gets its own phase.
    pub(super) fn enter(&mut self, options: &Options, domain: u32, life: u32, now_ns: i64) {
        if !options.traffic || options.traffic_factor <= 0.0 {
            return;
        }
        for job in 0..u16::try_from(options.jobs).unwrap_or(u16::MAX) {
            if !self.joins_burst(domain, job) {
                let at_ns = now_ns + self.phase(domain, job, u16::MAX, self.job_interval_ns);
                self.queue.push(Reverse(Due { at_ns, domain, life, what: What::Start { job } }));
            }
            for executor in 0..u16::try_from(options.executors).unwrap_or(u16::MAX) {
                let at_ns = now_ns + self.phase(domain, job, executor, self.counter_interval_ns);
                self.queue.push(Reverse(Due { at_ns, domain, life, what: What::Counters { job, executor } }));
            }
        }
    }

    /// All jobs of a domain that join bursts are due at this moment.
    pub(super) fn burst(&mut self, domain: u32, life: u32, at_ns: i64) {
        for job in 0..u16::try_from(self.jobs).unwrap_or(u16::MAX) {
            if self.joins_burst(domain, job) {
                self.queue.push(Reverse(Due { at_ns, domain, life, what: What::Start { job } }));
            }
        }
    }

    fn joins_burst(&self, domain: u32, job: u16) -> bool {
        joins_burst(self.burst_share, self.jobs, domain, job)
    }

    /// The next thing that is due by now; what comes again is queued again, from its own due time.
    pub(super) fn pop(&mut self, now_ns: i64) -> Option<Due> {
        let Reverse(due) = *self.queue.peek()?;
        if due.at_ns > now_ns {
            return None;
        }
        self.queue.pop();
        Some(due)
    }

    /// When the run began whose end is due.
    pub(super) const fn began_ns(&self, end: Due) -> i64 {
        end.at_ns - self.run_ns
    }

    /// Queues what follows from something that was due, unless its domain is gone.
    pub(super) fn follow(&mut self, due: Due) {
        let again = !matches!(due.what, What::Start { job } if self.joins_burst(due.domain, job));
        let mut push = |after_ns: i64, what| self.queue.push(Reverse(Due { at_ns: due.at_ns + after_ns, what, ..due }));
        match due.what {
            What::Start { job } => {
                push(self.run_ns, What::End { job });
                if again {
                    push(self.job_interval_ns, due.what);
                }
            }
            What::End { .. } => {}
            What::Counters { .. } => push(self.counter_interval_ns, due.what),
        }
    }

    /// When the next thing is due.
    pub(super) fn next_ns(&self) -> Option<i64> {
        self.queue.peek().map(|Reverse(due)| due.at_ns)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }

    /// A phase within an interval that depends on the seed and on what it is for (SplitMix64).
    fn phase(&self, domain: u32, job: u16, executor: u16, interval_ns: i64) -> i64 {
        let mut z = self.seed ^ (u64::from(domain) << 32 | u64::from(job) << 16 | u64::from(executor));
        z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let interval = u64::try_from(interval_ns).unwrap_or(1).max(1);
        i64::try_from(z % interval).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_domain_asks_what_the_source_counts() {
        let rates = Rates::of(&Options::default());
        assert!((rates.writes_per_s - 11.55).abs() < 1e-9, "{rates:?}");
        // 237 a job run, and 1.4 a second for the counters that consoles watch.
        assert!((rates.reads_per_s - (237.0 * 35.0 / 60.0 + 1.4)).abs() < 1e-9, "{rates:?}");
        let rearm = Rates::of(&Options { reads: Reads::Rearm, ..Options::default() });
        assert!((rearm.reads_per_s - (17.5 + 1.4)).abs() < 1e-9, "{rearm:?}");
    }

    #[test]
    fn ten_minutes_of_schedule_hold_what_the_rates_say() {
        let options = Options::default();
        let mut schedule = Schedule::new(&options, 7);
        (0..4).for_each(|domain| schedule.enter(&options, domain, 0, 0));
        let (mut writes, mut last) = (0, 0);
        while let Some(due) = schedule.pop(i64::MAX) {
            if due.at_ns >= 600_000_000_000 {
                break;
            }
            assert!(due.at_ns >= last, "due times go back");
            last = due.at_ns;
            writes += match due.what {
                What::Start { .. } => Edge::of(&options, true).writes(),
                What::End { .. } => Edge::of(&options, false).writes(),
                What::Counters { .. } => COUNTER_SETS,
            };
            schedule.follow(due);
        }
        let rate = writes as f64 / 600.0 / 4.0;
        assert!((rate - 11.55).abs() < 0.05, "{rate}");
    }

    #[test]
    fn jobs_of_a_burst_run_then_and_at_no_other_time() {
        let burst = super::super::Burst { every_s: 100.0, share: 0.5 };
        let options = Options { burst: Some(burst), ..Options::default() };
        let (mut schedule, mut starts, mut at_bursts) = (Schedule::new(&options, 7), 0, 0);
        (0..4).for_each(|domain| schedule.enter(&options, domain, 0, 0));
        let bursts: Vec<i64> = (0..6).map(|n| (50 + 100 * n) * 1_000_000_000).collect();
        for at_ns in &bursts {
            (0..4).for_each(|domain| schedule.burst(domain, 0, *at_ns));
        }
        while let Some(due) = schedule.pop(600_000_000_000 - 1) {
            starts += u32::from(matches!(due.what, What::Start { .. }));
            at_bursts += u32::from(matches!(due.what, What::Start { .. }) && bursts.contains(&due.at_ns));
            schedule.follow(due);
        }
        // Of 140 jobs 70 run once a minute and 70 with each burst.
        assert_eq!((starts, at_bursts), (70 * 10 + 70 * 6, 70 * 6));
        let per_run = 18.0;
        let rate = Rates::of(&options).writes_per_s - 1.05;
        assert!((rate - per_run * f64::from(starts) / 600.0 / 4.0).abs() < 1e-9, "{rate}");
    }
}
