//! What is shown of a run with several arms: tables, files, the chart, its page and those of its arms, on the terminal.

use askama::Template as _;
use axum::{body::to_bytes, response::Response};
use rampart::{
    model::{Phase, RunEvent, RunState},
    report::{self, format::THIN, text},
    runs::AskedBy,
    store::rows::PhaseNow,
    web::pages::{
        files::{self, ChartQuery, TableQuery},
        run::{self, RunPage},
    },
};

use crate::{
    app::{TestApp, hear_end, trial, verdict},
    fixture::{self, Made},
};

fn rows(name: &str, made: &Made) -> Vec<Vec<String>> {
    let table = (report::find(name).unwrap().page)(&made.detail);
    table.rows.iter().map(|row| row.cells.iter().map(|cell| cell.shown().replace(THIN, " ")).collect()).collect()
}

async fn body(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap().replace(THIN, " ")
}

fn page(made: &Made) -> String {
    let RunPage::Arms(page) = run::view(&made.detail, &made.series, made.now_ns) else { panic!("no page of arms") };
    page.render().unwrap().replace(THIN, " ")
}

#[test]
fn arms_stand_in_the_order_in_which_they_were_measured() {
    let rows = rows("arms", &fixture::swept());
    let order: Vec<_> = rows.iter().map(|row| (row[0].as_str(), row[1].as_str(), row[2].as_str())).collect();
    assert_eq!(order[0], ("1", "3000000", "1"));
    assert_eq!(order[3], ("5", "10000000", "2"));
    assert!(rows.iter().all(|row| row[3] == "127.0.0.3" && row[4] == "100" && row[6] == "max_load"), "{rows:?}");
}

#[test]
fn operations_are_medians_with_their_spread_and_change_against_the_first_value() {
    let made = fixture::swept();
    let rows = rows("sweep-operations", &made);
    let get = rows.iter().find(|row| row[0] == "100" && row[1] == "get").unwrap();
    // 1 % up and down: the spread of each; 35 % and 62 % more than with the first value.
    assert_eq!((get[3].as_str(), get[6].as_str(), get[9].as_str()), ("1.00", "+35.0", "+62.0"), "{get:?}");
    let long = (report::find("sweep-operations").unwrap().data)(&made.detail);
    let arms = made.detail.outline.arms.len();
    assert_eq!(long.rows.len() % arms, 0);
    assert_eq!(
        long.columns[..4].iter().map(|column| column.id.as_str()).collect::<Vec<_>>(),
        ["arm", "setting", "value", "repetition"]
    );
    let target = self::rows("sweep-target-data", &made);
    assert_eq!(target.len(), 6, "two loads, three values");
}

#[test]
fn a_run_without_arms_has_none_of_these_tables() {
    let made = fixture::capacity();
    for name in ["arms", "sweep-operations", "sweep-target-data"] {
        assert!((report::find(name).unwrap().page)(&made.detail).is_empty(), "{name}");
    }
    let chart = files::chart_file(&made.detail, &made.series, made.now_ns, "sweep.svg", &ChartQuery::default());
    assert!(chart.is_err());
}

#[tokio::test]
async fn a_file_of_a_run_with_arms_is_of_the_first_for_people_and_of_all_for_programs() {
    let made = fixture::swept();
    let file = |name: &str| files::table_file(&made.detail, None, name, &TableQuery::default()).unwrap();
    let markdown = body(file("operations.md")).await;
    assert!(
        markdown.starts_with("### Operations per second (zoo\\_cfg.snapCount = 1000000, repetition 1)"),
        "{markdown}"
    );
    let csv = body(file("operations.csv")).await;
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().starts_with("arm,setting,value,repetition,step,"), "{csv}");
    let arms: std::collections::BTreeSet<_> = lines.map(|line| line.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(arms.len(), 6);
    let svg =
        files::chart_file(&made.detail, &made.series, made.now_ns, "by-load.svg", &ChartQuery::default()).unwrap();
    assert!(body(svg).await.contains("<svg"));
}

#[tokio::test]
async fn the_chart_shows_each_value_against_the_first_in_both_sizes() {
    let made = fixture::swept();
    for size in [None, Some("narrow".to_owned())] {
        let query = ChartQuery { size, arm: None };
        let svg = body(files::chart_file(&made.detail, &made.series, made.now_ns, "sweep.svg", &query).unwrap()).await;
        assert!(svg.contains("get +35 % with 3000000, +62 % with 10000000"), "{svg}");
        // Three values of seven operations, each a mark, and three in the legend.
        assert_eq!(svg.matches("class=\"m0\"").count(), 8, "{svg}");
        assert_eq!(svg.matches("class=\"m2\"").count(), 8);
    }
}

#[test]
fn the_page_says_what_differs_first_and_leads_to_each_arm() {
    let made = fixture::swept();
    let html = page(&made);
    assert!(html.contains("<b>100</b> <span>domains hold</span>"), "{html}");
    let findings = html.find("id=\"findings\"").unwrap();
    let tables = html.find("id=\"table-arms\"").unwrap();
    assert!(findings < tables);
    let differs = "With 100 domains, zoo_cfg.snapCount = 3000000 against 1000000: writes do not differ beyond the spread of \
                   the repetitions (+1 %), reads rise 35 %.";
    assert!(html[findings..tables].contains(differs), "{}", &html[findings..tables]);
    for arm in 0..6 {
        assert!(html.contains(&format!("/runs/{}?arm={arm}\"", made.detail.run.id)), "arm {arm}");
    }
    assert!(!html.contains("table-target-data"), "tables of one arm stand on its own page");
}

