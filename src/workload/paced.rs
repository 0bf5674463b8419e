//! Operations at a rate, open loop: each is due at its own time, whether or not the target has answered those before. One
//! thread reckons due times, sends, receives and records; a service only carries operations to a target and back.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

use super::{
    LoadUnit, Progress, Recorder, UnitReport,
    arrivals::{Arrivals, Spacing},
};
use crate::model::{Clock, Incident, Load};

/// One operation on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Index into the workload's operations.
    pub operation: u8,
    pub due_ns: i64,
    pub sent_ns: i64,
}

/// Carries operations to a target and back.
pub trait Service: Send {
    /// Makes ready what operations need; asked again and again. `Ok(true)`: it is there.
    ///
    /// # Errors
    /// Why it cannot be: whether that is a configured limit, and a sentence.
    fn make_ready(&mut self) -> Result<bool, (bool, String)>;

    /// Sends an operation.
    ///
    /// # Errors
    /// The code of why it could not be sent.
    fn send(&mut self, ticket: Ticket) -> Result<(), &'static str>;

    /// Waits at most so long; tells of each operation that ended, and how.
    fn turn(&mut self, wait: Duration, ended: &mut dyn FnMut(Ticket, Result<(), &'static str>));

    /// What happened to the connections since it was asked last.
    fn incidents(&mut self) -> Vec<Incident>;

    /// Ends everything, in less than 5 s.
    fn close(&mut self);
}

/// What is asked, apart from the rate.
#[derive(Debug, Clone)]
pub struct Mix {
    pub operations: &'static [&'static str],
    /// The share of each operation, in their order; together 1.
    pub shares: Vec<f64>,
    pub spacing: Spacing,
    /// What falls due while so many are under way is missed, and counted.
    pub in_flight_max: u64,
}

/// Unless a scenario says otherwise.
pub const IN_FLIGHT_MAX: u64 = 20_000;
/// How long after a unit is ready the first operation falls due.
const LEAD_NS: i64 = 2_000_000;

/// A load unit on an axis of rates.
#[derive(Debug)]
pub struct Paced<S> {
    service: S,
    mix: Mix,
    clock: Clock,
    arrivals: Arrivals,
    random: SmallRng,
    recorder: Recorder,
    in_flight: u64,
    asked_per_s: u64,
    /// The rate that was asked is on the target.
    running: bool,
    failure: Option<(bool, String)>,
}

impl<S: Service> Paced<S> {
    #[must_use]
    pub fn new(service: S, mix: Mix, clock: Clock, unit: u32, seed: u64) -> Self {
        Self {
            arrivals: Arrivals::new(mix.spacing, seed),
            random: SmallRng::seed_from_u64(seed ^ 0x6f70_6572_6174_696f),
            recorder: Recorder::new(mix.operations, unit, clock.now_ns()),
            service,
            mix,
            clock,
            in_flight: 0,
            asked_per_s: 0,
            running: false,
            failure: None,
        }
    }

    /// The operation that comes next, by the shares.
    fn draw(&mut self) -> u8 {
        let mut at: f64 = self.random.random();
        for (index, share) in self.mix.shares.iter().enumerate() {
            at -= share;
            if at < 0.0 {
                return u8::try_from(index).unwrap_or(0);
            }
        }
        u8::try_from(self.mix.shares.len().saturating_sub(1)).unwrap_or(0)
    }

