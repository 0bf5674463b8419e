//! `[[action]]`: what of it can be checked, by itself and against the configuration, and what it comes to in time.

use super::Scenario;
use crate::{
    analysis::{Action, At, Choice, Ladder},
    config::Config,
    launch::{NodeAction, Recipe},
    model::{Deed, Fault},
};

/// The longest that the target may take to serve again after an action, in seconds: an election with a large snapshot.
pub const RECOVERY_MAX_S: f64 = 120.0;
/// The longest that starting or resuming servers may take until all of them serve, in seconds.
pub const REJOIN_MAX_S: f64 = 240.0;
/// The longest that a server may stay away, in seconds.
const BACK_MAX_S: f64 = 86_400.0;

/// The order that an action gives to a server first; none for a command.
#[must_use]
pub const fn order(deed: Deed) -> Option<NodeAction> {
    match deed {
        Deed::Kill => Some(NodeAction::Kill),
        Deed::Stop | Deed::Restart => Some(NodeAction::Stop),
        Deed::Pause => Some(NodeAction::Pause),
        Deed::Run => None,
    }
}

/// The order that brings a server back.
#[must_use]
pub const fn order_back(deed: Deed) -> Option<NodeAction> {
    match deed {
        Deed::Kill | Deed::Stop | Deed::Restart => Some(NodeAction::Start),
        Deed::Pause => Some(NodeAction::Resume),
        Deed::Run => None,
    }
}

/// What is wrong with the actions of a file by themselves.
pub(super) fn faults(actions: &[Action], ladder: Option<&Ladder>, launched: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    if matches!(ladder, Some(Ladder::Search(_))) && !actions.is_empty() {
        let message =
            "stands beside `kind = \"search\"`, whose trials would not be alike; allowed: with levels or ramp";
        faults.push(Fault::new("action", message));
        return faults;
    }
    for (index, action) in actions.iter().enumerate() {
        let mut fault = |field: &str, message: String| {
            let at = if field.is_empty() { format!("action[{index}]") } else { format!("action[{index}].{field}") };
            faults.push(Fault::new(at, message));
        };
        let runs = action.deed == Deed::Run;
        if let At::Load(load) = action.at
            && ladder.is_some_and(|ladder| !ladder.loads().contains(&load))
        {
            fault(
                "at",
                format!("is {load}, which is no load of the ladder; allowed: a load of the ladder or \"each\""),
            );
        }
        match (&action.command, runs) {
            (None, true) => {
                fault("", "has no `command`; `do = \"run\"` needs the name of one of [commands.NAME]".to_owned());
            }
            (Some(_), false) => fault("command", format!("does not belong to `do = \"{}\"`", action.deed)),
            (Some(_), true) | (None, false) => {}
        }
        if runs && !action.node.is_empty() {
            fault("node", "does not belong to `do = \"run\"`: the command knows what it is done to".to_owned());
        }
        if !runs && action.node.is_empty() {
            let allowed = "\"leader\", \"follower\", a number from 1 on, a server's address:port, or a list of them";
            fault("node", format!("is missing; allowed: {allowed}"));
        }
        let twice = |at: &usize| action.node[..*at].contains(&action.node[*at]) && action.node[*at] != Choice::Follower;
        if (0..action.node.len()).any(|at| twice(&at)) {
            fault("node", "names a server twice".to_owned());
        }
        if !runs && !launched {
            let why = "needs a target that the run launches itself; allowed here: `do = \"run\"`";
            fault("do", format!("is {:?}, which {why}", action.deed.as_str()));
        }
        if let Some(back_s) = action.back_s {
            if matches!(action.deed, Deed::Restart | Deed::Run) {
                fault("back_s", format!("does not belong to `do = \"{}\"`", action.deed));
            } else if !(0.0..=BACK_MAX_S).contains(&back_s) {
                fault("back_s", format!("is {back_s}; allowed: 0 to {BACK_MAX_S}"));
            }
        }
    }
    faults
}

