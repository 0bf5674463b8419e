//! The processor quota of a process (a container's CPU limit): how much of it was withheld. By control groups of Linux, both
//! versions.

use std::{fs, path::PathBuf};

use super::{Rate, sample};
use crate::model::{Clock, Sample};

/// Reads how often the control group of a process ran out of its quota.
#[derive(Debug)]
pub struct Quota {
    clock: Clock,
    node: String,
    pid: u32,
    periods: Rate,
    throttled: Rate,
}

impl Quota {
    #[must_use]
    pub fn new(clock: Clock, node: &str, pid: u32) -> Self {
        Self { clock, node: node.to_owned(), pid, periods: Rate::default(), throttled: Rate::default() }
    }

    /// `cpu_throttled_share`, from the second reading on; nothing for a process without a quota.
    pub async fn read(&mut self) -> Vec<Sample> {
        let pid = self.pid;
        let read = tokio::task::spawn_blocking(move || periods(pid)).await.ok().flatten();
        let Some((periods, throttled)) = read else {
            [&mut self.periods, &mut self.throttled].into_iter().for_each(Rate::reset);
            return Vec::new();
        };
        let at_ns = self.clock.now_ns();
        let rates = self.periods.next(at_ns, periods).zip(self.throttled.next(at_ns, throttled));
        let share = rates.filter(|(periods, _)| *periods > 0.0).map(|(periods, throttled)| throttled / periods);
        share.map(|share| sample(at_ns, &self.node, "cpu_throttled_share", share)).into_iter().collect()
    }
}

/// Periods of the quota, and those in which it was used up; `None` without a quota.
fn periods(pid: u32) -> Option<(f64, f64)> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let stat = folders(&groups).into_iter().find_map(|folder| fs::read_to_string(folder.join("cpu.stat")).ok())?;
    periods_of(&stat)
}

/// Where the processor account of a text in the form of `/proc/PID/cgroup` lies.
fn folders(groups: &str) -> Vec<PathBuf> {
    let root = PathBuf::from("/sys/fs/cgroup");
    let lines = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?.trim_start_matches('/')))
    });
    lines
        .filter(|(controllers, path)| {
            !path.is_empty() && (controllers.is_empty() || controllers.split(',').any(|c| c == "cpu"))
        })
        .map(|(controllers, path)| root.join(controllers).join(path))
        .collect()
}

fn periods_of(stat: &str) -> Option<(f64, f64)> {
    let value = |name: &str| -> Option<f64> {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    Some((value("nr_periods")?, value("nr_throttled")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_both_versions_is_found_and_that_of_the_root_is_left_alone() {
        let found = |text: &str| folders(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(found("3:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/\n"), ["/sys/fs/cgroup/cpu,cpuacct/a/b"]);
        assert_eq!(found("0::/system.slice/x.service\n"), ["/sys/fs/cgroup/system.slice/x.service"]);
        assert!(found("1:cpu:/\n0::/\n").is_empty());
    }

    #[test]
    fn periods_are_read_of_both_versions() {
        let first = "nr_periods 120\nnr_throttled 30\nthrottled_time 123456789\n";
        let second = "usage_usec 9\nnr_periods 120\nnr_throttled 30\nthrottled_usec 123456\n";
        assert_eq!((periods_of(first), periods_of(second)), (Some((120.0, 30.0)), Some((120.0, 30.0))));
        assert_eq!(periods_of("usage_usec 9\n"), None);
    }
}
