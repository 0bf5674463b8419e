//! Many sessions on one thread: opening and closing. Requests go in by `submit.rs`, what happens in a pass stands in
//! `turn.rs`.

use std::{io, time::Instant};

use mio::{Events, Interest, Poll, Token, net::TcpStream};

use crate::{
    alarm::Alarm,
    event::{ConnectError, ConnectOptions, Disconnect, SessionId, SessionView, SubmitError},
    pool::Pool,
    request,
    session::{Phase, Session, Waiting},
    socket::{cause_of, open},
    wheel::Wheel,
};

/// Names a session of one hub. Never used again for another, in the lifetime of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SessionKey {
    pub(crate) const fn token(self) -> Token {
        Token((self.generation as usize) << 32 | self.index as usize)
    }

    pub(crate) fn of(token: Token) -> Option<Self> {
        let (index, generation) = (token.0 & 0xffff_ffff, token.0 >> 32);
        Some(Self { index: u32::try_from(index).ok()?, generation: u32::try_from(generation).ok()? })
    }
}

/// Tokens of the hub itself: no session has index `u32::MAX`.
const WAKER: Token = Token(usize::MAX);
const ALARM: Token = Token(0xffff_ffff);

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    session: Option<Box<Session<T>>>,
}

/// Sessions driven by one thread: call [`turn`](Self::turn) in a loop.
///
/// `T` is the caller's tag: stored with each request in flight and given back with its reply.
/// The hub never connects again and never repeats a request of its own accord.
#[derive(Debug)]
pub struct Hub<T> {
    pub(crate) poll: Poll,
    pub(crate) alarm: Alarm,
    /// Away while a pass is under way.
    pub(crate) scratch: Option<Scratch>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    pub(crate) wheel: Wheel,
    pub(crate) pool: Pool<Waiting<T>>,
    /// Sessions with bytes to hand to their sockets.
    pub(crate) dirty: Vec<SessionKey>,
    /// Sessions found dead outside a pass, told in the next one.
    pub(crate) doomed: Vec<(SessionKey, Disconnect)>,
    /// Sessions that had more to read than one pass reads.
    pub(crate) unread: Vec<SessionKey>,
    started: Instant,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_reply_bytes: usize,
}

/// What a pass works with: one read buffer for all sessions.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) events: Events,
    pub(crate) buf: Vec<u8>,
}

const EVENTS: usize = 1024;
const READ_BYTES: usize = 64 << 10;

/// Wakes a hub out of [`Hub::turn`] from another thread.
#[derive(Debug)]
pub struct Waker(mio::Waker);

