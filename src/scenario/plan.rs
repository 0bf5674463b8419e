//! What a scenario comes to on a configuration: the target, the ladder, the longest duration, the sessions it needs.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Scenario, TargetChoice, actions, expected, guards, sweep};
use crate::{
    analysis::{
        Ladder,
        search::{Growth, Search},
    },
    config::{Config, Document},
    launch::{InstalledJava, LaunchError, NamedCommand, Recipe},
    model::{Arm, AxisKind, Expected, Fault, Faults},
    target::TargetSpec,
};

/// The summary of a plan, as `rampart check`, the API and the live page show it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Outline {
    pub scenario: String,
    /// The target's name: of the configuration, or of the recipe.
    pub target: String,
    pub target_kind: String,
    /// True when the run launches it.
    pub managed: bool,
    pub workload: String,
    pub axis: String,
    pub unit: String,
    /// The loads in the order in which they are tried; the first is 0, the empty target. Of a search: as long as they hold.
    pub ladder: Vec<u64>,
    /// What each load of the ladder consists of and should bring to the target; empty for a run of before this was kept.
    #[serde(default)]
    pub expected: Vec<Expected>,
    /// Whether loads follow from what was found (`search`), up and down.
    #[serde(default)]
    pub search: bool,
    /// What is measured in turns, of a run that has several arms: all values once, then all once more.
    #[serde(default)]
    pub arms: Vec<Arm>,
    /// The longest that the run can take, in seconds, clean-up included.
    pub longest_s: u64,
    /// What the largest load needs, against what there is.
    pub needs: Vec<Need>,
    /// What a reader of the result must know, in sentences.
    pub remarks: Vec<String>,
}

/// One resource that the largest load needs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Need {
    /// Such as `sessions`, `open files of this process`.
    pub what: String,
    pub needed: u64,
    /// `None` when it is not known before the run.
    pub available: Option<u64>,
}

impl Need {
    /// Whether there is too little, as far as that is known.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.available.is_some_and(|available| available < self.needed)
    }
}

/// Who asks: decides what may be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A request over the network: only what the configuration names and allows.
    Network,
    /// The local user, who could launch anything anyway.
    LocalUser,
}

/// The target of a run.
#[derive(Debug, Clone)]
pub enum PlannedTarget {
    Use(TargetSpec),
    Launch(Box<Recipe>),
}

/// One arm: a target, measured once.
#[derive(Debug, Clone)]
pub struct PlannedArm {
    pub arm: Arm,
    pub target: PlannedTarget,
}

/// What a plan has to know of the machine that it will run on.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// This process's limit of open files, where it is known.
    pub open_files: Option<u64>,
    /// The Java runtimes that are installed.
    pub javas: Vec<InstalledJava>,
}

/// A scenario brought together with a configuration: all that the engine needs.
#[derive(Debug, Clone)]
pub struct Plan {
    pub outline: Outline,
    pub scenario: Scenario,
    /// One, unless the scenario has a sweep.
    pub arms: Vec<PlannedArm>,
    /// The configuration's commands that actions may run.
    pub commands: BTreeMap<String, NamedCommand>,
    /// How long the run may wait for a target that another run holds.
    pub wait_for_target: Duration,
}

/// Seconds that operations of a rate may take to come back before another rate begins.
const DRAIN_MAX_S: f64 = 120.0;
/// Seconds that a load may take to be put in place beside what its pace says.
const FILL_GRACE_S: f64 = 60.0;
/// How long a server's run waits for a target that another run holds; someone at a terminal is told at once.
const WAIT_FOR_TARGET: Duration = Duration::from_secs(600);
/// Open files of this process besides those of sessions.
const OWN_FILES: u64 = 64;

impl Plan {
    /// The longest that moving from one load to another may take, in seconds.
    #[must_use]
    pub fn fill_max_s(&self, from: u64, to: u64) -> f64 {
        fill_max_s(&self.scenario, from, to)
    }
}

