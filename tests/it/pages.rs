//! Pure views of every kind of run: what stands first, what is escaped, what is complete without JavaScript.

use askama::Template as _;
use rampart::{
    report::format::THIN,
    web::{
        charts::{CHARTS, Input, Size},
        pages::{error, run, run::RunPage, runs, scenarios},
    },
};

use crate::fixture::{self, Made};

fn html(made: &Made) -> String {
    let text = match run::view(&made.detail, &made.series, made.now_ns) {
        RunPage::Live(page) => page.render().unwrap(),
        RunPage::Result(page) => page.render().unwrap(),
        RunPage::Arms(page) => page.render().unwrap(),
    };
    text.replace(THIN, " ")
}

/// The text of a page without its tags.
fn words(html: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for sign in html.chars() {
        match sign {
            '<' => {
                inside = true;
                out.push(' ');
            }
            '>' => inside = false,
            _ if !inside => out.push(sign),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_kind_of_answer_opens_with_its_own_words() {
    let cases = [
        (fixture::capacity(), "175 domains hold 200 do not."),
        (fixture::saturated(), "150 domains hold 175 do not."),
        (fixture::first_load_broke(), "less than 10 domains"),
        (fixture::not_reached(), "at least 200 domains hold"),
        (fixture::inconclusive(), "Inconclusive 75 domains held; nothing above was decided."),
        (fixture::invalid(), "Invalid The generator was not fit to judge: start lag p99 was 48.2 ms"),
        (fixture::failed(), "Failed 25 domains held"),
        (fixture::aborted(), "Aborted 50 domains held"),
        (fixture::interrupted(), "Interrupted The server went away while this ran. 50 domains had held until then."),
    ];
    for (made, opening) in cases {
        let words = words(&html(&made));
        assert!(words.contains(opening), "{opening:?} is missing in: {}", &words[..words.len().min(900)]);
    }
}

#[test]
fn a_result_names_rule_baseline_validity_and_the_shared_machine() {
    let words = words(&html(&fixture::capacity()));
    for said in [
        "throughput_drop",
        "generator valid",
        "required 150 reached",
        "Compared with step 0, the empty target",
        "below 1270 per second (30 % of step 0)",
        "Broken in 2 trials of this step.",
        "start lag p99 0.78 ms, 0 missed, 22.0 % of this machine's CPU at most",
        "Target and generator ran on the same machine",
        "likely The JVM collects too often",
        "ruled out Connections",
        "maxClientCnxns no limit conf",
        "mntr is refused",
        "Scenario as it was",
    ] {
        assert!(words.contains(said), "{said:?} is missing");
    }
}

#[test]
fn a_live_run_says_what_happens_and_what_is_confirmed() {
    let page = html(&fixture::live());
    let said = words(&page);
    for wanted in [
        "150 domains, putting the load in place",
        "141 of 150 domains confirmed",
        "Stop and clean up",
        "Left of this phase, at most",
        "throughput_drop of get at 125 domains: 2 005 per s, limit 1 270 per s",
    ] {
        assert!(said.contains(wanted), "{wanted:?} is missing in {said}");
    }
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""));
}

#[test]
fn a_part_is_the_middle_of_the_page() {
    let made = fixture::live();
    let RunPage::Live(page) = run::view(&made.detail, &made.series, made.now_ns) else { panic!("not live") };
    let part = page.as_middle().render().unwrap();
    assert!(part.trim_start().starts_with("<div data-run=") && !part.contains("<html"));
    assert!(page.render().unwrap().contains(part.trim()));
}

#[test]
fn texts_of_strangers_are_escaped_everywhere() {
    let mut made = fixture::hostile();
    for live in [false, true] {
        if live {
            made.detail.run.state = rampart::model::RunState::Running;
        }
        let page = html(&made);
        assert!(!page.contains("<script>alert") && !page.contains("<img src=x"), "live: {live}");
        assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script&gt;"));
    }
    let list = runs::view(&[made.detail.run.clone()], &runs::RunsQuery::default(), 0).render().unwrap();
    assert!(!list.contains("<script>alert"));
    let form = scenarios::view(&[], None, "</textarea><script>alert(1)</script>", "k", &scenarios::Checked::default());
    assert!(!form.render().unwrap().contains("<script>alert"));
}

#[test]
fn pages_hold_no_inline_scripts_styles_or_handlers() {
    for made in fixture::all() {
        let page = html(&made);
        assert!(!page.contains("style=\"") && !page.contains("<style"), "inline styles are refused by the policy");
        assert!(!page.contains(" onclick=") && !page.contains("javascript:"));
        assert!(
            page.matches("<script").count() == page.matches(" src=\"/static/").count(),
            "only scripts of our own files"
        );
    }
}

#[test]
fn ids_of_a_page_are_unique() {
    for made in fixture::all() {
        let page = html(&made);
        let mut seen = std::collections::HashSet::new();
        for id in page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(seen.insert(id.to_owned()), "{id} stands twice");
        }
    }
}

