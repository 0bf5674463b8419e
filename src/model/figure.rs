//! How a figure stands in a sentence or a cell. The one place where digits and thousands are decided.

/// Between thousands, and between a figure and its unit: narrow and never broken over lines.
pub const THIN: char = '\u{202f}';
/// What stands where nothing was measured. Never 0.
pub const NOT_SAMPLED: &str = "not sampled";

/// A measured figure with three significant digits; whole numbers from 100 on.
#[must_use]
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return NOT_SAMPLED.to_owned();
    }
    let digits = if size == 0.0 || size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.0995 {
        2
    } else {
        3
    };
    let text = format!("{size:.digits$}");
    if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return if size == 0.0 { "0".to_owned() } else { "<0.001".to_owned() };
    }
    format!("{}{}", if value < 0.0 { "\u{2212}" } else { "" }, group(&text))
}

/// Digits with thin spaces between thousands; what stands behind a point is left as it is.
#[must_use]
pub fn group(text: &str) -> String {
    let (whole, rest) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut out = String::with_capacity(text.len() + 6);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}
