//! Every watch of a domain by its holder and number.

use std::fmt::Write as _;

use super::{
    CONSOLES, DEAD_KEYS, Owner, Shape, WatchKind,
    names::{EXECUTOR_KEYS, config_key, job_path, put, server_key},
};

impl Shape {
    /// How many watches a session holds.
    #[must_use]
    pub fn watches_of(&self, owner: Owner, dead: u32) -> u64 {
        match owner {
            Owner::Executor(_) => self.executor_watches(),
            Owner::Console(console) if console < CONSOLES => self.console_watches(dead),
            Owner::Console(_) => 0,
        }
    }

    /// Watch number `index` of a session: writes the path below the domain to `path`.
    pub fn watch(&self, owner: Owner, dead: u32, index: u64, path: &mut String) -> WatchKind {
        path.clear();
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        match owner {
            Owner::Executor(executor) => self.executor_watch(executor, index, path),
            Owner::Console(_) => self.console_watch(dead, index, path),
        }
    }

    fn executor_watch(&self, me: u32, index: u32, path: &mut String) -> WatchKind {
        if let Some(kind) = self.jobs_watch(index, path) {
            return kind;
        }
        let per_job = 10 + 3 * self.shards;
        let index = index - 2 - self.jobs;
        let shards = self.shards;
        job_path(path, index / per_job);
        let part = index % per_job;
        let mut item = |from: u32, suffix: &str| {
            let _ = write!(path, "/execution/{}{suffix}", part - from);
        };
        if part >= 3 && part < 3 + shards {
            item(3, "");
            return WatchKind::Data;
        }
        if part >= 3 + shards && part < 3 + 2 * shards {
            item(3 + shards, "/running");
            return WatchKind::Exist;
        }
        if part >= 3 + 2 * shards && part < 3 + 3 * shards {
            item(3 + 2 * shards, "/failover");
            return WatchKind::Exist;
        }
        let rest = if part < 3 { part } else { part - 3 * shards };
        match rest {
            0 => put(path, "/leader/election/host", WatchKind::Data),
            1 => put(path, "/execution", WatchKind::Data),
            2 => put(path, "/execution", WatchKind::Child),
            3 => put(path, "/config/cron", WatchKind::Data),
            4 => put(path, "/config/enabled", WatchKind::Data),
            5 => put(path, "/config/toDelete", WatchKind::Exist),
            6 | 7 => {
                let name = if rest == 6 { "runOneTime" } else { "stopOneTime" };
                let _ = write!(path, "/servers/exec-{me}/{name}");
                WatchKind::Exist
            }
            8 => put(path, "/analyse/reset", WatchKind::Exist),
            _ => put(path, "/control/report", WatchKind::Exist),
        }
    }

    /// The watches on `$Jobs` and its children, which every watching session has first.
    fn jobs_watch(&self, index: u32, path: &mut String) -> Option<WatchKind> {
        match index {
            0 => Some(put(path, "/$Jobs", WatchKind::Data)),
            1 => Some(put(path, "/$Jobs", WatchKind::Child)),
            _ if index < 2 + self.jobs => {
                job_path(path, index - 2);
                Some(WatchKind::Data)
            }
            _ => None,
        }
    }

    fn console_watch(&self, dead: u32, index: u32, path: &mut String) -> WatchKind {
        if let Some(kind) = self.jobs_watch(index, path) {
            return kind;
        }
        let servers = self.executors * (2 + self.server_keys) + dead * (2 + DEAD_KEYS);
        let per_job = 4 + self.config_keys + servers;
        let index = index - 2 - self.jobs;
        if index < self.jobs * per_job {
            job_path(path, index / per_job);
            return self.console_job_watch(index % per_job, path);
        }
        let index = index - self.jobs * per_job;
        path.push_str("/$SaturnExecutors");
        let executors_end = 2 + 6 * self.executors;
        let dead_end = executors_end + 5 * dead;
        match index {
            0 => put(path, "/executors", WatchKind::Data),
            1 => put(path, "/executors", WatchKind::Child),
            _ if index < dead_end => {
                let (name, number, part) = if index < executors_end {
                    ("exec", (index - 2) / 6, (index - 2) % 6)
                } else {
                    ("dead", (index - executors_end) / 5, (index - executors_end) % 5)
                };
                let _ = write!(path, "/executors/{name}-{number}");
                match part {
                    0 => WatchKind::Data,
                    1 => WatchKind::Child,
                    _ => {
                        let _ = write!(path, "/{}", EXECUTOR_KEYS[part as usize - 2]);
                        WatchKind::Data
                    }
                }
            }
            _ => match index - dead_end {
                0 => put(path, "/sharding", WatchKind::Data),
                1 => put(path, "/sharding", WatchKind::Child),
                2 => put(path, "/sharding/count", WatchKind::Data),
                3 => put(path, "/sharding/content", WatchKind::Data),
                4 => put(path, "/leader", WatchKind::Data),
                5 => put(path, "/leader", WatchKind::Child),
                6 => put(path, "/leader/latch", WatchKind::Data),
                _ => put(path, "/leader/host", WatchKind::Data),
            },
        }
    }

    fn console_job_watch(&self, part: u32, path: &mut String) -> WatchKind {
        let config_end = 2 + self.config_keys;
        let live = self.executors * (2 + self.server_keys);
        match part {
            0 => put(path, "/config", WatchKind::Data),
            1 => put(path, "/config", WatchKind::Child),
            _ if part < config_end => {
                config_key(path, part - 2);
                WatchKind::Data
            }
            _ if part == config_end => put(path, "/servers", WatchKind::Data),
            _ if part == config_end + 1 => put(path, "/servers", WatchKind::Child),
            _ => {
                let part = part - config_end - 2;
                let (name, number, part, first_key) = if part < live {
                    ("exec", part / (2 + self.server_keys), part % (2 + self.server_keys), 0)
                } else {
                    let part = part - live;
                    ("dead", part / (2 + DEAD_KEYS), part % (2 + DEAD_KEYS), 1)
                };
                let _ = write!(path, "/servers/{name}-{number}");
                match part {
                    0 => WatchKind::Data,
                    1 => WatchKind::Child,
                    _ => {
                        server_key(path, part - 2 + first_key);
                        WatchKind::Data
                    }
                }
            }
        }
    }
}
