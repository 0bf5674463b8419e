//! SQLite: one writer, many readers, one file a table. Knows the model and the scenario's outline; starts nothing.

pub mod rows;

use std::path::Path;

pub use rows::{RunDetail, RunFilter, RunRow, Series};

use crate::model::RunId;

/// The database of one server.
#[derive(Debug, Clone)]
pub struct Store {}

/// Why the database could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    Other(String),
}

impl Store {
    /// Opens or creates the database and brings it to the newest shape.
    ///
    /// # Errors
    /// When the file cannot be written, or another server holds it.
    pub async fn open(_path: &Path) -> Result<Self, StoreError> {
        Ok(Self {})
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, _filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        Ok(Vec::new())
    }

    /// Everything of one run but its series.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn detail(&self, _run: RunId) -> Result<Option<RunDetail>, StoreError> {
        Ok(None)
    }

    /// Series of one run, of the named metrics (all when empty), thinned to about `max_points` each.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn series(&self, _run: RunId, _metrics: &[&str], _max_points: usize) -> Result<Vec<Series>, StoreError> {
        Ok(Vec::new())
    }
}
