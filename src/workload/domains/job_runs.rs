//! Job runs and counters as requests: what is sent when something falls due, and what a notification causes.

use std::fmt::Write as _;

use zk_wire::{Hub, Reply, ReplyError, Request, SessionKey, WatchKind as Fired};

use super::{
    Reads,
    comeback::LEADER_HOST,
    members::{self, Domain, Stage},
    shape::{self, CONSOLES, Owner},
    traffic::{
        ANCESTORS, CHILDREN, COUNTER_REARMS, COUNTER_SETS, CREATE, CYCLE_END, CYCLE_START, DELETE, Due, EXISTS, GET,
        REARM, SET, What, cycle_read,
    },
    unit::{Core, Tag},
};

/// Due operations that are sent before the sockets are looked after again.
const RELEASED_MAX: u32 = 64;

/// Who sends what, and since when it is due.
#[derive(Debug, Clone, Copy)]
struct Sender {
    domain: u32,
    job: u16,
    member: usize,
    due_ns: i64,
    part_of_run: bool,
}

impl Sender {
    fn tag(self, operation: usize) -> Tag {
        Tag::Traffic {
            domain: self.domain,
            job: self.job,
            operation: u8::try_from(operation).unwrap_or(u8::MAX),
            part_of_run: self.part_of_run,
            due_ns: self.due_ns,
            sent_ns: 0,
        }
    }
}

impl Core {
    /// Sends everything that is due by now.
    pub(super) fn release_due(&mut self, hub: &mut Hub<Tag>) {
        let now_ns = self.now_ns();
        for _ in 0..RELEASED_MAX {
            let Some(due) = self.schedule.pop(now_ns) else { return };
            let alive = self.domain(due.domain).is_some_and(|d| d.life == due.life && d.stage == Stage::Resident);
            if !alive {
                continue;
            }
            self.schedule.follow(due);
            self.recorder.lag(self.now_ns() - due.at_ns);
            match due.what {
                What::Start { job } => self.start_run(hub, due, job),
                What::End { job } => self.end_run(hub, due, job),
                What::Counters { job, executor } => self.write_counters(hub, due, job, executor),
            }
        }
    }

    fn ask_edge(&mut self, edge: usize) {
        for (operation, count) in self.edges[edge].asked.into_iter().enumerate() {
            self.recorder.ask(operation, count);
        }
    }

    fn start_run(&mut self, hub: &mut Hub<Tag>, due: Due, job: u16) {
        self.ask_edge(0);
        let Some(state) = self.job_mut(due.domain, job) else { return };
        if state.running || state.outstanding > 0 {
            // The run before has not ended: this one is not started, as the scheduler would not.
            let asked = self.edges[0].writes() + self.edges[1].writes();
            self.ask_edge(1);
            self.recorder.miss(asked);
            return;
        }
        state.running = true;
        self.edge(hub, due, job, true);
    }

    fn end_run(&mut self, hub: &mut Hub<Tag>, due: Due, job: u16) {
        let Some(state) = self.job_mut(due.domain, job) else { return };
        if !state.running {
            return;
        }
        state.running = false;
        self.ask_edge(1);
        self.edge(hub, due, job, false);
    }

    /// One edge of a run, for every executor that has items of the job.
    fn edge(&mut self, hub: &mut Hub<Tag>, due: Due, job: u16, start: bool) {
        let active = self.shape.executors.min(self.shape.shards);
        let began_ns = if start { due.at_ns } else { self.schedule.began_ns(due) };
        for executor in 0..active {
            if self.was_away(due.domain, executor, began_ns) {
                // It has not begun this run, or what it had begun went with its session.
                let reads = if start { CYCLE_START } else { CYCLE_END };
                let reads = if self.options.reads == Reads::Model { reads } else { 0 };
                let items = (executor..self.shape.shards).step_by(self.shape.executors as usize).count();
                self.recorder.miss(u64::from(reads) + 1 + 2 * items as u64);
                continue;
            }
            let sender = Sender {
                domain: due.domain,
                job,
                member: members::member(&self.shape, Owner::Executor(executor)),
                due_ns: due.at_ns,
                part_of_run: true,
            };
            if self.options.reads == Reads::Model {
                for read in 0..if start { CYCLE_START } else { CYCLE_END } {
                    self.cycle_read(hub, sender, executor, read);
                }
            }
            self.set_status(hub, sender, executor, if start { b"RUNNING" } else { b"READY" });
            for item in (executor..self.shape.shards).step_by(self.shape.executors as usize) {
                let (gone, made) = if start { ("completed", "running") } else { ("running", "completed") };
                // Order as in the source: first the old mark goes at a start, first the new one comes at an end.
                if start {
                    self.mark(hub, sender, item, gone, false);
                    self.mark(hub, sender, item, made, true);
                } else {
                    self.mark(hub, sender, item, made, true);
                    self.mark(hub, sender, item, gone, false);
                }
            }
        }
    }

