//! Campaigns on a server with a real database and a scripted engine: which run follows on which, and the report of all.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use rampart::{
    model::{RunEvent, Status, StopCode, Verdict},
    scenario::Scenario,
};

use crate::app::{SCENARIO, Stage, TestApp, other_scenario, trial_event, verdict, within};

fn campaign() -> String {
    let part = |text: &str| format!("[[part]]\ntext = '''{text}'''\n");
    let free = SCENARIO.replace("demo", "free");
    format!(
        "name = \"all\"\n{}{}load = \"capacity of demo\"\nshare = 0.5\n{}",
        part(SCENARIO),
        part(&other_scenario()),
        part(&free)
    )
}

async fn asked(app: &TestApp) -> String {
    let answer = app.post("/api/v1/campaigns", "application/toml", &campaign()).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.headers[header::LOCATION], format!("/api/v1/campaigns/{id}"));
    id
}

/// The next run, with the scenario that it has.
async fn next(app: &TestApp) -> (Stage, Scenario) {
    let stage = app.stage().await;
    let text = app.store().detail(stage.run).await.unwrap().unwrap().scenario_text;
    (stage, Scenario::parse(&text).unwrap())
}

async fn end_with(stage: Stage, verdict: Verdict) {
    stage.say(trial_event(1, 10)).await;
    stage.say(RunEvent::Verdict { at_ns: 9_000, verdict: Box::new(verdict) }).await;
    stage.end_silently();
}

/// Waits until no part waits any more.
async fn parts(app: &TestApp, id: &str) -> Vec<serde_json::Value> {
    within(async {
        loop {
            let json = app.get(&format!("/api/v1/campaigns/{id}")).await.json();
            let parts = json["parts"].as_array().unwrap().clone();
            if parts.iter().all(|part| !part["run"].is_null() || !part["why"].is_null()) {
                return parts;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_part_runs_at_the_share_of_what_an_earlier_one_carried_and_one_report_has_all() {
    let app = TestApp::new().await;
    let id = asked(&app).await;
    let (first, scenario) = next(&app).await;
    assert_eq!((scenario.name.as_str(), scenario.ladder.loads()), ("demo", vec![10, 20]));
    let run = first.run;
    end_with(first, verdict(run)).await;
    let (second, scenario) = next(&app).await;
    assert_eq!((scenario.name.as_str(), scenario.ladder.loads()), ("other", vec![5]), "half of 10");
    let run = second.run;
    end_with(second, verdict(run)).await;
    let (third, scenario) = next(&app).await;
    assert_eq!((scenario.name.as_str(), scenario.ladder.loads()), ("free", vec![10, 20]));
    let half_way = app.get(&format!("/campaigns/{id}")).await.text;
    assert!(half_way.contains("http-equiv=\"refresh\"") && half_way.contains("The run is running."), "{half_way}");
    let run = third.run;
    end_with(third, verdict(run)).await;
    assert_eq!(parts(&app, &id).await.len(), 3);

    let report = app.get(&format!("/campaigns/{id}.md")).await;
    assert!(report.headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/markdown"));
    for words in [
        "# all",
        "## demo",
        "## other",
        "at 50 % of the capacity of demo",
        "It carries 10 domains.",
        "### Target at each step",
    ] {
        assert!(report.text.contains(words), "{words}: {}", report.text);
    }
    let page = app.get(&format!("/campaigns/{id}")).await.text;
    assert!(page.contains("<h2 id=\"part-2\">other</h2>") && page.contains("<table"), "{page}");
    let list = app.get("/campaigns").await.text;
    assert!(list.contains("3 of 3 parts begun") && list.contains(&format!("/campaigns/{id}")), "{list}");
}

#[tokio::test]
async fn a_part_without_a_load_is_left_out_with_its_reason_and_the_next_goes_on() {
    let app = TestApp::new().await;
    let id = asked(&app).await;
    let (first, _) = next(&app).await;
    let none = Verdict {
        status: Status::Failed,
        last_good: None,
        sentence: "The target died.".to_owned(),
        ..verdict(first.run)
    };
    end_with(first, none).await;
    let (second, scenario) = next(&app).await;
    assert_eq!(scenario.name, "free");
    second.finish().await;
    let parts = parts(&app, &id).await;
    assert_eq!(parts[1]["why"], "demo found no capacity: The target died.");
    let report = app.get(&format!("/campaigns/{id}.md")).await.text;
    assert!(report.contains("Not run: demo found no capacity"), "{report}");
}

#[tokio::test]
async fn who_stops_a_part_stops_the_campaign() {
    let app = TestApp::new().await;
    let id = asked(&app).await;
    let (first, _) = next(&app).await;
    let run = first.run;
    app.post(&format!("/api/v1/runs/{run}/cancel"), "application/json", "").await;
    within(first.cancel.cancelled()).await;
    let stopped = Verdict { status: Status::Aborted, stop_code: StopCode::UserAbort, ..verdict(run) };
    end_with(first, stopped).await;
    let parts = parts(&app, &id).await;
    assert_eq!(
        (parts[1]["why"].as_str(), parts[2]["why"].as_str()),
        (Some("someone stopped demo"), Some("someone stopped demo"))
    );
}

#[tokio::test]
async fn a_restart_takes_an_unfinished_campaign_on() {
    let app = TestApp::new().await;
    let id = asked(&app).await;
    let (first, _) = next(&app).await;
    let run = first.run;
    end_with(first, verdict(run)).await;
    let (second, _) = next(&app).await;
    let dir = Arc::clone(&app.dir);
    app.runs().drain_within(std::time::Duration::ZERO).await;
    drop((second, app));
    let app = TestApp::on(dir).await;
    app.runs().recover().await.unwrap();
    app.runs().drive_unfinished_campaigns().await.unwrap();
    // The second was interrupted and is not measured again; the third does not need it.
    let (third, scenario) = next(&app).await;
    assert_eq!(scenario.name, "free");
    third.finish().await;
    assert!(parts(&app, &id).await.iter().all(|part| part["why"].is_null()));
}

#[tokio::test]
async fn what_is_wrong_is_told_to_programs_and_to_people() {
    let app = TestApp::new().await;
    let wrong = "name = \"a\"\n[[part]]\nscenario = \"../../etc/passwd\"\n";
    let answer = app.post("/api/v1/campaigns", "application/toml", wrong).await;
    let problem = answer.problem();
    assert_eq!((answer.status, &problem["errors"][0]["line"]), (StatusCode::BAD_REQUEST, &3.into()));
    assert!(answer.text.contains("the server's folder does not have"), "{}", answer.text);
    let form = format!("campaign={}", wrong.replace('\n', "%0A").replace(' ', "+").replace('=', "%3D"));
    let answer = app.post("/campaigns", "application/x-www-form-urlencoded", &form).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.text);
    assert!(answer.text.contains("part[0].scenario") && answer.text.contains("etc/passwd"), "{}", answer.text);
    for path in ["/campaigns/none", "/api/v1/campaigns/0190a000-0000-7000-8000-000000000000"] {
        assert_eq!(app.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert!(app.get("/campaigns").await.text.contains("There is no campaign yet"));
}

#[test]
fn the_ready_made_campaigns_have_no_fault() {
    for name in ["saturn", "saturn-small"] {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("campaigns");
        let text = std::fs::read_to_string(root.join(format!("{name}.toml"))).unwrap();
        let open = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|error| error.to_string());
        assert_eq!(rampart::scenario::Campaign::parse(&text, &open).unwrap().parts.len(), 4);
    }
}
