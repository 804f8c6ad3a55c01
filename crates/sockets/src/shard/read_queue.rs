//! Sockets with more bytes than one turn reads.

use std::collections::{HashSet, VecDeque};

use watchfire_types::SocketId;

/// A FIFO queue with each socket at most once. It is needed because the epoll is edge-triggered and
/// does not report unread bytes again.
#[derive(Default)]
pub(super) struct ReadQueue {
    queue: VecDeque<SocketId>,
    queued: HashSet<SocketId>,
}

impl ReadQueue {
    pub(super) fn push(&mut self, socket: SocketId) {
        if self.queued.insert(socket) {
            self.queue.push_back(socket);
        }
    }

    pub(super) fn pop(&mut self) -> Option<SocketId> {
        let socket = self.queue.pop_front()?;
        self.queued.remove(&socket);
        Some(socket)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_queued_once() {
        let socket = |index| SocketId { index, generation: 0 };
        let mut read_queue = ReadQueue::default();
        read_queue.push(socket(1));
        read_queue.push(socket(2));
        read_queue.push(socket(1));
        assert_eq!(
            (read_queue.pop(), read_queue.pop(), read_queue.pop()),
            (Some(socket(1)), Some(socket(2)), None)
        );
        read_queue.push(socket(1));
        assert_eq!(read_queue.len(), 1);
    }
}
