//! What each resource of a node shows in one trial: utilisation, what waits for it, and how sure that is. One function a
//! resource and one line in [`RESOURCES`]. Sources of the limits: Gregg's USE method (utilisation, saturation, errors), and
//! ZooKeeper's own counters.

use super::{evidence, reading};
use crate::{
    analysis::figure,
    model::{Certainty, Evidence, SeriesStat, Trial},
};

/// Every resource that is looked at.
const RESOURCES: &[fn(&Trial, &str) -> Option<Evidence>] = &[heap, pauses, quota, cpu, log_disk, throttle, snapshots];

/// What the resources of a node show; what says nothing is left out.
pub(super) fn of_node(trial: &Trial, node: &str) -> Vec<Evidence> {
    RESOURCES.iter().filter_map(|resource| resource(trial, node)).collect()
}

/// Heap after collection beyond which a server has no room to work in (share of its limit).
const HEAP_FULL_SHARE: f64 = 0.85;
/// Time in collection pauses beyond which a server mostly collects (share of the window).
const PAUSE_SHARE: f64 = 0.10;
/// One collection pause that stalls clients by itself, in milliseconds.
const PAUSE_LONG_MS: f64 = 1_000.0;
/// CPU of all cores beyond which a server has none left (share).
const CPU_FULL_SHARE: f64 = 0.90;
/// CPU of one core, and of all cores, below which it is ruled out (share).
const CPU_ROOM_SHARE: f64 = 0.70;

/// Periods of a processor quota in which it was used up, beyond which it is the limit (share).
const QUOTA_SHARE: f64 = 0.25;
/// Forcing the log to the disk beyond which a write waits for nothing else, as a mean.
const FSYNC_SLOW_MS: f64 = 10.0;
/// Requests that wait for the log, as a mean.
const QUEUE_LONG: f64 = 5.0;
const THROTTLED_PER_S: f64 = 1.0;
/// Between two snapshots, below which they are a load of their own.
const SNAPSHOT_STORM_S: f64 = 2.0;

const MIB: f64 = 1_048_576.0;

fn heap(trial: &Trial, node: &str) -> Option<Evidence> {
    let used = trial.metric(node, "heap_after_gc_bytes")?;
    let limit = trial.metric(node, "heap_max_bytes")?.last;
    if limit <= 0.0 {
        return None;
    }
    let share = used.last.max(used.mean) / limit;
    let certainty = if share >= HEAP_FULL_SHARE {
        Certainty::Strong
    } else if share >= 0.7 {
        Certainty::Weak
    } else {
        Certainty::RuledOut
    };
    let words = match certainty {
        Certainty::Strong => "the heap is full",
        Certainty::Weak | Certainty::Likely => "the heap fills up",
        Certainty::RuledOut => "the heap has room",
    };
    let text = format!(
        "{words}: {} of {} MiB in use after collection ({} %)",
        figure(used.last.max(used.mean) / MIB),
        figure(limit / MIB),
        figure(share * 100.0)
    );
    Some(evidence(
        certainty,
        node,
        text,
        vec![reading("heap_after_gc_bytes", node, used.last, "bytes"), reading("heap_max_bytes", node, limit, "bytes")],
    ))
}

fn pauses(trial: &Trial, node: &str) -> Option<Evidence> {
    let share = trial.metric(node, "gc_pause_share")?;
    let longest = trial.metric(node, "gc_pause_max_ms")?;
    let certainty = if share.mean >= PAUSE_SHARE || longest.max >= PAUSE_LONG_MS {
        Certainty::Strong
    } else if share.mean >= PAUSE_SHARE / 5.0 {
        Certainty::Weak
    } else {
        Certainty::RuledOut
    };
    let text = format!(
        "collection pauses took {} % of the time, the longest {} ms",
        figure(share.mean * 100.0),
        figure(longest.max)
    );
    Some(evidence(
        certainty,
        node,
        text,
        vec![reading("gc_pause_share", node, share.mean, "share"), reading("gc_pause_max_ms", node, longest.max, "ms")],
    ))
}

/// CPU of the server's process. One full thread can be the limit, and others on the same machine may take the rest: only a
/// server that is far from both is ruled out, and in between nothing is said. Processes are read of this machine only, so that all
/// servers that have this reading share its cores.
fn cpu(trial: &Trial, node: &str) -> Option<Evidence> {
    let SeriesStat { mean, .. } = trial.metric(node, "process_cpu_share")?;
    let health = &trial.health;
    let servers: f64 =
        trial.target_nodes().filter_map(|(_, series)| series.get("process_cpu_share")).map(|stat| stat.mean).sum();
    let machine = servers + health.cpu_share.unwrap_or(0.0) + health.steal_share.unwrap_or(0.0);
    let threads = mean * f64::from(health.cores.max(1));
    let certainty = if *mean >= CPU_FULL_SHARE || machine >= CPU_FULL_SHARE {
        Certainty::Likely
    } else if threads < CPU_ROOM_SHARE && machine < CPU_ROOM_SHARE {
        Certainty::RuledOut
    } else {
        return None;
    };
    let text = format!(
        "the server used {} % of its machine's cores, with all servers there and Rampart {} %",
        figure(mean * 100.0),
        figure(machine * 100.0)
    );
    Some(evidence(certainty, node, text, vec![reading("process_cpu_share", node, *mean, "share")]))
}

