//! The pages over fixtures instead of a store, with an event stream that a test drives.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Form, Json, Router,
    extract::{Path, Query, State},
    http::HeaderMap,
    response::{
        IntoResponse, Redirect, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::{get, post},
};
use futures::StreamExt as _;
use rampart::{
    config::Config,
    model::{Fault, RunEvent, RunId},
    web::{assets, pages},
};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

use crate::fixture::Made;

/// What the server shows; a test may change it while a browser looks.
#[derive(Clone)]
pub struct Shown {
    pub runs: Arc<Mutex<BTreeMap<RunId, Made>>>,
    pub cancelled: Arc<Mutex<Vec<RunId>>>,
    pub events: broadcast::Sender<RunEvent>,
}

pub struct Server {
    pub base: String,
    pub shown: Shown,
}

/// Serves these runs on a free port of this machine until the test ends.
pub async fn serve(runs: Vec<Made>) -> Server {
    let shown = Shown {
        runs: Arc::new(Mutex::new(runs.into_iter().map(|made| (made.detail.run.id, made)).collect())),
        cancelled: Arc::default(),
        events: broadcast::channel(64).0,
    };
    let app = pages::guard(
        Router::new()
            .route("/runs", get(list).post(submit))
            .route("/runs/{id}", get(run))
            .route("/runs/{id}/cancel", post(cancel))
            .route("/runs/{id}/tables/{file}", get(table))
            .route("/runs/{id}/charts/{file}", get(chart))
            .route("/scenarios", get(scenarios))
            .route("/targets", get(targets))
            .route("/api/v1/runs/{id}/samples", get(samples))
            .route("/api/v1/runs/{id}/events", get(events))
            .merge(assets::router()),
    )
    .with_state(shown.clone());
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    Server { base, shown }
}

impl Shown {
    fn with<T>(&self, id: &str, look: impl FnOnce(&Made) -> T) -> Option<T> {
        let id: RunId = id.parse().ok()?;
        self.runs.lock().unwrap().get(&id).map(look)
    }
}

fn missing() -> Response {
    pages::PageError::NotFound("such run".to_owned()).into_response()
}

async fn list(State(shown): State<Shown>, Query(query): Query<pages::runs::RunsQuery>) -> Response {
    let filter = match query.filter() {
        Ok(filter) => filter,
        Err(why) => return why.into_response(),
    };
    let rows: Vec<_> = shown
        .runs
        .lock()
        .unwrap()
        .values()
        .rev()
        .map(|made| made.detail.run.clone())
        .filter(|row| filter.state.is_none_or(|state| row.state == state))
        .filter(|row| filter.text.as_ref().is_none_or(|text| row.scenario.contains(text)))
        .collect();
    let now = shown.runs.lock().unwrap().values().map(|made| made.now_ns).max().unwrap_or(0);
    pages::html(&pages::runs::view(&rows, &query, now))
}

async fn run(State(shown): State<Shown>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let part = headers.contains_key("x-part");
    shown
        .with(&id, |made| pages::run::view(&made.detail, &made.series, made.now_ns).respond(part))
        .unwrap_or_else(missing)
}

async fn cancel(State(shown): State<Shown>, Path(id): Path<String>) -> Response {
    shown.cancelled.lock().unwrap().push(id.parse().unwrap());
    Redirect::to(&format!("/runs/{id}")).into_response()
}

async fn table(State(shown): State<Shown>, Path((id, file)): Path<(String, String)>) -> Response {
    shown
        .with(&id, |made| {
            pages::files::table_file(&made.detail, &file, &Default::default()).unwrap_or_else(IntoResponse::into_response)
        })
        .unwrap_or_else(missing)
}

async fn chart(State(shown): State<Shown>, Path((id, file)): Path<(String, String)>) -> Response {
    shown
        .with(&id, |made| {
            pages::files::chart_file(&made.detail, &made.series, made.now_ns, &file, &Default::default())
                .unwrap_or_else(IntoResponse::into_response)
        })
        .unwrap_or_else(missing)
}

const FILES: [&str; 2] = ["max-load.toml", "smoke.toml"];

async fn scenarios() -> Response {
    let files = FILES.map(str::to_owned);
    let mut checked = pages::scenarios::Checked::default();
    checked.outline = Some(crate::fixture::capacity().detail.outline);
    let text = crate::fixture::capacity().detail.scenario_text;
    pages::html(&pages::scenarios::view(&files, Some(FILES[0]), &text, "key-1", &checked))
}

async fn submit(Form(form): Form<pages::scenarios::ScenarioForm>) -> Response {
    let fault = |line, field: &str, message: &str| Fault { line, field: field.into(), message: message.into() };
    let faults = vec![
        fault(Some(10), "load.step", "-25 is not allowed; allowed: whole numbers from 1"),
        fault(Some(13), "rule[0].kind", "no rule \"throughput\"; allowed: throughput_drop, slo_latency, slo_errors"),
    ];
    let checked = pages::scenarios::Checked { faults, outline: None };
    pages::html(&pages::scenarios::view(&FILES.map(str::to_owned), None, &form.scenario, "key-1", &checked))
}

async fn targets() -> Response {
    let text = "[targets.zk-staging]\nkind = \"zookeeper\"\nservers = [\"10.0.0.1:2181\", \"10.0.0.2:2181\"]\ndigest = \"user:secret\"\n\
                [recipes.local-zookeeper]\nkind = \"zookeeper\"\nallow = [\"heap_mib\", \"zoo_cfg.snapCount\"]\n";
    let config: Config = toml::from_str(text).unwrap();
    pages::html(&pages::targets::view(&config))
}

async fn samples(State(shown): State<Shown>, Path(id): Path<String>) -> Response {
    shown.with(&id, |made| Json(made.series.clone()).into_response()).unwrap_or_else(missing)
}

async fn events(State(shown): State<Shown>) -> Response {
    let stream = BroadcastStream::new(shown.events.subscribe())
        .filter_map(async |event| event.ok())
        .map(|event| Ok::<_, Infallible>(Event::default().json_data(&event).unwrap()));
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}
