//! The host of a server on another machine, as its node_exporter tells it. Reads the names of version 0.16 and later, and
//! those of before.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Rate,
    exposition::{Figure, parse},
    fetch::{FetchError, Fetcher},
    sample,
};
use crate::model::{Clock, HostFacts, Sample};

/// How long a host may take to tell its figures.
const WITHIN: Duration = Duration::from_secs(5);
/// Traffic that never leaves the host, or that other interfaces count as well: bridges, tunnels, pairs of containers,
/// bonds over cards.
const VIRTUAL_INTERFACES: &[&str] = &[
    "lo", "veth", "docker", "br-", "virbr", "cni", "flannel", "cali", "tun", "tap", "dummy", "bond", "team", "wg",
    "ifb",
];
/// Disks that lie on other disks.
const VIRTUAL_DISKS: &[&str] = &["dm-", "md", "loop", "ram", "zram", "sr", "fd"];
/// File systems that hold no data of a server.
const NO_DATA: &[&str] =
    &["tmpfs", "devtmpfs", "overlay", "squashfs", "ramfs", "iso9660", "nsfs", "autofs", "fuse.lxcfs"];

/// Reads the host of one server.
#[derive(Debug)]
pub struct NodeExporter {
    clock: Clock,
    /// The node that samples are stored under: the server's, since that is whose host it is.
    node: String,
    url: String,
    fetcher: Fetcher,
    data_dir: Option<String>,
    series: HostSeries,
}

impl NodeExporter {
    /// The node_exporter at a URL as the host of `node`; with the folder of the server's data, where that is known, its
    /// file system is the one whose free space is told. `None` when no HTTP client can be made.
    #[must_use]
    pub fn new(clock: Clock, node: &str, url: &str, data_dir: Option<String>) -> Option<Self> {
        let series = HostSeries::default();
        Some(Self { clock, node: node.to_owned(), url: url.to_owned(), fetcher: Fetcher::new()?, data_dir, series })
    }

    /// `host_cpu_share`, `host_memory_bytes`, rates of network and disk, `host_disk_free_bytes`; rates from the second
    /// reading on, nothing when it does not answer.
    pub async fn read(&mut self) -> Vec<Sample> {
        match fetch(&self.fetcher, &self.url).await {
            Ok(figures) => self.series.next(self.clock.now_ns(), &self.node, &figures, self.data_dir.as_deref()),
            Err(error) => {
                tracing::debug!(node = %self.node, "the host of {} is not read: {error}", self.node);
                Vec::new()
            }
        }
    }
}

/// What a host tells once, for the inventory.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    pub facts: HostFacts,
    /// Free space of the file system of the folder that was asked for, else as [`NodeExporter`] has it.
    pub disk_free_bytes: Option<u64>,
}

/// Looks at a host once.
///
/// # Errors
/// When it does not answer, or answers with something else than the figures of a host.
pub async fn look(url: &str, data_dir: Option<&str>) -> Result<Host, String> {
    let fetcher = Fetcher::new().ok_or("no HTTP client can be made")?;
    let figures = fetch(&fetcher, url).await.map_err(|error| error.to_string())?;
    if cpu(&figures).is_none() {
        return Err(format!("{url} tells no processor time; is it a node_exporter?"));
    }
    Ok(Host { facts: facts(&figures), disk_free_bytes: disk_free(&figures, data_dir).and_then(whole) })
}

async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Vec<Figure>, FetchError> {
    Ok(parse(&String::from_utf8_lossy(&fetcher.get(url, WITHIN).await?)))
}

/// What one answer means after the one before.
#[derive(Debug, Default)]
struct HostSeries {
    booted_s: Option<f64>,
    busy: Rate,
    all: Rate,
    net_in: Rate,
    net_out: Rate,
    disk_read: Rate,
    disk_write: Rate,
}

impl HostSeries {
    fn next(&mut self, at_ns: i64, node: &str, figures: &[Figure], data_dir: Option<&str>) -> Vec<Sample> {
        let booted_s = single(figures, &["node_boot_time_seconds", "node_boot_time"]);
        if booted_s != self.booted_s {
            // Counters of another boot are no continuation, however high they are.
            *self = Self { booted_s, ..Self::default() };
        }
        let (busy, all) =
            cpu(figures).map_or((None, None), |(busy, all)| (self.busy.next(at_ns, busy), self.all.next(at_ns, all)));
        let memory = single(figures, &["node_memory_MemTotal_bytes", "node_memory_MemTotal"])
            .zip(single(figures, &["node_memory_MemAvailable_bytes", "node_memory_MemAvailable"]));
        let net = |names: &[&str]| sum(figures, names, |figure| !is(figure, VIRTUAL_INTERFACES));
        let disk = |names: &[&str]| sum(figures, names, |figure| !is(figure, VIRTUAL_DISKS));
        let rate = |rate: &mut Rate, counter: Option<f64>| counter.and_then(|counter| rate.next(at_ns, counter));
        let values = [
            ("host_cpu_share", busy.zip(all).filter(|(_, all)| *all > 0.0).map(|(busy, all)| (busy / all).min(1.0))),
            ("host_memory_bytes", memory.map(|(total, available)| (total - available).max(0.0))),
            (
                "host_net_in_bytes_per_s",
                rate(&mut self.net_in, net(&["node_network_receive_bytes_total", "node_network_receive_bytes"])),
            ),
            (
                "host_net_out_bytes_per_s",
                rate(&mut self.net_out, net(&["node_network_transmit_bytes_total", "node_network_transmit_bytes"])),
            ),
            (
                "host_disk_read_bytes_per_s",
                rate(&mut self.disk_read, disk(&["node_disk_read_bytes_total", "node_disk_bytes_read"])),
            ),
            (
                "host_disk_write_bytes_per_s",
                rate(&mut self.disk_write, disk(&["node_disk_written_bytes_total", "node_disk_bytes_written"])),
            ),
            ("host_disk_free_bytes", disk_free(figures, data_dir)),
        ];
        values.into_iter().filter_map(|(name, value)| Some(sample(at_ns, node, name, value?))).collect()
    }
}

