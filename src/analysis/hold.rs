//! After the answer: whether a share of it lasts. The same load is measured again and again for as long as was asked.

use serde::{Deserialize, Serialize};

use super::{
    actions::Action,
    controller::{self, Ladder, Next, is_gone},
    figure,
    verdict::{limits, status},
};
use crate::model::{Holding, Outcome, Status, StopCode, Trial};

/// What is held, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Of the highest load that held.
    pub share: f64,
    pub for_s: f64,
}

/// A load that breaks so often in a row while it is held does not last.
const BROKEN_IN_A_ROW: usize = 2;

/// What comes next, from the history alone: what the ladder asks, then the holding of its answer.
#[must_use]
pub fn next(ladder: &Ladder, actions: &[Action], hold: Option<Hold>, history: &[Trial]) -> Next {
    let (answer, held) = split(history);
    let next = controller::next(ladder, actions, answer);
    let Next::Stop(code) = next else { return next };
    match hold.and_then(|hold| again(hold, ladder, code, answer, held)) {
        Some(more) => more,
        None => Next::Stop(code),
    }
}

/// The trials that found the answer, and those that held it.
#[must_use]
pub fn split(history: &[Trial]) -> (&[Trial], &[Trial]) {
    let at = history.iter().position(|trial| trial.holding).unwrap_or(history.len());
    history.split_at(at)
}

/// The next measurement of what is held, until the time is over or it broke for good.
fn again(hold: Hold, ladder: &Ladder, code: StopCode, answer: &[Trial], held: &[Trial]) -> Option<Next> {
    let last = held.last().or(answer.last())?;
    let (good, bad) = limits(ladder, answer, code);
    let found = matches!(status(code, bad, true, None), Status::CapacityFound | Status::NotReached);
    let load = load_of(hold.share, good.filter(|_| found && !is_gone(last))?);
    let top = answer.iter().map(|trial| trial.step).max().unwrap_or(0);
    let broken = held.iter().rev().take_while(|trial| trial.outcome == Outcome::Broke).count();
    let void = held.iter().rev().take_while(|trial| trial.outcome == Outcome::Void).count();
    let over = held_s(held) >= hold.for_s || broken >= BROKEN_IN_A_ROW || void >= BROKEN_IN_A_ROW;
    (!over).then_some(Next::Hold { load, step: top + 1, trial: last.trial_after(top + 1) })
}

fn load_of(share: f64, good: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a load, not negative")]
    let load = (good as f64 * share).round() as u64;
    load.max(1)
}

/// From the begin of the first measurement to the end of the last, in seconds.
fn held_s(held: &[Trial]) -> f64 {
    let measured = || held.iter().filter(|trial| trial.measure_s > 0.0);
    let from_ns = measured().map(|trial| trial.measure_from_ns).min();
    let until_ns = measured().map(Trial::measured_until_ns).max();
    from_ns.zip(until_ns).map_or(0.0, |(from_ns, until_ns)| (until_ns - from_ns) as f64 / 1e9)
}

/// What came of holding; `None` where nothing was held.
#[must_use]
pub(super) fn conclude(hold: Option<Hold>, held: &[Trial], unit: &str) -> Option<Holding> {
    let (hold, last) = (hold?, held.last()?);
    let seconds = held_s(held);
    let broken: Vec<&Trial> = held.iter().rev().take_while(|trial| trial.outcome == Outcome::Broke).collect();
    let lasted = broken.len() < BROKEN_IN_A_ROW && seconds >= hold.for_s;
    let load = format!("{} {unit}", figure(last.load as f64));
    let drift = drift(held).map(|words| format!("; {words}")).unwrap_or_default();
    let text = match broken.last() {
        Some(first) if broken.len() >= BROKEN_IN_A_ROW => {
            let after_s = held.first().map_or(0.0, |from| (first.measure_from_ns - from.measure_from_ns) as f64 / 1e9);
            let why =
                first.rules.iter().find(|reading| reading.broke == Some(true)).map(|reading| reading.text.clone());
            let why = why.or_else(|| first.remarks.first().cloned()).unwrap_or_else(|| "see its trials".to_owned());
            format!("{load} did not last: from {} s on, {why}{drift}", figure(after_s.round()))
        }
        _ if lasted => format!("{load} lasted {} s{drift}", figure(seconds.round())),
        _ => format!("{load} were held for {} of {} s only{drift}", figure(seconds.round()), figure(hold.for_s)),
    };
    Some(Holding { load: last.load, asked_s: hold.for_s, held_s: seconds, lasted, text })
}

