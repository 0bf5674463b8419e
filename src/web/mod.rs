//! Pages and API. Reads the store, asks runs to start and stop; never calls the engine.

pub mod assets;
pub mod charts;
pub mod pages;

use std::sync::Arc;

use crate::{config::Config, runs::Runs, store::Store};

/// What every handler may use.
#[derive(Debug, Clone)]
pub struct AppState {
    pub store: Store,
    pub runs: Runs,
    pub config: Arc<Config>,
}
