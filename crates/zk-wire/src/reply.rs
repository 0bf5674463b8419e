//! Replies, borrowed from the read buffer. Everything is checked once when a frame is read, so that the
//! iterators here cannot fail.

use crate::{
    code::ErrorCode,
    jute::{Malformed, Reader},
    request::Op,
};

/// A znode's numbers (`org.apache.zookeeper.data.Stat`). Times are milliseconds since 1970 by the leader's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime_ms: i64,
    pub mtime_ms: i64,
    pub version: i32,
    pub cversion: i32,
    pub aversion: i32,
    /// The owning session's id, 0 for a znode that is not ephemeral.
    pub ephemeral_owner: i64,
    pub data_bytes: i32,
    pub num_children: i32,
    pub pzxid: i64,
}

impl Stat {
    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            czxid: from.long()?,
            mzxid: from.long()?,
            ctime_ms: from.long()?,
            mtime_ms: from.long()?,
            version: from.int()?,
            cversion: from.int()?,
            aversion: from.int()?,
            ephemeral_owner: from.long()?,
            data_bytes: from.int()?,
            num_children: from.int()?,
            pzxid: from.long()?,
        })
    }
}

/// What a successful request gave back.
#[derive(Debug, Clone, Copy)]
pub enum Reply<'a> {
    /// Nothing but success: delete, setWatches, addAuth.
    Done,
    /// The path as created (with its number when sequential); a stat after `Create2` only.
    Created {
        path: &'a str,
        stat: Option<Stat>,
    },
    /// exists, setData.
    Stat(Stat),
    Data {
        data: &'a [u8],
        stat: Stat,
    },
    /// A stat after `GetChildren2` only.
    Children {
        children: Children<'a>,
        stat: Option<Stat>,
    },
    Synced {
        path: &'a str,
    },
    /// Of a failed multi too: ask [`MultiResults::error`].
    Multi(MultiResults<'a>),
}

impl<'a> Reply<'a> {
    /// The stat that came with it, if any.
    #[must_use]
    pub const fn stat(&self) -> Option<Stat> {
        match *self {
            Self::Stat(stat) | Self::Data { stat, .. } => Some(stat),
            Self::Created { stat, .. } | Self::Children { stat, .. } => stat,
            Self::Done | Self::Synced { .. } | Self::Multi(_) => None,
        }
    }

    /// The data of a znode, if that is what was asked for.
    #[must_use]
    pub const fn data(&self) -> Option<&'a [u8]> {
        if let Self::Data { data, .. } = *self { Some(data) } else { None }
    }

    /// The path of a created znode, if one was.
    #[must_use]
    pub const fn created(&self) -> Option<&'a str> {
        if let Self::Created { path, .. } = *self { Some(path) } else { None }
    }

    /// The names of children, if they were asked for.
    #[must_use]
    pub const fn children(&self) -> Option<Children<'a>> {
        if let Self::Children { children, .. } = *self { Some(children) } else { None }
    }

    /// The results of a multi, if it was one.
    #[must_use]
    pub const fn multi(&self) -> Option<MultiResults<'a>> {
        if let Self::Multi(results) = *self { Some(results) } else { None }
    }
}

/// Why a request has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReplyError {
    /// The server said so.
    #[error("{0}")]
    Code(ErrorCode),
    /// The connection went away first; whether the request was executed is unknown.
    #[error("connection lost")]
    ConnectionLoss,
    /// The reply could not be read.
    #[error("malformed reply")]
    Malformed,
}

impl ReplyError {
    /// The stable name of the kind of error.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Code(code) => code.as_str(),
            Self::ConnectionLoss => ErrorCode::ConnectionLoss.as_str(),
            Self::Malformed => "malformed_reply",
        }
    }
}

/// What a watch tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchKind {
    Created,
    Deleted,
    DataChanged,
    ChildrenChanged,
    /// A change of the session's state, or a kind that this client does not set watches for.
    Other(i32),
}

/// Names of children, in the server's order.
#[derive(Debug, Clone, Copy)]
pub struct Children<'a> {
    rest: Reader<'a>,
    left: usize,
}

impl<'a> Children<'a> {
    fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let left = from.count(4)?;
        let children = Self { rest: *from, left };
        for _ in 0..left {
            from.string()?;
        }
        Ok(children)
    }
}

impl<'a> Iterator for Children<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        self.rest.string().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Children<'_> {}

