//! `histograms`: latencies kept whole, under the full key.

use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    HistogramRow, StoreError,
    error::{count, integer},
};
use crate::model::{HistogramRecord, RunId};

/// Stores one histogram.
///
/// # Errors
/// When the database cannot be written, or a histogram of this key is stored already.
pub async fn insert(db: &mut SqliteConnection, run: RunId, record: &HistogramRecord) -> Result<(), StoreError> {
    let HistogramRecord { arm, step, trial, unit, node, stream, operation, outcome, clock, count, v2_deflate } = record;
    sqlx::query(
        "insert into histograms (run_id, arm, step, trial, unit, node, stream, operation, outcome, clock,
                                 count, v2_deflate)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(run.to_string())
    .bind(arm)
    .bind(step)
    .bind(trial)
    .bind(unit)
    .bind(node)
    .bind(stream)
    .bind(operation)
    .bind(outcome)
    .bind(clock)
    .bind(integer("a count", *count)?)
    .bind(v2_deflate)
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// Which histograms a run has; of one step when it is given.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(db: &mut SqliteConnection, run: RunId, step: Option<u32>) -> Result<Vec<HistogramRow>, StoreError> {
    let rows = sqlx::query(
        "select arm, step, trial, unit, node, stream, operation, outcome, clock, count
         from histograms
         where run_id = ?1 and (?2 is null or step = ?2)
         order by arm, step, trial, unit, node, stream, operation, outcome, clock",
    )
    .bind(run.to_string())
    .bind(step)
    .fetch_all(&mut *db)
    .await?;
    rows.iter().map(key).collect()
}

/// The histograms of one step, whole.
///
/// # Errors
/// When the database cannot be read.
pub async fn of_step(db: &mut SqliteConnection, run: RunId, step: u32) -> Result<Vec<HistogramRecord>, StoreError> {
    let rows = sqlx::query(
        "select arm, step, trial, unit, node, stream, operation, outcome, clock, count, v2_deflate
         from histograms
         where run_id = ? and step = ?
         order by arm, step, trial, unit, node, stream, operation, outcome, clock",
    )
    .bind(run.to_string())
    .bind(step)
    .fetch_all(&mut *db)
    .await?;
    rows.iter()
        .map(|row| {
            let HistogramRow { arm, step, trial, unit, node, stream, operation, outcome, clock, count } = key(row)?;
            let v2_deflate = row.try_get("v2_deflate")?;
            Ok(HistogramRecord { arm, step, trial, unit, node, stream, operation, outcome, clock, count, v2_deflate })
        })
        .collect()
}

fn key(row: &SqliteRow) -> Result<HistogramRow, StoreError> {
    Ok(HistogramRow {
        arm: row.try_get("arm")?,
        step: row.try_get("step")?,
        trial: row.try_get("trial")?,
        unit: row.try_get("unit")?,
        node: row.try_get("node")?,
        stream: row.try_get("stream")?,
        operation: row.try_get("operation")?,
        outcome: row.try_get("outcome")?,
        clock: row.try_get("clock")?,
        count: count("a count", row.try_get("count")?)?,
    })
}
