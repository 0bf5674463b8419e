//! Pure decisions: which load next, was a rule broken, what became of a trial, what does the run say.
//! No clock and no I/O; sees only what is stored, so that a verdict can be judged again later.

pub mod attribution;
pub mod controller;
pub mod judge;
pub mod rules;
pub mod steady;
pub mod verdict;

pub use controller::{Ladder, Next};
pub use judge::{Judgement, ValidityLimits};
pub use rules::{Baseline, Rule};

/// Thin spaces between thousands, and no more digits than a reader needs.
#[must_use]
pub(crate) fn figure(value: f64) -> String {
    let digits = if value.abs() >= 100.0 || value.fract().abs() < 1e-9 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    let plain = format!("{value:.digits$}");
    let (sign, rest) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("-", rest));
    let (whole, part) = rest.split_once('.').map_or((rest, String::new()), |(w, p)| (w, format!(".{p}")));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push('\u{2009}');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{part}")
}
