//! Puts domains in place: what a session still has to make or to watch, and how that is sent.

use zk_wire::{CreateMode, Hub, MultiOp, Request, SessionKey, SubmitError};

use super::{
    Fill,
    comeback::LEADER_HOST,
    members::{self, Domain, Stage},
    shape::{Owner, WatchKind},
    unit::{Core, Tag},
};

/// Requests under way a session, of single operations and of batches.
pub(super) const WINDOW_SINGLE: usize = 32;
const WINDOW_BATCH: usize = 2;
/// Parts of one batch; both stay far below a jute.maxbuffer of 1 MB.
const BATCH_CREATES: usize = 500;
const BATCH_WATCHES: u64 = 4_000;
const BATCH_BYTES: usize = 400_000;
/// A part of a batch beside its path and data, at most: header, lengths, access list, flags.
const CREATE_BYTES: usize = 64;
/// The longest path below a domain.
const TAIL_BYTES: usize = 80;
/// `jute.maxbuffer` where it is neither set nor known.
const DEFAULT_MAX_REQUEST_BYTES: usize = 0xf_ffff;
/// Requests of the fill that a session may have beside its traffic.
pub(super) const IN_FLIGHT_MAX: u32 = 256;

/// Content of znodes; the longest one made is 1 MB.
pub(super) static FILLER: [u8; 1_000_000] = [b'x'; 1_000_000];

pub(super) fn filler(bytes: u64) -> &'static [u8] {
    &FILLER[..usize::try_from(bytes).unwrap_or(0).min(FILLER.len())]
}

impl Core {
    /// The largest request that the target takes.
    pub(super) fn max_request_bytes(&self) -> usize {
        let known = self.site.max_request_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        known.unwrap_or(DEFAULT_MAX_REQUEST_BYTES)
    }

    /// Bytes of one batch.
    fn batch_bytes(&self) -> usize {
        BATCH_BYTES.min(self.max_request_bytes() / 2)
    }

    /// Watches of one batch.
    fn batch_watches(&self) -> u64 {
        let each = self.site.root.len() + TAIL_BYTES;
        BATCH_WATCHES.min((self.batch_bytes() / each) as u64).max(1)
    }

    /// Sends what the stage of a domain still needs, and moves it on when nothing is left.
    pub(super) fn pump(&mut self, hub: &mut Hub<Tag>, id: u32) {
        loop {
            let Some(stage) = self.domain(id).map(|domain| domain.stage) else { return };
            let done = match stage {
                Stage::Connecting => self.domain(id).is_some_and(|d| d.members.iter().all(|m| m.connected)),
                Stage::Structure => self.pump_members(hub, id, |owner| owner == Owner::Console(0)),
                Stage::Registering => self.pump_members(hub, id, |owner| matches!(owner, Owner::Executor(_))),
                Stage::Watching => self.pump_watches(hub, id),
                Stage::Removing => {
                    self.pump_removal(hub, id);
                    return;
                }
                Stage::Resident | Stage::Leaving => return,
            };
            if !done || !self.advance(id) {
                return;
            }
        }
    }

    /// The next stage; false when the domain is resident and needs nothing more.
    fn advance(&mut self, id: u32) -> bool {
        let now_ns = self.now_ns();
        let Some(domain) = self.domain_mut(id) else { return false };
        let next = match domain.stage {
            Stage::Connecting => Stage::Structure,
            Stage::Structure => Stage::Registering,
            Stage::Registering => Stage::Watching,
            Stage::Watching => Stage::Resident,
            Stage::Resident | Stage::Leaving | Stage::Removing => return false,
        };
        domain.stage = next;
        domain.members.iter_mut().for_each(|member| member.cursor = 0);
        if next == Stage::Resident {
            let life = domain.life;
            self.schedule.enter(&self.options, id, life, now_ns);
            self.filling -= 1;
            self.resident += 1;
        }
        next != Stage::Resident
    }

    /// Lets every owner of the stage make what is its own. True when all of it is there.
    fn pump_members(&mut self, hub: &mut Hub<Tag>, id: u32, takes_part: impl Fn(Owner) -> bool) -> bool {
        let mut complete = true;
        for index in 0..self.shape.sessions() as usize {
            let owner = members::owner(&self.shape, index);
            if takes_part(owner) {
                complete &= self.pump_znodes(hub, id, index, owner);
            }
        }
        complete && self.domain(id).is_some_and(|domain| domain.in_flight == 0)
    }

