//! What is done to a target. One file or folder a workload or probe, and one line in [`WORKLOADS`] or [`PROBES`].
//! Knows targets and the model; never judges, never stores.
