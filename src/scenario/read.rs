//! Reads and checks a scenario.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    actions,
    file::File,
    guards, ladder,
    sweep::{self, Sweep},
};
use crate::{
    analysis::{Action, Guard, Hold, Ladder, Rule, Threshold, rules},
    config::Document,
    model::{AxisKind, Fault, Faults},
    target::CleanPace,
    workload::{self, Probe, Workload},
};

/// A scenario, checked.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: String,
    pub description: String,
    /// The file as it was.
    pub text: String,
    pub target_kind: String,
    pub target: TargetChoice,
    pub workload: Arc<dyn Workload>,
    pub ladder: Ladder,
    /// Probes run so long unmeasured before step 0, so that the empty target is not a cold one.
    pub warm_up_s: f64,
    pub settle_s: f64,
    pub measure_s: f64,
    pub fill_max_s: Option<f64>,
    pub probes: Vec<Arc<dyn Probe>>,
    pub rules: Vec<Rule>,
    pub actions: Vec<Action>,
    /// What stops the run for the target's sake.
    pub guards: BTreeMap<Guard, Threshold>,
    /// What varies between the arms of a run that has several.
    pub sweep: Option<Sweep>,
    pub required: Option<u64>,
    /// The load that is expected at most, as the verdict compares with it.
    pub peak: Option<u64>,
    /// What is held after the answer.
    pub hold: Option<Hold>,
    pub time_budget_s: Option<f64>,
    pub clean_pace: CleanPace,
}

/// What is tested.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetChoice {
    /// A target of the configuration.
    Use(String),
    /// A recipe of the configuration, with settings over it.
    Launch { recipe: String, settings: BTreeMap<String, toml::Value> },
}

/// The target kinds that scenarios may name.
const TARGET_KINDS: &[&str] = &["sim", "zookeeper"];

/// Readings once a second, twice as many as there are batches.
const BACKLOG_S: f64 = 12.0;

/// A JVM that was just started runs its first thousands of requests in the interpreter.
const WARM_UP_S: f64 = 15.0;

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// Every fault with its line, field and what is allowed.
    pub fn parse(text: &str) -> Result<Self, Faults> {
        let document = Document::parse(text)?;
        let file: File = document.read()?;
        let mut checks = Checks::default();
        let scenario = checks.scenario(&file, text);
        let faults: Vec<Fault> = checks.faults.into_iter().map(|fault| document.locate(fault)).collect();
        match scenario {
            Some(scenario) if faults.is_empty() => Ok(scenario),
            _ => Err(Faults(faults)),
        }
    }
}

/// A rate that the target does not keep up with cannot hold, whatever else is asked.
fn with_defaults(rules: &[Rule], workload: &dyn Workload) -> Vec<Rule> {
    let mut rules = rules.to_vec();
    let asked = rules.iter().any(|rule| matches!(rule, Rule::AchievedShort { .. }));
    if workload.about().axis.kind == AxisKind::Rate && !asked {
        rules.push(Rule::ACHIEVED);
    }
    rules
}

/// Collects every fault instead of ending at the first.
#[derive(Default)]
struct Checks {
    faults: Vec<Fault>,
}

impl Checks {
    fn fault(&mut self, field: &str, message: impl Into<String>) {
        self.faults.push(Fault::new(field, message));
    }

    fn within(&mut self, field: &str, value: f64, low: f64, high: f64) {
        if !(low..=high).contains(&value) {
            self.fault(field, format!("is {value}; allowed: {low} to {high}"));
        }
    }

    /// Takes a part that names its own faulty field, below `at`.
    fn part<T>(&mut self, at: &str, part: Result<T, Fault>) -> Option<T> {
        part.map_err(|fault| {
            let field = if fault.field.is_empty() { at.to_owned() } else { format!("{at}.{}", fault.field) };
            self.faults.push(Fault { field, ..fault });
        })
        .ok()
    }

