//! `rampart health`: what a container's health check calls.

use std::{process::ExitCode, time::Duration};

/// Arguments of `rampart health`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The server's base address.
    #[arg(long, env = "RAMPART_URL", default_value = "http://127.0.0.1:7117", value_name = "URL")]
    url: String,
}

/// The exit code of a server that cannot be reached.
const UNREACHABLE: u8 = 10;

pub(super) async fn health(arguments: Arguments) -> ExitCode {
    let ask = async {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(2)).build()?;
        client.get(format!("{}/healthz", arguments.url.trim_end_matches('/'))).send().await?.error_for_status()
    };
    match ask.await {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            super::complain(&error.into());
            ExitCode::from(UNREACHABLE)
        }
    }
}
