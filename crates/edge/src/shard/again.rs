//! Sockets that have more to read than one turn gives them.

use std::collections::{HashSet, VecDeque};

use vocab::SocketId;

/// First come, first served, each socket at most once. The epoll is edge-triggered: it does not
/// mention again what was left unread.
#[derive(Default)]
pub(super) struct Again {
    queue: VecDeque<SocketId>,
    queued: HashSet<SocketId>,
}

impl Again {
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
        let mut again = Again::default();
        again.push(socket(1));
        again.push(socket(2));
        again.push(socket(1));
        assert_eq!(
            (again.pop(), again.pop(), again.pop()),
            (Some(socket(1)), Some(socket(2)), None)
        );
        again.push(socket(1));
        assert_eq!(again.len(), 1);
    }
}
