//! What a run measured: steps, samples, histograms, verdict.

#![expect(unused_qualifications, reason = "utoipa writes them where a handler names its query")]

use axum::{Json, extract::State};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::TAG;
use crate::{
    model::{HistogramRecord, RunId, Trial, Verdict, metric},
    store::{HistogramRow, RunRow, Series},
    web::{
        AppState,
        error::{Error, Problem},
        extract::{Parameters, RunInPath},
    },
};

const POINTS_DEFAULT: usize = 1_000;
const POINTS_MOST: usize = 100_000;

async fn known(state: &AppState, id: RunId) -> Result<RunRow, Error> {
    state.store.row(id).await?.ok_or_else(|| Error::no_run(id))
}

/// The trials of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct Steps {
    /// In the order in which they were measured; void and repeated ones too.
    trials: Vec<Trial>,
}

/// Trials measured so far, in order.
#[utoipa::path(
    get,
    path = "/runs/{id}/steps",
    tag = TAG,
    params(("id" = String, Path, description = "the run")),
    responses(
        (status = 200, body = Steps),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn steps(State(state): State<AppState>, RunInPath(id): RunInPath) -> Result<Json<Steps>, Error> {
    known(&state, id).await?;
    Ok(Json(Steps { trials: state.store.trials(id).await? }))
}

/// Which series.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SamplesQuery {
    /// Metric names, separated by commas; all when absent.
    metric: Option<String>,
    /// About how many points each series has at most, 2 to 100,000; 1,000 when absent. The lowest and the highest
    /// reading of each span are kept.
    max_points: Option<usize>,
}

/// Series of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct Samples {
    series: Vec<Series>,
}

/// Readings as series, thinned.
#[utoipa::path(
    get,
    path = "/runs/{id}/samples",
    tag = TAG,
    params(("id" = String, Path, description = "the run"), SamplesQuery),
    responses(
        (status = 200, body = Samples),
        (status = 400, content_type = "application/problem+json", body = Problem),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn samples(
    State(state): State<AppState>,
    RunInPath(id): RunInPath,
    Parameters(query): Parameters<SamplesQuery>,
) -> Result<Json<Samples>, Error> {
    let max_points = query.max_points.unwrap_or(POINTS_DEFAULT);
    if !(2..=POINTS_MOST).contains(&max_points) {
        return Err(Error::field("max_points", format!("{max_points} is not between 2 and {POINTS_MOST}")));
    }
    let names = query.metric.unwrap_or_default();
    let metrics: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = metrics.iter().find(|name| metric::find(name).is_none()) {
        let all: Vec<&str> = metric::METRICS.iter().map(|metric| metric.name).collect();
        return Err(Error::field("metric", format!("there is no metric {unknown:?}; there are {}", all.join(", "))));
    }
    known(&state, id).await?;
    Ok(Json(Samples { series: state.store.series(id, &metrics, max_points).await? }))
}

/// Which histograms.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct HistogramsQuery {
    /// Only of this step.
    step: Option<u32>,
    /// With the histograms themselves; `step` must be given then.
    #[serde(default)]
    contents: bool,
}

/// One histogram.
#[derive(Debug, Serialize, ToSchema)]
pub struct HistogramEntry {
    #[serde(flatten)]
    key: HistogramRow,
    /// HdrHistogram V2 with deflate, of microseconds, as its own tools read it.
    v2_deflate_base64: Option<String>,
}

/// Histograms of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct Histograms {
    histograms: Vec<HistogramEntry>,
}

/// Latency histograms: which there are, and of one step their contents.
#[utoipa::path(
    get,
    path = "/runs/{id}/histograms",
    tag = TAG,
    params(("id" = String, Path, description = "the run"), HistogramsQuery),
    responses(
        (status = 200, body = Histograms),
        (status = 400, content_type = "application/problem+json", body = Problem),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn histograms(
    State(state): State<AppState>,
    RunInPath(id): RunInPath,
    Parameters(query): Parameters<HistogramsQuery>,
) -> Result<Json<Histograms>, Error> {
    known(&state, id).await?;
    let histograms = match (query.contents, query.step) {
        (false, step) => {
            let keys = state.store.histogram_list(id, step).await?;
            keys.into_iter().map(|key| HistogramEntry { key, v2_deflate_base64: None }).collect()
        }
        (true, Some(step)) => state.store.histograms(id, step).await?.into_iter().map(whole).collect(),
        (true, None) => return Err(Error::field("step", "contents are given for one step at a time: name it")),
    };
    Ok(Json(Histograms { histograms }))
}

fn whole(record: HistogramRecord) -> HistogramEntry {
    let HistogramRecord { arm, step, trial, unit, node, stream, operation, outcome, clock, count, v2_deflate } = record;
    HistogramEntry {
        key: HistogramRow { arm, step, trial, unit, node, stream, operation, outcome, clock, count },
        v2_deflate_base64: Some(BASE64_STANDARD.encode(v2_deflate)),
    }
}

/// What the run found. 404 until it is over, and for good when the run was interrupted.
#[utoipa::path(
    get,
    path = "/runs/{id}/verdict",
    tag = TAG,
    params(("id" = String, Path, description = "the run")),
    responses(
        (status = 200, body = Verdict),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn verdict(State(state): State<AppState>, RunInPath(id): RunInPath) -> Result<Json<Verdict>, Error> {
    let row = known(&state, id).await?;
    if let Some(verdict) = state.store.verdict(id).await? {
        return Ok(Json(verdict));
    }
    Err(Error::NotFound(match row.sentence.filter(|_| row.state.is_over()) {
        Some(sentence) => format!("run {id} has no verdict: {sentence}"),
        None => format!("run {id} is {} and has no verdict yet", row.state.as_str()),
    }))
}
