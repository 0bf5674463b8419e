//! The step ladder: every trial as a block of time and load, what the target confirmed as a line, what is planned.

use super::{
    Chart, Entry, Input, Size,
    svg::{Anchor, Drawing, Scale, headroom, text_width, time_axis, y_axis_whole},
};
use crate::{
    model::{Outcome, Trial},
    report::{Mark, Row, Table, format, trials, words},
    store::RunDetail,
};

/// A block of the ladder.
struct Block {
    from_s: f64,
    to_s: f64,
    load: u64,
    /// The class of its colours: a mark's, `live` or `planned`.
    class: &'static str,
    /// What may stand above it: with its outcome in a word, as a sign, or not.
    labels: [String; 3],
}

pub(super) fn draw(input: &Input<'_>, entry: &Entry, size: Size) -> Option<Chart> {
    let detail = input.detail;
    let start = detail.run.started_ns.or_else(|| detail.trials.first().map(|trial| trial.started_ns))?;
    let blocks = blocks(input, start);
    if blocks.is_empty() {
        return None;
    }
    let now = (!detail.run.state.is_over()).then(|| format::seconds_between(start, input.now_ns));
    let end = blocks.iter().map(|block| block.to_s).fold(now.unwrap_or(0.0), f64::max);
    let top = blocks.iter().map(|block| block.load).max().unwrap_or(1);

    let (width, height) = (size.width(), if size == Size::Narrow { 220.0 } else { 260.0 });
    let (left, right, upper, lower) = (left_for(top), width - 8.0, 22.0, height - 26.0);
    let x = Scale::linear(0.0, end, left, right);
    let y = Scale::linear(0.0, headroom(top.max(1) as f64), lower, upper);
    let mut drawing = Drawing::new(width, height);
    for block in &blocks {
        draw_fill(&mut drawing, block, &x, &y);
    }
    y_axis_whole(&mut drawing, &y, left, right);
    time_axis(&mut drawing, &x, end, lower);
    drawing.path(&confirmed(input, start, end, &x, &y), "confirmed");
    draw_labels(&mut drawing, &blocks, &x, &y, now);
    if let Some(now) = now {
        let at = x.at(now);
        drawing.line((at, upper - 4.0), (at, lower), "now");
        drawing.text(at.min(right - text_width("now")), upper - 9.0, Anchor::Start, "accent", "now");
    }

    let (id, class) = entry.id_and_class(size);
    let title = if now.is_some() { "Steps so far and planned" } else { "Steps over time" }.to_owned();
    let desc = describe(detail);
    let svg = drawing.finish(&id, class, &title, &desc);
    Some(Chart { name: entry.name, title, desc, svg, table: Some(table(detail)), live: None })
}

/// Room for the labels of the axis.
fn left_for(top: u64) -> f64 {
    (text_width(&format::count(top)) + 16.0).max(32.0)
}

fn blocks(input: &Input<'_>, start: i64) -> Vec<Block> {
    let detail = input.detail;
    let at = |ns: i64| format::seconds_between(start, ns).max(0.0);
    let mut blocks: Vec<Block> = detail
        .trials
        .iter()
        .map(|trial| Block {
            from_s: at(trial.started_ns),
            to_s: at(trial.ended_ns),
            load: trial.load,
            class: class(trial),
            labels: labels(trial),
        })
        .collect();
    if detail.run.state.is_over() {
        return blocks;
    }
    let done = detail.trials.len();
    let typical =
        if done == 0 { 60.0 } else { blocks.iter().map(|block| block.to_s - block.from_s).sum::<f64>() / done as f64 };
    let mut from_s = blocks.last().map_or(0.0, |block| block.to_s);
    let mut reached = detail.trials.iter().map(|trial| trial.load).max();
    if let Some(phase) = detail.phase.as_ref().filter(|phase| !detail.outline.ladder.is_empty() && is_step(phase.phase))
    {
        let to_s = (from_s + typical).max(at(input.now_ns));
        let load = format::count(phase.load);
        blocks.push(Block {
            from_s,
            to_s,
            load: phase.load,
            class: "live",
            labels: [load.clone(), load.clone(), load],
        });
        from_s = to_s;
        reached = reached.max(Some(phase.load));
    }
    // Where a search goes after a load that broke follows from what it finds.
    let turned = detail.outline.search && detail.trials.iter().any(|trial| trial.outcome == Outcome::Broke);
    let planned = if turned { &[] } else { detail.outline.ladder.as_slice() };
    for load in planned.iter().copied().filter(|load| reached.is_none_or(|reached| *load > reached)) {
        let text = format::count(load);
        blocks.push(Block {
            from_s,
            to_s: from_s + typical,
            load,
            class: "planned",
            labels: [text.clone(), text.clone(), text],
        });
        from_s += typical;
    }
    blocks
}

