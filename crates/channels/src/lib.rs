//! Phoenix Channels without I/O: frames, a client's conversation, handshake and long-poll session.
//!
//! The crate decodes a client's bytes into a [`Message`], decides the server's action for it
//! ([`route`]), and encodes the server's replies. Sockets, clocks and channels belong to the
//! driver, presence and fan-out to `hub`, and a channel's own code to the application.
//!
//! ```
//! use watchfire_channels::{Action, ConversationLimits, Kind, Payload, Reply, Serializer};
//!
//! let frame = r#"["3","3","rooms:lobby","phx_join",{"name":"ada"}]"#;
//! let join = watchfire_channels::decode_text(Serializer::V2, frame)?;
//! let action = watchfire_channels::route(&join, None, 0, &ConversationLimits::default());
//! assert_eq!(action, Action::Join);
//!
//! let mut out = Vec::new();
//! let reply = Reply {
//!     join_ref: &join.join_ref,
//!     reference: &join.reference,
//!     topic: &join.topic,
//!     status: "ok",
//!     response: Payload::Json("{}"),
//! };
//! assert_eq!(watchfire_channels::encode_reply(Serializer::V2, &reply, &mut out)?, Kind::Text);
//! assert_eq!(out, br#"["3","3","rooms:lobby","phx_reply",{"status":"ok","response":{}}]"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod codec;
mod conversation;
mod error;
mod frame;
pub mod handshake;
pub mod longpoll;
mod pattern;
pub mod realtime;
mod reference;

pub use codec::{
    ClientBroadcast, Serializer, client_broadcast, decode_binary, decode_sent_binary, decode_text,
    encode_broadcast, encode_broadcast_with_ref, encode_close, encode_error, encode_event_id,
    encode_heartbeat_reply, encode_push, encode_refusal, encode_reply,
};
pub use conversation::{Action, ConversationLimits, Refusal, route};
pub use error::{DecodeError, EncodeError, Field};
pub use frame::{Broadcast, Kind, Message, Payload, Push, Reply, event};
pub use pattern::{Pattern, PatternError, Patterns};
pub use reference::{JoinRef, REF_BYTES_MAX, Ref, RefTooLong};
