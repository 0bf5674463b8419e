//! One integration binary: `cargo test --test it`.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "figures of fixtures are small"
)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "nothing here is used from outside")]

mod browser;
mod fixture;
mod fixture_server;
mod launch;
mod pages;
mod report;
mod stored;
