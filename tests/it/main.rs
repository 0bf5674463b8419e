//! Everything that needs more than one layer, or a real server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod api;
mod app;
mod launch;
mod runs;
mod store;
mod stream;
