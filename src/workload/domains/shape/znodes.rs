//! Every znode of a domain by its number.

use std::fmt::Write as _;

use super::{
    DEAD_KEYS, Owner, Shape, Znode,
    names::{EXECUTOR_KEYS, config_key, executor_path, job_path, put, server_key},
};

/// The longest data of one znode that is made (below the default jute.maxbuffer).
const CONTENT_MAX: u64 = 1_000_000;

impl Shape {
    pub(super) const fn head_znodes(&self) -> u32 {
        11 + 5 * self.executors
    }

    pub(super) const fn job_znodes(&self) -> u32 {
        2 + self.config_keys + 1 + self.executors * (1 + self.server_keys) + 6 + 1 + 2 * self.shards + 3
    }

    /// Znode number `index` of a domain: writes its path below the domain to `path`. Parents have lower numbers than
    /// their children.
    pub fn znode(&self, index: u64, path: &mut String) -> Znode {
        path.clear();
        let live = self.znodes();
        if index >= live {
            return self.dead_znode(index - live, path);
        }
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if index < self.head_znodes() {
            return self.head_znode(index, path);
        }
        let index = index - self.head_znodes();
        self.job_znode(index / self.job_znodes(), index % self.job_znodes(), path)
    }

    fn head_znode(&self, index: u32, path: &mut String) -> Znode {
        let console = |data_bytes| Znode { owner: Owner::Console(0), ephemeral: false, data_bytes };
        let executors_end = 4 + 5 * self.executors;
        match index {
            0 => console(12),
            1 => put(path, "/$Jobs", console(0)),
            2 => put(path, "/$SaturnExecutors", console(0)),
            3 => put(path, "/$SaturnExecutors/executors", console(0)),
            _ if index < executors_end => {
                let (executor, part) = ((index - 4) / 5, (index - 4) % 5);
                executor_path(path, executor);
                let owner = Owner::Executor(executor);
                match part {
                    0 => Znode { owner, ephemeral: false, data_bytes: 0 },
                    _ => {
                        let key = EXECUTOR_KEYS[part as usize - 1];
                        let _ = write!(path, "/{key}");
                        Znode { owner, ephemeral: key == "ip", data_bytes: 10 }
                    }
                }
            }
            _ => {
                let content = 55 * u64::from(self.jobs) * u64::from(self.shards)
                    + 15 * u64::from(self.executors) * u64::from(self.jobs);
                let (name, ephemeral, data_bytes) = match index - executors_end {
                    0 => ("leader", false, 0),
                    1 => ("leader/latch", false, 0),
                    2 => ("leader/host", true, 50),
                    3 => ("sharding", false, 0),
                    4 => ("sharding/count", false, 2),
                    5 => ("sharding/content", false, 0),
                    _ => ("sharding/content/0", false, content.min(CONTENT_MAX)),
                };
                let _ = write!(path, "/$SaturnExecutors/{name}");
                Znode { owner: Owner::Console(0), ephemeral, data_bytes }
            }
        }
    }

    fn job_znode(&self, job: u32, index: u32, path: &mut String) -> Znode {
        let leader = Owner::Executor(job % self.executors);
        let console = Owner::Console(0);
        let plain = |owner, data_bytes| Znode { owner, ephemeral: false, data_bytes };
        job_path(path, job);
        let config_end = 2 + self.config_keys;
        let server_znodes = 1 + self.server_keys;
        let servers_end = config_end + 1 + self.executors * server_znodes;
        let execution = servers_end + 6;
        let items_end = execution + 1 + 2 * self.shards;
        match index {
            0 => plain(console, 0),
            1 => put(path, "/config", plain(console, 0)),
            _ if index < config_end => {
                config_key(path, index - 2);
                plain(console, 6)
            }
            _ if index == config_end => put(path, "/servers", plain(console, 0)),
            _ if index < servers_end => {
                let index = index - config_end - 1;
                let (executor, part) = (index / server_znodes, index % server_znodes);
                let _ = write!(path, "/servers/exec-{executor}");
                let owner = Owner::Executor(executor);
                if part == 0 {
                    return plain(owner, 0);
                }
                server_key(path, part - 1);
                Znode { owner, ephemeral: part == 1, data_bytes: 5 }
            }
            _ if index < execution => match index - servers_end {
                0 => put(path, "/leader", plain(console, 0)),
                1 => put(path, "/leader/election", plain(console, 0)),
                2 => put(path, "/leader/election/latch", plain(console, 0)),
                3 => put(path, "/leader/election/host", Znode { owner: leader, ephemeral: true, data_bytes: 24 }),
                4 => put(path, "/leader/sharding", plain(console, 0)),
                _ => put(path, "/leader/sharding/necessary", plain(console, 80)),
            },
            _ if index == execution => put(path, "/execution", plain(console, 0)),
            _ if index < items_end => {
                let index = index - execution - 1;
                let _ = write!(path, "/execution/{}", index / 2);
                if index % 2 == 1 {
                    path.push_str("/completed");
                }
                // The executor that runs the item makes it, so that its later deletes and creates come from one session.
                plain(Owner::Executor((index / 2) % self.executors), 0)
            }
            _ => match index - items_end {
                0 => put(path, "/analyse", plain(console, 0)),
                1 => put(path, "/analyse/processCount", plain(console, 3)),
                _ => put(path, "/analyse/errorCount", plain(console, 1)),
            },
        }
    }

    fn dead_znode(&self, index: u64, path: &mut String) -> Znode {
        let one = self.dead_znodes();
        let (dead, index) = (index / one, u32::try_from(index % one).unwrap_or(u32::MAX));
        if index < 4 {
            let _ = write!(path, "/$SaturnExecutors/executors/dead-{dead}");
            if index > 0 {
                let _ = write!(path, "/{}", EXECUTOR_KEYS[index as usize - 1]);
            }
        } else {
            let (job, part) = ((index - 4) / (1 + DEAD_KEYS), (index - 4) % (1 + DEAD_KEYS));
            job_path(path, job);
            let _ = write!(path, "/servers/dead-{dead}");
            if part > 0 {
                server_key(path, part);
            }
        }
        Znode { owner: Owner::Console(0), ephemeral: false, data_bytes: 5 }
    }
}
