//! `[sweep]`: the same load and probes while one setting of a launched target varies, or nothing at all.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{TargetChoice, plan::Surroundings};
use crate::{
    analysis::arms::Order,
    launch::{InstalledJava, LaunchError, Recipe, flat_settings},
    model::{Arm, Fault},
};

/// The most values and repetitions: each is a launch, a fill and a measurement.
const VALUES_MAX: usize = 20;
const REPETITIONS: std::ops::RangeInclusive<u32> = 1..=20;

/// The word for all Java runtimes that are installed.
const INSTALLED: &str = "installed";
/// The setting that the word belongs to.
const JAVA: &str = "java";

/// What a scenario varies.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// A name as in `[target.settings]`, such as `zoo_cfg.snapCount`; absent: the same is measured again and again.
    #[serde(default)]
    pub setting: Option<String>,
    /// The values that the setting takes, or `"installed"`: all Java runtimes of this machine.
    #[serde(default)]
    pub values: Option<Values>,
    #[serde(default)]
    pub order: Order,
    /// How often each value is measured: without repetitions nothing can be said about differences.
    #[serde(default = "two")]
    pub repetitions: u32,
}

/// Values of the setting.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Values {
    Listed(Vec<toml::Value>),
    Named(String),
}

/// One arm as it will be launched.
#[derive(Debug, Clone)]
pub(super) struct ArmToLaunch {
    pub(super) arm: Arm,
    pub(super) recipe: Recipe,
}

const fn two() -> u32 {
    2
}

/// Every fault of the table itself.
pub(super) fn faults(sweep: &Sweep, target: Option<&TargetChoice>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |field: &str, message: String| faults.push(Fault::new(field, message));
    if !REPETITIONS.contains(&sweep.repetitions) {
        fault("sweep.repetitions", format!("is {}; allowed: 1 to {}", sweep.repetitions, REPETITIONS.end()));
    }
    match target {
        Some(TargetChoice::Use(name)) if sweep.setting.is_some() => {
            let message = format!("needs a target that is launched (`launch`); {name:?} is only used");
            fault("sweep.setting", message);
        }
        Some(TargetChoice::Launch { settings, .. }) => {
            if let Some(setting) = &sweep.setting
                && flat_settings(settings).contains_key(setting)
            {
                fault(
                    "sweep.setting",
                    format!("is {setting:?}, which stands in target.settings too; allowed: one of them"),
                );
            }
        }
        Some(TargetChoice::Use(_)) | None => {}
    }
    match (&sweep.setting, &sweep.values) {
        (None, None) => {}
        (Some(_), None) => fault("sweep.values", "is missing; a setting needs a list of values".to_owned()),
        (None, Some(_)) => fault("sweep.setting", "is missing; values need the name of a setting".to_owned()),
        (Some(setting), Some(Values::Named(word))) => {
            if word != INSTALLED || setting != JAVA {
                let message = format!("is {word:?}; allowed: a list, or \"{INSTALLED}\" with setting = \"{JAVA}\"");
                fault("sweep.values", message);
            }
        }
        (Some(_), Some(Values::Listed(values))) => {
            if values.len() < 2 || values.len() > VALUES_MAX {
                fault("sweep.values", format!("has {} values; allowed: 2 to {VALUES_MAX}", values.len()));
            }
            let words: Vec<String> = values.iter().map(plain).collect();
            for (at, word) in words.iter().enumerate() {
                if words[..at].contains(word) {
                    fault("sweep.values", format!("holds {word} twice; allowed: different values"));
                }
            }
        }
    }
    faults
}

