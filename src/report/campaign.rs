//! The report of a campaign: what each part found, with its tables, made anew from the stored runs.

use std::fmt::Write as _;

use super::{TABLES, Table, format, markdown, words};
use crate::store::{CampaignDetail, PartState, RunDetail};

/// What is known of one part.
#[derive(Debug)]
pub struct PartReport {
    pub name: String,
    /// Its load, where an earlier part found it: `at the capacity of saturn-max-load`.
    pub load: Option<String>,
    /// What it found, or why there is nothing, in words.
    pub sentence: String,
    /// The run, where there is one.
    pub run: Option<RunDetail>,
    pub tables: Vec<Table>,
}

/// The tables that a report shows, in their order; those that a run has nothing for are left out.
const SHOWN: &[&str] = &[
    "scenario",
    "arms",
    "sweep-target-data",
    "target-data",
    "outstanding",
    "sweep-operations",
    "operations",
    "actions",
];
/// Those of a run with arms: the others would be of one arm only.
const OF_ARMS: &[&str] = &["scenario", "arms", "sweep-target-data", "sweep-operations"];

/// Every part in order. `runs` holds what is stored of the parts' runs.
#[must_use]
pub fn parts(campaign: &CampaignDetail, mut runs: Vec<Option<RunDetail>>) -> Vec<PartReport> {
    runs.resize_with(campaign.parts.len(), || None);
    let states = campaign.campaign.parts.iter().zip(&campaign.parts).zip(runs);
    states
        .map(|((part, state), run)| {
            let load = part.load.as_ref().map(|wanted| {
                let percent = (wanted.share * 1_000.0).round() / 10.0;
                let share =
                    if (percent - 100.0).abs() < 0.05 { "the".to_owned() } else { format!("{percent} % of the") };
                format!("at {share} capacity of {}", wanted.of)
            });
            let tables = run.as_ref().map(tables).unwrap_or_default();
            PartReport { name: part.name.clone(), load, sentence: sentence(state, run.as_ref()), run, tables }
        })
        .collect()
}

fn tables(run: &RunDetail) -> Vec<Table> {
    let wanted = if run.has_arms() { OF_ARMS } else { SHOWN };
    let entries = wanted.iter().filter_map(|name| TABLES.iter().find(|entry| entry.name == *name));
    entries.map(|entry| (entry.page)(run)).filter(|table| !table.is_empty()).collect()
}

fn sentence(state: &PartState, run: Option<&RunDetail>) -> String {
    match (run, &state.why) {
        (Some(run), _) => match &run.run.sentence {
            Some(sentence) => words::ended(sentence),
            None => format!("The run is {}.", run.run.state.as_str()),
        },
        (None, Some(why)) => format!("Not run: {}", words::ended(why)),
        (None, None) if state.run.is_some() => "Its run is no longer stored.".to_owned(),
        (None, None) => "Not begun yet.".to_owned(),
    }
}

/// The report as GitHub markdown.
#[must_use]
pub fn markdown(campaign: &CampaignDetail, parts: &[PartReport]) -> String {
    let mut out = format!("# {}\n", campaign.campaign.name);
    if !campaign.campaign.description.is_empty() {
        let _ = write!(out, "\n{}\n", campaign.campaign.description);
    }
    let _ = write!(out, "\nCampaign {}, {}\n", campaign.id, format::moment(campaign.created_ns));
    for part in parts {
        let _ = write!(out, "\n## {}\n\n", part.name);
        if let Some(load) = &part.load {
            let _ = writeln!(out, "Measured {load}.\n");
        }
        let _ = writeln!(out, "{}", part.sentence);
        if let Some(run) = &part.run {
            let _ = writeln!(out, "\nRun {} on {}.", run.run.id, run.run.target);
        }
        for table in &part.tables {
            let _ = write!(out, "\n{}", markdown::render(table));
        }
    }
    out
}