    fn scenario(&mut self, file: &File, text: &str) -> Option<Scenario> {
        if file.name.trim().is_empty() || file.name.len() > 100 || file.name.chars().any(char::is_control) {
            self.fault("name", "must have 1 to 100 characters on one line");
        }
        let kind = file.target.kind.as_str();
        if !TARGET_KINDS.contains(&kind) {
            self.fault("target.kind", format!("is {kind:?}; allowed: {}", TARGET_KINDS.join(", ")));
            return None;
        }
        let target = self.target(file);
        let mut ladder = ladder::read(&file.load).map_err(|faults| self.faults.extend(faults)).ok();
        if let Some(Ladder::Search(search)) = &mut ladder {
            search.relaunch = file.target.launch.is_some();
        }
        let workload = self.workload(file, kind);
        let probes = self.probes(file, kind);
        self.rules(file, &probes, ladder.as_ref(), workload.as_deref());
        self.faults.extend(actions::faults(&file.action, ladder.as_ref(), file.target.launch.is_some()));
        let guards = self.guards(file);
        if let Some(sweep) = &file.sweep {
            self.faults.extend(sweep::faults(sweep, target.as_ref()));
        }
        let warm_up_s = file.load.warm_up_s.unwrap_or(if file.target.launch.is_some() { WARM_UP_S } else { 0.0 });
        self.within("load.warm_up_s", warm_up_s, 0.0, 3_600.0);
        self.within("load.settle_s", file.load.settle_s, 0.0, 86_400.0);
        self.within("load.measure_s", file.load.measure_s, 1.0, 86_400.0);
        for (field, value) in [
            ("load.fill_max_s", file.load.fill_max_s),
            ("limits.time_budget_s", file.limits.time_budget_s),
            ("limits.clean_up_max_s", file.limits.clean_up_max_s),
        ] {
            if let Some(value) = value {
                self.within(field, value, 1.0, 604_800.0);
            }
        }
        if let Some(pace) = file.limits.deletes_per_s {
            self.within("limits.deletes_per_s", pace, 1.0, 1_000_000.0);
        }
        let (target, ladder, workload) = (target?, ladder?, workload?);
        if let (Some(top), axis) = (ladder.top(), workload.about().axis)
            && top > axis.max
        {
            let field = if matches!(ladder, Ladder::Levels(_)) { "load.levels" } else { "load.max" };
            self.fault(field, format!("asks for {top} {}; allowed: at most {}", axis.unit, axis.max));
        }
        let hold = self.hold(file);
        if file.expect.peak == Some(0) {
            self.fault("expect.peak", "is 0; allowed: 1 or more");
        }
        let rules = with_defaults(&file.rule, workload.as_ref());
        let default_pace = CleanPace::default();
        Some(Scenario {
            name: file.name.clone(),
            description: file.description.clone(),
            text: text.to_owned(),
            target_kind: kind.to_owned(),
            target,
            workload,
            ladder,
            warm_up_s: if probes.is_empty() { 0.0 } else { warm_up_s },
            settle_s: file.load.settle_s,
            measure_s: file.load.measure_s,
            fill_max_s: file.load.fill_max_s,
            probes,
            rules,
            actions: file.action.clone(),
            guards,
            sweep: file.sweep.clone(),
            required: file.require.capacity,
            peak: file.expect.peak,
            hold,
            time_budget_s: file.limits.time_budget_s,
            clean_pace: CleanPace {
                deletes_per_s: file.limits.deletes_per_s.unwrap_or(default_pace.deletes_per_s),
                limit: file
                    .limits
                    .clean_up_max_s
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                    .unwrap_or(default_pace.limit),
            },
        })
    }

