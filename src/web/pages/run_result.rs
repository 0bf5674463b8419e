//! The result of a run: the answer and its sentence first, then what proves it, then charts, tables, what it ran on.

use askama::Template;

use super::{
    Shell,
    part::{self, ChartPart, Chip, TablePanel},
    run_live::servers,
};
use crate::{
    model::{Arm, Inventory, NodeInfo, Outcome, RunState, Validity, Verdict},
    report::{self, HOSTS, Mark, Of, TABLES, format, steps, words},
    store::{RunDetail, Series},
    web::charts::{
        Input, Place,
        spark::{self, Spark},
    },
};

/// The page. Its middle is also served alone, for a script that replaces parts.
#[derive(Debug, Template)]
#[template(path = "run_result.html", blocks = ["middle"])]
pub struct ResultPage {
    pub shell: Shell,
    pub id: String,
    pub short: String,
    /// The arm that it is of, of a run that has several.
    pub arm: Option<String>,
    /// What stands behind the addresses of its tables and charts, such as `?arm=1`.
    pub query: String,
    pub scenario: String,
    pub target: String,
    pub meta: Vec<String>,
    pub state: &'static str,
    pub headline: words::Headline,
    pub sentence: String,
    pub chips: Vec<Chip>,
    /// The rules that were broken, in words.
    pub rules: Vec<String>,
    pub baseline: Option<String>,
    pub scaling: Option<String>,
    pub evidence: Vec<EvidenceLine>,
    pub validity: Option<ValidityPart>,
    pub sparks: Vec<Spark>,
    pub side: Vec<ChartPart>,
    pub row: Vec<ChartPart>,
    pub over_time: Vec<ChartPart>,
    pub tables: Vec<TablePanel>,
    /// The long form of the operations table.
    pub operations_long: String,
    /// Tables of the other servers of an ensemble.
    pub other_servers: Vec<(String, String)>,
    pub inventory: Option<InventoryPart>,
    pub notes: Vec<(String, String)>,
    pub scenario_text: String,
}

/// One line of the chain of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceLine {
    pub word: &'static str,
    pub class: &'static str,
    pub text: String,
    pub since: String,
}

/// Whether the generator was fit to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidityPart {
    pub start_lag: String,
    pub missed: String,
    pub cpu: String,
    pub reasons: Vec<String>,
    pub shared: bool,
    pub closed_loop: Option<String>,
}

/// What it ran on.
#[derive(Debug, Clone, PartialEq)]
pub struct InventoryPart {
    pub known: Inventory,
    /// Each server with what it keeps on its disk.
    pub servers: Vec<(NodeInfo, String)>,
    /// The machines, unless the run was made before they were read.
    pub hosts: Option<TablePanel>,
    /// Name, value, source.
    pub limits: Vec<(String, String, String)>,
    /// What, needed, available.
    pub needs: Vec<(String, String, String)>,
    /// What the plan said a reader must know.
    pub remarks: Vec<String>,
}