/// The arms of a sweep, all values once, then all once more. `local_user` may set anything, others what the recipe allows.
///
/// # Errors
/// The first value that the recipe refuses.
pub(super) fn arms(
    sweep: &Sweep,
    recipe: &Recipe,
    local_user: bool,
    surroundings: &Surroundings,
) -> Result<Vec<ArmToLaunch>, Fault> {
    let setting = sweep.setting.clone().unwrap_or_default();
    let of_values: Vec<(String, Recipe)> = match &sweep.values {
        None => vec![(String::new(), recipe.clone())],
        Some(Values::Named(_)) => {
            let found = &surroundings.javas;
            if found.len() < 2 {
                let names: Vec<&str> = found.iter().map(|java| java.label.as_str()).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let message = format!(
                    "is \"{INSTALLED}\", and of Java runtimes there is {names} under /usr/lib/jvm; allowed: two or more there, or a list of paths"
                );
                return Err(Fault::new("sweep.values", message));
            }
            // What is installed here is the operator's own choice, not the request's.
            let with = |java: &InstalledJava| Recipe { java: Some(java.path.clone()), ..recipe.clone() };
            found.iter().map(|java| (java.label.clone(), with(java))).collect()
        }
        Some(Values::Listed(values)) => values
            .iter()
            .enumerate()
            .map(|(at, value)| {
                let settings = BTreeMap::from([(setting.clone(), value.clone())]);
                let with = recipe.with_settings(&settings, local_user).map_err(|error| refused(at, &error))?;
                Ok((plain(value), with))
            })
            .collect::<Result<_, Fault>>()?,
    };
    let repetitions = (1..=sweep.repetitions).flat_map(|repetition| of_values.iter().map(move |of| (repetition, of)));
    Ok((0..)
        .zip(repetitions)
        .map(|(number, (repetition, (value, recipe)))| ArmToLaunch {
            arm: Arm { number, setting: setting.clone(), value: value.clone(), repetition },
            recipe: recipe.clone(),
        })
        .collect())
}

/// A target that is only used, again and again.
pub(super) fn repeats(sweep: &Sweep) -> impl Iterator<Item = Arm> {
    let arm = |(number, repetition)| Arm { number, setting: String::new(), value: String::new(), repetition };
    (0..).zip(1..=sweep.repetitions).map(arm)
}

/// What a reader of the result must know.
pub(super) fn remark(sweep: &Sweep, arms: usize, launched: bool) -> String {
    if sweep.setting.is_none() {
        let how = if launched { "launched and filled anew" } else { "claimed anew, with whatever else it holds" };
        return format!("The same is measured {arms} times, each time on a target that is {how}.");
    }
    let order = match sweep.order {
        Order::Random => "in random order",
        Order::Abba => "in turns, every second time backwards",
    };
    let what = sweep.setting.as_deref().unwrap_or("nothing");
    format!("{arms} arms, of which each launches and fills the target anew; between them {what} varies, {order}.")
}

fn refused(at: usize, error: &LaunchError) -> Fault {
    let said = if let LaunchError::Setting { field, value, allowed } = error {
        format!("sets {field} to {value}; allowed: {allowed}")
    } else {
        error.to_string()
    };
    Fault::new(format!("sweep.values[{at}]"), said)
}

