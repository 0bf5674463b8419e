//! Pages for people. A page is a file: what it shows (a pure `view`), its template, its handlers.
//! Every page is complete without JavaScript.

pub mod campaigns;
pub mod error;
pub mod files;
pub mod part;
pub mod run;
mod run_live;
mod run_result;
pub mod runs;
pub mod scenarios;
pub mod targets;

use askama::Template;
use axum::{
    Router,
    http::{HeaderValue, header},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use tower_http::set_header::SetResponseHeaderLayer;

use super::{AppState, assets};
pub use error::PageError;

/// Scripts, styles and connections of this server only; nothing inline, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// All pages and their assets.
pub fn router() -> Router<AppState> {
    let pages = Router::new()
        .route("/", get(async || Redirect::to("/runs")))
        .route("/runs", get(runs::page).post(scenarios::submit))
        .route("/runs/{id}", get(run::page))
        .route("/runs/{id}/cancel", post(run::cancel))
        .route("/runs/{id}/tables/{file}", get(files::table))
        .route("/runs/{id}/charts/{file}", get(files::chart))
        .route("/campaigns", get(campaigns::list).post(campaigns::submit))
        .route("/campaigns/{id}", get(campaigns::page))
        .route("/scenarios", get(scenarios::page))
        .route("/targets", get(targets::page))
        .merge(assets::router());
    guard(pages)
}

/// Tells browsers what pages may do.
pub fn guard<S: Clone + Send + Sync + 'static>(pages: Router<S>) -> Router<S> {
    pages
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ))
        .layer(SetResponseHeaderLayer::if_not_present(header::REFERRER_POLICY, HeaderValue::from_static("same-origin")))
}

/// A page of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NavEntry {
    pub path: &'static str,
    pub label: &'static str,
}

/// The pages that exist.
pub const NAV: &[NavEntry] = &[
    NavEntry { path: "/runs", label: "Runs" },
    NavEntry { path: "/scenarios", label: "Scenarios" },
    NavEntry { path: "/campaigns", label: "Campaigns" },
    NavEntry { path: "/targets", label: "Targets" },
];

/// What stands around every page.
#[derive(Debug, Clone)]
pub struct Shell {
    pub title: String,
    /// The path of the navigation entry to which the page belongs.
    pub here: &'static str,
    /// Seconds after which a browser without JavaScript loads the page again.
    pub refresh: Option<u32>,
    /// Whether the page has charts that a script may take over.
    pub charts: bool,
}

impl Shell {
    #[must_use]
    pub fn new(title: impl Into<String>, here: &'static str) -> Self {
        Self { title: title.into(), here, refresh: None, charts: false }
    }
}

/// A rendered template, or the error page.
pub fn html(template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => ([(header::CACHE_CONTROL, "no-store")], Html(text)).into_response(),
        Err(source) => PageError::Template(source).into_response(),
    }
}
