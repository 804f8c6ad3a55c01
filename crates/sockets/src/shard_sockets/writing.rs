//! Writing to the sockets of a shard. A full queue that does not move closes its socket.

use bytes::Bytes;
use watchfire_types::SocketId;

use super::state::Sockets;
use super::transmit::{NotTaken, Taken};
use crate::counters::CloseCause;
use crate::frame::Decoder;
use crate::outbound_queue::Sharing;
use crate::record::{Held, Record, State};
use crate::response::{Handshake, last_response, refusal};
use crate::wire;

/// The reason why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("the socket is gone")]
    Gone,
    #[error("the socket's queue was full; the socket has been closed")]
    Overflow,
}

/// The reason why an offered frame was not sent. No byte of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    #[error("the socket is gone")]
    Gone,
    #[error("the socket's queue is full")]
    Full,
}

impl Sockets {
    /// Sends one or more complete frames, including their headers, to an open WebSocket; or complete events to an
    /// event stream.
    ///
    /// If the queue would exceed `queued_bytes_max` and does not move, or would exceed four times as
    /// much, the socket is closed with 1013, and [`crate::SocketHandler::handle_close`] is called with
    /// [`CloseCause::Slow`].
    pub fn send(&mut self, socket: SocketId, frame: &Bytes) -> Result<(), SendError> {
        self.send_as(socket, frame, Sharing::Own).map(drop)
    }

    /// Sends like [`Sockets::send`] a frame that many sockets share, and whose bytes the caller
    /// counts. While it `has_room` for more of them, a queue that moves takes the frame. Returns
    /// [`Sockets::is_awaited`].
    pub fn send_shared(
        &mut self,
        socket: SocketId,
        frame: &Bytes,
        has_room: bool,
    ) -> Result<bool, SendError> {
        self.send_as(socket, frame, Sharing::Shared { has_room })
    }

    fn send_as(
        &mut self,
        socket: SocketId,
        frame: &Bytes,
        sharing: Sharing,
    ) -> Result<bool, SendError> {
        let (record, writer) = match self.writing(socket) {
            Some((record, writer)) if record.is_open() => (record, writer),
            _ => return Err(SendError::Gone),
        };
        let pace = writer.pace;
        match writer.transmit(record, frame, sharing) {
            Ok(Taken::NoWait) => {
                Ok(record.outbound.as_ref().is_some_and(|queue| queue.is_awaited(pace)))
            }
            Ok(Taken::Waiting) => {
                self.await_writable(socket);
                Ok(false)
            }
            Err(NotTaken::Full) => {
                self.close_for(socket, CloseCause::Slow, 1013, "slow consumer");
                Err(SendError::Overflow)
            }
            Err(NotTaken::Broken) => {
                self.disconnect(socket);
                Err(SendError::Gone)
            }
        }
    }

    /// Sends like [`Sockets::send`], but writes nothing and keeps the socket open if more than
    /// `queued_bytes_max` bytes are queued already, or if the queue has no room for the frame.
    pub fn offer(
        &mut self,
        socket: SocketId,
        frame: &Bytes,
        queued_bytes_max: usize,
    ) -> Result<(), OfferError> {
        let record = match self.slab.get(socket) {
            Some(record) if record.is_open() => record,
            _ => return Err(OfferError::Gone),
        };
        if let Some(queue) = &record.outbound
            && (queue.bytes() > queued_bytes_max
                || !queue.has_room(frame, self.limits.queued_bytes_max))
        {
            return Err(OfferError::Full);
        }
        self.send(socket, frame).map_err(|_| OfferError::Gone)
    }

    /// Answers a parked GET with a complete HTTP response, head and body. The connection then
    /// awaits its next request. The handler must not use the id any more. Returns false if the request is not parked.
    pub fn answer(&mut self, socket: SocketId, response: &[Bytes]) -> bool {
        let Some((held, keeps_alive)) = self.unpark(socket) else { return false };
        let Some(record) = self.slab.get_mut(socket) else { return false };
        record.state = State::Head { held, is_reused: true };
        match keeps_alive && !self.is_draining {
            true if self.write_response(socket, response) => self.resumed.push(socket),
            true => {}
            false => self.answer_and_end(socket, &last_response(response)),
        }
        true
    }

    /// Begins the response to a parked GET, with this head: an event stream, which takes frames as a WebSocket does,
    /// gets a comment in each half of `idle_timeout`, and ends with the connection. A request that is not parked is left
    /// alone: it has a stream already, or has gone.
    pub fn begin_stream(&mut self, socket: SocketId, head: &Bytes) {
        let Some((held, _)) = self.unpark(socket) else { return };
        self.update_partial_bytes(held.map_or(0, |held| held.bytes.capacity()), 0);
        let Some(record) = self.slab.get_mut(socket) else { return };
        record.state = State::Stream;
        // A stream has no further request whose client must be known.
        self.forget_client(socket);
        self.note_stream();
        if self.write_response(socket, std::slice::from_ref(head)) && self.is_draining {
            // A drain visits only the sockets that were open when it began.
            self.close_for(socket, CloseCause::Drained, 1012, "the server restarts");
        }
    }

    /// Replaces the key of a parked request.
    pub fn set_parked_key(&mut self, socket: SocketId, key: u32) {
        if let Some(record) = self.slab.get_mut(socket)
            && matches!(record.state, State::Parked { .. })
        {
            record.key = key;
        }
    }