/// What one part of a multi gave back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MultiResult<'a> {
    /// delete, check.
    Done,
    Created {
        path: &'a str,
    },
    /// setData.
    Stat(Stat),
    /// This part's error. In a failed multi the guilty part has its own code, those after it
    /// `RuntimeInconsistency`; a part before it has code 0, given here as `None`.
    Failed(Option<ErrorCode>),
}

/// Results of the parts of a multi, in order.
#[derive(Debug, Clone, Copy)]
pub struct MultiResults<'a> {
    rest: Reader<'a>,
    error: Option<(usize, ErrorCode)>,
}

impl<'a> MultiResults<'a> {
    fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut results = Self { rest: *from, error: None };
        let mut index = 0;
        while let Some(result) = read_result(from)? {
            if let MultiResult::Failed(Some(code)) = result {
                // Parts after the guilty one carry RuntimeInconsistency, which is nobody's cause.
                if results.error.is_none() {
                    results.error = Some((index, code));
                }
            }
            index += 1;
        }
        Ok(results)
    }

    /// The guilty part and its code, when the multi failed; nothing of it was then done.
    #[must_use]
    pub const fn error(&self) -> Option<(usize, ErrorCode)> {
        self.error
    }
}

impl<'a> Iterator for MultiResults<'a> {
    type Item = MultiResult<'a>;

    fn next(&mut self) -> Option<MultiResult<'a>> {
        read_result(&mut self.rest).ok().flatten()
    }
}

fn read_result<'a>(from: &mut Reader<'a>) -> Result<Option<MultiResult<'a>>, Malformed> {
    let (kind, done, _err) = (from.int()?, from.bool()?, from.int()?);
    if done {
        return Ok(None);
    }
    Ok(Some(match kind {
        1 => MultiResult::Created { path: from.string()? },
        2 | 13 => MultiResult::Done,
        5 => MultiResult::Stat(Stat::read(from)?),
        15 => {
            let path = from.string()?;
            Stat::read(from)?;
            MultiResult::Created { path }
        }
        -1 => MultiResult::Failed(match from.int()? {
            0 => None,
            code => Some(ErrorCode::from_wire(code)),
        }),
        _ => return Err(Malformed("unknown result in a multi")),
    }))
}

/// Reads what follows the header of a successful reply to `op`.
pub(crate) fn body(op: Op, bytes: &[u8]) -> Result<Reply<'_>, Malformed> {
    let mut from = Reader::new(bytes);
    let from = &mut from;
    Ok(match op {
        Op::Delete | Op::SetWatches | Op::AddAuth => Reply::Done,
        Op::Create => Reply::Created { path: from.string()?, stat: None },
        Op::Create2 => Reply::Created { path: from.string()?, stat: Some(Stat::read(from)?) },
        Op::Exists | Op::SetData => Reply::Stat(Stat::read(from)?),
        Op::GetData => Reply::Data { data: from.buffer()?, stat: Stat::read(from)? },
        Op::GetChildren => Reply::Children { children: Children::read(from)?, stat: None },
        Op::GetChildren2 => Reply::Children { children: Children::read(from)?, stat: Some(Stat::read(from)?) },
        Op::Sync => Reply::Synced { path: from.string()? },
        Op::Multi => Reply::Multi(MultiResults::read(from)?),
    })
}

/// The first 16 bytes of every reply but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) err: i32,
}

impl Header {
    pub(crate) fn read(frame: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut from = Reader::new(frame);
        let header = Self { xid: from.int()?, zxid: from.long()?, err: from.int()? };
        Ok((header, from.rest()))
    }
}

/// The server's answer to the first frame of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) timeout_ms: i32,
    pub(crate) id: i64,
    pub(crate) password: [u8; 16],
}

impl Welcome {
    pub(crate) fn read(frame: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(frame);
        let _protocol = from.int()?;
        let timeout_ms = from.int()?;
        let id = from.long()?;
        let password = <[u8; 16]>::try_from(from.buffer()?).map_err(|_len| Malformed("password of a session"))?;
        // Servers before 3.4 do not send the read-only flag that follows.
        Ok(Self { timeout_ms, id, password })
    }
}

/// Reads the body of a notification.
pub(crate) fn watch(bytes: &[u8]) -> Result<(WatchKind, &str), Malformed> {
    let mut from = Reader::new(bytes);
    let kind = match from.int()? {
        1 => WatchKind::Created,
        2 => WatchKind::Deleted,
        3 => WatchKind::DataChanged,
        4 => WatchKind::ChildrenChanged,
        other => WatchKind::Other(other),
    };
    let _session_state = from.int()?;
    Ok((kind, from.string()?))
}
