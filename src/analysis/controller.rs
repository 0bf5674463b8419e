//! Which load comes next. Sees the trials so far, says `Measure` or `Stop`.

use super::{
    actions::{self, Action},
    search::{Bounds, Judged, Search},
};
use crate::model::{ActionReport, IncidentKind, Outcome, StopCode, Trial};

/// How loads are chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Ladder {
    /// Every load of the list is measured.
    Levels(Vec<u64>),
    /// From `start` by `step` up to `max`, until something breaks.
    Ramp { start: u64, step: u64, max: u64 },
    /// Up, down and between, until the bounds of the capacity are narrow.
    Search(Search),
}

impl Ladder {
    /// All loads in order, without the empty target that always comes first.
    #[must_use]
    pub fn loads(&self) -> Vec<u64> {
        match self {
            Self::Levels(levels) => levels.clone(),
            Self::Ramp { start, step, max } => {
                let step = usize::try_from((*step).max(1)).unwrap_or(usize::MAX);
                let mut loads: Vec<u64> = (*start..=*max).step_by(step).collect();
                // The last rung is the maximum itself, so that "at least N" can be said of the N that was asked.
                if loads.last().is_none_or(|last| last < max) && start <= max {
                    loads.push(*max);
                }
                loads
            }
            Self::Search(search) => search.growing(),
        }
    }

    /// The highest load that may be asked.
    #[must_use]
    pub fn top(&self) -> Option<u64> {
        self.loads().into_iter().max()
    }
}

/// What the trials of a search say of its bounds. A target that is not launched again and is gone after a load that broke cannot be asked again: that
/// load is a bound then.
#[must_use]
pub fn bounds(search: &Search, history: &[Trial]) -> Bounds {
    let said = |trial: &Trial| match trial.outcome {
        Outcome::Held => Some(Judged { load: trial.load, held: true }),
        Outcome::Broke => Some(Judged { load: trial.load, held: false }),
        Outcome::Baseline | Outcome::Void | Outcome::Undecided => None,
    };
    let mut bounds = search.after(history.iter().filter(|trial| trial.load > 0).filter_map(said));
    let at_the_end =
        |last: &&Trial| !search.relaunch && last.load > 0 && last.outcome == Outcome::Broke && is_gone(last);
    if let Some(last) = history.last().filter(at_the_end) {
        bounds.upper = Some(bounds.upper.map_or(last.load, |upper| upper.min(last.load)));
        bounds.lower = bounds.lower.filter(|lower| *lower < last.load);
    }
    bounds
}

/// What to do after the trials so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Measure this load as this step; `trial` counts from 1.
    Measure { load: u64, step: u32, trial: u32 },
    /// Do the action of this number and measure the same load once more, as this trial.
    Act { action: usize, load: u64, step: u32, trial: u32 },
    /// Measure a load that held before, to see whether it lasts.
    Hold { load: u64, step: u32, trial: u32 },
    /// End with this code.
    Stop(StopCode),
}

/// How often a void trial is repeated before the run gives up.
const VOID_REPEATS: usize = 1;
/// How often a load has to break.
const BROKEN_TRIALS: usize = 2;

/// Decides from the history alone.
#[must_use]
pub fn next(ladder: &Ladder, actions: &[Action], history: &[Trial]) -> Next {
    let Some(last) = history.last() else { return Next::Measure { load: 0, step: 0, trial: 1 } };
    let plan = Course { ladder, actions, history };
    match &last.action {
        Some(report) => plan.after_action(last, report),
        None => plan.after_measurement(last),
    }
}

/// What a decision is made from.
struct Course<'a> {
    ladder: &'a Ladder,
    actions: &'a [Action],
    history: &'a [Trial],
}

