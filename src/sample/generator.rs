//! Readings of Rampart itself: whether the generator was fit to judge.

use std::fs;

use super::{Process, Rate, sample};
use crate::model::{Clock, Sample, metric::GENERATOR};

/// Reads this process and what the machine takes away from it.
#[derive(Debug)]
pub struct Generator {
    process: Process,
    stolen: Rate,
    all: Rate,
}

impl Generator {
    /// This process; `None` where sysinfo does not know this system.
    #[must_use]
    pub fn new(clock: Clock) -> Option<Self> {
        let process = Process::new(clock, GENERATOR, std::process::id())?;
        Some(Self { process, stolen: Rate::default(), all: Rate::default() })
    }

    /// `generator_cpu_share` (of all cores), `generator_memory_bytes`, `generator_open_files`,
    /// `generator_open_files_limit`, `generator_steal_share`; the last two where Linux tells them, shares from the
    /// second reading on.
    pub async fn read(&mut self) -> Vec<Sample> {
        let Some(figures) = self.process.figures().await else { return Vec::new() };
        let at_ns = figures.at_ns;
        let mut samples = vec![sample(at_ns, GENERATOR, "generator_memory_bytes", figures.memory_bytes)];
        let mut push = |name, value: Option<f64>| {
            samples.extend(value.map(|value| sample(at_ns, GENERATOR, name, value)));
        };
        push("generator_cpu_share", self.process.cpu_share(figures));
        let files = tokio::task::spawn_blocking(open_files).await.ok().flatten();
        push("generator_open_files", files.map(|(open, _)| open as f64));
        push("generator_open_files_limit", files.and_then(|(_, limit)| limit).map(|limit| limit as f64));
        push("generator_steal_share", self.steal_share(at_ns));
        samples
    }

    fn steal_share(&mut self, at_ns: i64) -> Option<f64> {
        let (stolen, all) = steal_of(&fs::read_to_string("/proc/stat").ok()?)?;
        let (stolen, all) = (self.stolen.next(at_ns, stolen), self.all.next(at_ns, all));
        let (stolen, all) = (stolen?, all?);
        (all > 0.0).then(|| stolen / all)
    }
}

/// Open files of this process, and how many it may have (`None`: without limit); `None` where there is no `/proc`.
#[must_use]
pub fn open_files() -> Option<(u64, Option<u64>)> {
    // One is the listing itself.
    let open = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    Some((open as u64, limit_of(&fs::read_to_string("/proc/self/limits").ok()?)?))
}

/// The soft limit of open files of a text in the form of `/proc/PID/limits`.
fn limit_of(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        soft => soft.parse().ok().map(Some),
    }
}

/// Stolen and all ticks of all cores, of a text in the form of `/proc/stat`.
fn steal_of(stat: &str) -> Option<(f64, f64)> {
    // user nice system idle iowait irq softirq steal; guest time behind them is part of user and nice already.
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_read() {
        let head = "Limit                     Soft Limit           Hard Limit           Units\n";
        let line = |soft| format!("{head}Max open files            {soft}                20000                files\n");
        assert_eq!(limit_of(&line("1024")), Some(Some(1_024)));
        assert_eq!(limit_of(&line("unlimited")), Some(None));
        assert_eq!(limit_of(head), None);
        let (open, limit) = open_files().unwrap();
        assert!(open > 0 && limit.is_none_or(|limit| limit >= open));
    }

    #[test]
    fn steal_is_a_share_of_all_ticks_without_guests() {
        let stat = "cpu  100 0 100 700 50 10 10 30 999 999\ncpu0 1 2 3\n";
        assert_eq!(steal_of(stat), Some((30.0, 1_000.0)));
        assert_eq!(steal_of("cpu  1 2 3\n"), None);
        assert_eq!(steal_of(""), None);
    }

    #[tokio::test]
    async fn this_process_has_readings() {
        let mut generator = Generator::new(Clock::start()).unwrap();
        let first = generator.read().await;
        assert!(first.iter().all(|sample| sample.metric != "generator_cpu_share"), "a rate needs two readings");
        let second = generator.read().await;
        let value = |name: &str| second.iter().find(|sample| sample.metric == name).map(|sample| sample.value);
        assert!(value("generator_memory_bytes").unwrap() > 1e6);
        assert!(value("generator_cpu_share").unwrap() >= 0.0);
        assert!(value("generator_open_files").unwrap() > 0.0);
        assert!(second.iter().all(|sample| sample.node == GENERATOR));
    }
}
