//! The answer of a run, from its trials and the reason it stopped.

use super::{
    actions::{self, Action},
    attribution,
    controller::{self, Ladder},
    figure, goals,
    hold::{self, Hold},
    littles_law,
    rules::Rule,
    search::Bounds,
    usl,
};
use crate::model::{Evidence, Outcome, RunId, Status, StopCode, Trial, Validity, Verdict};

/// What a verdict needs besides the trials.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub run: RunId,
    pub arm: u32,
    pub axis: &'a str,
    pub unit: &'a str,
    pub rules: &'a [Rule],
    pub actions: &'a [Action],
    pub ladder: &'a Ladder,
    pub required: Option<u64>,
    /// `[expect] peak`.
    pub peak: Option<u64>,
    pub hold: Option<Hold>,
    pub shared_machine: bool,
    /// What ended the run, where it was not the controller: an error of launch or preflight, an abort.
    pub reason: Option<&'a str>,
    /// How many arms were planned.
    pub arms: usize,
}

/// Concludes a run.
#[must_use]
pub fn conclude(question: &Question<'_>, all: &[Trial], stop: StopCode) -> Verdict {
    // Whether the answer lasts does not change the answer.
    let (history, held) = hold::split(all);
    let (last_good, first_bad) = limits(question.ladder, history, stop);
    let decisive = decisive(history, first_bad);
    // A search that ends at its maximum has judged it; its trials below may have failed by chance.
    let all_held = matches!(question.ladder, Ladder::Search(_)) || every_load_held(history);
    let status = status(stop, first_bad, all_held, decisive);
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
        reason: question.reason.map(str::to_owned),
        evidence: decisive
            .map(|trial| attribution::explain(history, &actions::without_own_doing(trial)))
            .unwrap_or_default(),
        validity: validity(history, stop, question.shared_machine),
        baseline: baseline(question),
        exit_code: 0,
        actions: actions::told(question.actions, history, told_operation(question.rules), question.unit),
        goals: goals::capacities(history),
        holding: hold::conclude(question.hold, held, question.unit),
        scaling: usl::words(history),
        interval: None,
        arms: Vec::new(),
        findings: Vec::new(),
        steps: all.to_vec(),
    };
    verdict.exit_code = exit_code(&verdict);
    verdict.sentence = sentence(&verdict, decisive, question);
    if let Ladder::Search(_) = question.ladder {
        verdict.sentence.push_str(&trials_at(history, &verdict));
    }
    if let Some(holding) = &verdict.holding {
        verdict.sentence.push_str(&format!(" {}.", holding.text));
    }
    let actions = with_actions(&verdict, question.actions);
    if !actions.is_empty() {
        verdict.sentence = format!("{} {actions}", verdict.sentence);
    }
    verdict
}

/// The highest load that held and the lowest that broke, of trials that looked for the answer.
#[must_use]
pub(super) fn limits(ladder: &Ladder, history: &[Trial], stop: StopCode) -> (Option<u64>, Option<u64>) {
    match ladder {
        Ladder::Search(search) => searched(&controller::bounds(search, history), stop),
        Ladder::Levels(_) | Ladder::Ramp { .. } => climbed(history, stop),
    }
}

/// The bounds of a search; a configured limit is no bound.
fn searched(bounds: &Bounds, stop: StopCode) -> (Option<u64>, Option<u64>) {
    (bounds.lower, bounds.upper.filter(|_| stop != StopCode::LimitReached))
}

/// How the trials at both bounds of a search went: the answer rests on them.
fn trials_at(history: &[Trial], verdict: &Verdict) -> String {
    let at = |load: u64| {
        let judged = || history.iter().filter(move |trial| trial.load == load && trial.outcome != Outcome::Void);
        let held = judged().filter(|trial| trial.outcome == Outcome::Held).count();
        format!("{held} of {} trials at {}", judged().count(), figure(load as f64))
    };
    match (verdict.last_good, verdict.first_bad) {
        (Some(good), Some(bad)) => format!(" {} held, {}.", at(good), at(bad)),
        (Some(only), None) | (None, Some(only)) => format!(" {} held.", at(only)),
        (None, None) => String::new(),
    }
}

