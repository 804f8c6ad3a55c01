//! Sockets that have more to read than one turn gives them.

use std::collections::{HashSet, VecDeque};

use watchfire_types::SocketId;

/// First come, first served, each socket at most once. The epoll is edge-triggered: it does not
/// mention again what was left unread.
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
    fn a_socket_waits_once() {
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
