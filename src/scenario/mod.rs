//! The file that a person writes: reading it, checking it, and the plan that follows from it.
//! Does no I/O: texts come in, a plan or errors with line, field and allowed values go out.

pub mod plan;
mod read;

pub use plan::{Origin, Plan, plan};
pub use read::Scenario;

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

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Everything that is wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);
