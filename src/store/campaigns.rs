//! `campaigns`: scenarios that follow one another, and how far each has come.

use sqlx::{Row, SqliteConnection};

use super::{
    StoreError,
    error::{from_json, integer, to_json, word},
    rows::{CampaignDetail, PartState},
};
use crate::{
    model::{CampaignId, RunId},
    scenario::Campaign,
};

/// How many are listed.
const LISTED: u32 = 200;

/// Stores a new campaign.
///
/// # Errors
/// When the database cannot be written.
pub async fn insert(
    db: &mut SqliteConnection,
    id: CampaignId,
    campaign: &Campaign,
    origin: &str,
    created_ns: i64,
) -> Result<(), StoreError> {
    sqlx::query("insert into campaigns (id, name, body, origin, created_ns) values (?, ?, ?, ?, ?)")
        .bind(id.to_string())
        .bind(&campaign.name)
        .bind(to_json("a campaign", campaign)?)
        .bind(origin)
        .bind(created_ns)
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// A part has its run, or cannot have one.
///
/// # Errors
/// When the database cannot be written.
pub async fn set_part(
    db: &mut SqliteConnection,
    id: CampaignId,
    part: usize,
    state: &PartState,
) -> Result<(), StoreError> {
    sqlx::query("insert or replace into campaign_parts (campaign_id, part, run_id, why) values (?, ?, ?, ?)")
        .bind(id.to_string())
        .bind(integer("a part's number", part as u64)?)
        .bind(state.run.map(|run| run.to_string()))
        .bind(&state.why)
        .execute(&mut *db)
        .await?;
    Ok(())
}

/// One campaign with what has become of its parts.
///
/// # Errors
/// When the database cannot be read.
pub async fn detail(db: &mut SqliteConnection, id: CampaignId) -> Result<Option<CampaignDetail>, StoreError> {
    let row = sqlx::query("select body, origin, created_ns from campaigns where id = ?")
        .bind(id.to_string())
        .fetch_optional(&mut *db)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let campaign: Campaign = from_json("a campaign", row.try_get("body")?)?;
    let mut parts = vec![PartState::default(); campaign.parts.len()];
    let rows = sqlx::query("select part, run_id, why from campaign_parts where campaign_id = ? order by part")
        .bind(id.to_string())
        .fetch_all(&mut *db)
        .await?;
    for row in rows {
        let part: i64 = row.try_get("part")?;
        let run: Option<String> = row.try_get("run_id")?;
        let run = run.map(|text| word::<RunId>("a run's id", &text)).transpose()?;
        if let Some(state) = usize::try_from(part).ok().and_then(|part| parts.get_mut(part)) {
            *state = PartState { run, why: row.try_get("why")? };
        }
    }
    let (origin, created_ns) = (row.try_get("origin")?, row.try_get("created_ns")?);
    Ok(Some(CampaignDetail { id, campaign, origin, created_ns, parts }))
}

/// Campaigns, newest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(db: &mut SqliteConnection) -> Result<Vec<CampaignDetail>, StoreError> {
    let rows =
        sqlx::query("select id from campaigns order by id desc limit ?").bind(LISTED).fetch_all(&mut *db).await?;
    let mut all = Vec::new();
    for row in rows {
        let id = word("a campaign's id", row.try_get("id")?)?;
        all.extend(detail(&mut *db, id).await?);
    }
    Ok(all)
}