/// What the load achieved at the begin and at the end: the same load, so that a difference is of time alone.
fn drift(held: &[Trial]) -> Option<String> {
    let judged = || held.iter().filter(|trial| trial.outcome != Outcome::Void && trial.measure_s > 0.0);
    let (first, last) = (judged().next()?, judged().next_back()?);
    let stat = first.operations.first().filter(|_| first.trial != last.trial)?;
    let same = |trial: &Trial| {
        trial.operations.iter().find(|other| other.operation == stat.operation && other.probe == stat.probe).cloned()
    };
    let (early, late) = (same(first)?, same(last)?);
    Some(format!(
        "{} went from {} to {} per second and from {} to {} ms in the mean",
        stat.operation,
        figure(early.ops_per_s),
        figure(late.ops_per_s),
        figure(early.latency.mean_us / 1e3),
        figure(late.latency.mean_us / 1e3)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judge::tests::{probe, trial};

    const HOLD: Hold = Hold { share: 0.9, for_s: 60.0 };

    /// Levels 10 and 20 held; then so many held trials of 25 s with these outcomes.
    fn history(held: &[Outcome]) -> Vec<Trial> {
        let made = |step: u32, load: u64, number: u32, outcome| {
            let mut made = trial(step, load, vec![probe("get", 1_000.0, 1_000)]);
            (made.trial, made.outcome, made.measure_s) = (number, outcome, 25.0);
            made.measure_from_ns = i64::from(step * 100 + number * 30) * 1_000_000_000;
            made
        };
        let mut all =
            vec![made(0, 0, 1, Outcome::Baseline), made(1, 10, 1, Outcome::Held), made(2, 20, 1, Outcome::Held)];
        all.extend((1..).zip(held).map(|(number, outcome)| Trial { holding: true, ..made(3, 18, number, *outcome) }));
        all
    }

    fn decided(held: &[Outcome]) -> Next {
        next(&Ladder::Levels(vec![10, 20]), &[], Some(HOLD), &history(held))
    }

    #[test]
    fn a_share_of_the_answer_is_measured_until_the_time_is_over() {
        use Outcome::{Broke, Held};
        assert_eq!(decided(&[]), Next::Hold { load: 18, step: 3, trial: 1 });
        assert_eq!(decided(&[Held]), Next::Hold { load: 18, step: 3, trial: 2 });
        assert_eq!(decided(&[Held, Broke]), Next::Hold { load: 18, step: 3, trial: 3 });
        assert_eq!(decided(&[Held, Broke, Held]), Next::Stop(StopCode::MaxLoad));
        assert_eq!(decided(&[Broke, Broke]), Next::Stop(StopCode::MaxLoad));
        assert_eq!(next(&Ladder::Levels(vec![10, 20]), &[], None, &history(&[])), Next::Stop(StopCode::MaxLoad));
    }

    #[test]
    fn what_does_not_last_says_from_when() {
        use Outcome::{Broke, Held};
        let told = |held: &[Outcome]| {
            let history = history(held);
            conclude(Some(HOLD), split(&history).1, "domains").map(|holding| (holding.lasted, holding.text))
        };
        assert_eq!(told(&[]), None);
        let (lasted, text) = told(&[Held, Held, Held]).unwrap();
        assert!(lasted && text.starts_with("18 domains lasted 85 s; get went from "), "{text}");
        let (lasted, text) = told(&[Held, Broke, Broke]).unwrap();
        assert!(!lasted && text.starts_with("18 domains did not last: from 30 s on, "), "{text}");
        let (lasted, text) = told(&[Held]).unwrap();
        assert!(!lasted && text.contains("for 25 of 60 s only"), "{text}");
    }
}
