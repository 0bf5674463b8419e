//! Reads a TOML file into a type, with the line and the field of whatever is wrong.

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::model::{Fault, Faults};

/// A TOML text that is well-formed, and can say on which line a field stands.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    table: toml::Table,
}

impl<'t> Document<'t> {
    /// Parses the text.
    ///
    /// # Errors
    /// The place where the text is not TOML.
    pub fn parse(text: &'t str) -> Result<Self, Faults> {
        text.parse::<toml::Table>().map(|table| Self { text, table }).map_err(|error| {
            let line = error.span().map(|span| line_at(text, span.start));
            Faults(vec![Fault { line, field: String::new(), message: format!("not TOML: {}", error.message()) }])
        })
    }

    /// Reads the whole document as `T`.
    ///
    /// # Errors
    /// The first field that does not fit, with its line and what is allowed.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Faults> {
        read_value(toml::Value::Table(self.table.clone()), "").map_err(|fault| Faults(vec![self.locate(fault)]))
    }

    /// Tables by name: each `[targets.NAME]`, for `targets`.
    pub(super) fn tables(&self, of: &str) -> impl Iterator<Item = (&str, &toml::Table)> {
        let tables = self.table.get(of).and_then(toml::Value::as_table).into_iter().flatten();
        tables.filter_map(|(name, table)| Some((name.as_str(), table.as_table()?)))
    }

    /// Adds the line to a fault that names its field.
    #[must_use]
    pub fn locate(&self, mut fault: Fault) -> Fault {
        if fault.line.is_none() {
            fault.line = line_of(self.text, &fault.field);
        }
        fault
    }
}

/// Reads one value as `T`; `at` is the path of the value in its document.
///
/// # Errors
/// The field that does not fit, without a line.
pub fn read_value<T: DeserializeOwned>(value: toml::Value, at: &str) -> Result<T, Fault> {
    serde_path_to_error::deserialize::<_, T>(value).map_err(|error| {
        let mut path = error.path().to_string();
        if path == "." {
            path.clear();
        }
        let message = error.into_inner().message().to_owned();
        let named = quoted_after(&message, "unknown field `").or_else(|| quoted_after(&message, "missing field `"));
        if let Some(name) = named
            && path.split('.').next_back() != Some(name)
        {
            path = join(&path, name);
        }
        Fault::new(join(at, &path), plain(&message))
    })
}

/// Joins two parts of a path; `rule` and `[0].below` too.
fn join(left: &str, right: &str) -> String {
    match (left.is_empty(), right.is_empty()) {
        (true, _) => right.to_owned(),
        (_, true) => left.to_owned(),
        _ if right.starts_with('[') => format!("{left}{right}"),
        _ => format!("{left}.{right}"),
    }
}

fn quoted_after<'m>(message: &'m str, prefix: &str) -> Option<&'m str> {
    message.strip_prefix(prefix)?.split('`').next()
}

/// Says types as people do.
fn plain(message: &str) -> String {
    let mut text = message.trim().to_owned();
    for (rust, words) in [
        ("expected u64", "expected a whole number of 0 or more"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected usize", "expected a whole number of 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list in [ ]"),
        ("expected a boolean", "expected true or false"),
    ] {
        text = text.replace(rust, words);
    }
    text.replace("expected one of", "allowed:").replace("expected `", "allowed: `")
}

fn line_at(text: &str, byte: usize) -> u32 {
    let before = text.as_bytes().iter().take(byte).filter(|b| **b == b'\n').count();
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

/// The line of a path such as `rule[0].below`; of its nearest ancestor that exists when the field itself does not.
fn line_of(text: &str, path: &str) -> Option<u32> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut found = None;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let (name, index) = match part.split_once('[') {
            Some((name, rest)) => (name, rest.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref().as_ref() == name) else { break };
        found = Some(key.span().start);
        let mut value = value;
        if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
            let Some(item) = items.get(index) else { break };
            found = Some(item.span().start);
            value = item;
        }
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
        if parts.peek().is_none() {
            break;
        }
    }
    found.map(|byte| line_at(text, byte))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read through Debug")]
    struct File {
        name: String,
        #[serde(default)]
        rule: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read through Debug")]
    struct Item {
        below: u64,
    }

    fn fault(text: &str) -> Fault {
        Document::parse(text).and_then(|d| d.read::<File>()).unwrap_err().0.remove(0)
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_what_is_allowed() {
        let fault = fault("name = \"a\"\n[[rule]]\nbelow = 1\n[[rule]]\n\nbellow = 2\nbelow = 3\n");
        assert_eq!((fault.line, fault.field.as_str()), (Some(6), "rule[1].bellow"));
        assert!(fault.message.contains("below"), "{fault}");
    }

    #[test]
    fn a_wrong_type_is_named_with_its_value() {
        let fault = fault("name = \"a\"\n[[rule]]\nbelow = -4\n");
        assert_eq!((fault.line, fault.field.as_str()), (Some(3), "rule[0].below"));
        assert!(fault.message.contains("-4") && fault.message.contains("0 or more"), "{fault}");
    }

    #[test]
    fn a_missing_field_is_named() {
        let fault = fault("[[rule]]\nbelow = 1\n");
        assert!(fault.message.contains("missing field `name`"), "{fault}");
    }

    #[test]
    fn text_that_is_no_toml_has_a_line() {
        let fault = fault("name = \"a\"\nrule = = 3\n");
        assert_eq!(fault.line, Some(2), "{fault}");
    }
}
