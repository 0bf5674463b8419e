//! What the deciding rule judged, as one bar a step, with the rule as a line and its words above the data.

use super::{
    Chart, Entry, Input, Size,
    ladder::sign,
    svg::{Anchor, Drawing, Scale, headroom, text_width, tick_label, ticks, wrap, y_axis},
};
use crate::{
    model::{Outcome, RuleReading, StopCode, Trial},
    report::{Cell, Column, Mark, Table, format, steps, words},
    store::RunDetail,
};

/// What is drawn: one reading of one rule over all steps.
struct Judged<'a> {
    rule: StopCode,
    subject: &'a str,
    /// The unit of stored values, `per_s` or as the rule says.
    unit: &'a str,
    limit: f64,
    /// Whether values must stay above the limit.
    floor: bool,
    bars: Vec<Bar<'a>>,
}

struct Bar<'a> {
    trial: &'a Trial,
    value: Option<f64>,
}

pub(super) fn draw(input: &Input<'_>, entry: &Entry, size: Size) -> Option<Chart> {
    let detail = input.detail;
    let judged = judged(detail)?;
    let largest = judged.bars.iter().filter_map(|bar| bar.value).fold(judged.limit, f64::max);
    let (unit, by) = format::scale(judged.unit, largest);
    let unit = if unit.is_empty() { judged.unit } else { unit };
    let words = rule_words(detail, &judged, unit, by);

    let (id, class) = entry.id_and_class(size);
    let title = title(&judged, unit);
    let desc = describe(detail, &judged, by, unit, &words);
    let said = wrap(&words, size.width() - 40.0);
    let mut drawing = Drawing::new(size.width(), height(&judged, &said, size));
    drawing.line((2.0, 12.0), (24.0, 12.0), "rule");
    for (at, line) in said.iter().enumerate() {
        drawing.text(32.0, 16.0 + 16.0 * at as f64, Anchor::Start, "bad", line);
    }
    let upper = 22.0 + 16.0 * said.len() as f64;
    if size == Size::Narrow {
        lying(&mut drawing, detail, &judged, by, largest, upper);
    } else {
        standing(&mut drawing, detail, &judged, by, largest, (upper, size.width()));
    }
    let svg = drawing.finish(&id, class, &title, &desc);
    let table = table(detail, &judged, by, unit);
    Some(Chart { name: entry.name, title, desc, svg, table: Some(table), live: None })
}

fn height(judged: &Judged<'_>, said: &[String], size: Size) -> f64 {
    let upper = 22.0 + 16.0 * said.len() as f64;
    if size == Size::Narrow { upper + ROW * judged.bars.len() as f64 + 42.0 } else { upper + 246.0 }
}

/// Where a load could not be put in place, nothing was measured.
const NOT_MEASURED: &str = "not measured";
/// The height of one step where bars lie.
const ROW: f64 = 26.0;

/// For phones: one row a step, its load and outcome at the left, its figure behind the bar.
fn lying(drawing: &mut Drawing, detail: &RunDetail, judged: &Judged<'_>, by: f64, largest: f64, upper: f64) {
    let name = |bar: &Bar<'_>| format!("{} {}", format::count(bar.trial.load), words::outcome(bar.trial.outcome).0);
    let left = judged.bars.iter().map(|bar| text_width(&name(bar))).fold(40.0, f64::max) + 6.0;
    let right = Size::Narrow.width() - text_width(&format::figure(largest / by)) - 10.0;
    let x = Scale::linear(0.0, largest, left, right);
    let lower = upper + ROW * judged.bars.len() as f64;
    for tick in ticks(0.0, largest, 3) {
        let at = x.at(tick);
        drawing.line((at, upper), (at, lower), if tick == 0.0 { "axis" } else { "grid" });
        let text = tick_label(tick / by);
        if at + text_width(&text) / 2.0 < Size::Narrow.width() {
            drawing.text(at, lower + 16.0, Anchor::Middle, "", &text);
        }
    }
    // The unit of the rows, clear of the axis's own figures.
    drawing.text(0.0, lower + 32.0, Anchor::Start, "", &detail.run.unit);
    for (at, bar) in judged.bars.iter().enumerate() {
        let (top, bottom) = (upper + ROW * at as f64 + 3.0, upper + ROW * (at as f64 + 1.0) - 3.0);
        let mark = words::outcome(bar.trial.outcome).1;
        drawing.text(0.0, bottom - 5.0, Anchor::Start, mark.class(), &name(bar));
        let Some(value) = bar.value else {
            drawing.text(left + 6.0, bottom - 5.0, Anchor::Start, "", NOT_MEASURED);
            continue;
        };
        let class = if mark == Mark::None { "none" } else { mark.class() };
        drawing.rect((left, top), (x.at(value), bottom), &format!("fill {class}"));
        drawing.line((x.at(value), top), (x.at(value), bottom), &format!("top {class}"));
    }
    drawing.line((x.at(judged.limit), upper - 2.0), (x.at(judged.limit), lower), "rule");
    for (at, bar) in judged.bars.iter().enumerate() {
        if let Some(value) = bar.value {
            let baseline = upper + ROW * (at as f64 + 1.0) - 8.0;
            drawing.text(x.at(value) + 5.0, baseline, Anchor::Start, "strong halo", &format::figure(value / by));
        }
    }
}

