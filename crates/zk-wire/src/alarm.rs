//! Ends a wait to the microsecond. epoll counts in milliseconds and rounds up, which would make every operation of an
//! open schedule up to a millisecond late; a timerfd among its sources does not.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
    time::Duration,
};

use mio::{Interest, Registry, Token, unix::SourceFd};
use nix::sys::{
    time::{TimeSpec, TimeValLike as _},
    timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};

/// Longer waits are left to epoll: there a millisecond does not matter, and a call to the system is saved.
const FINE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Alarm(TimerFd);

impl Alarm {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // mio registers edge-triggered, so that nobody has to read the timer: each time it goes off is an edge.
        registry.register(&mut SourceFd(&timer.as_fd().as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self(timer))
    }

    /// Arms for a short wait. What is left armed from an earlier one only makes a later wait end early.
    pub(crate) fn arm(&self, wait: Duration) -> io::Result<()> {
        if wait.is_zero() || wait >= FINE {
            return Ok(());
        }
        let nanos = i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        self.0.set(Expiration::OneShot(TimeSpec::nanoseconds(nanos)), TimerSetTimeFlags::empty())?;
        Ok(())
    }
}