    fn hold(&mut self, file: &File) -> Option<Hold> {
        let asked = file.load.hold.as_ref()?;
        self.within("load.hold.share", asked.share, 0.05, 1.0);
        match asked.r#for.parse::<jiff::SignedDuration>() {
            Ok(time) if (1.0..=2_592_000.0).contains(&time.as_secs_f64()) => {
                Some(Hold { share: asked.share, for_s: time.as_secs_f64() })
            }
            Ok(_) | Err(_) => {
                let text = format!(
                    "is {:?}; allowed: a time such as \"90s\", \"30m\" or \"2h\", of 1 s to 30 days",
                    asked.r#for
                );
                self.fault("load.hold.for", text);
                None
            }
        }
    }

    fn guards(&mut self, file: &File) -> BTreeMap<Guard, Threshold> {
        let (guards, faults) = guards::read(&file.guards, file.target.launch.is_some() || file.target.kind == "sim");
        self.faults.extend(faults);
        guards
    }

    fn target(&mut self, file: &File) -> Option<TargetChoice> {
        match (&file.target.r#use, &file.target.launch) {
            (Some(name), None) if file.target.settings.is_empty() => Some(TargetChoice::Use(name.clone())),
            (Some(_), None) => {
                self.fault(
                    "target.settings",
                    "only belongs to a target that is launched (`launch`); this one is only used",
                );
                None
            }
            (None, Some(recipe)) => {
                Some(TargetChoice::Launch { recipe: recipe.clone(), settings: file.target.settings.clone() })
            }
            (Some(_), Some(_)) => {
                self.fault("target.launch", "stands beside `use`; allowed: one of them");
                None
            }
            (None, None) => {
                self.fault("target", "names nothing to test; add `launch = \"a recipe\"` or `use = \"a target\"`");
                None
            }
        }
    }

    fn workload(&mut self, file: &File, kind: &str) -> Option<Arc<dyn Workload>> {
        let name = &file.load.workload;
        let known = workload::WORKLOADS.iter().any(|entry| entry.name == name && entry.target == kind);
        let at = if known { "load.options" } else { "load.workload" };
        self.part(at, workload::workload(name, kind, toml::Value::Table(file.load.options.clone())))
    }

    fn probes(&mut self, file: &File, kind: &str) -> Vec<Arc<dyn Probe>> {
        let mut probes: Vec<Arc<dyn Probe>> = Vec::new();
        for (index, table) in file.probe.iter().enumerate() {
            let at = format!("probe[{index}]");
            let mut options = table.clone();
            let name = match options.remove("kind") {
                Some(toml::Value::String(name)) => name,
                Some(other) => {
                    self.fault(&format!("{at}.kind"), format!("is {other}; allowed: the name of a probe"));
                    continue;
                }
                None => {
                    let allowed: Vec<_> = workload::PROBES.iter().map(|entry| entry.name).collect();
                    self.fault(&at, format!("missing field `kind`; allowed: {}", allowed.join(", ")));
                    continue;
                }
            };
            if probes.iter().any(|probe| probe.name() == name) {
                self.fault(
                    &format!("{at}.kind"),
                    format!("is {name:?} for the second time; each probe can be used once"),
                );
                continue;
            }
            probes.extend(self.part(&at, workload::probe(&name, kind, toml::Value::Table(options))));
        }
        probes
    }

    fn rules(
        &mut self,
        file: &File,
        probes: &[Arc<dyn Probe>],
        ladder: Option<&Ladder>,
        workload: Option<&dyn Workload>,
    ) {
        let mut operations: Vec<&str> = probes.iter().flat_map(|probe| probe.operations().iter().copied()).collect();
        let rate = workload.map(Workload::about).filter(|about| about.axis.kind == AxisKind::Rate);
        // A load that has a schedule of its own is measured without a probe.
        if let Some(about) = rate.filter(|_| probes.is_empty()) {
            operations.extend(about.operations);
        }
        for (index, rule) in file.rule.iter().enumerate() {
            let at = |field: &str| format!("rule[{index}].{field}");
            if let Some(operation) = rule.operation()
                && !operations.contains(&operation)
            {
                let allowed = if operations.is_empty() {
                    "none, since the scenario has no [[probe]]".to_owned()
                } else {
                    operations.join(", ")
                };
                self.fault(&at("operation"), format!("is {operation:?}; allowed: {allowed}"));
            }
            match rule {
                Rule::AchievedShort { share } => self.within(&at("share"), *share, 0.5, 1.0),
                Rule::BacklogGrowth { growth } => {
                    self.within(&at("growth"), *growth, 0.0001, 1.0);
                    if rate.is_none() {
                        self.fault(&at("kind"), "is \"backlog_growth\"; allowed only where the load is a rate");
                    } else if file.load.measure_s < BACKLOG_S {
                        self.fault(
                            "load.measure_s",
                            format!("is {}; `backlog_growth` needs {BACKLOG_S} or more", file.load.measure_s),
                        );
                    }
                }
                Rule::Plateau { gain } => self.within(&at("gain"), *gain, 0.0, 1.0),
                Rule::Retrograde { below } => self.within(&at("below"), *below, 0.01, 1.0),
                Rule::ThroughputDrop { below, baseline, .. } => {
                    if probes.is_empty() {
                        self.fault(
                            &at("kind"),
                            "is \"throughput_drop\"; allowed only with a [[probe]], whose rate it reads",
                        );
                    }
                    self.within(&at("below"), *below, 0.01, 1.0);
                    let load = baseline.load();
                    if load > 0 && ladder.is_some_and(|ladder| !ladder.loads().contains(&load)) {
                        self.fault(
                            &at("baseline"),
                            format!(
                                "is {load}, which is no load of the ladder; allowed: \"empty\" or a load of the ladder"
                            ),
                        );
                    }
                }
                Rule::SloLatency { percentile, limit_ms, .. } => {
                    if !rules::PERCENTILES.iter().any(|known| (known - percentile).abs() < 1e-9) {
                        self.fault(&at("percentile"), format!("is {percentile}; allowed: 0.5, 0.95, 0.99, 0.999"));
                    }
                    self.within(&at("limit_ms"), *limit_ms, 0.001, 600_000.0);
                }
                Rule::SloErrors { above, .. } => self.within(&at("above"), *above, 0.0, 1.0),
                Rule::OutstandingHigh { above, for_s } => {
                    self.within(&at("above"), *above, 0.0, 1e9);
                    self.within(&at("for_s"), *for_s, 1.0, 86_400.0);
                    if *for_s > file.load.measure_s {
                        self.fault(
                            &at("for_s"),
                            format!(
                                "is {for_s}, longer than load.measure_s = {}: it could never be broken",
                                file.load.measure_s
                            ),
                        );
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const SOUND: &str = r#"
name = "zookeeper-domains-ramp"
[target]
kind = "zookeeper"
launch = "local-small"
[load]
workload = "zookeeper.domains"
kind = "ramp"
start = 10
step = 10
max = 200
settle_s = 5
measure_s = 20
[[probe]]
kind = "zookeeper.latencies"
count = 1000
[[rule]]
kind = "throughput_drop"
operation = "get"
below = 0.6
[require]
capacity = 30
"#;

    fn faults(from: &str, to: &str) -> String {
        assert!(SOUND.contains(from), "{from}");
        Scenario::parse(&SOUND.replace(from, to)).map(|_| String::new()).unwrap_or_else(|faults| faults.to_string())
    }

    #[test]
    fn the_scenario_of_the_readme_is_read() {
        let scenario = Scenario::parse(SOUND).unwrap();
        assert_eq!(scenario.ladder.loads().len(), 20);
        assert_eq!(scenario.required, Some(30));
        assert_eq!(scenario.rules.len(), 1);
    }

    #[test]
    fn every_fault_names_line_field_and_what_is_allowed() {
        for (from, to, parts) in [
            ("step = 10\n", "stepp = 10\n", &["line 10", "load.stepp", "step"][..]),
            ("start = 10", "start = -10", &["line 9", "load.start", "-10", "0 or more"]),
            ("start = 10", "start = \"ten\"", &["line 9", "load.start", "ten", "whole number"]),
            ("start = 10", "start = 500", &["line 9", "load.start", "500", "200"]),
            ("max = 200", "max = 200000000", &["load.step", "1000 steps"]),
            ("step = 10\nmax = 200", "step = 1000\nmax = 200000", &["line 11", "load.max", "200000", "100000"]),
            ("zookeeper.domains", "zookeeper.domain", &["line 7", "load.workload", "zookeeper.domains"]),
            ("kind = \"zookeeper\"\n", "kind = \"etcd\"\n", &["line 4", "target.kind", "etcd", "zookeeper"]),
            ("count = 1000", "count = 0", &["line 16", "probe[0].count", "1 to"]),
            ("count = 1000", "counts = 1000", &["line 16", "probe[0].counts", "count"]),
            ("operation = \"get\"", "operation = \"read\"", &["line 19", "rule[0].operation", "read", "watch"]),
            ("below = 0.6", "below = 60", &["line 20", "rule[0].below", "60", "0.01 to 1"]),
            ("below = 0.6", "below = 0.6\nbaseline = 35", &["line 21", "rule[0].baseline", "35"]),
            ("throughput_drop", "troughput_drop", &["line 18", "throughput_drop", "slo_latency"]),
            (
                "measure_s = 20",
                "measure_s = 20\n[load.options]\nexecutors = 0",
                &["line 15", "load.options.executors", "1 to 64"],
            ),
            ("measure_s = 20", "measure_s = nan", &["line 13", "load.measure_s", "1 to"]),
            ("launch = \"local-small\"\n", "", &["line 3", "target", "launch"]),
        ] {
            let text = faults(from, to);
            for part in parts {
                assert!(text.contains(part), "{to:?} gave {text:?}, without {part:?}");
            }
        }
    }

    #[test]
    fn several_faults_are_told_at_once() {
        let text =
            faults("start = 10\nstep = 10\nmax = 200\nsettle_s = 5", "start = 0\nstep = 0\nmax = 200\nsettle_s = -1");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn settings_of_a_recipe_may_be_tables() {
        let text = SOUND.replace("[load]", "[target.settings]\nheap_mib = 64\nzoo_cfg = { snapCount = 1000 }\n[load]");
        let TargetChoice::Launch { settings, .. } = Scenario::parse(&text).unwrap().target else {
            panic!("not launched")
        };
        assert_eq!(settings.keys().collect::<Vec<_>>(), ["heap_mib", "zoo_cfg"]);
    }
}
