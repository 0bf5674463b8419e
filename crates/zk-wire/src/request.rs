//! Requests and their bytes. Opcodes are those of `org.apache.zookeeper.ZooDefs.OpCode`.

use crate::{
    jute::{Write, len_i32},
    write::MultiWriter,
};

/// What a znode is created as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CreateMode {
    Persistent,
    /// Goes with the session that creates it.
    Ephemeral,
    /// The server appends a ten-digit number to the path.
    PersistentSequential,
    EphemeralSequential,
}

impl CreateMode {
    const fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
        }
    }
}

/// One request. Created znodes are open to anyone (`world:anyone`, all permissions).
/// A `version` of -1 means any.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Answered by [`crate::Reply::Created`] without a stat.
    Create {
        path: &'a str,
        data: &'a [u8],
        mode: CreateMode,
    },
    /// As [`Request::Create`], answered with a stat (servers from 3.5 on).
    Create2 {
        path: &'a str,
        data: &'a [u8],
        mode: CreateMode,
    },
    Delete {
        path: &'a str,
        version: i32,
    },
    /// Answered by [`crate::Reply::Stat`], or by `NoNode` (a watch asked for is then set all the same).
    Exists {
        path: &'a str,
        watch: bool,
    },
    GetData {
        path: &'a str,
        watch: bool,
    },
    SetData {
        path: &'a str,
        data: &'a [u8],
        version: i32,
    },
    /// Answered without a stat.
    GetChildren {
        path: &'a str,
        watch: bool,
    },
    GetChildren2 {
        path: &'a str,
        watch: bool,
    },
    /// Makes the server catch up with the leader before later reads of this session.
    Sync {
        path: &'a str,
    },
    /// All or nothing.
    Multi(&'a [MultiOp<'a>]),
    /// Sets watches without reading. Those for which something changed after `relative_zxid` fire at once;
    /// `i64::MAX` lets none fire.
    SetWatches {
        relative_zxid: i64,
        data: &'a [&'a str],
        exist: &'a [&'a str],
        child: &'a [&'a str],
    },
    /// Adds an identity to the session; on failure the server answers `AuthFailed` and closes.
    AddAuth {
        scheme: &'a str,
        auth: &'a [u8],
    },
}

/// One part of a [`Request::Multi`].
#[derive(Debug, Clone, Copy)]
pub enum MultiOp<'a> {
    Create { path: &'a str, data: &'a [u8], mode: CreateMode },
    Delete { path: &'a str, version: i32 },
    SetData { path: &'a str, data: &'a [u8], version: i32 },
    Check { path: &'a str, version: i32 },
}

/// What a request in flight was, so that its reply can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    Create,
    Create2,
    Delete,
    Exists,
    GetData,
    SetData,
    GetChildren,
    GetChildren2,
    Sync,
    Multi,
    SetWatches,
    AddAuth,
}

pub(crate) const XID_WATCH: i32 = -1;
pub(crate) const XID_PING: i32 = -2;
pub(crate) const XID_AUTH: i32 = -4;
pub(crate) const XID_SET_WATCHES: i32 = -8;

pub(crate) const OP_CREATE: i32 = 1;
pub(crate) const OP_DELETE: i32 = 2;
pub(crate) const OP_SET_DATA: i32 = 5;
pub(crate) const OP_CHECK: i32 = 13;
const OP_PING: i32 = 11;
const OP_CLOSE: i32 = -11;

impl Op {
    pub(crate) const fn code(self) -> i32 {
        match self {
            Self::Create => OP_CREATE,
            Self::Create2 => 15,
            Self::Delete => OP_DELETE,
            Self::Exists => 3,
            Self::GetData => 4,
            Self::SetData => OP_SET_DATA,
            Self::GetChildren => 8,
            Self::GetChildren2 => 12,
            Self::Sync => 9,
            Self::Multi => 14,
            Self::SetWatches => 101,
            Self::AddAuth => 100,
        }
    }

