//! A sweep's values against each other: one row an operation, the rate of each value against the first, with the range of its
//! repetitions. What counts is the difference, so all rows share one scale in percent.

use super::{
    Chart, Entry, Input, Size,
    svg::{Anchor, Drawing, Scale, text_width, tick_label, ticks},
};
use crate::report::{
    format,
    sweeps::{self, Compared},
};

/// The height of one value within a row, and of the space between rows.
const LINE: f64 = 16.0;
const GAP: f64 = 10.0;

pub(super) fn draw(input: &Input<'_>, entry: &Entry, size: Size) -> Option<Chart> {
    let detail = input.detail;
    let values = sweeps::values(detail);
    if !detail.has_arms() || values.len() < 2 {
        return None;
    }
    let all = sweeps::compared(detail);
    let load = all.iter().map(|row| row.load).max()?;
    let rows: Vec<&Compared> = all.iter().filter(|row| row.load == load && row.median(0).is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let setting = detail.outline.arms.first().map_or("", |arm| arm.setting.as_str());
    let at = format!("{} {}", format::count(load), detail.run.unit);
    let title = format!("Operations per second at {at}, against {setting} = {}", values[0]);
    let desc = describe(&rows, &values);

    let (width, names) = (size.width(), rows.iter().map(|row| text_width(&label(row))).fold(0.0, f64::max));
    let (left, right) = (names + 12.0, width - 18.0);
    let mut drawing = Drawing::new(width, height(rows.len(), values.len(), legend_rows(&values, width)));
    let upper = legend(&mut drawing, &values, width);
    let (low, high) = bounds(&rows);
    let x = Scale::linear(low, high, left, right);
    let lower = upper + rows.len() as f64 * (LINE * values.len() as f64 + GAP);
    for tick in ticks(low, high, if size == Size::Narrow { 3 } else { 6 }) {
        drawing.line((x.at(tick), upper), (x.at(tick), lower), "grid");
        drawing.text(x.at(tick), lower + 16.0, Anchor::Middle, "", &format!("{}\u{202f}%", tick_label(tick * 100.0)));
    }
    drawing.line((x.at(1.0), upper), (x.at(1.0), lower), "axis");
    for (at, row) in rows.iter().enumerate() {
        let top = upper + at as f64 * (LINE * values.len() as f64 + GAP);
        let middle = top + LINE * values.len() as f64 / 2.0;
        drawing.text(0.0, middle + 4.0, Anchor::Start, "strong", &label(row));
        for value in 0..values.len() {
            whisker(&mut drawing, row, value, &x, top + LINE * (value as f64 + 0.5));
        }
    }
    let (id, class) = entry.id_and_class(size);
    let svg = drawing.finish(&id, class, &title, &desc);
    Some(Chart { name: entry.name, title, desc, svg, table: Some(sweeps::operations(detail)), live: None })
}

fn label(row: &Compared) -> String {
    row.operation.replace('_', " ")
}

fn height(rows: usize, values: usize, legend: usize) -> f64 {
    legend as f64 * 20.0 + 10.0 + rows as f64 * (LINE * values as f64 + GAP) + 24.0
}

/// The rates of one value, as shares of the first value's median.
fn whisker(drawing: &mut Drawing, row: &Compared, value: usize, x: &Scale, y: f64) {
    let (Some(first), Some(median)) = (row.median(0), row.median(value)) else { return };
    let (low, high) = sweeps::range(&row.rates[value]);
    let class = format!("s c{}", value % 4);
    drawing.line((x.at(low / first), y), (x.at(high / first), y), &class);
    for end in [low, high] {
        drawing.line((x.at(end / first), y - 3.0), (x.at(end / first), y + 3.0), &class);
    }
    drawing.marker((x.at(median / first), y), value, &mark_class(value));
}

/// Marks of the second four are hollow.
fn mark_class(value: usize) -> String {
    if value < 4 { format!("m{value}") } else { format!("hollow c{}", value % 4) }
}

/// The lowest and the highest share, with a little room, around 100 %.
fn bounds(rows: &[&Compared]) -> (f64, f64) {
    let shares = rows.iter().flat_map(|row| {
        let first = row.median(0).unwrap_or(1.0);
        row.rates.iter().flatten().map(move |rate| rate / first)
    });
    let (low, high) = shares.fold((0.95_f64, 1.05_f64), |(low, high), share| (low.min(share), high.max(share)));
    let room = (high - low) * 0.05;
    ((low - room).max(0.0), high + room)
}

/// How wide one value stands in the legend.
fn legend_width(value: &str) -> f64 {
    text_width(value) + 40.0
}

fn legend_rows(values: &[String], width: f64) -> usize {
    place(values, width).last().map_or(1, |(_, row)| row + 1)
}

/// The place of each value: how far right, in which row.
fn place(values: &[String], width: f64) -> Vec<(f64, usize)> {
    let (mut x, mut row) = (0.0, 0);
    values
        .iter()
        .map(|value| {
            if x > 0.0 && x + legend_width(value) > width {
                (x, row) = (0.0, row + 1);
            }
            let here = (x, row);
            x += legend_width(value);
            here
        })
        .collect()
}

/// The values with their marks; gives where the plot begins.
fn legend(drawing: &mut Drawing, values: &[String], width: f64) -> f64 {
    for (at, (value, (x, row))) in values.iter().zip(place(values, width)).enumerate() {
        let y = 14.0 + 20.0 * row as f64;
        drawing.marker((x + 6.0, y - 4.0), at, &mark_class(at));
        drawing.text(x + 16.0, y, Anchor::Start, "", value);
    }
    legend_rows(values, width) as f64 * 20.0 + 10.0
}

fn describe(rows: &[&Compared], values: &[String]) -> String {
    let said: Vec<String> = rows
        .iter()
        .map(|row| {
            let each: Vec<String> = (1..values.len())
                .filter_map(|at| Some(format!("{:+.0} % with {}", row.change(at)? * 100.0, values[at])))
                .collect();
            format!("{} {}", label(row), each.join(", "))
        })
        .collect();
    format!("{}. Lines are the range of the repetitions.", said.join("; "))
}
