//! Campaigns: scenarios that follow one another, as one report.

use askama::Template;
use axum::{
    extract::{Form, Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;

use super::{PageError, Shell, html, part};
use crate::{
    model::{CampaignId, Fault, Faults},
    report::{
        Table,
        campaign::{self, PartReport},
        format,
    },
    runs::AskedBy,
    store::{CampaignDetail, PartState, RunDetail},
    web::{AppState, api},
};

/// The list, with a form for a new one.
#[derive(Debug, Template)]
#[template(path = "campaigns.html")]
pub struct CampaignsPage {
    pub shell: Shell,
    pub rows: Vec<CampaignLine>,
    pub text: String,
    pub faults: Vec<Fault>,
}

/// One campaign of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignLine {
    pub id: String,
    pub name: String,
    pub description: String,
    pub created: String,
    /// `2 of 4 parts`.
    pub progress: String,
}

/// One campaign.
#[derive(Debug, Template)]
#[template(path = "campaign.html")]
pub struct CampaignPage {
    pub shell: Shell,
    pub id: String,
    pub short: String,
    pub name: String,
    pub description: String,
    pub created: String,
    pub parts: Vec<PartPanel>,
}

/// One part with its tables as HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPanel {
    pub name: String,
    pub load: Option<String>,
    pub sentence: String,
    pub run: Option<String>,
    /// Title and table.
    pub tables: Vec<(String, String)>,
}

/// The form of a new campaign.
#[derive(Debug, Deserialize)]
pub struct CampaignForm {
    campaign: String,
}

/// What stands in an empty form.
const EXAMPLE: &str = include_str!("../../../campaigns/saturn-small.toml");

/// The list as it stands.
#[must_use]
pub fn list_view(campaigns: &[CampaignDetail], text: &str, faults: Vec<Fault>) -> CampaignsPage {
    let line = |detail: &CampaignDetail| {
        let begun = detail.parts.iter().filter(|part| **part != PartState::default()).count();
        CampaignLine {
            id: detail.id.to_string(),
            name: detail.campaign.name.clone(),
            description: detail.campaign.description.clone(),
            created: format::moment(detail.created_ns),
            progress: format!("{begun} of {} parts begun", detail.parts.len()),
        }
    };
    CampaignsPage {
        shell: Shell::new("Campaigns", "/campaigns"),
        rows: campaigns.iter().map(line).collect(),
        text: text.to_owned(),
        faults,
    }
}

/// One campaign as it stands.
#[must_use]
pub fn view(detail: &CampaignDetail, runs: Vec<Option<RunDetail>>) -> CampaignPage {
    let goes_on = detail.parts.iter().any(|part| *part == PartState::default())
        || runs.iter().flatten().any(|run| !run.run.state.is_over());
    let mut shell = Shell::new(format!("Campaign {}", detail.campaign.name), "/campaigns");
    shell.refresh = goes_on.then_some(10);
    let panel = |of: PartReport| PartPanel {
        run: of.run.as_ref().map(|run| run.run.id.to_string()),
        tables: of.tables.iter().map(|made| (made.title.clone(), named(made, &of.name))).collect(),
        name: of.name,
        load: of.load,
        sentence: of.sentence,
    };
    CampaignPage {
        shell,
        id: detail.id.to_string(),
        short: detail.id.short(),
        name: detail.campaign.name.clone(),
        description: detail.campaign.description.clone(),
        created: format::moment(detail.created_ns),
        parts: campaign::parts(detail, runs).into_iter().map(panel).collect(),
    }
}

/// A table whose region has a name of its own: parts have the same tables.
fn named(made: &Table, of: &str) -> String {
    part::table(&Table { title: format!("{}, {of}", made.title), ..made.clone() }, true)
}

pub(super) async fn list(State(state): State<AppState>) -> Result<Response, PageError> {
    Ok(html(&list_view(&state.store.campaigns().await?, EXAMPLE, Vec::new())))
}

pub(super) async fn submit(
    State(state): State<AppState>,
    Form(form): Form<CampaignForm>,
) -> Result<Response, PageError> {
    let text = form.campaign.replace("\r\n", "\n");
    match api::campaigns::parse(&state, &text).await {
        Ok(campaign) => {
            let begun = api::campaigns::begin(&state, &campaign, AskedBy::Page).await;
            let id = begun.map_err(super::scenarios::refused)?;
            Ok(Redirect::to(&format!("/campaigns/{id}")).into_response())
        }
        Err(Faults(faults)) => {
            let page = html(&list_view(&state.store.campaigns().await?, &text, faults));
            Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
        }
    }
}

/// `/campaigns/ID` is the page, `/campaigns/ID.md` the report as markdown.
pub(super) async fn page(State(state): State<AppState>, Path(id): Path<String>) -> Result<Response, PageError> {
    let (name, as_markdown) = id.strip_suffix(".md").map_or((id.as_str(), false), |name| (name, true));
    let missing = || PageError::NotFound(format!("campaign {name:?}"));
    let known: CampaignId = name.parse().map_err(|_source| missing())?;
    let detail = state.store.campaign(known).await?.ok_or_else(missing)?;
    let runs = state.store.runs_of(&detail).await?;
    if as_markdown {
        let text = campaign::markdown(&detail, &campaign::parts(&detail, runs));
        return Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response());
    }
    Ok(html(&view(&detail, runs)))
}