    /// The fixed xid of requests that have one.
    pub(crate) const fn fixed_xid(self) -> Option<i32> {
        match self {
            Self::SetWatches => Some(XID_SET_WATCHES),
            Self::AddAuth => Some(XID_AUTH),
            Self::Create
            | Self::Create2
            | Self::Delete
            | Self::Exists
            | Self::GetData
            | Self::SetData
            | Self::GetChildren
            | Self::GetChildren2
            | Self::Sync
            | Self::Multi => None,
        }
    }
}

impl Request<'_> {
    pub(crate) const fn op(&self) -> Op {
        match self {
            Self::Create { .. } => Op::Create,
            Self::Create2 { .. } => Op::Create2,
            Self::Delete { .. } => Op::Delete,
            Self::Exists { .. } => Op::Exists,
            Self::GetData { .. } => Op::GetData,
            Self::SetData { .. } => Op::SetData,
            Self::GetChildren { .. } => Op::GetChildren,
            Self::GetChildren2 { .. } => Op::GetChildren2,
            Self::Sync { .. } => Op::Sync,
            Self::Multi(_) => Op::Multi,
            Self::SetWatches { .. } => Op::SetWatches,
            Self::AddAuth { .. } => Op::AddAuth,
        }
    }

    /// Appends what follows the request header.
    pub(crate) fn body(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Create { path, data, mode } | Self::Create2 { path, data, mode } => create(out, path, data, mode),
            Self::Delete { path, version } => delete(out, path, version),
            Self::Exists { path, watch }
            | Self::GetData { path, watch }
            | Self::GetChildren { path, watch }
            | Self::GetChildren2 { path, watch } => {
                out.string(path);
                out.bool(watch);
            }
            Self::SetData { path, data, version } => set_data(out, path, data, version),
            Self::Sync { path } => out.string(path),
            Self::Multi(ops) => {
                let mut writer = MultiWriter::new(out);
                for op in ops {
                    writer.push(op);
                }
                writer.finish();
            }
            Self::SetWatches { relative_zxid, data, exist, child } => {
                out.long(relative_zxid);
                for paths in [data, exist, child] {
                    out.int(len_i32(paths.len()));
                    for path in paths {
                        out.string(path);
                    }
                }
            }
            Self::AddAuth { scheme, auth } => {
                out.int(0);
                out.string(scheme);
                out.buffer(auth);
            }
        }
    }
}

pub(crate) fn create(out: &mut Vec<u8>, path: &str, data: &[u8], mode: CreateMode) {
    out.string(path);
    out.buffer(data);
    out.int(1);
    out.int(31);
    out.string("world");
    out.string("anyone");
    out.int(mode.flags());
}

pub(crate) fn delete(out: &mut Vec<u8>, path: &str, version: i32) {
    out.string(path);
    out.int(version);
}

pub(crate) fn set_data(out: &mut Vec<u8>, path: &str, data: &[u8], version: i32) {
    out.string(path);
    out.buffer(data);
    out.int(version);
}

/// xid and opcode, in front of every request but the first.
pub(crate) fn header(out: &mut Vec<u8>, xid: i32, code: i32) {
    out.int(xid);
    out.int(code);
}

/// A whole ping, length included.
pub(crate) fn ping(out: &mut Vec<u8>) {
    out.int(8);
    header(out, XID_PING, OP_PING);
}

/// A whole request to close the session, length included.
pub(crate) fn close(out: &mut Vec<u8>, xid: i32) {
    out.int(8);
    header(out, xid, OP_CLOSE);
}

/// The first frame of a connection, length included. `id` 0 asks for a new session.
pub(crate) fn connect(out: &mut Vec<u8>, last_zxid_seen: i64, timeout_ms: u32, id: i64, password: &[u8; 16]) {
    out.int(45);
    let body = out.len();
    out.int(0);
    out.long(last_zxid_seen);
    out.int(i32::try_from(timeout_ms).unwrap_or(i32::MAX));
    out.long(id);
    out.buffer(password);
    out.bool(false);
    debug_assert_eq!(out.len() - body, 45);
}