    fn job_base(&mut self, sender: Sender) {
        Domain::path(&self.site.root, sender.domain, &mut self.path);
        shape::job_path(&mut self.path, u32::from(sender.job));
    }

    /// Sends a request on the path that stands in `self.path`.
    fn send_path(
        &mut self,
        hub: &mut Hub<Tag>,
        sender: Sender,
        operation: usize,
        request: impl for<'p> FnOnce(&'p str) -> Request<'p>,
    ) {
        let path = std::mem::take(&mut self.path);
        let session = self.session_of(sender.domain, sender.member);
        let sent = self.send(hub, session, sender.tag(operation), &request(&path));
        self.path = path;
        if sent
            && sender.part_of_run
            && let Some(job) = self.job_mut(sender.domain, sender.job)
        {
            job.outstanding += 1;
        }
    }

    fn cycle_read(&mut self, hub: &mut Hub<Tag>, sender: Sender, executor: u32, read: u32) {
        self.job_base(sender);
        let operation = cycle_read(read);
        match operation {
            GET => shape::config_key(&mut self.path, read % self.shape.config_keys),
            EXISTS => {
                let _ = write!(self.path, "/execution/{}", executor % self.shape.shards);
            }
            _ => self.path.push_str("/execution"),
        }
        self.send_path(hub, sender, operation, move |path| match operation {
            GET => Request::GetData { path, watch: false },
            EXISTS => Request::Exists { path, watch: false },
            _ => Request::GetChildren2 { path, watch: false },
        });
    }

    fn mark(&mut self, hub: &mut Hub<Tag>, sender: Sender, item: u32, name: &str, create: bool) {
        self.job_base(sender);
        let _ = write!(self.path, "/execution/{item}/{name}");
        if create {
            let mode = if name == "running" { zk_wire::CreateMode::Ephemeral } else { zk_wire::CreateMode::Persistent };
            self.send_path(hub, sender, CREATE, move |path| Request::Create { path, data: b"", mode });
        } else {
            self.send_path(hub, sender, DELETE, |path| Request::Delete { path, version: -1 });
        }
    }

    /// A status as the source writes it: a multi of a check and a set.
    fn set_status(&mut self, hub: &mut Hub<Tag>, sender: Sender, executor: u32, data: &[u8]) {
        self.job_base(sender);
        let _ = write!(self.path, "/servers/exec-{executor}/status");
        self.send_checked_set(hub, sender, data);
    }

    fn send_checked_set(&mut self, hub: &mut Hub<Tag>, sender: Sender, data: &[u8]) {
        let path = std::mem::take(&mut self.path);
        let parts = [
            zk_wire::MultiOp::Check { path: &path, version: -1 },
            zk_wire::MultiOp::SetData { path: &path, data, version: -1 },
        ];
        let session = self.session_of(sender.domain, sender.member);
        let sent = self.send(hub, session, sender.tag(SET), &Request::Multi(&parts));
        self.path = path;
        if sent
            && sender.part_of_run
            && let Some(job) = self.job_mut(sender.domain, sender.job)
        {
            job.outstanding += 1;
        }
    }

    fn write_counters(&mut self, hub: &mut Hub<Tag>, due: Due, job: u16, executor: u16) {
        self.recorder.ask(SET, COUNTER_SETS);
        self.recorder.ask(REARM, COUNTER_REARMS);
        let sender =
            Sender { domain: due.domain, job, member: usize::from(executor), due_ns: due.at_ns, part_of_run: false };
        for counter in ["processSuccessCount", "processFailureCount"] {
            self.job_base(sender);
            let _ = write!(self.path, "/servers/exec-{executor}/{counter}");
            self.send_checked_set(hub, sender, b"1");
        }
        self.job_base(sender);
        self.path.push_str("/analyse/processCount");
        self.send_path(hub, sender, SET, |path| Request::SetData { path, data: b"1", version: -1 });
    }

    /// A watch fired: the session that held it reads again and so arms it again.
    pub(super) fn on_watch(&mut self, hub: &mut Hub<Tag>, session: SessionKey, kind: Fired, path: &str) {
        let Some(&(domain, member)) = self.sessions.get(&session) else { return };
        if self.domain(domain).is_none_or(|domain| domain.stage != Stage::Resident) {
            return;
        }
        if self.member(domain, member).is_some_and(|member| member.is_gone()) {
            return;
        }
        let due_ns = self.now_ns();
        let sender = Sender { domain, job: 0, member, due_ns, part_of_run: false };
        if self.shape.executors as usize > member && path.ends_with("/running") {
            self.send(hub, Some(session), sender.tag(REARM), &Request::Exists { path, watch: true });
            if self.options.reads == Reads::Rearm {
                return;
            }
            let mut above = path;
            for _ in 0..ANCESTORS {
                above = above.rsplit_once('/').map_or("", |(parent, _)| parent);
                if !above.is_empty() {
                    self.send(hub, Some(session), sender.tag(EXISTS), &Request::Exists { path: above, watch: false });
                }
            }
            let item = path.rsplit_once('/').map_or(path, |(item, _)| item);
            if kind == Fired::Created {
                self.send(hub, Some(session), sender.tag(GET), &Request::GetData { path, watch: false });
            } else {
                self.send(hub, Some(session), sender.tag(EXISTS), &Request::Exists { path, watch: false });
            }
            self.tail.clear();
            let _ = write!(self.tail, "{item}/completed");
            let sibling = std::mem::take(&mut self.tail);
            self.send(hub, Some(session), sender.tag(EXISTS), &Request::Exists { path: &sibling, watch: false });
            self.tail = sibling;
        } else if self.is_console(member) || path.ends_with(LEADER_HOST) {
            if kind != Fired::DataChanged {
                // Only data changes as the traffic asks; the rest is of executors that come and go.
                self.recorder.ask(REARM, 1);
            }
            let request = match kind {
                Fired::ChildrenChanged => Request::GetChildren2 { path, watch: true },
                // Reading what is absent sets no watch.
                Fired::Deleted => Request::Exists { path, watch: true },
                Fired::Created | Fired::DataChanged | Fired::Other(_) => Request::GetData { path, watch: true },
            };
            self.send(hub, Some(session), sender.tag(REARM), &request);
        }
    }

    /// The reply to an operation of the traffic.
    #[expect(clippy::too_many_arguments, reason = "the parts of one tag")]
    pub(super) fn on_traffic(
        &mut self,
        domain: u32,
        job: u16,
        operation: usize,
        part_of_run: bool,
        due_ns: i64,
        sent_ns: i64,
        result: &Result<Reply<'_>, ReplyError>,
    ) {
        let now_ns = self.now_ns();
        if part_of_run && let Some(job) = self.job_mut(domain, job) {
            job.outstanding = job.outstanding.saturating_sub(1);
        }
        match result {
            Ok(Reply::Multi(results)) => match results.error() {
                None => self.recorder.done(operation, due_ns, sent_ns, now_ns),
                Some((_, code)) => self.recorder.fail(operation, code.as_str()),
            },
            Ok(_) => self.recorder.done(operation, due_ns, sent_ns, now_ns),
            // An exists of an absent znode is a good answer: the source asks just to know.
            Err(ReplyError::Code(zk_wire::ErrorCode::NoNode)) if matches!(operation, EXISTS | REARM) => {
                self.recorder.done(operation, due_ns, sent_ns, now_ns);
            }
            Err(error) => self.recorder.fail(operation, error.as_str()),
        }
    }
}

const _: () = assert!(CONSOLES == 2 && CHILDREN == 5, "the rates of traffic.rs count two consoles");