/// All figures of the first of these names that is there: versions differ in names.
fn named<'f>(figures: &'f [Figure], names: &[&str]) -> Vec<&'f Figure> {
    let of = |name: &&str| figures.iter().filter(|figure| figure.name == **name).collect::<Vec<_>>();
    names.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

fn single(figures: &[Figure], names: &[&str]) -> Option<f64> {
    named(figures, names).first().map(|figure| figure.value)
}

fn sum(figures: &[Figure], names: &[&str], wanted: impl Fn(&Figure) -> bool) -> Option<f64> {
    named(figures, names).into_iter().filter(|figure| wanted(figure)).map(|figure| figure.value).reduce(|a, b| a + b)
}

/// Whether a figure's device is one of these kinds; a VLAN is counted by its card as well.
fn is(figure: &Figure, kinds: &[&str]) -> bool {
    let device = figure.label("device").unwrap_or_default();
    device.contains('.') || kinds.iter().any(|kind| device.starts_with(kind))
}

/// Seconds of all cores that were busy, and all of them. Time that the hypervisor took away is not the host's.
fn cpu(figures: &[Figure]) -> Option<(f64, f64)> {
    let modes = ["node_cpu_seconds_total", "node_cpu"];
    // Until 0.15 guest time stands here too, and is part of user and nice already.
    let all = sum(figures, &modes, |figure| !matches!(figure.label("mode"), Some("guest" | "guest_nice")))?;
    let idle = sum(figures, &modes, |figure| matches!(figure.label("mode"), Some("idle" | "iowait" | "steal")))?;
    Some((all - idle, all))
}

/// Free space of the file system that holds `data_dir`; where that is not known, of the one with the least, since it ends
/// the run first. Boot partitions are always nearly full and never written.
fn disk_free(figures: &[Figure], data_dir: Option<&str>) -> Option<f64> {
    let names = ["node_filesystem_avail_bytes", "node_filesystem_avail"];
    let systems = named(figures, &names);
    let point = |figure: &Figure| figure.label("mountpoint").unwrap_or_default().to_owned();
    if let Some(folder) = data_dir {
        let holds = |point: &str| {
            let inside = folder.strip_prefix(point.trim_end_matches('/'));
            inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let holding = systems.iter().filter(|figure| holds(&point(figure)));
        if let Some(found) = holding.max_by_key(|figure| point(figure).len()) {
            return Some(found.value);
        }
    }
    let data = systems.iter().filter(|figure| {
        !NO_DATA.contains(&figure.label("fstype").unwrap_or_default()) && !point(figure).starts_with("/boot")
    });
    data.map(|figure| figure.value).reduce(f64::min)
}

fn facts(figures: &[Figure]) -> HostFacts {
    let label = |name: &str, label: &str| {
        let figure = figures.iter().find(|figure| figure.name == name)?;
        figure.label(label).map(str::to_owned).filter(|text| !text.is_empty())
    };
    let mut cores: BTreeSet<&str> = BTreeSet::new();
    for figure in named(figures, &["node_cpu_seconds_total", "node_cpu"]) {
        cores.extend(figure.label("cpu"));
    }
    let cards = named(figures, &["node_network_speed_bytes"]);
    let fastest = cards.into_iter().filter(|figure| figure.value > 0.0).map(|figure| figure.value).reduce(f64::max);
    HostFacts {
        name: label("node_uname_info", "nodename"),
        cpu: label("node_cpu_info", "model_name"),
        cores: u32::try_from(cores.len()).ok().filter(|cores| *cores > 0),
        memory_bytes: single(figures, &["node_memory_MemTotal_bytes", "node_memory_MemTotal"]).and_then(whole),
        os: label("node_os_info", "pretty_name").or_else(|| label("node_uname_info", "sysname")),
        kernel: label("node_uname_info", "release"),
        network_mbit_per_s: fastest.and_then(|bytes_per_s| whole(bytes_per_s * 8.0 / 1e6)),
        java: None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
fn whole(value: f64) -> Option<u64> {
    (0.0..9e15).contains(&value).then(|| value.round() as u64)
}

#[cfg(test)]
#[path = "node_exporter_tests.rs"]
mod tests;
