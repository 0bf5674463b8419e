//! Judges a stored run again from what was stored: the same verdict, or what the rules say otherwise now.

use super::{
    ValidityLimits, arms, figure, hold,
    judge::judge,
    verdict::{Question, conclude},
};
use crate::{
    analysis::Next,
    model::{ArmResult, RuleReading, Sample, Trial, Verdict},
};

/// A run that was judged again.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejudged {
    pub verdict: Verdict,
    /// What differs from the stored verdict, a sentence each; empty: nothing, to the byte.
    pub changes: Vec<String>,
}

/// Judges every trial of a verdict again, in order, then the run. `question` is of the run's scenario; its run, arm, reason and
/// machine are taken from what is stored. `samples` gives the target's readings during a trial's measurement.
///
/// # Errors
/// When a verdict cannot be written as JSON, which is how both are compared.
pub fn rejudge(
    question: &Question<'_>,
    stored: &Verdict,
    samples: impl Fn(&Trial) -> Vec<Sample>,
) -> Result<Rejudged, serde_json::Error> {
    let mut changes = Vec::new();
    let verdict = if stored.arms.is_empty() {
        one(question, stored, &stored.steps, &samples, &mut changes)
    } else {
        let results = stored.arms.iter().map(|result| {
            let number = result.arm.number;
            let trials: Vec<Trial> = stored.steps.iter().filter(|trial| trial.arm == number).cloned().collect();
            ArmResult { verdict: one(question, &result.verdict, &trials, &samples, &mut changes), ..result.clone() }
        });
        // More were planned than measured only where the run says so, which its status does.
        let results: Vec<ArmResult> = results.collect();
        let planned = question.arms.max(results.len());
        arms::conclude(results, planned).unwrap_or_else(|| stored.clone())
    };
    let (before, now) = (serde_json::to_string(stored)?, serde_json::to_string(&verdict)?);
    if before != now {
        if stored.sentence != verdict.sentence {
            changes.push(format!("The answer was: {} It is now: {}", stored.sentence, verdict.sentence));
        }
        if changes.is_empty() {
            changes.push("The answer is the same; its evidence or its figures differ.".to_owned());
        }
    }
    Ok(Rejudged { verdict, changes })
}

/// One arm.
fn one(
    question: &Question<'_>,
    stored: &Verdict,
    trials: &[Trial],
    samples: &impl Fn(&Trial) -> Vec<Sample>,
    changes: &mut Vec<String>,
) -> Verdict {
    let limits = ValidityLimits::of(question.rules);
    let mut history: Vec<Trial> = Vec::new();
    for trial in trials {
        let judged = judge(question.rules, trial, &history, &samples(trial), limits, question.unit);
        let mut again = trial.clone();
        if !again.remarks.starts_with(&judged.remarks) {
            again.remarks.splice(0..0, judged.remarks);
        }
        (again.outcome, again.stop_code, again.rules) = (judged.outcome, judged.stop_code, judged.rules);
        changes.extend(change(trial, &again, question.unit));
        history.push(again);
    }
    let question = Question {
        run: stored.run_id,
        arm: stored.arm,
        reason: stored.reason.as_deref(),
        shared_machine: stored.validity.shared_machine,
        ..question.clone()
    };
    // What ended it from outside is stored; what the ladder says follows from the trials.
    let stop = match hold::next(question.ladder, question.actions, question.hold, &history) {
        Next::Stop(code) if stored.reason.is_none() => code,
        Next::Stop(_) | Next::Measure { .. } | Next::Act { .. } | Next::Hold { .. } => stored.stop_code,
    };
    conclude(&question, &history, stop)
}

/// What differs of a trial, in a sentence.
fn change(before: &Trial, now: &Trial, unit: &str) -> Option<String> {
    let at = format!("Step {}, trial {} at {} {unit}", now.step, now.trial, figure(now.load as f64));
    if before.outcome != now.outcome || before.stop_code != now.stop_code {
        let code = |trial: &Trial| trial.stop_code.map(|code| format!(" ({code})")).unwrap_or_default();
        let (old, new) = (format!("{:?}{}", before.outcome, code(before)), format!("{:?}{}", now.outcome, code(now)));
        return Some(format!("{at} was {}, is {}.", old.to_lowercase(), new.to_lowercase()));
    }
    let differs = |(old, new): &(&RuleReading, &RuleReading)| old != new;
    let pair = before.rules.iter().zip(&now.rules).find(differs);
    if let Some((old, new)) = pair {
        return Some(format!("{at}: the rule read \"{}\", it reads \"{}\".", old.text, new.text));
    }
    (before.rules.len() != now.rules.len())
        .then(|| format!("{at} was judged by {} rules, is judged by {}.", before.rules.len(), now.rules.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analysis::{
            Baseline, Ladder, Rule,
            judge::tests::{probe, trial},
        },
        model::{Outcome, RunId, StopCode},
    };

    fn question<'a>(rules: &'a [Rule], ladder: &'a Ladder) -> Question<'a> {
        Question {
            run: RunId::new(),
            arm: 0,
            axis: "domains",
            unit: "domains",
            rules,
            actions: &[],
            ladder,
            required: Some(10),
            peak: None,
            hold: None,
            shared_machine: true,
            reason: None,
            arms: 1,
        }
    }

    fn rules(below: f64) -> Vec<Rule> {
        vec![Rule::ThroughputDrop { operation: "get".into(), below, baseline: Baseline::default() }]
    }

    /// A run as it would be stored: each trial judged as it came.
    fn stored(rules: &[Rule], ladder: &Ladder) -> Verdict {
        let question = question(rules, ladder);
        let mut history: Vec<Trial> = Vec::new();
        while let Next::Measure { load, step, trial: number } = hold::next(ladder, &[], None, &history) {
            let rate = 1_000.0 - 20.0 * load as f64;
            let mut made = Trial { trial: number, ..trial(step, load, vec![probe("get", rate, 1_000)]) };
            let judged = judge(rules, &made, &history, &[], ValidityLimits::of(rules), "domains");
            (made.outcome, made.stop_code, made.rules) = (judged.outcome, judged.stop_code, judged.rules);
            made.remarks = judged.remarks;
            made.remarks.push("what was seen".to_owned());
            history.push(made);
        }
        conclude(&question, &history, StopCode::ThroughputDrop)
    }

    #[test]
    fn the_same_rules_give_the_same_verdict_to_the_byte() {
        let (rules, ladder) = (rules(0.6), Ladder::Ramp { start: 10, step: 10, max: 50 });
        let stored = stored(&rules, &ladder);
        assert_eq!((stored.last_good, stored.first_bad), (Some(20), Some(30)));
        let again = rejudge(&question(&rules, &ladder), &stored, |_| Vec::new()).unwrap();
        assert_eq!(again.changes, Vec::<String>::new());
        assert_eq!(again.verdict, stored);
    }

    #[test]
    fn other_rules_say_which_trials_they_judge_otherwise() {
        let ladder = Ladder::Ramp { start: 10, step: 10, max: 50 };
        let stored = stored(&rules(0.6), &ladder);
        let stricter = rules(0.9);
        let again = rejudge(&question(&stricter, &ladder), &stored, |_| Vec::new()).unwrap();
        assert!(
            again.changes[0].starts_with("Step 1, trial 1 at 10 domains was held, is broke (throughput_drop)"),
            "{:?}",
            again.changes
        );
        assert!(again.changes.last().unwrap().starts_with("The answer was: 20 domains hold"), "{:?}", again.changes);
        assert_eq!(again.verdict.steps[1].outcome, Outcome::Broke);
    }
}
