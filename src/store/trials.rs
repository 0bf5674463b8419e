//! `trials`: measurements, judged.

use sqlx::{Row, SqliteConnection};

use super::{
    StoreError,
    error::{from_json, integer, to_readable_json},
};
use crate::model::{RunId, StopCode, Trial};

/// Stores one trial under the number of its event.
///
/// # Errors
/// When the database cannot be written, or the trial is stored already.
pub async fn insert(db: &mut SqliteConnection, run: RunId, seq: u64, trial: &Trial) -> Result<(), StoreError> {
    let outcome = serde_json::to_value(trial.outcome)
        .map_err(|cause| StoreError::Unstorable { what: "an outcome", cause: cause.to_string() })?;
    sqlx::query(
        "insert into trials (run_id, arm, step, trial, seq, load, outcome, stop_code,
                             started_ns, measure_from_ns, ended_ns, body)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(run.to_string())
    .bind(trial.arm)
    .bind(trial.step)
    .bind(trial.trial)
    .bind(integer("an event's number", seq)?)
    .bind(integer("a load", trial.load)?)
    .bind(outcome.as_str().unwrap_or_default())
    .bind(trial.stop_code.map(StopCode::as_str))
    .bind(trial.started_ns)
    .bind(trial.measure_from_ns)
    .bind(trial.ended_ns)
    .bind(to_readable_json("a trial", trial)?)
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// All trials of a run in the order in which they were measured; void and repeated ones too.
///
/// # Errors
/// When the database cannot be read.
pub async fn of(db: &mut SqliteConnection, run: RunId) -> Result<Vec<Trial>, StoreError> {
    let rows = sqlx::query("select body from trials where run_id = ? order by seq")
        .bind(run.to_string())
        .fetch_all(&mut *db)
        .await?;
    rows.iter().map(|row| from_json("a trial", row.try_get("body")?)).collect()
}

/// How many steps of a run have been measured.
///
/// # Errors
/// When the database cannot be read.
pub async fn steps(db: &mut SqliteConnection, run: RunId) -> Result<i64, StoreError> {
    let row = sqlx::query("select count(*) as n from (select distinct arm, step from trials where run_id = ?)")
        .bind(run.to_string())
        .fetch_one(&mut *db)
        .await?;
    Ok(row.try_get("n")?)
}
