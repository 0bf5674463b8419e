//! What is wrong with a file that a person wrote.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One fault of a scenario or of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// The line of the file, counted from 1, when it has one.
    pub line: Option<u32>,
    /// The path of the field, such as `load.step` or `rule[0].below`.
    pub field: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl Fault {
    /// A fault without a line; whoever knows the text adds it.
    #[must_use]
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { line: None, field: field.into(), message: message.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}
