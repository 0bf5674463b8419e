//! The pages over a real store, with a scripted engine behind the runs.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use rampart::{
    config::Config,
    launch::Recipe,
    model::{RunEvent, RunId, Sample, Verdict},
    runs::{AskedBy, Runs, Seams},
    scenario::{Origin, Scenario},
    store::{self, Store},
    web::{self, AppState},
};
use tokio::sync::{Mutex, mpsc};

use crate::fixture::Made;

/// A server whose engine tells what the test sends to it.
pub struct Stored {
    pub base: String,
    pub state: AppState,
    /// What the live run tells next. Dropping it ends a run that waits.
    pub tell: mpsc::Sender<RunEvent>,
    _dir: tempfile::TempDir,
}

pub const SCENARIO: &str = include_str!("stored.toml");

pub async fn serve() -> Stored {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("scenarios")).unwrap();
    std::fs::write(dir.path().join("scenarios/saturn-max-load.toml"), SCENARIO).unwrap();
    let mut config = Config::load(None).unwrap();
    config.server.scenarios = dir.path().join("scenarios");
    let store = Store::open(&dir.path().join("rampart.db")).await.unwrap();
    let (tell, told) = mpsc::channel::<RunEvent>(64);
    let told = Arc::new(Mutex::new(told));
    let engine = move |_plan,
                       run: RunId,
                       events: mpsc::Sender<RunEvent>,
                       cancel: tokio_util::sync::CancellationToken| {
        let told = Arc::clone(&told);
        let script = async move {
            let mut told = told.lock().await;
            loop {
                let event = tokio::select! {
                    event = told.recv() => event,
                    () = cancel.cancelled() => None,
                };
                let last = match event {
                    Some(RunEvent::Verdict { at_ns, verdict }) => {
                        let verdict = Verdict { run_id: run, ..*verdict };
                        events.send(RunEvent::Verdict { at_ns, verdict: Box::new(verdict.clone()) }).await.unwrap();
                        Some(verdict)
                    }
                    Some(event) => {
                        events.send(event).await.unwrap();
                        None
                    }
                    None => {
                        let verdict = Verdict { run_id: run, ..crate::fixture::aborted().detail.verdict.unwrap() };
                        events.send(RunEvent::Verdict { at_ns: 0, verdict: Box::new(verdict.clone()) }).await.unwrap();
                        Some(verdict)
                    }
                };
                if let Some(verdict) = last {
                    return verdict;
                }
            }
        };
        Box::pin(script) as futures::future::BoxFuture<'static, Verdict>
    };
    let seams = Seams { engine: Arc::new(engine), ..Seams::default() };
    let config = Arc::new(config);
    let runs = Runs::with(store.clone(), Arc::clone(&config), seams);
    let state = AppState { store, runs, config };
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let app = web::app(state.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    Stored { base, state, tell, _dir: dir }
}

/// Everything that a fixture's run told until its verdict, in the order of time, with its series cut into seconds.
pub fn told(made: &Made) -> Vec<RunEvent> {
    let detail = &made.detail;
    let mut all = Vec::new();
    if let Some(inventory) = detail.inventory.clone() {
        all.push(RunEvent::Inventory { at_ns: detail.run.created_ns, inventory: Box::new(inventory) });
    }
    let mut seconds: BTreeMap<i64, Vec<Sample>> = BTreeMap::new();
    for series in &made.series {
        for (at_ns, value) in &series.points {
            let sample =
                Sample { at_ns: *at_ns, node: series.node.clone(), metric: series.metric.clone(), value: *value };
            seconds.entry(at_ns / 10_000_000_000).or_default().push(sample);
        }
    }
    all.extend(seconds.into_values().map(|samples| RunEvent::Samples { samples }));
    let trials = detail.trials.iter().cloned();
    all.extend(trials.map(|trial| RunEvent::Trial { trial: Box::new(trial), histograms: Vec::new() }));
    if let Some(phase) = &detail.phase {
        all.push(RunEvent::Phase {
            at_ns: phase.since_ns,
            phase: phase.phase,
            arm: 0,
            step: phase.step,
            trial: phase.trial,
            load: phase.load,
            until_ns: phase.until_ns,
        });
    }
    all
}