fn fill_max_s(scenario: &Scenario, from: u64, to: u64) -> f64 {
    let members = to.abs_diff(from) as f64;
    let pace = scenario.workload.demand(to).fill_s_per_member;
    let most_s = match scenario.workload.about().axis.kind {
        AxisKind::Population => FILL_GRACE_S + 4.0 * pace * members,
        AxisKind::Rate => DRAIN_MAX_S,
    };
    scenario.fill_max_s.unwrap_or(most_s)
}

/// Brings a scenario and a configuration together, on a machine.
///
/// # Errors
/// Every fault: an unknown target or recipe, a setting that the recipe does not allow.
pub fn plan(scenario: &Scenario, config: &Config, origin: Origin, surroundings: &Surroundings) -> Result<Plan, Faults> {
    let document = Document::parse(&scenario.text)?;
    let located = |fault| Faults(vec![document.locate(fault)]);
    let (name, target) = choose(scenario, config, origin).map_err(located)?;
    let arms = arms(scenario, &target, origin, surroundings).map_err(located)?;
    let launched = match &target {
        PlannedTarget::Launch(recipe) => Some(recipe.as_ref()),
        PlannedTarget::Use(_) => None,
    };
    let faults: Vec<Fault> = actions::against(scenario, config, launched);
    if !faults.is_empty() {
        return Err(Faults(faults.into_iter().map(|fault| document.locate(fault)).collect()));
    }
    let axis = scenario.workload.about().axis;
    let mut ladder = vec![0];
    ladder.extend(scenario.ladder.loads());
    let top = ladder.iter().copied().max().unwrap_or(0);
    let demand = scenario.workload.demand(top);
    let mut remarks = scenario.workload.remarks();
    remarks.extend(scenario.probes.iter().map(|probe| probe.remark()));
    if scenario.warm_up_s > 0.0 {
        remarks.push(format!(
            "Probes run {} s on each server that they ask unmeasured before step 0, so that the empty target is not a cold one.",
            scenario.warm_up_s
        ));
    }
    if scenario.rules.is_empty() {
        remarks.push("The scenario has no rule: only a target that gives way ends it before the last load.".to_owned());
    }
    if let Ladder::Search(search) = &scenario.ladder {
        remarks.push(search_remark(search));
    }
    if let Some(hold) = scenario.hold {
        remarks.push(format!(
            "{} % of the answer is measured again and again for {} s, to see whether it lasts.",
            hold.share * 100.0,
            hold.for_s
        ));
    }
    if matches!(scenario.ladder, Ladder::Search(_)) && axis.kind == AxisKind::Population {
        remarks.push("Trials of a population follow each other on one target: heap, snapshots and data of one trial are still there in the next; only the load itself is taken down and put up.".to_owned());
    }
    remarks.extend(actions::remarks(scenario, launched));
    remarks.extend(guards::remark(&scenario.guards));
    remarks.extend(scenario.sweep.as_ref().map(|sweep| sweep::remark(sweep, arms.len(), launched.is_some())));
    let managed = launched.is_some();
    let outline = Outline {
        scenario: scenario.name.clone(),
        target: name,
        target_kind: scenario.target_kind.clone(),
        managed,
        workload: scenario.workload.about().name.to_owned(),
        axis: axis.name.to_owned(),
        unit: axis.unit.to_owned(),
        longest_s: longest_s(scenario, &ladder, actions::longest_s(scenario, config), &arms),
        expected: expected::of(scenario.workload.as_ref(), &ladder),
        ladder,
        search: matches!(scenario.ladder, Ladder::Search(_)),
        arms: if scenario.sweep.is_some() {
            arms.iter().map(|planned| planned.arm.clone()).collect()
        } else {
            Vec::new()
        },
        needs: vec![
            Need { what: "sessions".to_owned(), needed: demand.sessions, available: None },
            Need {
                what: "open files of this process".to_owned(),
                needed: demand.sessions + OWN_FILES,
                available: surroundings.open_files,
            },
        ],
        remarks,
    };
    let wait_for_target = match origin {
        Origin::Network => WAIT_FOR_TARGET,
        Origin::LocalUser => Duration::ZERO,
    };
    Ok(Plan { outline, scenario: scenario.clone(), arms, commands: config.commands.clone(), wait_for_target })
}

