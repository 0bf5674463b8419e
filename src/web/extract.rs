//! Parameters and bodies, whose faults look like all others.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{StatusCode, header, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::ToSchema;

use super::{AppState, api::scenarios, error::Error};
use crate::model::RunId;

/// The longest that a request is held open for `?wait=`.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A run's id in the path. An id that is none names no run.
#[derive(Debug, Clone, Copy)]
pub struct RunInPath(pub RunId);

impl<S: Send + Sync> FromRequestParts<S> for RunInPath {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Error::NotFound(rejection.body_text()))?;
        let Ok(id) = text.parse() else { return Err(Error::no_run(text)) };
        Ok(Self(id))
    }
}

/// Parameters behind the `?`.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let Query(value) = Query::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Error::field("query", rejection.body_text()))?;
        Ok(Self(value))
    }
}

/// `?wait=30s`: how long to hold the answer for the end of a run.
///
/// # Errors
/// When it is no duration.
pub(super) fn wait(text: Option<&str>) -> Result<Duration, Error> {
    let Some(text) = text else { return Ok(Duration::ZERO) };
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|wait| Duration::try_from(wait).ok());
    parsed
        .map(|wait| wait.min(LONGEST_WAIT))
        .ok_or_else(|| Error::field("wait", format!("{text:?} is no duration; such as 30s or 2m, at most 5m")))
}

/// A scenario in a body: as TOML, or named in JSON.
#[derive(Debug, Clone)]
pub struct ScenarioText(pub String);

/// The JSON form of a scenario: exactly one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioBody {
    /// The scenario itself, TOML.
    scenario: Option<String>,
    /// The name of a file in the server's scenario folder, without `.toml`.
    scenario_name: Option<String>,
}

impl FromRequest<AppState> for ScenarioText {
    type Rejection = Error;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Error> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                Error::TooLarge
            } else {
                Error::field("body", rejection.body_text())
            }
        })?;
        match kind.as_str() {
            "application/toml" | "text/plain" => String::from_utf8(body.into())
                .map(Self)
                .map_err(|error| Error::field("body", format!("it is not UTF-8 ({error})"))),
            "application/json" => Self::from_json(&body, state).await,
            _ => Err(Error::MediaType(format!(
                "the content type {kind:?} is not understood; allowed: application/toml, text/plain, application/json"
            ))),
        }
    }
}

impl ScenarioText {
    async fn from_json(body: &[u8], state: &AppState) -> Result<Self, Error> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        let body: ScenarioBody = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| Error::field(&error.path().to_string(), error.inner().to_string()))?;
        match (body.scenario, body.scenario_name) {
            (Some(text), None) => Ok(Self(text)),
            (None, Some(name)) => scenarios::read(&state.config.server.scenarios, &name).await.map(Self),
            (Some(_), Some(_)) | (None, None) => {
                Err(Error::field("body", "give exactly one of scenario (its TOML) and scenario_name"))
            }
        }
    }
}
