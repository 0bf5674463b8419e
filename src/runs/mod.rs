//! Where engine meets store: start, cancel, follow. (A stand-in until the real one is merged.)

use crate::{model::RunId, scenario::Faults, store::StoreError};

/// Starts and stops runs.
#[derive(Debug, Clone, Default)]
pub struct Runs {}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Faults(#[from] Faults),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Runs {
    /// Queues a run of a scenario.
    ///
    /// # Errors
    /// Every fault of the scenario.
    pub async fn submit(&self, _text: &str, _origin: &str, _key: Option<&str>) -> Result<RunId, SubmitError> {
        Ok(RunId::new())
    }

    /// Asks a run to stop and clean up; false when it is not live.
    pub async fn cancel(&self, _run: RunId) -> bool {
        false
    }
}
