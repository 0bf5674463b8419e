//! Removing a tree of any size: bottom-up, pipelined, paced. Listing goes depth first, so that what is held is in
//! the order of depth times width, not of the whole tree.

use std::time::{Duration, Instant};

use zk_wire::{Client, ClientError, ErrorCode, Event, Hub, Reply, ReplyError, Request, SessionKey, SubmitError};

/// Lists in flight: reads cost a server little, but their answers are held here.
const LISTS: usize = 256;
/// Batches in flight.
const BATCHES: usize = 16;
/// Deletions of one multi, and the bytes at which one is cut (the usual limit of a request is 1 MiB).
const BATCH: usize = 200;
const BATCH_BYTES: usize = 512 << 10;
/// Znodes ready to go, at which listing waits for deletion.
const READY: usize = 20_000;
/// How often the time is looked at while answers are awaited.
const LOOK: Duration = Duration::from_millis(100);
/// What the pace may catch up after a wait that lasted longer than asked for.
const BURST: Duration = Duration::from_millis(50);
/// What the answer to a list or a deletion may take.
const SILENCE: Duration = Duration::from_secs(60);

/// Spreads deletions over time.
#[derive(Debug)]
pub(super) struct Pace {
    per_s: f64,
    next: Instant,
}

impl Pace {
    pub(super) fn new(per_s: f64) -> Self {
        Self { per_s: if per_s.is_finite() { per_s.max(1.0) } else { 1e9 }, next: Instant::now() }
    }

    fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    fn spend(&mut self, now: Instant, deletions: usize) {
        let deletions = u32::try_from(deletions).unwrap_or(u32::MAX);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.next = self.next.max(earliest) + Duration::from_secs_f64(f64::from(deletions) / self.per_s);
    }
}

/// How far a removal got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Removed {
    pub(super) znodes: u64,
    /// Nothing is left (but what was to be kept).
    pub(super) complete: bool,
}

/// A znode found and not yet gone.
#[derive(Debug)]
struct Node {
    parent: u32,
    /// Children found and not yet gone.
    children: u32,
    name: Box<str>,
}

/// What a request in flight is about; its number is an index.
#[derive(Debug, Clone, Copy)]
enum Tag {
    List(u32),
    Batch(u32),
    Single(u32),
}

impl Tag {
    const fn pack(self) -> u64 {
        match self {
            Self::List(index) => index as u64,
            Self::Batch(index) => 1 << 32 | index as u64,
            Self::Single(index) => 2 << 32 | index as u64,
        }
    }

    /// `None` for a tag of the client's own.
    fn unpack(tag: u64) -> Option<Self> {
        let index = u32::try_from(tag & 0xffff_ffff).ok()?;
        match tag >> 32 {
            0 => Some(Self::List(index)),
            1 => Some(Self::Batch(index)),
            2 => Some(Self::Single(index)),
            _ => None,
        }
    }
}

const ROOT: u32 = 0;

#[derive(Debug)]
struct Tree<'a> {
    root: &'a str,
    keep: Option<&'a str>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    to_list: Vec<u32>,
    /// Without children, to go in batches.
    ready: Vec<u32>,
    /// To go one by one, since their batch failed.
    single: Vec<u32>,
    batches: Vec<Vec<u32>>,
    free_batches: Vec<u32>,
    lists_in_flight: usize,
    deletes_in_flight: usize,
    removed: u64,
    /// The first error that is not dealt with here.
    failed: Option<ClientError>,
}

/// Removes everything under `root`, but neither `root` itself nor its child `keep`. Stops at `deadline` and then says
/// that it is not complete. `removed` is kept up to date also when an error comes out.
pub(super) fn remove_under(
    client: &mut Client,
    root: &str,
    keep: Option<&str>,
    pace: &mut Pace,
    deadline: Instant,
    removed: &mut Removed,
) -> Result<(), ClientError> {
    let top = Node { parent: ROOT, children: 0, name: "".into() };
    let mut tree = Tree {
        root,
        keep,
        nodes: vec![top],
        free: Vec::new(),
        to_list: vec![ROOT],
        ready: Vec::new(),
        single: Vec::new(),
        batches: Vec::new(),
        free_batches: Vec::new(),
        lists_in_flight: 0,
        deletes_in_flight: 0,
        removed: 0,
        failed: None,
    };
    let result = tree.run(client, pace, deadline);
    removed.znodes += tree.removed;
    removed.complete = *result.as_ref().unwrap_or(&false);
    result.map(|_| ())
}

