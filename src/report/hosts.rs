//! The table of the machines that a run used.

use super::{Cell, Column, Mark, Table, format};
use crate::store::RunDetail;

const UNKNOWN: &str = "not known";

/// One row a machine: what it is, and where that was read.
#[must_use]
pub fn all(detail: &RunDetail) -> Table {
    let columns = vec![
        Column::words("nodes", "runs"),
        Column::words("name", "host"),
        Column::words("cpu", "CPU"),
        Column::figures("cores", "cores", ""),
        Column::figures("memory_gib", "memory", "GiB"),
        Column::figures("network_mbit_per_s", "network", "Mbit/s"),
        Column::words("os", "OS"),
        Column::words("kernel", "kernel"),
        Column::words("java", "Java"),
        Column::words("source", "read from"),
    ];
    let mut table = Table::new("hosts", "Hosts", columns);
    let words = |text: Option<&String>| text.map_or(Cell::missing(UNKNOWN), Cell::text);
    let count = |value: Option<u64>| value.map_or(Cell::missing(UNKNOWN), Cell::count);
    for host in detail.inventory.iter().flat_map(|inventory| &inventory.hosts) {
        let facts = &host.facts;
        let memory = facts.memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30));
        table.push(
            Mark::None,
            vec![
                Cell::text(host.nodes.join(", ")),
                words(facts.name.as_ref()),
                words(facts.cpu.as_ref()),
                count(facts.cores.map(u64::from)),
                memory.map_or(Cell::missing(UNKNOWN), Cell::number),
                count(facts.network_mbit_per_s),
                words(facts.os.as_ref()),
                words(facts.kernel.as_ref()),
                words(facts.java.as_ref()),
                Cell::text(host.source.clone()),
            ],
        );
    }
    let hash = detail.inventory.as_ref().map(|inventory| inventory.fingerprint.hash.as_str()).unwrap_or_default();
    if !hash.is_empty() {
        let facts = detail.inventory.as_ref().map_or(0, |inventory| inventory.fingerprint.facts.len() as u64);
        table.notes.push(format!(
            "Fingerprint {hash}: versions, settings, limits and hosts, {} facts. Runs with the same one were made under the \
             same conditions, as far as they could be read.",
            format::count(facts)
        ));
    }
    table
}
