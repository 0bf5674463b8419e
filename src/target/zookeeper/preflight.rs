//! What stands in the way of a run, out of the inventory and of what the run is going to ask. No clock, no I/O.

use crate::{
    model::{Inventory, NodeInfo, figure},
    target::Ahead,
};

/// Bytes of a znode in a snapshot: 76 for its stat, ACL and lengths, the rest its path and data. The source report's
/// snapshots of 2.6 to 3.1 million znodes have 132 to 134 each.
const SNAPSHOT_BYTES_PER_ZNODE: f64 = 134.0;
/// A snapshot is written after a random number of transactions between half of snapCount and all of it.
const SNAPSHOT_AFTER: f64 = 0.75;
const DEFAULT_SNAP_COUNT: f64 = 100_000.0;
const DEFAULT_RETAINED: f64 = 3.0;

/// Remarks on disk, limits and settings, each a sentence; what overflows comes first.
#[must_use]
pub fn remarks(inventory: &Inventory, ahead: &Ahead) -> Vec<String> {
    let mut remarks: Vec<String> =
        disks(&inventory.nodes).iter().filter_map(|disk| of_disk(disk, inventory, ahead)).collect();
    remarks.extend(files(inventory, ahead));
    remarks.extend(connections_of_others(&inventory.nodes));
    if setting(inventory, "forceSync").is_some_and(|value| value.eq_ignore_ascii_case("no")) {
        remarks.push(
            "forceSync = no: transactions are acknowledged before they are on the disk, so that these figures compare with \
             no target that keeps its data safe."
                .to_owned(),
        );
    }
    if inventory.nodes.iter().any(|node| node.version == "3.6.0" || node.version.starts_with("3.6.0-")) {
        remarks.push(
            "ZooKeeper 3.6.0 does not heed globalOutstandingLimit (ZOOKEEPER-3793): its queue grows where other versions hold \
             their clients back."
                .to_owned(),
        );
    }
    remarks
}

/// Snapshots that a run leaves on the disk of one server, at the most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    pub snapshots: f64,
    pub bytes: f64,
    /// The size of the largest one.
    pub largest_bytes: f64,
}

/// How a server keeps its snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keeping {
    pub snap_count: f64,
    pub retained: f64,
    /// Hours between two purges; 0 for never.
    pub purge_interval_h: f64,
}

/// Projects the snapshots of a run whose steps take equal shares of its time, on a server that held `present` znodes.
#[must_use]
pub fn project(present: u64, ahead: &Ahead, keeping: Keeping) -> Projection {
    let every = (keeping.snap_count * SNAPSHOT_AFTER).max(1.0);
    let step_s = ahead.longest_s / ahead.steps.len().max(1) as f64;
    let size = |znodes: u64| SNAPSHOT_BYTES_PER_ZNODE * present.saturating_add(znodes) as f64;
    let (mut snapshots, mut bytes, mut before) = (0.0, 0.0, 0_u64);
    for step in &ahead.steps {
        // To fill and to empty is a transaction a znode.
        let transactions = step.writes_per_s * step_s + step.znodes.abs_diff(before) as f64;
        before = step.znodes;
        snapshots += transactions / every;
        bytes += transactions / every * size(step.znodes);
    }
    let largest = ahead.steps.iter().map(|step| step.znodes).max().unwrap_or(0);
    let largest_bytes = size(largest);
    if keeping.purge_interval_h > 0.0 {
        let busiest = ahead.steps.iter().map(|step| step.writes_per_s).fold(0.0, f64::max);
        let between = (busiest * keeping.purge_interval_h * 3_600.0 + largest as f64) / every;
        let kept = snapshots.min(keeping.retained + between);
        return Projection { snapshots: kept, bytes: bytes.min(kept * largest_bytes), largest_bytes };
    }
    Projection { snapshots, bytes, largest_bytes }
}

/// A file system with the servers that keep their data on it.
#[derive(Debug)]
struct Disk<'a> {
    free_bytes: u64,
    nodes: Vec<&'a NodeInfo>,
}

/// The file systems of all servers: those of this machine with as much free space are one.
fn disks(nodes: &[NodeInfo]) -> Vec<Disk<'_>> {
    let mut disks: Vec<Disk<'_>> = Vec::new();
    for node in nodes {
        let Some(free_bytes) = node.disk_free_bytes else { continue };
        // They were read one after another, while others wrote.
        let alike = |disk: &Disk<'_>| disk.free_bytes.abs_diff(free_bytes) <= free_bytes / 100;
        let shared = |disk: &&mut Disk<'_>| node.local && disk.nodes.iter().all(|other| other.local) && alike(disk);
        match disks.iter_mut().find(shared) {
            Some(disk) => disk.nodes.push(node),
            None => disks.push(Disk { free_bytes, nodes: vec![node] }),
        }
    }
    disks
}