impl Tree<'_> {
    /// True when nothing is left.
    fn run(&mut self, client: &mut Client, pace: &mut Pace, deadline: Instant) -> Result<bool, ClientError> {
        let (mut path, mut heard) = (String::new(), Instant::now());
        loop {
            let now = Instant::now();
            let stopping = self.failed.is_some() || now >= deadline;
            let (hub, key) = client.parts();
            if !stopping {
                self.submit(hub, key, pace, now, &mut path)?;
            }
            let in_flight = self.lists_in_flight + self.deletes_in_flight;
            if in_flight == 0 {
                if let Some(error) = self.failed.take() {
                    return Err(error);
                }
                let idle = self.to_list.is_empty() && self.ready.is_empty() && self.single.is_empty();
                if idle || stopping {
                    return Ok(idle);
                }
            }
            let paced = pace.wait(now);
            let wait = if paced.is_zero() { LOOK } else { paced.min(LOOK) };
            let mut ended = None;
            let events = hub.turn(wait, |_, event| match event {
                Event::Reply { tag, result, .. } => {
                    if let Some(tag) = Tag::unpack(tag) {
                        self.answer(tag, result);
                    }
                }
                Event::Disconnected { cause, .. } => ended = Some(ClientError::Disconnected(cause)),
                Event::Expired { .. } => ended = Some(ClientError::Expired),
                Event::AuthFailed { .. } => ended = Some(ClientError::AuthFailed),
                Event::Closed { .. } => ended = Some(ClientError::Closed),
                Event::Connected { .. } | Event::Watch { .. } => {}
            });
            if let Some(ended) = ended {
                return Err(ended);
            }
            if events.map_err(ClientError::Io)? > 0 || in_flight == 0 {
                heard = now;
            } else if heard.elapsed() > SILENCE {
                return Err(ClientError::TimedOut);
            }
        }
    }

    fn submit(
        &mut self,
        hub: &mut Hub<u64>,
        key: SessionKey,
        pace: &mut Pace,
        now: Instant,
        path: &mut String,
    ) -> Result<(), ClientError> {
        while self.lists_in_flight < LISTS && self.ready.len() < READY {
            let Some(index) = self.to_list.pop() else { break };
            self.path(index, path);
            let request = Request::GetChildren { path, watch: false };
            hub.submit(key, Tag::List(index).pack(), &request).map_err(refused)?;
            self.lists_in_flight += 1;
        }
        while self.deletes_in_flight < BATCHES && pace.wait(now).is_zero() {
            if let Some(index) = self.single.pop() {
                self.path(index, path);
                let request = Request::Delete { path, version: -1 };
                hub.submit(key, Tag::Single(index).pack(), &request).map_err(refused)?;
                pace.spend(now, 1);
            } else if self.ready.len() >= BATCH || (!self.ready.is_empty() && self.lists_in_flight == 0) {
                let slot = self.batch_slot();
                let mut batch = std::mem::take(&mut self.batches[slot as usize]);
                let submitted = hub.submit_multi(key, Tag::Batch(slot).pack(), |w| {
                    while batch.len() < BATCH && w.bytes() < BATCH_BYTES {
                        let Some(index) = self.ready.pop() else { break };
                        self.path(index, path);
                        w.delete(path, -1);
                        batch.push(index);
                    }
                });
                pace.spend(now, batch.len());
                self.batches[slot as usize] = batch;
                submitted.map_err(refused)?;
            } else {
                break;
            }
            self.deletes_in_flight += 1;
        }
        Ok(())
    }

    fn answer(&mut self, tag: Tag, result: Result<Reply<'_>, ReplyError>) {
        match tag {
            Tag::List(index) => {
                self.lists_in_flight -= 1;
                match result.map(|reply| reply.children()) {
                    Ok(Some(children)) => self.found(index, children),
                    Ok(None) => self.fail(ClientError::Malformed),
                    Err(ReplyError::Code(ErrorCode::NoNode)) => self.gone(index),
                    Err(error) => self.fail(error.into()),
                }
            }
            Tag::Single(index) => {
                self.deletes_in_flight -= 1;
                match result {
                    Ok(_) => {
                        self.removed += 1;
                        self.gone(index);
                    }
                    Err(ReplyError::Code(ErrorCode::NoNode)) => self.gone(index),
                    // Someone still creates here: look again.
                    Err(ReplyError::Code(ErrorCode::NotEmpty)) => self.to_list.push(index),
                    Err(error) => self.fail(error.into()),
                }
            }
            Tag::Batch(slot) => {
                self.deletes_in_flight -= 1;
                let mut batch = std::mem::take(&mut self.batches[slot as usize]);
                match result.map(|reply| reply.multi().map(|results| results.error())) {
                    Ok(Some(None)) => {
                        for index in batch.drain(..) {
                            self.removed += 1;
                            self.gone(index);
                        }
                    }
                    // One was gone, or has children again, so that none was deleted.
                    Ok(Some(Some((_, ErrorCode::NoNode | ErrorCode::NotEmpty))))
                    | Err(ReplyError::Code(ErrorCode::NoNode | ErrorCode::NotEmpty)) => self.single.append(&mut batch),
                    Ok(Some(Some((_, code)))) => self.fail(ClientError::Server(code)),
                    Ok(None) => self.fail(ClientError::Malformed),
                    Err(error) => self.fail(error.into()),
                }
                batch.clear();
                self.batches[slot as usize] = batch;
                self.free_batches.push(slot);
            }
        }
    }

    fn found<'n>(&mut self, index: u32, names: impl Iterator<Item = &'n str>) {
        let mut children = 0;
        for name in names {
            if index == ROOT && self.keep == Some(name) {
                continue;
            }
            let node = Node { parent: index, children: 0, name: name.into() };
            let child = match self.free.pop() {
                Some(free) => {
                    self.nodes[free as usize] = node;
                    free
                }
                None => {
                    self.nodes.push(node);
                    u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
                }
            };
            self.to_list.push(child);
            children += 1;
        }
        self.nodes[index as usize].children = children;
        if children == 0 && index != ROOT {
            self.ready.push(index);
        }
    }

    /// A znode is not there any more: its parent may be next.
    fn gone(&mut self, index: u32) {
        if index == ROOT {
            return;
        }
        let parent = self.nodes[index as usize].parent;
        self.nodes[index as usize].name = Box::default();
        self.free.push(index);
        let node = &mut self.nodes[parent as usize];
        node.children -= 1;
        if node.children == 0 {
            // The root is looked at once more: what has come meanwhile goes too.
            if parent == ROOT { self.to_list.push(ROOT) } else { self.ready.push(parent) }
        }
    }

    fn fail(&mut self, error: ClientError) {
        self.failed.get_or_insert(error);
    }

    fn batch_slot(&mut self) -> u32 {
        self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(Vec::with_capacity(BATCH));
            u32::try_from(self.batches.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Writes the full path of a znode.
    fn path(&self, index: u32, out: &mut String) {
        out.clear();
        self.push_path(index, out);
    }

    fn push_path(&self, index: u32, out: &mut String) {
        if index == ROOT {
            out.push_str(self.root);
        } else {
            let node = &self.nodes[index as usize];
            self.push_path(node.parent, out);
            out.push('/');
            out.push_str(&node.name);
        }
    }
}

const fn refused(error: SubmitError) -> ClientError {
    ClientError::Refused(error)
}
