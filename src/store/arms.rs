//! `arms`: what each arm of a run ran on.

use std::collections::BTreeMap;

use sqlx::{Row, SqliteConnection};

use super::{
    StoreError,
    error::{from_json, to_json},
};
use crate::model::{Inventory, RunId};

/// What the target of one arm is.
///
/// # Errors
/// When the database cannot be written.
pub async fn insert(db: &mut SqliteConnection, run: RunId, arm: u32, inventory: &Inventory) -> Result<(), StoreError> {
    sqlx::query("insert or replace into arms (run_id, arm, inventory) values (?, ?, ?)")
        .bind(run.to_string())
        .bind(arm)
        .bind(to_json("an inventory", inventory)?)
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// What the arms of a run ran on, by their numbers.
///
/// # Errors
/// When the database cannot be read.
pub async fn of(db: &mut SqliteConnection, run: RunId) -> Result<BTreeMap<u32, Inventory>, StoreError> {
    let rows = sqlx::query("select arm, inventory from arms where run_id = ? order by arm")
        .bind(run.to_string())
        .fetch_all(&mut *db)
        .await?;
    rows.iter()
        .map(|row| {
            let inventory: String = row.try_get("inventory")?;
            Ok((row.try_get("arm")?, from_json("an inventory", &inventory)?))
        })
        .collect()
}
