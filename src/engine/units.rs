//! Load units on threads of their own, and the plain messages that the coordinator exchanges with them.

use std::{sync::mpsc as inbox, thread::JoinHandle, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::{
    model::{Clock, Load},
    workload::{LoadUnit, Progress, Site, UnitReport, Workload},
};

/// What the coordinator tells a unit. Times are absolute nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToUnit {
    /// Move to this share of the load. The number counts up: reports say which was the last that they know of.
    Prepare { number: u64, load: Load },
    /// The load is held for a trial: reports are cut at whole seconds, so that they lie inside or outside of it.
    Hold { step: u32, trial: u32, start_ns: i64, measure_from_ns: i64, end_ns: i64 },
    /// End all traffic at once.
    Stop,
}

/// What a unit tells the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromUnit {
    /// About once a second. What it says of the progress is of the load of that number.
    Report { unit: u32, prepared: u64, report: Box<UnitReport> },
    /// No traffic comes from the unit any more.
    Stopped { unit: u32 },
}

/// The units of one arm.
#[derive(Debug)]
pub(super) struct Units {
    handles: Vec<Handle>,
    reports: mpsc::Receiver<FromUnit>,
    /// The last word of each unit on how far it is.
    progress: Vec<Option<Progress>>,
    /// How many loads were asked so far.
    prepared: u64,
}

#[derive(Debug)]
struct Handle {
    inbox: inbox::Sender<ToUnit>,
    thread: Option<JoinHandle<()>>,
}

/// Reports that may wait for the coordinator; beyond, a unit cuts later and loses nothing.
const REPORTS: usize = 64;
/// The longest that a unit works before it looks into its inbox.
const TURN_NS: i64 = 20_000_000;
const SECOND_NS: i64 = 1_000_000_000;

impl Units {
    /// Starts one unit a site.
    pub(super) fn start(workload: &dyn Workload, sites: Vec<Site>) -> std::io::Result<Self> {
        let (outbox, reports) = mpsc::channel(REPORTS);
        let mut handles = Vec::new();
        for site in sites {
            let (clock, number) = (site.clock, site.unit);
            let unit = workload.unit(site)?;
            let (sender, inbox) = inbox::channel();
            let outbox = outbox.clone();
            let thread = std::thread::Builder::new()
                .name(format!("load-unit-{number}"))
                .spawn(move || work(unit, number, clock, &inbox, &outbox))?;
            handles.push(Handle { inbox: sender, thread: Some(thread) });
        }
        let progress = vec![None; handles.len()];
        Ok(Self { handles, reports, progress, prepared: 0 })
    }

    /// Divides a load between the units and tells them.
    pub(super) fn prepare(&mut self, load: &Load) {
        // One unit for now: it gets the whole range of ids.
        self.progress.fill(None);
        self.prepared += 1;
        self.tell(&ToUnit::Prepare { number: self.prepared, load: load.clone() });
    }

    pub(super) fn tell(&self, message: &ToUnit) {
        for handle in &self.handles {
            // A unit whose thread is gone says so by its silence: the fill runs into its time limit.
            let _ = handle.inbox.send(message.clone());
        }
    }

    /// The next report. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<FromUnit> {
        let message = self.reports.recv().await;
        // One that was on its way when a new load was asked tells of the old one, which may be as large.
        if let Some(FromUnit::Report { unit, prepared, report }) = &message
            && *prepared == self.prepared
            && let Some(progress) = self.progress.get_mut(*unit as usize)
        {
            *progress = Some(report.progress.clone());
        }
        message
    }

    /// How far all units together are; `None` until each has spoken since the last [`Units::prepare`].
    pub(super) fn progress(&self) -> Option<Progress> {
        let mut total = 0;
        let (mut moving, mut failed) = (false, None);
        for progress in &self.progress {
            match progress.as_ref()? {
                Progress::Moving { confirmed } => {
                    total += confirmed;
                    moving = true;
                }
                Progress::Ready { confirmed } => total += confirmed,
                Progress::Failed { confirmed, limit, text } => {
                    total += confirmed;
                    failed.get_or_insert((*limit, text.clone()));
                }
            }
        }
        Some(match failed {
            Some((limit, text)) => Progress::Failed { confirmed: total, limit, text },
            None if moving => Progress::Moving { confirmed: total },
            None => Progress::Ready { confirmed: total },
        })
    }

    /// Ends all units; waits at most `limit` for them.
    pub(super) async fn stop(&mut self, limit: Duration) -> bool {
        self.tell(&ToUnit::Stop);
        let mut left = self.handles.len();
        let all = async {
            while left > 0 {
                match self.reports.recv().await {
                    Some(FromUnit::Stopped { .. }) => left -= 1,
                    Some(FromUnit::Report { .. }) => {}
                    None => break,
                }
            }
        };
        let in_time = tokio::time::timeout(limit, all).await.is_ok();
        if in_time {
            for handle in &mut self.handles {
                if let Some(thread) = handle.thread.take() {
                    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
                }
            }
        }
        in_time
    }
}

