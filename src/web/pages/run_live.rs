//! A live run: what happens now, for how long still, what the target has confirmed, which rule is closest.

use askama::Template;

use super::{
    Shell,
    part::{self, ChartPart, Chip},
};
use crate::{
    model::{Arm, Phase, RuleReading, RunState, StopCode, Trial},
    report::{Mark, format, lead_node, steps, words},
    scenario::plan::Outline,
    store::{RunDetail, Series, rows::PhaseNow},
    web::charts::{
        Input, Place,
        spark::{self, Spark},
    },
};

/// The page. Its middle is also served alone, for a script that replaces parts.
#[derive(Debug, Template)]
#[template(path = "run_live.html", blocks = ["middle"])]
pub struct LivePage {
    pub shell: Shell,
    pub id: String,
    pub short: String,
    pub scenario: String,
    pub target: String,
    pub meta: Vec<String>,
    pub state: &'static str,
    /// The load now, and its unit.
    pub big: String,
    pub unit: String,
    pub doing: &'static str,
    /// Whether it has not begun: the page then says what is planned.
    pub waits: bool,
    pub loads: String,
    pub longest: String,
    pub stations: Vec<Station>,
    pub phase_left: Option<Left>,
    pub run_left: Option<Left>,
    pub asked: Option<Asked>,
    pub chips: Vec<Chip>,
    pub closest: Option<String>,
    pub sparks: Vec<Spark>,
    pub ladder: Vec<ChartPart>,
    pub steps: Option<String>,
    pub notes: Vec<(String, String)>,
    pub over_time: Vec<ChartPart>,
}

/// One of the phases of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Station {
    pub word: &'static str,
    pub here: bool,
}

/// How long something may still take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub text: String,
    /// Its end in milliseconds since the epoch, for a script that counts down.
    pub until_ms: i64,
    /// How much of it is over, in thousandths.
    pub done: u64,
}

/// What was asked and what the target has confirmed of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub asked: u64,
    pub confirmed: u64,
    pub text: String,
}

pub(super) fn view(detail: &RunDetail, series: &[Series], now_ns: i64) -> LivePage {
    let arm = detail.phase.as_ref().and_then(|phase| detail.outline.arms.iter().find(|arm| arm.number == phase.arm));
    let Some((arm, of_arm)) = arm.and_then(|arm| Some((arm, detail.of_arm(arm.number)?))) else {
        return page(detail, series, now_ns);
    };
    // What goes on is one arm; the others have their place on the result.
    let series: Vec<Series> = series.iter().filter(|series| series.arm == arm.number).cloned().collect();
    let mut page = page(&of_arm, &series, now_ns);
    page.meta.push(arm_words(detail, arm));
    page
}

/// `arm 2 of 6: zoo_cfg.snapCount = 9000, repetition 1`. Counted in the order in which they are measured.
fn arm_words(detail: &RunDetail, arm: &Arm) -> String {
    let mut begun: Vec<u32> =
        detail.trials.iter().map(|trial| trial.arm).filter(|number| *number != arm.number).collect();
    begun.sort_unstable();
    begun.dedup();
    format!("arm {} of {}: {}", begun.len() + 1, detail.outline.arms.len(), arm.label())
}

fn page(detail: &RunDetail, series: &[Series], now_ns: i64) -> LivePage {
    let input = Input { detail, series, now_ns };
    let run = &detail.run;
    let phase = detail.phase.as_ref();
    let mut shell = Shell::new(format!("{} on {}, live", run.scenario, run.target), "/runs");
    shell.refresh = Some(5);
    shell.charts = true;
    let (closest, near) = closest(detail);
    LivePage {
        shell,
        id: run.id.to_string(),
        short: run.id.short(),
        scenario: run.scenario.clone(),
        target: run.target.clone(),
        meta: meta(detail, now_ns),
        state: run.state.as_str(),
        big: phase.map_or_else(|| "0".to_owned(), |phase| format::count(phase.load)),
        unit: run.unit.clone(),
        doing: match (run.state, phase) {
            (RunState::Queued, _) | (_, None) => "waiting to start",
            (_, Some(phase)) => words::phase(phase.phase),
        },
        waits: phase.is_none() && detail.trials.is_empty(),
        loads: loads(&detail.outline),
        longest: longest(&detail.outline),
        stations: stations(phase),
        phase_left: phase.and_then(|phase| left(phase.since_ns, phase.until_ns?, now_ns)),
        run_left: run.started_ns.and_then(|started| {
            let longest = i64::try_from(detail.outline.longest_s).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
            left(started, started.saturating_add(longest), now_ns)
        }),
        asked: phase.and_then(|phase| asked(phase, run.unit.as_str(), series)),
        chips: chips(detail, near),
        closest,
        sparks: spark::panels(&input),
        ladder: part::charts(&input, Place::Row),
        steps: finished(detail),
        notes: detail.notes.iter().rev().map(|(at, text)| (format::time_of_day(*at), text.clone())).collect(),
        over_time: part::charts(&input, Place::Time),
    }
}

/// The loads of a plan in words.
pub(super) fn loads(outline: &Outline) -> String {
    let loads: Vec<String> = outline.ladder.iter().map(|load| format::count(*load)).collect();
    format!("{} {}", loads.join(", "), outline.unit)
}

/// The longest time of a plan in words.
pub(super) fn longest(outline: &Outline) -> String {
    format::span(f64::from(i32::try_from(outline.longest_s).unwrap_or(i32::MAX)))
}

