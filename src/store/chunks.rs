//! `series` and `chunks`: readings as compressed parts, not a row a reading.

use std::collections::BTreeMap;

use pco::{ChunkConfig, standalone};
use sqlx::{Row, SqliteConnection};

use super::{
    Series, StoreError,
    error::{count, integer},
};
use crate::model::{RunId, Sample, metric};

/// The last part of a live series grows by rewriting until it has this many readings: few rows, little rewriting.
const LIVE_READINGS: usize = 1_024;
/// The parts of a run that is over have up to this many readings (three days at one a second).
const LONG_READINGS: usize = 262_144;

/// Appends readings of one arm to their series.
///
/// # Errors
/// When the database cannot be written.
pub async fn append(db: &mut SqliteConnection, run: RunId, arm: u32, samples: &[Sample]) -> Result<(), StoreError> {
    let mut by_series: BTreeMap<(&str, &str), Vec<(i64, f64)>> = BTreeMap::new();
    for Sample { at_ns, node, metric, value } in samples {
        by_series.entry((node, metric)).or_default().push((*at_ns, *value));
    }
    for ((node, metric), points) in by_series {
        let series = series_id(db, run, arm, node, metric).await?;
        extend(db, series, points).await?;
    }
    Ok(())
}

async fn series_id(db: &mut SqliteConnection, run: RunId, arm: u32, node: &str, name: &str) -> Result<i64, StoreError> {
    let row = sqlx::query(
        "insert into series (run_id, arm, node, metric, unit) values (?, ?, ?, ?, ?)
         on conflict (run_id, arm, node, metric) do update set unit = unit
         returning id",
    )
    .bind(run.to_string())
    .bind(arm)
    .bind(node)
    .bind(name)
    .bind(metric::find(name).map_or("", |metric| metric.unit))
    .fetch_one(&mut *db)
    .await?;
    Ok(row.try_get("id")?)
}

/// Adds points behind the last part, or to it while it is short.
async fn extend(db: &mut SqliteConnection, series: i64, points: Vec<(i64, f64)>) -> Result<(), StoreError> {
    let last =
        sqlx::query("select part, readings, at_ns, value from chunks where series_id = ? order by part desc limit 1")
            .bind(series)
            .fetch_optional(&mut *db)
            .await?;
    let Some(last) = last else { return put(db, series, 0, &points).await };
    let part: i64 = last.try_get("part")?;
    let readings: usize = count("a count", last.try_get("readings")?)?;
    if readings.saturating_add(points.len()) > LIVE_READINGS {
        return put(db, series, part + 1, &points).await;
    }
    let mut grown = unpack(last.try_get("at_ns")?, last.try_get("value")?)?;
    grown.extend(points);
    put(db, series, part, &grown).await
}

