//! One pass of a hub: sockets that are ready, timers that have come up, and what they mean for the caller.

use std::{io, time::Duration};

use crate::{
    code::ErrorCode,
    event::{Disconnect, Event},
    hub::{Hub, Scratch, SessionKey},
    jute::{begin_frame, end_frame},
    reply::{self, Header, ReplyError, Welcome},
    request::{self, Request, XID_AUTH, XID_PING, XID_WATCH},
    session::{Phase, Waiting},
    socket::cause_of,
    tls::{self, TlsFault},
};

/// Fills of the read buffer that one session gets in one pass, so that a flood starves nobody.
const FILLS: usize = 16;
/// The answer to the connect request is 36 or 37 bytes long.
const MAX_WELCOME_BYTES: usize = 1024;

/// The caller's handler, with a count of the events it was given.
struct Out<'h, T> {
    handler: &'h mut dyn FnMut(&mut Hub<T>, Event<'_, T>),
    events: usize,
}

impl<T> Out<'_, T> {
    fn tell(&mut self, hub: &mut Hub<T>, event: Event<'_, T>) {
        self.events += 1;
        (self.handler)(hub, event);
    }
}

impl<T: Copy> Hub<T> {
    /// One pass: sends what is queued, waits at most `timeout` (to some ten microseconds) for sockets, a timer or a [`Waker`](crate::Waker),
    /// and hands every event to `handler`, which may use the hub it is given. Returns the number of events.
    /// A turn inside a handler does nothing.
    ///
    /// # Errors
    /// When the system's event queue fails; sessions are then as they were.
    pub fn turn<H: FnMut(&mut Self, Event<'_, T>)>(&mut self, timeout: Duration, mut handler: H) -> io::Result<usize> {
        let Some(mut scratch) = self.scratch.take() else { return Ok(0) };
        let mut out = Out { handler: &mut handler, events: 0 };
        let result = self.pass(timeout, &mut scratch, &mut out);
        self.scratch = Some(scratch);
        result.map(|()| out.events)
    }

    fn pass(&mut self, timeout: Duration, scratch: &mut Scratch, out: &mut Out<'_, T>) -> io::Result<()> {
        self.flush();
        let at_once = !self.doomed.is_empty() || !self.unread.is_empty();
        let mut wait = if at_once { Duration::ZERO } else { timeout };
        if let Some(ms) = self.wheel.next_in_ms(self.now_ms()) {
            wait = wait.min(Duration::from_millis(ms));
        }
        self.alarm.arm(wait)?;
        match self.poll.poll(&mut scratch.events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for key in std::mem::take(&mut self.unread) {
            self.read(key, true, &mut scratch.buf, out);
        }
        for event in &scratch.events {
            let Some(key) = SessionKey::of(event.token()) else { continue };
            if event.is_writable() || event.is_error() {
                self.writable(key, event.is_read_closed(), out);
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.read(key, event.is_read_closed() || event.is_error(), &mut scratch.buf, out);
            }
            // What the handler asked for goes out before the next session is looked at.
            self.flush();
        }
        // Sockets before timers: after a stall of this thread, what the server said in time must count.
        let now = self.now_ms();
        while let Some(index) = self.wheel.pop(now) {
            if let Some(key) = self.key_at(index) {
                self.timer(key, now, &mut scratch.buf, out);
            }
        }
        for (key, cause) in std::mem::take(&mut self.doomed) {
            // What came before the end is still to be read; reading may also find the end itself.
            self.read(key, true, &mut scratch.buf, out);
            self.die(key, cause, out);
        }
        self.flush();
        Ok(())
    }

    fn writable(&mut self, key: SessionKey, closed: bool, out: &mut Out<'_, T>) {
        let now = self.now_ms();
        let Some((session, pool)) = self.with_pool(key) else { return };
        if session.phase == Phase::Connecting {
            let failed = match session.sock.take_error() {
                Ok(None) => None,
                Ok(Some(error)) | Err(error) => Some(error),
            };
            if let Some(error) = failed {
                self.die(key, cause_of(&error), out);
                return;
            }
            if session.sock.peer_addr().is_err() {
                // Not yet, by a spurious wake-up; or not any more.
                if closed {
                    self.die(key, Disconnect::EofBeforeSession, out);
                }
                return;
            }
            session.phase = Phase::Handshake;
            session.borrow_out(pool);
            let id = session.id;
            request::connect(&mut session.out, session.last_zxid, session.timeout_ms, id.id, &id.password);
        }
        session.writable = true;
        if let Err(error) = session.flush(now, pool) {
            self.doomed.push((key, cause_of(&error)));
        }
    }

    /// Reads what is there. `closing`: the end may be there too, so that a short read is not the last.
    fn read(&mut self, key: SessionKey, closing: bool, buf: &mut [u8], out: &mut Out<'_, T>) {
        for _ in 0..FILLS {
            let now = self.now_ms();
            let Some(session) = self.get_mut(key).filter(|session| session.phase != Phase::Connecting) else { return };
            // Behind TLS a short read says nothing of what is left in the socket.
            let to_the_end = closing || session.tls.is_some();
            let received = session.receive(buf);
            // Reading may have made TLS want to say something, such as the end of its handshake.
            let wakes = session.tls.is_some() && session.has_unsent() && !std::mem::replace(&mut session.dirty, true);
            let before = session.phase == Phase::Handshake;
            if wakes {
                self.dirty.push(key);
            }
            let len = match received {
                Ok(0) => {
                    self.die(key, if before { Disconnect::EofBeforeSession } else { Disconnect::Eof }, out);
                    return;
                }
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.die(key, cause_of(&error), out);
                    return;
                }
            };
            let full = len == buf.len();
            self.feed(key, &buf[..len], out);
            // Judged after the replies are taken off, so that an idle session awaits nothing.
            if let Some(session) = self.get_mut(key) {
                session.heard(now);
            }
            // A short read empties the socket; whatever comes later raises a new event.
            if !full && !to_the_end {
                return;
            }
        }
        self.unread.push(key);
    }

