//! Campaigns: ask for one, list them, look at one.

use axum::{
    Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{TAG, scenarios};
use crate::{
    model::CampaignId,
    runs::{AskedBy, SubmitError},
    scenario::{Campaign, Faults},
    store::CampaignDetail,
    web::{
        AppState,
        error::{Error, Problem},
    },
};

/// Campaigns, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct CampaignList {
    campaigns: Vec<CampaignDetail>,
}

/// Asks for a campaign. Scenarios are named as files of the server's folder, or stand in it as `text`.
#[utoipa::path(
    post,
    path = "/campaigns",
    tag = TAG,
    request_body(description = "the campaign as TOML", content((String = "application/toml"), (String = "text/plain"))),
    responses(
        (status = 202, body = CampaignDetail, headers(("Location" = String, description = "the campaign"))),
        (status = 400, content_type = "application/problem+json", body = Problem),
        (status = 413, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn create(State(state): State<AppState>, text: String) -> Result<Response, Error> {
    let campaign = parse(&state, &text).await.map_err(Error::Scenario)?;
    let id = begin(&state, &campaign, AskedBy::Api).await?;
    let detail = state.store.campaign(id).await?.ok_or_else(|| none(id))?;
    let location = [(header::LOCATION, format!("/api/v1/campaigns/{id}"))];
    Ok((StatusCode::ACCEPTED, location, Json(detail)).into_response())
}

/// Lists campaigns, newest first.
#[utoipa::path(get, path = "/campaigns", tag = TAG, responses((status = 200, body = CampaignList)))]
pub async fn list(State(state): State<AppState>) -> Result<Json<CampaignList>, Error> {
    Ok(Json(CampaignList { campaigns: state.store.campaigns().await? }))
}

/// One campaign with what has become of its parts.
#[utoipa::path(
    get,
    path = "/campaigns/{id}",
    tag = TAG,
    params(("id" = String, Path, description = "the campaign")),
    responses(
        (status = 200, body = CampaignDetail),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn read(State(state): State<AppState>, Path(id): Path<String>) -> Result<Json<CampaignDetail>, Error> {
    let known: CampaignId = id.parse().map_err(|_source| none(&id))?;
    state.store.campaign(known).await?.map(Json).ok_or_else(|| none(&id))
}

fn none(id: impl std::fmt::Display) -> Error {
    Error::NotFound(format!("there is no campaign {id}"))
}

/// Reads a campaign; its scenarios are files of the server's folder.
pub(in crate::web) async fn parse(state: &AppState, text: &str) -> Result<Campaign, Faults> {
    let folder = &state.config.server.scenarios;
    let mut files = Vec::new();
    for name in scenarios::names(folder).await {
        if let Ok(text) = scenarios::read(folder, &name).await {
            files.push((name, text));
        }
    }
    let open = |path: &str| {
        // Only the name counts: nothing of a request becomes a path.
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".toml");
        let found = files.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone());
        let names: Vec<&str> = files.iter().map(|(known, _)| known.as_str()).collect();
        found.ok_or_else(|| format!("the server's folder does not have; there are: {}", names.join(", ")))
    };
    Campaign::parse(text, &open)
}

/// Stores a campaign and takes it on in the background.
pub(in crate::web) async fn begin(
    state: &AppState,
    campaign: &Campaign,
    by: AskedBy,
) -> Result<CampaignId, SubmitError> {
    let id = state.runs.begin_campaign(campaign, by).await?;
    state.runs.drive_campaign(id);
    Ok(id)
}
