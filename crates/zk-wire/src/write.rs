//! Requests of many paths, written straight into a session's buffer: no list of owned strings in between.

use crate::{
    jute::{Write, put_int},
    request::{CreateMode, MultiOp, OP_CHECK, OP_CREATE, OP_DELETE, OP_SET_DATA, create, delete, set_data},
};

/// Writes the parts of a multi straight into a session's buffer.
#[derive(Debug)]
pub struct MultiWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    ops: usize,
}

impl<'a> MultiWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, ops: 0 }
    }

    fn op(&mut self, code: i32) {
        self.out.int(code);
        self.out.bool(false);
        self.out.int(-1);
        self.ops += 1;
    }

    /// Creates a znode.
    pub fn create(&mut self, path: &str, data: &[u8], mode: CreateMode) {
        self.op(OP_CREATE);
        create(self.out, path, data, mode);
    }

    /// Deletes a znode.
    pub fn delete(&mut self, path: &str, version: i32) {
        self.op(OP_DELETE);
        delete(self.out, path, version);
    }

    /// Sets a znode's data.
    pub fn set(&mut self, path: &str, data: &[u8], version: i32) {
        self.op(OP_SET_DATA);
        set_data(self.out, path, data, version);
    }

    /// Lets the whole fail unless the znode is there in this version.
    pub fn check(&mut self, path: &str, version: i32) {
        self.op(OP_CHECK);
        delete(self.out, path, version);
    }

    /// Adds a part given as a value.
    pub fn push(&mut self, op: &MultiOp<'_>) {
        match *op {
            MultiOp::Create { path, data, mode } => self.create(path, data, mode),
            MultiOp::Delete { path, version } => self.delete(path, version),
            MultiOp::SetData { path, data, version } => self.set(path, data, version),
            MultiOp::Check { path, version } => self.check(path, version),
        }
    }

    /// Parts so far.
    #[must_use]
    pub const fn ops(&self) -> usize {
        self.ops
    }

    /// Bytes so far, to stop before the server's limit (`jute.maxbuffer`).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    pub(crate) fn finish(self) {
        self.out.int(-1);
        self.out.bool(true);
        self.out.int(-1);
    }
}

/// Writes the paths of a setWatches straight into a session's buffer.
///
/// The wire has three lists one after another, so call [`data`](Self::data) for all data watches first, then
/// [`exist`](Self::exist), then [`child`](Self::child): a path of an earlier list after one of a later list makes the
/// request be refused as [`crate::SubmitError::OutOfOrder`].
#[derive(Debug)]
pub struct WatchesWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// Where the count of the current list stands.
    count_at: usize,
    count: i32,
    list: u8,
    paths: usize,
    out_of_order: bool,
}

impl<'a> WatchesWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, relative_zxid: i64) -> Self {
        let start = out.len();
        out.long(relative_zxid);
        let count_at = out.len();
        out.int(0);
        Self { out, start, count_at, count: 0, list: 0, paths: 0, out_of_order: false }
    }

    fn next_list(&mut self) {
        put_int(self.out, self.count_at, self.count);
        self.count_at = self.out.len();
        self.count = 0;
        self.list += 1;
        self.out.int(0);
    }

    fn add(&mut self, list: u8, path: &str) {
        if list < self.list {
            self.out_of_order = true;
            return;
        }
        while self.list < list {
            self.next_list();
        }
        self.out.string(path);
        self.count = self.count.saturating_add(1);
        self.paths += 1;
    }

    /// A watch as set by `getData`, or by `exists` on a znode that is there.
    pub fn data(&mut self, path: &str) {
        self.add(0, path);
    }

    /// A watch as set by `exists` on a znode that is not there.
    pub fn exist(&mut self, path: &str) {
        self.add(1, path);
    }

    /// A watch as set by `getChildren`.
    pub fn child(&mut self, path: &str) {
        self.add(2, path);
    }

    /// Paths so far.
    #[must_use]
    pub const fn paths(&self) -> usize {
        self.paths
    }

    /// Bytes so far, to stop before the server's limit (`jute.maxbuffer`).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// False when the lists came out of order.
    pub(crate) fn finish(mut self) -> bool {
        while self.list < 2 {
            self.next_list();
        }
        put_int(self.out, self.count_at, self.count);
        !self.out_of_order
    }
}