fn of_disk(disk: &Disk<'_>, inventory: &Inventory, ahead: &Ahead) -> Option<String> {
    let number = |name: &str| setting(inventory, name).and_then(|value| value.trim().parse::<f64>().ok());
    let purge = number("autopurge.purgeInterval");
    let keeping = Keeping {
        snap_count: number("snapCount").unwrap_or(DEFAULT_SNAP_COUNT),
        retained: number("autopurge.snapRetainCount").unwrap_or(DEFAULT_RETAINED),
        purge_interval_h: purge.unwrap_or(0.0),
    };
    let all: Vec<_> = disk.nodes.iter().map(|node| project(node.znodes.unwrap_or(0), ahead, keeping)).collect();
    let sum = |of: fn(&Projection) -> f64| all.iter().map(of).sum::<f64>();
    let (bytes, snapshots) = (sum(|each| each.bytes), sum(|each| each.snapshots));
    let free = disk.free_bytes as f64;
    if bytes * 2.0 <= free {
        return None;
    }
    let names: Vec<_> = disk.nodes.iter().map(|node| node.name.as_str()).collect();
    let largest = all.iter().map(|each| each.largest_bytes).fold(0.0, f64::max);
    let kept = match purge {
        Some(hours) if hours > 0.0 => format!("purged every {hours} h"),
        Some(_) => "never purged".to_owned(),
        None => "never purged, as is ZooKeeper's default".to_owned(),
    };
    let begin = if bytes > free { "The disk is too small for this run" } else { "The disk may become full" };
    Some(format!(
        "{begin}: the data directory of {} has {} free, and up to {} snapshots of up to {} ({kept}) come to {}; transaction logs \
         come on top. A server whose disk is full ends.",
        names.join(", "),
        size(free),
        figure::group(&format!("{:.0}", snapshots.ceil())),
        size(largest),
        size(bytes),
    ))
}

fn size(bytes: f64) -> String {
    let (value, unit) = if bytes >= 1e9 { (bytes / 1e9, "GB") } else { (bytes / 1e6, "MB") };
    format!("{}{}{unit}", figure::figure(value), figure::THIN)
}

/// Who else uses the target changes what it can carry.
fn connections_of_others(nodes: &[NodeInfo]) -> Option<String> {
    let busy = nodes.iter().filter_map(|node| Some((node, node.other_connections.filter(|count| *count > 0)?)));
    let list: Vec<_> = busy.map(|(node, count)| format!("{count} to {}", node.name)).collect();
    (!list.is_empty()).then(|| {
        format!(
            "Others had connections before the load ({}): what they ask of the target is in all figures.",
            list.join(", ")
        )
    })
}

/// Each session is an open file of its server.
fn files(inventory: &Inventory, ahead: &Ahead) -> Option<String> {
    let limit = inventory.limit("max_file_descriptor_count")?;
    let each = ahead.sessions.div_ceil(inventory.nodes.len().max(1) as u64);
    (each > limit).then(|| {
        format!(
            "The highest load has {each} sessions a server, which may open {limit} files only: expect `limit_reached`."
        )
    })
}