#[test]
fn every_chart_has_words_and_its_table() {
    let made = fixture::capacity();
    let input = Input { detail: &made.detail, series: &made.series, now_ns: made.now_ns };
    let mut drawn = 0;
    for entry in CHARTS {
        let Some(chart) = entry.both(&input) else { continue };
        drawn += 1;
        assert!(!chart.title.is_empty() && chart.desc.len() > 20, "{}: {:?}", entry.name, chart.desc);
        assert!(chart.table.is_some_and(|table| !table.is_empty()), "{} has no table", entry.name);
        assert_eq!(chart.svg.matches("<desc").count(), 2, "{}: wide and narrow", entry.name);
    }
    assert!(drawn >= 10, "{drawn}");
}

#[test]
fn the_rule_and_its_baseline_stand_on_the_chart() {
    let made = fixture::capacity();
    let input = Input { detail: &made.detail, series: &made.series, now_ns: made.now_ns };
    let chart = rampart::web::charts::find("judged").unwrap().draw(&input, Size::Half).unwrap();
    let said = chart.desc;
    assert!(said.contains("The rule: not below 1 270 per s, 30 % of 4 234 (step 0, the empty target)."), "{said}");
    assert!(said.contains("569 per s at 200 domains (broke)"), "{said}");
}

/// Boxes of the texts of one drawing, by the generous width that the drawing itself reckons with.
fn boxes(svg: &str) -> Vec<(String, [f64; 4])> {
    svg.split("<text ")
        .skip(1)
        .map(|rest| {
            let attribute = |name: &str| rest.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
            let (x, y): (f64, f64) = (attribute("x").parse().unwrap(), attribute("y").parse().unwrap());
            let text = rest.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
            let width = text.chars().count() as f64 * 6.2;
            let left = match attribute("text-anchor") {
                "middle" => x - width / 2.0,
                "end" => x - width,
                _ => x,
            };
            (text, [left, y - 9.0, left + width, y + 2.0])
        })
        .collect()
}

#[test]
fn no_label_touches_another_or_leaves_its_drawing() {
    for made in fixture::all() {
        let input = Input { detail: &made.detail, series: &made.series, now_ns: made.now_ns };
        for size in [Size::Full, Size::Half, Size::Narrow] {
            for chart in CHARTS.iter().filter_map(|entry| entry.draw(&input, size)) {
                let all = boxes(&chart.svg);
                for (at, (text, a)) in all.iter().enumerate() {
                    let place = format!("{} {size:?} of {}: {text:?}", chart.name, made.detail.run.scenario);
                    assert!(a[0] >= -1.0 && a[2] <= size.width() + 8.0, "{place} leaves the drawing: {a:?}");
                    for (other, b) in &all[at + 1..] {
                        let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                        assert!(apart, "{place} touches {other:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_error_says_what_and_where_and_offers_a_way_on() {
    let query = runs::RunsQuery { status: Some("good".into()), ..Default::default() };
    let why = query.filter().unwrap_err();
    let page = error::view(&why).render().unwrap();
    assert!(page.contains("allowed: capacity_found, not_reached"), "{page}");
    assert!(page.contains("href=\"/runs\""));
}

#[test]
fn an_empty_list_says_what_to_do_next() {
    let page = runs::view(&[], &runs::RunsQuery::default(), 0).render().unwrap();
    assert!(words(&page).contains("There is no run yet. Choose a ready-made scenario"));
    let query = runs::RunsQuery { text: Some("x".into()), ..Default::default() };
    assert!(words(&runs::view(&[], &query, 0).render().unwrap()).contains("No run fits these filters."));
}

#[test]
fn faults_stand_at_their_line_and_the_text_is_kept() {
    let fault = rampart::model::Fault { line: Some(3), field: "load.step".into(), message: "must be above 0".into() };
    let checked = scenarios::Checked { faults: vec![fault], outline: None };
    let page = scenarios::view(&[], None, "a = 1\nb = 2", "k", &checked).render().unwrap();
    assert!(page.contains("line 3") && page.contains("load.step") && page.contains("a = 1\nb = 2</textarea>"));
}

#[test]
fn hosts_stand_with_what_it_ran_on_and_are_absent_for_runs_of_before() {
    let made = fixture::capacity();
    let page = html(&made);
    let inventory = page.split("id=\"inventory\"").nth(1).unwrap();
    assert!(words(inventory).contains("AMD EPYC 7302 16 64.0 not known Debian GNU/Linux 12"), "{}", words(inventory));
    assert!(words(inventory).contains("read here") && inventory.contains("tables/hosts.csv"));
    assert_eq!(page.matches("/tables/hosts.md\" aria").count(), 1, "not among the tables of what was measured too");
    let mut before = fixture::capacity();
    let known = before.detail.inventory.as_mut().unwrap();
    (known.hosts, known.fingerprint) = Default::default();
    let page = html(&before);
    assert!(!page.contains("tables/hosts") && page.contains("id=\"inventory\""));
}
