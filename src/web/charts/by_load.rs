//! Operations per second against the load: one line an operation, with dash, mark and colour of its own.

use super::{
    Chart, Entry, Input, Size,
    svg::{Anchor, Drawing, Scale, headroom, text_width, y_axis},
};
use crate::report::{format, operations, steps};

/// Above this ratio of largest to smallest, small rates would lie on the axis: a log axis, which says so.
const LOG_FROM: f64 = 15.0;

struct Line {
    label: String,
    /// Load and rate; nothing where the operation was not run.
    points: Vec<(f64, Option<f64>)>,
    /// Its number among all operations: colour, dash and mark.
    style: usize,
}

pub(super) fn draw(input: &Input<'_>, entry: &Entry, size: Size) -> Option<Chart> {
    let detail = input.detail;
    let lines = lines(input);
    if lines.is_empty() || steps::representative(detail).len() < 2 {
        return None;
    }
    let rates = || lines.iter().flat_map(|line| line.points.iter().filter_map(|(_, rate)| *rate));
    let largest = rates().fold(0.0, f64::max);
    let smallest = rates().filter(|rate| *rate > 0.0).fold(f64::INFINITY, f64::min);
    let log = smallest.is_finite() && largest / smallest > LOG_FROM;

    let width = size.width();
    let longest = lines.iter().map(|line| text_width(&line.label)).fold(0.0, f64::max);
    let beside = size != Size::Narrow;
    let (upper, lower) = (30.0, 258.0);
    let left = text_width(&format::figure(largest)) + 16.0;
    let right = if beside { width - longest - 44.0 } else { width - 10.0 };
    let top = lines.iter().flat_map(|line| line.points.iter().map(|(load, _)| *load)).fold(1.0, f64::max);
    let x = Scale::linear(0.0, top, left, right);
    let y = if log {
        Scale::log(round_down(smallest), headroom(largest), lower, upper)
    } else {
        Scale::linear(0.0, headroom(largest), lower, upper)
    };
    let columns = if beside { 1 } else { 2 };
    let below = if beside { 0.0 } else { 20.0 * lines.len().div_ceil(columns) as f64 };
    let mut drawing = Drawing::new(width, lower + 44.0 + below);
    y_axis(&mut drawing, &y, left, right, 5, 1.0);
    let axis = if log { "per second, log scale" } else { "per second" };
    drawing.text(0.0, 14.0, Anchor::Start, "", axis);
    if log {
        drawing.line((left, lower), (right, lower), "axis");
    }
    x_axis(&mut drawing, &x, &loads(&lines), lower);
    drawing.text(f64::midpoint(left, right), lower + 36.0, Anchor::Middle, "", &detail.run.unit);
    for line in &lines {
        draw_line(&mut drawing, line, &x, &y);
    }
    for (at, line) in lines.iter().enumerate() {
        let place = if beside {
            (right + 16.0, upper + 8.0 + 22.0 * at as f64)
        } else {
            ((at % columns) as f64 * width / columns as f64, lower + 62.0 + 20.0 * (at / columns) as f64)
        };
        legend(&mut drawing, line, place);
    }

    let (id, class) = entry.id_and_class(size);
    let title = "Probe, operations per second by load".to_owned();
    let desc = describe(&lines, &detail.run.unit, log);
    let svg = drawing.finish(&id, class, &title, &desc);
    Some(Chart { name: entry.name, title, desc, svg, table: Some(operations::by_step(detail)), live: None })
}

/// Ordered as the lines end, so that the legend reads like the plot.
fn lines(input: &Input<'_>) -> Vec<Line> {
    let shown = steps::representative(input.detail);
    let mut lines: Vec<Line> = operations::keys(&shown, true)
        .into_iter()
        .enumerate()
        .map(|(style, key)| Line {
            label: key.label(),
            points: shown.iter().map(|trial| (trial.load as f64, key.find(trial).map(|stat| stat.ops_per_s))).collect(),
            style,
        })
        .collect();
    let last = |line: &Line| line.points.iter().rev().find_map(|(_, rate)| *rate).unwrap_or(0.0);
    lines.sort_by(|a, b| last(b).total_cmp(&last(a)));
    lines
}

fn loads(lines: &[Line]) -> Vec<f64> {
    lines.first().map(|line| line.points.iter().map(|(load, _)| *load).collect()).unwrap_or_default()
}

/// Labels of loads, leaving out those that would touch the one before.
fn x_axis(drawing: &mut Drawing, x: &Scale, loads: &[f64], y: f64) {
    let mut free = f64::NEG_INFINITY;
    for load in loads {
        let text = format::count(format::whole(*load));
        let (at, half) = (x.at(*load), text_width(&text) / 2.0);
        drawing.line((at, y), (at, y + 4.0), "axis");
        if at - half > free {
            drawing.text(at, y + 18.0, Anchor::Middle, "", &text);
            free = at + half + 4.0;
        }
    }
}

fn style(number: usize) -> (usize, usize) {
    (number % 4, number % 7)
}

/// Marks of the second four are hollow.
fn mark_class(number: usize) -> String {
    let colour = number % 4;
    if number < 4 { format!("m{colour}") } else { format!("hollow c{colour}") }
}

fn draw_line(drawing: &mut Drawing, line: &Line, x: &Scale, y: &Scale) {
    let (colour, dash) = style(line.style);
    let mut d = String::new();
    let mut pen = false;
    for (load, rate) in &line.points {
        let Some(rate) = rate else {
            pen = false;
            continue;
        };
        d.push_str(&format!("{}{:.1} {:.1}", if pen { 'L' } else { 'M' }, x.at(*load), y.at(*rate)));
        pen = true;
    }
    drawing.path(&d, &format!("s c{colour} d{dash}"));
    for (load, rate) in &line.points {
        if let Some(rate) = rate {
            drawing.marker((x.at(*load), y.at(*rate)), line.style, &mark_class(line.style));
        }
    }
}

fn legend(drawing: &mut Drawing, line: &Line, (x, y): (f64, f64)) {
    let (colour, dash) = style(line.style);
    drawing.line((x, y - 4.0), (x + 22.0, y - 4.0), &format!("s c{colour} d{dash}"));
    drawing.marker((x + 11.0, y - 4.0), line.style, &mark_class(line.style));
    drawing.text(x + 28.0, y, Anchor::Start, "", &line.label);
}

/// The start of a log axis: one of 1, 2, 5 times a power of ten, not above the smallest value.
fn round_down(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].map(|by| by * decade).into_iter().find(|start| *start <= value).unwrap_or(decade)
}

fn describe(lines: &[Line], unit: &str, log: bool) -> String {
    let said: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let mut known = line.points.iter().filter_map(|(load, rate)| rate.map(|rate| (*load, rate)));
            let first = known.next()?;
            let last = known.next_back().unwrap_or(first);
            Some(format!(
                "{} from {} per second at {} {unit} to {} at {}",
                line.label,
                format::figure(first.1),
                format::count(format::whole(first.0)),
                format::figure(last.1),
                format::count(format::whole(last.0))
            ))
        })
        .collect();
    format!("{}.{}", said.join("; "), if log { " Log scale." } else { "" }).replace(format::THIN, " ")
}
