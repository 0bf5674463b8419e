//! Readings of a target: what each metric is called, its unit, and how pages name it. docs/METRICS.md lists the same.

use serde::{Deserialize, Serialize};

/// One timestamped reading of one series of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Absolute nanoseconds.
    pub at_ns: i64,
    /// The node, as the inventory names it; [`GENERATOR`] for Rampart's own readings.
    pub node: String,
    /// A name of [`METRICS`].
    pub metric: String,
    /// The value, in the metric's unit.
    pub value: f64,
}

/// The node name under which Rampart reports on itself.
pub const GENERATOR: &str = "generator";

/// Whether a metric is a level or a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A level at a moment.
    Gauge,
    /// A difference of a counter over the time between two readings.
    Rate,
}

/// What a metric name stands for.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Metric {
    /// The stable name, with its unit where it has one.
    pub name: &'static str,
    /// How pages call it.
    pub label: &'static str,
    /// The unit of stored values: `""` for a count, `bytes`, `s`, `ms`, `share`, `per_s`, `bytes_per_s`.
    pub unit: &'static str,
    /// Level or rate.
    pub kind: Kind,
    /// Where the value comes from, in one sentence.
    pub source: &'static str,
}

const fn gauge(name: &'static str, label: &'static str, unit: &'static str, source: &'static str) -> Metric {
    Metric { name, label, unit, kind: Kind::Gauge, source }
}

const fn rate(name: &'static str, label: &'static str, unit: &'static str, source: &'static str) -> Metric {
    Metric { name, label, unit, kind: Kind::Rate, source }
}

