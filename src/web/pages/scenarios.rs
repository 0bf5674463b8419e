//! Ready-made scenarios, and the form that checks one and starts a run.

use std::path::Path;

use askama::Template;
use axum::{
    Form,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;

use super::{
    PageError, Shell, html,
    run_live::{loads, longest},
    run_result::needs,
};
use crate::{
    model::{Fault, Faults, RunId},
    runs::{AskedBy, Runs, SubmitError},
    scenario::plan::Outline,
    web::AppState,
};

/// What the form was opened with.
#[derive(Debug, Default, Deserialize)]
pub struct ScenarioQuery {
    /// A file of the server's scenarios.
    pub file: Option<String>,
    /// A run whose scenario is to be used again.
    pub run: Option<String>,
}

/// The form as it was sent.
#[derive(Debug, Deserialize)]
pub struct ScenarioForm {
    pub scenario: String,
    /// `check` or `start`.
    pub action: Option<String>,
    /// Makes sending the form twice start one run.
    pub key: Option<String>,
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "scenario.html")]
pub struct ScenarioPage {
    pub shell: Shell,
    pub files: Vec<FileLine>,
    pub text: String,
    pub key: String,
    pub faults: Vec<Fault>,
    pub outline: Option<OutlinePart>,
}

/// A file of the server's scenarios.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLine {
    pub name: String,
    pub chosen: bool,
}

/// What a scenario comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlinePart {
    pub name: String,
    pub target: String,
    pub workload: String,
    pub ladder: String,
    pub longest: String,
    pub needs: Vec<(String, String, String)>,
    pub remarks: Vec<String>,
}

/// What a text was found to be.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    pub faults: Vec<Fault>,
    pub outline: Option<Outline>,
}

/// The page with a text and what was found in it.
#[must_use]
pub fn view(files: &[String], chosen: Option<&str>, text: &str, key: &str, checked: &Checked) -> ScenarioPage {
    ScenarioPage {
        shell: Shell::new("Scenarios", "/scenarios"),
        files: files
            .iter()
            .map(|name| FileLine { name: name.clone(), chosen: Some(name.as_str()) == chosen })
            .collect(),
        text: text.to_owned(),
        key: key.to_owned(),
        faults: checked.faults.clone(),
        outline: checked.outline.as_ref().map(outline),
    }
}

fn outline(outline: &Outline) -> OutlinePart {
    let managed = if outline.managed { ", launched for the run" } else { "" };
    OutlinePart {
        name: outline.scenario.clone(),
        target: format!("{} ({}{managed})", outline.target, outline.target_kind),
        workload: outline.workload.clone(),
        ladder: loads(outline),
        longest: longest(outline),
        needs: needs(outline),
        remarks: outline.remarks.clone(),
    }
}

/// What a scenario comes to, as a request over the network may.
fn check(text: &str, runs: &Runs) -> Checked {
    match runs.check(text, AskedBy::Page) {
        Ok(plan) => Checked { faults: Vec::new(), outline: Some(plan.outline) },
        Err(Faults(faults)) => Checked { faults, outline: None },
    }
}

pub(super) async fn page(
    State(state): State<AppState>,
    Query(query): Query<ScenarioQuery>,
) -> Result<Response, PageError> {
    let dir = &state.config.server.scenarios;
    let files = list(dir).await;
    let text = match (&query.file, &query.run) {
        (Some(file), _) => read(dir, &files, file).await?,
        (None, Some(run)) => {
            let missing = || PageError::NotFound(format!("run {run:?}"));
            let id: RunId = run.parse().map_err(|_source| missing())?;
            state.store.detail(id).await?.ok_or_else(missing)?.scenario_text
        }
        (None, None) => String::new(),
    };
    let checked = if text.is_empty() { Checked::default() } else { check(&text, &state.runs) };
    Ok(html(&view(&files, query.file.as_deref(), &text, &new_key(), &checked)))
}

pub(super) async fn submit(
    State(state): State<AppState>,
    Form(form): Form<ScenarioForm>,
) -> Result<Response, PageError> {
    let text = form.scenario.replace("\r\n", "\n");
    let key = form.key.filter(|key| !key.is_empty());
    let checked = if form.action.as_deref() == Some("check") {
        check(&text, &state.runs)
    } else {
        match state.runs.submit(&text, AskedBy::Page, key.as_deref()).await {
            Ok(run) => return Ok(Redirect::to(&format!("/runs/{}", run.id)).into_response()),
            Err(SubmitError::Faults(Faults(faults))) => Checked { faults, outline: None },
            Err(SubmitError::Conflict { .. }) => {
                // The form was changed after it had started a run: that is a new run, and a new key.
                let run = state.runs.submit(&text, AskedBy::Page, Some(&new_key())).await;
                match run {
                    Ok(run) => return Ok(Redirect::to(&format!("/runs/{}", run.id)).into_response()),
                    Err(SubmitError::Faults(Faults(faults))) => Checked { faults, outline: None },
                    Err(why) => return Err(refused(why)),
                }
            }
            Err(why) => return Err(refused(why)),
        }
    };
    let files = list(&state.config.server.scenarios).await;
    let status = if checked.faults.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let key = key.unwrap_or_else(new_key);
    Ok((status, html(&view(&files, None, &text, &key, &checked))).into_response())
}

pub(super) fn refused(why: SubmitError) -> PageError {
    match why {
        SubmitError::Store(source) => source.into(),
        why @ (SubmitError::Faults(_) | SubmitError::Conflict { .. } | SubmitError::Closing) => {
            PageError::Refused(why.to_string())
        }
    }
}

fn new_key() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// The names of the server's scenario files, sorted. A folder that is not there has none.
async fn list(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(mut entries) = tokio::fs::read_dir(dir).await {
        while let Ok(Some(entry)) = entries.next_entry().await {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".toml") && !name.starts_with('.') {
                names.push(name);
            }
        }
    }
    names.sort();
    names
}

/// Only a listed name is read: nothing of a request becomes a path.
async fn read(dir: &Path, files: &[String], wanted: &str) -> Result<String, PageError> {
    let missing = || PageError::NotFound(format!("scenario {wanted:?}"));
    let name = files.iter().find(|name| *name == wanted).ok_or_else(missing)?;
    tokio::fs::read_to_string(dir.join(name)).await.map_err(|why| {
        tracing::error!(file = %name, cause = %why, "a scenario file could not be read: {name}");
        missing()
    })
}
