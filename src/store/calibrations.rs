//! `calibrations`: what this machine's generator was measured to send at most.

use sqlx::{Row, SqliteConnection};

use super::StoreError;

/// One measurement of the generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    pub at_ns: i64,
    /// The name of the machine.
    pub host: String,
    pub ceiling_per_s: u64,
    pub start_lag_p50_us: u64,
    pub start_lag_p99_us: u64,
}

/// Stores a measurement.
///
/// # Errors
/// When the database cannot be written.
pub async fn insert(db: &mut SqliteConnection, made: &Calibration) -> Result<(), StoreError> {
    let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    sqlx::query(
        "insert into calibrations (at_ns, host, ceiling_per_s, start_lag_p50_us, start_lag_p99_us) values (?, ?, ?, ?, ?)",
    )
    .bind(made.at_ns)
    .bind(&made.host)
    .bind(whole(made.ceiling_per_s))
    .bind(whole(made.start_lag_p50_us))
    .bind(whole(made.start_lag_p99_us))
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// The newest measurement of a machine.
///
/// # Errors
/// When the database cannot be read.
pub async fn newest(db: &mut SqliteConnection, host: &str) -> Result<Option<Calibration>, StoreError> {
    let row = sqlx::query("select * from calibrations where host = ? order by at_ns desc limit 1")
        .bind(host)
        .fetch_optional(&mut *db)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let whole = |name: &str| Ok::<_, sqlx::Error>(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or(0));
    Ok(Some(Calibration {
        at_ns: row.try_get("at_ns")?,
        host: row.try_get("host")?,
        ceiling_per_s: whole("ceiling_per_s")?,
        start_lag_p50_us: whole("start_lag_p50_us")?,
        start_lag_p99_us: whole("start_lag_p99_us")?,
    }))
}