/// The bounds of a list of loads: the lowest that is confirmed as broken, and the highest that held below it.
fn climbed(history: &[Trial], stop: StopCode) -> (Option<u64>, Option<u64>) {
    let first_bad = history
        .iter()
        .filter(|trial| {
            trial.decides()
                && trial.load > 0
                && trial.outcome == Outcome::Broke
                && trial.stop_code != Some(StopCode::LimitReached)
        })
        .filter(|trial| confirmed(history, trial, stop))
        .map(|trial| trial.load)
        .min();
    let last_good = history
        .iter()
        .filter(|trial| {
            trial.decides() && trial.outcome == Outcome::Held && first_bad.is_none_or(|bad| trial.load < bad)
        })
        .map(|trial| trial.load)
        .max();
    (last_good, first_bad)
}

/// The operation that a rule looks at, the first of them.
fn told_operation(rules: &[Rule]) -> Option<&str> {
    rules.iter().find_map(Rule::operation)
}

/// What of the actions belongs into the sentence: all of a few, the last of many.
fn with_actions(verdict: &Verdict, actions: &[Action]) -> String {
    let first = verdict.actions.len().saturating_sub(actions.len().max(1));
    verdict.actions[first..].join(" ")
}

/// A load counts as broken when it broke in its last word: twice, or once with the target gone after it.
fn confirmed(history: &[Trial], trial: &Trial, stop: StopCode) -> bool {
    let kind = |trial: &Trial| trial.action.as_ref().map(|report| report.action);
    let here: Vec<&Trial> = history
        .iter()
        .filter(|other| other.step == trial.step && kind(other) == kind(trial) && other.outcome != Outcome::Void)
        .collect();
    let broke = here.iter().filter(|other| other.outcome == Outcome::Broke).count();
    let held = here.iter().filter(|other| other.outcome == Outcome::Held).count();
    broke >= 2 || (held == 0 && (controller::is_gone(trial) || trial.stop_code == Some(stop)))
}

fn decisive(history: &[Trial], first_bad: Option<u64>) -> Option<&Trial> {
    let not_whole = |trial: &&Trial| trial.action.as_ref().is_some_and(|report| !report.is_whole());
    let mut deciding = history.iter().filter(|trial| trial.decides());
    match first_bad {
        Some(bad) => deciding.rfind(|trial| trial.load == bad && trial.outcome == Outcome::Broke),
        // An action after which the target was not whole ended the run, whatever else had been found.
        None => history
            .last()
            .filter(not_whole)
            .or_else(|| deciding.rfind(|trial| trial.outcome != Outcome::Held && trial.load > 0))
            .or(history.last()),
    }
}