    /// Cuts bytes into frames.
    fn feed(&mut self, key: SessionKey, mut bytes: &[u8], out: &mut Out<'_, T>) {
        while !bytes.is_empty() {
            let max_reply_bytes = self.max_reply_bytes;
            let Some((session, pool)) = self.with_pool(key) else { return };
            let max = if session.phase == Phase::Handshake { MAX_WELCOME_BYTES } else { max_reply_bytes };
            // The length may itself be split.
            let mut head = [0; 4];
            let held = session.partial.len().min(4);
            let fresh = (4 - held).min(bytes.len());
            head[..held].copy_from_slice(&session.partial[..held]);
            head[held..held + fresh].copy_from_slice(&bytes[..fresh]);
            if held + fresh < 4 {
                if session.partial.capacity() == 0 {
                    session.partial = pool.buffer();
                }
                session.partial.extend_from_slice(bytes);
                return;
            }
            let Some(len) = usize::try_from(i32::from_be_bytes(head)).ok().filter(|&len| len <= max) else {
                let alien = session.phase == Phase::Handshake && tls::is_record(head);
                let cause =
                    if alien { Disconnect::Tls(TlsFault::Required) } else { Disconnect::Protocol("length of a frame") };
                self.die(key, cause, out);
                return;
            };
            let need = 4 + len - session.partial.len();
            if need > bytes.len() {
                // Grows with what comes, never by what the length promises.
                if session.partial.capacity() == 0 {
                    session.partial = pool.buffer();
                }
                session.partial.extend_from_slice(bytes);
                return;
            }
            let (now, later) = bytes.split_at(need);
            bytes = later;
            if session.partial.is_empty() {
                self.frame(key, &now[4..], out);
            } else {
                session.partial.extend_from_slice(now);
                let whole = std::mem::take(&mut session.partial);
                self.frame(key, &whole[4..], out);
                self.pool.give_buffer(whole);
            }
        }
    }

    fn frame(&mut self, key: SessionKey, frame: &[u8], out: &mut Out<'_, T>) {
        let Some(session) = self.get_mut(key) else { return };
        let handled = match session.phase {
            Phase::Connecting => Ok(()),
            Phase::Handshake => self.welcome(key, frame, out),
            Phase::Up | Phase::Closing => self.answer(key, frame, out),
        };
        if let Err(what) = handled {
            self.die(key, Disconnect::Protocol(what), out);
        }
    }

