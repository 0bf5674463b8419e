//! `rampart check`.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use super::{ConfigFile, read_scenario};
use crate::{
    runs::surroundings,
    scenario::{self, Origin, Scenario, plan::Outline},
};

/// Arguments of `rampart check`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Prints the outline as JSON.
    #[arg(long)]
    json: bool,
    /// The scenario.
    #[arg(value_name = "FILE")]
    scenario: PathBuf,
}

pub(super) fn check(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.config.load()?;
    let text = read_scenario(&arguments.scenario)?;
    let outline = Scenario::parse(&text)
        .and_then(|scenario| scenario::plan(&scenario, &config, Origin::LocalUser, &surroundings()))
        .map_err(|faults| anyhow::anyhow!("{} is not sound:\n{faults}", arguments.scenario.display()))?
        .outline;
    if arguments.json {
        super::say(&serde_json::to_string_pretty(&outline)?);
    } else {
        super::say(words(&outline).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// The outline for people.
fn words(outline: &Outline) -> String {
    let mut text = String::new();
    let kind = if outline.managed { "a target launched from recipe" } else { "target" };
    let _ = writeln!(text, "{}: {} on {kind} {}", outline.scenario, outline.workload, outline.target);
    let ladder: Vec<String> = outline.ladder.iter().map(u64::to_string).collect();
    let _ = writeln!(text, "ladder: {} {} (0 is the empty target)", shorten(&ladder), outline.unit);
    if !outline.arms.is_empty() {
        let _ = writeln!(text, "arms: {}", arms(outline));
    }
    let _ = writeln!(text, "at the longest: {}", duration(outline.longest_s));
    for need in &outline.needs {
        let available = need.available.map_or_else(|| "known when the run begins".to_owned(), |n| n.to_string());
        let short = if need.is_short() { "  TOO FEW" } else { "" };
        let _ = writeln!(text, "{} at the highest load: {} (there are: {available}){short}", need.what, need.needed);
    }
    for remark in &outline.remarks {
        let _ = writeln!(text, "- {remark}");
    }
    text
}

/// `zoo_cfg.snapCount = 1000, 9000, 2 times each`.
fn arms(outline: &Outline) -> String {
    let first = outline.arms.iter().filter(|arm| arm.repetition == 1);
    let values: Vec<&str> = first.map(|arm| arm.value.as_str()).filter(|value| !value.is_empty()).collect();
    let times = outline.arms.iter().map(|arm| arm.repetition).max().unwrap_or(0);
    let setting = outline.arms.first().map_or("", |arm| arm.setting.as_str());
    let what = if setting.is_empty() { "the same".to_owned() } else { format!("{setting} = {}", values.join(", ")) };
    format!("{what}, {times} times each ({} launches)", outline.arms.len())
}

fn shorten(ladder: &[String]) -> String {
    if ladder.len() <= 16 {
        ladder.join(", ")
    } else {
        format!("{}, ... {} ({} loads)", ladder[..8].join(", "), ladder[ladder.len() - 1], ladder.len())
    }
}

fn duration(seconds: u64) -> String {
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}
