//! The target of a run's own while it runs. Orders to its servers are given from tasks of their own, so that the run goes on
//! hearing and measuring meanwhile.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::task::JoinHandle;

use crate::launch::{LaunchError, Managed, NodeAction};

/// What the run launched, if it launched anything.
#[derive(Debug, Clone, Default)]
pub(super) struct Launched(Option<Arc<Box<dyn Managed>>>);

impl Launched {
    pub(super) fn new(managed: Option<Box<dyn Managed>>) -> Self {
        Self(managed.map(Arc::new))
    }

    pub(super) fn as_deref(&self) -> Option<&dyn Managed> {
        self.0.as_ref().map(|managed| &***managed)
    }

    /// What was launched, to be stopped. `None` while a task still gives orders to it: it then ends with that task.
    pub(super) fn into_inner(self) -> Option<Box<dyn Managed>> {
        self.0.and_then(Arc::into_inner)
    }

    /// Gives each of these servers an order, all at once, after a time. The first that fails tells why.
    pub(super) fn order(
        &self,
        nodes: Vec<String>,
        action: NodeAction,
        after: Duration,
    ) -> JoinHandle<Result<(), LaunchError>> {
        let managed = self.0.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let Some(managed) = managed else { return Ok(()) };
            // Servers that were a majority together can only serve again when all of them are told at once.
            let told = join_all(nodes.iter().map(|node| managed.control(node, action))).await;
            told.into_iter().collect()
        })
    }
}
