//! A run's events as a stream: subscribe, then what is stored after `Last-Event-ID`, then live with a higher number.
//! No gap, no repeat. The run never waits for a reader: one that is too slow is cut off and comes back.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{AppState, api::TAG, error::Error, error::Problem, extract::RunInPath};
use crate::{
    model::{RunId, RunState, Status},
    runs::Live,
    store::{Store, StoreError},
};

const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a browser waits before it comes back.
const RETRY: Duration = Duration::from_secs(2);

/// The last message of a stream: the run is over.
#[derive(Debug, Serialize)]
struct End {
    kind: &'static str,
    state: RunState,
    status: Option<Status>,
    sentence: Option<String>,
}

/// Events of a run: stored ones, then live ones, until it is over.
///
/// Each message is a JSON object with its `kind`: `phase`, `launched`, `inventory`, `root`, `progress`, `samples`,
/// `note`, `trial`, `verdict`, and at the end `end`. Samples, progress and `end` have no id. 204 when the run is over
/// and nothing follows `Last-Event-ID`, which tells a browser not to come back.
#[utoipa::path(
    get,
    path = "/runs/{id}/events",
    tag = TAG,
    params(
        ("id" = String, Path, description = "the run"),
        ("Last-Event-ID" = Option<u64>, Header, description = "the id of the last event that was received"),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = String),
        (status = 204, description = "the run is over, and all was received"),
        (status = 404, content_type = "application/problem+json", body = Problem),
    ),
)]
pub(super) async fn events(
    State(state): State<AppState>,
    RunInPath(id): RunInPath,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let after = match headers.get("last-event-id") {
        None => 0,
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::field("Last-Event-ID", "it is no number of an event"))?,
    };
    // The order matters: what happens between the two is in both, and is told once by its number.
    let live = state.runs.follow(id);
    let Some(row) = state.store.row(id).await? else { return Err(Error::no_run(id)) };
    let stored = state.store.events(id, after).await?;
    if live.is_none() && row.state.is_over() && stored.is_empty() && after > 0 {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let last = stored.last().map_or(after, |event| event.seq);
    let hello = stream::iter([Event::default().retry(RETRY)]);
    let stored = stream::iter(stored.into_iter().map(|event| message(Some(event.seq), &event.json)));
    let rest = stream::unfold(Rest::Live(live, last), move |rest| next(rest, state.store.clone(), id));
    let events = hello.chain(stored).chain(rest).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

/// Where a stream is after the stored events.
enum Rest {
    Live(Option<Receiver<Live>>, u64),
    Done,
}

async fn next(rest: Rest, store: Store, run: RunId) -> Option<(Event, Rest)> {
    let Rest::Live(receiver, last) = rest else { return None };
    let Some(mut receiver) = receiver else { return end(&store, run).await.map(|event| (event, Rest::Done)) };
    loop {
        match receiver.recv().await {
            Ok(live) if live.seq.is_some_and(|seq| seq <= last) => {}
            Ok(live) => {
                let last = live.seq.unwrap_or(last);
                return Some((message(live.seq, &live.json), Rest::Live(Some(receiver), last)));
            }
            Err(RecvError::Lagged(missed)) => {
                tracing::info!(run.id = %run, missed, "a reader of run {run} is too slow: {missed} events behind");
                return None;
            }
            Err(RecvError::Closed) => return end(&store, run).await.map(|event| (event, Rest::Done)),
        }
    }
}

fn message(seq: Option<u64>, json: &str) -> Event {
    let event = Event::default().data(json);
    seq.map_or(event.clone(), |seq| event.id(seq.to_string()))
}

/// The message that the run is over; none when it is not (the server stops, or its end could not be stored yet).
async fn end(store: &Store, run: RunId) -> Option<Event> {
    let row = match store.row(run).await {
        Ok(row) => row?,
        Err(error @ (StoreError::Full | StoreError::Sql(_) | StoreError::Damaged { .. })) => {
            tracing::warn!(run.id = %run, %error, "cannot tell whether run {run} is over");
            return None;
        }
        Err(StoreError::Held { .. } | StoreError::Open { .. } | StoreError::Unstorable { .. }) => return None,
    };
    let end = End { kind: "end", state: row.state, status: row.status, sentence: row.sentence };
    let json = serde_json::to_string(&end).ok().filter(|_| row.state.is_over())?;
    Some(message(None, &json))
}
