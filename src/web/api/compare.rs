//! Two runs beside each other.

use axum::{
    Json,
    extract::{Path, State},
};

use super::TAG;
use crate::{
    model::RunId,
    report::compare::{self, Comparison},
    store::RunDetail,
    web::{
        AppState,
        error::{Error, Problem},
    },
};

/// What differs between two runs, then the rates of both at each load. What keeps them from being compared is said.
#[utoipa::path(
    get,
    path = "/runs/{id}/compare/{other}",
    tag = TAG,
    params(
        ("id" = String, Path, description = "the run that the other is compared with"),
        ("other" = String, Path, description = "the other run"),
    ),
    responses(
        (status = 200, body = Comparison),
        (status = 400, content_type = "application/problem+json", body = Problem),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn compare(
    State(state): State<AppState>,
    Path((id, other)): Path<(String, String)>,
) -> Result<Json<Comparison>, Error> {
    let (before, after) = (whole(&state, &id).await?, whole(&state, &other).await?);
    compare::of(&before, &after).map(Json).map_err(|same| Error::field("other", same.to_string()))
}

async fn whole(state: &AppState, id: &str) -> Result<RunDetail, Error> {
    let Ok(run) = id.parse::<RunId>() else { return Err(Error::no_run(id)) };
    state.store.detail(run).await?.ok_or_else(|| Error::no_run(id))
}