fn meta(detail: &RunDetail, now_ns: i64) -> Vec<String> {
    let run = &detail.run;
    let mut meta = vec![run.id.short()];
    match run.started_ns {
        Some(started) => meta.push(format!(
            "started {}, {} ago, from {}",
            format::moment(started),
            format::span(format::seconds_between(started, now_ns)),
            run.origin
        )),
        None => meta.push(format!("asked for {}, from {}", format::moment(run.created_ns), run.origin)),
    }
    if let Some(phase) = &detail.phase {
        let of = detail.outline.ladder.len().saturating_sub(1);
        let again = if phase.trial > 1 { format!(", trial {}", phase.trial) } else { String::new() };
        meta.push(format!("step {} of at most {of}{again}", phase.step));
    }
    meta.extend(servers(detail));
    meta
}

/// How many servers of which version there are, and which leads.
pub(super) fn servers(detail: &RunDetail) -> Option<String> {
    let inventory = detail.inventory.as_ref()?;
    let first = inventory.nodes.first()?;
    let kind = if detail.outline.managed { "launched for this run" } else { "not launched by Rampart" };
    Some(match inventory.nodes.len() {
        1 => format!("1 server, {}, {kind}", first.version),
        n => format!("{n} servers, {}, leader {}, {kind}", first.version, lead_node(detail).unwrap_or_default()),
    })
}

fn stations(phase: Option<&PhaseNow>) -> Vec<Station> {
    let here = phase.map(|phase| phase.phase);
    [(Phase::Filling, "fill"), (Phase::Settling, "settle"), (Phase::Measuring, "measure"), (Phase::Judging, "judge")]
        .into_iter()
        .map(|(phase, word)| Station { word, here: here == Some(phase) })
        .collect()
}

fn left(from_ns: i64, until_ns: i64, now_ns: i64) -> Option<Left> {
    let all = format::seconds_between(from_ns, until_ns);
    if all <= 0.0 {
        return None;
    }
    let rest = format::seconds_between(now_ns, until_ns).max(0.0);
    Some(Left {
        text: format::span(rest.round()),
        until_ms: until_ns / 1_000_000,
        done: format::whole((1.0 - rest / all).clamp(0.0, 1.0) * 1_000.0),
    })
}

/// While filling the event stream says it; else the newest reading. One from before this phase is of another load: what
/// was in place then stays in place, as far as this load reaches. A script counts on from here.
fn asked(phase: &PhaseNow, unit: &str, series: &[Series]) -> Option<Asked> {
    if phase.load == 0 || !matches!(phase.phase, Phase::Filling | Phase::Settling | Phase::Measuring) {
        return None;
    }
    let in_place = || {
        let series = series.iter().find(|series| series.metric == "load_confirmed")?;
        let (at, value) = series.points.last()?;
        let value = format::whole(*value);
        Some(if *at < phase.since_ns { value.min(phase.load) } else { value })
    };
    let confirmed = phase.confirmed.or_else(in_place).unwrap_or(0);
    let text = format!("{} of {} {unit} confirmed", format::count(confirmed), format::count(phase.load));
    Some(Asked { asked: phase.load.max(1), confirmed, text })
}

/// The rule of the last trial that has least room, in words, and whether that is little.
fn closest(detail: &RunDetail) -> (Option<String>, bool) {
    let judged = detail.trials.iter().rev().find(|trial| !trial.rules.is_empty());
    let Some(trial) = judged else { return (None, false) };
    let nearest =
        trial.rules.iter().filter_map(|rule| Some((rule, room(rule)?))).min_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((rule, room)) = nearest else { return (None, false) };
    let value = rule.value.map_or_else(String::new, |value| format::with_unit(value, &rule.unit));
    let limit = format::with_unit(rule.limit, &rule.unit);
    let text = format!(
        "{} of {} at {} {}: {value}, limit {limit}",
        rule.rule,
        rule.subject.replace('_', " "),
        format::count(trial.load),
        detail.run.unit
    );
    (Some(text), room < 0.25)
}

/// How far a reading is from its limit, as a share; negative when it broke.
fn room(rule: &RuleReading) -> Option<f64> {
    let value = rule.value?;
    let share = if rule.rule == StopCode::ThroughputDrop {
        (value - rule.limit) / value.max(f64::MIN_POSITIVE)
    } else {
        (rule.limit - value) / rule.limit.max(f64::MIN_POSITIVE)
    };
    share.is_finite().then_some(share)
}

fn chips(detail: &RunDetail, near: bool) -> Vec<Chip> {
    let mut chips = Vec::new();
    let last: Option<&Trial> = detail.trials.last();
    if let Some(trial) = last {
        let (word, mark) = words::outcome(trial.outcome);
        let text = format!("{} {word}", words::step(trial, &detail.run.unit));
        chips.push(Chip { text, mark, title: "the newest finished trial".to_owned() });
        let incidents = trial.incidents.len();
        if incidents > 0 {
            let text = format!("{incidents} {}", if incidents == 1 { "incident" } else { "incidents" });
            chips.push(Chip { text, mark: Mark::Wait, title: trial.incidents[0].text.clone() });
        }
    }
    if near {
        let title = "less than a quarter of room to the closest rule".to_owned();
        chips.push(Chip { text: "near a rule".to_owned(), mark: Mark::Wait, title });
    }
    if detail.inventory.as_ref().is_some_and(crate::model::Inventory::shares_machine) {
        chips.push(Chip {
            text: "shared machine".to_owned(),
            mark: Mark::Wait,
            title: "target and generator share this machine".to_owned(),
        });
    }
    chips
}

/// Finished trials, newest first.
fn finished(detail: &RunDetail) -> Option<String> {
    let table = steps::finished(detail);
    (!table.is_empty()).then(|| part::table(&table, true))
}