#[test]
fn an_arm_has_the_page_of_a_run_with_only_it() {
    let made = fixture::swept();
    let (arm, of_arm) = run::asked(&made.detail, 4).unwrap();
    let RunPage::Result(page) = run::view_of_arm(&of_arm, &arm, &made.series, made.now_ns) else { panic!("a result") };
    let html = page.render().unwrap();
    assert!(html.contains("zoo_cfg.snapCount = 3000000, repetition 2"), "the crumb");
    assert!(html.contains("tables/target-data.md?arm=4") && html.contains(".svg?arm=4"), "its own files");
    let setting = page.inventory.as_ref().unwrap().known.settings.iter().find(|setting| setting.name == "snapCount");
    assert_eq!(setting.unwrap().value, "3000000");
    let error = run::asked(&made.detail, 6).unwrap_err().to_string();
    assert_eq!(error, "there is no arm 6 of this run; there are 0 to 5");
    assert!(run::asked(&fixture::capacity().detail, 1).unwrap_err().to_string().contains("it has one"));
}

#[test]
fn a_live_run_says_which_arm_it_measures_and_shows_only_that() {
    let mut made = fixture::swept();
    made.detail.verdict = None;
    made.detail.trials.retain(|trial| trial.arm < 2);
    made.detail.run.state = RunState::Running;
    made.detail.phase = Some(PhaseNow {
        phase: Phase::Measuring,
        arm: 2,
        step: 0,
        trial: 1,
        load: 0,
        since_ns: made.now_ns,
        until_ns: None,
        confirmed: None,
    });
    let RunPage::Live(page) = run::view(&made.detail, &made.series, made.now_ns) else { panic!("live") };
    let html = page.render().unwrap();
    assert!(html.contains("arm 3 of 6: zoo_cfg.snapCount = 10000000, repetition 1"), "{html}");
    assert!(html.contains("No step is finished yet"), "of this arm");
}

#[test]
fn the_terminal_gets_the_comparison() {
    let made = fixture::swept();
    let shown = text::render(&(report::find("sweep-operations").unwrap().page)(&made.detail), None);
    assert!(shown.contains("3000000") && shown.contains("+35.0"), "{shown}");
}

#[tokio::test]
async fn arms_are_kept_by_the_store_and_asked_for_by_their_number() {
    let app = TestApp::new().await;
    let text = "name = \"swept\"\n[target]\nkind = \"zookeeper\"\nlaunch = \"local\"\n[load]\nworkload = \"zookeeper.domains\"\n\
                kind = \"levels\"\nlevels = [10]\n[sweep]\nsetting = \"heap_mib\"\nvalues = [128, 256]\nrepetitions = 1\n";
    let id = app.runs().submit(text, AskedBy::Api, None).await.unwrap().id;
    let mut follower = app.runs().follow(id).unwrap();
    let stage = app.stage().await;
    for arm in [1, 0] {
        let phase =
            RunEvent::Phase { at_ns: 1, phase: Phase::Preflight, arm, step: 0, trial: 0, load: 0, until_ns: None };
        stage.say(phase).await;
        let mut inventory = fixture::inventory();
        inventory.remarks = vec![format!("of arm {arm}")];
        stage.say(RunEvent::Inventory { at_ns: 2, inventory: Box::new(inventory) }).await;
        let mut made = trial(1, 10);
        made.arm = arm;
        stage.say(RunEvent::Trial { trial: Box::new(made), histograms: Vec::new() }).await;
    }
    let found = verdict(id);
    stage.say(RunEvent::Verdict { at_ns: 9_000, verdict: Box::new(found) }).await;
    stage.end_silently();
    hear_end(&mut follower).await;
    let detail = app.store().detail(id).await.unwrap().unwrap();
    assert_eq!(
        detail.inventories.iter().map(|(arm, known)| (*arm, known.remarks[0].as_str())).collect::<Vec<_>>(),
        [(0, "of arm 0"), (1, "of arm 1")]
    );
    let table = app.get(&format!("/runs/{id}/tables/trials.md?arm=1")).await.text;
    assert!(table.starts_with("### Trials (heap\\_mib = 256, repetition 1)"), "{table}");
    let of_arm = app.get(&format!("/runs/{id}?arm=1")).await.text;
    assert!(of_arm.contains("heap_mib = 256, repetition 1") && of_arm.contains("of arm 1"), "{of_arm}");
    assert!(app.get(&format!("/runs/{id}")).await.text.contains("Each arm by itself"));
    let missing = app.get(&format!("/runs/{id}/tables/trials.md?arm=2")).await;
    assert!(
        missing.status == 404 && missing.text.contains("There is no arm 2 of this run; there are 0 to 1"),
        "{}",
        missing.text
    );
    assert!(app.get(&format!("/runs/{id}/tables/trials.md?arm=x")).await.status.is_client_error());
}
