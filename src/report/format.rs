//! How figures look to people. The one place where digits, thousands and units are decided.

use jiff::Timestamp;

use crate::model::figure::group;
pub use crate::model::figure::{NOT_SAMPLED, THIN, figure};

/// What stands where a percentile needs more samples than there are.
pub const TOO_FEW: &str = "too few samples";

/// A whole number with thin spaces between thousands.
#[must_use]
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A whole number that was kept as a float.
#[must_use]
pub fn whole_figure(value: f64) -> String {
    let text = group(&format!("{:.0}", value.abs()));
    if value < -0.5 { format!("\u{2212}{text}") } else { text }
}

/// A whole number with its sign, for increments.
#[must_use]
pub fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "\u{2212}" } else { "+" };
    format!("{sign}{}", group(&format!("{:.0}", value.abs())))
}

/// A share (0..1) in per cent, without the sign.
#[must_use]
pub fn percent(share: f64) -> String {
    figure(share * 100.0)
}

/// Microseconds as milliseconds, without the unit.
#[must_use]
pub fn ms(us: u64) -> String {
    figure(us as f64 / 1_000.0)
}

/// A span of time for people: `42 s`, `6 min 12 s`, `2 h 11 min`.
#[must_use]
pub fn span(seconds: f64) -> String {
    let all = whole(seconds.max(0.0));
    let (hours, minutes, rest) = (all / 3_600, all / 60 % 60, all % 60);
    match (hours, minutes) {
        (0, 0) if seconds > 0.0 && seconds < 9.95 => format!("{seconds:.1}{THIN}s"),
        (0, 0) => format!("{rest}{THIN}s"),
        (0, _) if rest == 0 => format!("{minutes}{THIN}min"),
        (0, _) => format!("{minutes}{THIN}min {rest}{THIN}s"),
        (_, 0) => format!("{hours}{THIN}h"),
        _ => format!("{hours}{THIN}h {minutes}{THIN}min"),
    }
}

/// Seconds between two absolute times.
#[must_use]
pub fn seconds_between(from_ns: i64, to_ns: i64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

/// A moment in words, in UTC: `1 Dec 2026, 03:21 UTC`.
#[must_use]
pub fn moment(at_ns: i64) -> String {
    zoned(at_ns, "%-d %b %Y, %H:%M UTC")
}

/// The time of day with seconds, in UTC: `03:21:07`.
#[must_use]
pub fn time_of_day(at_ns: i64) -> String {
    zoned(at_ns, "%H:%M:%S")
}

/// RFC 3339, for `datetime` attributes and files.
#[must_use]
pub fn rfc3339(at_ns: i64) -> String {
    zoned(at_ns, "%Y-%m-%dT%H:%M:%SZ")
}

/// The unit that people read, and by what a stored value of `unit` is divided to get there, chosen by the largest.
#[must_use]
pub fn scale(unit: &str, largest: f64) -> (&'static str, f64) {
    let bytes = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let rates = [("MB/s", 1e6), ("kB/s", 1e3)];
    match unit {
        "bytes" => bytes.into_iter().find(|(_, by)| largest >= *by).unwrap_or(("B", 1.0)),
        "bytes_per_s" => rates.into_iter().find(|(_, by)| largest >= *by).unwrap_or(("B/s", 1.0)),
        "share" => ("%", 0.01),
        "s" => ("s", 1.0),
        "ms" => ("ms", 1.0),
        "us" => ("ms", 1e3),
        "per_s" | "ops_per_s" | "ops/s" => ("per s", 1.0),
        _ => ("", 1.0),
    }
}

/// A stored value with the unit that people read: `35.1 MB/s`, `139 per s`.
#[must_use]
pub fn with_unit(value: f64, unit: &str) -> String {
    let (word, by) = scale(unit, value.abs());
    let word = if word.is_empty() && scale(unit, 1.0).0.is_empty() { plain_unit(unit) } else { word };
    let word = word.replace(' ', &THIN.to_string());
    if word.is_empty() { figure(value / by) } else { format!("{}{THIN}{word}", figure(value / by)) }
}

/// A unit that is not of the metrics' list is a word of its own, such as `domains`.
fn plain_unit(unit: &str) -> &str {
    if unit == "count" { "" } else { unit }
}

fn zoned(at_ns: i64, format: &str) -> String {
    Timestamp::from_nanosecond(i128::from(at_ns))
        .map_or_else(|_| NOT_SAMPLED.to_owned(), |at| at.strftime(format).to_string())
}

/// The nearest whole number, at least 0.
#[must_use]
pub fn whole(value: f64) -> u64 {
    // A float is cut to the range of the integer by `as`: nothing can wrap.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating by definition of `as`")]
    let cut = value.round().max(0.0) as u64;
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits_and_thin_spaces() {
        let shown: Vec<String> = [0.0, 0.0004, 0.043, 4.37, 16.0, 99.96, 139.4, 3_219.0, 7_574_432.0, -12.34]
            .iter()
            .map(|value| figure(*value).replace(THIN, "_"))
            .collect();
        assert_eq!(shown, ["0", "<0.001", "0.043", "4.37", "16.0", "100", "139", "3_219", "7_574_432", "\u{2212}12.3"]);
    }

    #[test]
    fn spans_are_said_in_two_parts_at_most() {
        let shown: Vec<String> =
            [0.0, 4.25, 42.0, 60.0, 372.0, 7_860.0].iter().map(|s| span(*s).replace(THIN, " ")).collect();
        assert_eq!(shown, ["0 s", "4.2 s", "42 s", "1 min", "6 min 12 s", "2 h 11 min"]);
    }

    #[test]
    fn units_fit_the_size() {
        let shown: Vec<String> = [(35.12e6, "bytes_per_s"), (409e6, "bytes"), (0.175, "share"), (139.0, "per_s")]
            .iter()
            .map(|(value, unit)| with_unit(*value, unit).replace(THIN, " "))
            .collect();
        assert_eq!(shown, ["35.1 MB/s", "409 MB", "17.5 %", "139 per s"]);
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(moment(1_796_095_267_000_000_000), "1 Dec 2026, 03:21 UTC");
    }
}
