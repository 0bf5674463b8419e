//! Pure decisions: which load next, was a rule broken, what became of a trial, what does the run say.
//! No clock and no I/O; sees only what is stored, so that a verdict can be judged again later.

pub mod actions;
pub mod arms;
pub mod attribution;
mod baseline;
pub mod controller;
pub mod differences;
mod goals;
pub mod guards;
pub mod hold;
pub mod judge;
pub mod leadership;
mod littles_law;
pub mod rejudge;
mod repeats;
pub mod rules;
pub mod search;
pub mod steady;
mod traffic_rules;
mod usl;
pub mod verdict;

pub use actions::{Action, At, Choice};
pub use baseline::Baseline;
pub use controller::{Ladder, Next};
pub use guards::{Guard, Guards, Threshold, Trip};
pub use hold::Hold;
pub use judge::{Judgement, ValidityLimits};
pub use rules::Rule;

use crate::model::figure;

/// A figure in a sentence: whole numbers without decimals, others with three digits.
pub(crate) fn figure(value: f64) -> String {
    if value.fract().abs() < 1e-9 && value.is_finite() && value >= 0.0 {
        figure::group(&format!("{value:.0}"))
    } else {
        figure::figure(value)
    }
}
