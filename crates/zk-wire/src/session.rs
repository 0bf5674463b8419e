//! What a hub keeps of one session. Buffers are borrowed from the hub's pool while they hold something.

use std::{
    collections::VecDeque,
    io::{self, Read as _, Write as _},
    net::SocketAddr,
};

use mio::net::TcpStream;
use rustls::ClientConnection;

use crate::{
    event::{Auth, SessionId},
    pool::Pool,
    request::Op,
    tls,
};

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) xid: i32,
    pub(crate) op: Op,
    pub(crate) tag: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The TCP connection is on its way.
    Connecting,
    /// The connect request is out.
    Handshake,
    Up,
    /// closeSession is out.
    Closing,
}

#[derive(Debug)]
pub(crate) struct Session<T> {
    pub(crate) sock: TcpStream,
    /// Between the socket and the buffers, unless the connection is plain.
    pub(crate) tls: Option<Box<ClientConnection>>,
    pub(crate) server: SocketAddr,
    pub(crate) phase: Phase,
    pub(crate) id: SessionId,
    pub(crate) reattach: bool,
    /// As asked for, until the server grants one.
    pub(crate) timeout_ms: u32,
    pub(crate) last_zxid: i64,
    pub(crate) next_xid: i32,
    pub(crate) close_xid: i32,
    pub(crate) max_in_flight: u32,
    /// When bytes were last handed to the socket, in ms since the hub began.
    pub(crate) last_sent: u64,
    /// When the wait for the server's next word began; `None` when nothing is awaited. Until the session is there:
    /// when the attempt ends.
    pub(crate) awaiting: Option<u64>,
    pub(crate) ping_out: bool,
    /// The answer to [`ConnectOptions::auth`](crate::ConnectOptions::auth) is awaited.
    pub(crate) auth_out: bool,
    /// Stands in the hub's list of sessions with something to write.
    pub(crate) dirty: bool,
    /// The socket took everything so far; false after it was full, until it says otherwise.
    pub(crate) writable: bool,
    pub(crate) auth: Option<Box<Auth>>,
    /// Unsent bytes are `out[sent..]`.
    pub(crate) out: Vec<u8>,
    pub(crate) sent: usize,
    /// The beginning of a frame whose rest has not come.
    pub(crate) partial: Vec<u8>,
    pub(crate) waiting: VecDeque<Waiting<T>>,
}

impl<T> Session<T> {
    pub(crate) const fn take_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid = if xid == i32::MAX { 1 } else { xid + 1 };
        xid
    }

    /// Makes sure that `out` is a buffer to write to.
    pub(crate) fn borrow_out(&mut self, pool: &mut Pool<Waiting<T>>) {
        if self.out.capacity() == 0 {
            self.out = pool.buffer();
        }
    }

    /// Something came from the server.
    pub(crate) fn heard(&mut self, now_ms: u64) {
        if matches!(self.phase, Phase::Up | Phase::Closing) {
            self.awaiting = self.owes_answer().then_some(now_ms);
        }
    }

    fn owes_answer(&self) -> bool {
        self.ping_out || self.auth_out || self.phase == Phase::Closing || !self.waiting.is_empty()
    }

    /// Whether something waits for the socket to take it.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.out.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether TLS is not agreed on yet.
    pub(crate) fn is_agreeing(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// As `read` of the socket, behind TLS if there is any.
    pub(crate) fn receive(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.sock.read(buf),
            Some(tls) => tls::receive(tls, &mut self.sock, buf),
        }
    }

    /// Hands as many bytes to the socket as it takes.
    pub(crate) fn flush(&mut self, now_ms: u64, pool: &mut Pool<Waiting<T>>) -> io::Result<()> {
        if !self.has_unsent() {
            return Ok(());
        }
        let progress = if self.tls.is_some() { self.send_tls()? } else { self.send_plain()? };
        if progress {
            self.last_sent = now_ms;
        }
        if matches!(self.phase, Phase::Up | Phase::Closing) {
            self.awaiting.get_or_insert(now_ms);
        }
        if self.sent == self.out.len() {
            self.sent = 0;
            pool.give_buffer(std::mem::take(&mut self.out));
        } else if self.sent > self.out.len() / 2 {
            // Sent bytes in front would otherwise pile up while a socket stays full.
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    fn send_plain(&mut self) -> io::Result<bool> {
        let mut progress = false;
        while self.sent < self.out.len() {
            match self.sock.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.sent += written;
                    progress = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(progress)
    }

    fn send_tls(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        let (taken, full) = tls::send(tls, &mut self.sock, &self.out[self.sent..])?;
        self.sent += taken;
        self.writable = !full;
        Ok(taken > 0)
    }

    /// What TLS keeps is not counted: rustls does not tell.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.tls.as_ref().map_or(0, |tls| size_of_val(&**tls))
            + self.out.capacity()
            + self.partial.capacity()
            + self.waiting.capacity() * size_of::<Waiting<T>>()
            + self.auth.as_ref().map_or(0, |auth| size_of::<Auth>() + auth.scheme.capacity() + auth.auth.capacity())
    }
}
