//! Runs: ask for one, list them, look at one, end one.

#![expect(unused_qualifications, reason = "utoipa writes them where a handler names its query")]

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use utoipa::{IntoParams, ToSchema};

use super::TAG;
use crate::{
    model::RunId,
    runs::{AskedBy, Cancelled},
    store::{RunDetail, RunFilter, RunRow},
    web::{
        AppState,
        error::{Error, Problem},
        extract::{self, Parameters, RunInPath, ScenarioBody, ScenarioText},
    },
};

const LIST_DEFAULT: u32 = 50;
const LIST_MOST: u32 = 200;
const KEY_LONGEST: usize = 200;

/// Where to go on from a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct Links {
    #[serde(rename = "self")]
    this: String,
    events: String,
    verdict: String,
    cancel: String,
    html: String,
}

impl Links {
    fn of(id: RunId) -> Self {
        let this = format!("/api/v1/runs/{id}");
        Self {
            events: format!("{this}/events"),
            verdict: format!("{this}/verdict"),
            cancel: format!("{this}/cancel"),
            html: format!("/runs/{id}"),
            this,
        }
    }
}

/// A run that was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub struct Accepted {
    run: RunRow,
    /// True when the idempotency key was known: this is the run of the earlier request.
    existing: bool,
    links: Links,
}

/// One run with links.
#[derive(Debug, Serialize, ToSchema)]
pub struct OneRun {
    #[serde(flatten)]
    detail: RunDetail,
    links: Links,
}

/// How long to hold the answer.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Answers when the run is over, or after this time, such as `30s` (at most 5 minutes).
    wait: Option<String>,
}

/// Asks for a run of a scenario.
///
/// The same `Idempotency-Key` with the same scenario gives the same run; with another one it is refused.
#[utoipa::path(
    post,
    path = "/runs",
    tag = TAG,
    params(Wait, ("Idempotency-Key" = Option<String>, Header, description = "makes a repeated request count once")),
    request_body(
        description = "the scenario as TOML, or JSON with the scenario or its name",
        content((String = "application/toml"), (String = "text/plain"), (ScenarioBody = "application/json")),
    ),
    responses(
        (status = 202, body = Accepted, headers(("Location" = String, description = "the run"))),
        (status = 400, content_type = "application/problem+json", body = Problem),
        (status = 413, content_type = "application/problem+json", body = Problem),
        (status = 415, content_type = "application/problem+json", body = Problem),
        (status = 422, content_type = "application/problem+json", body = Problem),
        (status = 507, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn create(
    State(state): State<AppState>,
    Parameters(query): Parameters<Wait>,
    headers: HeaderMap,
    ScenarioText(text): ScenarioText,
) -> Result<Response, Error> {
    let wait = extract::wait(query.wait.as_deref())?;
    let key = headers.get("idempotency-key").map(idempotency_key).transpose()?;
    let submitted = state.runs.submit(&text, AskedBy::Api, key).await?;
    until_over(&state, submitted.id, wait).await;
    let run = state.store.row(submitted.id).await?.ok_or_else(|| Error::no_run(submitted.id))?;
    let links = Links::of(submitted.id);
    let location = [(header::LOCATION, links.this.clone())];
    Ok((StatusCode::ACCEPTED, location, Json(Accepted { run, existing: submitted.existing, links })).into_response())
}

fn idempotency_key(value: &header::HeaderValue) -> Result<&str, Error> {
    let text = value.to_str().unwrap_or("");
    if text.is_empty() || text.len() > KEY_LONGEST {
        return Err(Error::field("Idempotency-Key", format!("it must have 1 to {KEY_LONGEST} ASCII characters")));
    }
    Ok(text)
}

/// Which runs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// Part of the scenario's or the target's name.
    text: Option<String>,
    /// `queued`, `running`, `finished` or `interrupted`.
    state: Option<String>,
    /// Such as `capacity_found`.
    status: Option<String>,
    /// Only runs made before this one: `next` of the page before.
    before: Option<String>,
    /// At most this many, 1 to 200; 50 when absent.
    limit: Option<u32>,
}

/// One page of runs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunList {
    runs: Vec<RunRow>,
    /// What `before` must be for the next page; absent on the last.
    #[schema(value_type = Option<String>)]
    next: Option<RunId>,
}

/// Lists runs, newest first.
#[utoipa::path(
    get,
    path = "/runs",
    tag = TAG,
    params(ListQuery),
    responses(
        (status = 200, body = RunList),
        (status = 400, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn list(
    State(state): State<AppState>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Json<RunList>, Error> {
    let limit = query.limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MOST).contains(&limit) {
        return Err(Error::field("limit", format!("{limit} is not between 1 and {LIST_MOST}")));
    }
    let filter = RunFilter {
        text: query.text.filter(|text| !text.is_empty()),
        state: parsed("state", query.state.as_deref())?,
        status: parsed("status", query.status.as_deref())?,
        before: parsed("before", query.before.as_deref())?,
        // One more than shown tells whether there is a next page.
        limit: limit + 1,
    };
    let mut runs = state.store.list(&filter).await?;
    let more = runs.len() > limit as usize;
    runs.truncate(limit as usize);
    let next = runs.last().filter(|_| more).map(|run| run.id);
    Ok(Json(RunList { runs, next }))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(field: &str, text: Option<&str>) -> Result<Option<T>, Error> {
    text.map(|text| text.parse().map_err(|error: T::Err| Error::field(field, error.to_string()))).transpose()
}

/// One run whole, without its series.
#[utoipa::path(
    get,
    path = "/runs/{id}",
    tag = TAG,
    params(("id" = String, Path, description = "the run"), Wait),
    responses(
        (status = 200, body = OneRun),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn read(
    State(state): State<AppState>,
    RunInPath(id): RunInPath,
    Parameters(query): Parameters<Wait>,
) -> Result<Json<OneRun>, Error> {
    until_over(&state, id, extract::wait(query.wait.as_deref())?).await;
    let detail = state.store.detail(id).await?.ok_or_else(|| Error::no_run(id))?;
    Ok(Json(OneRun { detail, links: Links::of(id) }))
}

/// What cancelling came to.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelAnswer {
    run: RunRow,
    /// True when it still takes its load away; its verdict follows.
    stopping: bool,
    links: Links,
}

/// Ends a run. Calling it again changes nothing.
#[utoipa::path(
    post,
    path = "/runs/{id}/cancel",
    tag = TAG,
    params(("id" = String, Path, description = "the run")),
    responses(
        (status = 200, body = CancelAnswer, description = "it is over"),
        (status = 202, body = CancelAnswer, description = "it takes its load away"),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn cancel(State(state): State<AppState>, RunInPath(id): RunInPath) -> Result<Response, Error> {
    let stopping = match state.runs.cancel(id).await? {
        Cancelled::Unknown => return Err(Error::no_run(id)),
        Cancelled::Stopping => true,
        Cancelled::NeverBegan | Cancelled::Over => false,
    };
    let run = state.store.row(id).await?.ok_or_else(|| Error::no_run(id))?;
    let status = if stopping { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(CancelAnswer { run, stopping, links: Links::of(id) })).into_response())
}

/// Waits for the end of a run, of the server, or of the time.
async fn until_over(state: &AppState, id: RunId, wait: Duration) {
    if wait.is_zero() {
        return;
    }
    let Some(mut events) = state.runs.follow(id) else { return };
    let over = async { while !matches!(events.recv().await, Err(RecvError::Closed)) {} };
    // Either way the store says how it stands.
    let _ = tokio::time::timeout(wait, over).await;
}