/// A setting by its name in `zoo.cfg`, from wherever it was read.
fn setting<'a>(inventory: &'a Inventory, name: &str) -> Option<&'a str> {
    let known = |prefix: &str| inventory.settings.iter().find(|each| each.name.strip_prefix(prefix) == Some(name));
    known("").or_else(|| known("zoo_cfg.")).map(|setting| setting.value.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        model::{Limit, Setting},
        target::StepAhead,
    };

    /// The source report's highest load, held for an hour.
    fn ahead() -> Ahead {
        let steps = vec![StepAhead { znodes: 3_000_000, writes_per_s: 8_000.0 }];
        Ahead { steps, sessions: 4_200, longest_s: 3_600.0 }
    }

    fn inventory(free_bytes: &[u64], settings: &[(&str, &str)]) -> Inventory {
        let node = |(number, free): (usize, &u64)| NodeInfo {
            name: format!("s{number}"),
            version: "3.8.0".to_owned(),
            local: true,
            disk_free_bytes: Some(*free),
            znodes: Some(0),
            ..NodeInfo::default()
        };
        let setting = |(name, value): &(&str, &str)| Setting {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            source: "launch recipe".to_owned(),
        };
        Inventory {
            nodes: free_bytes.iter().enumerate().map(node).collect(),
            settings: settings.iter().map(setting).collect(),
            ..Inventory::default()
        }
    }

    fn plain(text: &str) -> String {
        text.replace(figure::THIN, " ")
    }

    #[test]
    fn a_disk_that_overflows_is_said_with_its_figures() {
        let remarks = remarks(&inventory(&[100_000_000_000], &[("snapCount", "100000")]), &ahead());
        // 31.8 million transactions, a snapshot of 402 MB after each 75,000 of them.
        let wanted = "The disk is too small for this run: the data directory of s0 has 100 GB free, and up to 424 snapshots of up \
                      to 402 MB (never purged, as is ZooKeeper's default) come to 170 GB; transaction logs come on top. A server \
                      whose disk is full ends.";
        assert_eq!(remarks.iter().map(|text| plain(text)).collect::<Vec<_>>(), [wanted]);
    }

    #[test]
    fn a_disk_with_room_for_twice_as_much_is_not_remarked_upon() {
        assert_eq!(remarks(&inventory(&[400_000_000_000], &[]), &ahead()), Vec::<String>::new());
        let close = remarks(&inventory(&[200_000_000_000], &[]), &ahead());
        assert!(close[0].starts_with("The disk may become full"), "{close:?}");
    }

    #[test]
    fn purging_keeps_what_one_interval_writes() {
        let settings = [("zoo_cfg.autopurge.purgeInterval", "1"), ("zoo_cfg.autopurge.snapRetainCount", "3")];
        let mut long = ahead();
        long.longest_s = 36_000.0;
        let text = plain(&remarks(&inventory(&[10_000_000_000], &settings), &long)[0]);
        assert!(text.contains("427 snapshots") && text.contains("purged every 1 h"), "{text}");
    }

    #[test]
    fn servers_on_one_disk_share_it() {
        let three = remarks(&inventory(&[400_000_000_000, 400_100_000_000, 399_900_000_000], &[]), &ahead());
        assert!(three.len() == 1 && three[0].contains("s0, s1, s2"), "{three:?}");
        let apart = remarks(&inventory(&[400_000_000_000, 100_000_000_000], &[]), &ahead());
        assert!(apart.len() == 1 && apart[0].contains("of s1 has"), "{apart:?}");
        // Machines of the same kind have disks of their own.
        for here in [[false, false], [true, false], [false, true]] {
            let mut elsewhere = inventory(&[100_000_000_000, 100_000_000_000], &[]);
            elsewhere.nodes.iter_mut().zip(here).for_each(|(node, here)| node.local = here);
            assert_eq!(remarks(&elsewhere, &ahead()).len(), 2, "{here:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_projected() {
        let mut unknown = inventory(&[1], &[]);
        unknown.nodes[0].disk_free_bytes = None;
        assert_eq!(remarks(&unknown, &ahead()), Vec::<String>::new());
    }

    #[test]
    fn connections_of_others_are_said_where_they_are_known() {
        let mut busy = inventory(&[], &[]);
        let node =
            |name: &str, others| NodeInfo { name: name.into(), other_connections: others, ..NodeInfo::default() };
        busy.nodes = vec![node("a", Some(12)), node("b", Some(0)), node("c", Some(3)), node("d", None)];
        let said = remarks(&busy, &ahead());
        assert!(said.len() == 1 && said[0].contains("(12 to a, 3 to c)"), "{said:?}");
        busy.nodes = vec![node("b", Some(0)), node("d", None)];
        assert_eq!(remarks(&busy, &ahead()), Vec::<String>::new());
    }

    #[test]
    fn limits_and_settings_that_change_results_are_said() {
        let mut odd = inventory(&[], &[("forceSync", "no")]);
        odd.nodes = vec![NodeInfo { version: "3.6.0-b4c89dc7".to_owned(), ..NodeInfo::default() }];
        odd.limits.push(Limit { name: "max_file_descriptor_count".into(), value: Some(4_096), source: "mntr".into() });
        let remarks = remarks(&odd, &ahead());
        assert_eq!(remarks.len(), 3, "{remarks:?}");
        assert!(remarks[0].contains("4200 sessions a server") && remarks[1].contains("forceSync = no"), "{remarks:?}");
        assert!(remarks[2].contains("ZOOKEEPER-3793"), "{remarks:?}");
    }

    prop_compose! {
        fn any_ahead()(
            steps in proptest::collection::vec((0..4_000_000_u64, 0.0..20_000.0_f64), 1..20),
            longest_s in 0.0..1e6_f64,
        ) -> Ahead {
            let steps = steps.into_iter().map(|(znodes, writes_per_s)| StepAhead { znodes, writes_per_s }).collect();
            Ahead { steps, sessions: 1, longest_s }
        }
    }

    proptest! {
        #[test]
        fn purging_never_keeps_more_and_rarer_snapshots_never_are_more(
            ahead in any_ahead(), snap_count in 1_000.0..1e7_f64, purge_interval_h in 0.1..48.0_f64,
        ) {
            let never = Keeping { snap_count, retained: 3.0, purge_interval_h: 0.0 };
            let kept = project(10, &ahead, never);
            let purged = project(10, &ahead, Keeping { purge_interval_h, ..never });
            let rarer = project(10, &ahead, Keeping { snap_count: snap_count * 2.0, ..never });
            prop_assert!(purged.snapshots <= kept.snapshots && purged.bytes <= kept.bytes);
            prop_assert!(rarer.snapshots <= kept.snapshots && rarer.bytes <= kept.bytes);
            prop_assert!(kept.bytes.is_finite() && kept.bytes >= 0.0);
            prop_assert!(kept.bytes <= kept.snapshots * kept.largest_bytes * 1.000_001);
        }
    }
}
