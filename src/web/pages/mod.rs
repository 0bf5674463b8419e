//! Pages for people.

use axum::Router;

use super::AppState;

/// All pages and their assets.
pub fn router() -> Router<AppState> {
    Router::new()
}