impl Waker {
    /// Lets the turn under way, or the next one, return at once.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

impl<T: Copy> Hub<T> {
    /// A hub without sessions.
    ///
    /// # Errors
    /// When the system gives no event queue.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        Ok(Self {
            poll,
            alarm,
            scratch: Some(Scratch { events: Events::with_capacity(EVENTS), buf: vec![0; READ_BYTES] }),
            slots: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(),
            pool: Pool::new(),
            dirty: Vec::new(),
            doomed: Vec::new(),
            unread: Vec::new(),
            started: Instant::now(),
            max_request_bytes: 0xf_ffff,
            max_reply_bytes: 64 << 20,
        })
    }

    /// What other threads wake this hub with. Make one only, and share it.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn waker(&self) -> io::Result<Waker> {
        mio::Waker::new(self.poll.registry(), WAKER).map(Waker)
    }

    /// The largest request taken, in bytes without the length field; by default ZooKeeper's own default of
    /// `jute.maxbuffer`, 1,048,575.
    pub const fn set_max_request_bytes(&mut self, bytes: usize) {
        self.max_request_bytes = bytes;
    }

    /// The largest reply read, in bytes; a larger one is a [`Disconnect::Protocol`]. By default 64 MiB.
    pub const fn set_max_reply_bytes(&mut self, bytes: usize) {
        self.max_reply_bytes = bytes;
    }

    /// Begins to connect. [`Event::Connected`](crate::Event::Connected), `Expired` or `Disconnected` follows.
    ///
    /// # Errors
    /// When there is no file descriptor or local port left, or the source is no address of this machine.
    pub fn connect(&mut self, options: &ConnectOptions) -> Result<SessionKey, ConnectError> {
        let tls = options.tls.as_ref().map(|tls| tls.connection(options.server)).transpose();
        let tls = tls.map_err(ConnectError::Io)?;
        let (stream, refused) = open(options)?;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot { generation: 0, session: None });
                u32::try_from(self.slots.len() - 1).map_err(|error| ConnectError::Io(io::Error::other(error)))?
            }
        };
        let generation = self.slots[index as usize].generation;
        let key = SessionKey { index, generation };
        let mut sock = TcpStream::from_std(stream);
        if let Err(error) =
            self.poll.registry().register(&mut sock, key.token(), Interest::READABLE | Interest::WRITABLE)
        {
            self.free.push(index);
            return Err(ConnectError::Io(error));
        }
        let now = self.now_ms();
        let deadline = now + u64::try_from(options.connect_timeout.as_millis()).unwrap_or(u64::MAX / 2);
        self.slots[index as usize].session = Some(Box::new(Session {
            sock,
            tls,
            server: options.server,
            phase: Phase::Connecting,
            id: options.reattach.unwrap_or(SessionId { id: 0, password: [0; 16] }),
            reattach: options.reattach.is_some(),
            timeout_ms: options.session_timeout_ms,
            last_zxid: options.last_zxid_seen,
            next_xid: 1,
            close_xid: 0,
            max_in_flight: options.max_in_flight,
            last_sent: now,
            awaiting: Some(deadline),
            ping_out: false,
            auth_out: false,
            dirty: false,
            writable: false,
            auth: options.auth.clone().map(Box::new),
            out: Vec::new(),
            sent: 0,
            partial: Vec::new(),
            waiting: std::collections::VecDeque::new(),
        }));
        self.wheel.arm(index, deadline);
        if refused {
            self.doomed.push((key, Disconnect::Refused));
        }
        Ok(key)
    }

    /// Asks the server to close the session, after the requests in flight. [`Event::Closed`](crate::Event::Closed)
    /// follows, or `Disconnected` when the server went away before it answered.
    ///
    /// # Errors
    /// [`SubmitError::NotConnected`] when there is no session to close (use [`abandon`](Self::abandon) then).
    pub fn close(&mut self, key: SessionKey) -> Result<(), SubmitError> {
        let (session, pool) = live(&mut self.slots, &mut self.pool, key).ok_or(SubmitError::NotConnected)?;
        if session.phase != Phase::Up {
            return Err(SubmitError::NotConnected);
        }
        session.borrow_out(pool);
        session.close_xid = session.take_xid();
        session.phase = Phase::Closing;
        request::close(&mut session.out, session.close_xid);
        if !session.dirty {
            session.dirty = true;
            self.dirty.push(key);
        }
        Ok(())
    }

    /// Drops the socket and leaves the session to its timeout, as a crash would. Bytes not yet handed to the socket
    /// are lost, requests in flight get no reply, no event follows. The key is dead.
    pub fn abandon(&mut self, key: SessionKey) {
        drop(self.take(key));
    }

    /// Drops the socket as a broken network would: each request in flight is told as lost in the next pass, then
    /// [`Event::Disconnected`](crate::Event::Disconnected) with [`Disconnect::Cut`]. The session lives on at the server.
    pub fn cut(&mut self, key: SessionKey) {
        self.doomed.push((key, Disconnect::Cut));
    }

    /// Hands what was queued to the sockets now. A pass does this itself.
    pub fn flush(&mut self) {
        let now = self.now_ms();
        while let Some(key) = self.dirty.pop() {
            let Some((session, pool)) = live(&mut self.slots, &mut self.pool, key) else { continue };
            session.dirty = false;
            if !session.writable {
                continue;
            }
            if let Err(error) = session.flush(now, pool) {
                // Told in the next pass, after what the server may have said before it went.
                self.doomed.push((key, cause_of(&error)));
            }
        }
    }

    /// Requests of a session that are not answered yet; 0 for a dead key.
    #[must_use]
    pub fn in_flight(&self, key: SessionKey) -> usize {
        self.get(key).map_or(0, |session| session.waiting.len())
    }

    /// Sessions whose keys are alive.
    #[must_use]
    pub const fn sessions(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// What a session is, unless its key is dead.
    #[must_use]
    pub fn session(&self, key: SessionKey) -> Option<SessionView> {
        self.get(key).map(|session| SessionView {
            id: session.id,
            timeout_ms: session.timeout_ms,
            last_zxid: session.last_zxid,
            local: session.sock.local_addr().ok(),
            server: session.server,
            in_flight: session.waiting.len(),
            connected: session.phase == Phase::Up,
        })
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&Session<T>> {
        let slot = self.slots.get(key.index as usize)?;
        slot.session.as_deref().filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session<T>> {
        live(&mut self.slots, &mut self.pool, key).map(|(session, _)| session)
    }

    pub(crate) fn with_pool(&mut self, key: SessionKey) -> Option<(&mut Session<T>, &mut Pool<Waiting<T>>)> {
        live(&mut self.slots, &mut self.pool, key)
    }

    /// The live session in a slot.
    pub(crate) fn key_at(&self, index: u32) -> Option<SessionKey> {
        let slot = self.slots.get(index as usize)?;
        slot.session.as_ref().map(|_| SessionKey { index, generation: slot.generation })
    }

    /// Takes a session out; its key is dead from here on. Its buffers go back to the pool, except those in flight.
    pub(crate) fn take(&mut self, key: SessionKey) -> Option<Box<Session<T>>> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        let mut session = slot.session.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        self.wheel.disarm(key.index);
        self.pool.give_buffer(std::mem::take(&mut session.out));
        self.pool.give_buffer(std::mem::take(&mut session.partial));
        Some(session)
    }

    /// Milliseconds since the hub began.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Heap held by the hub and its sessions, in bytes: the capacities of all that it owns. The kernel's socket
    /// buffers are not in it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // mio keeps one 12-byte (packed) or 16-byte epoll_event for each that fits.
        let scratch = self.scratch.as_ref().map_or(0, |scratch| scratch.buf.capacity() + EVENTS * 16);
        let sessions: usize =
            self.slots.iter().filter_map(|slot| slot.session.as_deref()).map(Session::heap_bytes).sum();
        scratch
            + sessions
            + self.slots.capacity() * size_of::<Slot<T>>()
            + self.free.capacity() * size_of::<u32>()
            + (self.dirty.capacity() + self.unread.capacity()) * size_of::<SessionKey>()
            + self.doomed.capacity() * size_of::<(SessionKey, Disconnect)>()
            + self.wheel.heap_bytes()
            + self.pool.heap_bytes()
    }
}

/// The session of a key and, beside it, the pool: borrowed apart.
fn live<'a, T>(
    slots: &'a mut [Slot<T>],
    pool: &'a mut Pool<Waiting<T>>,
    key: SessionKey,
) -> Option<(&'a mut Session<T>, &'a mut Pool<Waiting<T>>)> {
    let slot = slots.get_mut(key.index as usize)?;
    if slot.generation != key.generation {
        return None;
    }
    slot.session.as_deref_mut().map(|session| (session, pool))
}
