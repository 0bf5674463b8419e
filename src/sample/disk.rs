//! The free space of a file system of this machine.

use std::path::PathBuf;

use super::{disk_free_bytes, sample};
use crate::model::{Clock, Sample};

/// Reads the free space where a server keeps its data.
#[derive(Debug)]
pub struct Disk {
    clock: Clock,
    node: String,
    path: PathBuf,
}

impl Disk {
    /// The file system of a path, as `node`.
    #[must_use]
    pub fn new(clock: Clock, node: &str, path: PathBuf) -> Self {
        Self { clock, node: node.to_owned(), path }
    }

    /// `disk_free_bytes`; nothing when the path is gone.
    pub async fn read(&mut self) -> Vec<Sample> {
        let path = self.path.clone();
        let free = tokio::task::spawn_blocking(move || disk_free_bytes(&path)).await.ok().flatten();
        free.map(|free| sample(self.clock.now_ns(), &self.node, "disk_free_bytes", free as f64)).into_iter().collect()
    }
}