/// What kind of answer a run has that ended with this code.
pub(super) fn status(stop: StopCode, first_bad: Option<u64>, all_held: bool, decisive: Option<&Trial>) -> Status {
    match stop {
        StopCode::UserAbort | StopCode::SafetyAbort => Status::Aborted,
        StopCode::LimitReached | StopCode::TimeBudget | StopCode::NoData => Status::Inconclusive,
        StopCode::GeneratorSaturated => Status::Invalid,
        StopCode::TargetUnhealthy => Status::Failed,
        StopCode::MaxLoad if first_bad.is_some() => Status::CapacityFound,
        StopCode::MaxLoad if all_held => Status::NotReached,
        StopCode::MaxLoad => Status::Inconclusive,
        // A load that was not in place in time is a capacity only where the target shows why.
        StopCode::CannotApply if decisive.is_none_or(|trial| !shows_load(trial)) => Status::Failed,
        StopCode::SloLatency
        | StopCode::SloErrors
        | StopCode::ThroughputDrop
        | StopCode::OutstandingHigh
        | StopCode::AchievedShort
        | StopCode::BacklogGrowth
        | StopCode::Plateau
        | StopCode::Retrograde
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

/// Whether the last word on every load is that it held.
fn every_load_held(history: &[Trial]) -> bool {
    let top = history.iter().map(|trial| trial.step).max().unwrap_or(0);
    let deciding = history.iter().filter(|trial| trial.decides());
    top > 0
        && (1..=top).all(|step| {
            deciding.clone().rfind(|trial| trial.step == step).is_some_and(|trial| trial.outcome == Outcome::Held)
        })
}

fn shows_load(trial: &Trial) -> bool {
    trial.rules.iter().any(|reading| reading.broke == Some(true)) || !attribution::signs_of_load(trial).is_empty()
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
    // While a server was gone on purpose much fell due that could not be sent.
    let judged = || history.iter().filter(|trial| trial.outcome != Outcome::Void && trial.decides());
    let mut reasons: Vec<String> = Vec::new();
    for trial in history.iter().filter(|trial| trial.stop_code == Some(StopCode::GeneratorSaturated)) {
        reasons
            .extend(trial.remarks.iter().map(|remark| format!("step {}, trial {}: {remark}", trial.step, trial.trial)));
    }
    Validity {
        valid: stop != StopCode::GeneratorSaturated,
        reasons,
        start_lag_p99_us: judged().filter_map(|trial| trial.health.start_lag_p99_us).max(),
        missed: judged().map(|trial| trial.health.missed).sum(),
        cpu_share: judged().filter_map(|trial| trial.health.cpu_share).max_by(f64::total_cmp),
        shared_machine,
        closed_loop: littles_law::remark(history),
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
            format!(
                "At least {} hold: every load up to the highest that was asked kept every rule when it was measured last.",
                count(good)
            )
        }
        (Status::NotReached, None, _) => "No load was asked.".to_owned(),
        (Status::Inconclusive, ..) => format!("No capacity can be named ({}): {}; {held}.", verdict.stop_code, why()),
        (Status::Invalid, Some(good), _) => format!(
            "{} hold; of higher loads nothing can be said, because the generator was not fit to judge: {}.",
            count(good),
            why()
        ),
        (Status::Invalid, None, _) => {
            format!("Nothing can be said of the target, because the generator was not fit to judge: {}.", why())
        }
        (Status::Failed, ..) => format!("The run failed: {}; {held}.", why()),
        (Status::Aborted, ..) if verdict.stop_code == StopCode::SafetyAbort => {
            format!("A guard stopped the run: {}; {held}.", why())
        }
        (Status::Aborted, ..) => format!("The run was stopped before its answer: {}; {held}.", why()),
    };
    if let Some(required) =
        question.required.filter(|_| matches!(verdict.status, Status::CapacityFound | Status::NotReached))
    {
        let word = if verdict.below_required() { "less than" } else { "enough for" };
        text.push_str(&format!(" That is {word} the required {}.", count(required)));
    }
    let at_least = verdict.status == Status::NotReached;
    if let (Some(peak), Some(good)) =
        (question.peak, verdict.last_good.filter(|_| at_least || verdict.status == Status::CapacityFound))
    {
        let with_action = verdict
            .steps
            .iter()
            .filter(|trial| trial.outcome == Outcome::Held)
            .filter_map(|trial| Some((trial.action.as_ref()?.words(), trial.load)))
            .max_by_key(|(_, load)| *load);
        let with_action = with_action.as_ref().map(|(words, load)| (words.as_str(), *load));
        text.push_str(&format!(" {}", goals::headroom(peak, good, at_least, with_action, unit)));
    }
    text
}

/// Why the run ended, as a clause with figures.
fn cause(verdict: &Verdict, decisive: Option<&Trial>, reason: Option<&str>) -> String {
    if let Some(reason) = reason {
        return reason.to_owned();
    }
    // What a void trial read says nothing: only why it is void.
    let late = verdict.steps.iter().rev().find(|trial| trial.stop_code == Some(StopCode::GeneratorSaturated));
    if let Some(remark) = late.and_then(|trial| trial.remarks.first())
        && verdict.stop_code == StopCode::GeneratorSaturated
    {
        return remark.clone();
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
    // Levels go on after a load that broke: then that load's own code is the reason, not the end of the list.
    let code = decisive.and_then(|trial| trial.stop_code).unwrap_or(verdict.stop_code);
    let first = match (code, decisive) {
        (_, None) => None,
        (StopCode::NoData, Some(trial)) => trial.rules.iter().find(|r| r.broke.is_none()).map(|r| r.text.clone()),
        (_, Some(trial)) => trial
            .remarks
            .first()
            .cloned()
            // A rule that broke is the cause only where the trial ended by it.
            .filter(|_| broken.is_none_or(|reading| reading.rule != code))
            .or_else(|| broken.map(|reading| reading.text.clone())),
    };
    let first = first.unwrap_or_else(|| "see the evidence".to_owned());
    let text = match strongest(&first) {
        Some(resource) if !first.contains(&resource.text) => format!("{first}; {}", resource.text),
        _ => first,
    };
    match decisive.and_then(|trial| trial.action.as_ref()).filter(|report| report.failed.is_none()) {
        Some(report) if !text.starts_with("with ") => format!("with {}, {text}", report.words()),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analysis::{
            Baseline,
            judge::tests::{probe, trial},
        },
        model::{Incident, IncidentKind},
    };

    static LEVELS: Ladder = Ladder::Levels(Vec::new());

    fn rules() -> Vec<Rule> {
        vec![Rule::ThroughputDrop { operation: "get".into(), below: 0.6, baseline: Baseline::default() }]
    }

    fn question(rules: &[Rule]) -> Question<'_> {
        Question {
            run: RunId::new(),
            arm: 0,
            axis: "domains",
            unit: "domains",
            rules,
            actions: &[],
            ladder: &LEVELS,
            required: None,
            peak: None,
            hold: None,
            shared_machine: false,
            reason: None,
            arms: 1,
        }
    }

    /// A run of trials, each a step with its load and outcome; broken ones twice.
    fn concluded(trials: &[(u64, Outcome)], stop: StopCode, required: Option<u64>) -> Verdict {
        let mut history: Vec<Trial> = Vec::new();
        for (step, (load, outcome)) in trials.iter().enumerate() {
            let rate = if *outcome == Broke { 100.0 } else { 1_000.0 };
            for number in 1..=if *outcome == Broke { 2 } else { 1 } {
                let mut made = trial(u32::try_from(step).unwrap(), *load, vec![probe("get", rate, 1_000)]);
                made.rules = rules().iter().map(|rule| rule.read(&made, &history, &[], "domains")).collect();
                (made.trial, made.outcome) = (number, *outcome);
                made.stop_code = matches!(outcome, Broke | Void | Undecided).then_some(stop);
                history.push(made);
            }
        }
        let rules = rules();
        let question = Question { required, shared_machine: true, ..question(&rules) };
        conclude(&question, &history, stop)
    }

    use Outcome::{Baseline as Base, Broke, Held, Undecided, Void};

    #[test]
    fn every_end_of_the_table_has_its_status_and_exit_code() {
        type Case = (&'static [(u64, Outcome)], StopCode, Option<u64>, Status, u8);
        let cases: [Case; 14] = [
            (&[(0, Base), (10, Held), (20, Broke)], StopCode::ThroughputDrop, None, Status::CapacityFound, 0),
            (&[(0, Base), (10, Held), (20, Broke)], StopCode::ThroughputDrop, Some(10), Status::CapacityFound, 0),
            (&[(0, Base), (10, Held), (20, Broke)], StopCode::ThroughputDrop, Some(11), Status::CapacityFound, 2),
            (&[(0, Base), (10, Broke)], StopCode::ThroughputDrop, None, Status::CapacityFound, 0),
            (&[(0, Base), (10, Broke)], StopCode::ThroughputDrop, Some(1), Status::CapacityFound, 2),
            (&[(0, Base), (10, Held), (20, Held)], StopCode::MaxLoad, None, Status::NotReached, 0),
            (&[(0, Base), (10, Held), (20, Held)], StopCode::MaxLoad, Some(30), Status::NotReached, 2),
            (&[(0, Base), (10, Held), (20, Broke)], StopCode::LimitReached, None, Status::Inconclusive, 4),
            (&[(0, Base), (10, Held)], StopCode::TimeBudget, None, Status::Inconclusive, 4),
            (&[(0, Base), (10, Undecided)], StopCode::NoData, Some(5), Status::Inconclusive, 4),
            (&[(0, Base), (10, Void)], StopCode::GeneratorSaturated, None, Status::Invalid, 5),
            (&[(0, Base), (10, Void)], StopCode::TargetUnhealthy, None, Status::Failed, 6),
            (&[(0, Base), (10, Held)], StopCode::UserAbort, None, Status::Aborted, 8),
            (&[], StopCode::TargetUnhealthy, None, Status::Failed, 6),
        ];
        for (trials, stop, required, status, exit_code) in cases {
            let verdict = concluded(trials, stop, required);
            assert_eq!(
                (verdict.status, verdict.exit_code),
                (status, exit_code),
                "{trials:?} {stop}: {}",
                verdict.sentence
            );
            assert!(!verdict.sentence.is_empty());
        }
    }

    #[test]
    fn a_capacity_has_both_bounds_and_says_why() {
        let verdict = concluded(&[(0, Base), (10, Held), (20, Held), (30, Broke)], StopCode::ThroughputDrop, Some(30));
        assert_eq!((verdict.last_good, verdict.first_bad), (Some(20), Some(30)));
        assert!(
            verdict.sentence.starts_with("20 domains hold, 30 do not. At 30 domains, get ran at 100 per second, 10 %"),
            "{}",
            verdict.sentence
        );
        assert!(verdict.sentence.ends_with("That is less than the required 30 domains."), "{}", verdict.sentence);
        assert_eq!(verdict.baseline, "step 0, the empty target");
    }

    #[test]
    fn what_held_before_the_generator_was_late_still_holds() {
        let verdict = concluded(&[(0, Base), (10, Held), (20, Void)], StopCode::GeneratorSaturated, None);
        assert!(
            verdict.sentence.starts_with("10 domains hold; of higher loads nothing can be said, because the generator"),
            "{}",
            verdict.sentence
        );
        let mut history = verdict.steps;
        let void = history.last_mut().unwrap();
        void.remarks = vec!["the generator was late".to_owned()];
        void.rules.iter_mut().for_each(|rule| rule.broke = Some(true));
        let rules = rules();
        let question = question(&rules);
        let verdict = conclude(&question, &history, StopCode::GeneratorSaturated);
        assert!(verdict.sentence.ends_with("not fit to judge: the generator was late."), "{}", verdict.sentence);
        let verdict = concluded(&[(0, Base), (10, Void)], StopCode::GeneratorSaturated, None);
        assert!(verdict.sentence.starts_with("Nothing can be said of the target"), "{}", verdict.sentence);
    }

    #[test]
    fn the_first_load_that_breaks_gives_no_lower_bound() {
        let verdict = concluded(&[(0, Base), (10, Broke)], StopCode::ThroughputDrop, None);
        assert_eq!((verdict.last_good, verdict.first_bad), (None, Some(10)));
        assert!(verdict.sentence.starts_with("Fewer than 10 domains hold"), "{}", verdict.sentence);
    }

    #[test]
    fn one_broken_trial_that_held_when_repeated_is_no_capacity() {
        let verdict = concluded(&[(0, Base), (10, Held), (20, Held)], StopCode::MaxLoad, None);
        let mut history = verdict.steps;
        let mut flash = trial(2, 20, vec![]);
        (flash.outcome, flash.stop_code) = (Broke, Some(StopCode::ThroughputDrop));
        history.insert(2, flash);
        let rules = rules();
        let question = question(&rules);
        let verdict = conclude(&question, &history, StopCode::MaxLoad);
        assert_eq!((verdict.status, verdict.first_bad, verdict.last_good), (Status::NotReached, None, Some(20)));
    }

    #[test]
    fn a_run_ends_with_the_words_of_what_ended_it() {
        let verdict = concluded(&[(0, Base), (10, Broke)], StopCode::ThroughputDrop, None);
        let mut late = verdict.steps[1].clone();
        (late.outcome, late.stop_code) = (Void, Some(StopCode::GeneratorSaturated));
        late.remarks = vec!["the generator was late".into()];
        let mut empty = trial(0, 0, vec![]);
        (empty.outcome, empty.stop_code) = (Void, Some(StopCode::TargetUnhealthy));
        empty.remarks = vec!["a ended".into()];
        for (history, stop, said) in [
            (vec![verdict.steps[0].clone(), late], StopCode::GeneratorSaturated, "judge: the generator was late"),
            (vec![empty], StopCode::TargetUnhealthy, "The run failed: a ended"),
        ] {
            let rules = rules();
            let question = question(&rules);
            let verdict = conclude(&question, &history, stop);
            assert!(verdict.sentence.contains(said), "{}", verdict.sentence);
        }
    }

    #[test]
    fn a_load_that_is_not_in_place_is_a_capacity_only_where_the_target_shows_why() {
        let verdict = concluded(&[(0, Base), (10, Held), (20, Broke)], StopCode::CannotApply, None);
        assert_eq!((verdict.status, verdict.first_bad), (Status::CapacityFound, Some(20)), "a rule broke as well");
        let mut history = verdict.steps;
        for slow in &mut history[2..] {
            slow.rules.clear();
        }
        let rules = rules();
        let question = question(&rules);
        let verdict = conclude(&question, &history, StopCode::CannotApply);
        assert_eq!((verdict.status, verdict.exit_code), (Status::Failed, 6), "{}", verdict.sentence);
        assert_eq!((verdict.last_good, verdict.first_bad), (Some(10), None));
    }

    #[test]
    fn a_target_that_died_is_not_measured_twice_and_counts_all_the_same() {
        let verdict = concluded(&[(0, Base), (10, Held)], StopCode::MaxLoad, None);
        let mut history = verdict.steps;
        let mut dead = trial(2, 20, vec![]);
        (dead.outcome, dead.stop_code) = (Broke, Some(StopCode::TargetSaturated));
        dead.remarks = vec!["a ended; the heap is full".into()];
        dead.incidents.push(Incident {
            at_ns: 0,
            kind: IncidentKind::Died,
            node: "a".into(),
            text: "a ended".into(),
            amount: 1.0,
        });
        history.push(dead);
        let rules = rules();
        let question = question(&rules);
        let verdict = conclude(&question, &history, StopCode::TargetSaturated);
        assert_eq!((verdict.status, verdict.first_bad), (Status::CapacityFound, Some(20)));
        assert!(verdict.sentence.contains("the heap is full"), "{}", verdict.sentence);
    }

    #[test]
    fn the_verdict_as_json_has_every_promised_field() {
        let text = serde_json::to_string(&concluded(&[(0, Base), (10, Held)], StopCode::MaxLoad, None)).unwrap();
        for field in [
            "run_id",
            "status",
            "stop_code",
            "axis",
            "unit",
            "last_good",
            "first_bad",
            "sentence",
            "evidence",
            "validity",
            "steps",
        ] {
            assert!(text.contains(&format!("\"{field}\":")), "{field}");
        }
    }

    #[test]
    fn actions_are_told_and_only_a_required_one_bounds_the_capacity() {
        use crate::{
            analysis::actions::{At, tests::action},
            model::action::tests::report,
        };

        let plain = concluded(&[(0, Base), (10, Held), (20, Held)], StopCode::MaxLoad, None).steps;
        let acted = |number, required| {
            let mut made = trial(2, 20, vec![probe("get", 100.0, 1_000)]);
            made.rules = rules().iter().map(|rule| rule.read(&made, &plain, &[], "domains")).collect();
            (made.trial, made.outcome, made.stop_code) = (number, Broke, Some(StopCode::ThroughputDrop));
            made.action = Some(report(0, required));
            made
        };
        let rules = rules();
        for required in [false, true] {
            let actions = [action(At::Load(20), required)];
            let history: Vec<Trial> = plain.iter().cloned().chain([acted(2, required), acted(3, required)]).collect();
            let question = Question { actions: &actions, ..question(&rules) };
            let stop = if required { StopCode::ThroughputDrop } else { StopCode::MaxLoad };
            let verdict = conclude(&question, &history, stop);
            let found = (verdict.status, verdict.last_good, verdict.first_bad);
            let sentence = &verdict.sentence;
            if required {
                assert_eq!(found, (Status::CapacityFound, Some(10), Some(20)));
                let said =
                    "10 domains hold, 20 do not. At 20 domains, with the leader killed, get ran at 100 per second";
                assert!(sentence.starts_with(said), "{sentence}");
            } else {
                assert_eq!(found, (Status::NotReached, Some(20), None));
            }
            assert!(sentence.ends_with("served again after 2.5 s, the whole load after 6.2 s."), "{sentence}");
            assert_eq!(verdict.actions.len(), 2);
        }
    }

    #[test]
    fn an_action_after_which_the_target_is_not_whole_fails_the_run_in_its_words() {
        use crate::model::{ActionReport, action::tests::report};

        let mut history = concluded(&[(0, Base), (10, Held)], StopCode::MaxLoad, None).steps;
        let mut acted = trial(1, 10, vec![]);
        (acted.outcome, acted.stop_code) = (Void, Some(StopCode::TargetUnhealthy));
        let failed = "cannot start a: its client port is in use by another process";
        acted.action = Some(ActionReport { failed: Some(failed.into()), rejoined_s: None, ..report(0, false) });
        acted.remarks = vec![failed.into()];
        history.push(acted);
        let rules = rules();
        let verdict = conclude(&question(&rules), &history, StopCode::TargetUnhealthy);
        assert_eq!((verdict.status, verdict.exit_code, verdict.last_good), (Status::Failed, 6, Some(10)));
        assert!(
            verdict.sentence.starts_with(&format!("The run failed: {failed}; 10 domains hold.")),
            "{}",
            verdict.sentence
        );
    }
}
