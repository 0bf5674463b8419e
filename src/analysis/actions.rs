//! What a scenario does to its target on purpose: when an action is due, and what a run says of it.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};

use super::figure;
use crate::model::{ActionReport, Deed, Incident, IncidentKind, Outcome, StopCode, Trial, clock};

/// One `[[action]]` of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    #[serde(rename = "do")]
    pub deed: Deed,
    /// The servers it is done to; none for a command.
    #[serde(default, deserialize_with = "one_or_more")]
    pub node: Vec<Choice>,
    pub at: At,
    /// When the servers are started or resumed again; after the measurement without them when absent.
    #[serde(default)]
    pub back_s: Option<f64>,
    /// The command of the configuration that is run.
    #[serde(default)]
    pub command: Option<String>,
    /// Whether a rule that breaks in its trial counts against the load.
    #[serde(default)]
    pub required: bool,
}

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Whoever leads when the action is done.
    Leader,
    /// A server that follows then; named twice, two of them.
    Follower,
    /// By its number in the ensemble, from 1.
    Number(u64),
    /// By its name, `address:port`.
    Name(String),
}

/// A server as it is written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected \"leader\", \"follower\", a number from 1 on or a server's address:port")]
enum Written {
    Number(u64),
    Word(String),
}

impl Written {
    fn choice<E: de::Error>(self) -> Result<Choice, E> {
        match self {
            Self::Number(number) => Ok(Choice::Number(number)),
            Self::Word(word) if word == "leader" => Ok(Choice::Leader),
            Self::Word(word) if word == "follower" => Ok(Choice::Follower),
            Self::Word(word) if word.parse::<std::net::SocketAddr>().is_ok() => Ok(Choice::Name(word)),
            Self::Word(word) => Err(E::custom(format!(
                "is {word:?}; allowed: \"leader\", \"follower\", a number from 1 on or a server's address:port"
            ))),
        }
    }
}

/// A single choice may stand without brackets.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Choice>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected a server (\"leader\", \"follower\", a number from 1 on, an address:port) or a list of them"
    )]
    enum OneOrMore {
        One(Written),
        More(Vec<Written>),
    }
    match OneOrMore::deserialize(deserializer)? {
        OneOrMore::One(one) => Ok(vec![one.choice()?]),
        OneOrMore::More(more) => more.into_iter().map(Written::choice).collect(),
    }
}

/// At which loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Once, at the first step with this load that held.
    Load(u64),
    /// At each step that held.
    Each,
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a load of the ladder or \"each\"")]
        enum Written {
            Load(u64),
            Word(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Load(load) => Ok(Self::Load(load)),
            Written::Word(word) if word == "each" => Ok(Self::Each),
            Written::Word(word) => {
                Err(de::Error::custom(format!("is {word:?}; allowed: a load of the ladder or \"each\"")))
            }
        }
    }
}

/// The first action that is due at a step of this load and was not done yet.
#[must_use]
pub fn due(actions: &[Action], history: &[Trial], step: u32, load: u64) -> Option<usize> {
    actions.iter().enumerate().position(|(index, action)| {
        let done = |anywhere: bool| history.iter().any(|trial| (anywhere || trial.step == step) && is_of(trial, index));
        match action.at {
            At::Each => load > 0 && !done(false),
            At::Load(at) => load == at && load > 0 && !done(true),
        }
    })
}

/// Whether a trial belongs to this action.
#[must_use]
pub fn is_of(trial: &Trial, action: usize) -> bool {
    trial.action.as_ref().is_some_and(|report| report.action as usize == action)
}

/// How long after the target was whole again samplers may still tell of what was before.
const TOLD_LATE_NS: i64 = 3_000_000_000;