fn search_remark(search: &Search) -> String {
    let growth = match search.growth {
        Growth::Factor(factor) => format!("times {factor}"),
        Growth::Step(step) => format!("{step} more"),
    };
    format!(
        "The search starts at {}, grows by {growth} up to {} until a load breaks, then halves the gap to {} % of the load or {}; \
         loads near the answer are measured several times, at most {} trials in all.",
        search.start,
        search.max,
        search.width * 100.0,
        search.resolution,
        search.trials_max
    )
}

/// One arm of the target itself, or those of the sweep.
fn arms(
    scenario: &Scenario,
    target: &PlannedTarget,
    origin: Origin,
    surroundings: &Surroundings,
) -> Result<Vec<PlannedArm>, Fault> {
    let (sweep, recipe) = match (&scenario.sweep, target) {
        (Some(sweep), PlannedTarget::Launch(recipe)) => (sweep, recipe),
        (Some(sweep), PlannedTarget::Use(_)) => {
            return Ok(sweep::repeats(sweep).map(|arm| PlannedArm { arm, target: target.clone() }).collect());
        }
        (None, _) => {
            let arm = Arm { number: 0, setting: String::new(), value: String::new(), repetition: 1 };
            return Ok(vec![PlannedArm { arm, target: target.clone() }]);
        }
    };
    let arms = sweep::arms(sweep, recipe, origin == Origin::LocalUser, surroundings)?;
    let planned =
        |made: sweep::ArmToLaunch| PlannedArm { arm: made.arm, target: PlannedTarget::Launch(Box::new(made.recipe)) };
    Ok(arms.into_iter().map(planned).collect())
}

fn choose(scenario: &Scenario, config: &Config, origin: Origin) -> Result<(String, PlannedTarget), Fault> {
    let kind = &scenario.target_kind;
    match &scenario.target {
        TargetChoice::Use(name) => {
            let spec = config.targets.get(name).ok_or_else(|| {
                Fault::new(
                    "target.use",
                    format!(
                        "is {name:?}, which the configuration does not name; allowed: {}",
                        list(config.targets.keys())
                    ),
                )
            })?;
            if spec.kind() != kind {
                return Err(Fault::new(
                    "target.kind",
                    format!("is {kind:?}, but target {name:?} is of kind {:?}", spec.kind()),
                ));
            }
            Ok((name.clone(), PlannedTarget::Use(spec.clone())))
        }
        TargetChoice::Launch { recipe: name, settings } => {
            let recipe = config.recipes.get(name).ok_or_else(|| {
                Fault::new(
                    "target.launch",
                    format!(
                        "is {name:?}, which the configuration does not name; allowed: {}",
                        list(config.recipes.keys())
                    ),
                )
            })?;
            if &recipe.kind != kind {
                return Err(Fault::new(
                    "target.kind",
                    format!("is {kind:?}, but recipe {name:?} is for {:?}", recipe.kind),
                ));
            }
            let recipe = recipe.with_settings(settings, origin == Origin::LocalUser).map_err(|error| {
                if let LaunchError::Setting { field, value, allowed } = error {
                    Fault::new(format!("target.settings.{field}"), format!("is {value}; allowed: {allowed}"))
                } else {
                    Fault::new("target.launch", error.to_string())
                }
            })?;
            Ok((name.clone(), PlannedTarget::Launch(Box::new(recipe))))
        }
    }
}

