//! Rampart finds out how much a cluster can carry, what stops it, and whether that has changed.

pub mod analysis;
pub mod cli;
pub mod config;
pub mod engine;
pub mod launch;
pub mod model;
pub mod report;
pub mod runs;
pub mod sample;
pub mod scenario;
pub mod store;
pub mod target;
pub mod web;
pub mod workload;