    /// Starts the rate once what was on its way before has come back, and what operations need is there.
    fn start(&mut self) {
        if self.running || self.failure.is_some() || self.in_flight > 0 {
            return;
        }
        if self.asked_per_s == 0 {
            self.running = true;
            return;
        }
        match self.service.make_ready() {
            Ok(true) => {
                self.arrivals.begin(self.asked_per_s, self.clock.now_ns() + LEAD_NS);
                self.running = true;
            }
            Ok(false) => {}
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// Sends everything that is due by now.
    fn release(&mut self) {
        while let Some(due_ns) = self.arrivals.pop(self.clock.now_ns()) {
            let operation = self.draw();
            self.recorder.ask(usize::from(operation), 1);
            if self.in_flight >= self.mix.in_flight_max {
                self.recorder.miss(1);
                continue;
            }
            let sent_ns = self.clock.now_ns();
            self.recorder.lag(sent_ns - due_ns);
            match self.service.send(Ticket { operation, due_ns, sent_ns }) {
                Ok(()) => self.in_flight += 1,
                Err(code) => self.recorder.fail(usize::from(operation), code),
            }
        }
    }
}

impl<S: Service> LoadUnit for Paced<S> {
    fn prepare(&mut self, load: &Load) {
        self.asked_per_s = load.value();
        self.arrivals.begin(0, 0);
        (self.running, self.failure) = (false, None);
    }

    fn hold(&mut self, _from_ns: i64, _until_ns: i64) {}

    fn turn(&mut self, until_ns: i64) {
        loop {
            self.start();
            self.release();
            let next_ns = self.arrivals.next_ns().unwrap_or(i64::MAX).min(until_ns);
            let wait = Duration::from_nanos(u64::try_from(next_ns - self.clock.now_ns()).unwrap_or(0));
            let (clock, recorder, in_flight) = (self.clock, &mut self.recorder, &mut self.in_flight);
            self.service.turn(wait, &mut |ticket, result| {
                *in_flight = in_flight.saturating_sub(1);
                let operation = usize::from(ticket.operation);
                match result {
                    Ok(()) => recorder.done(operation, ticket.due_ns, ticket.sent_ns, clock.now_ns()),
                    Err(code) => recorder.fail(operation, code),
                }
            });
            if self.clock.now_ns() >= until_ns {
                return;
            }
        }
    }

    fn report(&mut self) -> UnitReport {
        let confirmed = if self.running { self.asked_per_s } else { 0 };
        let mut block = self.recorder.cut(self.clock.now_ns());
        block.in_flight = Some(self.in_flight);
        UnitReport {
            progress: match &self.failure {
                Some((limit, text)) => Progress::Failed { confirmed, limit: *limit, text: text.clone() },
                None if self.running => Progress::Ready { confirmed },
                None => Progress::Moving { confirmed },
            },
            block,
            incidents: self.service.incidents(),
            attached: std::collections::BTreeMap::new(),
            detached: 0,
        }
    }

    fn stop(&mut self) {
        self.arrivals.begin(0, 0);
        self.service.close();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::model::AxisKind;

    /// Answers each operation after a fixed time, in order; not at all within a stall.
    #[derive(Debug)]
    struct Echo {
        clock: Clock,
        after_ns: i64,
        stall: std::ops::Range<i64>,
        waiting: VecDeque<(i64, Ticket)>,
    }

    impl Service for Echo {
        fn make_ready(&mut self) -> Result<bool, (bool, String)> {
            Ok(true)
        }

        fn send(&mut self, ticket: Ticket) -> Result<(), &'static str> {
            let mut at_ns = ticket.sent_ns + self.after_ns;
            if self.stall.contains(&at_ns) {
                at_ns = self.stall.end;
            }
            self.waiting.push_back((at_ns, ticket));
            Ok(())
        }

        fn turn(&mut self, wait: Duration, ended: &mut dyn FnMut(Ticket, Result<(), &'static str>)) {
            std::thread::sleep(wait.min(Duration::from_micros(200)));
            while self.waiting.front().is_some_and(|(at_ns, _)| *at_ns <= self.clock.now_ns()) {
                if let Some((_, ticket)) = self.waiting.pop_front() {
                    ended(ticket, Ok(()));
                }
            }
        }

        fn incidents(&mut self) -> Vec<Incident> {
            Vec::new()
        }

        fn close(&mut self) {}
    }

    /// Half a second at 4,000 a second, through a stall of 100 ms.
    fn held(in_flight_max: u64) -> (UnitReport, u64) {
        let clock = Clock::start();
        let begun_ns = clock.now_ns();
        let stall = begun_ns + 200_000_000..begun_ns + 300_000_000;
        let service = Echo { clock, after_ns: 1_000_000, stall, waiting: VecDeque::new() };
        let mix = Mix { operations: &["a", "b"], shares: vec![0.25, 0.75], spacing: Spacing::Constant, in_flight_max };
        let mut unit = Paced::new(service, mix, clock, 0, 1);
        unit.prepare(&Load::Rate { axis: "rate".to_owned(), per_s: 4_000 });
        unit.turn(begun_ns + 500_000_000);
        (unit.report(), unit.in_flight)
    }

    fn count(counts: &std::collections::BTreeMap<String, u64>) -> u64 {
        counts.values().sum()
    }

    #[test]
    fn what_is_due_does_not_wait_for_a_target_that_stalls() {
        let (report, in_flight) = held(100_000);
        let block = &report.block;
        assert!((1_980..=2_001).contains(&count(&block.asked)), "{:?}", block.asked);
        assert_eq!(count(&block.asked), count(&block.done) + in_flight, "nothing is lost");
        assert_eq!((block.missed, report.progress), (0, Progress::Ready { confirmed: 4_000 }));
        let of_b = |clock: &str| {
            let named = block.histograms.iter().find(|named| named.operation == "b" && named.clock == clock);
            named.and_then(super::super::recorder::NamedHistogram::decode).unwrap()
        };
        // A fifth of all fell due within the stall and waited for its end, half of it in the mean.
        let waited = of_b("due").value_at_quantile(0.9);
        assert!((40_000..=60_000).contains(&waited), "{waited}");
        let share = block.asked["a"] as f64 / count(&block.asked) as f64;
        assert!((0.2..0.3).contains(&share), "{share}");
    }

    #[test]
    fn beyond_the_bound_what_falls_due_is_missed_and_counted() {
        let (report, in_flight) = held(50);
        let block = &report.block;
        assert!((300..=360).contains(&block.missed), "the stall's 400 less 50: {}", block.missed);
        assert_eq!(count(&block.asked), count(&block.done) + in_flight + block.missed);
    }

    #[test]
    fn a_new_rate_begins_when_the_old_one_has_come_back() {
        let clock = Clock::start();
        let service = Echo { clock, after_ns: 60_000_000, stall: 0..0, waiting: VecDeque::new() };
        let mix = Mix { operations: &["a"], shares: vec![1.0], spacing: Spacing::Constant, in_flight_max: 1_000 };
        let mut unit = Paced::new(service, mix, clock, 0, 1);
        let axis = crate::model::Axis { name: "rate", unit: "per second", max: 1_000, kind: AxisKind::Rate };
        unit.prepare(&axis.load(500));
        unit.turn(clock.now_ns() + 50_000_000);
        unit.prepare(&axis.load(200));
        unit.turn(clock.now_ns() + 20_000_000);
        assert_eq!(unit.report().progress, Progress::Moving { confirmed: 0 });
        unit.turn(clock.now_ns() + 80_000_000);
        assert_eq!(unit.report().progress, Progress::Ready { confirmed: 200 });
        unit.prepare(&axis.load(0));
        unit.turn(clock.now_ns() + 80_000_000);
        assert_eq!((unit.report().progress, unit.in_flight), (Progress::Ready { confirmed: 0 }, 0));
    }
}
