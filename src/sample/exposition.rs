//! Reads the text format that Prometheus scrapes, of ZooKeeper's provider and of node_exporter. Does no I/O.
//!
//! Own code, since of the crates one is under the LGPL and the other brings a regex engine and a calendar along to split
//! lines at spaces.

/// One figure: its name, its labels in the order of the text, its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Figure {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }

    /// The name with its labels, as it stands in the text.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.labels.is_empty() {
            return self.name.clone();
        }
        let labels: Vec<_> = self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        format!("{}{{{}}}", self.name, labels.join(","))
    }
}

/// Reads a whole text. Comments, lines in another form and values that are no finite numbers (`NaN` of an empty quantile)
/// are passed over: what is not there is absent.
#[must_use]
pub fn parse(text: &str) -> Vec<Figure> {
    text.lines().filter_map(|line| figure(line.trim())).collect()
}

fn figure(line: &str) -> Option<Figure> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    if !is_name(name) {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // A time may stand behind the value.
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then(|| Figure { name: name.to_owned(), labels, value })
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, b'_' | b':'))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}

/// Labels behind an opening brace, and what stands behind the closing one.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.push((name.trim().to_owned(), value));
        rest = after;
    }
}

/// A text up to its closing quote, with `\\`, `\"` and `\n` resolved.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn figures_with_and_without_labels_are_read() {
        let text = "# HELP znode_count znode_count\n# TYPE znode_count gauge\nznode_count 9.0\n\
            fsynctime{quantile=\"0.5\",} 2.0\nempty{quantile=\"0.9\",} NaN\nup{} 1 1700000000000\n\
            node_filesystem_avail_bytes{device=\"/dev/a\\\\b\",mountpoint=\"/a \\\"b\\\",}\"} 1.5e+09\n\
            node_cpu{cpu=\"cpu0\",mode=\"idle\"} 362812.78\nbroken{a=\"1\n<html>\n 7\nnoval\n";
        let read = parse(text);
        let names: Vec<_> = read.iter().map(|figure| (figure.name.as_str(), figure.value)).collect();
        let wanted = [
            ("znode_count", 9.0),
            ("fsynctime", 2.0),
            ("up", 1.0),
            ("node_filesystem_avail_bytes", 1.5e9),
            ("node_cpu", 362_812.78),
        ];
        assert_eq!(names, wanted);
        assert_eq!((read[3].label("device"), read[3].label("mountpoint")), (Some("/dev/a\\b"), Some("/a \"b\",}")));
        assert_eq!(read[1].full_name(), "fsynctime{quantile=\"0.5\"}");
        assert_eq!((read[4].label("mode"), read[4].label("none")), (Some("idle"), None));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(?s).{0,300}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_line_makes_the_reader_panic(line in "[a-z_{}=,\"\\\\ 0-9.é]{0,60}") {
            let _ = parse(&line);
        }

        #[test]
        fn what_was_written_is_read(name in "[a-z_:][a-z0-9_:]{0,12}", label in "[a-z]{1,6}", text in "[^\\\\\"\n\r]{0,20}",
                                    value in -1e12..1e12_f64) {
            let read = parse(&format!("{name}{{{label}=\"{text}\"}} {value}\n"));
            prop_assert_eq!(read, vec![Figure { name, labels: vec![(label, text)], value }]);
        }
    }
}
