//! A process and an interface of this machine, by sysinfo. Reading is blocking work and runs on a blocking thread.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use listeners::{Protocol, SocketState};
use sysinfo::{CpuRefreshKind, Networks, Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::{Rate, sample};
use crate::model::{Clock, Sample};

/// Reads the processor, memory and disk use of one process.
#[derive(Debug)]
pub struct Process {
    clock: Clock,
    /// The node that samples are stored under.
    node: String,
    pid: Pid,
    /// Since when the process runs: with the pid, its identity.
    started_s: Option<u64>,
    /// Where it listens: whoever listens there when it is gone is its successor.
    address: Option<SocketAddr>,
    /// Kept between readings: sysinfo keeps open what it reads. Behind a lock only to travel to blocking threads.
    system: Arc<Mutex<System>>,
    cores: f64,
    cpu_ms: Rate,
    disk_read: Rate,
    disk_write: Rate,
}

/// What sysinfo says of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) at_ns: i64,
    pub(super) cpu_ms: f64,
    pub(super) memory_bytes: f64,
    pub(super) read_bytes: f64,
    pub(super) written_bytes: f64,
}

impl Process {
    /// The process `pid` as `node`; `None` where sysinfo does not know this system.
    #[must_use]
    pub fn new(clock: Clock, node: &str, pid: u32) -> Option<Self> {
        let mut system = System::new().ok()?;
        system.refresh_cpu_list(CpuRefreshKind::nothing());
        let cores = system.cpus().len().max(1) as f64;
        Some(Self {
            clock,
            node: node.to_owned(),
            pid: Pid::from_u32(pid),
            started_s: None,
            address: None,
            system: Arc::new(Mutex::new(system)),
            cores,
            cpu_ms: Rate::default(),
            disk_read: Rate::default(),
            disk_write: Rate::default(),
        })
    }

    /// Follows a server that is started again: when the process is gone, the Java that listens on the address is read.
    #[must_use]
    pub fn listening_on(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// `process_cpu_share` (of all cores), `memory_bytes`, `disk_read_bytes_per_s`, `disk_write_bytes_per_s`; rates from
    /// the second reading on, nothing when the process is gone.
    pub async fn read(&mut self) -> Vec<Sample> {
        let Some(figures) = self.figures().await else {
            self.follow().await;
            return Vec::new();
        };
        let at_ns = figures.at_ns;
        let mut samples = vec![sample(at_ns, &self.node, "memory_bytes", figures.memory_bytes)];
        let disk_read = self.disk_read.next(at_ns, figures.read_bytes);
        let disk_write = self.disk_write.next(at_ns, figures.written_bytes);
        let rates = [
            ("process_cpu_share", self.cpu_share(figures)),
            ("disk_read_bytes_per_s", disk_read),
            ("disk_write_bytes_per_s", disk_write),
        ];
        samples.extend(rates.into_iter().filter_map(|(name, rate)| Some(sample(at_ns, &self.node, name, rate?))));
        samples
    }

    /// Looks for the successor of a process that is gone. Counters begin anew with it.
    async fn follow(&mut self) {
        [&mut self.cpu_ms, &mut self.disk_read, &mut self.disk_write].into_iter().for_each(Rate::reset);
        let Some(address) = self.address else { return };
        let found = tokio::task::spawn_blocking(move || listener(address)).await.ok().flatten();
        if let Some((pid, name)) = found
            && name.contains("java")
        {
            self.pid = Pid::from_u32(pid);
            self.started_s = None;
        }
    }

    /// The share of all cores since the last reading (0..1).
    pub(super) fn cpu_share(&mut self, figures: Figures) -> Option<f64> {
        Some(self.cpu_ms.next(figures.at_ns, figures.cpu_ms)? / 1_000.0 / self.cores)
    }

    /// `None` when the process is gone, also when another one has its pid now.
    pub(super) async fn figures(&mut self) -> Option<Figures> {
        let (system, pid, clock) = (Arc::clone(&self.system), self.pid, self.clock);
        let read = tokio::task::spawn_blocking(move || {
            let mut system = system.lock().ok()?;
            let kind = ProcessRefreshKind::nothing().with_cpu().with_memory().with_disk_usage().without_tasks();
            system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
            let process = system.process(pid)?;
            let disk = process.disk_usage();
            let figures = Figures {
                at_ns: clock.now_ns(),
                cpu_ms: process.accumulated_cpu_time() as f64,
                memory_bytes: process.memory() as f64,
                read_bytes: disk.total_read_bytes as f64,
                written_bytes: disk.total_written_bytes as f64,
            };
            // What has ended but was not waited for yet uses nothing, which is not what the server uses.
            let ended = matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead);
            (!ended).then(|| (figures, process.start_time()))
        });
        let (figures, started_s) = read.await.ok().flatten()?;
        (*self.started_s.get_or_insert(started_s) == started_s).then_some(figures)
    }
}

