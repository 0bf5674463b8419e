//! One error, two renderings: a problem document (RFC 9457) for programs, a small page for people. A cause is logged
//! once, here, and never sent.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use problem_details::ProblemDetails;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    runs::SubmitError,
    scenario::{Fault, Faults},
    store::StoreError,
};

/// Why a request is refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Says what was not found.
    #[error("{0}")]
    NotFound(String),
    /// Faults of a scenario.
    #[error("{} in the scenario", faults(.0.0.len()))]
    Scenario(Faults),
    /// Faults of the request itself; fields are parameters, headers or body fields.
    #[error("{} in the request", faults(.0.len()))]
    Request(Vec<Fault>),
    /// An idempotency key that was used for something else.
    #[error("{0}")]
    KeyReused(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("this path does not know the method {0}")]
    Method(String),
    #[error("the body is larger than {} bytes", super::BODY_LIMIT_BYTES)]
    TooLarge,
    #[error("{0}")]
    MediaType(String),
    #[error("the server is shutting down; a queued run can be asked for again after the restart")]
    Closing,
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn faults(count: usize) -> String {
    if count == 1 { "there is 1 fault".to_owned() } else { format!("there are {count} faults") }
}

/// A problem document, as the API describes it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Such as `/problems/scenario`; stable.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    /// What is wrong, by line and field; empty where that does not apply.
    pub errors: Vec<Fault>,
}

#[derive(Debug, Serialize)]
struct Extension {
    errors: Vec<Fault>,
}

impl Error {
    /// A fault of one parameter, header or body field.
    #[must_use]
    pub fn field(field: &str, message: impl Into<String>) -> Self {
        Self::Request(vec![Fault { line: None, field: field.to_owned(), message: message.into() }])
    }

    /// There is no run of that id.
    #[must_use]
    pub fn no_run(id: impl std::fmt::Display) -> Self {
        Self::NotFound(format!("there is no run {id}"))
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Scenario(_) | Self::Request(_) => StatusCode::BAD_REQUEST,
            Self::KeyReused(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Closing => StatusCode::SERVICE_UNAVAILABLE,
            Self::Store(StoreError::Full) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    const fn kind_and_title(&self) -> (&'static str, &'static str) {
        match self {
            Self::NotFound(_) => ("/problems/not-found", "Not found"),
            Self::Scenario(_) => ("/problems/scenario", "The scenario cannot be run"),
            Self::Request(_) => ("/problems/request", "The request is not understood"),
            Self::KeyReused(_) => ("/problems/idempotency-key", "The idempotency key was used before"),
            Self::Forbidden(_) => ("/problems/forbidden", "Not allowed"),
            Self::Method(_) => ("/problems/method", "Method not allowed"),
            Self::TooLarge => ("/problems/too-large", "Too large"),
            Self::MediaType(_) => ("/problems/media-type", "Content type not understood"),
            Self::Closing => ("/problems/shutting-down", "Shutting down"),
            Self::Store(StoreError::Full) => ("/problems/store-full", "The store is full"),
            Self::Store(_) => ("/problems/internal", "The server failed"),
        }
    }

    /// For people: the error page.
    #[must_use]
    pub fn into_page(self) -> Response {
        let (status, (_, title), detail) = (self.status(), self.kind_and_title(), self.detail());
        super::pages::error::respond(status, title, &detail)
    }

    /// What is said of it outside: an internal cause stays in the log.
    fn detail(&self) -> String {
        match self {
            Self::Store(error) => {
                let source = std::error::Error::source(error).map(ToString::to_string);
                tracing::error!(%error, source, "a request failed: {error}");
                match error {
                    StoreError::Full => error.to_string(),
                    StoreError::Held { .. }
                    | StoreError::Open { .. }
                    | StoreError::Sql(_)
                    | StoreError::Damaged { .. }
                    | StoreError::Unstorable { .. } => "the log of the server tells more".to_owned(),
                }
            }
            Self::NotFound(_)
            | Self::Scenario(_)
            | Self::Request(_)
            | Self::KeyReused(_)
            | Self::Forbidden(_)
            | Self::Method(_)
            | Self::TooLarge
            | Self::MediaType(_)
            | Self::Closing => self.to_string(),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, (kind, title), detail) = (self.status(), self.kind_and_title(), self.detail());
        let errors = match self {
            Self::Scenario(Faults(errors)) | Self::Request(errors) => errors,
            Self::NotFound(_)
            | Self::KeyReused(_)
            | Self::Forbidden(_)
            | Self::Method(_)
            | Self::TooLarge
            | Self::MediaType(_)
            | Self::Closing
            | Self::Store(_) => Vec::new(),
        };
        let problem = ProblemDetails::from_status_code(status)
            .with_type(axum::http::Uri::from_static(kind))
            .with_title(title)
            .with_detail(detail)
            .with_extensions(Extension { errors });
        problem.into_response()
    }
}

impl From<SubmitError> for Error {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Faults(faults) => Self::Scenario(faults),
            conflict @ SubmitError::Conflict { .. } => Self::KeyReused(conflict.to_string()),
            SubmitError::Closing => Self::Closing,
            SubmitError::Store(error) => Self::Store(error),
        }
    }
}
