//! `idempotency`: what clients said to make a request count once.

use sqlx::{Row, SqliteConnection};

use super::{StoreError, error::word};
use crate::model::RunId;

/// The run that a key stands for, with the scenario text that was sent under it.
///
/// # Errors
/// When the database cannot be read.
pub async fn find(db: &mut SqliteConnection, key: &str) -> Result<Option<(RunId, String)>, StoreError> {
    let row = sqlx::query(
        "select i.run_id, r.scenario_text from idempotency i join runs r on r.id = i.run_id where i.key = ?",
    )
    .bind(key)
    .fetch_optional(&mut *db)
    .await?;
    row.map(|row| Ok((word("a run's id", row.try_get("run_id")?)?, row.try_get("scenario_text")?))).transpose()
}

/// Remembers a key.
///
/// # Errors
/// When the database cannot be written, or the key is taken.
pub async fn insert(db: &mut SqliteConnection, key: &str, run: RunId, at_ns: i64) -> Result<(), StoreError> {
    sqlx::query("insert into idempotency (key, run_id, created_ns) values (?, ?, ?)")
        .bind(key)
        .bind(run.to_string())
        .bind(at_ns)
        .execute(&mut *db)
        .await?;
    Ok(())
}
