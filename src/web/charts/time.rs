//! Readings over time, with the steps as bands behind them, the broken step tinted, and gaps as gaps.

use serde::Serialize;

use super::{
    Chart, Entry, Input, Size,
    svg::{Anchor, Drawing, Scale, headroom, text_width, time_axis, y_axis},
};
use crate::{
    model::{Outcome, metric},
    report::{Cell, Column, Mark, Table, format, words},
    store::{RunDetail, Series},
};

/// Which series stand in one chart.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub title: &'static str,
    pub metrics: &'static [&'static str],
}

/// What a script needs to draw the same chart with a cursor and zoom.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Live {
    /// The unit that people read.
    pub unit: &'static str,
    /// Stored values are divided by this.
    pub by: f64,
    pub lines: Vec<LiveLine>,
    pub bands: Vec<Band>,
    /// The start of the run, in seconds since the epoch.
    pub start_s: f64,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveLine {
    pub node: String,
    pub metric: String,
    pub label: String,
}

/// The measurement of one trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Band {
    /// Seconds since the epoch.
    pub from_s: f64,
    pub to_s: f64,
    pub label: String,
    /// `held`, `broke`, ...
    pub outcome: &'static str,
}

/// A difference between neighbours of more than this many typical ones is a gap.
const GAP: f64 = 3.5;

pub(super) fn draw(input: &Input<'_>, entry: &Entry, spec: &Spec, size: Size) -> Option<Chart> {
    let lines = pick(input, spec);
    let (from, to) = ends(input, &lines)?;
    let seconds = format::seconds_between(from, to).max(1.0);
    let largest = lines.iter().flat_map(|(_, series)| &series.points).map(|(_, value)| *value).fold(0.0, f64::max);
    let unit = lines.first().map_or("", |(_, series)| series.unit.as_str());
    let (unit, by) = format::scale(unit, largest);

    let width = size.width();
    let several = lines.len() > 1;
    let rows = if several { legend_rows(&lines, width) } else { Vec::new() };
    let upper = 40.0 + 20.0 * rows.len() as f64;
    let lower = upper + 130.0;
    let left = text_width(&format::figure(largest / by)).max(text_width("0.5")) + 16.0;
    let right = width - 8.0;
    let x = Scale::linear(0.0, seconds, left, right);
    let y = Scale::linear(0.0, headroom(largest / by), lower, upper);
    let mut drawing = Drawing::new(width, lower + 26.0);
    bands(&mut drawing, input.detail, from, &x, (upper, lower));
    y_axis(&mut drawing, &y, left, right, 3, 1.0);
    time_axis(&mut drawing, &x, seconds, lower);
    if !unit.is_empty() {
        drawing.text(0.0, 12.0, Anchor::Start, "", unit);
    }
    for (at, row) in rows.iter().enumerate() {
        legend(&mut drawing, &lines, row, 32.0 + 20.0 * at as f64);
    }
    for (at, (_, series)) in lines.iter().enumerate() {
        let points = series.points.iter().map(|(ns, value)| (format::seconds_between(from, *ns), value / by));
        drawing.path(&path(points, &x, &y), &format!("s thin c{} d{}", at % 4, at % 7));
    }

    let (id, class) = entry.id_and_class(size);
    let table = table(input.detail, entry.name, spec, &lines, unit, by);
    let desc = describe(&lines, unit, by);
    let svg = drawing.finish(&id, class, spec.title, &desc);
    let live = Live {
        unit,
        by,
        lines: lines
            .iter()
            .map(|(label, series)| LiveLine {
                node: series.node.clone(),
                metric: series.metric.clone(),
                label: label.clone(),
            })
            .collect(),
        bands: live_bands(input.detail),
        start_s: from as f64 / 1e9,
    };
    Some(Chart { name: entry.name, title: spec.title.to_owned(), desc, svg, table: Some(table), live: Some(live) })
}

/// The series of a chart with their labels: the metric's, with the node's where several nodes have it.
fn pick<'a>(input: &Input<'a>, spec: &Spec) -> Vec<(String, &'a Series)> {
    let mut lines = Vec::new();
    for name in spec.metrics {
        let found: Vec<&Series> =
            input.series.iter().filter(|series| series.metric == *name && !series.points.is_empty()).collect();
        let label = metric::find(name).map_or(*name, |metric| metric.label);
        let several = found.len() > 1;
        lines.extend(
            found
                .into_iter()
                .map(|series| (if several { format!("{label}, {}", series.node) } else { label.to_owned() }, series)),
        );
    }
    lines
}

/// From the run's start to the last reading of any series, so that all charts of a page share one axis.
fn ends(input: &Input<'_>, lines: &[(String, &Series)]) -> Option<(i64, i64)> {
    let first = lines.iter().filter_map(|(_, series)| series.points.first()).map(|(at, _)| *at).min()?;
    let from = input.detail.run.started_ns.map_or(first, |started| started.min(first));
    let last = input.series.iter().filter_map(|series| series.points.last()).map(|(at, _)| *at).max()?;
    Some((from, last))
}