/// Reads the traffic of the interface that has an address: all of it, whoever sends and receives.
#[derive(Debug)]
pub struct Interface {
    clock: Clock,
    node: String,
    address: IpAddr,
    received: Rate,
    sent: Rate,
}

impl Interface {
    /// The interface of a server's address, as `node`.
    #[must_use]
    pub fn new(clock: Clock, node: &str, address: IpAddr) -> Self {
        Self { clock, node: node.to_owned(), address, received: Rate::default(), sent: Rate::default() }
    }

    /// `net_in_bytes_per_s` and `net_out_bytes_per_s`, from the second reading on.
    pub async fn read(&mut self) -> Vec<Sample> {
        let (address, clock) = (self.address, self.clock);
        let read = tokio::task::spawn_blocking(move || {
            let networks = Networks::new_with_refreshed_list().ok()?;
            // Loopback is one /8: 127.0.0.3 stands on no list, yet lies on it.
            let has = |of: &IpAddr| *of == address || (address.is_loopback() && of.is_loopback());
            let (_, network) = networks.iter().find(|(_, data)| data.ip_networks().iter().any(|ip| has(&ip.addr)))?;
            Some((clock.now_ns(), network.total_received() as f64, network.total_transmitted() as f64))
        });
        let Some((at_ns, received, sent)) = read.await.ok().flatten() else { return Vec::new() };
        let rates = [
            ("net_in_bytes_per_s", self.received.next(at_ns, received)),
            ("net_out_bytes_per_s", self.sent.next(at_ns, sent)),
        ];
        rates.into_iter().filter_map(|(name, rate)| Some(sample(at_ns, &self.node, name, rate?))).collect()
    }
}

/// Pid and name of the process of this machine that listens on a TCP address, itself or by listening on all addresses;
/// `None` when none can be seen. Blocking.
#[must_use]
pub fn listener(address: SocketAddr) -> Option<(u32, String)> {
    let fits = |socket: SocketAddr| {
        // Java listens on IPv6 sockets for IPv4 addresses too.
        let ip = socket.ip().to_canonical();
        socket.port() == address.port() && (ip == address.ip().to_canonical() || ip.is_unspecified())
    };
    let all = listeners::get_all().ok()?.into_iter();
    let mut listening = all.filter(|each| each.protocol == Protocol::TCP && each.state == SocketState::Listen);
    let process = listening.find(|each| fits(each.socket))?.process;
    Some((process.pid, process.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_process_with_the_same_pid_is_another_process() {
        let mut process = Process::new(Clock::start(), "a", std::process::id()).unwrap();
        assert!(!process.read().await.is_empty());
        process.started_s = Some(1);
        assert_eq!(process.read().await, []);
        let mut nobody = Process::new(Clock::start(), "a", u32::MAX / 2).unwrap();
        assert_eq!(nobody.read().await, []);
    }
}