    /// Sends creates of one member until its window is full; true when all were sent.
    fn pump_znodes(&mut self, hub: &mut Hub<Tag>, id: u32, index: usize, owner: Owner) -> bool {
        let Some(domain) = self.domain(id) else { return true };
        let member = &domain.members[index];
        let (Some(session), true) = (member.session, member.connected) else { return false };
        let (mut cursor, end) = (member.cursor, self.shape.znodes_with(domain.dead));
        let window = if self.options.fill == Fill::Fast { WINDOW_BATCH } else { WINDOW_SINGLE };
        let tag = Tag::Fill { domain: id };
        let mut sent = 0;
        while cursor < end && hub.in_flight(session) < window {
            let result = match self.options.fill {
                Fill::Fast => self.send_creates(hub, session, tag, id, owner, &mut cursor, end),
                Fill::Faithful => self.send_create(hub, session, tag, id, owner, &mut cursor, end),
            };
            match result {
                Ok(true) => sent += 1,
                Ok(false) => {}
                Err(error) => {
                    self.submit_failed(&error);
                    break;
                }
            }
        }
        if let Some(domain) = self.domain_mut(id) {
            domain.members[index].cursor = cursor;
            domain.in_flight += sent;
        }
        cursor >= end
    }

    /// Sends the next create of `owner` from `cursor` on. False: nothing of its own was left.
    #[expect(clippy::too_many_arguments, reason = "the parts of one position in one domain")]
    fn send_create(
        &mut self,
        hub: &mut Hub<Tag>,
        session: SessionKey,
        tag: Tag,
        id: u32,
        owner: Owner,
        cursor: &mut u64,
        end: u64,
    ) -> Result<bool, SubmitError> {
        while *cursor < end {
            let znode = self.shape.znode(*cursor, &mut self.tail);
            if znode.owner == owner {
                Domain::path(&self.site.root, id, &mut self.path);
                self.path.push_str(&self.tail);
                let request =
                    Request::Create { path: &self.path, data: filler(znode.data_bytes), mode: mode(znode.ephemeral) };
                hub.submit(session, tag, &request)?;
                *cursor += 1;
                return Ok(true);
            }
            *cursor += 1;
        }
        Ok(false)
    }

    /// Sends one multi of the next creates of `owner`.
    #[expect(clippy::too_many_arguments, reason = "the parts of one position in one domain")]
    fn send_creates(
        &mut self,
        hub: &mut Hub<Tag>,
        session: SessionKey,
        tag: Tag,
        id: u32,
        owner: Owner,
        cursor: &mut u64,
        end: u64,
    ) -> Result<bool, SubmitError> {
        // A multi must not be empty: look for the first znode of this owner before one is begun.
        while *cursor < end && self.shape.znode(*cursor, &mut self.tail).owner != owner {
            *cursor += 1;
        }
        if *cursor >= end {
            return Ok(false);
        }
        let mut next = *cursor;
        let batch_bytes = self.batch_bytes();
        let (shape, tail, path, root) = (self.shape, &mut self.tail, &mut self.path, &self.site.root);
        hub.submit_multi(session, tag, |multi| {
            Domain::path(root, id, path);
            let base = path.len();
            while next < end && multi.ops() < BATCH_CREATES {
                let znode = shape.znode(next, tail);
                if znode.owner == owner {
                    let data = filler(znode.data_bytes);
                    path.truncate(base);
                    path.push_str(tail);
                    if multi.ops() > 0 && multi.bytes() + path.len() + data.len() + CREATE_BYTES > batch_bytes {
                        break;
                    }
                    multi.create(path, data, mode(znode.ephemeral));
                }
                next += 1;
            }
        })?;
        *cursor = next;
        Ok(true)
    }

    /// Lets every watching member set its watches. True when all are set.
    fn pump_watches(&mut self, hub: &mut Hub<Tag>, id: u32) -> bool {
        let mut complete = true;
        for index in 0..self.shape.sessions() as usize {
            if members::watches(&self.shape, index) {
                complete &= self.pump_member_watches(hub, id, index, Tag::Fill { domain: id }, i64::MAX);
            }
        }
        complete && self.domain(id).is_some_and(|domain| domain.in_flight == 0)
    }

