//! Everything that needs more than one layer, or a real server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod claim;
mod launch;
mod sampling;
#[path = "../../crates/zk-wire/tests/zookeeper/mod.rs"]
mod zookeeper;
mod api;
mod app;
mod runs;
mod store;
mod stream;
