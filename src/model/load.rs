//! What a ramp raises: a value on an axis of a workload.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What a value on an axis stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisKind {
    /// Members that stay on the target while it is measured.
    Population,
    /// Operations a second of an open schedule: what is due does not wait for what went before.
    Rate,
}

/// Something that a ramp can raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// The name in scenarios and in the API, such as `domains`.
    pub name: &'static str,
    /// The unit printed behind a value, such as `domains`.
    pub unit: &'static str,
    /// The largest value that makes sense, in units.
    pub max: u64,
    pub kind: AxisKind,
}

impl Axis {
    /// The load of this value.
    #[must_use]
    pub fn load(&self, value: u64) -> Load {
        let axis = self.name.to_owned();
        match self.kind {
            AxisKind::Population => Load::Population { axis, ids: 0..value },
            AxisKind::Rate => Load::Rate { axis, per_s: value },
        }
    }
}

/// A load on one axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Load {
    /// The ids that are resident, `0..n` for a whole population: a range, so that it can be divided and grown.
    Population { axis: String, ids: Range<u64> },
    /// Operations that fall due each second.
    Rate { axis: String, per_s: u64 },
}

impl Load {
    /// Its value on the axis: how many members the population has, or the rate.
    #[must_use]
    pub fn value(&self) -> u64 {
        match self {
            Self::Population { ids, .. } => ids.end.saturating_sub(ids.start),
            Self::Rate { per_s, .. } => *per_s,
        }
    }
}
