//! The event stream: no gap, no repeat, and no reader that slows a run.

use axum::{
    body::{Body, BodyDataStream},
    http::{Response, StatusCode, header},
};
use futures::StreamExt;
use rampart::{
    model::{Phase, RunId},
    runs::FOLLOWER_LAG,
};
use tower::ServiceExt;

use crate::app::{TestApp, hear, hear_end, note, phase, request, samples, trial_event, within};

/// One message of a stream.
#[derive(Debug, Clone, PartialEq)]
struct Message {
    id: Option<u64>,
    json: serde_json::Value,
}

impl Message {
    fn kind(&self) -> &str {
        self.json["kind"].as_str().unwrap()
    }
}

/// A reader of a run's events.
struct Reader {
    body: BodyDataStream,
    buffer: String,
}

impl Reader {
    async fn connect(app: &TestApp, run: RunId, last: Option<u64>) -> Self {
        let response = open(app, run, last).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), buffer: String::new() }
    }

    /// The next message; none when the stream has ended. Heartbeats are no message.
    async fn next(&mut self) -> Option<Message> {
        within(self.read()).await
    }

    async fn read(&mut self) -> Option<Message> {
        loop {
            while let Some((frame, rest)) = self.buffer.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.buffer = rest;
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let Some(data) = field("data:") {
                    let id = field("id:").map(|id| id.parse().unwrap());
                    return Some(Message { id, json: serde_json::from_str(data).unwrap() });
                }
            }
            let chunk = self.body.next().await?.unwrap();
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn rest(mut self) -> Vec<Message> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

async fn open(app: &TestApp, run: RunId, last: Option<u64>) -> Response<Body> {
    let mut request = request("GET", &format!("/api/v1/runs/{run}/events"));
    if let Some(last) = last {
        request = request.header("Last-Event-ID", last);
    }
    within(app.router().oneshot(request.body(Body::empty()).unwrap())).await.unwrap()
}

fn ids(messages: &[Message]) -> Vec<u64> {
    messages.iter().filter_map(|message| message.id).collect()
}

#[tokio::test]
async fn stored_events_come_first_then_live_ones_then_the_end() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.say(phase(Phase::Filling, 10)).await;
    stage.say(note("before")).await;
    hear(&mut follower, "note").await;
    let reader = Reader::connect(&app, id, None).await;
    stage.say(samples(1, 1)).await;
    stage.say(trial_event(1, 10)).await;
    stage.finish().await;
    let all = reader.rest().await;
    let kinds: Vec<_> = all.iter().map(|message| (message.id, message.kind())).collect();
    let expected = [
        (Some(1), "phase"),
        (Some(2), "note"),
        (None, "samples"),
        (Some(3), "trial"),
        (Some(4), "verdict"),
        (None, "end"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(all[5].json["state"], "finished");
    assert_eq!(all[5].json["status"], "capacity_found");
}

#[tokio::test]
async fn a_reader_comes_back_without_gap_or_repeat() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    for text in ["1", "2", "3", "4"] {
        stage.say(note(text)).await;
        hear(&mut follower, "note").await;
    }
    let mut reader = Reader::connect(&app, id, Some(1)).await;
    assert_eq!(reader.next().await.unwrap().id, Some(2));
    drop(reader);
    let reader = Reader::connect(&app, id, Some(2)).await;
    stage.finish().await;
    assert_eq!(ids(&reader.rest().await), [3, 4, 5]);
}

#[tokio::test]
async fn whenever_a_reader_connects_it_hears_each_event_once() {
    const EVENTS: u64 = 300;
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    let mut readers = Vec::new();
    let script = async move {
        for number in 0..EVENTS {
            stage.say(note(number.to_string())).await;
        }
        stage.finish().await;
    };
    let connect = async {
        // Each at another moment of the busy run: after this many told events.
        for _ in 0..20 {
            for _ in 0..10 {
                let _ = follower.recv().await;
            }
            readers.push(Reader::connect(&app, id, None).await);
        }
    };
    within(async { tokio::join!(script, connect) }).await;
    let expected: Vec<u64> = (1..=EVENTS + 1).collect();
    for reader in readers {
        assert_eq!(ids(&reader.rest().await), expected);
    }
}

#[tokio::test]
async fn two_followers_hear_the_same() {
    let app = TestApp::new().await;
    let (id, stage, _) = app.live().await;
    let (one, two) = (Reader::connect(&app, id, None).await, Reader::connect(&app, id, None).await);
    stage.say(note("x")).await;
    stage.say(samples(1, 3)).await;
    stage.say(trial_event(1, 10)).await;
    stage.finish().await;
    let (one, two) = tokio::join!(one.rest(), two.rest());
    assert_eq!(one, two);
    assert_eq!(ids(&one), [1, 2, 3]);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off_and_gets_the_rest_when_it_comes_back() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    let mut slow = Reader::connect(&app, id, None).await;
    stage.say(note("first")).await;
    assert_eq!(slow.next().await.unwrap().id, Some(1));
    // It takes nothing while more is told than it may be behind.
    let script = async {
        for at in 0..FOLLOWER_LAG as i64 {
            stage.say(samples(at, 1)).await;
        }
        stage.say(note("second")).await;
        stage.say(note("third")).await;
        stage.finish().await;
    };
    within(async { tokio::join!(script, hear_end(&mut follower)) }).await;
    let rest = slow.rest().await;
    assert!(rest.iter().all(|message| message.kind() != "end"), "it must not believe that this was all: {rest:?}");
    assert_eq!(ids(&rest), [0_u64; 0], "cut off at the gap, not after it");
    let again = Reader::connect(&app, id, Some(1)).await.rest().await;
    assert_eq!(ids(&again), [2, 3, 4]);
    assert_eq!(again.last().unwrap().kind(), "end");
}

#[tokio::test]
async fn a_browser_that_has_all_is_told_not_to_come_back() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    stage.finish().await;
    hear_end(&mut follower).await;
    assert_eq!(open(&app, id, Some(1)).await.status(), StatusCode::NO_CONTENT);
    let all = Reader::connect(&app, id, None).await.rest().await;
    assert_eq!(all.iter().map(Message::kind).collect::<Vec<_>>(), ["verdict", "end"]);
}

