//! How requests get into a session's buffer: encoded in place, nothing allocated once buffers are warm.

use crate::{
    event::SubmitError,
    hub::{Hub, SessionKey},
    jute::{begin_frame, end_frame},
    request::{self, Op, Request},
    session::{Phase, Waiting},
    write::{MultiWriter, WatchesWriter},
};

impl<T: Copy> Hub<T> {
    /// Queues a request. It is handed to the socket at the end of the pass under way, at the beginning of the next,
    /// or by [`flush`](Self::flush); requests of a session are executed and answered in order.
    ///
    /// # Errors
    /// When the session is not connected, has as many in flight as it may, or the request is too large;
    /// nothing is sent then.
    pub fn submit(&mut self, key: SessionKey, tag: T, request: &Request<'_>) -> Result<(), SubmitError> {
        self.submit_with(key, tag, request.op(), |out| {
            request.body(out);
            Ok(())
        })
    }

    /// As [`submit`](Self::submit) for a multi, whose parts `write` writes straight into the session's buffer.
    ///
    /// # Errors
    /// As `submit`.
    pub fn submit_multi(
        &mut self,
        key: SessionKey,
        tag: T,
        write: impl FnOnce(&mut MultiWriter<'_>),
    ) -> Result<(), SubmitError> {
        self.submit_with(key, tag, Op::Multi, |out| {
            let mut writer = MultiWriter::new(out);
            write(&mut writer);
            writer.finish();
            Ok(())
        })
    }

    /// As [`submit`](Self::submit) for a setWatches, whose paths `write` writes straight into the session's buffer.
    /// Watches for which something changed after `relative_zxid` fire at once; `i64::MAX` lets none fire.
    ///
    /// # Errors
    /// As `submit`, and when the lists came out of order.
    pub fn submit_set_watches(
        &mut self,
        key: SessionKey,
        tag: T,
        relative_zxid: i64,
        write: impl FnOnce(&mut WatchesWriter<'_>),
    ) -> Result<(), SubmitError> {
        self.submit_with(key, tag, Op::SetWatches, |out| {
            let mut writer = WatchesWriter::new(out, relative_zxid);
            write(&mut writer);
            if writer.finish() { Ok(()) } else { Err(SubmitError::OutOfOrder) }
        })
    }

    fn submit_with(
        &mut self,
        key: SessionKey,
        tag: T,
        op: Op,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), SubmitError>,
    ) -> Result<(), SubmitError> {
        let max = self.max_request_bytes;
        let (session, pool) = self.with_pool(key).ok_or(SubmitError::NotConnected)?;
        if session.phase != Phase::Up {
            return Err(SubmitError::NotConnected);
        }
        if session.waiting.len() >= session.max_in_flight as usize {
            return Err(SubmitError::Full);
        }
        session.borrow_out(pool);
        let xid = op.fixed_xid().unwrap_or(session.next_xid);
        let start = begin_frame(&mut session.out);
        request::header(&mut session.out, xid, op.code());
        let written = write(&mut session.out);
        let len = end_frame(&mut session.out, start);
        if let Err(refused) = written.and(if len > max { Err(SubmitError::TooLarge) } else { Ok(()) }) {
            session.out.truncate(start);
            if session.out.is_empty() {
                pool.give_buffer(std::mem::take(&mut session.out));
            }
            return Err(refused);
        }
        if op.fixed_xid().is_none() {
            session.take_xid();
        }
        if session.waiting.capacity() == 0 {
            session.waiting = pool.queue();
        }
        session.waiting.push_back(Waiting { xid, op, tag });
        if !std::mem::replace(&mut session.dirty, true) {
            self.dirty.push(key);
        }
        Ok(())
    }
}
