//! Handles the bytes of an open WebSocket.

use watchfire_types::SocketId;

use super::EventLoop;
use crate::counters::CloseCause;
use crate::frame::{DecodeError, Decoder, Incoming, Opcode, close_frame, frame};
use crate::handler::SocketHandler;
use crate::record::State;

impl<T: SocketHandler> EventLoop<T> {
    /// Decodes frames and passes complete messages to the handler. Only a partial message is kept.
    pub(super) fn feed_frames(&mut self, id: SocketId, mut bytes: &mut [u8]) {
        let Some(mut decoder) = self.borrow_decoder(id) else { return };
        let before = decoder.buffered_bytes();
        loop {
            match decoder.decode(&mut bytes, self.threads.limits.message_bytes_max) {
                Ok(None) => break,
                Ok(Some(Incoming::Close(code))) => {
                    self.sockets.update_partial_bytes(before, 0);
                    return self.finish_closing(id, code);
                }
                Ok(Some(incoming)) => self.handle_incoming(id, incoming),
                Err(error) => {
                    self.sockets.update_partial_bytes(before, 0);
                    return self.fail(id, error);
                }
            }
            let is_receiving =
                self.sockets.slab.get(id).is_some_and(|record| {
                    matches!(record.state, State::Open(_) | State::Closing(_))
                });
            if !is_receiving {
                self.sockets.update_partial_bytes(before, 0);
                return;
            }
        }
        let after = decoder.buffered_bytes();
        self.return_decoder(id, decoder);
        if !self.sockets.update_partial_bytes(before, after) {
            self.sockets.count().partial_refusals.add(1);
            let cause = CloseCause::ByUs(1013);
            self.sockets.close_unread(
                id,
                cause,
                &close_frame(Some(1013), "too many unfinished messages"),
            );
            self.sockets.linger(id);
            self.settle();
        }
    }

    fn borrow_decoder(&mut self, id: SocketId) -> Option<Decoder> {
        match &mut self.sockets.slab.get_mut(id)?.state {
            State::Open(decoder) | State::Closing(decoder) => Some(std::mem::take(decoder)),
            _ => None,
        }
    }

    fn return_decoder(&mut self, id: SocketId, decoder: Decoder) {
        if let Some(record) = self.sockets.slab.get_mut(id)
            && let State::Open(place) | State::Closing(place) = &mut record.state
        {
            *place = decoder;
        }
    }

    fn handle_incoming(&mut self, id: SocketId, incoming: Incoming<'_>) {
        let key = match self.sockets.slab.get(id) {
            Some(record) if record.is_open() => record.key,
            // Closing: the handler was already notified.
            _ => return,
        };
        match incoming {
            Incoming::Text(text) => {
                self.sockets.count().messages.add(1);
                self.handler.handle_text(&mut self.sockets, id, key, &text);
            }
            Incoming::Binary(bytes) => {
                self.sockets.count().messages.add(1);
                self.handler.handle_binary(&mut self.sockets, id, key, &bytes);
            }
            Incoming::Ping(payload) => {
                // A client that does not read its pongs is closed as a slow one.
                let _ = self.sockets.send(id, &frame(Opcode::Pong, &payload));
            }
            Incoming::Pong | Incoming::Close(_) => {}
        }
        self.settle();
    }

    /// Handles the client's close frame. If the client closed first, the answer has its own code.
    fn finish_closing(&mut self, id: SocketId, code: Option<u16>) {
        self.sockets.close_unread(id, CloseCause::ByPeer, &close_frame(code, ""));
        self.sockets.linger(id);
        self.settle();
    }

    fn fail(&mut self, id: SocketId, error: DecodeError) {
        let cause = match error {
            DecodeError::TooBig { .. } => CloseCause::TooBig,
            DecodeError::Protocol(_) | DecodeError::Utf8 => CloseCause::Protocol,
        };
        let last = close_frame(Some(error.close_code()), &error.to_string());
        self.sockets.close_unread(id, cause, &last);
        self.sockets.linger(id);
        self.settle();
    }
}