pub(super) fn view(detail: &RunDetail, series: &[Series], now_ns: i64) -> ResultPage {
    let input = Input { detail, series, now_ns };
    let run = &detail.run;
    let verdict = detail.verdict.as_ref();
    let several = detail.inventory.as_ref().is_some_and(|inventory| inventory.nodes.len() > 1);
    let mut shell = Shell::new(format!("{} on {}", run.scenario, run.target), "/runs");
    shell.charts = true;
    ResultPage {
        shell,
        id: run.id.to_string(),
        short: run.id.short(),
        arm: None,
        query: String::new(),
        scenario: run.scenario.clone(),
        target: run.target.clone(),
        meta: meta(detail),
        state: run.state.as_str(),
        headline: words::headline(detail),
        sentence: sentence(detail),
        chips: verdict.map_or_else(|| state_chip(detail), chips),
        rules: broken_rules(detail),
        baseline: verdict.map(|verdict| verdict.baseline.clone()).filter(|text| !text.is_empty()),
        scaling: verdict.and_then(|verdict| verdict.scaling.clone()),
        evidence: verdict.map(|verdict| evidence(verdict, several)).unwrap_or_default(),
        validity: verdict.map(|verdict| validity(&verdict.validity)),
        sparks: spark::panels(&input),
        side: part::charts(&input, Place::Side),
        row: part::charts(&input, Place::Row),
        over_time: part::charts(&input, Place::Time),
        tables: TABLES
            .iter()
            .filter(|entry| entry.name != HOSTS && entry.of == Of::Arm)
            .filter_map(|entry| TablePanel::of(entry, detail, matches!(entry.name, "rules" | "scenario")))
            .collect(),
        operations_long: long_operations(detail),
        other_servers: other_servers(detail),
        inventory: detail.inventory.as_ref().map(|known| inventory(known, detail)),
        notes: detail.notes.iter().map(|(at, text)| (format::time_of_day(*at), text.clone())).collect(),
        scenario_text: detail.scenario_text.clone(),
    }
}

/// The page of one arm: that of a run which has only it.
pub(super) fn view_of_arm(detail: &RunDetail, arm: &Arm, series: &[Series], now_ns: i64) -> ResultPage {
    let mut page = view(detail, series, now_ns);
    (page.arm, page.query) = (Some(arm.label()), format!("?arm={}", arm.number));
    for chart in page.side.iter_mut().chain(&mut page.row).chain(&mut page.over_time) {
        chart.query.clone_from(&page.query);
    }
    page
}

pub(super) fn meta(detail: &RunDetail) -> Vec<String> {
    let run = &detail.run;
    let mut meta = vec![run.id.short(), format::moment(run.started_ns.unwrap_or(run.created_ns))];
    if let (Some(from), Some(to)) = (run.started_ns, run.ended_ns) {
        meta.push(format!("took {}", format::span(format::seconds_between(from, to).round())));
    }
    meta.push(format!("from {}", run.origin));
    meta.extend(servers(detail));
    meta
}

pub(super) fn sentence(detail: &RunDetail) -> String {
    match (&detail.verdict, &detail.run.sentence) {
        (Some(verdict), _) => verdict.sentence.clone(),
        (None, Some(sentence)) => sentence.clone(),
        (None, None) if detail.run.state == RunState::Interrupted => {
            "The run has no verdict: what it had measured until then stands below.".to_owned()
        }
        (None, None) => "The run is over and has no verdict.".to_owned(),
    }
}

pub(super) fn state_chip(detail: &RunDetail) -> Vec<Chip> {
    vec![Chip { text: detail.run.state.as_str().to_owned(), mark: Mark::Void, title: "no verdict".to_owned() }]
}

pub(super) fn chips(verdict: &Verdict) -> Vec<Chip> {
    let mark = words::status_mark(verdict.status);
    let code = verdict.stop_code;
    let mut chips = vec![Chip { text: code.as_str().to_owned(), mark, title: words::stop_code(code).to_owned() }];
    let valid = &verdict.validity;
    let (text, mark) = if valid.valid { ("generator valid", Mark::Good) } else { ("generator not valid", Mark::Void) };
    chips.push(Chip { text: text.to_owned(), mark, title: valid.reasons.join(" ") });
    if let Some(required) = verdict.required {
        let required = format::count(required);
        let (text, mark) = if verdict.below_required() {
            (format!("below the required {required}"), Mark::Bad)
        } else {
            (format!("required {required} reached"), Mark::Good)
        };
        chips.push(Chip { text, mark, title: "[require] capacity of the scenario".to_owned() });
    }
    if valid.shared_machine {
        chips.push(Chip {
            text: "shared machine".to_owned(),
            mark: Mark::Wait,
            title: "target and generator shared a machine".to_owned(),
        });
    }
    chips
}

