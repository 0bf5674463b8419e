//! The pages over fixtures instead of a store: one run of each kind, at moments that a real one passes in seconds.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
};
use rampart::{
    config::Config,
    model::RunId,
    web::{assets, pages},
};
use serde_json::json;

use crate::fixture::Made;

type Shown = Arc<BTreeMap<RunId, Made>>;

/// Serves these runs on a free port of this machine until the test ends; gives its address.
pub async fn serve(runs: Vec<Made>) -> String {
    let shown: Shown = Arc::new(runs.into_iter().map(|made| (made.detail.run.id, made)).collect());
    let app = pages::guard(
        Router::new()
            .route("/runs", get(list))
            .route("/runs/{id}", get(run))
            .route("/scenarios", get(scenarios))
            .route("/campaigns", get(campaigns))
            .route("/campaigns/{id}", get(campaign))
            .route("/targets", get(targets))
            .route("/api/v1/runs/{id}/samples", get(samples))
            .route("/api/v1/runs/{id}/events", get(async || StatusCode::NO_CONTENT))
            .merge(assets::router()),
    )
    .with_state(shown);
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    base
}

fn find(shown: &Shown, id: &str, look: impl FnOnce(&Made) -> Response) -> Response {
    let missing = || pages::PageError::NotFound(format!("run {id:?}")).into_response();
    id.parse().ok().and_then(|id: RunId| shown.get(&id)).map_or_else(missing, look)
}

async fn list(State(shown): State<Shown>, Query(query): Query<pages::runs::RunsQuery>) -> Response {
    let filter = match query.filter() {
        Ok(filter) => filter,
        Err(why) => return why.into_response(),
    };
    let wanted = |state| filter.state.is_none_or(|wanted| wanted == state);
    let rows: Vec<_> =
        shown.values().rev().map(|made| made.detail.run.clone()).filter(|row| wanted(row.state)).collect();
    let now = shown.values().map(|made| made.now_ns).max().unwrap_or(0);
    pages::html(&pages::runs::view(&rows, &query, now))
}

async fn run(
    State(shown): State<Shown>,
    Path(id): Path<String>,
    Query(query): Query<pages::run::ArmQuery>,
    headers: HeaderMap,
) -> Response {
    let part = headers.contains_key("x-part");
    find(&shown, &id, |made| match query.arm.map(|arm| pages::run::asked(&made.detail, arm)) {
        Some(Ok((arm, of_arm))) => {
            let series: Vec<_> = made.series.iter().filter(|series| series.arm == arm.number).cloned().collect();
            pages::run::view_of_arm(&of_arm, &arm, &series, made.now_ns).respond(part)
        }
        Some(Err(why)) => why.into_response(),
        None => pages::run::view(&made.detail, &made.series, made.now_ns).respond(part),
    })
}

const FILES: [&str; 2] = ["max-load.toml", "smoke.toml"];

async fn scenarios() -> Response {
    let files = FILES.map(str::to_owned);
    let checked =
        pages::scenarios::Checked { outline: Some(crate::fixture::capacity().detail.outline), ..Default::default() };
    let text = crate::fixture::capacity().detail.scenario_text;
    pages::html(&pages::scenarios::view(&files, Some(FILES[0]), &text, "key-1", &checked))
}

async fn campaigns() -> Response {
    let (detail, _) = crate::fixture::campaign();
    pages::html(&pages::campaigns::list_view(&[detail], "name = \"x\"\n", Vec::new()))
}

async fn campaign() -> Response {
    let (detail, runs) = crate::fixture::campaign();
    pages::html(&pages::campaigns::view(&detail, runs))
}

async fn targets() -> Response {
    let text = "[targets.zk-staging]\nkind = \"zookeeper\"\nservers = [\"10.0.0.1:2181\", \"10.0.0.2:2181\"]\ndigest = \"user:secret\"\n\
                [recipes.local-zookeeper]\nkind = \"zookeeper\"\nallow = [\"heap_mib\", \"zoo_cfg.snapCount\"]\n";
    let config: Config = toml::from_str(text).unwrap();
    pages::html(&pages::targets::view(&config))
}

async fn samples(State(shown): State<Shown>, Path(id): Path<String>) -> Response {
    find(&shown, &id, |made| Json(json!({ "series": made.series })).into_response())
}
