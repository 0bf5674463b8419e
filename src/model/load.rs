//! What a ramp raises: a value on every axis of a workload.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Something that a ramp can raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// The name in scenarios and in the API, such as `domains`.
    pub name: &'static str,
    /// The unit printed behind a value, such as `domains`.
    pub unit: &'static str,
    /// The largest value that makes sense, in units.
    pub max: u64,
}

/// A load on one axis. A population is a range of ids, so that it can be divided between units and grown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The axis, such as `domains`.
    pub axis: String,
    /// The ids that are resident, `0..n` for a whole population.
    pub ids: Range<u64>,
}

impl Load {
    /// The whole population of `count` members.
    #[must_use]
    pub fn population(axis: &str, count: u64) -> Self {
        Self { axis: axis.to_owned(), ids: 0..count }
    }

    /// How many members the population has.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ids.end.saturating_sub(self.ids.start)
    }
}
