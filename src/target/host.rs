//! Readings of machines as samplers of a target.

use std::time::Duration;

use async_trait::async_trait;

use super::{Observation, Sampler};
use crate::sample::{Disk, Generator, Interface, NodeExporter, Process, Quota};

pub(super) const EVERY: Duration = Duration::from_secs(1);
/// A node_exporter reads a few hundred files for one answer.
pub(super) const EXPORTER_EVERY: Duration = Duration::from_secs(5);

macro_rules! samplers {
    ($($source:ty, $every:expr);+) => {$(
        #[async_trait]
        impl Sampler for $source {
            fn every(&self) -> Duration {
                $every
            }

            async fn sample(&mut self) -> Observation {
                Observation { samples: self.read().await, ..Observation::default() }
            }
        }
    )+};
}

samplers!(Process, EVERY; Interface, EVERY; Generator, EVERY; Disk, EVERY; Quota, EVERY; NodeExporter, EXPORTER_EVERY);