/// A value as people write it.
fn plain(value: &toml::Value) -> String {
    match (value.as_str(), value.as_array()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(words)) => words.iter().map(plain).collect::<Vec<_>>().join(" "),
        (None, None) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        config::Config,
        launch::InstalledJava,
        scenario::{Origin, Plan, PlannedTarget, Scenario, Surroundings, plan},
    };

    fn text(sweep: &str) -> String {
        format!(
            "name = \"a\"\n[target]\nkind = \"zookeeper\"\nlaunch = \"local\"\n[target.settings]\nzoo_cfg.tickTime = 500\n\
             [load]\nworkload = \"zookeeper.domains\"\nkind = \"levels\"\nlevels = [10]\n[sweep]\n{sweep}\n"
        )
    }

    fn planned(text: &str, origin: Origin, javas: &[&str]) -> Result<Plan, String> {
        let java = |label: &&str| InstalledJava { label: (*label).to_owned(), path: format!("/jvm/{label}/bin/java") };
        let surroundings = Surroundings { open_files: None, javas: javas.iter().map(java).collect() };
        let scenario = Scenario::parse(text).map_err(|faults| faults.to_string())?;
        plan(&scenario, &Config::parse("").unwrap(), origin, &surroundings).map_err(|faults| faults.to_string())
    }

    fn recipe(plan: &Plan, arm: usize) -> &crate::launch::Recipe {
        let PlannedTarget::Launch(recipe) = &plan.arms[arm].target else { panic!("launched") };
        recipe
    }

    #[test]
    fn all_values_come_once_then_all_once_more_each_with_its_own_recipe() {
        let plan =
            planned(&text("setting = \"zoo_cfg.snapCount\"\nvalues = [1000, 9000]"), Origin::Network, &[]).unwrap();
        let arms: Vec<_> =
            plan.outline.arms.iter().map(|arm| (arm.number, arm.value.as_str(), arm.repetition)).collect();
        assert_eq!(arms, [(0, "1000", 1), (1, "9000", 1), (2, "1000", 2), (3, "9000", 2)]);
        for (at, value) in [(0, "1000"), (1, "9000"), (2, "1000"), (3, "9000")] {
            assert_eq!(
                (&*recipe(&plan, at).zoo_cfg["snapCount"], &*recipe(&plan, at).zoo_cfg["tickTime"]),
                (value, "500")
            );
        }
        let once = planned(&text("repetitions = 1"), Origin::Network, &[]).unwrap();
        assert!(plan.outline.longest_s > 3 * once.outline.longest_s, "each arm takes its time");
    }

    #[test]
    fn without_a_setting_the_same_is_repeated() {
        let plan = planned(&text("repetitions = 3"), Origin::Network, &[]).unwrap();
        assert_eq!(plan.arms.len(), 3);
        assert_eq!(recipe(&plan, 0), recipe(&plan, 2));
    }

    #[test]
    fn installed_runtimes_are_compared_wherever_they_are() {
        let sweep = text("setting = \"java\"\nvalues = \"installed\"\nrepetitions = 1");
        let plan = planned(&sweep, Origin::Network, &["Debian 17", "Temurin 25"]).unwrap();
        let values: Vec<_> = plan.arms.iter().map(|planned| planned.arm.value.as_str()).collect();
        assert_eq!(values, ["Debian 17", "Temurin 25"]);
        assert_eq!(recipe(&plan, 1).java.as_deref(), Some("/jvm/Temurin 25/bin/java"));
        let error = planned(&sweep, Origin::Network, &["Debian 17"]).unwrap_err();
        assert!(error.contains("sweep.values") && error.contains("there is Debian 17 under"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (sweep, said) in [
            ("setting = \"zoo_cfg.snapCount\"", "sweep.values: is missing"),
            ("values = [1, 2]", "sweep.setting: is missing"),
            ("setting = \"heap_mib\"\nvalues = [100]", "sweep.values: has 1 values; allowed: 2 to 20"),
            ("setting = \"heap_mib\"\nvalues = [100, 100]", "holds 100 twice"),
            ("setting = \"heap_mib\"\nvalues = [100, 5]", "sets heap_mib to 5; allowed: 16 to 65536 MiB"),
            ("setting = \"heap_mib\"\nvalues = \"installed\"", "is \"installed\"; allowed: a list"),
            ("setting = \"zoo_cfg.tickTime\"\nvalues = [1, 2]", "stands in target.settings too"),
            ("setting = \"java\"\nvalues = [\"/bin/a\", \"/bin/b\"]", "allowed: heap_mib, zoo_cfg.snapCount"),
            ("repetitions = 0", "line 12: sweep.repetitions: is 0; allowed: 1 to 20"),
            ("order = \"sorted\"", "unknown variant `sorted`, allowed: `random` or `abba`"),
            ("setings = 1", "unknown field `setings`"),
        ] {
            let error = planned(&text(sweep), Origin::Network, &[]).unwrap_err();
            assert!(error.contains(said), "{sweep}: {error}");
        }
        let used = text("setting = \"heap_mib\"\nvalues = [100, 200]")
            .replace("launch = \"local\"\n[target.settings]\nzoo_cfg.tickTime = 500", "use = \"zk\"");
        let error = planned(&used, Origin::LocalUser, &[]).unwrap_err();
        assert!(error.contains("sweep.setting: needs a target that is launched"), "{error}");
        let kind = text("repetitions = 2").replace("\"levels\"", "\"sweep\"");
        assert!(planned(&kind, Origin::LocalUser, &[]).unwrap_err().contains("load.kind"));
    }
}
