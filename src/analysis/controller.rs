//! Which load comes next. Sees the trials so far, says `Measure` or `Stop`.

use crate::model::{IncidentKind, Outcome, StopCode, Trial};

/// How loads are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ladder {
    /// Every load of the list is measured.
    Levels(Vec<u64>),
    /// From `start` by `step` up to `max`, until something breaks.
    Ramp { start: u64, step: u64, max: u64 },
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
        }
    }
}

/// What to do after the trials so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Measure this load as this step; `trial` counts from 1.
    Measure { load: u64, step: u32, trial: u32 },
    /// End with this code.
    Stop(StopCode),
}

/// How often a void trial is repeated before the run gives up.
const VOID_REPEATS: u32 = 1;

/// Decides from the history alone.
#[must_use]
pub fn next(ladder: &Ladder, history: &[Trial]) -> Next {
    let Some(last) = history.last() else { return Next::Measure { load: 0, step: 0, trial: 1 } };
    let again = Next::Measure { load: last.load, step: last.step, trial: last.trial + 1 };
    let here = history.iter().filter(|trial| trial.step == last.step);
    match last.outcome {
        Outcome::Baseline | Outcome::Held => onward(ladder, last),
        Outcome::Void => {
            let void = here.filter(|trial| trial.outcome == Outcome::Void).count();
            if void <= VOID_REPEATS as usize && !is_gone(last) {
                again
            } else {
                Next::Stop(last.stop_code.unwrap_or(StopCode::GeneratorSaturated))
            }
        }
        Outcome::Undecided => match ladder {
            Ladder::Levels(_) => onward(ladder, last),
            Ladder::Ramp { .. } => Next::Stop(last.stop_code.unwrap_or(StopCode::NoData)),
        },
        Outcome::Broke => {
            let broke = here.filter(|trial| trial.outcome == Outcome::Broke).count();
            let code = last.stop_code.unwrap_or(StopCode::TargetSaturated);
            if is_gone(last) || code == StopCode::LimitReached || last.step == 0 {
                Next::Stop(code)
            } else if broke < 2 {
                again
            } else {
                match ladder {
                    Ladder::Levels(_) => match onward(ladder, last) {
                        Next::Stop(_) => Next::Stop(code),
                        more @ Next::Measure { .. } => more,
                    },
                    Ladder::Ramp { .. } => Next::Stop(code),
                }
            }
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

/// The rung after the last trial's.
fn onward(ladder: &Ladder, last: &Trial) -> Next {
    let rung = last.step as usize;
    match ladder.loads().get(rung) {
        Some(load) => Next::Measure { load: *load, step: last.step + 1, trial: 1 },
        None => Next::Stop(StopCode::MaxLoad),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{analysis::judge::tests::trial, model::Incident};

    fn with(step: u32, load: u64, number: u32, outcome: Outcome) -> Trial {
        let mut made = trial(step, load, vec![]);
        (made.trial, made.outcome) = (number, outcome);
        made
    }

    /// Runs a ladder against a system that breaks above `capacity`, each trial flipped where `flips` says so.
    fn simulate(ladder: &Ladder, capacity: u64, flips: &[bool]) -> (Vec<Trial>, StopCode) {
        let mut history: Vec<Trial> = Vec::new();
        loop {
            match next(ladder, &history) {
                Next::Stop(code) => return (history, code),
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
        assert_eq!(next(&ladder, &[dead]), Next::Stop(StopCode::TargetSaturated));
    }

    #[test]
    fn a_void_trial_is_repeated_once_and_then_ends_the_run() {
        let ladder = Ladder::Ramp { start: 10, step: 10, max: 100 };
        let mut void = with(2, 20, 1, Outcome::Void);
        void.stop_code = Some(StopCode::GeneratorSaturated);
        assert_eq!(next(&ladder, std::slice::from_ref(&void)), Next::Measure { load: 20, step: 2, trial: 2 });
        let mut second = void.clone();
        second.trial = 2;
        assert_eq!(next(&ladder, &[void, second]), Next::Stop(StopCode::GeneratorSaturated));
    }

    #[test]
    fn levels_are_all_measured_though_one_broke() {
        let (history, code) = simulate(&Ladder::Levels(vec![10, 20, 30]), 15, &[]);
        assert_eq!(history.iter().map(|t| t.load).collect::<Vec<_>>(), [0, 10, 20, 20, 30, 30]);
        assert_eq!(code, StopCode::ThroughputDrop);
    }
}
