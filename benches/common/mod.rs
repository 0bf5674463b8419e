//! What benches share: a server of their own, the account of this process, and how figures are written.
#![allow(dead_code, reason = "each bench uses the parts it needs")]
#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::{collections::BTreeMap, path::PathBuf};

use rampart::{
    launch::{self, Managed, Recipe},
    model::RunId,
};
use serde::Serialize;

/// Benches whose figures stand in docs/CALIBRATION.md.
const DOCUMENTED: [&str; 5] = ["calibration", "overload", "engine", "pacing", "attribution"];

/// One measured figure. A figure that could not be measured is left out, with a line that says why.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) id: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// Such as `<= 75`.
    pub(crate) goal: Option<&'static str>,
    pub(crate) peer: Option<&'static str>,
    pub(crate) peer_value: Option<f64>,
    /// This over the peer.
    pub(crate) ratio: Option<f64>,
    pub(crate) holds: Option<bool>,
}

impl Figure {
    /// A figure with an upper bound.
    #[must_use]
    pub(crate) fn at_most(id: &'static str, value: f64, unit: &'static str, goal: &'static str, bound: f64) -> Self {
        Self {
            id,
            value,
            unit,
            goal: Some(goal),
            peer: None,
            peer_value: None,
            ratio: None,
            holds: Some(value <= bound),
        }
    }

    /// A figure with a lower bound.
    #[must_use]
    pub(crate) fn at_least(id: &'static str, value: f64, unit: &'static str, goal: &'static str, bound: f64) -> Self {
        Self { holds: Some(value >= bound), ..Self::at_most(id, value, unit, goal, f64::INFINITY) }
    }

    /// A figure without a goal.
    #[must_use]
    pub(crate) fn plain(id: &'static str, value: f64, unit: &'static str) -> Self {
        Self { id, value, unit, goal: None, peer: None, peer_value: None, ratio: None, holds: None }
    }
}

/// Prints the table of a bench and writes `target/bench/NAME.json`.
pub(crate) fn finish(name: &str, figures: &[Figure]) {
    println!("\n{name}, on {}", machine());
    println!("{:<28} {:>12}  {:<16} {:<12} {:<28} holds", "figure", "value", "unit", "goal", "peer (value, ratio)");
    for figure in figures {
        let peer = figure.peer.map_or_else(String::new, |peer| {
            format!("{peer} ({:.2}, {:.2})", figure.peer_value.unwrap_or(0.0), figure.ratio.unwrap_or(0.0))
        });
        let holds = figure.holds.map_or("", |holds| if holds { "yes" } else { "NO" });
        println!(
            "{:<28} {:>12.3}  {:<16} {:<12} {peer:<28} {holds}",
            figure.id,
            figure.value,
            figure.unit,
            figure.goal.unwrap_or("")
        );
    }
    let folder = std::env::var_os("RAMPART_BENCH_DIR").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
    std::fs::create_dir_all(&folder).expect("the folder for bench results can be made");
    let body = serde_json::json!({ "name": name, "machine": machine(), "figures": figures });
    let mut rows = String::from("| figure | value | unit | goal | holds |\n| :--- | ---: | :--- | :--- | :--- |\n");
    for figure in figures {
        let holds = figure.holds.map_or("", |holds| if holds { "yes" } else { "no" });
        rows.push_str(&format!(
            "| {} | {:.4} | {} | {} | {holds} |\n",
            figure.id,
            figure.value,
            figure.unit,
            figure.goal.unwrap_or("")
        ));
    }
    if DOCUMENTED.contains(&name) {
        document(&format!("figures of {name}"), &format!("On {}.\n\n{rows}", machine()));
    }
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&body).expect("figures are plain data"))
        .expect("bench results can be written");
    println!("written to {}", path.display());
}

/// Puts a table into the document that `RAMPART_CALIBRATION` names, between the marks of its name.
pub(crate) fn document(name: &str, table: &str) {
    let Some(path) = std::env::var_os("RAMPART_CALIBRATION").map(PathBuf::from) else { return };
    let text = std::fs::read_to_string(&path).expect("the document can be read");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).expect("the document has the mark of the table");
    let (_, after) = rest.split_once(&end).expect("the document has the mark of the table's end");
    std::fs::write(&path, format!("{before}{begin}{}\n{end}{after}", table.trim_end()))
        .expect("the document can be written");
}

/// Cores, memory and model of this machine.
#[must_use]
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1).map(str::to_owned));
    let kib: u64 = read("/proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok())
        .unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{cores} cores, {} GiB, {}", kib / 1_048_576, model.unwrap_or_else(|| "unknown processor".to_owned()))
}

/// CPU seconds that this process has used, from the scheduler's own account (nanoseconds, all threads alive or joined).
#[must_use]
pub(crate) fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is there");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("the name stands in brackets").1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
    ticks as f64 / 100.0
}

/// The largest resident memory that this process has had, in MiB.
#[must_use]
pub(crate) fn peak_rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
        .expect("VmHWM");
    kib / 1024.0
}

/// A ZooKeeper of the bench's own.
pub(crate) async fn zookeeper(
    heap_mib: u32,
    jvm_args: &[&str],
    properties: &[(&str, &str)],
    zoo_cfg: &[(&str, &str)],
) -> (Box<dyn Managed>, RunId) {
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    let recipe = Recipe {
        heap_mib,
        jvm_args: jvm_args.iter().map(|arg| (*arg).to_owned()).collect(),
        system_properties: pairs(properties),
        zoo_cfg: pairs(zoo_cfg),
        ..Recipe::new("zookeeper")
    };
    let run = RunId::new();
    let managed =
        launch::launcher(&recipe).expect("a local launcher").start(&recipe, run).await.expect("ZooKeeper starts");
    (managed, run)
}
