//! WebSocket frames (RFC 6455, section 5): the server's side, without a socket.
//!
//! [`Decoder`] decodes a client's bytes to messages. The encoders encode messages for
//! [`crate::Sockets::send`]. Extensions are not supported, so reserved bits are an error.

mod close;
mod decode;
mod encode;

pub use close::{close_code_is_valid, close_frame};
pub use decode::{DecodeError, Decoder, Incoming};
pub use encode::{HEADER_BYTES_MAX, binary_frame, frame, text_frame, write_header};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    /// Answers a ping, or is a heartbeat.
    Pong,
}

impl Opcode {
    /// The four bits of the opcode in a frame's first byte.
    pub const fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xa,
        }
    }

    /// Decodes the low four bits of a frame's first byte; `None` for a reserved opcode.
    pub const fn from_bits(bits: u8) -> Option<Opcode> {
        match bits {
            0x0 => Some(Opcode::Continuation),
            0x1 => Some(Opcode::Text),
            0x2 => Some(Opcode::Binary),
            0x8 => Some(Opcode::Close),
            0x9 => Some(Opcode::Ping),
            0xa => Some(Opcode::Pong),
            _ => None,
        }
    }

    /// Whether this is a close, ping or pong: short, unfragmented, and allowed between fragments.
    pub const fn is_control(self) -> bool {
        self.bits() & 0x8 != 0
    }
}
