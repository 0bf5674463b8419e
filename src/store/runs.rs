//! `runs`: what was asked, where it stands, what it found.

use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    RunDetail, RunFilter, RunRow, StoreError,
    error::{count, from_json, integer, to_json, to_readable_json, word},
    rows::PhaseNow,
};
use crate::{
    model::{Inventory, RunId, RunState, Status, StopCode, Verdict},
    scenario::plan::Outline,
};

/// What lists show. Not `*`: verdicts and inventories are large.
macro_rules! listed {
    ($rest:literal) => {
        concat!(
            "select id, scenario, target, workload, axis, unit, state, status, stop_code, last_good, first_bad,
                    sentence, origin, created_ns, started_ns, ended_ns
             from runs ",
            $rest
        )
    };
}

/// What is known of a run when it is asked for.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    pub id: RunId,
    pub scenario_text: &'a str,
    pub outline: &'a Outline,
    /// `page`, `api` or `command line`.
    pub origin: &'a str,
    pub created_ns: i64,
    /// The local offset, seconds east of UTC.
    pub utc_offset_s: i32,
}

/// Stores a new run as queued.
///
/// # Errors
/// When the database cannot be written.
pub async fn insert(db: &mut SqliteConnection, run: &NewRun<'_>) -> Result<(), StoreError> {
    let NewRun { id, scenario_text, outline, origin, created_ns, utc_offset_s } = run;
    sqlx::query(
        "insert into runs (id, scenario, scenario_text, outline, target, workload, axis, unit,
                           origin, rampart_version, utc_offset_s, state, created_ns)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?)",
    )
    .bind(id.to_string())
    .bind(&outline.scenario)
    .bind(scenario_text)
    .bind(to_json("an outline", outline)?)
    .bind(&outline.target)
    .bind(&outline.workload)
    .bind(&outline.axis)
    .bind(&outline.unit)
    .bind(origin)
    .bind(env!("CARGO_PKG_VERSION"))
    .bind(utc_offset_s)
    .bind(created_ns)
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// A queued run begins.
///
/// # Errors
/// When the database cannot be written.
pub async fn start(db: &mut SqliteConnection, run: RunId, started_ns: i64) -> Result<(), StoreError> {
    sqlx::query("update runs set state = 'running', started_ns = ? where id = ? and state = 'queued'")
        .bind(started_ns)
        .bind(run.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// The number of the run's newest event.
///
/// # Errors
/// When the database cannot be written.
pub async fn set_last_seq(db: &mut SqliteConnection, run: RunId, seq: u64) -> Result<(), StoreError> {
    sqlx::query("update runs set last_seq = ? where id = ?")
        .bind(integer("an event's number", seq)?)
        .bind(run.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// What the run is doing now.
///
/// # Errors
/// When the database cannot be written.
pub async fn set_phase(db: &mut SqliteConnection, run: RunId, phase: &PhaseNow) -> Result<(), StoreError> {
    sqlx::query("update runs set phase = ? where id = ?")
        .bind(to_json("a phase", phase)?)
        .bind(run.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// Where the run creates on its target.
///
/// # Errors
/// When the database cannot be written.
pub async fn set_root(db: &mut SqliteConnection, run: RunId, root: &str) -> Result<(), StoreError> {
    sqlx::query("update runs set root = ? where id = ?").bind(root).bind(run.to_string()).execute(&mut *db).await?;
    Ok(())
}

/// Nothing lies under the root of an interrupted run any more.
///
/// # Errors
/// When the database cannot be written.
pub async fn forget_root(db: &mut SqliteConnection, run: RunId) -> Result<(), StoreError> {
    sqlx::query("update runs set root = null where id = ? and state = 'interrupted'")
        .bind(run.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// Interrupted runs whose root may still be on its target, with the target's name, oldest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn uncleaned(db: &mut SqliteConnection) -> Result<Vec<(RunId, String)>, StoreError> {
    let rows = sqlx::query("select id, target from runs where state = 'interrupted' and root is not null order by id")
        .fetch_all(&mut *db)
        .await?;
    rows.iter().map(|row| Ok((word("a run's id", row.try_get("id")?)?, row.try_get("target")?))).collect()
}

/// What the target is.
///
/// # Errors
/// When the database cannot be written.
pub async fn set_inventory(db: &mut SqliteConnection, run: RunId, inventory: &Inventory) -> Result<(), StoreError> {
    sqlx::query("update runs set inventory = ? where id = ?")
        .bind(to_json("an inventory", inventory)?)
        .bind(run.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// The run has its verdict and is over.
///
/// # Errors
/// When the database cannot be written.
pub async fn finish(db: &mut SqliteConnection, run: RunId, verdict: &Verdict, ended_ns: i64) -> Result<(), StoreError> {
    sqlx::query(
        "update runs
         set state = 'finished', phase = null, status = ?, stop_code = ?, last_good = ?, first_bad = ?,
             sentence = ?, verdict = ?, ended_ns = ?
         where id = ?",
    )
    .bind(verdict.status.as_str())
    .bind(verdict.stop_code.as_str())
    .bind(verdict.last_good.map(|load| integer("a load", load)).transpose()?)
    .bind(verdict.first_bad.map(|load| integer("a load", load)).transpose()?)
    .bind(&verdict.sentence)
    .bind(to_readable_json("a verdict", verdict)?)
    .bind(ended_ns)
    .bind(run.to_string())
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// The run is over without a verdict: `sentence` says why.
///
/// # Errors
/// When the database cannot be written.
pub async fn interrupt(
    db: &mut SqliteConnection,
    run: RunId,
    status: Status,
    sentence: &str,
    ended_ns: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "update runs
         set state = 'interrupted', phase = null, status = ?, stop_code = null, sentence = ?, ended_ns = ?
         where id = ? and state in ('queued', 'running')",
    )
    .bind(status.as_str())
    .bind(sentence)
    .bind(ended_ns)
    .bind(run.to_string())
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// Runs, newest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(db: &mut SqliteConnection, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
    const DEFAULT_LIMIT: u32 = 50;
    let RunFilter { text, state, status, before, limit } = filter;
    let rows = sqlx::query(listed!(
        "where (?1 is null or instr(lower(scenario), lower(?1)) > 0 or instr(lower(target), lower(?1)) > 0)
           and (?2 is null or state = ?2)
           and (?3 is null or status = ?3)
           and (?4 is null or id < ?4)
         order by id desc
         limit ?5"
    ))
    .bind(text.as_deref())
    .bind(state.map(RunState::as_str))
    .bind(status.map(Status::as_str))
    .bind(before.map(|id| id.to_string()))
    .bind(if *limit == 0 { DEFAULT_LIMIT } else { *limit })
    .fetch_all(&mut *db)
    .await?;
    rows.iter().map(read).collect()
}

/// Runs in a state, oldest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn in_state(db: &mut SqliteConnection, state: RunState) -> Result<Vec<RunRow>, StoreError> {
    let rows = sqlx::query(listed!("where state = ? order by id")).bind(state.as_str()).fetch_all(&mut *db).await?;
    rows.iter().map(read).collect()
}

/// One run as lists show it.
///
/// # Errors
/// When the database cannot be read.
pub async fn row(db: &mut SqliteConnection, run: RunId) -> Result<Option<RunRow>, StoreError> {
    let row = sqlx::query(listed!("where id = ?")).bind(run.to_string()).fetch_optional(&mut *db).await?;
    row.as_ref().map(read).transpose()
}

/// One run, still without its trials and notes.
///
/// # Errors
/// When the database cannot be read.
pub async fn detail(db: &mut SqliteConnection, run: RunId) -> Result<Option<RunDetail>, StoreError> {
    let row = sqlx::query("select * from runs where id = ?").bind(run.to_string()).fetch_optional(&mut *db).await?;
    let Some(row) = row else { return Ok(None) };
    let inventory: Option<String> = row.try_get("inventory")?;
    let phase: Option<String> = row.try_get("phase")?;
    Ok(Some(RunDetail {
        run: read(&row)?,
        scenario_text: row.try_get("scenario_text")?,
        outline: from_json("an outline", row.try_get("outline")?)?,
        inventory: inventory.map(|text| from_json("an inventory", &text)).transpose()?,
        inventories: std::collections::BTreeMap::new(),
        phase: phase.map(|text| from_json("a phase", &text)).transpose()?,
        trials: Vec::new(),
        verdict: verdict_of(&row)?,
        notes: Vec::new(),
        last_seq: count("an event's number", row.try_get("last_seq")?)?,
    }))
}

/// The verdict of a run that has one.
///
/// # Errors
/// When the database cannot be read.
pub async fn verdict(db: &mut SqliteConnection, run: RunId) -> Result<Option<Verdict>, StoreError> {
    let row =
        sqlx::query("select verdict from runs where id = ?").bind(run.to_string()).fetch_optional(&mut *db).await?;
    row.as_ref().map_or(Ok(None), verdict_of)
}

fn verdict_of(row: &SqliteRow) -> Result<Option<Verdict>, StoreError> {
    let text: Option<String> = row.try_get("verdict")?;
    text.map(|text| from_json("a verdict", &text)).transpose()
}

fn read(row: &SqliteRow) -> Result<RunRow, StoreError> {
    let status: Option<String> = row.try_get("status")?;
    let stop_code: Option<String> = row.try_get("stop_code")?;
    let load = |column: &str| -> Result<Option<u64>, StoreError> {
        row.try_get::<Option<i64>, _>(column)?.map(|value| count("a load", value)).transpose()
    };
    Ok(RunRow {
        id: word("a run's id", row.try_get("id")?)?,
        scenario: row.try_get("scenario")?,
        target: row.try_get("target")?,
        workload: row.try_get("workload")?,
        axis: row.try_get("axis")?,
        unit: row.try_get("unit")?,
        state: word("a run's state", row.try_get("state")?)?,
        status: status.map(|text| word::<Status>("a status", &text)).transpose()?,
        stop_code: stop_code.map(|text| word::<StopCode>("a stop code", &text)).transpose()?,
        last_good: load("last_good")?,
        first_bad: load("first_bad")?,
        sentence: row.try_get("sentence")?,
        origin: row.try_get("origin")?,
        created_ns: row.try_get("created_ns")?,
        started_ns: row.try_get("started_ns")?,
        ended_ns: row.try_get("ended_ns")?,
    })
}
