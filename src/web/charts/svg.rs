//! Small parts of an SVG: text, lines, scales, ticks. Knows nothing of runs.

use std::fmt::Write as _;

use crate::report::format;

/// The width of an average sign at the size of chart text, with room to spare.
const SIGN: f64 = 6.9;

/// A drawing of fixed size whose text is never scaled away: each chart is drawn once wide and once narrow.
#[derive(Debug)]
pub struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

/// Where text is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    #[must_use]
    pub const fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Text at a point; `class` adds to the chart text's own class.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="t {class}">{}</text>"#,
            escape(text)
        );
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" class="{class}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    /// A rectangle between two corners.
    pub fn rect(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x, y) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = ((to.0 - from.0).abs(), (to.1 - from.1).abs());
        let _ = write!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="{class}"/>"#
        );
    }

    pub fn path(&mut self, d: &str, class: &str) {
        if !d.is_empty() {
            let _ = write!(self.body, r#"<path d="{d}" class="{class}"/>"#);
        }
    }

    /// A mark on a line: a circle, a square, a triangle or a diamond, so that series differ without colour.
    pub fn marker(&mut self, (x, y): (f64, f64), shape: usize, class: &str) {
        let d = match shape % 4 {
            0 => format!("M{:.1} {y:.1}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0Z", x - 3.2),
            1 => format!("M{:.1} {:.1}h6v6h-6Z", x - 3.0, y - 3.0),
            2 => format!("M{x:.1} {:.1}l3.8 6.6h-7.6Z", y - 4.0),
            _ => format!("M{x:.1} {:.1}l4 4l-4 4l-4 -4Z", y - 4.0),
        };
        self.path(&d, class);
    }

    /// The finished element. `id` must be unique on the page; `title` and `desc` are what assistive technology reads.
    #[must_use]
    pub fn finish(self, id: &str, class: &str, title: &str, desc: &str) -> String {
        let Self { width, height, body } = self;
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" class="plot {class}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>{body}</svg>"#,
            escape(title),
            escape(desc)
        )
    }
}

/// For text and attributes of SVG and HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(sign),
        }
    }
    out
}

/// How wide a text will be, at most.
#[must_use]
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * SIGN
}

/// Breaks a sentence into lines that fit.
#[must_use]
pub fn wrap(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) + SIGN <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Values to places.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Scale {
    /// Straight from `from..to` to `start..end`.
    #[must_use]
    pub fn linear(from: f64, to: f64, start: f64, end: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, start, end, log: false }
    }

    /// By powers of ten; both ends above 0.
    #[must_use]
    pub fn log(from: f64, to: f64, start: f64, end: f64) -> Self {
        Self { from, to, start, end, log: true }
    }

    #[must_use]
    pub const fn is_log(&self) -> bool {
        self.log
    }

    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from).ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + share * (self.end - self.start)
    }

    /// Round values for lines and labels, about `wanted` of them.
    #[must_use]
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.log { self.log_ticks() } else { ticks(self.from, self.to, wanted) }
    }

    fn log_ticks(&self) -> Vec<f64> {
        let mut all = Vec::new();
        let mut decade = 10_f64.powf(self.from.log10().floor());
        while decade <= self.to {
            all.extend([1.0, 2.0, 5.0].map(|by| by * decade).into_iter().filter(|v| *v >= self.from && *v <= self.to));
            decade *= 10.0;
        }
        all
    }
}

/// Round values between two ends.
#[must_use]
pub fn ticks(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    let raw = (to - from) / wanted.max(1) as f64;
    if !raw.is_finite() || raw <= 0.0 {
        return vec![from];
    }
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|by| by * power).into_iter().find(|step| *step >= raw).unwrap_or(raw);
    let first = (from / step).ceil();
    (0..64).map(|at| (first + f64::from(at)) * step).take_while(|value| *value <= to * 1.000_001).collect()
}

/// The end of an axis that starts at 0, a little above the largest value.
#[must_use]
pub fn headroom(largest: f64) -> f64 {
    if largest > 0.0 && largest.is_finite() { largest * 1.12 } else { 1.0 }
}

/// Lines and labels of a vertical axis at the left of the plot.
pub fn y_axis(drawing: &mut Drawing, scale: &Scale, left: f64, right: f64, wanted: usize, by: f64) {
    let mut last: Option<f64> = None;
    for tick in scale.ticks(wanted) {
        let y = scale.at(tick);
        if last.is_some_and(|last| (last - y).abs() < 16.0) {
            continue;
        }
        last = Some(y);
        drawing.line((left, y), (right, y), if tick == 0.0 { "axis" } else { "grid" });
        drawing.text(left - 8.0, y + 4.0, Anchor::End, "", &tick_label(tick / by));
    }
}

/// As [`y_axis`] for things that are counted: whole numbers only.
pub fn y_axis_whole(drawing: &mut Drawing, scale: &Scale, left: f64, right: f64) {
    for tick in scale.ticks(5).into_iter().filter(|tick| tick.fract().abs() < 1e-9) {
        let y = scale.at(tick);
        drawing.line((left, y), (right, y), if tick == 0.0 { "axis" } else { "grid" });
        drawing.text(left - 8.0, y + 4.0, Anchor::End, "", &tick_label(tick));
    }
}

/// A tick's figure without trailing zeros.
#[must_use]
pub fn tick_label(value: f64) -> String {
    let text = format::figure(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Seconds since the start, below the plot.
pub fn time_axis(drawing: &mut Drawing, scale: &Scale, seconds: f64, y: f64) {
    let room = (scale.at(seconds) - scale.at(0.0)).abs();
    let wanted = (room / 90.0).clamp(2.0, 10.0);
    let steps =
        [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0];
    let step = steps.into_iter().find(|step| seconds / step <= wanted).unwrap_or(28_800.0);
    let mut at = 0.0;
    while at <= seconds {
        let x = scale.at(at);
        drawing.line((x, y), (x, y + 4.0), "axis");
        let text = if at == 0.0 { "0".to_owned() } else { format::span(at).replace(".0", "") };
        let half = text_width(&text) / 2.0;
        let end = scale.at(seconds).max(scale.at(0.0));
        if x + half <= end + 14.0 {
            drawing.text(x, y + 18.0, Anchor::Middle, "", &text);
        }
        at += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 4_700.0, 5), [0.0, 1_000.0, 2_000.0, 3_000.0, 4_000.0]);
        assert_eq!(ticks(0.0, 1.0, 4), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(0.0, 0.0, 4), [0.0]);
    }

    #[test]
    fn a_log_scale_keeps_decades_apart_evenly() {
        let scale = Scale::log(10.0, 1_000.0, 0.0, 200.0);
        assert!((scale.at(100.0) - 100.0).abs() < 1e-9);
        assert_eq!(scale.ticks(0), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0]);
    }

    #[test]
    fn wrapped_lines_fit() {
        let lines = wrap("get not below 30 % of step 0, the empty target", 140.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| text_width(line) <= 140.0), "{lines:?}");
    }
}
