//! What only a browser can tell: following, focus, contrast, width, the console. Needs chromium, chromedriver and
//! `npm ci`; `RAMPART_NO_BROWSER=1` leaves these tests out.

use std::{process::Stdio, time::Duration};

use fantoccini::{Client, ClientBuilder, Locator, key::Key};
use rampart::model::{Outcome, RunEvent, Sample};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
};

use crate::{
    binary,
    fixture::{self, Made},
    fixture_server, stored,
};

/// Two cores: one browser at a time.
static ONE: Mutex<()> = Mutex::const_new(());

pub(crate) struct Browser {
    pub(crate) client: Client,
    driver: String,
    http: reqwest::Client,
    base: String,
    _driver: Child,
    _profile: Profile,
    _one: MutexGuard<'static, ()>,
}

/// The browser's own folder. A test that fails kills chromedriver, which leaves its browser: that one goes here.
struct Profile(tempfile::TempDir);

impl Drop for Profile {
    fn drop(&mut self) {
        binary::kill_all_with(&self.0.path().display().to_string());
    }
}

pub(crate) fn left_out() -> bool {
    std::env::var_os("RAMPART_NO_BROWSER").is_some()
}

pub(crate) async fn open(base: &str) -> Browser {
    let one = ONE.lock().await;
    let mut child = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("chromedriver is installed, or RAMPART_NO_BROWSER=1");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = loop {
        let line = lines.next_line().await.unwrap().expect("chromedriver tells its port");
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            break rest.trim_end_matches('.').to_owned();
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let driver = format!("http://127.0.0.1:{port}");
    let profile = Profile(tempfile::tempdir().unwrap());
    let arguments = json!([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        format!("--user-data-dir={}", profile.0.path().display()),
    ]);
    let capabilities = json!({
        "browserName": "chrome",
        "goog:chromeOptions": { "binary": "/usr/bin/chromium", "args": arguments },
        "goog:loggingPrefs": { "browser": "ALL" },
    });
    let Value::Object(capabilities) = capabilities else { unreachable!("an object was written") };
    let client = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
        .capabilities(capabilities)
        .connect(&driver)
        .await
        .unwrap();
    let http = reqwest::Client::new();
    Browser { client, driver, http, base: base.to_owned(), _driver: child, _profile: profile, _one: one }
}

impl Browser {
    async fn post(&self, path: &str, body: Value) -> Value {
        let session = self.client.session_id().await.unwrap().unwrap();
        let url = format!("{}/session/{session}/{path}", self.driver);
        let answer: Value = self.http.post(url).json(&body).send().await.unwrap().json().await.unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].clone()
    }

    pub(crate) async fn devtools(&self, command: &str, params: Value) -> Value {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": params })).await
    }

    pub(crate) async fn look(&self, width: u32, dark: bool) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    pub(crate) async fn goto(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.base)).await.unwrap();
    }

    pub(crate) async fn text(&self, css: &str) -> String {
        for _ in 0..20 {
            match self.client.find(Locator::Css(css)).await.unwrap().text().await {
                Ok(text) => return text.replace('\u{202f}', " "),
                // A live page replaced that part between finding and reading it.
                Err(error) if error.is_stale_element_reference() => {}
                Err(error) => panic!("{css}: {error}"),
            }
        }
        panic!("{css} is replaced each time it is read");
    }

    /// Waits a few seconds until a script's answer is true.
    async fn until(&self, script: &str) {
        self.until_within(script, 80).await;
    }

    /// Waits so many tenths of a second until a script's answer is true.
    pub(crate) async fn until_within(&self, script: &str, tenths: usize) {
        for _ in 0..tenths {
            if self.client.execute(&format!("return Boolean({script})"), Vec::new()).await.unwrap() == json!(true) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never true: {script}; console: {:?}", self.console().await);
    }

    pub(crate) async fn console(&self) -> Vec<String> {
        let log = self.post("se/log", json!({ "type": "browser" })).await;
        let lines = log.as_array().cloned().unwrap_or_default();
        lines.iter().filter(|line| line["level"] != "DEBUG").map(|line| line["message"].to_string()).collect()
    }

    /// The whole page as `target/screenshots/NAME.png`.
    pub(crate) async fn screenshot(&self, name: &str) {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/target/screenshots");
        std::fs::create_dir_all(dir).unwrap();
        let what = json!({ "captureBeyondViewport": true, "format": "png" });
        self.picture(what, &std::path::Path::new(dir).join(format!("{name}.png"))).await;
    }

    /// A picture as `Page.captureScreenshot` of the DevTools protocol takes it.
    pub(crate) async fn picture(&self, what: Value, path: &std::path::Path) {
        let taken = self.devtools("Page.captureScreenshot", what).await;
        let decoder = r#"
import base64, sys
open(sys.argv[1], "wb").write(base64.b64decode(sys.stdin.read()))"#;
        let mut child = Command::new("python3").args(["-c", decoder]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stdin, taken["data"].as_str().unwrap().as_bytes()).await.unwrap();
        drop(stdin);
        assert!(child.wait().await.unwrap().success());
    }

    /// What axe-core has against a page.
    pub(crate) async fn faults(&self, place: &str) -> Vec<String> {
        let axe = concat!(env!("CARGO_MANIFEST_DIR"), "/node_modules/axe-core/axe.min.js");
        let axe = std::fs::read_to_string(axe).expect("npm ci has fetched axe-core");
        self.client.execute(&axe, Vec::new()).await.unwrap();
        let script = r#"
            const done = arguments[arguments.length - 1];
            axe.run(document, { resultTypes: ["violations"] }).then(found => done(found.violations.map(v =>
                v.id + ": " + v.nodes.slice(0, 4).map(n => n.target + " " + n.failureSummary).join(" | "))), why => done([String(why)]));"#;
        let found = self.client.execute_async(script, Vec::new()).await.unwrap();
        found.as_array().unwrap().iter().map(|fault| format!("{place}: {fault}")).collect()
    }

    pub(crate) async fn fits(&self, place: &str) {
        let wide =
            self.client.execute("return document.documentElement.scrollWidth - innerWidth", Vec::new()).await.unwrap();
        assert!(wide.as_f64().unwrap() <= 0.0, "{place} is {wide} px too wide");
    }

    pub(crate) async fn close(self) {
        let console = self.console().await;
        self.client.close().await.unwrap();
        assert_eq!(console, Vec::<String>::new(), "the console is empty");
    }
}