/// What is wrong with the actions of a scenario on a configuration: commands and servers that are not there. `recipe` is
/// what the run launches.
pub(super) fn against(scenario: &Scenario, config: &Config, recipe: Option<&Recipe>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, action) in scenario.actions.iter().enumerate() {
        if let Some(name) = &action.command
            && !config.commands.contains_key(name)
        {
            let known: Vec<&str> = config.commands.keys().map(String::as_str).collect();
            let allowed = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let text = format!("is {name:?}, which the configuration does not name; allowed: {allowed}");
            faults.push(Fault::new(format!("action[{index}].command"), text));
        }
        let Some(nodes) = recipe.map(|recipe| u64::from(recipe.nodes)).filter(|_| action.deed != Deed::Run) else {
            continue;
        };
        if nodes == 1 && action.deed != Deed::Restart {
            let text = format!(
                "is {:?}, but the target has one server, and nothing would be left to measure; allowed: \"restart\", \
                 \"run\", or `nodes` of 3 or 5",
                action.deed.as_str()
            );
            faults.push(Fault::new(format!("action[{index}].do"), text));
        }
        let followers = action.node.iter().filter(|choice| **choice == Choice::Follower).count() as u64;
        let strange = action.node.iter().find_map(|choice| match choice {
            Choice::Number(number) if !(1..=nodes).contains(number) => Some(number.to_string()),
            Choice::Name(name) if !(1..=nodes).any(|id| name.starts_with(&format!("127.0.0.{id}:"))) => {
                Some(format!("{name:?}"))
            }
            Choice::Follower if followers >= nodes.max(2) => Some(format!("\"follower\" {followers} times")),
            Choice::Number(_) | Choice::Name(_) | Choice::Follower | Choice::Leader => None,
        });
        if let Some(strange) = strange {
            let text = format!(
                "is {strange}, but the target has {nodes} server(s), 127.0.0.1 to 127.0.0.{nodes}; allowed: \"leader\", \
                 \"follower\", 1 to {nodes}, or the address:port of one of them"
            );
            faults.push(Fault::new(format!("action[{index}].node"), text));
        }
    }
    faults
}

/// What a reader must know of the actions, in sentences.
pub(super) fn remarks(scenario: &Scenario, recipe: Option<&Recipe>) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    let nodes = recipe.map_or(0, |recipe| u64::from(recipe.nodes));
    for (index, action) in scenario.actions.iter().enumerate() {
        let at = match action.at {
            At::Each => "each load that held".to_owned(),
            At::Load(load) => format!("a load of {load}, if it held"),
        };
        let what = match (&action.command, action.node.len()) {
            (Some(command), _) => format!("run the command {command:?}"),
            (None, 1) => format!("{} a server", action.deed),
            (None, several) => format!("{} {several} servers", action.deed),
        };
        let counts = if action.required { "counts against the load" } else { "never decides the capacity" };
        remarks.push(format!(
            "Action {}: {what} at {at}, and measure the same load again; what breaks then {counts}.",
            index + 1
        ));
        let gone = action.node.len() as u64;
        if nodes > 1 && action.deed != Deed::Restart && (nodes - gone.min(nodes)) * 2 <= nodes {
            remarks.push(format!(
                "Action {} leaves {} of {nodes} servers, which are no majority: nothing is served until they are back.",
                index + 1,
                nodes - gone.min(nodes)
            ));
        }
    }
    remarks
}

