//! The answer of a run, from its trials and the reason it stopped.

use super::{attribution, figure, rules::Rule};
use crate::model::{Evidence, Outcome, RunId, Status, StopCode, Trial, Validity, Verdict};

/// What a verdict needs besides the trials.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub run: RunId,
    pub arm: u32,
    pub axis: &'a str,
    pub unit: &'a str,
    pub rules: &'a [Rule],
    pub required: Option<u64>,
    pub shared_machine: bool,
    /// What ended the run, where it was not the controller: an error of launch or preflight, an abort.
    pub reason: Option<&'a str>,
}

/// Concludes a run.
#[must_use]
pub fn conclude(question: &Question<'_>, history: &[Trial], stop: StopCode) -> Verdict {
    let first_bad = history
        .iter()
        .filter(|trial| trial.outcome == Outcome::Broke && trial.stop_code != Some(StopCode::LimitReached))
        .filter(|trial| confirmed(history, trial, stop))
        .map(|trial| trial.load)
        .min();
    let last_good = history
        .iter()
        .filter(|trial| trial.outcome == Outcome::Held && first_bad.is_none_or(|bad| trial.load < bad))
        .map(|trial| trial.load)
        .max();
    let status = status(stop, first_bad, history);
    let decisive = decisive(history, first_bad);
    let mut verdict = Verdict {
        run_id: question.run,
        arm: question.arm,
        status,
        stop_code: stop,
        axis: question.axis.to_owned(),
        unit: question.unit.to_owned(),
        last_good,
        first_bad: if status == Status::CapacityFound { first_bad } else { None },
        required: question.required,
        sentence: String::new(),
        evidence: decisive.map(|trial| attribution::explain(history, trial)).unwrap_or_default(),
        validity: validity(history, stop, question.shared_machine),
        baseline: baseline(question),
        exit_code: 0,
        steps: history.to_vec(),
    };
    verdict.exit_code = exit_code(&verdict);
    verdict.sentence = sentence(&verdict, decisive, question);
    verdict
}

/// A load counts as broken when it broke in its last word: twice, or once with the target gone after it.
fn confirmed(history: &[Trial], trial: &Trial, stop: StopCode) -> bool {
    let here: Vec<&Trial> =
        history.iter().filter(|other| other.step == trial.step && other.outcome != Outcome::Void).collect();
    let broke = here.iter().filter(|other| other.outcome == Outcome::Broke).count();
    let held = here.iter().filter(|other| other.outcome == Outcome::Held).count();
    broke >= 2 || (held == 0 && (super::controller::is_gone(trial) || trial.stop_code == Some(stop)))
}

fn decisive(history: &[Trial], first_bad: Option<u64>) -> Option<&Trial> {
    match first_bad {
        Some(bad) => history.iter().rfind(|trial| trial.load == bad && trial.outcome == Outcome::Broke),
        None => history.iter().rfind(|trial| trial.load > 0),
    }
}

fn status(stop: StopCode, first_bad: Option<u64>, history: &[Trial]) -> Status {
    match stop {
        StopCode::UserAbort | StopCode::SafetyAbort => Status::Aborted,
        StopCode::LimitReached | StopCode::TimeBudget | StopCode::NoData => Status::Inconclusive,
        StopCode::GeneratorSaturated => Status::Invalid,
        StopCode::TargetUnhealthy => Status::Failed,
        StopCode::MaxLoad if first_bad.is_some() => Status::CapacityFound,
        StopCode::MaxLoad if history.iter().any(|trial| trial.outcome == Outcome::Held) => Status::NotReached,
        StopCode::MaxLoad => Status::Inconclusive,
        StopCode::CannotApply if first_bad.is_none() => Status::Failed,
        StopCode::SloLatency
        | StopCode::SloErrors
        | StopCode::ThroughputDrop
        | StopCode::OutstandingHigh
        | StopCode::CannotApply
        | StopCode::TargetSaturated => {
            if first_bad.is_some() {
                Status::CapacityFound
            } else {
                Status::Failed
            }
        }
    }
}

/// The exit codes of design 7, fixed.
#[must_use]
pub fn exit_code(verdict: &Verdict) -> u8 {
    match verdict.status {
        Status::CapacityFound | Status::NotReached if verdict.below_required() => 2,
        Status::CapacityFound | Status::NotReached => 0,
        Status::Inconclusive => 4,
        Status::Invalid => 5,
        Status::Failed => 6,
        Status::Aborted => 8,
    }
}

