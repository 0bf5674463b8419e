//! `events`: what happened, in order.

use sqlx::{Row, SqliteConnection};

use super::{
    StoreError, StoredEvent,
    error::{count, from_json, integer},
};
use crate::model::{RunEvent, RunId};

/// The kinds whose bodies stand in another table.
const ELSEWHERE: [&str; 2] = ["trial", "verdict"];

/// Stores one event; `json` is the whole event. The bodies of trials and verdicts are left to their own tables.
///
/// # Errors
/// When the database cannot be written.
pub async fn insert(
    db: &mut SqliteConnection,
    run: RunId,
    seq: u64,
    at_ns: i64,
    kind: &str,
    json: &str,
) -> Result<(), StoreError> {
    let body = (!ELSEWHERE.contains(&kind)).then_some(json);
    sqlx::query("insert into events (run_id, seq, at_ns, kind, body) values (?, ?, ?, ?, ?)")
        .bind(run.to_string())
        .bind(integer("an event's number", seq)?)
        .bind(at_ns)
        .bind(kind)
        .bind(body)
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// Events after the given number, in order, whole.
///
/// # Errors
/// When the database cannot be read.
pub async fn after(db: &mut SqliteConnection, run: RunId, seq: u64) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = sqlx::query(
        "select e.seq, e.kind,
                case e.kind
                  when 'trial' then '{\"kind\":\"trial\",\"trial\":' || t.body || '}'
                  when 'verdict' then '{\"kind\":\"verdict\",\"at_ns\":' || e.at_ns || ',\"verdict\":' || r.verdict || '}'
                  else e.body
                end as json
         from events e
         join runs r on r.id = e.run_id
         left join trials t on t.run_id = e.run_id and t.seq = e.seq
         where e.run_id = ? and e.seq > ?
         order by e.seq",
    )
    .bind(run.to_string())
    // A number beyond what was ever given has nothing after it.
    .bind(i64::try_from(seq).unwrap_or(i64::MAX))
    .fetch_all(&mut *db)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(StoredEvent {
                seq: count("an event's number", row.try_get("seq")?)?,
                kind: row.try_get("kind")?,
                json: row.try_get("json")?,
            })
        })
        .collect()
}

/// What readers should know of a run, in order, with absolute nanoseconds.
///
/// # Errors
/// When the database cannot be read.
pub async fn notes(db: &mut SqliteConnection, run: RunId) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = sqlx::query("select body from events where run_id = ? and kind = 'note' order by seq")
        .bind(run.to_string())
        .fetch_all(&mut *db)
        .await?;
    let mut notes = Vec::with_capacity(rows.len());
    for row in &rows {
        if let RunEvent::Note { at_ns, text } = from_json("a note", row.try_get("body")?)? {
            notes.push((at_ns, text));
        }
    }
    Ok(notes)
}
