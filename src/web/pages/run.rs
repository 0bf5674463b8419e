//! One run: live while it goes on, its result afterwards. The page and its handlers.

use askama::Template;
use axum::{
    extract::{Path, Query, State},
    http::HeaderMap,
    response::{Html, IntoResponse, Redirect, Response},
};

use serde::Deserialize;

use super::{PageError, html};
pub use super::{run_arms::ArmsPage, run_live::LivePage, run_result::ResultPage};
use crate::{
    model::{Arm, Clock, RunId},
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
    Arms(Box<ArmsPage>),
}

/// The page of a run as it stands.
#[must_use]
pub fn view(detail: &RunDetail, series: &[Series], now_ns: i64) -> RunPage {
    if detail.run.state.is_over() && detail.has_arms() {
        RunPage::Arms(Box::new(super::run_arms::view(&charts::Input { detail, series, now_ns })))
    } else if detail.run.state.is_over() {
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
            (Self::Arms(page), false) => html(page.as_ref()),
            (Self::Live(page), true) => middle(page.as_middle().render()),
            (Self::Result(page), true) => middle(page.as_middle().render()),
            (Self::Arms(page), true) => middle(page.as_middle().render()),
        }
    }
}

/// The page of one arm of a run that is over.
#[must_use]
pub fn view_of_arm(detail: &RunDetail, arm: &Arm, series: &[Series], now_ns: i64) -> RunPage {
    RunPage::Result(Box::new(super::run_result::view_of_arm(detail, arm, series, now_ns)))
}

/// Which arm of a run is asked for; the run as a whole without.
#[derive(Debug, Default, Deserialize)]
pub struct ArmQuery {
    pub arm: Option<u32>,
}

/// A run with the series of some metrics, as a whole, or as if it had only the arm that is asked for.
pub(super) async fn fetch(
    state: &AppState,
    id: &str,
    metrics: &[&str],
    points: usize,
    arm: Option<u32>,
) -> Result<(RunDetail, Vec<Series>, Option<Arm>), PageError> {
    let missing = || PageError::NotFound(format!("run {id:?}"));
    let run: RunId = parse(id)?;
    let detail = state.store.detail(run).await?.ok_or_else(missing)?;
    let mut series = state.store.series(run, metrics, points).await?;
    let Some(wanted) = arm.filter(|arm| *arm > 0 || detail.has_arms()) else { return Ok((detail, series, None)) };
    let (known, of_arm) = asked(&detail, wanted)?;
    series.retain(|series| series.arm == wanted);
    Ok((of_arm, series, Some(known)))
}

/// One arm of a run.
///
/// # Errors
/// When the run has no such arm.
pub fn asked(detail: &RunDetail, wanted: u32) -> Result<(Arm, RunDetail), PageError> {
    let known = detail.outline.arms.iter().find(|arm| arm.number == wanted);
    known.cloned().zip(detail.of_arm(wanted)).ok_or_else(|| {
        let there = match detail.outline.arms.len() {
            0 => "it has one".to_owned(),
            n => format!("there are 0 to {}", n - 1),
        };
        PageError::NotFound(format!("arm {wanted} of this run; {there}"))
    })
}

fn parse(id: &str) -> Result<RunId, PageError> {
    id.parse().map_err(|why| PageError::NotFound(format!("run {id:?}: not the id of a run ({why})")))
}

pub(super) async fn page(
    State(state): State<AppState>,
    Path(id): Path<String>,
    Query(query): Query<ArmQuery>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let (detail, series, arm) = fetch(&state, &id, &charts::metrics(), POINTS, query.arm).await?;
    let now_ns = Clock::start().now_ns();
    let page = match arm {
        Some(arm) if detail.run.state.is_over() => view_of_arm(&detail, &arm, &series, now_ns),
        _ => view(&detail, &series, now_ns),
    };
    Ok(page.respond(headers.contains_key("x-part")))
}

pub(super) async fn cancel(State(state): State<AppState>, Path(id): Path<String>) -> Result<Response, PageError> {
    let run = parse(&id)?;
    match state.runs.cancel(run).await? {
        Cancelled::NeverBegan | Cancelled::Stopping => Ok(Redirect::to(&format!("/runs/{run}")).into_response()),
        Cancelled::Over => Err(PageError::Refused("this run is over already: there is nothing to stop".to_owned())),
        Cancelled::Unknown => Err(PageError::NotFound(format!("run {id:?}"))),
    }
}
