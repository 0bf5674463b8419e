//! Everything that needs more than one layer, or a real server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod api;
mod app;
mod claim;
mod launch;
mod runs;
mod sampling;
mod store;
mod stream;
#[path = "../../crates/zk-wire/tests/zookeeper/mod.rs"]
mod zookeeper;
