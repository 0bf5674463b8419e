//! `rampart serve`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{ConfigFile, ends::Ends};
use crate::{runs::Runs, store::Store, web};

/// Arguments of `rampart serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Address and port; without tokens only loopback is allowed.
    #[arg(long, env = "RAMPART_LISTEN", value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The database file; made when it is not there.
    #[arg(long, env = "RAMPART_DB", value_name = "FILE")]
    db: Option<PathBuf>,
    /// Folder with scenario files that pages and API offer.
    #[arg(long, env = "RAMPART_SCENARIOS", value_name = "FOLDER")]
    scenarios: Option<PathBuf>,
    /// Runs this scenario at once and prints its verdict.
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// Ends after the verdict of `--run`, with its exit code.
    #[arg(long, requires = "run")]
    exit_after_run: bool,
}

pub(super) async fn serve(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut config = arguments.config.load()?;
    if let Some(scenarios) = arguments.scenarios {
        config.server.scenarios = scenarios;
    }
    let scenario = arguments.run.as_deref().map(super::read_scenario).transpose()?;
    let database = arguments.db.unwrap_or_else(|| config.server.database.clone());
    let listen = arguments.listen.unwrap_or(config.server.listen);
    let config = Arc::new(config);
    // Before anything is opened: a server that is refused must not have touched a run.
    web::allowed(listen)?;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let store = Store::open(&database).await.with_context(|| format!("cannot open {}", database.display()))?;
    let runs = Runs::new(store.clone(), Arc::clone(&config));
    let recovered = runs.recover().await?;
    if !recovered.interrupted.is_empty() {
        tracing::warn!("{} run(s) were interrupted; their finished steps are kept", recovered.interrupted.len());
    }
    runs.drive_unfinished_campaigns().await?;
    let address = listener.local_addr()?;
    tracing::info!("Rampart serves on http://{address} (database {})", database.display());
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let mut ends = Ends::listen()?;
    let signals = tokio::spawn(async move {
        ends.next().await;
        tracing::info!("ending: a live run is stopped and cleaned up first");
        stop.cancel();
    });
    let state = web::AppState { store, runs, config };
    let first = scenario.map(|text| {
        let (state, shutdown) = (state.clone(), shutdown.clone());
        tokio::spawn(
            async move { first_run(&state, &text, address, arguments.exit_after_run.then_some(shutdown)).await },
        )
    });
    let served = web::run(listener, state, shutdown).await;
    signals.abort();
    served?;
    match first {
        Some(first) => first.await?,
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Runs a scenario beside the server, shows it here too, and ends the server after it when that was asked.
async fn first_run(
    state: &web::AppState,
    text: &str,
    address: SocketAddr,
    end: Option<CancellationToken>,
) -> anyhow::Result<ExitCode> {
    let ended = async {
        let mut ends = Ends::listen()?;
        let submitted = super::run::submit(&state.runs, text).await?;
        let page = format!("http://{address}/runs/{}", submitted.id);
        tracing::info!("follow the run on {page}");
        let code = super::run::finish(&state.runs, &state.store, submitted.id, &mut ends, false, false).await?;
        tracing::info!("the run's page: {page}");
        anyhow::Ok(code)
    };
    let code = ended.await;
    match end {
        Some(end) => end.cancel(),
        None => tracing::info!("Ctrl-C ends the server"),
    }
    code
}
