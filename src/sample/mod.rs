//! Readings of this machine (a server's process, an interface, Rampart itself) and figures that others offer over HTTP.
//! Knows the model only; which processes belong to a target, the target says.

mod disk;
pub mod exposition;
mod fetch;
mod generator;
mod host;
mod machine;
pub mod node_exporter;
mod quota;

pub use disk::Disk;
pub use fetch::{BODY_LIMIT, FetchError, Fetcher};
pub use generator::{Generator, open_files};
pub use host::{Interface, Process, listener};
pub use machine::{disk_free_bytes, this_machine};
pub use node_exporter::NodeExporter;
pub use quota::Quota;

use crate::model::Sample;

/// The difference of a counter over the time between two readings, per second. `None` for the first reading, when the
/// counter went back (it began anew) and when no time passed: a rate is never negative.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    last: Option<(i64, f64)>,
}

impl Rate {
    /// Takes a reading at a time in nanoseconds, gives the rate since the one before.
    pub fn next(&mut self, at_ns: i64, counter: f64) -> Option<f64> {
        let (then_ns, before) = self.last.replace((at_ns, counter))?;
        let seconds = at_ns.saturating_sub(then_ns) as f64 / 1e9;
        (seconds > 0.0 && counter >= before).then(|| (counter - before) / seconds)
    }

    /// Forgets the last reading: the next one begins anew.
    pub fn reset(&mut self) {
        self.last = None;
    }
}

/// A sample, for building lists of them.
pub(crate) fn sample(at_ns: i64, node: &str, metric: &str, value: f64) -> Sample {
    debug_assert!(crate::model::metric::find(metric).is_some(), "{metric} is not in METRICS");
    Sample { at_ns, node: node.to_owned(), metric: metric.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_needs_two_readings() {
        let mut rate = Rate::default();
        assert_eq!(rate.next(0, 10.0), None);
        assert_eq!(rate.next(2_000_000_000, 30.0), Some(10.0));
        assert_eq!(rate.next(2_000_000_000, 40.0), None, "no time passed");
        assert_eq!(rate.next(3_000_000_000, 5.0), None, "it began anew");
        assert_eq!(rate.next(4_000_000_000, 8.0), Some(3.0));
    }

    proptest! {
        #[test]
        fn a_rate_is_never_negative(readings in proptest::collection::vec((any::<i64>(), 0.0..1e18_f64), 0..20)) {
            let mut rate = Rate::default();
            for (at_ns, counter) in readings {
                prop_assert!(rate.next(at_ns, counter).is_none_or(|value| value >= 0.0 && value.is_finite()));
            }
        }
    }
}
