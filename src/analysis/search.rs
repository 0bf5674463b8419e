//! Finds the highest load that holds, with few trials, when single trials may fail by chance. The words are those of
//! RFC 9971: a load is an upper or a lower bound, or undecided; a trial is one measurement of it.
//!
//! From `start` loads grow until one fails, or shrink when the first does; then the gap is halved until it is narrow. While
//! loads grow, one trial that holds is enough, and one that fails is followed by more; the last that held is judged once
//! more before the gap is halved, and near the answer a load is judged until one side leads clearly. Last, fresh trials
//! above the answer open it again when they hold: a failure by chance low down would otherwise cap it for good.
//! `make bench ONLY=calibration` says what such a search is worth.
//!
//! Sources: RFC 9971 (several trials a load, an exceed ratio of one half); fresh trials above the answer are our own.

use serde::{Deserialize, Serialize};

/// How a capacity is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub start: u64,
    pub min: u64,
    pub max: u64,
    pub growth: Growth,
    /// The gap between the bounds at which narrowing ends, as a share of the upper one.
    pub width: f64,
    /// Loads are multiples of it, and the gap is never narrower.
    pub resolution: u64,
    /// So many trials at most; the bounds are then as wide as they are.
    pub trials_max: u32,
    /// A target that a load has brought down is launched again, and the search goes on.
    pub relaunch: bool,
}

/// How the next load follows from one that held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// Times so much.
    Factor(f64),
    /// So much more.
    Step(u64),
}

/// What one trial of a load said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    pub load: u64,
    pub held: bool,
}

/// What is known after some trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The highest load that was judged to hold, below `upper`.
    pub lower: Option<u64>,
    /// The lowest load that was judged not to hold.
    pub upper: Option<u64>,
    /// What to measure next; absent when the search is over.
    pub next: Option<u64>,
    /// A bound was contradicted by later trials and given up.
    pub reopened: bool,
}

/// While loads grow or shrink: trials of a load of which the majority decides.
const JUDGES: u32 = 3;
/// While the gap is halved a load is judged when one side leads by so many trials, or by the majority of so many. Loads near
/// the answer hold and fail by turns, and a bound that is wrong there is never looked at again.
const LEAD: u32 = 3;
const JUDGES_MOST: u32 = 9;
/// How far above the answer the last trials are, as a share of it.
const ABOVE: f64 = 0.06;
/// How often an answer is opened again: a target that gets better for ever must not be measured for ever.
const REOPENED_MAX: u32 = 8;
/// Growth after an answer was opened again: the true one is seldom far.
const REGROWTH: f64 = 1.3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Loads grow: one trial that holds is enough.
    Grow,
    Shrink,
    Narrow,
    /// Fresh trials above the answer.
    Above,
    Over,
}

/// The search after every trial so far. The same trials always lead to the same state, so that a search goes on where it
/// was interrupted.
#[derive(Debug, Clone, Copy)]
struct State<'s> {
    search: &'s Search,
    phase: Phase,
    /// The load that is being judged, and what its trials said.
    load: u64,
    held: u32,
    failed: u32,
    lower: Option<u64>,
    upper: Option<u64>,
    reopened: u32,
}

impl Search {
    /// What is known after these trials, in the order in which they were made. Trials of a load that was not asked for
    /// just then are left out.
    #[must_use]
    pub fn after(&self, trials: impl IntoIterator<Item = Judged>) -> Bounds {
        let load = self.rounded(self.start as f64);
        let mut state =
            State { search: self, phase: Phase::Grow, load, held: 0, failed: 0, lower: None, upper: None, reopened: 0 };
        for trial in trials {
            state.take(trial);
        }
        let next = (state.phase != Phase::Over).then_some(state.load);
        Bounds { lower: state.lower, upper: state.upper, next, reopened: state.reopened > 0 }
    }

    /// The loads of the growth from the start to the maximum, if everything holds.
    #[must_use]
    pub fn growing(&self) -> Vec<u64> {
        let mut loads = vec![self.rounded(self.start as f64)];
        while let Some(last) = loads.last().copied().filter(|last| *last < self.max) {
            loads.push(self.grown(last));
        }
        loads
    }

    fn grown(&self, load: u64) -> u64 {
        let grown = match self.growth {
            Growth::Factor(factor) => load as f64 * factor,
            Growth::Step(step) => load as f64 + step as f64,
        };
        self.rounded(grown).max(load + self.resolution).min(self.max)
    }

