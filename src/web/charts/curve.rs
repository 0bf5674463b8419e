//! Latency and throughput against the load: every trial with its outcome as a mark, the bounds, the goal.

use super::{
    Chart, Entry, Input, Size,
    svg::{Anchor, Drawing, Scale, headroom, text_width, tick_label, y_axis},
};
use crate::{
    model::{OperationStat, Outcome, StopCode, Trial},
    report::{Cell, Column, Mark, Table, format, words},
    store::RunDetail,
};

/// One trial in the plot.
struct Point<'a> {
    trial: &'a Trial,
    load: f64,
    value: f64,
}

/// What one of the two charts shows.
struct Shown<'a> {
    title: String,
    unit: &'static str,
    points: Vec<Point<'a>>,
    /// A level that a rule names, in words and as a value.
    goal: Option<(String, f64)>,
    /// What would be done if all were: drawn as a line through the origin.
    asked: bool,
    log: bool,
}

pub(super) fn latency(input: &Input<'_>, entry: &Entry, size: Size) -> Option<Chart> {
    let detail = input.detail;
    let (operation, goal) = goal(detail)?;
    let ms = |trial: &Trial| Some(trial.operation(&operation)?.latency.p99_us? as f64 / 1e3);
    let shown = Shown {
        title: format!("Latency of {} by load, p99", operation.replace('_', " ")),
        unit: "ms",
        points: points(detail, ms),
        goal: goal.map(|limit| (format!("goal: {} ms", format::figure(limit)), limit)),
        asked: false,
        log: true,
    };
    draw(detail, entry, size, &shown)
}

pub(super) fn throughput(input: &Input<'_>, entry: &Entry, size: Size) -> Option<Chart> {
    let detail = input.detail;
    let done = |trial: &Trial| {
        let own = trial.operations.iter().filter(|stat| !stat.probe && stat.asked.is_some());
        own.map(|stat| stat.ops_per_s).reduce(|sum, rate| sum + rate)
    };
    let asked = is_rate(detail);
    let shown = Shown {
        title: "Operations of the load that ended well, per second, by load".to_owned(),
        unit: "per second",
        points: points(detail, done),
        goal: None,
        asked,
        log: false,
    };
    if asked { draw(detail, entry, size, &shown) } else { None }
}

/// Whether the load is itself what is measured.
fn is_rate(detail: &RunDetail) -> bool {
    let mut operations = detail.trials.iter().flat_map(|trial| &trial.operations).peekable();
    operations.peek().is_some() && operations.all(|stat| !stat.probe && stat.asked.is_some())
}

/// The operation whose latency is drawn: that of a goal, else the most frequent; and its goal in milliseconds.
fn goal(detail: &RunDetail) -> Option<(String, Option<f64>)> {
    if !detail.outline.search && !is_rate(detail) {
        return None;
    }
    let readings = || detail.trials.iter().flat_map(|trial| &trial.rules);
    if let Some(rule) = readings().find(|rule| rule.rule == StopCode::SloLatency && rule.subject.ends_with(" p99")) {
        let operation = rule.subject.split(' ').next().unwrap_or_default();
        return Some((operation.to_owned(), Some(rule.limit)));
    }
    let stats = || detail.trials.iter().flat_map(|trial| &trial.operations);
    let most: &OperationStat = stats().max_by_key(|stat| stat.done)?;
    Some((most.operation.clone(), None))
}

fn points<'a>(detail: &'a RunDetail, value: impl Fn(&Trial) -> Option<f64>) -> Vec<Point<'a>> {
    let measured = detail.trials.iter().filter(|trial| trial.load > 0 && trial.action.is_none());
    measured.filter_map(|trial| Some(Point { trial, load: trial.load as f64, value: value(trial)? })).collect()
}

