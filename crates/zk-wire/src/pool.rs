//! Buffers and queues that sessions borrow while they have something in them, so that an idle session holds none
//! and a busy one allocates none.

use std::collections::VecDeque;

/// What one hub keeps for reuse at most, in bytes of buffers.
const KEPT_BYTES: usize = 4 << 20;
/// A buffer larger than this is given back to the allocator.
const KEPT_BUFFER_BYTES: usize = 1 << 20;
const KEPT_QUEUES: usize = 256;
const KEPT_QUEUE_ITEMS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Pool<W> {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    queues: Vec<VecDeque<W>>,
}

impl<W> Pool<W> {
    pub(crate) const fn new() -> Self {
        Self { buffers: Vec::new(), bytes: 0, queues: Vec::new() }
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    pub(crate) fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity > 0 && capacity <= KEPT_BUFFER_BYTES && self.bytes + capacity <= KEPT_BYTES {
            buffer.clear();
            self.bytes += capacity;
            self.buffers.push(buffer);
        }
    }

    /// An empty queue.
    pub(crate) fn queue(&mut self) -> VecDeque<W> {
        self.queues.pop().unwrap_or_default()
    }

    pub(crate) fn give_queue(&mut self, mut queue: VecDeque<W>) {
        if queue.capacity() > 0 && queue.capacity() <= KEPT_QUEUE_ITEMS && self.queues.len() < KEPT_QUEUES {
            queue.clear();
            self.queues.push(queue);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes
            + self.buffers.capacity() * size_of::<Vec<u8>>()
            + self.queues.capacity() * size_of::<VecDeque<W>>()
            + self.queues.iter().map(|queue| queue.capacity() * size_of::<W>()).sum::<usize>()
    }
}
