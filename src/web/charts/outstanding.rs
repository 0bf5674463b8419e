//! Outstanding requests by load: one bar a step, with the shares of the time in which so many were outstanding.

use super::{
    Chart, Entry, Input, Size,
    svg::{Anchor, Drawing, Scale, text_width, y_axis},
};
use crate::{
    model::{BOUNDS, SeriesStat, Trial},
    report::{format, lead_node, outstanding, steps},
};

/// One class more than there are bounds: none, up to each further bound, above the last.
const CLASSES: usize = BOUNDS.len() + 1;

struct Bar {
    load: u64,
    max: f64,
    /// Of each class, which are 1 together; `None` where there are too few samples.
    shares: Option<[f64; CLASSES]>,
}

pub(super) fn draw(input: &Input<'_>, entry: &Entry, size: Size) -> Option<Chart> {
    let detail = input.detail;
    let lead = lead_node(detail)?;
    let bars: Vec<Bar> = steps::representative(detail).into_iter().filter_map(|trial| bar(trial, &lead)).collect();
    if bars.len() < 2 || bars.iter().all(|bar| bar.shares.is_none()) {
        return None;
    }
    let width = size.width();
    let words: Vec<String> = (0..CLASSES).map(words).collect();
    let longest = words.iter().map(|text| text_width(text)).fold(0.0, f64::max);
    let beside = size != Size::Narrow;
    let (upper, lower, left) = (30.0, 230.0, 44.0);
    let right = if beside { width - longest - 48.0 } else { width - 10.0 };
    let below = if beside { 0.0 } else { 20.0 * CLASSES.div_ceil(2) as f64 };
    let mut drawing = Drawing::new(width, lower + 44.0 + below);
    let y = Scale::linear(0.0, 100.0, lower, upper);
    y_axis(&mut drawing, &y, left, right, 5, 1.0);
    drawing.text(0.0, 14.0, Anchor::Start, "", "% of the time");
    let slot = (right - left) / bars.len() as f64;
    let mut free = f64::NEG_INFINITY;
    for (at, bar) in bars.iter().enumerate() {
        let middle = left + (at as f64 + 0.5) * slot;
        let half = (slot * 0.38).min(28.0);
        draw_bar(&mut drawing, bar, &y, middle - half, middle + half);
        let label = format::count(bar.load);
        let half = text_width(&label) / 2.0;
        if middle - half > free {
            drawing.text(middle, lower + 18.0, Anchor::Middle, "", &label);
            free = middle + half + 4.0;
        }
    }
    drawing.text(f64::midpoint(left, right), lower + 36.0, Anchor::Middle, "", &detail.run.unit);
    for (class, text) in words.iter().enumerate() {
        // From above as in a bar: the most outstanding first.
        let row = CLASSES - 1 - class;
        let (x, y) = if beside {
            (right + 16.0, upper + 8.0 + 22.0 * row as f64)
        } else {
            ((row % 2) as f64 * width / 2.0, lower + 62.0 + 20.0 * (row / 2) as f64)
        };
        drawing.rect((x, y - 10.0), (x + 14.0, y + 2.0), &format!("share q{class}"));
        drawing.text(x + 20.0, y, Anchor::Start, "", text);
    }

    let (id, class) = entry.id_and_class(size);
    let title = "Outstanding requests, shares of the time by load".to_owned();
    let desc = describe(&bars, &detail.run.unit, &lead);
    let svg = drawing.finish(&id, class, &title, &desc);
    Some(Chart { name: entry.name, title, desc, svg, table: Some(outstanding::by_step(detail)), live: None })
}

fn bar(trial: &Trial, node: &str) -> Option<Bar> {
    let stat = trial.metric(node, outstanding::METRIC)?;
    stat.distribution.as_ref()?;
    Some(Bar { load: trial.load, max: stat.max, shares: shares(stat) })
}

/// From "above a bound" to "between two bounds".
fn shares(stat: &SeriesStat) -> Option<[f64; CLASSES]> {
    let mut shares = [0.0; CLASSES];
    let mut above_before = 1.0;
    for (class, bound) in BOUNDS.into_iter().enumerate() {
        let above = outstanding::share_above(stat, bound)?;
        shares[class] = above_before - above;
        above_before = above;
    }
    shares[CLASSES - 1] = above_before;
    Some(shares)
}

fn words(class: usize) -> String {
    let bound = |at: usize| BOUNDS.get(at).copied().map(u64::from);
    match (class.checked_sub(1).and_then(bound), bound(class)) {
        (None, _) => "none outstanding".to_owned(),
        (Some(from), Some(to)) => format!("{} to {}", format::count(from + 1), format::count(to)),
        (Some(from), None) => format!("above {}", format::count(from)),
    }
}

fn draw_bar(drawing: &mut Drawing, bar: &Bar, y: &Scale, from: f64, to: f64) {
    let Some(shares) = bar.shares else {
        drawing.rect((from, y.at(100.0)), (to, y.at(0.0)), "planned");
        drawing.text(f64::midpoint(from, to), y.at(50.0), Anchor::Middle, "wait halo", "?");
        return;
    };
    let mut bottom = 0.0;
    for (class, share) in shares.into_iter().enumerate() {
        let top = bottom + share * 100.0;
        if share > 0.0 {
            drawing.rect((from, y.at(bottom)), (to, y.at(top)), &format!("share q{class}"));
        }
        bottom = top;
    }
}

fn describe(bars: &[Bar], unit: &str, node: &str) -> String {
    let said = |bar: &Bar| {
        let load = format!("at {} {unit}", format::count(bar.load));
        let Some(shares) = bar.shares else { return format!("{load} too few samples to tell") };
        let parts: Vec<String> = (0..CLASSES)
            .filter(|class| shares[*class] > 0.0)
            .map(|class| format!("{} for {} %", words(class), format::percent(shares[class])))
            .collect();
        format!("{load} {}, {} at most", parts.join(", "), format::whole_figure(bar.max))
    };
    let ends = [bars.first(), bars.last()].into_iter().flatten().map(said).collect::<Vec<_>>().join("; ");
    let unknown = bars.iter().filter(|bar| bar.shares.is_none()).count();
    let few =
        if unknown > 0 { format!(" {unknown} of {} steps have too few samples.", bars.len()) } else { String::new() };
    format!("Of {node}: {ends}.{few}").replace(format::THIN, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Distribution;

    fn stat(values: &[f64]) -> SeriesStat {
        SeriesStat { distribution: Distribution::of(values), ..SeriesStat::of(values).unwrap() }
    }

    #[test]
    fn shares_are_of_what_lies_between_two_bounds() {
        let found = shares(&stat(&[0.0, 0.0, 0.0, 0.0, 5.0, 10.0, 100.0, 2_000.0]));
        assert_eq!(found, Some([0.5, 0.25, 0.125, 0.0, 0.125]));
        assert_eq!(shares(&stat(&[0.0, 3.0])), None, "two samples are no distribution");
        let said: Vec<String> = (0..CLASSES).map(words).collect();
        let said: Vec<String> = said.iter().map(|text| text.replace(format::THIN, " ")).collect();
        assert_eq!(said, ["none outstanding", "1 to 10", "11 to 100", "101 to 1 000", "above 1 000"]);
    }
}
