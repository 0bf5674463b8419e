//! Looks at processes of this machine and signals them. A process is its pid together with its start: pids are reused.

use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, Signal, System, UpdateKind};

/// Start times are reckoned from the time of boot, which the kernel derives from a wall clock that may be set: this many
/// seconds apart still means the same start.
const START_TOLERANCE_S: u64 = 2;

/// What a process was at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) pid: u32,
    /// Seconds since the epoch.
    pub(super) started_s: u64,
    pub(super) stopped: bool,
    pub(super) command: Vec<String>,
    /// Empty for processes of other users.
    pub(super) environment: Vec<String>,
}

impl Seen {
    /// Whether this is the process that started at that time.
    pub(super) const fn started_at(&self, started_s: u64) -> bool {
        self.started_s.abs_diff(started_s) <= START_TOLERANCE_S
    }
}

/// Looks at one process; `None` when there is none, or only its exit status waits to be read.
pub(super) fn look(pid: u32) -> Option<Seen> {
    let pid = Pid::from_u32(pid);
    read(ProcessesToUpdate::Some(&[pid]))?.process(pid).and_then(seen)
}

/// All processes of the machine.
pub(super) fn all() -> Vec<Seen> {
    let system = read(ProcessesToUpdate::All);
    system.iter().flat_map(|system| system.processes().values()).filter_map(seen).collect()
}

/// Asks a process to end.
pub(super) fn terminate(pid: u32) -> bool {
    send(pid, Signal::Term)
}

/// Ends a process, also a stopped one.
pub(super) fn kill(pid: u32) -> bool {
    send(pid, Signal::Kill)
}

/// Halts a process where it is.
pub(super) fn pause(pid: u32) -> bool {
    send(pid, Signal::Stop)
}

/// Lets a halted process go on.
pub(super) fn resume(pid: u32) -> bool {
    send(pid, Signal::Continue)
}

fn send(pid: u32, signal: Signal) -> bool {
    let pid = Pid::from_u32(pid);
    let sent = read(ProcessesToUpdate::Some(&[pid])).and_then(|system| system.process(pid)?.kill_with(signal));
    sent.unwrap_or(false)
}

/// `None` only where sysinfo knows no processes at all, which is no system that servers are launched on.
fn read(which: ProcessesToUpdate<'_>) -> Option<System> {
    let mut system = System::new().ok()?;
    let kind =
        ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always).with_environ(UpdateKind::Always).without_tasks();
    system.refresh_processes_specifics(which, true, kind);
    Some(system)
}

fn seen(process: &sysinfo::Process) -> Option<Seen> {
    let status = process.status();
    if matches!(status, ProcessStatus::Zombie | ProcessStatus::Dead) {
        return None;
    }
    Some(Seen {
        pid: process.pid().as_u32(),
        started_s: process.start_time(),
        stopped: matches!(status, ProcessStatus::Stop | ProcessStatus::Tracing),
        command: words(process.cmd()),
        environment: words(process.environ()),
    })
}

fn words(words: &[std::ffi::OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_and_runs() {
        let me = look(std::process::id()).unwrap();
        assert!(!me.stopped);
        assert!(me.started_at(me.started_s + START_TOLERANCE_S));
        assert!(!me.started_at(me.started_s + START_TOLERANCE_S + 1));
        assert!(all().iter().any(|seen| seen.pid == me.pid && seen.command == me.command));
    }

    #[test]
    fn an_unread_exit_status_is_no_process() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while look(child.id()).is_some() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(look(child.id()).is_none());
        assert!(!kill(child.id()));
    }
}
