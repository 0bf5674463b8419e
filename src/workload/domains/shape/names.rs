//! Names of znodes, as the source has them.

use std::fmt::Write as _;

/// Znodes of an executor's entry besides itself: lastBeginTime, version, clean, ip.
pub(super) const EXECUTOR_KEYS: [&str; 4] = ["lastBeginTime", "version", "clean", "ip"];
/// Keys of a server entry; more than these are numbered. `status` is ephemeral.
pub(super) const SERVER_KEYS: [&str; 6] =
    ["status", "ip", "version", "processSuccessCount", "processFailureCount", "sharding"];
/// Keys of a job's configuration that are always set; more than these are numbered.
pub(super) const CONFIG_KEYS: [&str; 22] = [
    "cron",
    "enabled",
    "jobType",
    "jobMode",
    "shardingItemParameters",
    "failover",
    "monitorExecution",
    "timeout4AlarmSeconds",
    "timeoutSeconds",
    "timeZone",
    "processCountIntervalSeconds",
    "shardingTotalCount",
    "showNormalLog",
    "loadLevel",
    "jobDegree",
    "enabledReport",
    "useDispreferList",
    "localMode",
    "useSerial",
    "dependencies",
    "groups",
    "jobClass",
];

pub(super) fn put<T>(path: &mut String, tail: &str, value: T) -> T {
    path.push_str(tail);
    value
}

/// `/$Jobs/job-007`, below the domain.
pub(in crate::workload::domains) fn job_path(path: &mut String, job: u32) {
    let _ = write!(path, "/$Jobs/job-{job:03}");
}

pub(super) fn executor_path(path: &mut String, executor: u32) {
    let _ = write!(path, "/$SaturnExecutors/executors/exec-{executor}");
}

/// `/config/cron`, below the job.
pub(in crate::workload::domains) fn config_key(path: &mut String, key: u32) {
    match CONFIG_KEYS.get(key as usize) {
        Some(name) => {
            let _ = write!(path, "/config/{name}");
        }
        None => {
            let _ = write!(path, "/config/key-{key}");
        }
    }
}

pub(super) fn server_key(path: &mut String, key: u32) {
    match SERVER_KEYS.get(key as usize) {
        Some(name) => {
            let _ = write!(path, "/{name}");
        }
        None => {
            let _ = write!(path, "/key-{key}");
        }
    }
}
