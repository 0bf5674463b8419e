//! Style sheets and scripts, put into the program. URLs carry a hash of the content, so that browsers may keep them.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{LazyLock, RwLock},
};

use axum::{
    Router,
    extract::{Path, Query},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use rust_embed::RustEmbed;
use serde::Deserialize;

/// `static/` as it was built; `static/vendor` is fetched by `npm run vendor` and may be absent.
#[derive(RustEmbed)]
#[folder = "static/"]
struct Files;

/// Hashes by name: reading and hashing a file once is enough.
static HASHES: LazyLock<RwLock<BTreeMap<String, String>>> = LazyLock::new(RwLock::default);

/// The route of all assets.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/static/{*path}", get(serve))
}

/// Whether there is an asset of that name.
#[must_use]
pub fn exists(name: &str) -> bool {
    Files::get(name).is_some()
}

/// The address of an asset, with its hash.
#[must_use]
pub fn url(name: &str) -> String {
    hash(name).map_or_else(|| format!("/static/{name}"), |hash| format!("/static/{name}?v={hash}"))
}

fn hash(name: &str) -> Option<String> {
    // Debug builds read from disk, where a file may have changed.
    if !cfg!(debug_assertions)
        && let Ok(known) = HASHES.read()
        && let Some(hash) = known.get(name)
    {
        return Some(hash.clone());
    }
    let digest = Files::get(name)?.metadata.sha256_hash();
    let text = digest.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    if let Ok(mut known) = HASHES.write() {
        known.insert(name.to_owned(), text.clone());
    }
    Some(text)
}

#[derive(Debug, Deserialize)]
struct Version {
    v: Option<String>,
}

async fn serve(Path(path): Path<String>, Query(version): Query<Version>, headers: HeaderMap) -> Response {
    let (Some(file), Some(hash)) = (Files::get(&path), hash(&path)) else {
        return (StatusCode::NOT_FOUND, "no such asset").into_response();
    };
    let tag = format!("\"{hash}\"");
    let keep = if version.v.as_ref() == Some(&hash) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let common = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, keep.to_owned())];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(header::CONTENT_TYPE, content_type(&path))], file.data).into_response()
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