fn broken_rules(detail: &RunDetail) -> Vec<String> {
    let Some(trial) = steps::broken(detail) else { return Vec::new() };
    let broken = trial.rules.iter().filter(|rule| rule.broke == Some(true)).map(|rule| words::ended(&rule.text));
    let again = detail
        .trials
        .iter()
        .filter(|other| (other.arm, other.step) == (trial.arm, trial.step) && other.outcome == Outcome::Broke)
        .count();
    let mut all: Vec<String> = broken.collect();
    if again > 1 && !all.is_empty() {
        all.push(format!("Broken in {again} trials of this step."));
    }
    all
}

/// A server is named where there are several.
fn evidence(verdict: &Verdict, several: bool) -> Vec<EvidenceLine> {
    verdict
        .evidence
        .iter()
        .map(|line| EvidenceLine {
            word: words::certainty(line.certainty),
            class: line.certainty.as_str(),
            text: if !several || line.node.is_empty() || line.text.contains(&line.node) {
                line.text.clone()
            } else {
                format!("{} ({})", line.text, line.node)
            },
            since: line.since_step.map_or_else(|| "all steps".to_owned(), |step| format!("from step {step}")),
        })
        .collect()
}

fn validity(validity: &Validity) -> ValidityPart {
    ValidityPart {
        start_lag: validity
            .start_lag_p99_us
            .map_or_else(|| format::NOT_SAMPLED.to_owned(), |us| format!("{}{}ms", format::ms(us), format::THIN)),
        missed: format::count(validity.missed),
        cpu: validity.cpu_share.map_or_else(
            || format::NOT_SAMPLED.to_owned(),
            |share| format!("{}{}%", format::percent(share), format::THIN),
        ),
        reasons: validity.reasons.clone(),
        shared: validity.shared_machine,
        closed_loop: validity.closed_loop.clone(),
    }
}

fn long_operations(detail: &RunDetail) -> String {
    let long = report::operations::long(detail);
    if long.is_empty() { String::new() } else { part::table(&long, true) }
}

fn other_servers(detail: &RunDetail) -> Vec<(String, String)> {
    let lead = report::lead_node(detail).unwrap_or_default();
    report::target_data::nodes(detail)
        .into_iter()
        .filter(|node| *node != lead)
        .map(|node| {
            let table = report::target_data::of_node(detail, &node);
            (table.title.clone(), part::table(&table, false))
        })
        .collect()
}

fn inventory(known: &Inventory, detail: &RunDetail) -> InventoryPart {
    let none = |value: Option<u64>, word: &str| value.map_or_else(|| word.to_owned(), format::count);
    InventoryPart {
        known: known.clone(),
        servers: known.nodes.iter().map(|node| (node.clone(), on_disk(node))).collect(),
        hosts: report::find(HOSTS).and_then(|entry| TablePanel::of(entry, detail, false)),
        limits: known
            .limits
            .iter()
            .map(|limit| (limit.name.clone(), none(limit.value, "no limit"), limit.source.clone()))
            .collect(),
        needs: needs(&detail.outline),
        remarks: detail.outline.remarks.clone(),
    }
}

/// What a server kept on its disk before the load.
fn on_disk(node: &NodeInfo) -> String {
    let size = |bytes: u64| format::with_unit(bytes as f64, "bytes");
    match (node.data_bytes, node.log_bytes) {
        (Some(data), Some(log)) if data == log => format!("{} in all", size(data)),
        (Some(data), Some(log)) => format!("{} of snapshots, {} of logs", size(data), size(log)),
        (data, log) => data.or(log).map_or_else(|| "not known".to_owned(), size),
    }
}

/// What the largest load needs, against what there is.
#[must_use]
pub(super) fn needs(outline: &crate::scenario::plan::Outline) -> Vec<(String, String, String)> {
    outline
        .needs
        .iter()
        .map(|need| {
            let available = need.available.map_or_else(|| "not known before the run".to_owned(), format::count);
            (need.what.clone(), format::count(need.needed), available)
        })
        .collect()
}
