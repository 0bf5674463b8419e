//! One session for control work, by blocking calls. Not for load: it allocates, and waits for each answer.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::{
    code::ErrorCode,
    event::{ConnectError, ConnectOptions, Disconnect, Event, SessionView, SubmitError},
    hub::{Hub, SessionKey, Waker},
    reply::{MultiResult, Reply, ReplyError, Stat},
    request::{CreateMode, MultiOp, Request},
    write::MultiWriter,
};

/// A blocking client of one session. It neither connects again nor repeats a request. The session is kept alive
/// while a call is under way: between calls, spend time in [`idle`](Self::idle).
#[derive(Debug)]
pub struct Client {
    hub: Hub<u64>,
    key: SessionKey,
    timeout: Duration,
    last_tag: u64,
    end: Option<End>,
}

/// The client's own tags have this bit, so that [`Client::parts`] leaves its users all others.
const OWN_TAG: u64 = 1 << 63;

/// How the session ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Disconnected(Disconnect),
    Expired,
    AuthFailed,
    Closed,
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server said so.
    #[error("the server answered {0}")]
    Server(ErrorCode),
    #[error("no connection could be begun")]
    Connect(#[source] ConnectError),
    /// The connection is gone; whether a request under way was executed is unknown.
    #[error("disconnected")]
    Disconnected(#[source] Disconnect),
    #[error("the session has expired")]
    Expired,
    #[error("the server refused the credentials")]
    AuthFailed,
    /// The client has been closed.
    #[error("closed")]
    Closed,
    /// No answer within the client's timeout; whether the request was or will be executed is unknown.
    #[error("no answer in time")]
    TimedOut,
    #[error("the request was not taken")]
    Refused(#[source] SubmitError),
    #[error("the reply could not be read")]
    Malformed,
    #[error("the system's event queue failed")]
    Io(#[source] io::Error),
}

impl ClientError {
    /// The server's code, if it is one.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        if let Self::Server(code) = self { Some(*code) } else { None }
    }
}

impl From<End> for ClientError {
    fn from(end: End) -> Self {
        match end {
            End::Disconnected(cause) => Self::Disconnected(cause),
            End::Expired => Self::Expired,
            End::AuthFailed => Self::AuthFailed,
            End::Closed => Self::Closed,
        }
    }
}

impl From<ReplyError> for ClientError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Code(code) => Self::Server(code),
            ReplyError::ConnectionLoss => Self::Disconnected(Disconnect::Eof),
            ReplyError::Malformed => Self::Malformed,
        }
    }
}

impl Client {
    /// Connects and waits for the session. Each later call takes at most `timeout`. Credentials that the server
    /// refuses come out at the first call.
    ///
    /// # Errors
    /// When no session was given in time.
    pub fn connect(options: &ConnectOptions, timeout: Duration) -> Result<Self, ClientError> {
        let mut hub = Hub::new().map_err(ClientError::Io)?;
        let key = hub.connect(options).map_err(ClientError::Connect)?;
        let mut client = Self { hub, key, timeout, last_tag: OWN_TAG, end: None };
        // The hub itself ends the attempt at the connect timeout.
        while !client.hub.session(key).is_some_and(|session| session.connected) {
            client.turn(Duration::from_secs(1), |_, _| ())?;
        }
        Ok(client)
    }

    /// Creates a znode; returns its path, with the server's number when sequential.
    ///
    /// # Errors
    /// As every call: the server's code, or why there is none.
    pub fn create(&mut self, path: &str, data: &[u8], mode: CreateMode) -> Result<String, ClientError> {
        self.call(&Request::Create { path, data, mode }, |reply| reply.created().map(str::to_owned))
    }

