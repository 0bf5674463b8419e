//! What a scenario may name: the configuration's targets and recipes.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::TAG;
use crate::web::AppState;

/// One target of the configuration, without credentials.
#[derive(Debug, Serialize, ToSchema)]
pub struct TargetEntry {
    name: String,
    kind: &'static str,
}

/// One recipe of the configuration.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecipeEntry {
    name: String,
    kind: String,
    /// The settings that a scenario may change.
    allow: Vec<String>,
}

/// Targets and recipes.
#[derive(Debug, Serialize, ToSchema)]
pub struct TargetList {
    targets: Vec<TargetEntry>,
    recipes: Vec<RecipeEntry>,
}

/// Targets and recipes that scenarios may name.
#[utoipa::path(get, path = "/targets", tag = TAG, responses((status = 200, body = TargetList)))]
pub async fn list(State(state): State<AppState>) -> Json<TargetList> {
    let config = &state.config;
    let targets = config.targets.iter().map(|(name, spec)| TargetEntry { name: name.clone(), kind: spec.kind() });
    let recipes = config.recipes.iter().map(|(name, recipe)| RecipeEntry {
        name: name.clone(),
        kind: recipe.kind.clone(),
        allow: recipe.allow.clone(),
    });
    Json(TargetList { targets: targets.collect(), recipes: recipes.collect() })
}
