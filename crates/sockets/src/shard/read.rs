//! Reads from sockets, and handles the bytes according to the socket's state.

use watchfire_types::SocketId;

use super::EventLoop;
use crate::handler::SocketHandler;
use crate::record::{Held, Record, State};
use crate::wire::{self, Read};

/// The meaning of received bytes, which depends on the socket's state.
enum InputKind {
    Head,
    Frames,
    /// A request that waits for the previous response.
    Later,
    Ignored,
}

fn input_kind(record: &Record) -> InputKind {
    match &record.state {
        State::Head { .. } if record.outbound.is_some() => InputKind::Later,
        State::Head { .. } => InputKind::Head,
        State::Parked { .. } => InputKind::Later,
        State::Open(_) | State::Closing(_) => InputKind::Frames,
        State::ProxyHeader | State::Stream | State::Lingering | State::Dead => InputKind::Ignored,
    }
}

impl<T: SocketHandler> EventLoop<T> {
    /// Reads a socket once. After a full buffer more bytes may follow, and on an `ending` socket
    /// the end follows: both sockets are read again after the others had their turn.
    pub(super) fn read(&mut self, id: SocketId, ending: bool) {
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        if matches!(record.state, State::ProxyHeader) {
            return self.read_proxy_header(id, ending);
        }
        if is_full(record, self.threads.limits.head_bytes_max) {
            return;
        }
        if self.sockets.holds_back(id) {
            return;
        }
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        let Some(fd) = &record.fd else { return };
        match wire::read(fd, &mut self.buffer) {
            Read::Nothing => {}
            Read::End => self.sockets.disconnect(id),
            Read::Bytes(len) => {
                if record.is_open() {
                    record.seen = self.sockets.tick;
                }
                self.sockets.count().bytes_in.add(len as u64);
                let mut buffer = std::mem::take(&mut self.buffer);
                self.feed(id, &mut buffer[..len]);
                self.buffer = buffer;
                if ending || len == self.buffer.len() {
                    self.read_queue.push(id);
                }
            }
        }
        self.settle();
    }

    /// Handles bytes of a socket, after the bytes that it holds.
    pub(super) fn feed(&mut self, id: SocketId, bytes: &mut [u8]) {
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        if !matches!(input_kind(record), InputKind::Head) {
            return self.feed_all(id, bytes, true);
        }
        let State::Head { held, .. } = &mut record.state else { return };
        let Some(mut held) = held.take() else {
            return self.feed_all(id, bytes, true);
        };
        let before = held.bytes.capacity();
        let from = held.bytes.len();
        held.bytes.extend_from_slice(bytes);
        let may_end = may_end_head(&held.bytes, from);
        if may_end || held.bytes.len() > self.threads.limits.head_bytes_max {
            self.sockets.update_partial_bytes(before, 0);
            return self.feed_all(id, &mut held.bytes, false);
        }
        let after = held.bytes.capacity();
        if let Some(Record { state: State::Head { held: place, .. }, .. }) =
            self.sockets.slab.get_mut(id)
        {
            *place = Some(held);
        }
        self.check_held(id, before, after);
    }

    /// Handles the bytes that a socket held while its last response was pending, or reads a
    /// WebSocket again.
    pub(super) fn resume(&mut self, id: SocketId) {
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        if record.is_open() {
            // A silent client was not silent while it was not read.
            record.seen = self.sockets.tick;
            return self.read_queue.push(id);
        }
        if !matches!(input_kind(record), InputKind::Head) {
            return;
        }
        if let State::Head { held, .. } = &mut record.state
            && let Some(mut held) = held.take()
        {
            self.sockets.update_partial_bytes(held.bytes.capacity(), 0);
            self.feed_all(id, &mut held.bytes, true);
            self.settle();
            // More bytes may be in the kernel, and the edge-triggered epoll does not report them.
            self.read_queue.push(id);
        }
    }

    /// Handles the bytes that a client sent before its upgrade request was answered.
    pub(super) fn begin_frames(&mut self, id: SocketId, held: Option<Box<Held>>) {
        let Some(mut held) = held else { return };
        self.feed(id, &mut held.bytes);
        self.settle();
        // More bytes may be in the kernel, and the edge-triggered epoll does not report them.
        self.read_queue.push(id);
    }

    /// Handles all bytes. The socket's state may change on the way: frames may follow a head.
    fn feed_all(&mut self, id: SocketId, mut bytes: &mut [u8], mut is_first: bool) {
        while !bytes.is_empty() {
            let Some(record) = self.sockets.slab.get(id) else { return };
            let used = match input_kind(record) {
                InputKind::Head => self.feed_head(id, bytes, is_first),
                InputKind::Frames => return self.feed_frames(id, bytes),
                InputKind::Later => return self.hold(id, bytes, is_first),
                InputKind::Ignored => return,
            };
            is_first = true;
            bytes = &mut bytes[used..];
        }
    }

    /// Keeps bytes of a request for later. With `is_first` they are the request's first bytes, and
    /// its timeout starts.
    pub(super) fn hold(&mut self, id: SocketId, bytes: &[u8], is_first: bool) {
        let tick = self.sockets.tick;
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        let before = record.buffered_bytes();
        match &mut record.state {
            State::Head { held, .. } => {
                if is_first && held.is_none() {
                    record.seen = tick;
                }
                held.get_or_insert_default().bytes.extend_from_slice(bytes);
            }
            State::Parked { held, .. } => {
                held.get_or_insert_default().bytes.extend_from_slice(bytes);
            }
            _ => return,
        }
        let after = record.buffered_bytes();
        self.check_held(id, before, after);
    }

    fn check_held(&mut self, id: SocketId, before: usize, after: usize) {
        if !self.sockets.update_partial_bytes(before, after) {
            self.sockets.count().partial_refusals.add(1);
            match self.sockets.slab.get(id).map(|record| &record.state) {
                Some(State::Head { .. }) => self.refuse(id, 503, "too many unfinished requests"),
                _ => self.sockets.disconnect(id),
            }
        }
    }
}

/// Whether a socket holds the most bytes of its next request: the rest must stay in the kernel.
fn is_full(record: &Record, head_bytes_max: usize) -> bool {
    matches!(input_kind(record), InputKind::Later) && record.buffered_bytes() >= head_bytes_max
}

/// Whether a head may end at or after `from`, so that it must be parsed again.
fn may_end_head(bytes: &[u8], from: usize) -> bool {
    let tail = &bytes[from.saturating_sub(3)..];
    tail.windows(2).any(|pair| pair == b"\n\n") || tail.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_at_every_cut() {
        let head = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
        for cut in 0..head.len() {
            assert!(may_end_head(head, cut), "cut at {cut}");
            assert!(!may_end_head(&head[..head.len() - 1], cut), "cut at {cut}");
        }
        assert!(may_end_head(b"GET / HTTP/1.1\n\n", 15));
    }
}