    /// The stat of a znode, `None` when it is not there.
    ///
    /// # Errors
    /// As every call.
    pub fn exists(&mut self, path: &str) -> Result<Option<Stat>, ClientError> {
        match self.call(&Request::Exists { path, watch: false }, |reply| reply.stat()) {
            Err(ClientError::Server(ErrorCode::NoNode)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// The data and the stat of a znode.
    ///
    /// # Errors
    /// As every call.
    pub fn get(&mut self, path: &str) -> Result<(Vec<u8>, Stat), ClientError> {
        self.call(&Request::GetData { path, watch: false }, |reply| Some((reply.data()?.to_vec(), reply.stat()?)))
    }

    /// Sets a znode's data; `version` -1 means any.
    ///
    /// # Errors
    /// As every call.
    pub fn set(&mut self, path: &str, data: &[u8], version: i32) -> Result<Stat, ClientError> {
        self.call(&Request::SetData { path, data, version }, |reply| reply.stat())
    }

    /// The names of a znode's children, in no order.
    ///
    /// # Errors
    /// As every call.
    pub fn children(&mut self, path: &str) -> Result<Vec<String>, ClientError> {
        self.call(&Request::GetChildren { path, watch: false }, |reply| {
            Some(reply.children()?.map(str::to_owned).collect())
        })
    }

    /// Deletes a znode; `version` -1 means any.
    ///
    /// # Errors
    /// As every call.
    pub fn delete(&mut self, path: &str, version: i32) -> Result<(), ClientError> {
        self.call(&Request::Delete { path, version }, |_| Some(()))
    }

    /// Makes the server catch up with the leader, so that later reads see what was written before.
    ///
    /// # Errors
    /// As every call.
    pub fn sync(&mut self, path: &str) -> Result<(), ClientError> {
        self.call(&Request::Sync { path }, |_| Some(()))
    }

    /// All of `ops` or none. Returns the paths that were created, in order.
    ///
    /// # Errors
    /// The code of the guilty part, or as every call.
    pub fn multi(&mut self, ops: &[MultiOp<'_>]) -> Result<Vec<String>, ClientError> {
        let created = |result: MultiResult<'_>| {
            if let MultiResult::Created { path } = result { Some(path.to_owned()) } else { None }
        };
        let done = self.call(&Request::Multi(ops), |reply| {
            let results = reply.multi()?;
            Some(results.error().map_or_else(|| Ok(results.filter_map(created).collect()), |(_, code)| Err(code)))
        })?;
        done.map_err(ClientError::Server)
    }

    /// Deletes many znodes with up to `window` requests in flight, in order (so children may stand before their
    /// parents). Returns how many were there; those that were not are no error.
    ///
    /// # Errors
    /// The first error other than `no_node`; deletions already in flight are waited for.
    pub fn delete_many<P: AsRef<str>>(
        &mut self,
        paths: impl IntoIterator<Item = P>,
        window: usize,
    ) -> Result<u64, ClientError> {
        self.last_tag += 1;
        let (tag, mut paths) = (self.last_tag, paths.into_iter().peekable());
        let (mut in_flight, mut deleted, mut failed) = (0_usize, 0_u64, None);
        let mut heard = Instant::now();
        while in_flight > 0 || (failed.is_none() && paths.peek().is_some()) {
            while failed.is_none() && in_flight < window.max(1) {
                let Some(path) = paths.peek() else { break };
                let request = Request::Delete { path: path.as_ref(), version: -1 };
                match self.hub.submit(self.key, tag, &request) {
                    Ok(()) => in_flight += 1,
                    Err(SubmitError::Full) => break,
                    Err(error) => failed = Some(self.refused(error)),
                }
                paths.next();
            }
            let before = in_flight;
            self.turn(self.timeout, |of, result| {
                if of == tag {
                    in_flight -= 1;
                    match result {
                        Ok(_) => deleted += 1,
                        Err(ReplyError::Code(ErrorCode::NoNode)) => {}
                        Err(error) => failed = failed.take().or(Some(error.into())),
                    }
                }
            })?;
            if in_flight < before {
                heard = Instant::now();
            } else if heard.elapsed() >= self.timeout {
                return Err(ClientError::TimedOut);
            }
        }
        failed.map_or(Ok(deleted), Err)
    }

    /// Keeps the session alive for a time.
    ///
    /// # Errors
    /// When the session ends meanwhile.
    pub fn idle(&mut self, duration: Duration) -> Result<(), ClientError> {
        let until = Instant::now() + duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.turn(left, |_, _| ())?;
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// One pass of at most `timeout`, ended early by a [`Waker`]: for a thread that keeps the session alive while it
    /// waits for orders.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn pass(&mut self, timeout: Duration) -> Result<(), ClientError> {
        self.turn(timeout, |_, _| ())
    }

    /// What other threads end a [`pass`](Self::pass) with. Make one only.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn waker(&self) -> Result<Waker, ClientError> {
        self.hub.waker().map_err(ClientError::Io)
    }

    /// Closes the session, with its ephemerals, and waits for the answer.
    ///
    /// # Errors
    /// When the server does not confirm; the session then ends by its timeout.
    pub fn close(mut self) -> Result<(), ClientError> {
        let until = Instant::now() + self.timeout;
        self.hub.close(self.key).map_err(|error| self.refused(error))?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.turn(left, |_, _| ()) {
                Err(ClientError::Closed) => return Ok(()),
                Err(error) => return Err(error),
                Ok(()) if left.is_zero() => return Err(ClientError::TimedOut),
                Ok(()) => {}
            }
        }
    }

    /// Drops the connection and leaves the session to its timeout, as a crash would.
    pub fn abandon(mut self) {
        self.hub.abandon(self.key);
    }

    /// What the session is, unless it has ended.
    #[must_use]
    pub fn session(&self) -> Option<SessionView> {
        self.hub.session(self.key)
    }

    /// The hub and the session, for pipelined work of one's own. Tags with the highest bit belong to the client:
    /// pass over their replies (they are late answers to calls that timed out).
    pub const fn parts(&mut self) -> (&mut Hub<u64>, SessionKey) {
        (&mut self.hub, self.key)
    }

    /// As [`multi`](Self::multi) with the parts written by `write`; returns the code of the guilty part, if any.
    ///
    /// # Errors
    /// As every call.
    pub fn multi_with(
        &mut self,
        write: impl FnOnce(&mut MultiWriter<'_>),
    ) -> Result<Option<(usize, ErrorCode)>, ClientError> {
        let tag = self.next_tag();
        self.hub.submit_multi(self.key, tag, write).map_err(|error| self.refused(error))?;
        self.wait(tag, |reply| reply.multi().map(|results| results.error()))
    }

    /// Any request; `read` takes what is wanted out of the reply, `None` for a reply that is of the wrong kind.
    ///
    /// # Errors
    /// As every call.
    pub fn call<R>(
        &mut self,
        request: &Request<'_>,
        read: impl FnMut(Reply<'_>) -> Option<R>,
    ) -> Result<R, ClientError> {
        let tag = self.next_tag();
        self.hub.submit(self.key, tag, request).map_err(|error| self.refused(error))?;
        self.wait(tag, read)
    }

    const fn next_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }

    fn wait<R>(&mut self, tag: u64, mut read: impl FnMut(Reply<'_>) -> Option<R>) -> Result<R, ClientError> {
        let until = Instant::now() + self.timeout;
        let mut answer = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let ended = self.turn(left, |of, result| {
                if of == tag {
                    answer = Some(match result {
                        Ok(reply) => read(reply).ok_or(ClientError::Malformed),
                        Err(error) => Err(error.into()),
                    });
                }
            });
            match answer.take() {
                // The end of the session says more than the loss of this request.
                Some(Err(ClientError::Disconnected(_))) => ended?,
                Some(answer) => return answer,
                None => ended?,
            }
            if left.is_zero() {
                return Err(ClientError::TimedOut);
            }
        }
    }

    /// One pass of the hub; an error once the session has ended.
    fn turn(
        &mut self,
        timeout: Duration,
        mut on_reply: impl FnMut(u64, Result<Reply<'_>, ReplyError>),
    ) -> Result<(), ClientError> {
        let mut end = self.end;
        self.hub
            .turn(timeout, |_, event| match event {
                Event::Reply { tag, result, .. } => on_reply(tag, result),
                Event::AuthFailed { .. } => end = Some(End::AuthFailed),
                Event::Expired { .. } => end = Some(End::Expired),
                Event::Closed { .. } => end = Some(End::Closed),
                // The server closes after it refused credentials: the first cause is the one that counts.
                Event::Disconnected { cause, .. } => end = end.or(Some(End::Disconnected(cause))),
                Event::Connected { .. } | Event::Watch { .. } => {}
            })
            .map_err(ClientError::Io)?;
        self.end = end;
        end.map_or(Ok(()), |end| Err(end.into()))
    }

    fn refused(&self, error: SubmitError) -> ClientError {
        match (self.end, error) {
            (Some(end), SubmitError::NotConnected) => end.into(),
            _ => ClientError::Refused(error),
        }
    }
}