/// A trial without the incidents that its own action explains: what happened until the target was whole again, and to the
/// servers that it was done to.
#[must_use]
pub fn without_own_doing(trial: &Trial) -> Cow<'_, Trial> {
    let Some(report) = &trial.action else { return Cow::Borrowed(trial) };
    let whole_ns = report.recovery_s.map_or(i64::MAX, |whole_s| {
        report.at_ns.saturating_add(clock::seconds_ns(whole_s)).saturating_add(TOLD_LATE_NS)
    });
    let explained = |incident: &Incident| match incident.kind {
        // A session expires long after its connection was lost.
        IncidentKind::SessionExpired | IncidentKind::ConnectionClosed => true,
        IncidentKind::Stall => began_ns(incident) <= whole_ns || report.hit(&incident.node),
        IncidentKind::Election
        | IncidentKind::RoleChanged
        | IncidentKind::NotOneLeader
        | IncidentKind::Restarted
        | IncidentKind::NotServing => incident.at_ns <= whole_ns || report.hit(&incident.node),
        IncidentKind::Paused
        | IncidentKind::Died
        | IncidentKind::CannotApply
        | IncidentKind::FillTimedOut
        | IncidentKind::LimitReached => false,
    };
    let mut rest = trial.clone();
    rest.incidents.retain(|incident| !explained(incident));
    Cow::Owned(rest)
}

/// A stall is told when it ends, with its length.
fn began_ns(incident: &Incident) -> i64 {
    incident.at_ns.saturating_sub(clock::seconds_ns(incident.amount / 1e3))
}

/// What the run says of its actions, a sentence each, in the order in which they were done; then what was never done.
/// `operation` is the one that is told: that of the first rule.
#[must_use]
pub fn told(actions: &[Action], history: &[Trial], operation: Option<&str>, unit: &str) -> Vec<String> {
    let mut said: Vec<String> = history
        .iter()
        .filter(|trial| trial.outcome != Outcome::Void || trial.stop_code == Some(StopCode::TargetUnhealthy))
        .filter_map(|trial| Some(sentence(trial, trial.action.as_ref()?, history, operation, unit)))
        .collect();
    for (index, action) in actions.iter().enumerate() {
        if !history.iter().any(|trial| is_of(trial, index)) {
            let at = match action.at {
                At::Load(load) => format!("{} {unit} were not measured, or did not hold", figure(load as f64)),
                At::Each => "no load held".to_owned(),
            };
            said.push(format!("Action {} ({}) was not done: {at}.", index + 1, action.deed));
        }
    }
    said
}

fn sentence(trial: &Trial, report: &ActionReport, history: &[Trial], operation: Option<&str>, unit: &str) -> String {
    let with = format!("With {} at {} {unit}", report.words(), figure(trial.load as f64));
    if let Some(failed) = &report.failed {
        return format!("{with}, the run could not go on: {failed}.");
    }
    let who =
        if report.victims.len() == 1 && report.victims[0].role == "standalone" { "the server" } else { "the target" };
    let Some(served_s) = report.served_s else {
        return match report.rejoined_s {
            Some(back_s) => {
                format!("{with}, {who} did not serve until everything was back, after {} s.", tenths(back_s))
            }
            None => format!("{with}, {who} did not serve again."),
        };
    };
    let carried = carried(trial, history, operation).map_or_else(String::new, |rate| format!("{rate} and "));
    let mut text = format!("{with}, {carried}{who} served again after {} s", tenths(served_s));
    match report.recovery_s {
        Some(whole_s) if whole_s - served_s > report.recovery_within_s => {
            text.push_str(&format!(", the whole load after {} s", tenths(whole_s)));
        }
        Some(_) => {}
        None => text.push_str(", but not the whole load"),
    }
    if report.sessions_expired > 0 {
        text.push_str(&format!("; {} of its sessions expired", figure(report.sessions_expired as f64)));
    }
    if report.rejoined_s.is_none() {
        text.push_str("; not every server served again");
    }
    text.push('.');
    text
}

/// `get still ran at 83 % of its rate before`: beside the plain trial of the same step.
fn carried(trial: &Trial, history: &[Trial], operation: Option<&str>) -> Option<String> {
    let plain =
        history.iter().rfind(|old| old.action.is_none() && old.step == trial.step && old.outcome == Outcome::Held)?;
    let probed = || trial.operations.iter().filter(|stat| stat.probe);
    let told = operation
        .and_then(|name| probed().find(|stat| stat.operation == name))
        .or_else(|| probed().find(|stat| stat.operation == "get"))
        .or_else(|| probed().next())?;
    let before = plain.operation(&told.operation).filter(|stat| stat.ops_per_s > 0.0)?;
    let percent = (told.ops_per_s / before.ops_per_s * 100.0).round();
    Some(format!("{} still ran at {} % of its rate before", told.operation, figure(percent)))
}

