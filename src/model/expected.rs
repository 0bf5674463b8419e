//! What a plan expects of each load, by name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One figure of all loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Expected {
    /// Such as `executors`, `watches`, `writes`.
    pub name: String,
    /// `per_s`, or empty for what is counted.
    pub unit: String,
    /// One value for each load of the ladder, in its order.
    pub values: Vec<f64>,
}
