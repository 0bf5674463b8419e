//! Names of runs and the states that a run goes through.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id, of now.
            #[must_use]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The eight characters that name it on a target and on a page: the random end of the id,
            /// since the first characters of a v7 id are the same for all of a minute.
            #[must_use]
            pub fn short(&self) -> String {
                let hex = self.0.simple().to_string();
                hex[hex.len() - 8..].to_owned()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.hyphenated())
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

id! {
    /// A run's id: a UUID v7, so that ids sort by the time they were made.
    RunId
}

id! {
    /// A campaign's id, of the same kind.
    CampaignId
}

impl RunId {
    /// The root under which a run creates everything: `/rampart-<8 characters>`.
    #[must_use]
    pub fn root(&self) -> String {
        format!("/rampart-{}", self.short())
    }
}

/// Where a run stands. Only the journal moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Waits for the generator or for its target.
    Queued,
    /// Is being executed.
    Running,
    /// Has its verdict.
    Finished,
    /// The server went away while it ran; finished steps are kept.
    Interrupted,
}

impl RunState {
    /// The word stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether nothing more will happen to the run.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Interrupted)
    }
}

impl FromStr for RunState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Queued, Self::Running, Self::Finished, Self::Interrupted]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| format!("unknown run state {text:?}; allowed: queued, running, finished, interrupted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_of_runs_made_in_one_moment_differ() {
        let ids: std::collections::HashSet<_> = (0..1_000).map(|_| RunId::new().short()).collect();
        assert_eq!(ids.len(), 1_000);
    }

    #[test]
    fn a_run_id_reads_back() {
        let id = RunId::new();
        assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
    }
}
