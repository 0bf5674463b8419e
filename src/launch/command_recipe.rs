//! The recipe of the launcher `command`: which programs start, show and stop somebody's own build or container. Checks,
//! without I/O.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use serde::{Deserialize, Serialize};

use super::{LaunchError, NodeAction, program};
use crate::target::zookeeper::ZookeeperSpec;

/// What settings of a scenario are called in the environment of the programs.
const SETTING_PREFIX: &str = "RAMPART_SETTING_";
/// Names the folder of the target's own in the environment of the programs; by it what they started is known again.
pub(super) const DIR_VARIABLE: &str = "RAMPART_DIR";
/// Stands for a server's `address:port` in commands for single servers.
const NODE: &str = "{node}";
/// Longest time that a program may be given, in seconds.
const LONGEST_S: u64 = 86_400;

/// `[recipes.NAME.command]`. Programs are argument lists; no shell reads them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRecipe {
    /// Stays in the foreground, as long as the target is to live, or ends with 0 when it has put it in the background.
    pub start: Vec<String>,
    /// Run at the end, after a cancel and after a crash; must bear that nothing runs.
    pub stop: Vec<String>,
    /// Run again and again until it ends with 0; without it, all servers must answer `srvr`.
    #[serde(default)]
    pub ready: Option<Vec<String>>,
    /// Where what was started is, and how to get in: the keys of a target of the configuration.
    pub target: ZookeeperSpec,
    /// The working folder of the programs; Rampart's own when absent.
    #[serde(default)]
    pub workdir: Option<PathBuf>,
    /// Over Rampart's own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How long the target may take to become ready, and each single program to end.
    #[serde(default = "two_minutes")]
    pub timeout_s: u64,
    /// Whether data outlive `stop`: then what a run created is removed before.
    #[serde(default = "yes")]
    pub keeps_data: bool,
    /// What does something to one server: `{node}` stands for its `address:port`.
    #[serde(default)]
    pub node_commands: BTreeMap<NodeAction, Vec<String>>,
    /// What a scenario has set, of what the recipe allows.
    #[serde(skip)]
    pub(super) settings: BTreeMap<String, String>,
}

const fn two_minutes() -> u64 {
    120
}

const fn yes() -> bool {
    true
}

impl CommandRecipe {
    pub(super) fn check(&self) -> Result<(), LaunchError> {
        let ready = self.ready.as_ref().map(|ready| ("ready".to_owned(), ready));
        let of_nodes = self.node_commands.iter().map(|(action, argv)| (format!("node_commands.{action}"), argv));
        let programs = [("start".to_owned(), &self.start), ("stop".to_owned(), &self.stop)];
        for (name, argv) in programs.into_iter().chain(ready).chain(of_nodes) {
            if argv.first().is_none_or(String::is_empty) {
                return Err(refused(&name, &format!("{argv:?}"), "a list of a program and its arguments"));
            }
        }
        if self.target.servers.is_empty() {
            return Err(refused("target.servers", "[]", "at least one address:port"));
        }
        if !(1..=LONGEST_S).contains(&self.timeout_s) {
            return Err(refused("timeout_s", &self.timeout_s.to_string(), &format!("1 to {LONGEST_S}")));
        }
        for name in self.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) || name.starts_with("RAMPART_") {
                let allowed = "names without =, other than Rampart's own (RAMPART_...)";
                return Err(refused("env", &format!("{name:?}"), allowed));
            }
        }
        Ok(())
    }

    /// Notes a setting of a scenario, which the recipe allows.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<(), LaunchError> {
        let setting = |value: &str, allowed: &str| LaunchError::Setting {
            field: name.to_owned(),
            value: value.to_owned(),
            allowed: allowed.to_owned(),
        };
        if value.chars().any(char::is_control) {
            return Err(setting(&value.escape_debug().to_string(), "values of one line"));
        }
        if self.settings.keys().any(|other| other != name && variable(other) == variable(name)) {
            return Err(setting(&value, "one setting of each name in capitals"));
        }
        self.settings.insert(name.to_owned(), value);
        Ok(())
    }

    /// The environment of all programs, over Rampart's own.
    pub(super) fn environment(&self, dir: &str) -> BTreeMap<String, String> {
        let settings = self.settings.iter().map(|(name, value)| (variable(name), value.clone()));
        let mut all: BTreeMap<_, _> = self.env.clone().into_iter().chain(settings).collect();
        all.insert(DIR_VARIABLE.to_owned(), dir.to_owned());
        all
    }

    /// One of the programs, ready to be started; `None` for an empty list.
    pub(super) fn program(&self, argv: &[String], dir: &str) -> Option<Command> {
        let mut command = program::command(argv)?;
        command.envs(self.environment(dir));
        if let Some(workdir) = &self.workdir {
            command.current_dir(workdir);
        }
        Some(command)
    }

    /// What does something to one server.
    pub(super) fn for_node(&self, action: NodeAction, node: &str) -> Option<Vec<String>> {
        let argv = self.node_commands.get(&action)?;
        Some(argv.iter().map(|word| word.replace(NODE, node)).collect())
    }
}

