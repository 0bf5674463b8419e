//! The result of a run with several arms: what they show together first, then each arm with a page of its own.

use askama::Template;

use super::{
    Shell,
    part::{self, ChartPart, Chip, TablePanel},
    run_result,
};
use crate::{
    report::{self, HOSTS, Of, TABLES, format, words},
    store::RunDetail,
    web::charts::{Input, Place},
};

/// The page. Its middle is also served alone, for a script that replaces parts.
#[derive(Debug, Template)]
#[template(path = "run_arms.html", blocks = ["middle"])]
pub struct ArmsPage {
    pub shell: Shell,
    pub id: String,
    pub short: String,
    pub scenario: String,
    pub target: String,
    pub meta: Vec<String>,
    pub state: &'static str,
    pub headline: words::Headline,
    pub sentence: String,
    pub chips: Vec<Chip>,
    /// Whether it differs, and the sentence.
    pub findings: Vec<(bool, String)>,
    pub charts: Vec<ChartPart>,
    pub tables: Vec<TablePanel>,
    pub arms: Vec<ArmLink>,
    pub hosts: Option<TablePanel>,
    /// What stands behind the addresses of tables.
    pub query: &'static str,
    pub remarks: Vec<String>,
    pub notes: Vec<(String, String)>,
    pub scenario_text: String,
}

/// One arm that has a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmLink {
    pub number: u32,
    pub label: String,
    /// What it found, in a sentence.
    pub sentence: String,
}

pub(super) fn view(input: &Input<'_>) -> ArmsPage {
    let detail = input.detail;
    let run = &detail.run;
    let verdict = detail.verdict.as_ref();
    let mut shell = Shell::new(format!("{} on {}", run.scenario, run.target), "/runs");
    shell.charts = true;
    let first = detail.outline.arms.iter().find_map(|arm| detail.of_arm(arm.number));
    let findings = verdict.iter().flat_map(|verdict| &verdict.findings);
    ArmsPage {
        shell,
        id: run.id.to_string(),
        short: run.id.short(),
        scenario: run.scenario.clone(),
        target: run.target.clone(),
        meta: run_result::meta(detail),
        state: run.state.as_str(),
        headline: words::headline(detail),
        sentence: run_result::sentence(detail),
        chips: verdict.map_or_else(|| run_result::state_chip(detail), run_result::chips),
        findings: findings.map(|finding| (finding.differs, finding.text.clone())).collect(),
        charts: part::charts(input, Place::Sweep),
        tables: TABLES
            .iter()
            .filter(|entry| entry.of == Of::Arms)
            .filter_map(|entry| TablePanel::of(entry, detail, false))
            .collect(),
        arms: links(detail),
        query: "",
        hosts: first.and_then(|first| report::find(HOSTS).and_then(|entry| TablePanel::of(entry, &first, false))),
        remarks: detail.outline.remarks.clone(),
        notes: detail.notes.iter().map(|(at, text)| (format::time_of_day(*at), text.clone())).collect(),
        scenario_text: detail.scenario_text.clone(),
    }
}

/// Those of which anything is known.
fn links(detail: &RunDetail) -> Vec<ArmLink> {
    let known = detail.outline.arms.iter().filter_map(|arm| {
        let result = report::sweeps::result_of(detail, arm.number);
        let measured = detail.trials.iter().any(|trial| trial.arm == arm.number);
        (result.is_some() || measured).then(|| ArmLink {
            number: arm.number,
            label: arm.label(),
            sentence: result.map(|result| result.verdict.sentence.clone()).unwrap_or_default(),
        })
    });
    known.collect()
}
