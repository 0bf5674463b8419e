//! What a unit remembers of a domain: its sessions and where each is. Paths and watches are not remembered.

use std::fmt::Write as _;

use zk_wire::{SessionId, SessionKey};

use super::shape::{CONSOLES, Owner, Shape};

/// Where a domain is on its way in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Sessions are being opened.
    Connecting,
    /// A console makes what others build on.
    Structure,
    /// Executors make what is theirs.
    Registering,
    /// Everyone sets watches.
    Watching,
    Resident,
    /// Sessions are being closed.
    Leaving,
    /// What they left is being deleted.
    Removing,
}

/// How far a session is that a disturbance took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is being closed, or has no connection yet.
    Gone,
    /// It makes its ephemeral znodes again and writes what it says of itself.
    Registering,
    Watching,
}

/// A session that a disturbance took away, until it is all back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Away {
    /// As what its return is recorded.
    pub(super) operation: usize,
    pub(super) due_ns: i64,
    pub(super) sent_ns: i64,
    pub(super) way: Way,
    /// Requests of its return that are under way.
    pub(super) in_flight: u32,
}

/// One session of a domain.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub(super) session: Option<SessionKey>,
    /// Known once it was connected: what a new connection attaches to.
    pub(super) id: Option<SessionId>,
    pub(super) last_zxid: i64,
    pub(super) connected: bool,
    pub(super) expired: bool,
    /// Next number in the list of the stage.
    pub(super) cursor: u64,
    pub(super) retry_at_ns: i64,
    pub(super) failed_connects: u32,
    /// Attempts in vain since it was last connected: each goes to another server.
    pub(super) in_vain: u32,
    pub(super) first_failure_ns: i64,
    pub(super) away: Option<Away>,
    /// Runs of jobs that began from here to `back_ns` were not begun by it, or were lost with it.
    pub(super) gone_ns: i64,
    /// Since when it is back from the last disturbance.
    pub(super) back_ns: i64,
}

/// One run of a job.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Job {
    pub(super) running: bool,
    pub(super) outstanding: u32,
}

/// One domain.
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) id: u32,
    pub(super) life: u32,
    pub(super) dead: u32,
    pub(super) stage: Stage,
    pub(super) members: Vec<Member>,
    pub(super) jobs: Vec<Job>,
    /// Requests of the stage that are under way.
    pub(super) in_flight: u32,
    /// Next number (from the end) to delete.
    pub(super) cursor: u64,
    /// Something could not be deleted: after this pass comes another.
    pub(super) again: bool,
    /// Passes of deletion that are over, and when the next one may begin.
    pub(super) passes: u32,
    pub(super) pass_at_ns: i64,
}

impl Domain {
    pub(super) fn new(id: u32, life: u32, dead: u32, shape: &Shape) -> Self {
        Self {
            id,
            life,
            dead,
            stage: Stage::Connecting,
            members: vec![Member::default(); shape.sessions() as usize],
            jobs: vec![Job::default(); shape.jobs as usize],
            in_flight: 0,
            cursor: 0,
            again: false,
            passes: 0,
            pass_at_ns: 0,
        }
    }

    /// Writes the path of the domain itself.
    pub(super) fn path(root: &str, id: u32, path: &mut String) {
        path.clear();
        let _ = write!(path, "{root}/d{id:05}");
    }
}

/// The owner that member number `index` is.
pub(super) fn owner(shape: &Shape, index: usize) -> Owner {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    if index < shape.executors { Owner::Executor(index) } else { Owner::Console(index - shape.executors) }
}

/// The member number of an owner.
pub(super) fn member(shape: &Shape, owner: Owner) -> usize {
    match owner {
        Owner::Executor(executor) => executor as usize,
        Owner::Console(console) => (shape.executors + console) as usize,
    }
}

/// Whether a member sets watches at all.
pub(super) fn watches(shape: &Shape, index: usize) -> bool {
    match owner(shape, index) {
        Owner::Executor(_) => true,
        Owner::Console(console) => console < CONSOLES,
    }
}
