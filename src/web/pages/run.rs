//! One run: live while it goes on, its result afterwards. The page and its handlers.

use askama::Template;
use axum::{
    extract::{Path, State},
    http::HeaderMap,
    response::{Html, IntoResponse, Redirect, Response},
};

use super::{PageError, html};
pub use super::{run_live::LivePage, run_result::ResultPage};
use crate::{
    model::{Clock, RunId},
    runs::Cancelled,
    store::{RunDetail, Series},
    web::{AppState, charts},
};

/// How many points of each series a drawn chart is made from.
pub(super) const POINTS: usize = 900;

/// A run's page.
#[derive(Debug)]
pub enum RunPage {
    Live(Box<LivePage>),
    Result(Box<ResultPage>),
}

/// The page of a run as it stands.
#[must_use]
pub fn view(detail: &RunDetail, series: &[Series], now_ns: i64) -> RunPage {
    if detail.run.state.is_over() {
        RunPage::Result(Box::new(super::run_result::view(detail, series, now_ns)))
    } else {
        RunPage::Live(Box::new(super::run_live::view(detail, series, now_ns)))
    }
}

impl RunPage {
    /// The whole page, or only its middle, for a script that replaces parts of it.
    #[must_use]
    pub fn respond(&self, part: bool) -> Response {
        let middle = |drawn: askama::Result<String>| match drawn {
            Ok(text) => Html(text).into_response(),
            Err(source) => PageError::Template(source).into_response(),
        };
        match (self, part) {
            (Self::Live(page), false) => html(page.as_ref()),
            (Self::Result(page), false) => html(page.as_ref()),
            (Self::Live(page), true) => middle(page.as_middle().render()),
            (Self::Result(page), true) => middle(page.as_middle().render()),
        }
    }
}

/// A run with the series of some metrics.
pub(super) async fn fetch(
    state: &AppState,
    id: &str,
    metrics: &[&str],
    points: usize,
) -> Result<(RunDetail, Vec<Series>), PageError> {
    let missing = || PageError::NotFound(format!("run {id:?}"));
    let run: RunId = parse(id)?;
    let detail = state.store.detail(run).await?.ok_or_else(missing)?;
    let series = state.store.series(run, metrics, points).await?;
    Ok((detail, series))
}

fn parse(id: &str) -> Result<RunId, PageError> {
    id.parse().map_err(|why| PageError::NotFound(format!("run {id:?}: not the id of a run ({why})")))
}

pub(super) async fn page(
    State(state): State<AppState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let (detail, series) = fetch(&state, &id, &charts::metrics(), POINTS).await?;
    Ok(view(&detail, &series, Clock::start().now_ns()).respond(headers.contains_key("x-part")))
}

pub(super) async fn cancel(State(state): State<AppState>, Path(id): Path<String>) -> Result<Response, PageError> {
    let run = parse(&id)?;
    match state.runs.cancel(run).await? {
        Cancelled::NeverBegan | Cancelled::Stopping => Ok(Redirect::to(&format!("/runs/{run}")).into_response()),
        Cancelled::Over => Err(PageError::Refused("this run is over already: there is nothing to stop".to_owned())),
        Cancelled::Unknown => Err(PageError::NotFound(format!("run {id:?}"))),
    }
}