fn validity(history: &[Trial], stop: StopCode, shared_machine: bool) -> Validity {
    let judged = || history.iter().filter(|trial| trial.outcome != Outcome::Void);
    let mut reasons: Vec<String> = Vec::new();
    for trial in history.iter().filter(|trial| trial.stop_code == Some(StopCode::GeneratorSaturated)) {
        reasons
            .extend(trial.remarks.iter().map(|remark| format!("step {}, trial {}: {remark}", trial.step, trial.trial)));
    }
    Validity {
        valid: stop != StopCode::GeneratorSaturated,
        reasons,
        start_lag_p99_us: judged().map(|trial| trial.health.start_lag_p99_us).max().unwrap_or(0),
        missed: judged().map(|trial| trial.health.missed).sum(),
        cpu_share: judged().map(|trial| trial.health.cpu_share).fold(0.0, f64::max),
        shared_machine,
    }
}

fn baseline(question: &Question<'_>) -> String {
    let mut words: Vec<String> =
        question.rules.iter().filter_map(Rule::baseline).map(|b| b.words(question.unit)).collect();
    words.dedup();
    if words.is_empty() { "none: no rule compares".to_owned() } else { words.join("; ") }
}

fn sentence(verdict: &Verdict, decisive: Option<&Trial>, question: &Question<'_>) -> String {
    let unit = &verdict.unit;
    let count = |load: u64| format!("{} {unit}", figure(load as f64));
    let held = verdict
        .last_good
        .map_or_else(|| "no load was shown to hold".to_owned(), |good| format!("{} hold", count(good)));
    let why = || cause(verdict, decisive, question.reason);
    let mut text = match (verdict.status, verdict.last_good, verdict.first_bad) {
        (Status::CapacityFound, Some(good), Some(bad)) => {
            format!("{} hold, {} do not. At {}, {}.", count(good), figure(bad as f64), count(bad), why())
        }
        (Status::CapacityFound, None, bad) => {
            let bad = bad.unwrap_or(0);
            format!("Fewer than {} hold: already at the first load, {}.", count(bad), why())
        }
        (Status::CapacityFound, Some(good), None) => format!("{} hold.", count(good)),
        (Status::NotReached, Some(good), _) => {
            format!("At least {} hold: every load up to the highest that was asked kept every rule.", count(good))
        }
        (Status::NotReached, None, _) => "No load was asked.".to_owned(),
        (Status::Inconclusive, ..) => format!("No capacity can be named ({}): {}; {held}.", verdict.stop_code, why()),
        (Status::Invalid, ..) => {
            format!("Nothing can be said of the target, because the generator was not fit to judge: {}; {held}.", why())
        }
        (Status::Failed, ..) => format!("The run failed: {}; {held}.", why()),
        (Status::Aborted, ..) => format!("The run was stopped before its answer: {}; {held}.", why()),
    };
    if let Some(required) =
        question.required.filter(|_| matches!(verdict.status, Status::CapacityFound | Status::NotReached))
    {
        let word = if verdict.below_required() { "less than" } else { "enough for" };
        text.push_str(&format!(" That is {word} the required {}.", count(required)));
    }
    text
}

/// Why the run ended, as a clause with figures.
fn cause(verdict: &Verdict, decisive: Option<&Trial>, reason: Option<&str>) -> String {
    if let Some(reason) = reason {
        return reason.to_owned();
    }
    let strongest = |skip: &str| -> Option<&Evidence> {
        verdict.evidence.iter().find(|evidence| {
            evidence.text != skip
                && matches!(evidence.certainty, crate::model::Certainty::Strong)
                && !evidence.readings.is_empty()
                && evidence.readings.iter().all(|reading| !reading.node.is_empty())
        })
    };
    let broken = decisive.and_then(|trial| trial.rules.iter().find(|reading| reading.broke == Some(true)));
    let first = match (verdict.stop_code, decisive) {
        (StopCode::MaxLoad, _) | (_, None) => None,
        (StopCode::NoData, Some(trial)) => trial.rules.iter().find(|r| r.broke.is_none()).map(|r| r.text.clone()),
        (_, Some(trial)) => trial
            .remarks
            .first()
            .cloned()
            .filter(|_| broken.is_none() || verdict.stop_code == StopCode::TargetSaturated)
            .or_else(|| broken.map(|reading| reading.text.clone())),
    };
    let first = first.unwrap_or_else(|| "see the evidence".to_owned());
    match strongest(&first) {
        Some(resource) if !first.contains(&resource.text) => format!("{first}; {}", resource.text),
        _ => first,
    }
}