impl Stored {
    /// Asks for a run and lets it tell all of a fixture.
    pub async fn begin(&self, made: &Made) -> RunId {
        let run = self.state.runs.submit(SCENARIO, AskedBy::Page, None).await.unwrap().id;
        for event in told(made) {
            self.tell.send(event).await.unwrap();
        }
        run
    }

    /// Waits until a run's detail looks as wanted.
    pub async fn until(&self, run: RunId, wanted: impl Fn(&store::RunDetail) -> bool) {
        for _ in 0..200 {
            if self.state.store.detail(run).await.unwrap().is_some_and(|detail| wanted(&detail)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        }
        panic!("the run never looked as wanted");
    }
}

#[test]
fn the_scenario_of_these_tests_has_no_fault() {
    let config = Config::load(None).unwrap();
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let surroundings = rampart::scenario::Surroundings { open_files: Some(100_000), ..Default::default() };
    rampart::scenario::plan(&scenario, &config, Origin::Network, &surroundings).unwrap();
    let _: &BTreeMap<String, Recipe> = &config.recipes;
}

async fn get(stored: &Stored, path: &str) -> (u16, String) {
    let answer = reqwest::get(format!("{}{path}", stored.base)).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap().replace('\u{202f}', " "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_run_reads_back_on_its_pages() {
    let stored = serve().await;
    let made = crate::fixture::capacity();
    let run = stored.begin(&made).await;
    let verdict = Box::new(made.detail.verdict.clone().unwrap());
    stored.tell.send(RunEvent::Verdict { at_ns: made.now_ns, verdict }).await.unwrap();
    stored.until(run, |detail| detail.run.state.is_over()).await;

    let (status, page) = get(&stored, &format!("/runs/{run}")).await;
    assert_eq!(status, 200);
    for wanted in ["<b>175</b>", "802 006", "chart-judged", "chart-outstanding", "maxClientCnxns"] {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    let (_, list) = get(&stored, "/runs?status=capacity_found").await;
    assert!(list.contains(&run.to_string()) && list.contains("175 domains"), "{list}");
    let (_, none) = get(&stored, "/runs?status=failed").await;
    assert!(none.contains("No run fits these filters."));
    let (_, table) = get(&stored, &format!("/runs/{run}/tables/target-data.md")).await;
    assert!(table.contains("| 200 domains broke | 802 006 (+100 250) |"), "{table}");
    let (_, csv) = get(&stored, &format!("/runs/{run}/tables/operations.csv")).await;
    assert!(csv.starts_with("step,load_domains,outcome,stream,node,operation,ops_per_s,"), "{csv}");
    let (status, svg) = get(&stored, &format!("/runs/{run}/charts/judged.svg")).await;
    assert!(status == 200 && svg.starts_with("<svg") && svg.contains("prefers-color-scheme"));
    let (status, missing) = get(&stored, &format!("/runs/{run}/tables/nothing.md")).await;
    assert!(status == 404 && missing.contains("target-data, operations, load"), "{missing}");
    let (status, missing) = get(&stored, "/nowhere").await;
    assert!(status == 404 && missing.contains("There is nothing at /nowhere"), "{missing}");
    let (status, _) = get(&stored, "/").await;
    assert_eq!(status, 200, "the first page leads to the runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assets_are_kept_by_their_hash_and_pages_are_guarded() {
    let stored = serve().await;
    let answer = reqwest::get(format!("{}/runs", stored.base)).await.unwrap();
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe-inline"), "{policy}");
    let page = answer.text().await.unwrap();
    let at = page.find("/static/app.css?v=").unwrap();
    let url = page[at..].split('"').next().unwrap();
    let css = reqwest::get(format!("{}{url}", stored.base)).await.unwrap();
    assert!(css.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    let tag = css.headers()["etag"].clone();
    let again = reqwest::Client::new().get(format!("{}/static/app.css", stored.base)).header("if-none-match", tag);
    assert_eq!(again.send().await.unwrap().status(), 304);
    assert_eq!(reqwest::get(format!("{}/static/../Cargo.toml", stored.base)).await.unwrap().status(), 404);
}
