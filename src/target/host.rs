//! Readings of this machine as samplers of a target.

use std::time::Duration;

use async_trait::async_trait;

use super::{Observation, Sampler};
use crate::sample::{Generator, Interface, Process};

const EVERY: Duration = Duration::from_secs(1);

macro_rules! samplers {
    ($($source:ty),+) => {$(
        #[async_trait]
        impl Sampler for $source {
            fn every(&self) -> Duration {
                EVERY
            }

            async fn sample(&mut self) -> Observation {
                Observation { samples: self.read().await, ..Observation::default() }
            }
        }
    )+};
}

samplers!(Process, Interface, Generator);