async fn put(db: &mut SqliteConnection, series: i64, part: i64, points: &[(i64, f64)]) -> Result<(), StoreError> {
    let (Some(first), Some(last)) =
        (points.iter().map(|point| point.0).min(), points.iter().map(|point| point.0).max())
    else {
        return Ok(());
    };
    let (at_ns, value) = pack(points)?;
    sqlx::query(
        "insert or replace into chunks (series_id, part, from_ns, until_ns, readings, at_ns, value)
         values (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(series)
    .bind(part)
    .bind(first)
    .bind(last)
    .bind(integer("a count", points.len() as u64)?)
    .bind(at_ns)
    .bind(value)
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// Makes long parts of the short ones of a run that is over.
///
/// # Errors
/// When the database cannot be written.
pub async fn merge(db: &mut SqliteConnection, run: RunId) -> Result<(), StoreError> {
    let ids = sqlx::query(
        "select s.id from series s join chunks c on c.series_id = s.id
         where s.run_id = ? group by s.id having count(*) > 1",
    )
    .bind(run.to_string())
    .fetch_all(&mut *db)
    .await?;
    for id in &ids {
        let series: i64 = id.try_get("id")?;
        let mut points = points(db, series).await?;
        points.sort_by_key(|point| point.0);
        sqlx::query("delete from chunks where series_id = ?").bind(series).execute(&mut *db).await?;
        for (part, points) in (0_i64..).zip(points.chunks(LONG_READINGS)) {
            put(db, series, part, points).await?;
        }
    }
    Ok(())
}

/// Series of one run, whole, by arm, node and metric; of the named metrics, all when none is named.
///
/// # Errors
/// When the database cannot be read.
pub async fn series(db: &mut SqliteConnection, run: RunId, metrics: &[&str]) -> Result<Vec<Series>, StoreError> {
    let rows =
        sqlx::query("select id, arm, node, metric, unit from series where run_id = ? order by arm, node, metric")
            .bind(run.to_string())
            .fetch_all(&mut *db)
            .await?;
    let mut all = Vec::new();
    for row in &rows {
        let metric: String = row.try_get("metric")?;
        if !metrics.is_empty() && !metrics.contains(&metric.as_str()) {
            continue;
        }
        let mut points = points(db, row.try_get("id")?).await?;
        points.sort_by_key(|point| point.0);
        all.push(Series {
            arm: row.try_get("arm")?,
            node: row.try_get("node")?,
            metric,
            unit: row.try_get("unit")?,
            points,
        });
    }
    Ok(all)
}

async fn points(db: &mut SqliteConnection, series: i64) -> Result<Vec<(i64, f64)>, StoreError> {
    let rows = sqlx::query("select at_ns, value from chunks where series_id = ? order by part")
        .bind(series)
        .fetch_all(&mut *db)
        .await?;
    let mut all = Vec::new();
    for row in &rows {
        all.extend(unpack(row.try_get("at_ns")?, row.try_get("value")?)?);
    }
    Ok(all)
}

/// Times and values as two compressed blobs.
fn pack(points: &[(i64, f64)]) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
    let (times, values): (Vec<i64>, Vec<f64>) = points.iter().copied().unzip();
    let config = ChunkConfig::default();
    let failed = |cause: pco::errors::PcoError| StoreError::Unstorable { what: "a series", cause: cause.to_string() };
    let times = standalone::simple_compress(&times, &config).map_err(failed)?;
    let values = standalone::simple_compress(&values, &config).map_err(failed)?;
    Ok((times, values))
}

/// The points of two blobs of [`pack`].
fn unpack(times: &[u8], values: &[u8]) -> Result<Vec<(i64, f64)>, StoreError> {
    let damaged = |cause: String| StoreError::Damaged { what: "a series", cause };
    let times: Vec<i64> = standalone::simple_decompress(times).map_err(|cause| damaged(cause.to_string()))?;
    let values: Vec<f64> = standalone::simple_decompress(values).map_err(|cause| damaged(cause.to_string()))?;
    if times.len() != values.len() {
        return Err(damaged(format!("{} times, {} values", times.len(), values.len())));
    }
    Ok(times.into_iter().zip(values).collect())
}

/// Keeps the lowest and the highest reading of each of `max_points / 2` equal spans of time, so that a spike stays
/// visible however far one looks. Points must be in time order; all are kept when they are few enough.
#[must_use]
pub fn thin(points: Vec<(i64, f64)>, max_points: usize) -> Vec<(i64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return points };
    if points.len() <= max_points {
        return points;
    }
    let spans = (max_points / 2).max(1) as u128;
    let start = i128::from(first.0);
    // One more than the distance, so that the last point falls into the last span.
    let length = i128::from(last.0).abs_diff(start) + 1;
    let span_of = |at_ns: i64| i128::from(at_ns).abs_diff(start) * spans / length;
    points
        .chunk_by(|left, right| span_of(left.0) == span_of(right.0))
        .flat_map(|span| {
            let numbers = || span.iter().filter(|point| !point.1.is_nan());
            let low = numbers().min_by(|a, b| a.1.total_cmp(&b.1));
            let high = numbers().max_by(|a, b| a.1.total_cmp(&b.1));
            match (low, high) {
                (Some(low), Some(high)) if low == high => vec![*low],
                (Some(low), Some(high)) if low.0 <= high.0 => vec![*low, *high],
                (Some(low), Some(high)) => vec![*high, *low],
                _ => Vec::new(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bits(points: &[(i64, f64)]) -> Vec<(i64, u64)> {
        points.iter().map(|point| (point.0, point.1.to_bits())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn packing_keeps_every_bit(points: Vec<(i64, u64)>) {
            let points: Vec<_> = points.into_iter().map(|(at, bits)| (at, f64::from_bits(bits))).collect();
            let (times, values) = pack(&points).unwrap();
            prop_assert_eq!(bits(&unpack(&times, &values).unwrap()), bits(&points));
        }

        #[test]
        fn thinning_keeps_order_bound_and_extremes(mut points: Vec<(i64, i32)>, max in 2_usize..50) {
            points.sort_unstable();
            let points: Vec<_> = points.into_iter().map(|(at, value)| (at, f64::from(value))).collect();
            let thinned = thin(points.clone(), max);
            prop_assert!(thinned.len() <= max);
            prop_assert!(thinned.is_sorted_by_key(|point| point.0));
            prop_assert!(thinned.iter().all(|point| points.contains(point)));
            let extremes = |points: &[(i64, f64)]| {
                (points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min), points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max))
            };
            prop_assert_eq!(extremes(&thinned), extremes(&points));
        }
    }
}