fn tenths(seconds: f64) -> String {
    format!("{seconds:.1}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        analysis::judge::tests::{probe, trial},
        model::action::tests::report,
    };

    pub(crate) fn action(at: At, required: bool) -> Action {
        Action { deed: Deed::Kill, node: vec![Choice::Leader], at, back_s: None, command: None, required }
    }

    fn acted(step: u32, load: u64, get_per_s: f64) -> Trial {
        let mut made = trial(step, load, vec![probe("get", get_per_s, 1_000)]);
        (made.trial, made.action) = (2, Some(report(0, false)));
        made
    }

    #[test]
    fn an_action_is_done_once_at_its_load_or_once_at_each_step() {
        let (once, each) = ([action(At::Load(20), false)], [action(At::Each, false)]);
        assert_eq!(due(&once, &[], 1, 10), None);
        assert_eq!(due(&once, &[], 2, 20), Some(0));
        assert_eq!(due(&once, &[acted(2, 20, 1.0)], 4, 20), None, "levels may come back to a load");
        assert_eq!(due(&each, &[acted(1, 10, 1.0)], 1, 10), None);
        assert_eq!(due(&each, &[acted(1, 10, 1.0)], 2, 20), Some(0));
        assert_eq!(due(&each, &[], 0, 0), None, "never on the empty target");
    }

    #[test]
    fn the_sentence_says_what_the_load_still_carried_and_how_long_recovery_took() {
        let actions = [action(At::Load(200), false), action(At::Load(400), false)];
        let mut history = vec![trial(1, 200, vec![probe("get", 1_000.0, 1_000)]), acted(1, 200, 830.0)];
        let said = told(&actions, &history, Some("get"), "domains");
        assert_eq!(
            said[0],
            "With the leader killed at 200 domains, get still ran at 83 % of its rate before and the target served again \
             after 2.5 s, the whole load after 6.2 s."
        );
        assert_eq!(said[1], "Action 2 (kill) was not done: 400 domains were not measured, or did not hold.");
        let report = history[1].action.as_mut().unwrap();
        (report.recovery_s, report.rejoined_s, report.sessions_expired) = (None, None, 3);
        let said = told(&actions, &history, None, "domains").remove(0);
        let end = "after 2.5 s, but not the whole load; 3 of its sessions expired; not every server served again.";
        assert!(said.ends_with(end), "{said}");
        let report = history[1].action.as_mut().unwrap();
        (report.served_s, report.rejoined_s) = (None, Some(70.0));
        let said = told(&actions, &history, None, "domains").remove(0);
        assert!(said.ends_with("the target did not serve until everything was back, after 70.0 s."), "{said}");
        history[1].action.as_mut().unwrap().failed = Some("cannot start a: its port is in use".into());
        let said = told(&actions, &history, None, "domains").remove(0);
        assert!(said.ends_with("domains, the run could not go on: cannot start a: its port is in use."), "{said}");
    }

    #[test]
    fn actions_are_read_and_what_is_not_allowed_is_named() {
        let read = |text: &str| toml::from_str::<Action>(text).map_err(|error| error.message().to_owned());
        let made = read("do = \"kill\"\nnode = \"leader\"\nat = 200").unwrap();
        assert_eq!(made, action(At::Load(200), false));
        let made = read("do = \"pause\"\nnode = [\"follower\", 3, \"127.0.0.2:2181\"]\nat = \"each\"").unwrap();
        assert_eq!(made.node, [Choice::Follower, Choice::Number(3), Choice::Name("127.0.0.2:2181".into())]);
        assert_eq!(made.at, At::Each);
        for (text, part) in [
            ("do = \"explode\"\nat = 1", "kill"),
            ("do = \"kill\"\nat = \"every\"", "each"),
            ("do = \"kill\"\nat = 1\nnode = \"chief\"", "follower"),
            ("do = \"kill\"\nat = 1\nnodes = 1", "node"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
