//! The API as programs see it.

use axum::{body::Body, http::header};
use rampart::{
    model::RunId,
    web::{self, BODY_LIMIT_BYTES, ServeError},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::{
    Answer, SCENARIO, TestApp, hear, hear_end, histogram, other_scenario, request, samples, trial_event, within,
};

const TOML: &str = "application/toml";

/// A run that has measured and is over.
async fn finished(app: &TestApp) -> RunId {
    let (id, stage, mut follower) = app.live().await;
    stage.say(samples(0, 500)).await;
    stage.say(trial_event(1, 10)).await;
    stage.finish().await;
    hear_end(&mut follower).await;
    id
}

fn field(answer: &Answer) -> String {
    assert_eq!(answer.status, 400, "{}", answer.text);
    answer.problem()["errors"][0]["field"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_run_is_accepted_with_its_location() {
    let app = TestApp::new().await;
    let answer = app.post("/api/v1/runs", TOML, SCENARIO).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let body = answer.json();
    let location = answer.headers[header::LOCATION].to_str().unwrap();
    assert_eq!(location, format!("/api/v1/runs/{}", body["run"]["id"].as_str().unwrap()));
    assert_eq!(body["links"]["self"], location);
    assert_eq!(body["run"]["origin"], "api");
    let run = app.get(location).await.json();
    assert_eq!(run["outline"]["ladder"], serde_json::json!([0, 10, 20]));
    for link in ["events", "cancel", "verdict", "html"] {
        assert!(body["links"][link].as_str().unwrap().contains(body["run"]["id"].as_str().unwrap()), "{link}");
    }
}

#[tokio::test]
async fn a_scenario_comes_as_toml_as_json_or_by_name() {
    let app = TestApp::new().await;
    let folder = &app.state.config.server.scenarios;
    std::fs::create_dir(folder).unwrap();
    std::fs::write(folder.join("demo.toml"), SCENARIO).unwrap();
    std::fs::write(folder.join("broken.toml"), "name = 1").unwrap();
    std::fs::write(app.dir.path().join("secret.toml"), SCENARIO).unwrap();
    let json = |value: serde_json::Value| value.to_string();
    for (kind, body) in [
        (TOML, SCENARIO.to_owned()),
        ("text/plain; charset=utf-8", SCENARIO.to_owned()),
        ("application/json", json(serde_json::json!({"scenario": SCENARIO}))),
        ("application/json", json(serde_json::json!({"scenario_name": "demo"}))),
    ] {
        let answer = app.post("/api/v1/scenarios/check", kind, &body).await;
        assert_eq!(answer.status, 200, "{kind}: {}", answer.text);
        assert_eq!(answer.json()["scenario"], "demo");
    }
    for (body, at) in [
        (r#"{"scenario_name": "../secret"}"#, "scenario_name"),
        (r#"{"scenario_name": "other"}"#, "scenario_name"),
        (r#"{"scenario_name": 5}"#, "scenario_name"),
        ("{}", "body"),
        (r#"{"scenario": "", "scenario_name": "demo"}"#, "body"),
    ] {
        assert_eq!(field(&app.post("/api/v1/runs", "application/json", body).await), at, "{body}");
    }
    let list = app.get("/api/v1/scenarios").await.json();
    let names: Vec<_> = list["scenarios"].as_array().unwrap().iter().map(|file| file["name"].clone()).collect();
    assert_eq!(names, ["broken", "demo"]);
    assert_eq!(list["scenarios"][0]["faults"][0]["line"], 1);
    assert_eq!(list["scenarios"][1]["outline"]["target"], "staging");
}

#[tokio::test]
async fn a_bad_scenario_is_a_problem_with_line_and_field() {
    let app = TestApp::new().await;
    let bad = SCENARIO.replace("levels = [10, 20]", "levels = [10, 20]\nspeed = 5");
    for path in ["/api/v1/runs", "/api/v1/scenarios/check"] {
        let answer = app.post(path, TOML, &bad).await;
        assert_eq!(field(&answer), "load.speed");
        let problem = answer.problem();
        assert_eq!(problem["type"], "/problems/scenario");
        assert_eq!(problem["errors"][0]["line"], 10);
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("levels"), "names what is allowed");
    }
}

#[tokio::test]
async fn an_idempotency_key_makes_a_request_count_once() {
    let app = TestApp::new().await;
    let post = async |key: &str, body: &str| {
        let request = request("POST", "/api/v1/runs").header(header::CONTENT_TYPE, TOML);
        app.send(request.header("Idempotency-Key", key).body(Body::from(body.to_owned())).unwrap()).await
    };
    let (first, again) = (post("k1", SCENARIO).await, post("k1", SCENARIO).await);
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 202));
    assert_eq!(first.headers[header::LOCATION], again.headers[header::LOCATION]);
    assert_eq!((first.json()["existing"].clone(), again.json()["existing"].clone()), (false.into(), true.into()));
    let reused = post("k1", &other_scenario()).await;
    assert_eq!(reused.status, 422);
    assert_eq!(reused.problem()["type"], "/problems/idempotency-key");
    assert_eq!(field(&post(&"k".repeat(201), SCENARIO).await), "Idempotency-Key");
    assert_eq!(app.get("/api/v1/runs").await.json()["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn waiting_answers_when_the_run_is_over() {
    let app = TestApp::new().await;
    let (id, stage, _) = app.live().await;
    let path = format!("/api/v1/runs/{id}?wait=5m");
    let (answer, ()) = tokio::join!(app.get(&path), stage.finish());
    assert_eq!(answer.json()["run"]["state"], "finished");
    assert_eq!(field(&app.get(&format!("/api/v1/runs/{id}?wait=soon")).await), "wait");
}

#[tokio::test]
async fn cancelling_answers_whether_it_is_over() {
    let app = TestApp::new().await;
    let (live, stage, mut follower) = app.live().await;
    let queued = app.submit().await;
    let cancel = async |id: RunId| app.post(&format!("/api/v1/runs/{id}/cancel"), TOML, "").await;
    let answer = cancel(queued).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["stopping"]), (200, &false.into()));
    let answer = cancel(live).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["stopping"]), (202, &true.into()));
    stage.finish().await;
    hear_end(&mut follower).await;
    assert_eq!(cancel(live).await.status, 200);
    assert_eq!(cancel(RunId::new()).await.status, 404);
}

#[tokio::test]
async fn a_verdict_is_there_when_the_run_is_over() {
    let app = TestApp::new().await;
    let (id, stage, mut follower) = app.live().await;
    let path = format!("/api/v1/runs/{id}/verdict");
    let early = app.get(&path).await;
    assert_eq!(early.status, 404);
    assert!(early.problem()["detail"].as_str().unwrap().contains("no verdict yet"));
    stage.finish().await;
    hear_end(&mut follower).await;
    let verdict = app.get(&path).await.json();
    assert_eq!((&verdict["stop_code"], &verdict["last_good"]), (&"throughput_drop".into(), &10.into()));
    let (id, stage, mut follower) = app.live().await;
    stage.panic();
    hear_end(&mut follower).await;
    let never = app.get(&format!("/api/v1/runs/{id}/verdict")).await.problem();
    assert!(never["detail"].as_str().unwrap().contains("the script says so"), "{never}");
}

#[tokio::test]
async fn steps_samples_and_histograms_of_a_run() {
    let app = TestApp::new().await;
    let id = finished(&app).await;
    let at = |rest: &str| format!("/api/v1/runs/{id}/{rest}");
    assert_eq!(app.get(&at("steps")).await.json()["trials"][0]["load"], 10);
    let series = app.get(&at("samples?metric=znodes,watches&max_points=20")).await.json();
    assert_eq!(series["series"].as_array().unwrap().len(), 1);
    assert!(series["series"][0]["points"].as_array().unwrap().len() <= 20);
    assert_eq!(field(&app.get(&at("samples?metric=speed")).await), "metric");
    assert_eq!(field(&app.get(&at("samples?max_points=1")).await), "max_points");
    let list = app.get(&at("histograms")).await.json();
    assert_eq!((&list["histograms"][0]["operation"], &list["histograms"][0]["count"]), (&"get".into(), &4.into()));
    assert!(list["histograms"][0]["v2_deflate_base64"].is_null());
    let whole = app.get(&at("histograms?step=1&contents=true")).await.json();
    let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, histogram(1).v2_deflate);
    assert_eq!(whole["histograms"][0]["v2_deflate_base64"], text);
    assert_eq!(field(&app.get(&at("histograms?contents=true")).await), "step");
    for path in ["steps", "samples", "histograms", "verdict"] {
        assert_eq!(app.get(&format!("/api/v1/runs/{}/{path}", RunId::new())).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn lists_are_paged_without_gap_or_repeat() {
    let app = TestApp::new().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, app.submit().await.to_string());
    }
    let mut path = "/api/v1/runs?limit=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = app.get(&path).await.json();
        seen.extend(page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/runs?limit=2&before={next}");
    }
    assert_eq!(seen, ids);
    for (query, at) in [("limit=0", "limit"), ("state=gone", "state"), ("status=x", "status"), ("before=x", "before")] {
        assert_eq!(field(&app.get(&format!("/api/v1/runs?{query}")).await), at);
    }
    assert_eq!(field(&app.get("/api/v1/runs?colour=red").await), "query");
}

#[tokio::test]
async fn other_origins_and_hosts_are_refused() {
    let app = TestApp::new().await;
    let evil = request("POST", "/api/v1/runs")
        .header(header::CONTENT_TYPE, "text/plain")
        .header(header::ORIGIN, "http://evil.example")
        .body(Body::from(SCENARIO));
    let answer = app.send(evil.unwrap()).await;
    assert_eq!((answer.status.as_u16(), &answer.problem()["type"]), (403, &"/problems/forbidden".into()));
    let cross = request("POST", "/api/v1/runs")
        .header(header::CONTENT_TYPE, "text/plain")
        .header("Sec-Fetch-Site", "cross-site")
        .body(Body::from(SCENARIO));
    assert_eq!(app.send(cross.unwrap()).await.status, 403);
    assert!(app.store().list(&Default::default()).await.unwrap().is_empty(), "nothing was begun");
    let own = request("POST", "/api/v1/runs")
        .header(header::CONTENT_TYPE, TOML)
        .header(header::ORIGIN, "http://localhost:7117")
        .body(Body::from(SCENARIO));
    assert_eq!(app.send(own.unwrap()).await.status, 202);
    let rebound = axum::http::Request::get("/api/v1/runs").header(header::HOST, "evil.example:7117");
    let answer = app.send(rebound.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 403);
    assert!(!answer.text.contains("\"runs\""));
}

#[tokio::test]
async fn bodies_have_a_limit_and_a_type() {
    let app = TestApp::new().await;
    let large = app.post("/api/v1/runs", TOML, &"#".repeat(BODY_LIMIT_BYTES + 1)).await;
    assert_eq!((large.status.as_u16(), &large.problem()["type"]), (413, &"/problems/too-large".into()));
    let xml = app.post("/api/v1/runs", "application/xml", "<a/>").await;
    assert_eq!(xml.status, 415);
    assert!(xml.problem()["detail"].as_str().unwrap().contains("application/toml"), "names what is allowed");
}

#[tokio::test]
async fn one_error_two_renderings() {
    let app = TestApp::new().await;
    assert_eq!(app.get("/api/v1/nothing").await.problem()["title"], "Not found");
    assert_eq!(app.get("/api/v1/runs/not-a-run").await.problem()["title"], "Not found");
    let page = app.get("/nothing/a&b").await;
    assert_eq!(page.status, 404);
    assert!(page.headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
    assert!(page.text.contains("a&#38;b"), "{}", page.text);
    let method = app.send(request("DELETE", "/api/v1/runs").body(Body::empty()).unwrap()).await;
    assert_eq!((method.status.as_u16(), &method.problem()["type"]), (405, &"/problems/method".into()));
}

#[tokio::test]
async fn every_answer_carries_the_guarding_headers() {
    let app = TestApp::new().await;
    for path in ["/healthz", "/api/v1/targets", "/nothing"] {
        let headers = app.get(path).await.headers;
        assert!(
            headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("frame-ancestors 'none'"),
            "{path}"
        );
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
    }
}

#[tokio::test]
async fn targets_are_listed_without_addresses_or_credentials() {
    let app = TestApp::new().await;
    let answer = app.get("/api/v1/targets").await;
    assert_eq!(
        answer.json()["targets"],
        serde_json::json!([{"name": "sim", "kind": "sim"}, {"name": "staging", "kind": "zookeeper"}])
    );
    assert!(answer.json()["recipes"].as_array().is_some_and(|recipes| !recipes.is_empty()));
}

#[tokio::test]
async fn the_description_lists_every_route() {
    let app = TestApp::new().await;
    let description = app.get("/api/v1/openapi.json").await.json();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut operations: Vec<String> = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        operations.extend(item.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
    }
    operations.sort();
    let expected = [
        "get /api/v1/campaigns",
        "get /api/v1/campaigns/{id}",
        "get /api/v1/runs",
        "get /api/v1/runs/{id}",
        "get /api/v1/runs/{id}/compare/{other}",
        "get /api/v1/runs/{id}/events",
        "get /api/v1/runs/{id}/histograms",
        "get /api/v1/runs/{id}/samples",
        "get /api/v1/runs/{id}/steps",
        "get /api/v1/runs/{id}/verdict",
        "get /api/v1/scenarios",
        "get /api/v1/targets",
        "get /healthz",
        "post /api/v1/campaigns",
        "post /api/v1/runs",
        "post /api/v1/runs/{id}/cancel",
        "post /api/v1/scenarios/check",
    ];
    assert_eq!(operations, expected);
    // What is described is there: a path that is not has another problem than an unknown run.
    let id = app.submit().await;
    for operation in
        operations.iter().filter(|operation| operation.starts_with("get") && !operation.ends_with("events"))
    {
        let path = operation.trim_start_matches("get ").replace("{id}", &id.to_string());
        let answer = app.get(&path).await;
        assert!(!answer.text.contains("there is nothing at"), "{operation}: {}", answer.text);
    }
    for reference in description.to_string().split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(description["components"]["schemas"][name].is_object(), "{name} is not described");
    }
}

#[tokio::test]
async fn a_server_serves_until_it_is_told_to_stop() {
    let app = TestApp::new().await;
    let (_, stage, mut follower) = app.live().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = tokio::spawn(web::run(listener, app.state.clone(), stop.clone()));
    let base = format!("http://{address}");
    let health = within(reqwest::get(format!("{base}/healthz"))).await.unwrap();
    assert_eq!(health.text().await.unwrap(), "ok");
    let id = stage.run;
    let mut events = within(reqwest::get(format!("{base}/api/v1/runs/{id}/events"))).await.unwrap();
    stop.cancel();
    within(stage.cancel.cancelled()).await;
    stage.finish().await;
    hear(&mut follower, "verdict").await;
    within(server).await.unwrap().unwrap();
    let mut text = String::new();
    while let Some(chunk) = within(events.chunk()).await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(text.contains("\"kind\":\"verdict\"") && text.contains("\"kind\":\"end\""), "{text}");
}

#[tokio::test]
async fn an_address_that_others_reach_is_refused() {
    let app = TestApp::new().await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = within(web::run(listener, app.state.clone(), CancellationToken::new())).await;
    assert!(matches!(refused, Err(ServeError::NotLoopback(_))), "{refused:?}");
}
