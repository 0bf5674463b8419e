//! The words that pages and reports put to states, codes and outcomes. A verdict's own sentence comes from the verdict.

use super::{Mark, format};
use crate::{
    model::{Certainty, IncidentKind, Outcome, Phase, RunState, Status, StopCode, Trial, Verdict},
    store::{RunDetail, RunRow},
};

/// The answer first: what stands largest on a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// Small, before the figure: `at least`.
    pub before: &'static str,
    /// The figure, or one word where there is none.
    pub big: String,
    /// Behind the figure: `domains hold`.
    pub after: String,
    /// One sentence below.
    pub below: String,
    pub mark: Mark,
}

/// The headline of a run that is over.
#[must_use]
pub fn headline(detail: &RunDetail) -> Headline {
    match &detail.verdict {
        Some(verdict) if detail.has_arms() => of_arms(verdict),
        Some(verdict) => of_verdict(verdict),
        None => without_verdict(detail),
    }
}

fn of_verdict(verdict: &Verdict) -> Headline {
    let unit = &verdict.unit;
    let held = verdict.last_good.map(format::count);
    let bad = verdict.first_bad.map(format::count);
    let known = match (&held, &bad) {
        (Some(held), Some(bad)) => format!("{held} {unit} held, {bad} did not."),
        (Some(held), None) => format!("{held} {unit} held; nothing above was decided."),
        (None, Some(bad)) => format!("{bad} {unit} did not hold; nothing below was decided."),
        (None, None) => "No load was decided.".to_owned(),
    };
    let plain = |big: &str, below: String, mark: Mark| Headline {
        before: "",
        big: big.to_owned(),
        after: String::new(),
        below,
        mark,
    };
    let wanted = if verdict.below_required() { Mark::Bad } else { Mark::Good };
    match verdict.status {
        Status::CapacityFound => match (held, bad) {
            (Some(held), bad) => Headline {
                before: "",
                big: held,
                after: format!("{unit} hold"),
                below: bad.map_or_else(|| "The next load did not.".to_owned(), |bad| format!("{bad} do not.")),
                mark: wanted,
            },
            (None, bad) => Headline {
                before: "less than",
                big: bad.unwrap_or_else(|| "1".to_owned()),
                after: unit.clone(),
                below: "The first load broke already: start the ramp lower to find what holds.".to_owned(),
                mark: Mark::Bad,
            },
        },
        Status::NotReached => Headline {
            before: "at least",
            big: held.unwrap_or_else(|| "0".to_owned()),
            after: format!("{unit} hold"),
            below: "Every load held when it was measured last. Raise the highest load to find the limit.".to_owned(),
            mark: wanted,
        },
        Status::Inconclusive => plain("Inconclusive", known, Mark::Wait),
        Status::Invalid => plain(
            "Invalid",
            format!(
                "The generator was not fit to judge{}",
                verdict.validity.reasons.first().map_or_else(|| ".".to_owned(), |why| format!(": {}", ended(why)))
            ),
            Mark::Void,
        ),
        Status::Failed => plain("Failed", known, Mark::Bad),
        Status::Aborted => plain("Aborted", known, Mark::Void),
    }
}

/// Of a run with several arms: what all of them carried, or from what to what.
fn of_arms(verdict: &Verdict) -> Headline {
    let answered = || {
        let answers = |status| matches!(status, Status::CapacityFound | Status::NotReached);
        verdict.arms.iter().filter(move |result| answers(result.verdict.status))
    };
    let goods = || answered().map(|result| result.verdict.last_good.unwrap_or(0));
    let (Some(low), Some(high)) = (goods().min(), goods().max()) else { return of_verdict(verdict) };
    let all_held = answered().all(|result| result.verdict.status == Status::NotReached);
    let (big, before) = match (low == high, all_held) {
        (true, true) => (format::count(low), "at least"),
        (true, false) => (format::count(low), ""),
        (false, _) => (format!("{} to {}", format::count(low), format::count(high)), ""),
    };
    let differ = verdict.findings.iter().filter(|finding| finding.differs).count();
    let below = match (answered().count(), verdict.arms.len()) {
        (known, all) if known < all => format!("{known} of {all} arms have an answer."),
        (_, all) if differ == 0 => format!("{all} arms; nothing differs beyond the spread of the repetitions."),
        (_, all) => format!("{all} arms; {differ} {}", if differ == 1 { "finding." } else { "findings." }),
    };
    Headline { before, big, after: format!("{} hold", verdict.unit), below, mark: status_mark(verdict.status) }
}

fn without_verdict(detail: &RunDetail) -> Headline {
    let held = detail.trials.iter().filter(|trial| trial.outcome == Outcome::Held).map(|trial| trial.load).max();
    let known = held.map_or_else(
        || "No load had been decided.".to_owned(),
        |load| format!("{} {} had held until then.", format::count(load), detail.run.unit),
    );
    let (big, below) = if detail.run.state == RunState::Interrupted {
        ("Interrupted", format!("The server went away while this ran. {known} Finished steps are kept."))
    } else {
        ("No verdict", known)
    };
    Headline { before: "", big: big.to_owned(), after: String::new(), below, mark: Mark::Void }
}

/// How a status looks: bad where it names what broke, plain where the run just ended.
#[must_use]
pub const fn status_mark(status: Status) -> Mark {
    match status {
        Status::CapacityFound | Status::Failed => Mark::Bad,
        Status::NotReached => Mark::Good,
        Status::Inconclusive => Mark::Wait,
        Status::Invalid | Status::Aborted => Mark::Void,
    }
}