/// A processor quota (a container's limit) that is used up, however idle the machine is.
fn quota(trial: &Trial, node: &str) -> Option<Evidence> {
    let share = trial.metric(node, "cpu_throttled_share")?.mean;
    let certainty = if share >= QUOTA_SHARE {
        Certainty::Strong
    } else if share >= QUOTA_SHARE / 5.0 {
        Certainty::Weak
    } else {
        Certainty::RuledOut
    };
    let words = if certainty == Certainty::RuledOut {
        "its processor quota left room"
    } else {
        "its processor quota was used up"
    };
    let text = format!("{words}: in {} % of the quota's periods it had to wait", figure(share * 100.0));
    Some(evidence(certainty, node, text, vec![reading("cpu_throttled_share", node, share, "share")]))
}

/// The disk of the transaction log: each write waits until it is on it.
fn log_disk(trial: &Trial, node: &str) -> Option<Evidence> {
    let fsync = trial.metric(node, "fsync_mean_ms")?;
    let waiting = trial.metric(node, "sync_queue").map_or(0.0, |queue| queue.mean);
    let certainty = if fsync.mean >= FSYNC_SLOW_MS && waiting >= QUEUE_LONG {
        Certainty::Strong
    } else if fsync.mean >= FSYNC_SLOW_MS {
        Certainty::Likely
    } else if waiting >= QUEUE_LONG {
        Certainty::Weak
    } else {
        Certainty::RuledOut
    };
    let text = format!(
        "forcing the log to the disk took {} ms in the mean, and {} requests waited for it",
        figure(fsync.mean),
        figure(waiting)
    );
    let readings = vec![reading("fsync_mean_ms", node, fsync.mean, "ms"), reading("sync_queue", node, waiting, "")];
    Some(evidence(certainty, node, text, readings))
}

/// The server's own throttle: more requests came than it lets in at a time (`zookeeper.request_throttle_max_requests`).
fn throttle(trial: &Trial, node: &str) -> Option<Evidence> {
    let waits = trial.metric(node, "throttle_waits_per_s")?.mean;
    let certainty = if waits >= THROTTLED_PER_S { Certainty::Strong } else { Certainty::RuledOut };
    let text = format!("the server's own request throttle made {} requests a second wait", figure(waits));
    Some(evidence(certainty, node, text, vec![reading("throttle_waits_per_s", node, waits, "per_s")]))
}

/// Snapshots that follow each other so closely that writing them never ends.
fn snapshots(trial: &Trial, node: &str) -> Option<Evidence> {
    let rose = trial.metric(node, "snapshots")?.rose?;
    let seconds = trial.measure_s;
    if seconds <= 0.0 || rose < 2.0 {
        return None;
    }
    let each_s = seconds / rose;
    let certainty = if each_s <= SNAPSHOT_STORM_S { Certainty::Likely } else { return None };
    let text = format!("snapshots were written all the time, one in {} s", figure(each_s));
    Some(evidence(certainty, node, text, vec![reading("snapshots", node, rose, "")]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::judge::tests::trial;

    fn with(series: &[(&str, &str, f64)]) -> Trial {
        let mut made = trial(1, 10, vec![]);
        made.nodes = BTreeMap::new();
        for (node, metric, value) in series {
            let stat = SeriesStat {
                mean: *value,
                min: *value,
                max: *value,
                last: *value,
                readings: 5,
                rose: Some(*value),
                ..SeriesStat::default()
            };
            made.nodes.entry((*node).to_owned()).or_default().insert((*metric).to_owned(), stat);
        }
        made
    }

    fn certainty(trial: &Trial, node: &str, name: &str) -> Option<Certainty> {
        of_node(trial, node)
            .into_iter()
            .find(|evidence| evidence.readings[0].name == name)
            .map(|evidence| evidence.certainty)
    }

    #[test]
    fn a_machine_that_is_full_of_servers_is_not_ruled_out_for_any_of_them() {
        let cpu = |others: f64| {
            let mut made = with(&[
                ("a", "process_cpu_share", 0.3),
                ("b", "process_cpu_share", others),
                ("c", "process_cpu_share", others),
            ]);
            (made.health.cores, made.health.cpu_share, made.health.steal_share) = (2, Some(0.16), None);
            certainty(&made, "a", "process_cpu_share")
        };
        assert_eq!(cpu(0.24), Some(Certainty::Likely), "94 % in all");
        assert_eq!(cpu(0.01), Some(Certainty::RuledOut));
    }

    #[test]
    fn each_resource_has_its_limits() {
        for (metric, value, expected) in [
            ("cpu_throttled_share", 0.8, Some(Certainty::Strong)),
            ("cpu_throttled_share", 0.1, Some(Certainty::Weak)),
            ("cpu_throttled_share", 0.0, Some(Certainty::RuledOut)),
            ("fsync_mean_ms", 40.0, Some(Certainty::Likely)),
            ("fsync_mean_ms", 2.0, Some(Certainty::RuledOut)),
            ("throttle_waits_per_s", 50.0, Some(Certainty::Strong)),
            ("throttle_waits_per_s", 0.0, Some(Certainty::RuledOut)),
        ] {
            assert_eq!(certainty(&with(&[("a", metric, value)]), "a", metric), expected, "{metric} {value}");
        }
        let slow = with(&[("a", "fsync_mean_ms", 40.0), ("a", "sync_queue", 30.0)]);
        assert_eq!(certainty(&slow, "a", "fsync_mean_ms"), Some(Certainty::Strong));
        let mut stormy = with(&[("a", "snapshots", 12.0)]);
        stormy.measure_s = 10.0;
        assert_eq!(certainty(&stormy, "a", "snapshots"), Some(Certainty::Likely));
        stormy.measure_s = 100.0;
        assert_eq!(certainty(&stormy, "a", "snapshots"), None);
    }
}