/// The longest that all actions can take, in seconds: each as often as it can fall due, and twice, since what breaks or is
/// void is done once more.
pub(super) fn longest_s(scenario: &Scenario, config: &Config) -> f64 {
    let rungs = scenario.ladder.loads().len() as f64;
    let hold = scenario.settle_s + scenario.measure_s;
    scenario
        .actions
        .iter()
        .map(|action| {
            let times = if action.at == At::Each { rungs } else { 1.0 };
            let command = action.command.as_ref().and_then(|name| config.commands.get(name));
            let command_s = command.map_or(0.0, |command| command.timeout_s as f64);
            let away_s = RECOVERY_MAX_S + hold + action.back_s.unwrap_or(0.0);
            2.0 * times * (command_s + away_s + REJOIN_MAX_S)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use crate::{
        config::Config,
        scenario::{Origin, Plan, Scenario, Surroundings, plan},
    };

    const ENSEMBLE: &str = "name = \"a\"\n[target]\nkind = \"zookeeper\"\nlaunch = \"local-ensemble\"\n[load]\n\
        workload = \"zookeeper.domains\"\nkind = \"levels\"\nlevels = [10, 20]\nsettle_s = 5\nmeasure_s = 20\n";
    const KILL: &str = "[[action]]\ndo = \"kill\"\nnode = \"leader\"\nat = 20\n";

    fn planned(scenario: &str, config: &str) -> Result<Plan, String> {
        let config = Config::parse(config).unwrap();
        let scenario = Scenario::parse(scenario).map_err(|faults| faults.to_string())?;
        plan(&scenario, &config, Origin::LocalUser, &Surroundings::default()).map_err(|faults| faults.to_string())
    }

    #[test]
    fn actions_are_counted_and_said() {
        let without = planned(ENSEMBLE, "").unwrap().outline;
        let with = planned(&format!("{ENSEMBLE}{KILL}"), "").unwrap().outline;
        assert_eq!(with.longest_s - without.longest_s, 2 * (120 + 25 + 240));
        let each = planned(&format!("{ENSEMBLE}{}", KILL.replace("20", "\"each\"")), "").unwrap().outline;
        assert_eq!(each.longest_s - without.longest_s, 2 * 2 * (120 + 25 + 240));
        let said = with.remarks.join("\n");
        assert!(said.contains("Action 1: kill a server at a load of 20, if it held"), "{said}");
        assert!(!said.contains("no majority"), "{said}");
        let two = KILL.replace("\"leader\"", "[\"leader\", \"follower\"]");
        let said = planned(&format!("{ENSEMBLE}{two}"), "").unwrap().outline.remarks.join("\n");
        assert!(said.contains("Action 1 leaves 1 of 3 servers, which are no majority"), "{said}");
    }

    #[test]
    fn what_is_wrong_with_an_action_is_named_with_its_line() {
        let with = |from: &str, to: &str| {
            assert!(KILL.contains(from), "{from}");
            planned(&format!("{ENSEMBLE}{}", KILL.replace(from, to)), "[commands.fail-over]\nrun = [\"true\"]\n")
        };
        for (from, to, parts) in [
            ("at = 20", "at = 15", &["line 14", "action[0].at", "15", "load of the ladder"][..]),
            ("at = 20", "at = \"now\"", &["action[0].at", "now", "each"]),
            ("at = 20\n", "", &["action[0]", "at"]),
            ("\"kill\"", "\"explode\"", &["line 12", "action[0].do", "explode", "kill"]),
            ("node = \"leader\"\n", "", &["action[0].node", "is missing", "follower"]),
            ("\"leader\"", "4", &["line 13", "action[0].node", "is 4", "3 server(s)", "1 to 3"]),
            ("\"leader\"", "0", &["action[0].node", "is 0", "1 to 3"]),
            ("\"leader\"", "\"10.0.0.1:2181\"", &["action[0].node", "10.0.0.1:2181", "127.0.0.3"]),
            ("\"leader\"", "\"chief\"", &["action[0].node", "chief", "leader"]),
            ("\"leader\"", "[1, 1]", &["action[0].node", "twice"]),
            ("\"leader\"", "[\"follower\", \"follower\", \"follower\"]", &["action[0].node", "3 times"]),
            ("at = 20", "at = 20\nback_s = -1", &["action[0].back_s", "-1", "0 to 86400"]),
            ("\"kill\"", "\"restart\"\nback_s = 5", &["action[0].back_s", "restart"]),
            ("at = 20", "at = 20\ncommand = \"x\"", &["action[0].command", "do = \"kill\""]),
            ("\"kill\"", "\"run\"", &["action[0]", "needs the name", "action[0].node"]),
            (
                "\"kill\"\nnode = \"leader\"",
                "\"run\"\ncommand = \"y\"",
                &["line 13", "action[0].command", "\"y\"", "fail-over"],
            ),
            ("at = 20", "at = 20\nfor = 1", &["action[0].for", "back_s"]),
        ] {
            let text = with(from, to).map(|plan| plan.outline.scenario).unwrap_err();
            for part in parts {
                assert!(text.contains(part), "{to:?} gave {text:?}, without {part:?}");
            }
        }
        with("\"kill\"\nnode = \"leader\"", "\"run\"\ncommand = \"fail-over\"").unwrap();
        with("\"leader\"", "[\"follower\", \"follower\", 1]").unwrap();
    }

    #[test]
    fn servers_of_others_are_left_alone_and_a_single_server_can_only_be_restarted() {
        let used = ENSEMBLE.replace("launch = \"local-ensemble\"", "use = \"zk\"");
        let config =
            "[targets.zk]\nkind = \"zookeeper\"\nservers = [\"127.0.0.1:2181\"]\n[commands.x]\nrun = [\"true\"]\n";
        let error = planned(&format!("{used}{KILL}"), config).map(|plan| plan.outline.scenario).unwrap_err();
        assert!(error.contains("action[0].do") && error.contains("launches itself"), "{error}");
        let run = "[[action]]\ndo = \"run\"\ncommand = \"x\"\nat = 20\n";
        planned(&format!("{used}{run}"), config).unwrap();
        let single = ENSEMBLE.replace("local-ensemble", "local-small");
        let error = planned(&format!("{single}{KILL}"), "").map(|plan| plan.outline.scenario).unwrap_err();
        assert!(error.contains("action[0].do") && error.contains("\"restart\""), "{error}");
        planned(&format!("{single}{}", KILL.replace("kill", "restart")), "").unwrap();
    }
}
