//! One server with a real database file and a scripted engine: a test plays the engine's part through a [`Stage`].

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode, header},
};
use rampart::{
    config::Config,
    launch::Orphan,
    model::{
        Health, HistogramRecord, Outcome, Phase, RunEvent, RunId, Sample, Status, StopCode, Trial, Validity, Verdict,
    },
    runs::{AskedBy, Live, Runs, Seams},
    store::Store,
    web::{self, AppState},
};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const SCENARIO: &str = r#"
name = "demo"
[target]
kind = "zookeeper"
use = "staging"
[load]
workload = "zookeeper.domains"
kind = "levels"
levels = [10, 20]
[[probe]]
kind = "zookeeper.latencies"
count = 1000
"#;

/// The second scenario of tests that need two.
pub(crate) fn other_scenario() -> String {
    SCENARIO.replace("demo", "other")
}

/// A run that the server has begun; its engine does what the test says.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) run: RunId,
    pub(crate) events: mpsc::Sender<RunEvent>,
    pub(crate) cancel: CancellationToken,
    /// Targets that had been cleaned when it began.
    pub(crate) cleaned: Vec<String>,
    end: oneshot::Sender<End>,
}

#[derive(Debug)]
enum End {
    Verdict(Box<Verdict>),
    Panic,
}

impl Stage {
    pub(crate) async fn say(&self, event: RunEvent) {
        self.events.send(event).await.unwrap();
    }

    /// Ends as the real engine does: the verdict is the last event.
    pub(crate) async fn finish(self) {
        let verdict = verdict(self.run);
        self.say(RunEvent::Verdict { at_ns: 9_000, verdict: Box::new(verdict) }).await;
        self.end_silently();
    }

    /// Ends with a verdict that was not told as an event.
    pub(crate) fn end_silently(self) {
        let verdict = Box::new(verdict(self.run));
        self.end.send(End::Verdict(verdict)).unwrap();
    }

    pub(crate) fn panic(self) {
        self.end.send(End::Panic).unwrap();
    }
}

#[derive(Debug)]
pub(crate) struct TestApp {
    pub(crate) dir: Arc<tempfile::TempDir>,
    pub(crate) state: AppState,
    stages: tokio::sync::Mutex<mpsc::UnboundedReceiver<Stage>>,
    pub(crate) reaped: Arc<Mutex<Vec<Orphan>>>,
}

impl TestApp {
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(tempfile::tempdir().unwrap())).await
    }

    /// A server on a folder that may hold a database already.
    pub(crate) async fn on(dir: Arc<tempfile::TempDir>) -> Self {
        let store = Store::open(&database(&dir)).await.unwrap();
        let text = format!(
            "[server]\nscenarios = {:?}\n[targets.staging]\nkind = \"zookeeper\"\nservers = [\"127.0.0.1:1\"]\n",
            dir.path().join("scenarios")
        );
        let config = Arc::new(Config::parse(&text).unwrap());
        let (began, stages) = mpsc::unbounded_channel();
        let (reaped, cleaned) = (Arc::<Mutex<Vec<Orphan>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (reaps, cleans, slow) = (Arc::clone(&reaped), Arc::clone(&cleaned), store.clone());
        let seams = Seams {
            engine: Arc::new(move |_, run, events, cancel| {
                let (end, ended) = oneshot::channel();
                let cleaned = cleaned.lock().unwrap().clone();
                began.send(Stage { run, events, cancel, cleaned, end }).unwrap();
                Box::pin(async move {
                    match ended.await {
                        Ok(End::Verdict(verdict)) => *verdict,
                        Ok(End::Panic) => panic!("the script says so"),
                        Err(_) => std::future::pending().await,
                    }
                })
            }),
            reap: Arc::new(move |orphan| {
                reaps.lock().unwrap().push(orphan.clone());
                true
            }),
            // Processes of this machine are nothing to a scripted engine.
            reap_all: Arc::new(|| {}),
            clean: Arc::new(move |name, _, _| {
                let (cleans, slow) = (Arc::clone(&cleans), slow.clone());
                Box::pin(async move {
                    // Takes longer than beginning a run does, so that a run that does not wait is seen.
                    for _ in 0..200 {
                        slow.ping().await.unwrap();
                    }
                    cleans.lock().unwrap().push(name);
                    true
                })
            }),
            ..Seams::default()
        };
        let runs = Runs::with(store.clone(), Arc::clone(&config), seams);
        let state = AppState { store, runs, config };
        Self { dir, state, stages: stages.into(), reaped }
    }

    pub(crate) fn runs(&self) -> &Runs {
        &self.state.runs
    }

    pub(crate) fn store(&self) -> &Store {
        &self.state.store
    }

    pub(crate) fn router(&self) -> Router {
        web::app(self.state.clone())
    }

    pub(crate) async fn submit(&self) -> RunId {
        self.runs().submit(SCENARIO, AskedBy::Api, None).await.unwrap().id
    }

    /// The next run that the server begins.
    pub(crate) async fn stage(&self) -> Stage {
        within(self.stages.lock().await.recv()).await.unwrap()
    }

    /// A run that goes on, with a follower from its beginning.
    pub(crate) async fn live(&self) -> (RunId, Stage, broadcast::Receiver<Live>) {
        let id = self.submit().await;
        let follower = self.runs().follow(id).unwrap();
        let stage = self.stage().await;
        assert_eq!(stage.run, id);
        (id, stage, follower)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request("GET", path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, kind: &str, body: &str) -> Answer {
        self.send(request("POST", path).header(header::CONTENT_TYPE, kind).body(body.to_owned().into()).unwrap()).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = within(self.router().oneshot(request)).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = within(axum::body::to_bytes(body, usize::MAX)).await.unwrap();
        let text = String::from_utf8(bytes.into()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The problem document, whose status must be the answer's.
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json", "{}", self.text);
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        problem
    }
}

pub(crate) fn database(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("rampart.db")
}

/// A request as a program on this machine makes it.
pub(crate) fn request(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "localhost:7117")
}

/// A bound on what would else hang for ever; says nothing about how long things take.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it hangs")
}

