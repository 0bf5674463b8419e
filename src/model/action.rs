//! What a scenario does to a target on purpose, and what came of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// Ends a server at once (SIGKILL).
    Kill,
    /// Asks a server to end (SIGTERM).
    Stop,
    /// Halts a server where it is (SIGSTOP).
    Pause,
    /// Asks a server to end and starts it again at once.
    Restart,
    /// Runs a named command of the configuration.
    Run,
}

impl Deed {
    /// The word of a scenario.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Pause => "pause",
            Self::Restart => "restart",
            Self::Run => "run",
        }
    }

    /// What was done, as behind "the leader".
    #[must_use]
    pub const fn done(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stop => "stopped",
            Self::Pause => "paused",
            Self::Restart => "restarted",
            Self::Run => "run",
        }
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server that an action was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Victim {
    pub node: String,
    /// Its role just before: `leader`, `follower`, `standalone`.
    pub role: String,
}

/// What an action did, and what the target did then. Times in seconds count from the action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionReport {
    /// Its number in the scenario, from 0.
    pub action: u32,
    pub deed: Deed,
    /// Empty for a command.
    pub victims: Vec<Victim>,
    /// The name of the command that was run.
    pub command: Option<String>,
    /// Whether a rule that broke in its trial counts against the load.
    pub required: bool,
    pub at_ns: i64,
    /// Until a write through one of the remaining servers was answered again. `None`: never while that was waited for.
    pub served_s: Option<f64>,
    /// How exact `served_s` is: writes were tried so often.
    pub served_within_s: f64,
    /// Until all sessions of the load were attached, its operations ended well and every remaining server served.
    pub recovery_s: Option<f64>,
    /// How exact `recovery_s` is: the load and the servers are heard so often.
    pub recovery_within_s: f64,
    /// Connections of the load that were closed and attached again.
    pub sessions_moved: u64,
    pub sessions_expired: u64,
    /// When the servers were started or resumed again.
    pub back_s: Option<f64>,
    /// When all servers served again as one ensemble.
    pub rejoined_s: Option<f64>,
    /// An order or a command that failed, in words: nothing more is measured then.
    pub failed: Option<String>,
    /// All of it in a sentence.
    pub text: String,
}

impl ActionReport {
    /// What was done, as behind "with": `the leader killed`, `2 servers paused`, `the command "x" run`.
    #[must_use]
    pub fn words(&self) -> String {
        match (self.deed, self.victims.as_slice()) {
            (Deed::Run, _) => format!("the command {:?} run", self.command.as_deref().unwrap_or_default()),
            (deed, [one]) if one.role == "standalone" => format!("the server {}", deed.done()),
            (deed, [one]) => format!("{} {} {}", article(&one.role), one.role, deed.done()),
            (deed, several) => {
                let roles: Vec<String> =
                    several.iter().map(|each| format!("{} {}", article(&each.role), each.role)).collect();
                format!("{} {}", roles.join(" and "), deed.done())
            }
        }
    }

    /// Whether the target is as it was before, as far as the run can tell.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.failed.is_none() && self.rejoined_s.is_some()
    }

    /// Whether it was done to this server.
    #[must_use]
    pub fn hit(&self, node: &str) -> bool {
        self.victims.iter().any(|victim| victim.node == node)
    }
}

/// There is one leader, and there may be several of the rest.
fn article(role: &str) -> &'static str {
    match role {
        "leader" => "the",
        "observer" => "an",
        _ => "a",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report(action: u32, required: bool) -> ActionReport {
        ActionReport {
            action,
            deed: Deed::Kill,
            victims: vec![Victim { node: "a".into(), role: "leader".into() }],
            command: None,
            required,
            at_ns: 0,
            served_s: Some(2.5),
            served_within_s: 0.1,
            recovery_s: Some(6.2),
            recovery_within_s: 1.0,
            sessions_moved: 4,
            sessions_expired: 0,
            back_s: Some(30.0),
            rejoined_s: Some(33.0),
            failed: None,
            text: String::new(),
        }
    }

    #[test]
    fn what_was_done_is_said_in_words() {
        let mut made = report(0, false);
        assert_eq!(made.words(), "the leader killed");
        made.victims.push(Victim { node: "b".into(), role: "follower".into() });
        assert_eq!(made.words(), "the leader and a follower killed");
        made.victims = vec![Victim { node: "a".into(), role: "standalone".into() }];
        (made.deed, made.command) = (Deed::Restart, Some("fail-over".into()));
        assert_eq!(made.words(), "the server restarted");
        made.deed = Deed::Run;
        assert_eq!(made.words(), "the command \"fail-over\" run");
    }
}
