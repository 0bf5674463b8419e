//! `launched`: processes that a live run has started, so that a crash leaves none behind unknown.

use std::path::PathBuf;

use sqlx::{Row, SqliteConnection};

use super::{
    StoreError,
    error::{count, integer},
};
use crate::model::RunId;

/// One process that a run has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub run: RunId,
    pub pid: u32,
    /// Seconds since the epoch at which it started: with the pid, its identity.
    pub process_started_s: u64,
    pub dir: PathBuf,
}

/// Remembers one process.
///
/// # Errors
/// When the database cannot be written.
pub async fn insert(db: &mut SqliteConnection, launched: &Launched) -> Result<(), StoreError> {
    sqlx::query("insert or ignore into launched (run_id, pid, process_started_s, dir) values (?, ?, ?, ?)")
        .bind(launched.run.to_string())
        .bind(launched.pid)
        .bind(integer("a process's start", launched.process_started_s)?)
        .bind(launched.dir.to_string_lossy().into_owned())
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// Every remembered process, of all runs.
///
/// # Errors
/// When the database cannot be read.
pub async fn all(db: &mut SqliteConnection) -> Result<Vec<Launched>, StoreError> {
    let rows = sqlx::query("select run_id, pid, process_started_s, dir from launched order by run_id, pid")
        .fetch_all(&mut *db)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Launched {
                run: super::error::word("a run's id", row.try_get("run_id")?)?,
                pid: row.try_get("pid")?,
                process_started_s: count("a process's start", row.try_get("process_started_s")?)?,
                dir: row.try_get::<String, _>("dir")?.into(),
            })
        })
        .collect()
}

/// Forgets one process: it is gone with all it left.
///
/// # Errors
/// When the database cannot be written.
pub async fn forget_one(db: &mut SqliteConnection, launched: &Launched) -> Result<(), StoreError> {
    sqlx::query("delete from launched where run_id = ? and pid = ? and process_started_s = ?")
        .bind(launched.run.to_string())
        .bind(launched.pid)
        .bind(integer("a process's start", launched.process_started_s)?)
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// Forgets the processes of one run: it has stopped them itself.
///
/// # Errors
/// When the database cannot be written.
pub async fn forget(db: &mut SqliteConnection, run: RunId) -> Result<(), StoreError> {
    sqlx::query("delete from launched where run_id = ?").bind(run.to_string()).execute(&mut *db).await?;
    Ok(())
}
