//! What a person does first, all of it real: the server's binary, a ZooKeeper, a browser. From the empty list of runs
//! over a scenario and its live run to the result and its files.

use std::{collections::BTreeSet, path::Path, time::Duration};

use fantoccini::Locator;
use serde_json::{Value, json};

use crate::{
    binary::{self, Place},
    browser::{self, Browser, CHARTS_TAKEN},
};

/// Charts follow the window a moment later.
const CHARTS_FIT: &str = "[...document.querySelectorAll('.drawn.taken')].every(drawn => \
    Math.abs(drawn.querySelector('.u-wrap').clientWidth - Math.max(240, drawn.clientWidth)) <= 1)";

/// Every phase long enough to be seen by somebody who looks twice a second.
fn scenario() -> String {
    binary::launched("[4, 8, 12]")
        .replace("name = \"small\"", "name = \"journey\"\ndescription = \"A few small domains at rest\"")
        .replace("fill_per_s = 20", "fill_per_s = 1.5")
        .replace("measure_s = 2", "measure_s = 4")
        .replace("count = 20", "count = 100")
        + "[[rule]]\nkind = \"slo_errors\"\nabove = 0.5\n[require]\ncapacity = 5\n"
}

/// Pictures of a page as it stands, at both widths in both themes; what is wrong with it goes to `faults`.
async fn pictures(browser: &Browser, name: &str, charts: bool, faults: &mut Vec<String>) {
    for (width, dark) in [(390, true), (390, false), (1280, true), (1280, false)] {
        browser.look(width, dark).await;
        if charts {
            browser.until_within(CHARTS_TAKEN, 80).await;
            browser.until_within(CHARTS_FIT, 80).await;
        }
        let place = format!("journey-{name}-{width}-{}", if dark { "dark" } else { "light" });
        browser.fits(&place).await;
        browser.screenshot(&place).await;
        faults.extend(browser.faults(&place).await);
    }
}

async fn script(browser: &Browser, script: &str) -> Value {
    browser.client.execute(script, Vec::new()).await.unwrap()
}

