//! The list of runs, with its filters in the URL.

use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use serde::Deserialize;

use super::{PageError, Shell, html};
use crate::{
    model::{RunState, Status},
    report::{Mark, format, words},
    store::{RunFilter, RunRow},
    web::AppState,
};

/// How many runs stand on one page.
const PAGE: u32 = 50;

/// The filters as they stand in the URL; empty fields of the form count as absent.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct RunsQuery {
    pub text: Option<String>,
    pub state: Option<String>,
    pub status: Option<String>,
    pub before: Option<String>,
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "runs.html")]
pub struct RunsPage {
    pub shell: Shell,
    pub rows: Vec<RunLine>,
    pub text: String,
    pub states: Vec<Choice>,
    pub statuses: Vec<Choice>,
    /// Whether any filter is set.
    pub filtered: bool,
    /// The address of the next page.
    pub older: Option<String>,
}

/// One entry of a select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub value: &'static str,
    pub label: String,
    pub chosen: bool,
}

/// One run.
#[derive(Debug, Clone)]
pub struct RunLine {
    pub id: String,
    pub short: String,
    pub scenario: String,
    pub target: String,
    pub answer: String,
    pub mark: Mark,
    pub live: bool,
    pub stop_code: &'static str,
    pub stop_words: &'static str,
    pub created: String,
    pub created_iso: String,
    pub took: String,
    pub origin: String,
    pub sentence: String,
}

impl RunsQuery {
    /// The filter for the store.
    ///
    /// # Errors
    /// Names the field and what it allows.
    pub fn filter(&self) -> Result<RunFilter, PageError> {
        let given =
            |field: &Option<String>| field.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let bad = |text: String| PageError::BadRequest(text);
        Ok(RunFilter {
            text: given(&self.text),
            state: given(&self.state)
                .map(|word| word.parse())
                .transpose()
                .map_err(|why| bad(format!("state: {why}")))?,
            status: given(&self.status).map(|word| word.parse()).transpose().map_err(|why: String| {
                let all: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
                bad(format!("status: {why}; allowed: {}", all.join(", ")))
            })?,
            before: given(&self.before)
                .map(|id| id.parse())
                .transpose()
                .map_err(|why| bad(format!("before: not the id of a run ({why})")))?,
            limit: PAGE,
        })
    }
}

/// The page of these runs.
#[must_use]
pub fn view(rows: &[RunRow], query: &RunsQuery, now_ns: i64) -> RunsPage {
    let chosen = |field: &Option<String>, value: &str| field.as_deref() == Some(value);
    let any = |field: &Option<String>| field.as_deref().is_some_and(|text| !text.trim().is_empty());
    let full = rows.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX);
    let older = rows.last().filter(|_| full).map(|last| {
        let mut address = format!("/runs?before={}", last.id);
        for (name, field) in [("text", &query.text), ("state", &query.state), ("status", &query.status)] {
            if let Some(value) = field.as_deref().filter(|value| !value.is_empty()) {
                address.push_str(&format!("&{name}={}", percent_encode(value)));
            }
        }
        address
    });
    RunsPage {
        shell: Shell::new("Runs", "/runs"),
        rows: rows.iter().map(|row| line(row, now_ns)).collect(),
        text: query.text.clone().unwrap_or_default(),
        states: [RunState::Queued, RunState::Running, RunState::Finished, RunState::Interrupted]
            .into_iter()
            .map(|state| Choice {
                value: state.as_str(),
                label: state.as_str().to_owned(),
                chosen: chosen(&query.state, state.as_str()),
            })
            .collect(),
        statuses: Status::ALL
            .iter()
            .map(|status| Choice {
                value: status.as_str(),
                label: status.as_str().replace('_', " "),
                chosen: chosen(&query.status, status.as_str()),
            })
            .collect(),
        filtered: any(&query.text) || any(&query.state) || any(&query.status),
        older,
    }
}

fn line(row: &RunRow, now_ns: i64) -> RunLine {
    let (answer, mark) = words::short_answer(row);
    let took = row
        .started_ns
        .map_or_else(String::new, |from| format::span(format::seconds_between(from, row.ended_ns.unwrap_or(now_ns))));
    RunLine {
        id: row.id.to_string(),
        short: row.id.short(),
        scenario: row.scenario.clone(),
        target: row.target.clone(),
        answer,
        mark,
        live: !row.state.is_over(),
        stop_code: row.stop_code.map_or("", |code| code.as_str()),
        stop_words: row.stop_code.map_or("", words::stop_code),
        created: format::moment(row.created_ns),
        created_iso: format::rfc3339(row.created_ns),
        took,
        origin: row.origin.clone(),
        sentence: row.sentence.clone().unwrap_or_default(),
    }
}

/// For a value in a query string.
fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

pub(super) async fn page(State(state): State<AppState>, Query(query): Query<RunsQuery>) -> Result<Response, PageError> {
    let rows = state.store.list(&query.filter()?).await?;
    Ok(html(&view(&rows, &query, crate::model::Clock::start().now_ns())))
}
