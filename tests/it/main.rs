//! Everything that needs more than one layer, or a real server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    clippy::float_cmp,
    reason = "figures of fixtures are small and exact"
)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "nothing here is used from outside")]

mod actions;
mod api;
mod app;
mod architecture;
mod binary;
mod browser;
mod campaign;
mod claim;
mod compare;
mod disturbances;
mod domains;
mod engine_run;
mod ensemble;
mod ensemble_faults;
mod faults;
mod fixture;
mod fixture_server;
mod guards;
mod journey;
mod launch;
mod launch_command;
mod limit_faults;
mod pages;
mod preflight;
mod process;
mod rate;
mod report;
mod runs;
mod sampling;
mod sampling_sources;
mod secure;
mod store;
mod stored;
mod stream;
mod sweep;
mod swept;
mod versions;
#[path = "../../crates/zk-wire/tests/zookeeper/mod.rs"]
mod zookeeper;