/// Follows a live run until a script's answer is true; gives every phase and confirmed count that stood on the page.
async fn follow(browser: &Browser, end: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let look = format!(
        "const text = css => document.querySelector(css)?.textContent ?? '';\
         return [text('.doing'), text('[data-confirmed-text]'), Boolean({end})]"
    );
    let (mut phases, mut confirmed) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..6_000 {
        // The page may be replaced by its result at this very moment.
        if let Ok(seen) = browser.client.execute(&look, Vec::new()).await {
            if seen[2] == json!(true) {
                return (phases, confirmed);
            }
            phases.insert(seen[0].as_str().unwrap_or_default().to_owned());
            confirmed.insert(seen[1].as_str().unwrap_or_default().to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never became a result; seen: {phases:?} {confirmed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_an_empty_list_to_a_result_and_its_files() {
    if browser::left_out() {
        return;
    }
    let place = Place::new(&[]);
    place.scenario("journey.toml", &scenario());
    let server = place.serve(&[]);
    let browser = browser::open(&server.base).await;
    let mut faults = Vec::new();

    browser.look(1280, false).await;
    browser.goto("/").await;
    assert!(browser.text(".empty").await.contains("There is no run yet."));
    pictures(&browser, "empty", false, &mut faults).await;
    browser.client.find(Locator::LinkText("New run")).await.unwrap().click().await.unwrap();
    browser.client.find(Locator::LinkText("journey.toml")).await.unwrap().click().await.unwrap();
    browser.until_within("document.querySelector('[role=status]')?.textContent.includes('No faults')", 80).await;
    assert!(browser.text("[role=status]").await.contains("0, 4, 8, 12 domains"));
    pictures(&browser, "scenario", false, &mut faults).await;
    browser.client.find(Locator::Css("button[value=start]")).await.unwrap().click().await.unwrap();

    browser.until_within("document.querySelector('[data-run]')", 80).await;
    assert_eq!(browser.text("h1").await, "journey on tiny");
    let two_steps = "document.querySelector('[data-part=steps]')?.textContent.includes('8 domains')";
    let (phases, confirmed) = follow(&browser, two_steps).await;
    pictures(&browser, "live", true, &mut faults).await;
    let ladder = "return document.querySelector('[data-part=ladder] figure')?.textContent ?? ''";
    assert!(script(&browser, ladder).await.as_str().unwrap().contains("12"), "the ladder stands on the page");
    follow(&browser, "document.querySelector('.verdict')").await;
    for phase in ["putting the load in place", "settling", "measuring"] {
        assert!(phases.contains(phase), "no {phase:?} in {phases:?}");
    }
    assert!(confirmed.iter().all(|text| !text.contains('.')), "domains come whole: {confirmed:?}");
    let growing = confirmed.iter().filter(|text| text.ends_with("of 8 domains confirmed")).count();
    assert!(growing >= 2, "confirmed counts change: {confirmed:?}");

    let path = browser.client.current_url().await.unwrap().path().to_owned();
    browser.until_within("document.querySelector('.verdict .big b')?.textContent === '12'", 80).await;
    let sentence = browser.text(".verdict .sentence").await;
    assert!(
        sentence.starts_with("At least 12 domains hold") && sentence.ends_with("required 5 domains."),
        "{sentence}"
    );
    // 12 domains of this size: znodes and sessions as the server counted them.
    let run = server.run(path.trim_start_matches("/runs/")).await;
    let last = run["trials"].as_array().unwrap().last().unwrap();
    for count in last["counts"].as_array().unwrap() {
        let (expected, observed) = (count["expected"].as_f64().unwrap(), count["observed"].as_f64().unwrap());
        let tolerance = count["tolerance"].as_f64().unwrap();
        assert!((observed - expected).abs() <= tolerance, "the server confirms the load: {count}");
    }
    let cells = script(
        &browser,
        "return ['target-data', 'operations', 'load'].map(name => [...document.querySelectorAll(`#table-${name} td`)]\
         .filter(cell => /^[0-9\u{202f}.]+/.test(cell.textContent.trim())).length)",
    )
    .await;
    assert!(cells[0].as_u64().unwrap() >= 15 && cells[1].as_u64().unwrap() >= 12, "tables have numbers: {cells}");
    let words = script(&browser, "return document.querySelector('main').innerText").await;
    assert!(!words.as_str().unwrap().contains("${"), "a version with what its build forgot to fill in");
    for nonsense in ["NaN", "undefined", "null", "inf", "None"] {
        let found = words.as_str().unwrap().split(|sign: char| !sign.is_alphanumeric()).any(|word| word == nonsense);
        assert!(!found, "{nonsense} stands on the page");
    }
    pictures(&browser, "result", true, &mut faults).await;

    let links =
        script(&browser, "return [...document.querySelectorAll('.links a')].map(a => a.getAttribute('href'))").await;
    let links: Vec<&str> = links.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(links.len() >= 4, "{links:?}");
    for link in links {
        let file = server.text(link).await.replace('\u{202f}', " ");
        let rows: Vec<&str> = file.lines().filter(|line| line.contains("12")).collect();
        assert!(!rows.is_empty(), "{link}: {file}");
        if link.ends_with(".csv") {
            let columns = file.lines().next().unwrap().split(',').count();
            assert!(columns > 3 && file.lines().count() > 1, "{link}: {file}");
        } else {
            assert!(file.contains("| ---") || file.contains("|---") || file.contains("| :"), "{link}: {file}");
        }
    }
    browser.goto("/runs").await;
    assert!(browser.text("tbody").await.contains("at least 12 domains"));
    pictures(&browser, "runs", false, &mut faults).await;
    browser.goto("/targets").await;
    pictures(&browser, "targets", false, &mut faults).await;
    browser.close().await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(place.left_over(), Vec::<String>::new());
}

/// `RAMPART_README_PICTURE=1 cargo test --test it journey::the_picture`: runs the demonstration to its verdict (some
/// minutes) and writes `docs/result-page.png`, the upper part of its page. Left out otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_picture_of_the_readme() {
    if std::env::var_os("RAMPART_README_PICTURE").is_none() {
        return;
    }
    let place = Place::new(&[]);
    let server = place.serve(&[]);
    let demo = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/demo.toml")).unwrap();
    // A few steps fewer than the demonstration, so that all stand well beside each other.
    let demo = demo.replace("start = 5\n", "start = 8\n").replace("step = 5\n", "step = 8\n");
    let id = server.submit(&demo).await;
    // The demonstration takes longer than what tests may hang.
    tokio::time::timeout(Duration::from_secs(1_200), async {
        while server.run(&id).await["run"]["state"] == "running" || server.run(&id).await["run"]["state"] == "queued" {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(server.run(&id).await["run"]["status"], "capacity_found", "{}", server.run(&id).await["run"]);
    let browser = browser::open(&server.base).await;
    browser.look(1280, false).await;
    browser.goto(&format!("/runs/{id}")).await;
    browser.until_within(CHARTS_TAKEN, 80).await;
    let mut faults = Vec::new();
    pictures(&browser, "demo", true, &mut faults).await;
    let end = "return document.querySelector('#table-target-data table').getBoundingClientRect().bottom + scrollY";
    let height = script(&browser, end).await.as_f64().unwrap().min(1_600.0);
    let clip = json!({ "x": 0, "y": 0, "width": 1280, "height": height.round(), "scale": 1 });
    let what = json!({ "format": "png", "clip": clip, "captureBeyondViewport": true });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result-page.png");
    browser.picture(what, Path::new(path)).await;
    let size = std::fs::metadata(path).unwrap().len();
    assert!(size < 300_000, "the picture has {size} bytes");
    browser.close().await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