/// A unit's thread.
fn work(
    mut unit: Box<dyn LoadUnit>,
    number: u32,
    clock: Clock,
    inbox: &inbox::Receiver<ToUnit>,
    outbox: &mpsc::Sender<FromUnit>,
) {
    let mut cut_at_ns = next_second(clock.now_ns());
    let mut cpu = ThreadCpu::new(&clock);
    let mut prepared = 0;
    loop {
        loop {
            match inbox.try_recv() {
                Ok(ToUnit::Prepare { number, load }) => {
                    unit.prepare(&load);
                    prepared = number;
                }
                // Reports are cut at whole seconds anyway, and the coordinator asks for whole seconds.
                Ok(ToUnit::Hold { measure_from_ns, end_ns, .. }) => unit.hold(measure_from_ns, end_ns),
                Ok(ToUnit::Stop) | Err(inbox::TryRecvError::Disconnected) => {
                    unit.stop();
                    let _ = outbox.blocking_send(FromUnit::Stopped { unit: number });
                    return;
                }
                Err(inbox::TryRecvError::Empty) => break,
            }
        }
        unit.turn(cut_at_ns.min(clock.now_ns() + TURN_NS));
        let now_ns = clock.now_ns();
        if now_ns >= cut_at_ns {
            cut_at_ns = next_second(now_ns);
            if let Ok(permit) = outbox.try_reserve() {
                let mut report = unit.report();
                report.block.thread_share = cpu.share(&clock);
                permit.send(FromUnit::Report { unit: number, prepared, report: Box::new(report) });
            }
        }
    }
}

/// The next whole second.
pub(super) const fn next_second(now_ns: i64) -> i64 {
    (now_ns / SECOND_NS + 1) * SECOND_NS
}

/// CPU of the calling thread, from the kernel's own account.
struct ThreadCpu {
    ticks: Option<u64>,
    at_ns: i64,
}

/// Clock ticks a second in /proc, on every Linux that Rust supports.
const TICKS_PER_S: f64 = 100.0;

impl ThreadCpu {
    fn new(clock: &Clock) -> Self {
        Self { ticks: Self::ticks(), at_ns: clock.now_ns() }
    }

    /// utime and stime: fields 14 and 15 of /proc/thread-self/stat, counted behind the name in brackets.
    fn ticks() -> Option<u64> {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    }

    /// Share of one core since the last call.
    fn share(&mut self, clock: &Clock) -> Option<f64> {
        let (now, at_ns) = (Self::ticks(), clock.now_ns());
        let (before, before_ns) = (self.ticks, self.at_ns);
        (self.ticks, self.at_ns) = (now, at_ns);
        let seconds = (at_ns - before_ns) as f64 / 1e9;
        (seconds > 0.0).then_some(now?.saturating_sub(before?) as f64 / TICKS_PER_S / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Block;

    #[tokio::test]
    async fn a_report_of_before_says_nothing_of_the_load_that_is_asked_now() {
        let (outbox, reports) = mpsc::channel(4);
        let mut units = Units { handles: Vec::new(), reports, progress: vec![None], prepared: 1 };
        let report = UnitReport {
            progress: Progress::Ready { confirmed: 300 },
            block: Block::default(),
            incidents: Vec::new(),
            attached: std::collections::BTreeMap::new(),
            detached: 0,
        };
        units.prepare(&Load::Rate { axis: "rate".to_owned(), per_s: 300 });
        for (prepared, expected) in [(1, None), (2, Some(Progress::Ready { confirmed: 300 }))] {
            outbox.send(FromUnit::Report { unit: 0, prepared, report: Box::new(report.clone()) }).await.unwrap();
            units.next().await;
            assert_eq!(units.progress(), expected, "the same rate once more, but not yet on the target");
        }
    }
}