/// One column a step.
fn standing(
    drawing: &mut Drawing,
    detail: &RunDetail,
    judged: &Judged<'_>,
    by: f64,
    largest: f64,
    (upper, width): (f64, f64),
) {
    let (left, right, lower) = (text_width(&format::figure(largest / by)).max(24.0) + 16.0, width - 6.0, upper + 190.0);
    let y = Scale::linear(0.0, headroom(largest), lower, upper);
    y_axis(drawing, &y, left, right, 4, by);
    let slot = (right - left) / judged.bars.len().max(1) as f64;
    let limit_y = y.at(judged.limit);
    let in_words = judged.bars.iter().all(|bar| text_width(short_word(bar)) <= slot);
    let widest = judged.bars.iter().map(|bar| text_width(&format::count(bar.trial.load))).fold(0.0, f64::max);
    // Where loads would touch each other, only every second, third, ... has its own.
    let every = (1_u16..100).find(|every| widest + 4.0 <= slot * f64::from(*every)).unwrap_or(1);
    for (at, bar) in judged.bars.iter().enumerate() {
        draw_bar(drawing, bar, (left + slot * at as f64, slot), &y, in_words, at % usize::from(every) == 0);
    }
    drawing.line((left, limit_y), (right, limit_y), "rule");
    for (at, bar) in judged.bars.iter().enumerate() {
        let middle = left + slot * (at as f64 + 0.5);
        label_value(drawing, bar, middle, slot, &y, limit_y, by);
    }
    drawing.text(f64::midpoint(left, right), lower + 50.0, Anchor::Middle, "", &detail.run.unit);
}

/// The rule that decided, else the one that throughput is judged by, else the first.
fn judged(detail: &RunDetail) -> Option<Judged<'_>> {
    let shown = steps::representative(detail);
    let broken = steps::broken(detail).and_then(|trial| {
        let code = trial.stop_code;
        let broke = || trial.rules.iter().filter(|rule| rule.broke == Some(true));
        broke().find(|rule| Some(rule.rule) == code).or_else(|| broke().next())
    });
    let all = || shown.iter().rev().flat_map(|trial| &trial.rules);
    let rule = broken.or_else(|| all().find(|rule| rule.rule == StopCode::ThroughputDrop)).or_else(|| all().next())?;
    let throughput = rule.rule == StopCode::ThroughputDrop;
    let rate = |trial: &Trial| trial.operation(&rule.subject).map(|stat| stat.ops_per_s);
    let reading = |trial: &Trial| same(trial, rule).and_then(|reading| reading.value);
    let base = steps::baseline(detail).and_then(rate);
    // A throughput rule may be stated as a share of the baseline: the bars are operations per second either way.
    let (limit, unit) = match base {
        Some(base) if throughput && rule.unit == "share" => (rule.limit * base, "per_s"),
        _ => (rule.limit, rule.unit.as_str()),
    };
    let bars: Vec<Bar<'_>> = shown
        .into_iter()
        .map(|trial| Bar { trial, value: if throughput { rate(trial) } else { reading(trial) } })
        .filter(|bar| bar.value.is_some() || bar.trial.outcome != Outcome::Baseline)
        .collect();
    let subject = rule.subject.as_str();
    let floor = matches!(
        rule.rule,
        StopCode::ThroughputDrop | StopCode::AchievedShort | StopCode::Plateau | StopCode::Retrograde
    );
    Some(Judged { rule: rule.rule, subject, unit, limit, floor, bars })
}

fn same<'a>(trial: &'a Trial, rule: &RuleReading) -> Option<&'a RuleReading> {
    trial.rules.iter().find(|other| other.rule == rule.rule && other.subject == rule.subject)
}

fn title(judged: &Judged<'_>, unit: &str) -> String {
    let subject = judged.subject.replace('_', " ");
    match judged.rule {
        StopCode::ThroughputDrop => format!("Probe's {subject} per second at each step"),
        StopCode::SloLatency => format!("Latency of {subject}, {unit}, at each step"),
        StopCode::OutstandingHigh => "Longest time with too many outstanding requests, s, at each step".to_owned(),
        StopCode::SloErrors => format!("Errors of {subject}, {unit}, at each step"),
        StopCode::AchievedShort => format!("What ended well of what fell due, {unit}, at each step"),
        StopCode::BacklogGrowth => format!("Growth of what is under way, {unit} of what fell due, at each step"),
        StopCode::Plateau => format!("Throughput gained for the load added, {unit}, at each step"),
        StopCode::Retrograde => "Operations of the load per second at each step".to_owned(),
        StopCode::CannotApply
        | StopCode::TargetSaturated
        | StopCode::TargetUnhealthy
        | StopCode::LimitReached
        | StopCode::GeneratorSaturated
        | StopCode::NoData
        | StopCode::MaxLoad
        | StopCode::TimeBudget
        | StopCode::UserAbort
        | StopCode::SafetyAbort => format!("{} of {subject} at each step", judged.rule),
    }
}

