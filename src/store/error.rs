//! Why the database could not be read or written, and the conversions at its edge.

use std::path::PathBuf;

/// Why the database could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another server or command line has the database open for writing.
    #[error("the database {} is held by {holder}; stop it first, or use another database", .path.display())]
    Held { path: PathBuf, holder: String },
    /// SQLite could not grow the file.
    #[error("the disk of the database is full (or its size limit is reached): nothing more can be stored")]
    Full,
    #[error("cannot open the database {}", .path.display())]
    Open { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the database could not be read or written")]
    Sql(#[source] sqlx::Error),
    /// A stored value that the program cannot read: of a newer program, or damaged.
    #[error("{what} in the database cannot be read: {cause}")]
    Damaged { what: &'static str, cause: String },
    /// A value that SQLite's integers or JSON cannot hold.
    #[error("{what} cannot be stored: {cause}")]
    Unstorable { what: &'static str, cause: String },
}

/// SQLite's code for "no page left", on a full disk as under a size limit.
const SQLITE_FULL: &str = "13";

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let full = error.as_database_error().is_some_and(|cause| cause.code().is_some_and(|code| code == SQLITE_FULL));
        if full { Self::Full } else { Self::Sql(error) }
    }
}

/// A count as SQLite's signed integer.
pub(super) fn integer(what: &'static str, value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|cause| StoreError::Unstorable { what, cause: cause.to_string() })
}

/// SQLite's signed integer as a count of any width.
pub(super) fn count<T: TryFrom<i64, Error: std::fmt::Display>>(
    what: &'static str,
    value: i64,
) -> Result<T, StoreError> {
    value.try_into().map_err(|cause: T::Error| StoreError::Damaged { what, cause: cause.to_string() })
}

/// A word of a fixed set, such as a run's state.
pub(super) fn word<T: std::str::FromStr<Err: std::fmt::Display>>(
    what: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    text.parse().map_err(|cause: T::Err| StoreError::Damaged { what, cause: cause.to_string() })
}

/// A value of the model as JSON text.
pub(super) fn to_json<T: serde::Serialize>(what: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|cause| StoreError::Unstorable { what, cause: cause.to_string() })
}

/// As [`to_json`], after a look at whether it reads back: JSON has no NaN, and one in a trial would make its whole run
/// unreadable later.
pub(super) fn to_readable_json<T: serde::Serialize + serde::de::DeserializeOwned>(
    what: &'static str,
    value: &T,
) -> Result<String, StoreError> {
    let text = to_json(what, value)?;
    match serde_json::from_str::<T>(&text) {
        Ok(_) => Ok(text),
        Err(cause) => Err(StoreError::Unstorable { what, cause: format!("it does not read back: {cause}") }),
    }
}

/// JSON text as a value of the model.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|cause| StoreError::Damaged { what, cause: cause.to_string() })
}
