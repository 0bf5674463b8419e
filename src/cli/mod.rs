//! The command line: serve, run, check, clean, compare, rejudge. The only place that speaks to the terminal, and the only one with `anyhow`.

mod calibrate;
mod campaign;
mod check;
mod clean;
mod compare;
mod ends;
mod health;
mod live;
mod rejudge;
mod run;
mod serve;

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::config::Config;

/// The exit code of wrong usage and of internal errors.
const USAGE: u8 = 1;

/// Finds out how much a cluster can carry, what stops it, and whether that has changed.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 pass, 1 usage or internal, 2 below the required capacity, 4 inconclusive, \
5 invalid (the generator was not fit to judge), 6 target unhealthy or not usable, 8 aborted, 10 server unreachable.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the dashboard and the API, and runs what they ask for.
    Serve(serve::Arguments),
    /// Runs one scenario from here to its verdict; needs no server.
    Run(run::Arguments),
    /// Runs scenarios one after the other, each at the load that an earlier one found, and prints one report.
    Campaign(campaign::Arguments),
    /// Checks a scenario and prints its ladder, its longest duration and what it needs; touches no target.
    Check(check::Arguments),
    /// Puts two runs of a database beside each other: what differs first, then the rates of both.
    Compare(compare::Arguments),
    /// Measures what this machine's generator can send at most, and stores it.
    Calibrate(calibrate::Arguments),
    /// Judges a stored run again: the same verdict to the byte, or what the rules say otherwise (exit code 3).
    Rejudge(rejudge::Arguments),
    /// Asks a server whether it is well: exit code 0, or 10 when it cannot be reached.
    Health(health::Arguments),
    /// Removes from a target what runs left behind that are gone.
    Clean(clean::Arguments),
}

/// The configuration file that a command reads.
#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// Configuration file with targets and recipes; the built-in recipes are always there.
    #[arg(long, env = "RAMPART_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    fn load(&self) -> anyhow::Result<Config> {
        let named = self
            .config
            .as_ref()
            .map_or_else(|| "the built-in configuration".to_owned(), |path| path.display().to_string());
        Config::load(self.config.as_deref()).map_err(|faults| anyhow::anyhow!("{named} is not sound:\n{faults}"))
    }
}

/// Reads the arguments of this process and does what they say.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let level = if matches!(cli.command, Command::Serve(_)) { "info,tower_http=warn" } else { "warn" };
    let filter = EnvFilter::try_from_env("RAMPART_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&anyhow::anyhow!("no runtime: {error}")),
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Serve(arguments) => serve::serve(arguments).await,
            Command::Run(arguments) => run::run(arguments).await,
            Command::Campaign(arguments) => campaign::campaign(arguments).await,
            Command::Check(arguments) => check::check(&arguments),
            Command::Compare(arguments) => compare::compare(arguments).await,
            Command::Calibrate(arguments) => calibrate::calibrate(arguments).await,
            Command::Rejudge(arguments) => rejudge::command(arguments).await,
            Command::Health(arguments) => Ok(health::health(arguments).await),
            Command::Clean(arguments) => clean::clean(arguments).await,
        }
    });
    // A blocking call that hangs must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    result.unwrap_or_else(|error| complain(&error))
}

#[expect(clippy::print_stderr, reason = "the command line speaks to the terminal")]
fn complain(error: &anyhow::Error) -> ExitCode {
    eprintln!("rampart: {error:#}");
    ExitCode::from(USAGE)
}

/// Says what was asked for. A reader that has gone (`| head`) is no reason to fail.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Reads a scenario file.
fn read_scenario(path: &std::path::Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|cause| anyhow::anyhow!("{} cannot be read: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