/// A line through points in time order; it is broken where readings are missing.
#[must_use]
pub(super) fn path(points: impl Iterator<Item = (f64, f64)>, x: &Scale, y: &Scale) -> String {
    let points: Vec<(f64, f64)> = points.filter(|(_, value)| value.is_finite()).collect();
    let limit = gap_limit(&points);
    let mut d = String::with_capacity(points.len() * 12);
    let mut before: Option<f64> = None;
    for (at, value) in points {
        let joined = before.is_some_and(|before| at - before <= limit);
        d.push_str(&format!("{}{:.1} {:.1}", if joined { 'L' } else { 'M' }, x.at(at), y.at(value)));
        before = Some(at);
    }
    d
}

/// The longest distance between two readings that are still neighbours.
fn gap_limit(points: &[(f64, f64)]) -> f64 {
    let mut steps: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).map_or(f64::INFINITY, |typical| typical * GAP)
}

fn bands(drawing: &mut Drawing, detail: &RunDetail, from: i64, x: &Scale, (upper, lower): (f64, f64)) {
    let mut free = f64::NEG_INFINITY;
    for trial in &detail.trials {
        let start = x.at(format::seconds_between(from, trial.measure_from_ns));
        let end = x.at(format::seconds_between(from, trial.measured_until_ns()));
        let mark = words::outcome(trial.outcome).1;
        let class = if mark == Mark::Bad { "fill bad" } else { "band" };
        drawing.rect((start, upper), (end, lower), class);
        let label = format::count(trial.load);
        let (middle, half) = (f64::midpoint(start, end), text_width(&label) / 2.0);
        if middle - half > free + 4.0 {
            let class = if mark == Mark::Bad { "bad" } else { "" };
            drawing.text(middle, upper - 5.0, Anchor::Middle, class, &label);
            free = middle + half;
        }
    }
}

fn live_bands(detail: &RunDetail) -> Vec<Band> {
    detail
        .trials
        .iter()
        .map(|trial| Band {
            from_s: trial.measure_from_ns as f64 / 1e9,
            to_s: trial.measured_until_ns() as f64 / 1e9,
            label: format::count(trial.load),
            outcome: words::outcome(trial.outcome).0,
        })
        .collect()
}

/// Which lines stand in which row of the legend.
fn legend_rows(lines: &[(String, &Series)], width: f64) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut used = f64::INFINITY;
    for (at, (label, _)) in lines.iter().enumerate() {
        let need = text_width(label) + 44.0;
        if used + need > width {
            rows.push(Vec::new());
            used = 0.0;
        }
        used += need;
        if let Some(row) = rows.last_mut() {
            row.push(at);
        }
    }
    rows
}

fn legend(drawing: &mut Drawing, lines: &[(String, &Series)], row: &[usize], y: f64) {
    let mut x = 0.0;
    for at in row {
        drawing.line((x, y - 4.0), (x + 22.0, y - 4.0), &format!("s c{} d{}", at % 4, at % 7));
        drawing.text(x + 28.0, y, Anchor::Start, "", &lines[*at].0);
        x += text_width(&lines[*at].0) + 44.0;
    }
}

fn describe(lines: &[(String, &Series)], unit: &str, by: f64) -> String {
    let said: Vec<String> = lines
        .iter()
        .filter_map(|(label, series)| {
            let last = series.points.last()?.1;
            let values = || series.points.iter().map(|(_, value)| *value);
            let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
            let [low, high, last] = [low, high, last].map(|value| format::figure(value / by));
            Some(format!("{label}: between {low} and {high} {unit}, last {last}"))
        })
        .collect();
    format!("{}.", said.join("; ")).replace(format::THIN, " ")
}

/// The mean of each line over each trial's measurement.
fn table(detail: &RunDetail, name: &str, spec: &Spec, lines: &[(String, &Series)], unit: &str, by: f64) -> Table {
    let mut columns = vec![Column::words("step", "step")];
    columns.extend(lines.iter().map(|(label, series)| Column::figures(&series.metric, label, unit)));
    let mut table = Table::new(name, format!("{}, mean of each measurement", spec.title), columns);
    for trial in &detail.trials {
        let (word, mark) = words::outcome(trial.outcome);
        let mut row = vec![Cell::text(words::step(trial, &detail.run.unit)).suffix(word).mark(mark)];
        row.extend(lines.iter().map(|(_, series)| {
            let inside = series
                .points
                .iter()
                .filter(|(at, _)| (trial.measure_from_ns..=trial.measured_until_ns()).contains(at))
                .map(|(_, value)| *value);
            let (sum, n) = inside.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
            Cell::sampled((n > 0.0).then(|| sum / n / by))
        }));
        table.push(if trial.outcome == Outcome::Held { Mark::None } else { mark }, row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_in_the_data_is_a_gap() {
        let scale = Scale::linear(0.0, 10.0, 0.0, 10.0);
        let points = [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (8.0, 1.0), (9.0, 1.0)];
        let d = path(points.into_iter(), &scale, &scale);
        assert_eq!(d.matches('M').count(), 2, "{d}");
    }
}
