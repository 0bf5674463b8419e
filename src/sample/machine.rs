//! What this machine is, for the inventory. Blocking.

use std::{fs, path::Path};

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::model::HostFacts;

/// The facts of this machine; what the system does not tell is absent.
#[must_use]
pub fn this_machine() -> HostFacts {
    let kind =
        RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()).with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(kind).ok();
    let cpus = system.as_ref().map(System::cpus).unwrap_or_default();
    HostFacts {
        name: System::host_name().ok(),
        cpu: cpus.first().map(|cpu| cpu.brand().trim().to_owned()).filter(|brand| !brand.is_empty()),
        cores: u32::try_from(cpus.len()).ok().filter(|cores| *cores > 0),
        memory_bytes: system.as_ref().map(System::total_memory).filter(|bytes| *bytes > 0),
        os: System::long_os_version().ok(),
        kernel: System::kernel_version().ok(),
        network_mbit_per_s: fastest_network(Path::new("/sys/class/net")),
        java: None,
    }
}

/// The speed of the fastest network card; virtual ones tell none.
fn fastest_network(cards: &Path) -> Option<u64> {
    let speeds = fs::read_dir(cards).ok()?.flatten().filter_map(|card| {
        let text = fs::read_to_string(card.path().join("speed")).ok()?;
        // Without a cable it is -1.
        text.trim().parse::<i64>().ok().and_then(|speed| u64::try_from(speed).ok())
    });
    speeds.filter(|speed| *speed > 0).max()
}

/// Bytes that an ordinary process may still write to the file system of a path; `None` when the path is not there.
#[must_use]
pub fn disk_free_bytes(path: &Path) -> Option<u64> {
    // Asked of the path alone: a walk through all mounts would hang at a file server that is gone.
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let facts = this_machine();
        assert!(facts.cores >= Some(1) && facts.memory_bytes > Some(100_000_000), "{facts:?}");
        assert!(facts.kernel.is_some() && facts.name.is_some(), "{facts:?}");
    }

    #[test]
    fn the_fastest_card_with_a_cable_counts() {
        let folder = tempfile::tempdir().unwrap();
        for (card, speed) in [("eth0", "1000\n"), ("eth1", "25000\n"), ("eth2", "-1\n"), ("lo", "")] {
            fs::create_dir(folder.path().join(card)).unwrap();
            fs::write(folder.path().join(card).join("speed"), speed).unwrap();
        }
        assert_eq!(fastest_network(folder.path()), Some(25_000));
        assert_eq!(fastest_network(Path::new("/nonexistent")), None);
    }

    #[test]
    fn free_space_is_of_an_existing_path_only() {
        assert!(disk_free_bytes(Path::new("/tmp")).unwrap() > 0);
        assert_eq!(disk_free_bytes(Path::new("/nonexistent/data")), None);
    }
}