#[tokio::test]
async fn a_reader_of_a_queued_run_waits_for_it() {
    let app = TestApp::new().await;
    let (_, stage, _) = app.live().await;
    let second = app.submit().await;
    let reader = Reader::connect(&app, second, None).await;
    stage.finish().await;
    let stage = app.stage().await;
    stage.say(note("begun")).await;
    stage.finish().await;
    assert_eq!(ids(&reader.rest().await), [1, 2]);
}

#[tokio::test]
async fn streams_end_at_shutdown() {
    let app = TestApp::new().await;
    let (live, stage, _) = app.live().await;
    let queued = app.submit().await;
    let of_live = Reader::connect(&app, live, None).await;
    let of_queued = Reader::connect(&app, queued, None).await;
    let script = async {
        stage.cancel.cancelled().await;
        stage.finish().await;
    };
    within(async { tokio::join!(app.runs().drain(), script) }).await;
    let all = of_live.rest().await;
    assert_eq!(
        all.iter().map(Message::kind).collect::<Vec<_>>(),
        ["note", "verdict", "end"],
        "why it ends, and to its very end"
    );
    assert_eq!(of_queued.rest().await, [], "it goes on after the restart: no end");
}

#[tokio::test]
async fn a_wrong_last_event_id_is_named() {
    let app = TestApp::new().await;
    let id = app.submit().await;
    let path = format!("/api/v1/runs/{id}/events");
    let answer = app.send(request("GET", &path).header("Last-Event-ID", "x").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.problem()["errors"][0]["field"], "Last-Event-ID");
    let unknown = RunId::new();
    assert_eq!(app.get(&format!("/api/v1/runs/{unknown}/events")).await.status, 404);
}