/// `zoo_cfg.snapCount` is `RAMPART_SETTING_ZOO_CFG_SNAPCOUNT`.
fn variable(setting: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    SETTING_PREFIX.chars().chain(setting.chars().map(plain)).collect()
}

fn refused(field: &str, value: &str, allowed: &str) -> LaunchError {
    LaunchError::Setting { field: format!("command.{field}"), value: value.to_owned(), allowed: allowed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Recipe;

    fn recipe(more: &str) -> Recipe {
        let text = format!(
            "kind = \"zookeeper\"\nlauncher = \"command\"\nallow = [\"snapCount\", \"a.*\"]\n[command]\n\
             start = [\"a\"]\nstop = [\"b\"]\n{more}\n[command.target]\nservers = [\"127.0.0.1:2181\"]\n"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn settings_are_variables_of_the_names_that_the_recipe_allows() {
        let with = |text: &str| recipe("env = { A = \"b\" }").with_settings(&toml::from_str(text).unwrap(), true);
        let set = with("snapCount = 1000\na.b-c = 'x y'").unwrap().command.unwrap();
        let environment = set.environment("/d");
        let names: Vec<_> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = ["A=b", "RAMPART_DIR=/d", "RAMPART_SETTING_A_B_C=x y", "RAMPART_SETTING_SNAPCOUNT=1000"];
        assert_eq!(names, expected);
        for (text, words) in [
            ("heap_mib = 64", "heap_mib = 64; allowed: snapCount, a.*"),
            ("snapCount = \"1\\n2\"", "values of one line"),
            ("a.b-c = 1\na.b_c = 2", "one setting of each name in capitals"),
        ] {
            let error = with(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_named_with_its_field() {
        assert!(recipe("").check().is_ok());
        for (more, field) in [
            ("ready = []", "command.ready = []"),
            ("ready = [\"\"]", "command.ready = [\"\"]"),
            ("timeout_s = 0", "command.timeout_s = 0"),
            ("env = { RAMPART_DIR = \"/\" }", "command.env = \"RAMPART_DIR\""),
            ("node_commands = { kill = [] }", "command.node_commands.kill = []"),
        ] {
            let error = recipe(more).check().unwrap_err().to_string();
            assert!(error.contains(field), "no {field} in {error}");
        }
        let of_both = Recipe { jvm_args: vec!["-Xint".to_owned()], ..recipe("") };
        assert!(of_both.check().unwrap_err().to_string().contains("jvm_args"));
        let without = Recipe { command: None, ..recipe("") };
        assert!(without.check().unwrap_err().to_string().contains("command"));
        let local = Recipe { launcher: "local".to_owned(), ..recipe("") };
        assert!(local.check().unwrap_err().to_string().contains("command"));
    }

    #[test]
    fn a_node_is_put_where_it_belongs() {
        let command = recipe("node_commands = { kill = [\"k\", \"--of={node}\"] }").command.unwrap();
        assert_eq!(command.for_node(NodeAction::Kill, "n:1").unwrap(), ["k", "--of=n:1"]);
        assert_eq!(command.for_node(NodeAction::Stop, "n:1"), None);
    }
}
