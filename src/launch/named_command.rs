//! Commands that the configuration names and a scenario may have run, such as a fail-over script. A request can say the
//! name only.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LaunchError, program};

/// Longest time that a command may be given, in seconds.
const LONGEST_S: u64 = 86_400;

/// A program with its arguments; no shell reads them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedCommand {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// After so long it is killed, with all that it started.
    #[serde(default = "half_a_minute")]
    pub timeout_s: u64,
}

const fn half_a_minute() -> u64 {
    30
}

/// What a command did that ended with 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The last lines of its output and its errors.
    pub text: String,
    pub took: Duration,
}

impl NamedCommand {
    /// Checks what can be checked without running it.
    ///
    /// # Errors
    /// The field and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if self.run.first().is_none_or(String::is_empty) {
            return Err(("run", "names no program; allowed: a list of a program and its arguments".to_owned()));
        }
        if !(1..=LONGEST_S).contains(&self.timeout_s) {
            return Err(("timeout_s", format!("is {}; allowed: 1 to {LONGEST_S}", self.timeout_s)));
        }
        Ok(())
    }

    /// Runs it to its end. `name` is what the configuration calls it.
    ///
    /// # Errors
    /// [`LaunchError::Missing`] when there is no such program; [`LaunchError::Command`], with the end of what it wrote,
    /// when it did not end with 0 or not in time.
    pub async fn run(&self, name: &str) -> Result<Output, LaunchError> {
        let what = format!("the command {name:?}");
        let Some(command) = program::command(&self.run) else {
            return Err(LaunchError::Missing(format!("{what} names no program")));
        };
        let ran = program::succeed(&what, command, Duration::from_secs(self.timeout_s)).await?;
        Ok(Output { text: ran.output, took: ran.took })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(argv: &[&str]) -> NamedCommand {
        NamedCommand { run: argv.iter().map(|word| (*word).to_owned()).collect(), timeout_s: 30 }
    }

    #[tokio::test]
    async fn arguments_reach_the_program_as_they_are() {
        let output = command(&["printf", "%s|", "a b", "$HOME", "*"]).run("show").await.unwrap();
        assert_eq!(output.text, "a b|$HOME|*|");
    }

    #[tokio::test]
    async fn another_end_than_0_is_an_error_with_its_name_and_output() {
        let error = command(&["sh", "-c", "echo no such host; exit 4"]).run("fail-over").await.unwrap_err();
        let text = "the command \"fail-over\": sh ended with exit status: 4; the end of its output:\nno such host";
        assert_eq!(error.to_string(), text);
    }
}