/// Every metric that Rampart stores.
pub const METRICS: &[Metric] = &[
    gauge("znodes", "znodes", "", "srvr Node count"),
    gauge("leads", "leads", "", "srvr Mode: 1 while the server leads its ensemble, 0 while it does not"),
    gauge("watches", "watches", "", "mntr or AdminServer watch_count"),
    gauge("ephemerals", "ephemerals", "", "mntr or AdminServer ephemerals_count"),
    gauge("connections", "connections", "", "srvr Connections; the sampler's own connection is one of them"),
    gauge("sessions", "sessions", "", "mntr or AdminServer global_sessions (3.6 and later)"),
    gauge(
        "outstanding_requests",
        "outstanding requests",
        "",
        "srvr Outstanding: requests inside this server's pipeline",
    ),
    gauge("busy_share", "busy", "share", "a simulated system: the share of its servers' time that was worked"),
    rate("requests_per_s", "requests", "per_s", "a simulated system: requests that it took on"),
    rate("transactions_per_s", "transactions", "per_s", "difference of the low half of the zxid (srvr)"),
    rate("packets_in_per_s", "packets in", "per_s", "srvr Received"),
    rate(
        "request_latency_ms",
        "request latency, server's mean",
        "ms",
        "interval mean from sums and counts of readlatency and updatelatency (mntr, 3.6 and later); pings are included",
    ),
    gauge(
        "snapshot_bytes",
        "snapshot",
        "bytes",
        "the newest snapshot file of a managed server, else 76 bytes a znode and approximate_data_size (mntr)",
    ),
    gauge(
        "snapshot_interval_s",
        "snapshot every",
        "s",
        "time between the two newest snapshot files, else between two that the server counted, as exactly as it is asked",
    ),
    gauge(
        "snapshots",
        "snapshots",
        "",
        "snapshots written since the run began: files of a managed server, else its count of snapshottime (mntr, 3.6 and later)",
    ),
    rate("fsync_mean_ms", "log fsync, mean", "ms", "difference of sum and count of fsynctime (mntr, 3.6 and later)"),
    rate("prep_queue", "first queue, mean", "", "interval mean of prep_processor_queue_size (mntr, 3.6 and later)"),
    rate("sync_queue", "log queue, mean", "", "interval mean of sync_processor_queue_size (mntr, 3.6 and later)"),
    rate(
        "commit_queue",
        "commit queue, mean",
        "",
        "interval mean of write_commit_proc_req_queued (mntr, 3.6 and later)",
    ),
    rate(
        "throttle_waits_per_s",
        "throttled requests",
        "per_s",
        "request_throttle_wait_count (mntr, 3.6 and later): requests that the server's own throttle made wait",
    ),
    gauge(
        "cpu_throttled_share",
        "CPU quota used up",
        "share",
        "control group of the server's process: periods of its processor quota in which it had to wait",
    ),
    gauge("process_cpu_share", "CPU", "share", "the server's process, of all cores of its machine (sysinfo)"),
    gauge("memory_bytes", "memory", "bytes", "resident memory of the server's process (sysinfo)"),
    rate(
        "net_in_bytes_per_s",
        "network in",
        "bytes_per_s",
        "the server's bytes_received_count (mntr, 3.6 and later), else the interface",
    ),
    rate(
        "net_out_bytes_per_s",
        "network out",
        "bytes_per_s",
        "the server's response_bytes and watch_bytes (mntr, 3.7 and later), else the interface",
    ),
    rate("disk_read_bytes_per_s", "disk read", "bytes_per_s", "the server's process (sysinfo)"),
    rate("disk_write_bytes_per_s", "disk write", "bytes_per_s", "the server's process (sysinfo)"),
    gauge("disk_free_bytes", "disk free", "bytes", "file system of the data directory, of a server of this machine"),
    rate(
        "host_cpu_share",
        "host CPU",
        "share",
        "node_exporter: time of all cores that was not idle, waiting or stolen",
    ),
    gauge("host_memory_bytes", "host memory", "bytes", "node_exporter: MemTotal less MemAvailable"),
    rate("host_net_in_bytes_per_s", "host network in", "bytes_per_s", "node_exporter: all cards"),
    rate("host_net_out_bytes_per_s", "host network out", "bytes_per_s", "node_exporter: all cards"),
    rate("host_disk_read_bytes_per_s", "host disk read", "bytes_per_s", "node_exporter: all disks"),
    rate("host_disk_write_bytes_per_s", "host disk write", "bytes_per_s", "node_exporter: all disks"),
    gauge(
        "host_disk_free_bytes",
        "host disk free",
        "bytes",
        "node_exporter: file system of the data directory, else the one with the least free space",
    ),
    gauge("heap_after_gc_bytes", "heap after collection", "bytes", "the managed server's GC log"),
    gauge("heap_max_bytes", "heap limit", "bytes", "the managed server's GC log, else its Prometheus provider"),
    rate(
        "gc_pause_share",
        "time in collection pauses",
        "share",
        "pauses of the managed server's GC log over the interval, else collections of its Prometheus provider",
    ),
    gauge("gc_pause_max_ms", "longest collection pause", "ms", "the longest pause of the interval (GC log)"),
    gauge("srvr_ms", "srvr took", "ms", "the sampler's own measure"),
    gauge("mntr_ms", "mntr took", "ms", "the sampler's own measure of mntr or AdminServer monitor"),
    gauge("load_confirmed", "load in place", "", "what the load units have put in place"),
    rate("probe_ops_per_s", "probe", "per_s", "operations of the running probe; one client, one call in flight"),
    gauge("load_sessions", "load's connections", "", "sessions of the load that are connected"),
    gauge(
        "canary_ms",
        "canary",
        "ms",
        "one read a second by a client that is no part of the load, from when it was due",
    ),
    rate("load_writes_per_s", "load's transactions achieved", "per_s", "the load units' own count"),
    rate("load_reads_per_s", "load's reads achieved", "per_s", "the load units' own count"),
    gauge("generator_cpu_share", "generator CPU", "share", "this process, of all cores of this machine"),
    gauge("generator_memory_bytes", "generator memory", "bytes", "this process"),
    gauge("generator_open_files", "generator open files", "", "this process (/proc/self/fd)"),
    gauge(
        "generator_open_files_limit",
        "generator open files limit",
        "",
        "soft limit of this process (/proc/self/limits)",
    ),
    rate("generator_steal_share", "stolen CPU", "share", "steal of all ticks of this machine's cores (/proc/stat)"),
    gauge("start_lag_p99_ms", "start lag, p99", "ms", "how late due operations were sent, over the last second"),
    gauge(
        "load_in_flight",
        "operations under way",
        "",
        "operations of a load at a rate that were sent and not answered",
    ),
    gauge("missed_arrivals", "missed arrivals", "", "due operations that were never sent, over the last second"),
];

/// The description of a metric, if Rampart knows it.
#[must_use]
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn row(metric: &Metric) -> String {
        let Metric { name, label, unit, kind, source } = metric;
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Rate => "rate",
        };
        let unit = if unit.is_empty() { "count" } else { unit };
        format!("| `{name}` | {label} | {unit} | {kind} | {source} |")
    }

    #[test]
    fn the_table_of_the_documents_has_every_metric_and_no_other() {
        let table = include_str!("../../docs/METRICS.md");
        let written: HashSet<_> = table.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
        let known: HashSet<_> = METRICS.iter().map(row).collect();
        let missing: Vec<_> = METRICS.iter().map(row).filter(|row| !written.contains(row)).collect();
        assert!(missing.is_empty(), "docs/METRICS.md lacks\n{}", missing.join("\n"));
        let unknown: Vec<_> = written.difference(&known).collect();
        assert!(unknown.is_empty(), "docs/METRICS.md has {unknown:?}");
    }

    #[test]
    fn names_are_unique_and_end_in_their_unit() {
        let names: HashSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS.iter().filter(|metric| !metric.unit.is_empty()) {
            assert!(metric.name.ends_with(metric.unit), "{} is in {}", metric.name, metric.unit);
        }
    }
}