/// Waits until the follower has heard an event of that kind: it is stored then.
pub(crate) async fn hear(follower: &mut broadcast::Receiver<Live>, kind: &str) -> Live {
    loop {
        let live = within(follower.recv()).await.unwrap();
        if live.kind == kind {
            return live;
        }
    }
}

/// Waits until the run is over.
pub(crate) async fn hear_end(follower: &mut broadcast::Receiver<Live>) {
    while !matches!(within(follower.recv()).await, Err(broadcast::error::RecvError::Closed)) {}
}

pub(crate) fn note(text: impl Into<String>) -> RunEvent {
    RunEvent::Note { at_ns: 5, text: text.into() }
}

pub(crate) fn phase(phase: Phase, load: u64) -> RunEvent {
    RunEvent::Phase { at_ns: 1, phase, arm: 0, step: 1, trial: 1, load, until_ns: Some(2) }
}

pub(crate) fn samples(from_ns: i64, count: i64) -> RunEvent {
    let sample = |at_ns| Sample { at_ns, node: "n1".to_owned(), metric: "znodes".to_owned(), value: at_ns as f64 };
    RunEvent::Samples { samples: (from_ns..from_ns + count).map(sample).collect() }
}

pub(crate) fn trial(step: u32, load: u64) -> Trial {
    Trial {
        arm: 0,
        step,
        trial: 1,
        load,
        started_ns: 1,
        measure_from_ns: 2,
        ended_ns: 3,
        fill_s: 0.1,
        settle_s: 1.5,
        measure_s: 2.0,
        operations: Vec::new(),
        counts: Vec::new(),
        census: std::collections::BTreeMap::new(),
        nodes: std::collections::BTreeMap::new(),
        health: Health::default(),
        incidents: Vec::new(),
        gave_way: false,
        outcome: Outcome::Held,
        stop_code: None,
        rules: Vec::new(),
        remarks: vec!["a \"quoted\" remark".to_owned()],
        action: None,
        holding: false,
    }
}

pub(crate) fn trial_event(step: u32, load: u64) -> RunEvent {
    RunEvent::Trial { trial: Box::new(trial(step, load)), histograms: vec![histogram(step)] }
}

pub(crate) fn histogram(step: u32) -> HistogramRecord {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 60_000_000, 3).unwrap();
    for value in [10, 200, 3_000, 45_000_000] {
        histogram.record(value).unwrap();
    }
    let mut v2_deflate = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut v2_deflate).unwrap();
    let word = str::to_owned;
    HistogramRecord {
        arm: 0,
        step,
        trial: 1,
        unit: 0,
        node: word("n1"),
        stream: word("zookeeper.latencies"),
        operation: word("get"),
        outcome: word("ok"),
        clock: word("due"),
        count: 4,
        v2_deflate,
    }
}

pub(crate) fn verdict(run: RunId) -> Verdict {
    Verdict {
        run_id: run,
        arm: 0,
        status: Status::CapacityFound,
        stop_code: StopCode::ThroughputDrop,
        axis: "domains".to_owned(),
        unit: "domains".to_owned(),
        last_good: Some(10),
        first_bad: Some(20),
        required: None,
        sentence: "It carries 10 domains.".to_owned(),
        reason: None,
        evidence: Vec::new(),
        validity: Validity {
            valid: true,
            reasons: Vec::new(),
            start_lag_p99_us: Some(900),
            missed: 0,
            cpu_share: Some(0.2),
            shared_machine: true,
            closed_loop: None,
        },
        baseline: "step 0, the empty target".to_owned(),
        exit_code: 0,
        actions: Vec::new(),
        goals: Vec::new(),
        holding: None,
        scaling: None,
        interval: None,
        arms: Vec::new(),
        findings: Vec::new(),
        steps: vec![trial(1, 10)],
    }
}