/// A sentence with its full stop.
#[must_use]
pub fn ended(sentence: &str) -> String {
    if sentence.ends_with('.') { sentence.to_owned() } else { format!("{sentence}.") }
}

/// The answer of a run in a list, on one line, with its mark.
#[must_use]
pub fn short_answer(row: &RunRow) -> (String, Mark) {
    let unit = &row.unit;
    let held = row.last_good.map(format::count);
    let bad = row.first_bad.map(format::count);
    let known = held.as_ref().map_or_else(String::new, |held| format!(", {held} {unit} held"));
    match (row.state, row.status) {
        (RunState::Queued, _) => ("waiting".to_owned(), Mark::Wait),
        (RunState::Running, _) => ("running".to_owned(), Mark::None),
        (RunState::Interrupted, None) => (format!("interrupted{known}"), Mark::Void),
        (_, Some(Status::CapacityFound)) => match (held, bad) {
            (Some(held), _) => (format!("{held} {unit}"), Mark::Good),
            (None, bad) => (format!("less than {} {unit}", bad.unwrap_or_default()), Mark::Bad),
        },
        (_, Some(Status::NotReached)) => (format!("at least {} {unit}", held.unwrap_or_default()), Mark::Good),
        (_, Some(Status::Inconclusive)) => (format!("inconclusive{known}"), Mark::Wait),
        (_, Some(Status::Invalid)) => ("invalid".to_owned(), Mark::Void),
        (_, Some(Status::Failed)) => (format!("failed{known}"), Mark::Bad),
        (_, Some(Status::Aborted)) => (format!("aborted{known}"), Mark::Void),
        (RunState::Finished, None) => ("no verdict".to_owned(), Mark::Void),
    }
}

/// What became of a trial, in one word.
#[must_use]
pub const fn outcome(outcome: Outcome) -> (&'static str, Mark) {
    match outcome {
        Outcome::Baseline => ("baseline", Mark::None),
        Outcome::Held => ("held", Mark::Good),
        Outcome::Broke => ("broke", Mark::Bad),
        Outcome::Void => ("void", Mark::Void),
        Outcome::Undecided => ("undecided", Mark::Wait),
    }
}

/// How sure a piece of evidence is.
#[must_use]
pub const fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Strong => "strong",
        Certainty::Likely => "likely",
        Certainty::Weak => "weak",
        Certainty::RuledOut => "ruled out",
    }
}

/// What a stop code means, in a few words.
#[must_use]
pub const fn stop_code(code: StopCode) -> &'static str {
    match code {
        StopCode::SloLatency => "a latency goal was broken",
        StopCode::SloErrors => "a goal for errors was broken",
        StopCode::ThroughputDrop => "operations per second fell below the rule",
        StopCode::OutstandingHigh => "too many requests were outstanding",
        StopCode::AchievedShort => "too little of what fell due was done",
        StopCode::BacklogGrowth => "what waited for an answer grew",
        StopCode::Plateau => "more load brought no more throughput",
        StopCode::Retrograde => "throughput fell while the load rose",
        StopCode::CannotApply => "the next load could not be put in place",
        StopCode::TargetSaturated => "the target gave way under the load",
        StopCode::TargetUnhealthy => "the target failed outside the load's doing",
        StopCode::LimitReached => "a configured limit was met, not a bottleneck",
        StopCode::GeneratorSaturated => "the generator was the limit",
        StopCode::NoData => "there was too little data to decide",
        StopCode::MaxLoad => "the highest load was reached",
        StopCode::TimeBudget => "the time was up",
        StopCode::UserAbort => "someone stopped it",
        StopCode::SafetyAbort => "a safety limit stopped it",
    }
}

/// What a live run is doing, as a phrase behind the load.
#[must_use]
pub const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting for the target",
        Phase::Launching => "launching the target",
        Phase::Preflight => "looking at the target",
        Phase::WarmingUp => "warming up",
        Phase::Filling => "putting the load in place",
        Phase::Settling => "settling",
        Phase::Measuring => "measuring",
        Phase::Judging => "judging",
        Phase::Acting => "acting on the target, until it serves again",
        Phase::Rejoining => "bringing servers back",
        Phase::Cleaning => "cleaning up",
    }
}

/// The name of an incident.
#[must_use]
pub const fn incident(kind: IncidentKind) -> &'static str {
    match kind {
        IncidentKind::Stall => "stall",
        IncidentKind::Paused => "paused from outside",
        IncidentKind::Died => "process ended",
        IncidentKind::Restarted => "restart",
        IncidentKind::Election => "election",
        IncidentKind::RoleChanged => "role changed",
        IncidentKind::NotOneLeader => "not one leader",
        IncidentKind::SessionExpired => "session expired",
        IncidentKind::ConnectionClosed => "connection closed",
        IncidentKind::NotServing => "not serving",
        IncidentKind::CannotApply => "load not in place",
        IncidentKind::FillTimedOut => "load not in place in time",
        IncidentKind::LimitReached => "limit met",
    }
}

/// The name of a step: its load, or the empty target.
#[must_use]
pub fn step(trial: &Trial, unit: &str) -> String {
    if trial.outcome == Outcome::Baseline && trial.load == 0 {
        format!("0 {unit}")
    } else {
        format!("{} {unit}", format::count(trial.load))
    }
}