    fn shrunk(&self, load: u64) -> u64 {
        let shrunk = match self.growth {
            Growth::Factor(factor) => load as f64 / factor,
            Growth::Step(step) => load as f64 - step as f64,
        };
        self.rounded(shrunk).min(load.saturating_sub(self.resolution)).max(self.min)
    }

    /// The nearest load that may be asked.
    fn rounded(&self, load: f64) -> u64 {
        let resolution = self.resolution.max(1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
        let whole = ((load / resolution).round() * resolution) as u64;
        whole.clamp(self.min, self.max)
    }

    fn is_narrow(&self, lower: u64, upper: u64) -> bool {
        let gap = upper.saturating_sub(lower);
        gap <= self.resolution || gap as f64 <= self.width * upper as f64
    }
}

impl State<'_> {
    fn take(&mut self, trial: Judged) {
        if self.phase == Phase::Over || trial.load != self.load {
            return;
        }
        if trial.held {
            self.held += 1;
        } else {
            self.failed += 1;
        }
        match self.judged() {
            Some(true) => self.load_held(),
            Some(false) => self.load_failed(),
            None => {}
        }
    }

    /// Whether the load holds; `None` until its trials have decided.
    fn judged(&self) -> Option<bool> {
        let majority_of = |judges: u32| {
            let most = judges / 2;
            (self.held > most).then_some(true).or((self.failed > most).then_some(false))
        };
        match self.phase {
            Phase::Grow if self.failed == 0 => Some(true),
            Phase::Grow | Phase::Shrink | Phase::Over => majority_of(JUDGES),
            Phase::Narrow | Phase::Above if self.held.abs_diff(self.failed) >= LEAD => Some(self.held > self.failed),
            Phase::Narrow | Phase::Above => majority_of(JUDGES_MOST),
        }
    }

    fn load_held(&mut self) {
        let load = self.load;
        if self.phase == Phase::Above {
            // Whatever failed below was chance.
            self.reopened += 1;
            self.upper = None;
        }
        self.lower = Some(load);
        match (self.phase, self.upper) {
            (_, None) if load >= self.search.max => self.end(),
            (Phase::Grow, None) if self.reopened == 0 => self.ask(Phase::Grow, self.search.grown(load)),
            (Phase::Grow | Phase::Above, None) => {
                let beyond = self.search.rounded(load as f64 * REGROWTH).max(load + self.search.resolution);
                self.ask(Phase::Grow, beyond.min(self.search.max));
            }
            _ => self.narrow(),
        }
    }

    fn load_failed(&mut self) {
        let load = self.load;
        if self.phase == Phase::Above {
            // The answer stands; a load above it that failed is a bound where none was lower.
            self.upper = Some(self.upper.map_or(load, |upper| upper.min(load)));
            self.end();
            return;
        }
        self.upper = Some(load);
        // The last load that held did so in one trial, which may have been luck.
        if let (Phase::Grow, Some(lower)) = (self.phase, self.lower) {
            self.ask(Phase::Narrow, lower);
            self.held = 1;
            return;
        }
        self.lower = self.lower.filter(|lower| *lower < load);
        match self.lower {
            Some(_) => self.narrow(),
            None if load <= self.search.min => self.end(),
            None => self.ask(Phase::Shrink, self.search.shrunk(load)),
        }
    }

    /// Halves the gap, or looks above it once it is narrow.
    fn narrow(&mut self) {
        let (Some(lower), Some(upper)) = (self.lower, self.upper) else { return };
        let middle = self.search.rounded(f64::midpoint(lower as f64, upper as f64));
        if !self.search.is_narrow(lower, upper) && middle > lower && middle < upper {
            self.ask(Phase::Narrow, middle);
            return;
        }
        let above = self.search.rounded(lower as f64 * (1.0 + ABOVE)).max(upper);
        if self.reopened >= REOPENED_MAX {
            self.end();
        } else {
            self.ask(Phase::Above, above);
        }
    }

    fn ask(&mut self, phase: Phase, load: u64) {
        (self.phase, self.load, self.held, self.failed) = (phase, load, 0, 0);
    }

