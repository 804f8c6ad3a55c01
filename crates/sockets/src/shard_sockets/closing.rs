//! Closing sockets.
//!
//! A socket is first detached from its handler. Then its last bytes are sent. Its slot is freed
//! only after the handler's `handle_close` was called.

use bytes::Bytes;
use watchfire_types::SocketId;

use super::state::Sockets;
use super::transmit::{Taken, Writer};
use crate::counters::CloseCause;
use crate::frame::{Decoder, close_frame};
use crate::outbound_queue::Sharing;
use crate::record::State;
use crate::response::last_event;
use crate::wire;

impl Sockets {
    /// Closes a WebSocket. A close frame is sent now; the connection ends when the client answers
    /// it or `close_timeout` has passed. [`crate::SocketHandler::handle_close`] is called in this
    /// turn, with [`CloseCause::ByUs`]. The last event of an event stream names the reason.
    ///
    /// An invalid code is replaced by 1001. So is 1000, after which phoenix.js does not reconnect.
    pub fn close(&mut self, socket: SocketId, code: u16, reason: &str) {
        let code =
            if crate::frame::close_code_is_valid(code) && code != 1000 { code } else { 1001 };
        self.close_for(socket, CloseCause::ByUs(code), code, reason);
    }

    /// Ends an event stream with this last event. [`crate::SocketHandler::handle_close`] is called in this turn.
    pub fn end_stream(&mut self, socket: SocketId, last: &Bytes) {
        if self.is_stream(socket) {
            self.close_unread(socket, CloseCause::ByUs(1001), last);
        }
    }

    fn is_stream(&self, id: SocketId) -> bool {
        self.slab.get(id).is_some_and(|record| matches!(record.state, State::Stream))
    }

    /// Sends a close frame to an open WebSocket, and awaits the answer; or the last event of a stream.
    pub(crate) fn close_for(&mut self, id: SocketId, cause: CloseCause, code: u16, reason: &str) {
        let is_stream = self.is_stream(id);
        let Some(decoder) = self.detach(id, cause) else { return };
        if let Some(record) = self.slab.get_mut(id) {
            record.state = State::Closing(decoder);
        }
        if cause == CloseCause::Slow {
            self.drop_queue(id);
        }
        if is_stream {
            self.write_last(id, &last_event(reason));
            self.linger(id);
        } else {
            self.write_last(id, &close_frame(Some(code), reason));
        }
    }

    /// Closes a WebSocket whose further bytes are not decoded, after an error or a close frame; or a stream.
    pub(crate) fn close_unread(&mut self, id: SocketId, cause: CloseCause, last: &Bytes) {
        if let Some(decoder) = self.detach(id, cause) {
            self.update_partial_bytes(decoder.buffered_bytes(), 0);
            self.write_last(id, last);
            self.linger(id);
        }
    }

    /// Ends a connection without waiting for its client, or notes that it is gone.
    pub(crate) fn disconnect(&mut self, id: SocketId) {
        let Some(record) = self.slab.get(id) else { return };
        match record.state {
            State::Dead => return,
            State::Open(_) | State::Stream => {
                let held = self.detach(id, CloseCause::ByPeer).map_or(0, |d| d.buffered_bytes());
                self.update_partial_bytes(held, 0);
            }
            State::Parked { .. } => {
                self.parked -= 1;
                self.count().parked_now.sub(1);
                self.count().closed(CloseCause::ByPeer);
                self.pending_closes.push_back((id, CloseCause::ByPeer));
            }
            _ => {}
        }
        self.mark_dead(id);
    }

    /// Awaits the client's end of the connection after our last bytes are sent.
    pub(crate) fn linger(&mut self, id: SocketId) {
        let Some(record) = self.slab.get_mut(id) else { return };
        if matches!(record.state, State::Dead) {
            return;
        }
        let held = record.buffered_bytes();
        record.seen = self.tick;
        record.state = State::Lingering;
        if record.outbound.is_none()
            && let Some(fd) = &record.fd
        {
            wire::end_writing(fd);
        }
        self.update_partial_bytes(held, 0);
    }

    pub(crate) fn next_pending_close(&mut self) -> Option<(SocketId, u32, CloseCause)> {
        let (id, cause) = self.pending_closes.pop_front()?;
        let record = self.slab.get(id).expect("a slot is freed after its handler was called");
        Some((id, record.key, cause))
    }

    /// Frees the slots of dead sockets. `pending_closes` must be empty.
    pub(crate) fn free_dead(&mut self) {
        debug_assert!(self.pending_closes.is_empty());
        while let Some(id) = self.dead.pop() {
            self.forget_client(id);
            self.forget_pause(id);
            // Closing the descriptor also removes it from the epoll.
            if self.slab.remove(id).is_some() {
                self.count().connections_now.sub(1);
            }
        }
    }

    /// Detaches an open WebSocket, or an event stream, from its handler.
    fn detach(&mut self, id: SocketId, cause: CloseCause) -> Option<Decoder> {
        let counters = self.counters.shard(self.shard);
        let record = self.slab.get_mut(id)?;
        let (decoder, now) = match &mut record.state {
            State::Open(decoder) => (std::mem::take(decoder), &counters.websockets_now),
            State::Stream => (Decoder::default(), &counters.streams_now),
            _ => return None,
        };
        now.sub(1);
        record.seen = self.tick;
        record.state = State::Closing(Decoder::default());
        self.open -= 1;
        self.count().closed(cause);
        self.pending_closes.push_back((id, cause));
        Some(decoder)
    }

    /// Drops the queue of a socket that does not read, except a frame that is partly sent.
    fn drop_queue(&mut self, id: SocketId) {
        let Some(record) = self.slab.get_mut(id) else { return };
        let Some(queue) = &mut record.outbound else { return };
        let before = queue.bytes();
        queue.keep_started();
        let dropped = before - queue.bytes();
        if queue.is_empty() {
            self.counters.shard(self.shard).queue_ended(queue, self.tick);
            record.outbound = None;
        }
        self.count().queued_bytes_now.sub(dropped as u64);
    }

    /// Sends a last frame, after all queued frames.
    fn write_last(&mut self, id: SocketId, last: &Bytes) {
        let Some((record, writer)) = self.writing(id) else { return };
        match (Writer { queued_bytes_max: usize::MAX, ..writer }).transmit(
            record,
            last,
            Sharing::Own,
        ) {
            Ok(Taken::NoWait) => {}
            Ok(Taken::Waiting) => self.await_writable(id),
            Err(_) => self.mark_dead(id),
        }
    }

    fn mark_dead(&mut self, id: SocketId) {
        let Some(record) = self.slab.get_mut(id) else { return };
        let held = record.buffered_bytes();
        let counters = self.counters.shard(self.shard);
        let queued = record.outbound.take().map_or(0, |queue| {
            counters.queue_ended(&queue, self.tick);
            queue.bytes()
        });
        record.state = State::Dead;
        self.update_partial_bytes(held, 0);
        self.count().queued_bytes_now.sub(queued as u64);
        self.dead.push(id);
    }
}
