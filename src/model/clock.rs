//! One clock a process: absolute nanoseconds that never step, measured from one anchor.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Absolute time that advances with the monotonic clock, so that durations are right even when the wall clock is set.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    anchor_ns: i64,
}

impl Clock {
    /// Anchors the monotonic clock to the wall clock, now.
    #[must_use]
    pub fn start() -> Self {
        Self { anchor: Instant::now(), anchor_ns: wall_ns() }
    }

    /// Nanoseconds since the Unix epoch, by the monotonic clock.
    #[must_use]
    pub fn now_ns(&self) -> i64 {
        self.anchor_ns.saturating_add(nanos(self.anchor.elapsed()))
    }

    /// The instant that an absolute time stands for; the anchor itself for times before it.
    #[must_use]
    pub fn instant(&self, at_ns: i64) -> Instant {
        let since = at_ns.saturating_sub(self.anchor_ns);
        u64::try_from(since).map_or(self.anchor, |ns| self.anchor + Duration::from_nanos(ns))
    }

    /// How far the wall clock has moved against the monotonic one since the anchor, in nanoseconds: a clock that was set.
    #[must_use]
    pub fn wall_offset_ns(&self) -> i64 {
        wall_ns().saturating_sub(self.now_ns())
    }
}

/// A duration in whole nanoseconds, at most `i64::MAX` (292 years).
#[must_use]
pub fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Seconds as nanoseconds; negative and absurd values are cut to what an `i64` holds.
#[must_use]
pub fn seconds_ns(seconds: f64) -> i64 {
    Duration::try_from_secs_f64(seconds.max(0.0)).map_or(i64::MAX, nanos)
}

fn wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos)
}