impl Course<'_> {
    fn after_measurement(&self, last: &Trial) -> Next {
        let again = Next::Measure { load: last.load, step: last.step, trial: last.trial + 1 };
        if let Ladder::Search(search) = self.ladder {
            return self.searched(search, last, again);
        }
        match last.outcome {
            Outcome::Baseline => self.onward(last),
            Outcome::Held => self.act_or_go_on(last),
            Outcome::Void => {
                if self.alike(last) <= VOID_REPEATS && !is_gone(last) {
                    again
                } else {
                    Next::Stop(last.stop_code.unwrap_or(StopCode::GeneratorSaturated))
                }
            }
            Outcome::Undecided => match self.ladder {
                Ladder::Levels(_) => self.onward(last),
                Ladder::Ramp { .. } | Ladder::Search(_) => Next::Stop(last.stop_code.unwrap_or(StopCode::NoData)),
            },
            Outcome::Broke => {
                let code = last.stop_code.unwrap_or(StopCode::TargetSaturated);
                if is_gone(last) || code == StopCode::LimitReached || last.step == 0 {
                    Next::Stop(code)
                } else if self.alike(last) < BROKEN_TRIALS {
                    again
                } else {
                    self.beyond(last, code)
                }
            }
        }
    }

    /// An action decides nothing by itself, unless the scenario requires that the load holds with it. A target that is
    /// not whole again cannot be measured further in any case.
    fn after_action(&self, last: &Trial, report: &ActionReport) -> Next {
        let again =
            Next::Act { action: report.action as usize, load: last.load, step: last.step, trial: last.trial + 1 };
        let broke = last.outcome == Outcome::Broke && report.required;
        if !report.is_whole() {
            let own = last.stop_code.filter(|_| broke || last.outcome == Outcome::Void);
            return Next::Stop(own.unwrap_or(StopCode::TargetUnhealthy));
        }
        match last.outcome {
            Outcome::Broke if broke => {
                let code = last.stop_code.unwrap_or(StopCode::TargetSaturated);
                if self.alike(last) < BROKEN_TRIALS && code != StopCode::LimitReached {
                    again
                } else {
                    self.beyond(last, code)
                }
            }
            Outcome::Void if self.alike(last) <= VOID_REPEATS => again,
            Outcome::Void if report.required => Next::Stop(last.stop_code.unwrap_or(StopCode::GeneratorSaturated)),
            Outcome::Undecided if report.required && !matches!(self.ladder, Ladder::Levels(_)) => {
                Next::Stop(last.stop_code.unwrap_or(StopCode::NoData))
            }
            Outcome::Baseline | Outcome::Held | Outcome::Broke | Outcome::Void | Outcome::Undecided => {
                self.act_or_go_on(last)
            }
        }
    }

    /// How many trials of the same kind at this step ended like this one.
    fn alike(&self, of: &Trial) -> usize {
        let kind = |trial: &Trial| trial.action.as_ref().map(|report| report.action);
        let same = |trial: &&Trial| trial.step == of.step && trial.outcome == of.outcome && kind(trial) == kind(of);
        self.history.iter().filter(same).count()
    }

    /// After a load that broke for good.
    fn beyond(&self, last: &Trial, code: StopCode) -> Next {
        match self.ladder {
            Ladder::Levels(_) => match self.onward(last) {
                Next::Stop(_) => Next::Stop(code),
                more @ (Next::Measure { .. } | Next::Act { .. } | Next::Hold { .. }) => more,
            },
            Ladder::Ramp { .. } | Ladder::Search(_) => Next::Stop(code),
        }
    }

    /// The next trial of a search. A load that was measured before keeps its step.
    fn searched(&self, search: &Search, last: &Trial, again: Next) -> Next {
        let code = last.stop_code;
        let voided = self.history.iter().rev().take_while(|trial| trial.outcome == Outcome::Void).count();
        match last.outcome {
            Outcome::Void if voided <= VOID_REPEATS && (search.relaunch || !is_gone(last)) => return again,
            Outcome::Void => return Next::Stop(code.unwrap_or(StopCode::GeneratorSaturated)),
            Outcome::Undecided => return Next::Stop(code.unwrap_or(StopCode::NoData)),
            Outcome::Broke
                if (is_gone(last) && !search.relaunch) || code == Some(StopCode::LimitReached) || last.step == 0 =>
            {
                return Next::Stop(code.unwrap_or(StopCode::TargetSaturated));
            }
            Outcome::Baseline | Outcome::Held | Outcome::Broke => {}
        }
        let found = bounds(search, self.history);
        let measured = self.history.iter().filter(|trial| trial.load > 0).count();
        match found.next {
            Some(_) if measured >= search.trials_max as usize => Next::Stop(StopCode::TimeBudget),
            Some(load) => {
                let known = self.history.iter().rev().find(|trial| trial.load == load);
                let top = self.history.iter().map(|trial| trial.step).max().unwrap_or(0);
                let (step, trial) = known.map_or((top + 1, 1), |known| (known.step, known.trial + 1));
                Next::Measure { load, step, trial }
            }
            None => Next::Stop(found.upper.map_or(StopCode::MaxLoad, |upper| self.code_at(upper))),
        }
    }

    /// The stop code of the last trial that broke at a load.
    fn code_at(&self, load: u64) -> StopCode {
        let broke = |trial: &&Trial| trial.load == load && trial.outcome == Outcome::Broke;
        let code = self.history.iter().rev().find(broke).and_then(|trial| trial.stop_code);
        code.unwrap_or(StopCode::TargetSaturated)
    }

    /// The next action at this load, or the rung after it.
    fn act_or_go_on(&self, last: &Trial) -> Next {
        match actions::due(self.actions, self.history, last.step, last.load) {
            Some(action) => Next::Act { action, load: last.load, step: last.step, trial: last.trial + 1 },
            None => self.onward(last),
        }
    }

    /// The rung after the last trial's.
    fn onward(&self, last: &Trial) -> Next {
        match self.ladder.loads().get(last.step as usize) {
            Some(load) => Next::Measure { load: *load, step: last.step + 1, trial: 1 },
            None => Next::Stop(StopCode::MaxLoad),
        }
    }
}

