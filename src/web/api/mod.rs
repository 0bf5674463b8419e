//! The API under `/api/v1`, for programs and CI. Its description is made from the handlers themselves.

pub mod campaigns;
pub mod compare;
pub mod data;
pub mod runs;
pub mod scenarios;
pub mod targets;

use axum::{
    Json, Router,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{AppState, error::Error, sse};

/// Groups all operations in the description.
pub(super) const TAG: &str = "rampart";

#[derive(OpenApi)]
#[openapi(info(
    title = "Rampart",
    description = "How much a cluster can carry, what stops it, and whether that has changed. Loads are in the unit of \
                   the run's axis; `_ns` are absolute nanoseconds since the Unix epoch; shares are 0..1. Errors are \
                   problem documents (RFC 9457) that name the field."
))]
struct Description;

/// All operations with their description.
fn described() -> OpenApiRouter<AppState> {
    let v1 = OpenApiRouter::new()
        .routes(routes!(runs::create, runs::list))
        .routes(routes!(runs::read))
        .routes(routes!(runs::cancel))
        .routes(routes!(sse::events))
        .routes(routes!(data::steps))
        .routes(routes!(data::samples))
        .routes(routes!(data::histograms))
        .routes(routes!(data::verdict))
        .routes(routes!(compare::compare))
        .routes(routes!(campaigns::create, campaigns::list))
        .routes(routes!(campaigns::read))
        .routes(routes!(scenarios::list))
        .routes(routes!(scenarios::check))
        .routes(routes!(targets::list));
    OpenApiRouter::with_openapi(Description::openapi()).routes(routes!(healthz)).nest("/api/v1", v1)
}

/// The API and its description at `/api/v1/openapi.json`.
pub fn router() -> Router<AppState> {
    let (router, description) = described().split_for_parts();
    router.route("/api/v1/openapi.json", get(async move || Json(description)))
}

/// Whether the server and its store answer.
#[utoipa::path(get, path = "/healthz", tag = TAG, responses((status = 200, body = String)))]
async fn healthz(State(state): State<AppState>) -> Result<Response, Error> {
    state.store.ping().await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], "ok").into_response())
}
