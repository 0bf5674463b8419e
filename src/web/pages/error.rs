//! The page that says what was wrong, where, and what is allowed.

use askama::Template;
use axum::{
    http::StatusCode,
    response::{Html, IntoResponse, Response},
};

use super::Shell;
use crate::store::StoreError;

/// Why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// What was asked for and does not exist.
    #[error("there is no {0}")]
    NotFound(String),
    /// What the request said that is not allowed, and what is.
    #[error("{0}")]
    BadRequest(String),
    #[error("the database could not be read")]
    Store(#[from] StoreError),
    #[error("the page could not be drawn")]
    Template(#[source] askama::Error),
    /// What could not be started or stopped.
    #[error("{0}")]
    Refused(String),
}

/// The error page.
#[derive(Debug, Template)]
#[template(path = "error.html")]
pub struct ErrorPage {
    pub shell: Shell,
    pub status: u16,
    pub heading: &'static str,
    pub sentence: String,
}

/// The page of an error, without its cause: that stands in the log.
#[must_use]
pub fn view(error: &PageError) -> ErrorPage {
    let (status, heading) = status(error);
    page(status, heading, &error.to_string())
}

const fn status(error: &PageError) -> (StatusCode, &'static str) {
    match error {
        PageError::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
        PageError::BadRequest(_) => (StatusCode::BAD_REQUEST, "Not understood"),
        PageError::Refused(_) => (StatusCode::CONFLICT, "Not possible now"),
        PageError::Store(StoreError::Full) => (StatusCode::INSUFFICIENT_STORAGE, "The store is full"),
        PageError::Store(_) | PageError::Template(_) => (StatusCode::INTERNAL_SERVER_ERROR, "This failed"),
    }
}

fn page(status: StatusCode, heading: &'static str, text: &str) -> ErrorPage {
    let mut signs = text.chars();
    let mut sentence: String =
        signs.next().map(|first| first.to_uppercase().chain(signs).collect()).unwrap_or_default();
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    ErrorPage { shell: Shell::new(heading, ""), status: status.as_u16(), heading, sentence }
}

/// An answer with the error page, for what happens outside of pages.
#[must_use]
pub fn respond(status: StatusCode, heading: &'static str, text: &str) -> Response {
    let page = page(status, heading, text);
    (status, Html(page.render().unwrap_or(page.sentence))).into_response()
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        if let Self::Store(_) | Self::Template(_) = &self {
            let cause = std::error::Error::source(&self).map(ToString::to_string).unwrap_or_default();
            tracing::error!(error = %self, cause, "a page could not be shown: {self}");
        }
        let (status, heading) = status(&self);
        respond(status, heading, &self.to_string())
    }
}