fn rule_words(detail: &RunDetail, judged: &Judged<'_>, unit: &str, by: f64) -> String {
    let limit = format!("{} {unit}", format::figure(judged.limit / by));
    let base = base(detail, judged.subject);
    match base {
        Some((base, name)) if judged.floor => format!(
            "rule: not below {limit}, {} % of {} ({name})",
            tick_label(judged.limit / base * 100.0),
            format::figure(base)
        ),
        _ => format!("rule: not {} {limit}", if judged.floor { "below" } else { "above" }),
    }
}

fn short_word(bar: &Bar<'_>) -> &'static str {
    if bar.trial.outcome == Outcome::Baseline { "base" } else { words::outcome(bar.trial.outcome).0 }
}

/// The rate that the rule compares with, and the name of its step, as the verdict gives it.
fn base<'a>(detail: &'a RunDetail, subject: &str) -> Option<(f64, &'a str)> {
    let name = detail.verdict.as_ref()?.baseline.as_str();
    let load = name.strip_prefix("the step at ").map_or(Some(0), |rest| {
        let digits: String = rest.chars().take_while(|sign| *sign != '.').filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    })?;
    let trial = detail.trials.iter().rfind(|trial| trial.load == load && trial.operation(subject).is_some())?;
    let rate = trial.operation(subject)?.ops_per_s;
    (rate > 0.0).then_some((rate, name))
}

fn draw_bar(drawing: &mut Drawing, bar: &Bar<'_>, (start, slot): (f64, f64), y: &Scale, in_words: bool, named: bool) {
    let mark = words::outcome(bar.trial.outcome).1;
    let class = if mark == Mark::None { "none" } else { mark.class() };
    let (from, to) = (start + slot * 0.09, start + slot * 0.91);
    if let Some(value) = bar.value {
        drawing.rect((from, y.at(value)), (to, y.at(0.0)), &format!("fill {class}"));
        drawing.line((from, y.at(value)), (to, y.at(value)), &format!("top {class}"));
    }
    let middle = start + slot / 2.0;
    if named {
        drawing.text(middle, y.at(0.0) + 18.0, Anchor::Middle, "", &format::count(bar.trial.load));
    }
    let said = if in_words { short_word(bar) } else { sign(mark) };
    drawing.text(middle, y.at(0.0) + 34.0, Anchor::Middle, mark.class(), said);
}

/// Above its bar; above the rule's line where that would cross the figure; a word where nothing was read.
fn label_value(drawing: &mut Drawing, bar: &Bar<'_>, middle: f64, slot: f64, y: &Scale, limit_y: f64, by: f64) {
    let Some(value) = bar.value else {
        let text = if text_width(NOT_MEASURED) <= slot { NOT_MEASURED } else { "?" };
        drawing.text(middle, y.at(0.0) - 6.0, Anchor::Middle, "", text);
        return;
    };
    let text = format::figure(value / by);
    if text_width(&text) > slot + 4.0 {
        return;
    }
    let mut baseline = y.at(value) - 6.0;
    if limit_y < baseline + 4.0 && limit_y > baseline - 14.0 {
        baseline = limit_y - 6.0;
    }
    drawing.text(middle, baseline, Anchor::Middle, "strong halo", &text);
}

fn describe(detail: &RunDetail, judged: &Judged<'_>, by: f64, unit: &str, words: &str) -> String {
    let bars: Vec<String> = judged
        .bars
        .iter()
        .map(|bar| {
            let value = bar
                .value
                .map_or_else(|| NOT_MEASURED.to_owned(), |value| format!("{} {unit}", format::figure(value / by)));
            let word = words::outcome(bar.trial.outcome).0;
            format!("{value} at {} {} ({word})", format::count(bar.trial.load), detail.run.unit)
        })
        .collect();
    format!("{}. The {words}.", bars.join(", ")).replace(format::THIN, " ")
}

fn table(detail: &RunDetail, judged: &Judged<'_>, by: f64, unit: &str) -> Table {
    let mut table = Table::new(
        "judged",
        title(judged, unit),
        vec![
            Column::words("step", "step"),
            Column::figures("value", "read", unit),
            Column::figures("limit", "rule's limit", unit),
            Column::words("outcome", "outcome"),
        ],
    );
    for bar in &judged.bars {
        let (word, mark) = words::outcome(bar.trial.outcome);
        table.push(
            if mark == Mark::Good { Mark::None } else { mark },
            vec![
                Cell::text(words::step(bar.trial, &detail.run.unit)),
                Cell::sampled(bar.value.map(|value| value / by)),
                Cell::number(judged.limit / by),
                Cell::text(word).mark(mark),
            ],
        );
    }
    table
}