    fn welcome(&mut self, key: SessionKey, frame: &[u8], out: &mut Out<'_, T>) -> Result<(), &'static str> {
        let welcome = Welcome::read(frame).map_err(|malformed| malformed.0)?;
        let now = self.now_ms();
        let Some((session, pool)) = self.with_pool(key) else { return Ok(()) };
        let reattached = session.reattach;
        let timeout_ms = match u32::try_from(welcome.timeout_ms) {
            Ok(timeout_ms) if timeout_ms > 0 && welcome.id != 0 => timeout_ms,
            _ if reattached => {
                self.take(key);
                out.tell(self, Event::Expired { session: key });
                return Ok(());
            }
            _ => return Err("a new session without id or timeout"),
        };
        session.id.id = welcome.id;
        session.id.password = welcome.password;
        session.timeout_ms = timeout_ms;
        session.phase = Phase::Up;
        session.awaiting = None;
        let auth = session.auth.take();
        if let Some(auth) = &auth {
            let request = Request::AddAuth { scheme: &auth.scheme, auth: &auth.auth };
            session.borrow_out(pool);
            let start = begin_frame(&mut session.out);
            request::header(&mut session.out, XID_AUTH, request.op().code());
            request.body(&mut session.out);
            end_frame(&mut session.out, start);
            session.auth_out = true;
            if !std::mem::replace(&mut session.dirty, true) {
                self.dirty.push(key);
            }
        }
        self.wheel.arm(key.index, now + u64::from(timeout_ms / 3));
        out.tell(self, Event::Connected { session: key, timeout_ms, reattached });
        Ok(())
    }

    fn answer(&mut self, key: SessionKey, frame: &[u8], out: &mut Out<'_, T>) -> Result<(), &'static str> {
        let (header, body) = Header::read(frame).map_err(|malformed| malformed.0)?;
        let Some((session, pool)) = self.with_pool(key) else { return Ok(()) };
        if header.zxid > session.last_zxid {
            session.last_zxid = header.zxid;
        }
        let waiting = match header.xid {
            XID_PING => {
                session.ping_out = false;
                return Ok(());
            }
            XID_WATCH => {
                let (kind, path) = reply::watch(body).map_err(|malformed| malformed.0)?;
                out.tell(self, Event::Watch { session: key, kind, path });
                return Ok(());
            }
            XID_AUTH if session.auth_out => {
                session.auth_out = false;
                if header.err != 0 {
                    out.tell(self, Event::AuthFailed { session: key });
                }
                return Ok(());
            }
            // The server answers these on arrival, ahead of requests that are still being executed.
            XID_AUTH => {
                let at = session.waiting.iter().position(|waiting| waiting.xid == XID_AUTH);
                at.and_then(|at| session.waiting.remove(at)).ok_or("an answer to no addAuth")?
            }
            xid if session.phase == Phase::Closing && session.waiting.is_empty() => {
                if xid != session.close_xid {
                    return Err("an answer out of order");
                }
                self.take(key);
                out.tell(self, Event::Closed { session: key });
                return Ok(());
            }
            xid => match session.waiting.pop_front() {
                Some(waiting) if waiting.xid == xid => waiting,
                Some(waiting) => {
                    session.waiting.push_front(waiting);
                    return Err("an answer out of order");
                }
                None => return Err("an answer to no request"),
            },
        };
        if session.waiting.is_empty() {
            pool.give_queue(std::mem::take(&mut session.waiting));
        }
        let result = if header.err == 0 {
            reply::body(waiting.op, body).map_err(|_malformed| ReplyError::Malformed)
        } else {
            Err(ReplyError::Code(ErrorCode::from_wire(header.err)))
        };
        let broken = matches!(result, Err(ReplyError::Malformed));
        out.tell(self, Event::Reply { session: key, tag: waiting.tag, zxid: header.zxid, result });
        if broken { Err("a reply that is not what was asked for") } else { Ok(()) }
    }

    /// A session's timer came up: it may be too early, since operations do not touch the wheel.
    fn timer(&mut self, key: SessionKey, now: u64, buf: &mut [u8], out: &mut Out<'_, T>) {
        if let Some(cause) = self.overdue(key, now) {
            // More sockets may be ready than one pass was told of.
            self.read(key, true, buf, out);
            if self.overdue(key, now).is_some() {
                self.die(key, cause, out);
            }
        }
        let Some((session, pool)) = self.with_pool(key) else { return };
        let mut queued = false;
        let due = match session.phase {
            Phase::Connecting | Phase::Handshake => session.awaiting.unwrap_or(now),
            Phase::Up | Phase::Closing => {
                let third = u64::from(session.timeout_ms / 3);
                let quiet = now >= session.last_sent + third;
                // Bytes that the socket does not take are no silence of ours, and a ping behind them no help.
                if quiet && session.phase == Phase::Up && !session.has_unsent() {
                    session.borrow_out(pool);
                    request::ping(&mut session.out);
                    session.ping_out = true;
                    queued = !std::mem::replace(&mut session.dirty, true);
                }
                let ping = if quiet { now + third } else { session.last_sent + third };
                session.awaiting.map_or(ping, |since| ping.min(since + 2 * third))
            }
        };
        if queued {
            self.dirty.push(key);
        }
        self.wheel.arm(key.index, due.max(now + 1));
    }

    fn overdue(&self, key: SessionKey, now: u64) -> Option<Disconnect> {
        let session = self.get(key)?;
        let since = session.awaiting?;
        match session.phase {
            Phase::Connecting | Phase::Handshake => (now >= since).then_some(Disconnect::ConnectTimeout),
            Phase::Up | Phase::Closing => {
                (now >= since + 2 * u64::from(session.timeout_ms / 3)).then_some(Disconnect::ReadTimeout)
            }
        }
    }

    /// Ends a session that was not asked to end, unless it is gone already.
    fn die(&mut self, key: SessionKey, cause: Disconnect, out: &mut Out<'_, T>) {
        let Some(mut session) = self.take(key) else { return };
        // A server over its limit closes at once, which resets the connection if our request comes after: on
        // whichever call the reset shows, it means the same.
        let reset = matches!(cause, Disconnect::Io(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe));
        let early = matches!(session.phase, Phase::Connecting | Phase::Handshake);
        let cause = if early && reset { Disconnect::EofBeforeSession } else { cause };
        let unagreed = cause == Disconnect::EofBeforeSession && session.is_agreeing();
        let cause = if unagreed { Disconnect::Tls(TlsFault::Closed) } else { cause };
        while let Some(Waiting { tag, .. }) = session.waiting.pop_front() {
            out.tell(self, Event::Reply { session: key, tag, zxid: 0, result: Err(ReplyError::ConnectionLoss) });
        }
        self.pool.give_queue(std::mem::take(&mut session.waiting));
        out.tell(self, Event::Disconnected { session: key, cause });
    }
}