fn path(made: &Made) -> String {
    format!("/runs/{}", made.detail.run.id)
}

pub(crate) const CHARTS_TAKEN: &str = "document.querySelectorAll('[data-live]').length && \
    document.querySelectorAll('.drawn.taken').length === document.querySelectorAll('[data-live]').length";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_accessible_fits_and_is_kept_as_a_picture() {
    if left_out() {
        return;
    }
    let runs = fixture::all();
    let mut pages = vec![("runs".to_owned(), "/runs".to_owned())];
    let names = [
        "live",
        "queued",
        "capacity",
        "saturated",
        "inconclusive",
        "invalid",
        "first-load-broke",
        "not-reached",
        "failed",
        "aborted",
        "interrupted",
        "swept",
    ];
    let swept = runs.last().map(|made| format!("{}?arm=4", path(made))).unwrap_or_default();
    pages.push(("arm".to_owned(), swept));
    pages.extend(names.iter().zip(&runs).map(|(name, made)| ((*name).to_owned(), path(made))));
    pages.extend(
        [
            ("scenarios", "/scenarios"),
            ("campaigns", "/campaigns"),
            ("campaign", "/campaigns/one"),
            ("targets", "/targets"),
            ("error", "/runs/nonsense"),
        ]
        .map(|(n, p)| (n.to_owned(), p.to_owned())),
    );
    let base = fixture_server::serve(runs).await;
    let browser = open(&base).await;
    let mut faults = Vec::new();
    for (name, path) in &pages {
        for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
            let place = format!("{name}-{width}-{}", if dark { "dark" } else { "light" });
            browser.look(width, dark).await;
            browser.goto(path).await;
            if matches!(name.as_str(), "live" | "capacity") {
                browser.until(CHARTS_TAKEN).await;
            }
            browser.fits(&place).await;
            faults.extend(browser.faults(&place).await);
            browser.screenshot(&place).await;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The error page answers 404, which a browser writes down.
    let console: Vec<String> = browser.console().await.into_iter().filter(|line| !line.contains("404")).collect();
    assert_eq!(console, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_run_is_followed_to_its_result() {
    if left_out() {
        return;
    }
    let made = fixture::live();
    let now = made.now_ns;
    let stored = stored::serve().await;
    let run = stored.begin(&made).await;
    stored.until(run, |detail| detail.trials.len() == 6 && detail.phase.is_some()).await;
    let browser = open(&stored.base).await;
    browser.look(1280, false).await;
    browser.goto("/").await;
    browser.client.find(Locator::LinkText("saturn-max-load")).await.unwrap().click().await.unwrap();
    browser.until(CHARTS_TAKEN).await;
    assert!(browser.text(".big").await.contains("150 domains, putting the load in place"));

    let send = async |event: RunEvent| stored.tell.send(event).await.unwrap();
    send(RunEvent::Progress { at_ns: now, asked: 150, confirmed: 148 }).await;
    browser.until("document.querySelector('[data-confirmed-text]').textContent.includes('148')").await;
    let at_ns = now + 1_000_000_000;
    let sample = |metric: &str, value| Sample { at_ns, node: fixture::NODE.into(), metric: metric.into(), value };
    let samples = vec![sample("outstanding_requests", 4_242.0), sample("process_cpu_share", 0.875)];
    send(RunEvent::Samples { samples }).await;
    browser.until("[...document.querySelectorAll('[data-reading]')].some(b => b.textContent === '4\\u202f242')").await;
    browser.until("[...document.querySelectorAll('[data-reading]')].some(b => b.textContent === '87.5')").await;
    // A part that the server makes anew knows less than the page has heard: these figures are not stored yet.
    send(RunEvent::Note { at_ns, text: "the parts are made anew".to_owned() }).await;
    browser.until("document.querySelector('[data-part=notes]')?.textContent.includes('made anew')").await;
    assert!(browser.text("[data-confirmed-text]").await.contains("148"));
    assert!(browser.text(".sparks").await.contains("4 242"));

    browser.client.find(Locator::Css("button.danger")).await.unwrap();
    browser.client.execute("document.querySelector('button.danger').focus()", Vec::new()).await.unwrap();
    let step_6 = fixture::trial(6, 1, 700, Outcome::Held);
    send(RunEvent::Trial { trial: Box::new(step_6), histograms: Vec::new() }).await;
    browser.until("document.querySelector('[data-part=steps] tbody th').textContent.startsWith('150 domains')").await;
    browser.until("document.activeElement === document.querySelector('button.danger')").await;
    browser.until(CHARTS_TAKEN).await;

    let verdict = fixture::capacity().detail.verdict.unwrap();
    send(RunEvent::Verdict { at_ns: now, verdict: Box::new(verdict) }).await;
    browser.until("document.querySelector('.verdict .big b')?.textContent === '175'").await;
    assert!(browser.text(".verdict").await.contains("throughput_drop"));
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stop_button_stops() {
    if left_out() {
        return;
    }
    let stored = stored::serve().await;
    let run = stored.begin(&fixture::live()).await;
    stored.until(run, |detail| detail.phase.is_some()).await;
    let browser = open(&stored.base).await;
    browser.goto(&format!("/runs/{run}")).await;
    let button = browser.client.find(Locator::Css("button.danger")).await.unwrap();
    assert_eq!(button.text().await.unwrap(), "Stop and clean up");
    button.click().await.unwrap();
    browser.until("document.querySelector('.verdict .big b')?.textContent === 'Aborted'").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_javascript_nothing_is_missing() {
    if left_out() {
        return;
    }
    let (live, over) = (fixture::live(), fixture::capacity());
    let (live_path, over_path) = (path(&live), path(&over));
    let base = fixture_server::serve(vec![live, over]).await;
    let browser = open(&base).await;
    browser.look(1280, false).await;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
    browser.goto(&over_path).await;
    assert!(browser.text(".verdict .big").await.contains("175"));
    let drawn = browser.client.find_all(Locator::Css("figure .plot.wide")).await.unwrap();
    assert!(drawn.len() >= 10, "{}", drawn.len());
    assert!(drawn[0].is_displayed().await.unwrap());
    assert!(browser.text("#table-target-data table").await.contains("802 006"));
    assert!(browser.client.find_all(Locator::Css("[data-copy]:not([hidden])")).await.unwrap().is_empty());
    browser.screenshot("capacity-1280-no-script").await;
    browser.goto(&live_path).await;
    assert!(browser.text("[data-part=now]").await.contains("141 of 150 domains confirmed"));
    browser.screenshot("live-1280-no-script").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keyboard_reaches_everything_and_shows_where_it_is() {
    if left_out() {
        return;
    }
    let made = fixture::capacity();
    let path = path(&made);
    let base = fixture_server::serve(vec![made]).await;
    let browser = open(&base).await;
    browser.look(1280, false).await;
    browser.goto(&path).await;
    let mut seen = Vec::new();
    for _ in 0..14 {
        browser.client.active_element().await.unwrap().send_keys(&Key::Tab).await.unwrap();
        let script = "const e = document.activeElement, s = getComputedStyle(e);\
            return [e.textContent.trim() || e.getAttribute('aria-label'), s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2]";
        let at = browser.client.execute(script, Vec::new()).await.unwrap();
        assert_eq!(at[1], json!(true), "focus is not visible at {at}");
        seen.push(at[0].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(seen[..5], ["Skip to content", "Rampart", "Runs", "Scenarios", "Campaigns"]);
    assert!(seen.iter().any(|text| text == "Run again"), "{seen:?}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scenario_is_mended_checked_and_started() {
    if left_out() {
        return;
    }
    let stored = stored::serve().await;
    let browser = open(&stored.base).await;
    browser.look(1280, false).await;
    browser.goto("/scenarios").await;
    browser.client.find(Locator::LinkText("saturn-max-load.toml")).await.unwrap().click().await.unwrap();
    browser.until("document.querySelector('[role=status]')?.textContent.includes('No faults')").await;
    let press = async |value: &str| {
        let button = format!("button[value={value}]");
        browser.client.find(Locator::Css(&button)).await.unwrap().click().await.unwrap();
    };
    let change = async |from: &str, to: &str| {
        let script =
            format!("const t = document.querySelector('textarea'); t.value = t.value.replace('{from}', '{to}')");
        browser.client.execute(&script, Vec::new()).await.unwrap();
    };
    change("step = 25", "step = 0").await;
    press("start").await;
    browser.until("document.querySelector('#faults')").await;
    assert!(browser.text("#faults").await.contains("load.step"), "{}", browser.text("#faults").await);
    browser.client.find(Locator::Css("[data-line]")).await.unwrap().click().await.unwrap();
    let chosen = "const t = document.querySelector('textarea'); return t.value.slice(t.selectionStart, t.selectionEnd)";
    assert_eq!(browser.client.execute(chosen, Vec::new()).await.unwrap(), json!("step = 0"));
    browser.screenshot("faults-1280-light").await;
    change("step = 0", "step = 50").await;
    press("check").await;
    browser.until("document.querySelector('[role=status]')?.textContent.includes('0, 25, 75')").await;
    press("start").await;
    browser.until("document.querySelector('[data-run]')").await;
    assert!(browser.text("h1").await.contains("saturn-max-load on local-small"));
    // A refused form answers 422, which a browser writes down.
    let console: Vec<String> = browser.console().await.into_iter().filter(|line| !line.contains("422")).collect();
    assert_eq!(console, Vec::<String>::new());
    browser.close().await;
}