    fn end(&mut self) {
        self.phase = Phase::Over;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn search() -> Search {
        Search {
            start: 500,
            min: 1,
            max: 1_000_000,
            growth: Growth::Factor(2.0),
            width: 0.02,
            resolution: 1,
            trials_max: 1_000,
            relaunch: false,
        }
    }

    /// Runs a search to its end; gives the bounds and the trials.
    fn run(search: &Search, mut holds: impl FnMut(u64) -> bool) -> (Bounds, Vec<Judged>) {
        let mut trials = Vec::new();
        loop {
            let bounds = search.after(trials.iter().copied());
            let Some(load) = bounds.next else { return (bounds, trials) };
            assert!(trials.len() < 500, "it does not end: {bounds:?}");
            trials.push(Judged { load, held: holds(load) });
        }
    }

    #[test]
    fn a_sharp_capacity_is_found_within_the_width() {
        let (bounds, trials) = run(&search(), |load| load <= 10_000);
        let (lower, upper) = (bounds.lower.unwrap(), bounds.upper.unwrap());
        assert!(lower <= 10_000 && upper > 10_000 && upper - lower <= upper / 50, "{bounds:?}");
        assert!(!bounds.reopened && trials.len() <= 40, "{}", trials.len());
    }

    #[test]
    fn a_first_load_that_fails_is_followed_downwards() {
        let (bounds, _) = run(&search(), |load| load <= 30);
        assert_eq!((bounds.lower, bounds.upper), (Some(30), Some(31)));
        let (bounds, _) = run(&search(), |_| false);
        assert_eq!((bounds.lower, bounds.upper, bounds.next), (None, Some(1), None));
    }

    #[test]
    fn everything_that_holds_ends_at_the_maximum() {
        let (bounds, trials) = run(&search(), |_| true);
        assert_eq!((bounds.lower, bounds.upper), (Some(1_000_000), None));
        assert_eq!(trials.iter().map(|trial| trial.load).collect::<Vec<_>>(), search().growing());
    }

    #[test]
    fn failures_by_chance_low_down_do_not_cap_the_answer() {
        // Everything at one low load fails while the search grows; later it does not.
        let mut bad = 2;
        let (bounds, _) = run(&search(), |load| {
            if load == 2_000 && bad > 0 {
                bad -= 1;
                return false;
            }
            load <= 10_000
        });
        assert!(bounds.reopened && bounds.lower.unwrap() > 9_700, "{bounds:?}");
    }

    #[test]
    fn loads_are_multiples_of_the_resolution() {
        let search = Search {
            start: 10,
            min: 10,
            max: 995,
            growth: Growth::Step(20),
            width: 0.01,
            resolution: 10,
            trials_max: 1_000,
            relaunch: false,
        };
        let (bounds, trials) = run(&search, |load| load <= 123);
        assert_eq!((bounds.lower, bounds.upper), (Some(120), Some(130)));
        assert!(trials.iter().all(|trial| trial.load % 10 == 0), "{trials:?}");
    }

    proptest! {
        #[test]
        fn bounds_never_cross_and_a_resumed_search_goes_on_the_same(
            capacity in 1_u64..900_000, start in 1_u64..900_000, seed: u64, share in 0_u64..50, cut in 0_usize..60, additive: bool,
        ) {
            let growth = if additive { Growth::Step(20_000) } else { Growth::Factor(2.0) };
            let search = Search { start, growth, ..search() };
            let mut state = seed;
            let mut chance = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % 100 < share
            };
            let (_, trials) = run(&search, |load| load <= capacity && !chance());
            for end in 0..=trials.len() {
                let bounds = search.after(trials[..end].iter().copied());
                if let (Some(lower), Some(upper)) = (bounds.lower, bounds.upper) {
                    prop_assert!(lower < upper, "{:?}", bounds);
                }
                if let Some(next) = bounds.next {
                    prop_assert!((search.min..=search.max).contains(&next));
                }
            }
            let cut = cut.min(trials.len());
            let resumed = search.after(trials[..cut].iter().copied());
            prop_assert_eq!(resumed.next, trials.get(cut).map(|trial| trial.load));
        }

        #[test]
        fn without_chance_the_answer_is_right_to_the_width(capacity in 1_u64..900_000, start in 1_u64..900_000) {
            let search = Search { start, ..search() };
            let (bounds, trials) = run(&search, |load| load <= capacity);
            let lower = bounds.lower.unwrap();
            prop_assert!(lower <= capacity && bounds.upper.is_none_or(|upper| upper > capacity));
            prop_assert!(lower as f64 >= capacity as f64 * 0.98 - 1.0, "{} of {} in {}", lower, capacity, trials.len());
            prop_assert!(trials.len() <= 75, "{}", trials.len());
        }
    }
}