    /// Answers a parked upgrade request: the WebSocket is open. `open` returns the key that is
    /// passed to later calls for this socket. It is not called if the client has gone; then this
    /// returns false.
    ///
    /// Frames that the client has sent already are handled when the call of
    /// [`crate::SocketHandler::handle_message`] or [`crate::SocketHandler::handle_tick`] has
    /// returned. Only those calls may open a parked request.
    pub fn open_parked(
        &mut self,
        socket: SocketId,
        handshake: &Handshake,
        open: impl FnOnce() -> u32,
    ) -> bool {
        let is_parked = |record: &Record| matches!(record.state, State::Parked { .. });
        let has_it = self.slab.get(socket).is_some_and(is_parked);
        if !has_it || !self.write_handshake(socket, handshake.bytes()) {
            return false;
        }
        let Some((held, _)) = self.unpark(socket) else { return false };
        let Some(record) = self.slab.get_mut(socket) else { return false };
        record.state = State::Open(Decoder::default());
        record.key = open();
        self.update_partial_bytes(held.as_ref().map_or(0, |held| held.bytes.capacity()), 0);
        // A WebSocket has no further request whose client must be known.
        self.forget_client(socket);
        self.note_opened();
        self.opened.push((socket, held));
        true
    }

    /// Answers a parked upgrade request with a status and one line, and ends the connection. The
    /// handler must not use the id any more.
    pub fn refuse_parked(&mut self, socket: SocketId, status: u16, reason: &str) {
        let Some((held, _)) = self.unpark(socket) else { return };
        self.update_partial_bytes(held.map_or(0, |held| held.bytes.capacity()), 0);
        self.count().refusals.add(1);
        self.answer_and_end(socket, &[refusal(status, reason, false)]);
    }

    /// Takes a request out of [`State::Parked`]. Returns the bytes that arrived after it, and
    /// whether its connection may serve another. `None`: it is not parked.
    fn unpark(&mut self, socket: SocketId) -> Option<(Option<Box<Held>>, bool)> {
        let record = self.slab.get_mut(socket)?;
        let State::Parked { held, keeps_alive } = &mut record.state else { return None };
        let unparked = (held.take(), *keeps_alive);
        record.state = State::Head { held: None, is_reused: true };
        record.seen = self.tick;
        self.parked -= 1;
        self.count().parked_now.sub(1);
        Some(unparked)
    }

    /// Answers a request whose bytes were all read. The connection then awaits its next request, or
    /// ends. `has_more`: bytes after the request were read.
    pub(crate) fn answer_request(
        &mut self,
        id: SocketId,
        response: &[Bytes],
        keeps_alive: bool,
        has_more: bool,
    ) {
        let is_written = match keeps_alive {
            true => self.write_response(id, response),
            false => self.write_response(id, &last_response(response)),
        };
        let tick = self.tick;
        let Some(record) = self.slab.get_mut(id).filter(|_| is_written) else { return };
        if keeps_alive {
            record.state = State::Head { held: None, is_reused: true };
            record.seen = tick;
            return;
        }
        let may_close = record.outbound.is_none()
            && !has_more
            && !self.clients.get(&id.index).is_some_and(|client| client.is_pair())
            && record.fd.as_ref().is_some_and(wire::is_all_read);
        match may_close {
            true => self.disconnect(id),
            false => self.linger(id),
        }
    }

    /// Writes the last response of a connection and ends it.
    pub(crate) fn answer_and_end(&mut self, id: SocketId, response: &[Bytes]) {
        if self.write_response(id, response) {
            self.linger(id);
        }
    }

    /// Writes a response, or queues the part that the kernel does not accept. Returns false if the
    /// connection broke.
    pub(crate) fn write_response(&mut self, id: SocketId, response: &[Bytes]) -> bool {
        let Some((record, writer)) = self.writing(id) else { return false };
        let taken = writer.transmit_response(record, response);
        self.finish_write(id, taken)
    }

    /// Writes the response to a WebSocket handshake. Returns false if the connection broke.
    pub(crate) fn write_handshake(&mut self, id: SocketId, answer: &[u8]) -> bool {
        let Some((record, writer)) = self.writing(id) else { return false };
        let taken = writer.transmit_bytes(record, answer);
        self.finish_write(id, taken)
    }

    fn finish_write(&mut self, id: SocketId, taken: Result<Taken, wire::Broken>) -> bool {
        match taken {
            Ok(Taken::NoWait) => {}
            Ok(Taken::Waiting) => self.await_writable(id),
            Err(wire::Broken) => self.disconnect(id),
        }
        taken.is_ok()
    }

    /// Writes queued bytes after the socket became writable.
    pub(crate) fn flush(&mut self, id: SocketId) {
        let counters = self.counters.shard(self.shard);
        let bytes_max = self.limits.queued_bytes_max;
        let Some(record) = self.slab.get_mut(id) else { return };
        let (Some(queue), Some(fd)) = (&mut record.outbound, &record.fd) else { return };
        let before = queue.bytes();
        let was = (queue.is_crowded(), queue.is_over(bytes_max));
        let flushed = queue.flush(fd, self.tick);
        counters.queued_bytes_now.sub((before - queue.bytes()) as u64);
        let Ok(written) = flushed else { return self.disconnect(id) };
        counters.bytes_out.add(written as u64);
        self.is_relieved |= was != (queue.is_crowded(), queue.is_over(bytes_max));
        if queue.is_empty() {
            counters.queue_ended(queue, self.tick);
            record.outbound = None;
            match record.state {
                State::Lingering => wire::end_writing(fd),
                State::Head { .. } => self.resumed.push(id),
                _ => {}
            }
        }
    }
}
