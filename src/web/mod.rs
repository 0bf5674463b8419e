//! Pages and API. Reads the store, asks runs to start and stop; never calls the engine.

pub mod api;
pub mod assets;
pub mod charts;
pub mod error;
mod extract;
mod guard;
pub mod pages;
mod sse;

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    middleware,
    response::Response,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::{compression::CompressionLayer, trace::TraceLayer};

use crate::{config::Config, runs::Runs, store::Store};
use error::Error;

/// The largest body: a scenario is a few hundred lines.
pub const BODY_LIMIT_BYTES: usize = 1 << 20;
/// How long open connections may go on after the runs have ended.
const GRACE: Duration = Duration::from_secs(5);

/// What every handler may use.
#[derive(Debug, Clone)]
pub struct AppState {
    pub store: Store,
    pub runs: Runs,
    pub config: Arc<Config>,
}

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("refusing to listen on {0}: without tokens only loopback is safe (127.0.0.1 or ::1)")]
    NotLoopback(SocketAddr),
    #[error("the server failed")]
    Io(#[from] io::Error),
}

/// Pages and API as one service; needs no port.
pub fn app(state: AppState) -> Router {
    Router::new()
        .merge(api::router())
        .merge(pages::router())
        .fallback(async |request: Request| -> Response {
            let path = request.uri().path();
            guard::render(Error::NotFound(format!("there is nothing at {path}")), path)
        })
        .method_not_allowed_fallback(async |request: Request| -> Response {
            guard::render(Error::Method(request.method().to_string()), request.uri().path())
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .layer(middleware::from_fn_with_state(state.clone(), guard::check))
        // Leaves event streams alone: they must not wait for a full block.
        .layer(CompressionLayer::new())
        .layer(TraceLayer::new_for_http())
        .with_state(state)
}

/// Whether the server may listen there.
///
/// # Errors
/// When the address is not loopback.
pub fn allowed(address: SocketAddr) -> Result<(), ServeError> {
    if address.ip().is_loopback() { Ok(()) } else { Err(ServeError::NotLoopback(address)) }
}

/// Serves until `shutdown` is cancelled, then ends the live run, its followers and the connections.
///
/// # Errors
/// When the address is not loopback, or the socket fails.
pub async fn run(listener: TcpListener, state: AppState, shutdown: CancellationToken) -> Result<(), ServeError> {
    allowed(listener.local_addr()?)?;
    let runs = state.runs.clone();
    let serve = axum::serve(listener, app(state)).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let mut serve = pin!(async { serve.await });
    let mut drained = pin!(async {
        shutdown.cancelled().await;
        runs.drain().await;
    });
    tokio::select! {
        result = &mut serve => {
            result?;
            drained.await;
        }
        () = &mut drained => {
            // A reader that takes nothing must not keep the server.
            if let Ok(result) = tokio::time::timeout(GRACE, serve).await {
                result?;
            }
        }
    }
    Ok(())
}
