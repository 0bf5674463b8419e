//! What a domain consists of: every znode and every watch by number, so that nothing has to be remembered.

mod names;
mod watches;
mod znodes;

pub(super) use names::{config_key, job_path};

/// Sessions of a domain that watch as a console does.
pub(super) const CONSOLES: u32 = 2;
/// Keys of a registration whose executor never came back: all of a server's keys but its ephemeral status.
const DEAD_KEYS: u32 = 5;
/// The size of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub executors: u32,
    pub jobs: u32,
    pub shards: u32,
    pub config_keys: u32,
    pub server_keys: u32,
}

/// The session that creates a znode or holds a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Executor(u32),
    Console(u32),
}

/// One znode of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Znode {
    pub owner: Owner,
    pub ephemeral: bool,
    pub data_bytes: u64,
}

/// Which table of the server a watch stands in, and by which read it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchKind {
    /// `getData` on a znode that is there.
    Data,
    /// `exists` on a znode that is not there yet.
    Exist,
    /// `getChildren`.
    Child,
}

/// Dead registrations of the domains `0..domains` when each has `mean` of them in the mean.
#[must_use]
pub(super) fn dead_up_to(mean: f64, domains: u64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "mean is 0 to 1,000 and domains at most 100,000"
    )]
    let total = (mean * domains as f64).floor() as u64;
    total
}

/// Dead registrations of one domain.
#[must_use]
pub(super) fn dead_of(mean: f64, domain: u64) -> u32 {
    u32::try_from(dead_up_to(mean, domain + 1) - dead_up_to(mean, domain)).unwrap_or(u32::MAX)
}

impl Shape {
    /// Executors, consoles that watch, and one console that rests.
    #[must_use]
    pub const fn sessions(&self) -> u32 {
        self.executors + CONSOLES + 1
    }

    /// Znodes of a domain at rest: 2,196 with the defaults.
    #[must_use]
    pub fn znodes(&self) -> u64 {
        u64::from(self.head_znodes()) + u64::from(self.jobs) * u64::from(self.job_znodes())
    }

    /// Ephemeral znodes of a domain at rest: 144 with the defaults.
    #[must_use]
    pub fn ephemerals(&self) -> u64 {
        u64::from(self.executors) + 1 + u64::from(self.jobs) * u64::from(1 + self.executors)
    }

    /// Watches of a domain: 5,736 with the defaults.
    #[must_use]
    pub fn watches(&self) -> u64 {
        u64::from(self.executors) * self.executor_watches() + u64::from(CONSOLES) * self.console_watches(0)
    }

    /// Watches of one executor: 702 with the defaults.
    #[must_use]
    pub fn executor_watches(&self) -> u64 {
        2 + u64::from(self.jobs) * (11 + 3 * u64::from(self.shards))
    }

    /// Watches of one console, with `dead` registrations to look at: 1,815 without any and the defaults.
    #[must_use]
    pub fn console_watches(&self, dead: u32) -> u64 {
        let (jobs, executors, dead) = (u64::from(self.jobs), u64::from(self.executors), u64::from(dead));
        let servers = executors * (2 + u64::from(self.server_keys)) + dead * u64::from(2 + DEAD_KEYS);
        jobs * (5 + u64::from(self.config_keys) + servers) + 12 + 6 * executors + 5 * dead
    }

    /// Znodes of one dead registration: 214 with the defaults.
    #[must_use]
    pub fn dead_znodes(&self) -> u64 {
        u64::from(self.jobs) * u64::from(1 + DEAD_KEYS) + 4
    }

    /// Watches on one dead registration, by all consoles: 500 with the defaults.
    #[must_use]
    pub fn dead_watches(&self) -> u64 {
        u64::from(CONSOLES) * (u64::from(self.jobs) * u64::from(2 + DEAD_KEYS) + 5)
    }

    /// Znodes of a domain with dead registrations, by number.
    #[must_use]
    pub fn znodes_with(&self, dead: u32) -> u64 {
        self.znodes() + u64::from(dead) * self.dead_znodes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    const DEFAULT: Shape = Shape { executors: 3, jobs: 35, shards: 3, config_keys: 22, server_keys: 6 };

    #[test]
    fn a_default_domain_has_the_counts_of_the_source_report() {
        assert_eq!(
            (DEFAULT.znodes(), DEFAULT.ephemerals(), DEFAULT.watches(), DEFAULT.sessions()),
            (2_196, 144, 5_736, 6)
        );
        assert_eq!((DEFAULT.executor_watches(), DEFAULT.console_watches(0)), (702, 1_815));
        assert_eq!((DEFAULT.dead_znodes(), DEFAULT.dead_watches()), (214, 500));
    }

    /// Lists a domain and holds it against the formulas.
    fn check(shape: Shape, dead: u32) {
        let mut path = String::new();
        let mut znodes = HashMap::new();
        let mut ephemerals = 0;
        for index in 0..shape.znodes_with(dead) {
            let znode = shape.znode(index, &mut path);
            if index > 0 {
                let parent = &path[..path.rfind('/').unwrap()];
                assert!(parent.is_empty() || znodes.contains_key(parent), "{path} comes before its parent");
                let above = znodes.get(parent).map(|z: &Znode| z.owner);
                assert!(
                    above.is_none() || above == Some(Owner::Console(0)) || above == Some(znode.owner),
                    "{path} would have to wait for another executor"
                );
            }
            ephemerals += u64::from(znode.ephemeral);
            assert!(znodes.insert(path.clone(), znode).is_none(), "{path} twice");
        }
        assert_eq!(ephemerals, shape.ephemerals());
        assert_eq!(znodes.len() as u64, shape.znodes() + u64::from(dead) * shape.dead_znodes());
        let mut watches = 0;
        let owners = (0..shape.executors).map(Owner::Executor).chain((0..CONSOLES).map(Owner::Console));
        for owner in owners {
            let mut seen = HashSet::new();
            for index in 0..shape.watches_of(owner, dead) {
                let kind = shape.watch(owner, dead, index, &mut path);
                assert_eq!(znodes.contains_key(&path), kind != WatchKind::Exist, "{kind:?} {path}");
                assert!(seen.insert((kind == WatchKind::Child, path.clone())), "{kind:?} {path} twice by {owner:?}");
            }
            watches += seen.len() as u64;
        }
        assert_eq!(watches, shape.watches() + u64::from(dead) * shape.dead_watches());
    }

    #[test]
    fn a_default_domain_lists_what_the_formulas_count() {
        check(DEFAULT, 0);
        check(DEFAULT, 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_domain_lists_what_the_formulas_count(
            executors in 1_u32..6, jobs in 1_u32..9, shards in 1_u32..7, config_keys in 2_u32..30, server_keys in 6_u32..9, dead in 0_u32..3
        ) {
            check(Shape { executors, jobs, shards, config_keys, server_keys }, dead);
        }
    }

    #[test]
    fn dead_registrations_are_spread_without_losing_one() {
        let total: u64 = (0..700).map(|domain| u64::from(dead_of(10.17, domain))).sum();
        assert_eq!(total, dead_up_to(10.17, 700));
    }
}