const fn is_step(phase: crate::model::Phase) -> bool {
    use crate::model::Phase;
    matches!(phase, Phase::Filling | Phase::Settling | Phase::Measuring | Phase::Judging)
}

fn class(trial: &Trial) -> &'static str {
    match words::outcome(trial.outcome).1 {
        Mark::None => "none",
        mark @ (Mark::Good | Mark::Bad | Mark::Void | Mark::Wait) => mark.class(),
    }
}

/// The sign of an outcome where there is no room for the word.
pub(super) const fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Good => "\u{2713}",
        Mark::Bad => "\u{2717}",
        Mark::Void => "\u{2013}",
        Mark::Wait => "?",
        Mark::None => "",
    }
}

fn labels(trial: &Trial) -> [String; 3] {
    let (word, mark) = words::outcome(trial.outcome);
    let load = format::count(trial.load);
    let word = if trial.outcome == Outcome::Baseline { "base" } else { word };
    let signed = if mark == Mark::None { load.clone() } else { format!("{load}{}{}", format::THIN, sign(mark)) };
    [format!("{load} {word}"), signed, load]
}

fn draw_fill(drawing: &mut Drawing, block: &Block, x: &Scale, y: &Scale) {
    let (from, to) = (x.at(block.from_s) + 0.5, x.at(block.to_s) - 0.5);
    let (top, zero) = (y.at(block.load as f64), y.at(0.0));
    if block.class == "planned" {
        drawing.rect((from, top), (to, zero), "planned");
    } else {
        drawing.rect((from, top), (to, zero), &format!("fill {}", block.class));
        drawing.line((from, top), (to, top), &format!("top {}", block.class));
    }
}

/// The longest form that fits above every block; where none does, the shortest, leaving out what would touch.
fn draw_labels(drawing: &mut Drawing, blocks: &[Block], x: &Scale, y: &Scale, now: Option<f64>) {
    let fits =
        |block: &Block, form: usize| text_width(&block.labels[form]) <= x.at(block.to_s) - x.at(block.from_s) - 2.0;
    let form = (0..2).find(|form| blocks.iter().all(|block| fits(block, *form))).unwrap_or(2);
    let mut free = f64::NEG_INFINITY;
    for block in blocks {
        let label = &block.labels[form];
        let (from, to, half) = (x.at(block.from_s), x.at(block.to_s), text_width(label) / 2.0);
        let mut middle = f64::midpoint(from, to);
        // Beside the line of now, never under it.
        if let Some(now) = now.map(|now| x.at(now)).filter(|now| (now - middle).abs() < half + 3.0) {
            middle = if to - now > now - from { now + half + 4.0 } else { now - half - 4.0 };
        }
        if middle - half < free {
            continue;
        }
        free = middle + half + 2.0;
        let class = match block.class {
            "none" | "planned" => "",
            "live" => "accent",
            other => other,
        };
        drawing.text(middle, y.at(block.load as f64) - 6.0, Anchor::Middle, &format!("{class} halo"), label);
    }
}

/// What the load units have put in place, as a line with gaps where nothing was read.
fn confirmed(input: &Input<'_>, start: i64, end: f64, x: &Scale, y: &Scale) -> String {
    let Some(series) = input.series.iter().find(|series| series.metric == "load_confirmed") else {
        return String::new();
    };
    let points = series.points.iter().map(|(at, value)| (format::seconds_between(start, *at), *value));
    super::time::path(points.filter(|(at, _)| *at >= 0.0 && *at <= end), x, y)
}

fn describe(detail: &RunDetail) -> String {
    let unit = &detail.run.unit;
    let said: Vec<String> = detail
        .trials
        .iter()
        .map(|trial| format!("{} {} {}", format::count(trial.load), unit, words::outcome(trial.outcome).0))
        .collect();
    let done = if said.is_empty() { "No step is finished yet".to_owned() } else { said.join(", ") };
    format!("Each trial in the order of time: {done}.").replace(format::THIN, " ")
}

/// The trials without their sentences.
fn table(detail: &RunDetail) -> Table {
    let mut table = trials::all(detail);
    table.columns.truncate(8);
    for Row { cells, .. } in &mut table.rows {
        cells.truncate(8);
    }
    table
}
