//! The integration tests: one binary, one harness.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod claim;
#[path = "../../crates/zk-wire/tests/zookeeper/mod.rs"]
mod zookeeper;