    /// Sets watches of one member until its window is full; true when all were sent. After a new connection
    /// (`relative_zxid` below `i64::MAX`) batches are used, so that what changed meanwhile fires.
    pub(super) fn pump_member_watches(
        &mut self,
        hub: &mut Hub<Tag>,
        id: u32,
        index: usize,
        tag: Tag,
        relative_zxid: i64,
    ) -> bool {
        let Some(domain) = self.domain(id) else { return true };
        let (dead, member) = (domain.dead, &domain.members[index]);
        let (Some(session), true) = (member.session, member.connected) else { return false };
        let owner = members::owner(&self.shape, index);
        let (mut cursor, end) = (member.cursor, self.shape.watches_of(owner, dead));
        let batches = self.options.fill == Fill::Fast || relative_zxid != i64::MAX;
        let window = if batches { WINDOW_BATCH } else { WINDOW_SINGLE };
        let mut sent = 0;
        // A server may not have yet what others made through another one, and a watch on what is absent is lost. Reads of
        // a session wait for its own writes, and these for all before them; a leader does not wait for a `sync`, so that
        // a write that changes nothing has to do.
        let behind = cursor == 0 && self.servers.len() > 1 && matches!(tag, Tag::Fill { .. });
        if behind && hub.in_flight(session) < window {
            Domain::path(&self.site.root, id, &mut self.path);
            let check = [MultiOp::Check { path: &self.path, version: -1 }];
            match hub.submit(session, tag, &Request::Multi(&check)) {
                Ok(()) => sent += 1,
                Err(error) => self.submit_failed(&error),
            }
        }
        while cursor < end && (hub.in_flight(session) < window || relative_zxid != i64::MAX) {
            let result = if batches {
                let until = end.min(cursor + self.batch_watches());
                self.send_watches(hub, session, tag, (id, owner, dead), cursor..until, relative_zxid).map(|()| until)
            } else {
                let kind = self.shape.watch(owner, dead, cursor, &mut self.tail);
                Domain::path(&self.site.root, id, &mut self.path);
                self.path.push_str(&self.tail);
                let path = self.path.as_str();
                let request = match kind {
                    // Whose leader is away is asked whether it is back: reading what is absent sets no watch.
                    WatchKind::Data if matches!(tag, Tag::Return) && path.ends_with(LEADER_HOST) => {
                        Request::Exists { path, watch: true }
                    }
                    WatchKind::Data => Request::GetData { path, watch: true },
                    WatchKind::Exist => Request::Exists { path, watch: true },
                    WatchKind::Child => Request::GetChildren2 { path, watch: true },
                };
                hub.submit(session, tag, &request).map(|()| cursor + 1)
            };
            match result {
                Ok(next) => {
                    cursor = next;
                    sent += 1;
                }
                Err(error) => {
                    self.submit_failed(&error);
                    break;
                }
            }
        }
        if let Some(domain) = self.domain_mut(id) {
            domain.members[index].cursor = cursor;
            match tag {
                Tag::Fill { .. } => domain.in_flight += sent,
                Tag::Return => domain.members[index].sent_of_return(sent),
                Tag::Restore | Tag::Remove { .. } | Tag::Traffic { .. } => {}
            }
        }
        cursor >= end
    }

    fn send_watches(
        &mut self,
        hub: &mut Hub<Tag>,
        session: SessionKey,
        tag: Tag,
        (id, owner, dead): (u32, Owner, u32),
        range: std::ops::Range<u64>,
        relative_zxid: i64,
    ) -> Result<(), SubmitError> {
        let (shape, tail, path, root) = (self.shape, &mut self.tail, &mut self.path, &self.site.root);
        hub.submit_set_watches(session, tag, relative_zxid, |watches| {
            Domain::path(root, id, path);
            let base = path.len();
            // The wire has three lists one after another.
            for list in [WatchKind::Data, WatchKind::Exist, WatchKind::Child] {
                for index in range.clone() {
                    if shape.watch(owner, dead, index, tail) == list {
                        path.truncate(base);
                        path.push_str(tail);
                        match list {
                            WatchKind::Data => watches.data(path),
                            WatchKind::Exist => watches.exist(path),
                            WatchKind::Child => watches.child(path),
                        }
                    }
                }
            }
        })
    }

    pub(super) fn submit_failed(&mut self, error: &SubmitError) {
        match error {
            // The window or the connection: what is under way brings us back here.
            SubmitError::Full | SubmitError::NotConnected => {}
            SubmitError::TooLarge => {
                let limit = self.max_request_bytes();
                self.fail(
                    true,
                    format!("a domain needs a request that is larger than jute.maxbuffer allows ({limit} bytes)"),
                );
            }
            SubmitError::OutOfOrder => {
                self.fail(false, format!("a request could not be sent: {error}"));
            }
        }
    }
}

pub(super) const fn mode(ephemeral: bool) -> CreateMode {
    if ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent }
}