/// Whether the target cannot be measured again: it died, or the load could not be put in place.
#[must_use]
pub fn is_gone(trial: &Trial) -> bool {
    let voided = trial.incidents.iter().any(|incident| incident.kind == IncidentKind::Paused);
    let gone = |kind| {
        matches!(
            kind,
            IncidentKind::Died | IncidentKind::CannotApply | IncidentKind::FillTimedOut | IncidentKind::SessionExpired
        )
    };
    (trial.gave_way && !voided) || trial.incidents.iter().any(|incident| gone(incident.kind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        analysis::{
            actions::{At, tests::action},
            judge::tests::trial,
            search::Growth,
        },
        model::{Incident, action::tests::report},
    };

    fn with(step: u32, load: u64, number: u32, outcome: Outcome) -> Trial {
        let mut made = trial(step, load, vec![]);
        (made.trial, made.outcome) = (number, outcome);
        made
    }

    /// Runs a ladder against a system that breaks above `capacity`, each trial flipped where `flips` says so.
    fn simulate(ladder: &Ladder, capacity: u64, flips: &[bool]) -> (Vec<Trial>, StopCode) {
        let mut history: Vec<Trial> = Vec::new();
        loop {
            match next(ladder, &[], &history) {
                Next::Stop(code) => return (history, code),
                Next::Act { .. } | Next::Hold { .. } => unreachable!("there is neither action nor holding"),
                Next::Measure { load, step, trial } => {
                    let flip = flips.get(history.len()).copied().unwrap_or(false);
                    let outcome = match (load, (load > capacity) != flip) {
                        (0, _) => Outcome::Baseline,
                        (_, true) => Outcome::Broke,
                        (_, false) => Outcome::Held,
                    };
                    let mut made = with(step, load, trial, outcome);
                    made.stop_code = (outcome == Outcome::Broke).then_some(StopCode::ThroughputDrop);
                    history.push(made);
                    assert!(history.len() < 10_000, "the controller does not end");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_ramp_finds_the_rung_below_the_capacity(start in 1_u64..50, step in 1_u64..50, rungs in 1_u64..40, capacity in 0_u64..3_000) {
            let ladder = Ladder::Ramp { start, step, max: start + step * rungs };
            let (history, code) = simulate(&ladder, capacity, &[]);
            let held = history.iter().filter(|t| t.outcome == Outcome::Held).map(|t| t.load).max();
            let expected = ladder.loads().into_iter().take_while(|load| *load <= capacity).last();
            prop_assert_eq!(held, expected);
            prop_assert_eq!(code == StopCode::MaxLoad, capacity >= start + step * rungs);
            prop_assert_eq!(history[0].step, 0);
            prop_assert!(history.windows(2).all(|pair| pair[0].load <= pair[1].load));
        }

        #[test]
        fn one_false_alarm_does_not_end_a_ramp(at in 1_usize..8) {
            let ladder = Ladder::Ramp { start: 10, step: 10, max: 100 };
            let mut flips = vec![false; 20];
            flips[at] = true;
            let (_, code) = simulate(&ladder, 1_000, &flips);
            prop_assert_eq!(code, StopCode::MaxLoad);
        }
    }

    #[test]
    fn the_last_rung_is_the_maximum_itself() {
        assert_eq!(Ladder::Ramp { start: 10, step: 20, max: 45 }.loads(), [10, 30, 45]);
        assert_eq!(Ladder::Ramp { start: 10, step: 20, max: 50 }.loads(), [10, 30, 50]);
    }

    proptest! {
        #[test]
        fn a_search_through_the_controller_ends_at_the_bounds_of_the_pure_one(
            capacity in 1_u64..3_000, start in 1_u64..500, flips in prop::collection::vec(prop::bool::weighted(0.05), 200),
        ) {
            let search = Search { start, min: 1, max: 2_000, growth: Growth::Factor(2.0), width: 0.05, resolution: 1, trials_max: 200, relaunch: false };
            let (history, code) = simulate(&Ladder::Search(search), capacity, &flips);
            let found = bounds(&search, &history);
            prop_assert!(found.next.is_none() || code == StopCode::TimeBudget);
            prop_assert_eq!(code == StopCode::MaxLoad, found.upper.is_none(), "{:?}", found);
            // A load keeps its step, and its trials count up.
            for (at, trial) in history.iter().enumerate() {
                let before: Vec<&Trial> = history[..at].iter().filter(|other| other.load == trial.load).collect();
                prop_assert!(before.iter().all(|other| other.step == trial.step));
                prop_assert_eq!(trial.trial as usize, before.len() + 1);
            }
        }
    }

    #[test]
    fn a_search_ends_at_its_most_trials_and_with_a_target_that_is_gone() {
        let search = Search {
            start: 10,
            min: 1,
            max: 1_000,
            growth: Growth::Step(10),
            width: 0.01,
            resolution: 1,
            trials_max: 5,
            relaunch: false,
        };
        let (history, code) = simulate(&Ladder::Search(search), 500, &[false; 50]);
        assert_eq!((history.len(), code), (6, StopCode::TimeBudget));
        let mut dead = with(1, 10, 1, Outcome::Broke);
        (dead.gave_way, dead.stop_code) = (true, Some(StopCode::TargetSaturated));
        let history = vec![with(0, 0, 1, Outcome::Baseline), dead];
        assert_eq!(next(&Ladder::Search(search), &[], &history), Next::Stop(StopCode::TargetSaturated));
        let found = bounds(&search, &history);
        assert_eq!((found.lower, found.upper), (None, Some(10)));
    }

    #[test]
    fn a_search_that_may_launch_again_goes_on_past_a_target_that_died() {
        let search = Search {
            start: 10,
            min: 1,
            max: 1_000,
            growth: Growth::Step(10),
            width: 0.1,
            resolution: 1,
            trials_max: 50,
            relaunch: true,
        };
        let dead = |trial: u32| {
            let mut dead = with(1, 10, trial, Outcome::Broke);
            (dead.gave_way, dead.stop_code) = (true, Some(StopCode::TargetSaturated));
            dead
        };
        let mut history = vec![with(0, 0, 1, Outcome::Baseline), dead(1)];
        let ladder = Ladder::Search(search);
        assert_eq!(next(&ladder, &[], &history), Next::Measure { load: 10, step: 1, trial: 2 });
        history.push(dead(2));
        assert!(matches!(next(&ladder, &[], &history), Next::Measure { load, .. } if load < 10), "it goes down");
    }

    #[test]
    fn a_dead_target_is_not_measured_again() {
        let mut dead = with(3, 30, 1, Outcome::Broke);
        dead.stop_code = Some(StopCode::TargetSaturated);
        dead.incidents.push(Incident {
            at_ns: 0,
            kind: IncidentKind::Died,
            node: "a".into(),
            text: String::new(),
            amount: 1.0,
        });
        let ladder = Ladder::Ramp { start: 10, step: 10, max: 100 };
        assert_eq!(next(&ladder, &[], &[dead]), Next::Stop(StopCode::TargetSaturated));
    }

    #[test]
    fn a_void_trial_is_repeated_once_and_then_ends_the_run() {
        let ladder = Ladder::Ramp { start: 10, step: 10, max: 100 };
        let mut void = with(2, 20, 1, Outcome::Void);
        void.stop_code = Some(StopCode::GeneratorSaturated);
        assert_eq!(next(&ladder, &[], std::slice::from_ref(&void)), Next::Measure { load: 20, step: 2, trial: 2 });
        let mut second = void.clone();
        second.trial = 2;
        assert_eq!(next(&ladder, &[], &[void, second]), Next::Stop(StopCode::GeneratorSaturated));
    }

    #[test]
    fn levels_are_all_measured_though_one_broke() {
        let (history, code) = simulate(&Ladder::Levels(vec![10, 20, 30]), 15, &[]);
        assert_eq!(history.iter().map(|t| t.load).collect::<Vec<_>>(), [0, 10, 20, 20, 30, 30]);
        assert_eq!(code, StopCode::ThroughputDrop);
    }

    /// Runs a ladder against a system that breaks above `capacity`, and above `capacity_without` while an action lasts.
    fn simulate_actions(ladder: &Ladder, actions: &[Action], capacity: u64, without: u64) -> (Vec<Trial>, StopCode) {
        let mut history: Vec<Trial> = Vec::new();
        loop {
            let (load, step, number, acted) = match next(ladder, actions, &history) {
                Next::Stop(code) => return (history, code),
                Next::Measure { load, step, trial } => (load, step, trial, None),
                Next::Act { action, load, step, trial } => (load, step, trial, Some(action)),
                Next::Hold { .. } => unreachable!("nothing is held"),
            };
            let limit = if acted.is_some() { without } else { capacity };
            let outcome = if load == 0 {
                Outcome::Baseline
            } else if load > limit {
                Outcome::Broke
            } else {
                Outcome::Held
            };
            let mut made = with(step, load, number, outcome);
            made.stop_code = (outcome == Outcome::Broke).then_some(StopCode::ThroughputDrop);
            made.action = acted.map(|index| report(u32::try_from(index).unwrap(), actions[index].required));
            history.push(made);
            assert!(history.len() < 1_000, "the controller does not end");
        }
    }

    fn any_action(rungs: u64) -> impl Strategy<Value = Action> {
        (prop_oneof![Just(At::Each), (1..=rungs + 2).prop_map(|rung| At::Load(rung * 10))], any::<bool>())
            .prop_map(|(at, required)| action(at, required))
    }

    proptest! {
        #[test]
        fn actions_are_done_after_their_load_held_and_never_move_the_ladder(
            actions in proptest::collection::vec(any_action(6), 0..4), capacity in 0_u64..80, without in 0_u64..80,
        ) {
            let optional: Vec<Action> = actions.iter().cloned().map(|a| Action { required: false, ..a }).collect();
            for ladder in [Ladder::Ramp { start: 10, step: 10, max: 60 }, Ladder::Levels((1..=6).map(|n| n * 10).collect())] {
                let (bare, code) = simulate(&ladder, capacity, &[]);
                let (history, with_actions) = simulate_actions(&ladder, &optional, capacity, without);
                let plain: Vec<_> = history.iter().filter(|t| t.action.is_none()).map(|t| (t.step, t.load, t.outcome)).collect();
                prop_assert_eq!(plain, bare.iter().map(|t| (t.step, t.load, t.outcome)).collect::<Vec<_>>());
                prop_assert_eq!(code, with_actions);
                for (index, action) in optional.iter().enumerate() {
                    let held = bare.iter().filter(|t| t.outcome == Outcome::Held);
                    let wanted = held.filter(|t| match action.at { At::Each => true, At::Load(load) => t.load == load }).count();
                    prop_assert_eq!(history.iter().filter(|t| actions::is_of(t, index)).count(), wanted);
                }
            }
        }

        #[test]
        fn trials_have_numbers_of_their_own_and_an_action_follows_a_trial_that_held(
            actions in proptest::collection::vec(any_action(6), 0..4), capacity in 0_u64..80, without in 0_u64..80,
        ) {
            let ladder = Ladder::Ramp { start: 10, step: 10, max: 60 };
            let (history, _) = simulate_actions(&ladder, &actions, capacity, without);
            let mut keys: Vec<_> = history.iter().map(|t| (t.step, t.trial)).collect();
            keys.dedup();
            prop_assert_eq!(keys.len(), history.len());
            prop_assert!(keys.is_sorted());
            for (at, acted) in history.iter().enumerate().filter(|(_, t)| t.action.is_some()) {
                let plain = history[..at].iter().rfind(|t| t.action.is_none()).unwrap();
                prop_assert_eq!((plain.step, plain.outcome), (acted.step, Outcome::Held));
            }
        }

        #[test]
        fn a_required_action_ends_a_ramp_where_the_load_does_not_fit_without_the_server(
            capacity in 0_u64..80, without in 0_u64..80,
        ) {
            let ladder = Ladder::Ramp { start: 10, step: 10, max: 60 };
            let (history, code) = simulate_actions(&ladder, &[action(At::Each, true)], capacity, without);
            let fits = capacity.min(without);
            prop_assert_eq!(code == StopCode::MaxLoad, fits >= 60);
            let top = history.iter().map(|t| t.load).max().unwrap();
            prop_assert_eq!(top, (fits / 10 * 10 + 10).min(60));
            if capacity > without && without < 60 && top <= capacity {
                let broke = history.iter().filter(|t| t.action.is_some() && t.outcome == Outcome::Broke).count();
                prop_assert_eq!(broke, 2, "measured once more before the verdict");
            }
        }
    }

    #[test]
    fn a_target_that_is_not_whole_again_ends_the_run() {
        let ladder = Ladder::Ramp { start: 10, step: 10, max: 100 };
        let mut acted = with(1, 10, 2, Outcome::Held);
        acted.action = Some(ActionReport { rejoined_s: None, ..report(0, false) });
        let actions = [action(At::Load(10), false)];
        let plain = with(1, 10, 1, Outcome::Held);
        assert_eq!(next(&ladder, &actions, &[plain.clone(), acted.clone()]), Next::Stop(StopCode::TargetUnhealthy));
        acted.action = Some(report(0, false));
        assert_eq!(next(&ladder, &actions, &[plain, acted]), Next::Measure { load: 20, step: 2, trial: 1 });
    }

    #[test]
    fn a_void_action_is_done_once_more_and_then_left_unless_it_is_required() {
        let ladder = Ladder::Ramp { start: 10, step: 10, max: 100 };
        for (required, then) in
            [(false, Next::Measure { load: 20, step: 2, trial: 1 }), (true, Next::Stop(StopCode::GeneratorSaturated))]
        {
            let actions = [action(At::Load(10), required)];
            let mut void = with(1, 10, 2, Outcome::Void);
            (void.action, void.stop_code) = (Some(report(0, required)), Some(StopCode::GeneratorSaturated));
            let mut history = vec![with(1, 10, 1, Outcome::Held), void.clone()];
            assert_eq!(next(&ladder, &actions, &history), Next::Act { action: 0, load: 10, step: 1, trial: 3 });
            history.push(Trial { trial: 3, ..void });
            assert_eq!(next(&ladder, &actions, &history), then);
        }
    }
}