fn draw(detail: &RunDetail, entry: &Entry, size: Size, shown: &Shown<'_>) -> Option<Chart> {
    let mut loads: Vec<u64> = shown.points.iter().map(|point| point.trial.load).collect();
    loads.sort_unstable();
    loads.dedup();
    if loads.len() < 2 {
        return None;
    }
    let largest =
        shown.points.iter().map(|point| point.value).fold(shown.goal.as_ref().map_or(0.0, |(_, at)| *at), f64::max);
    let smallest =
        shown.points.iter().map(|point| point.value).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let top = loads.last().copied().unwrap_or(1) as f64;
    let width = size.width();
    let (upper, lower) = (46.0, 250.0);
    let left = text_width(&format::figure(largest)).max(24.0) + 16.0;
    let right = width - 12.0;
    let x = Scale::linear(0.0, top * 1.03, left, right);
    let y = if shown.log && smallest.is_finite() {
        Scale::log(smallest.min(largest / 10.0) * 0.8, headroom(largest), lower, upper)
    } else {
        Scale::linear(0.0, headroom(largest), lower, upper)
    };
    let mut drawing = Drawing::new(width, lower + 62.0);
    y_axis(&mut drawing, &y, left, right, 5, 1.0);
    drawing.line((left, lower), (right, lower), "axis");
    let axis = match (shown.log, shown.asked) {
        (true, _) => format!("{}, log scale", shown.unit),
        (false, true) => format!("{}; dashed: what was asked", shown.unit),
        (false, false) => shown.unit.to_owned(),
    };
    drawing.text(0.0, 14.0, Anchor::Start, "", &axis);
    for load in x.ticks(if size == Size::Narrow { 3 } else { 6 }) {
        drawing.line((x.at(load), lower), (x.at(load), lower + 4.0), "axis");
        drawing.text(x.at(load), lower + 18.0, Anchor::Middle, "", &tick_label(load));
    }
    drawing.text(f64::midpoint(left, right), lower + 36.0, Anchor::Middle, "", &detail.run.unit);
    if shown.asked {
        let end = top.min(largest * 1.12);
        drawing.line((x.at(0.0), y.at(0.0)), (x.at(end), y.at(end)), "planned");
    }
    if let Some((words, limit)) = &shown.goal {
        drawing.line((left, y.at(*limit)), (right, y.at(*limit)), "rule");
        drawing.text(left + 4.0, y.at(*limit) - 5.0, Anchor::Start, "bad halo", words);
    }
    bounds(&mut drawing, detail, &x, (upper, lower));
    for point in &shown.points {
        let (shape, class) = mark(point.trial.outcome);
        drawing.marker((x.at(point.load), y.at(point.value)), shape, class);
    }
    legend(&mut drawing, &shown.points, lower + 54.0);

    let (id, class) = entry.id_and_class(size);
    let desc = describe(detail, shown);
    let svg = drawing.finish(&id, class, &shown.title, &desc);
    let table = table(detail, entry.name, shown);
    Some(Chart { name: entry.name, title: shown.title.clone(), desc, svg, table: Some(table), live: None })
}

/// Shape and class of an outcome: they differ without colour too.
const fn mark(outcome: Outcome) -> (usize, &'static str) {
    match outcome {
        Outcome::Held | Outcome::Baseline => (0, "dot good"),
        Outcome::Broke => (3, "dot bad"),
        Outcome::Undecided => (1, "dot wait"),
        Outcome::Void => (2, "dot void"),
    }
}

/// The highest load that held and the lowest that broke.
fn bounds(drawing: &mut Drawing, detail: &RunDetail, x: &Scale, (upper, lower): (f64, f64)) {
    let said = [(detail.run.last_good, "good", Anchor::End, -5.0), (detail.run.first_bad, "bad", Anchor::Start, 5.0)];
    for (load, class, anchor, beside) in said {
        let Some(load) = load else { continue };
        let at = x.at(load as f64);
        drawing.line((at, upper - 8.0), (at, lower), &format!("bound {class}"));
        drawing.text(at + beside, upper - 12.0, anchor, &format!("{class} halo"), &format::count(load));
    }
}

fn legend(drawing: &mut Drawing, points: &[Point<'_>], y: f64) {
    let mut at = 4.0;
    for outcome in [Outcome::Held, Outcome::Broke, Outcome::Undecided, Outcome::Void] {
        if !points.iter().any(|point| point.trial.outcome == outcome) {
            continue;
        }
        let (shape, class) = mark(outcome);
        let word = words::outcome(outcome).0;
        drawing.marker((at + 4.0, y - 4.0), shape, class);
        drawing.text(at + 13.0, y, Anchor::Start, "", word);
        at += 13.0 + text_width(word) + 14.0;
    }
}

fn describe(detail: &RunDetail, shown: &Shown<'_>) -> String {
    let said: Vec<String> = shown
        .points
        .iter()
        .map(|point| {
            let outcome = words::outcome(point.trial.outcome).0;
            format!("{} at {} {outcome}", format::figure(point.value), format::count(point.trial.load))
        })
        .collect();
    let goal = shown.goal.as_ref().map(|(words, _)| format!(" The {words}.")).unwrap_or_default();
    format!("In {}, each trial: {} {}.{goal}", shown.unit, said.join(", "), detail.run.unit).replace(format::THIN, " ")
}

fn table(detail: &RunDetail, name: &str, shown: &Shown<'_>) -> Table {
    let columns = vec![
        Column::figures("load", "load", &detail.run.unit),
        Column::figures("trial", "trial", ""),
        Column::words("outcome", "outcome"),
        Column::figures("value", "value", shown.unit),
    ];
    let mut table = Table::new(name, shown.title.clone(), columns);
    let mut points: Vec<&Point<'_>> = shown.points.iter().collect();
    points.sort_by_key(|point| (point.trial.load, point.trial.started_ns));
    for point in points {
        let (word, mark) = words::outcome(point.trial.outcome);
        let cells = vec![
            Cell::count(point.trial.load),
            Cell::count(u64::from(point.trial.trial)),
            Cell::text(word).mark(mark),
            Cell::number(point.value),
        ];
        table.push(if mark == Mark::Good { Mark::None } else { mark }, cells);
    }
    table
}