fn list<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Every step measured twice, filled as slowly as it may be, then cleaned up as slowly as it may be; each arm so, with a
/// launch that takes as long as its recipe allows.
fn longest_s(scenario: &Scenario, ladder: &[u64], actions_s: f64, arms: &[PlannedArm]) -> u64 {
    let hold = scenario.settle_s + scenario.measure_s;
    let steps: f64 = match &scenario.ladder {
        Ladder::Levels(_) | Ladder::Ramp { .. } => {
            ladder.windows(2).map(|pair| fill_max_s(scenario, pair[0], pair[1]) + 2.0 * hold).sum()
        }
        Ladder::Search(search) => f64::from(search.trials_max) * (fill_max_s(scenario, 0, search.max) + hold),
    };
    let lasting_s = scenario.hold.map_or(0.0, |asked| asked.for_s + 2.0 * hold);
    let measured = steps + actions_s + 2.0 * hold + lasting_s;
    let arm_s = |arm: &PlannedArm| measured + launch_s(&arm.target) + scenario.warm_up_s * servers(&arm.target) as f64;
    let run: f64 = arms.iter().map(arm_s).sum();
    let cleans = || arms.iter().map(|arm| clean_s(scenario, &arm.target));
    // The last clean-up comes after the time that a scenario may bound.
    let (clean, last) = (cleans().sum::<f64>(), cleans().next_back().unwrap_or(0.0));
    let run = run + clean - last;
    let run = scenario.time_budget_s.map_or(run, |budget| budget.min(run));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of checked, positive durations; a float cast saturates"
    )]
    let longest = (run + last).ceil() as u64;
    longest
}

/// The most servers that probes may warm up.
fn servers(target: &PlannedTarget) -> usize {
    match target {
        PlannedTarget::Use(spec) => spec.servers().len(),
        PlannedTarget::Launch(recipe) => usize::try_from(recipe.nodes).unwrap_or(1),
    }
}

fn launch_s(target: &PlannedTarget) -> f64 {
    match target {
        PlannedTarget::Use(_) => 0.0,
        PlannedTarget::Launch(recipe) => recipe.start_within().as_secs_f64(),
    }
}

/// Removing what the run created, and stopping what it launched. Data of a launched target mostly go with it.
fn clean_s(scenario: &Scenario, target: &PlannedTarget) -> f64 {
    let remove_s = scenario.clean_pace.limit.as_secs_f64();
    match target {
        PlannedTarget::Use(_) => remove_s,
        PlannedTarget::Launch(recipe) => {
            recipe.stop_within().as_secs_f64() + if recipe.keeps_data() { remove_s } else { 0.0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        config::Config,
        scenario::{Origin, Plan, Scenario, Surroundings, plan},
    };

    const CONFIG: &str = "[recipes.own]\nkind = \"zookeeper\"\nlauncher = \"command\"\n[recipes.own.command]\n\
        start = [\"true\"]\nstop = [\"true\"]\ntimeout_s = 300\ntarget = { servers = [\"127.0.0.1:2181\"] }\n";

    fn planned(launch: &str, config: &str) -> Plan {
        let text = format!(
            "name = \"a\"\n[target]\nkind = \"zookeeper\"\nlaunch = \"{launch}\"\n[load]\n\
             workload = \"zookeeper.domains\"\nkind = \"levels\"\nlevels = [10, 20]\n[limits]\nclean_up_max_s = 100\n"
        );
        let scenario = Scenario::parse(&text).unwrap();
        plan(&scenario, &Config::parse(config).unwrap(), Origin::LocalUser, &Surroundings::default()).unwrap()
    }

    #[test]
    fn a_launch_may_take_as_long_as_its_recipe_allows() {
        let longest = |launch, config| planned(launch, config).outline.longest_s;
        let one = longest("local", "");
        assert_eq!(longest("local-ensemble", "") - one, 20 + 120 - 60, "an election takes longer");
        // 300 s instead of 60 to start, 300 and 5 instead of 10 to stop, and what it keeps is removed before.
        assert_eq!(longest("own", CONFIG) - one, 240 + 295 + 100);
        let forgets = CONFIG.replace("timeout_s = 300", "timeout_s = 300\nkeeps_data = false");
        assert_eq!(longest("own", &forgets) - one, 240 + 295);
    }
}
