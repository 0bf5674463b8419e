//! Scenarios: the server's own files, and checking one without running it.

use std::{io::ErrorKind, path::Path};

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::TAG;
use crate::{
    runs::AskedBy,
    scenario::{Fault, plan::Outline},
    web::{
        AppState,
        error::{Error, Problem},
        extract::{ScenarioBody, ScenarioText},
    },
};

/// One file of the server's scenario folder.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScenarioFile {
    /// The file's name without `.toml`: what `scenario_name` takes.
    name: String,
    /// The file as it is.
    text: String,
    /// What it comes to on this server; absent when it has faults.
    outline: Option<Outline>,
    faults: Vec<Fault>,
}

/// The server's scenarios.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScenarioList {
    scenarios: Vec<ScenarioFile>,
}

/// The scenarios of the server's folder, by name.
#[utoipa::path(get, path = "/scenarios", tag = TAG, responses((status = 200, body = ScenarioList)))]
pub async fn list(State(state): State<AppState>) -> Result<Json<ScenarioList>, Error> {
    let folder = &state.config.server.scenarios;
    let mut scenarios = Vec::new();
    for name in names(folder).await {
        let Ok(text) = read(folder, &name).await else { continue };
        let (outline, faults) = match state.runs.check(&text, AskedBy::Api) {
            Ok(plan) => (Some(plan.outline), Vec::new()),
            Err(faults) => (None, faults.0),
        };
        scenarios.push(ScenarioFile { name, text, outline, faults });
    }
    Ok(Json(ScenarioList { scenarios }))
}

/// What a scenario comes to on this server, without running it.
#[utoipa::path(
    post,
    path = "/scenarios/check",
    tag = TAG,
    request_body(
        description = "the scenario as TOML, or JSON with the scenario or its name",
        content((String = "application/toml"), (String = "text/plain"), (ScenarioBody = "application/json")),
    ),
    responses(
        (status = 200, body = Outline),
        (status = 400, content_type = "application/problem+json", body = Problem),
    ),
)]
pub async fn check(State(state): State<AppState>, ScenarioText(text): ScenarioText) -> Result<Json<Outline>, Error> {
    state.runs.check(&text, AskedBy::Api).map(|plan| Json(plan.outline)).map_err(Error::Scenario)
}

/// A scenario of the folder by its name.
pub(in crate::web) async fn read(folder: &Path, name: &str) -> Result<String, Error> {
    // A name, never a path: nothing outside the folder can be asked for.
    let plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(Error::field("scenario_name", "a name has letters, digits, - and _ only"));
    }
    match tokio::fs::read_to_string(folder.join(name).with_extension("toml")).await {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let all = names(folder).await;
            let there = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            Err(Error::field("scenario_name", format!("there is no scenario {name:?}; there are: {there}")))
        }
        Err(error) => Err(Error::field("scenario_name", format!("{name:?} cannot be read: {error}"))),
    }
}

/// The names in the folder, sorted; none when there is no folder.
pub(super) async fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let Ok(mut entries) = tokio::fs::read_dir(folder).await else { return names };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "toml")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names
}
