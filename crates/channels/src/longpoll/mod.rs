//! Long poll: GETs that wait for messages and POSTs that send them, for clients without WebSockets.
//!
//! [`LongPoll`] is one client's session, [`decode_body`] decodes its POSTs, and [`encode_answer`]
//! encodes responses. The driver finds sessions by their tokens.
//!
//! ```
//! use watchfire_channels::longpoll::{self, Input, LongPoll, LongPollLimits, Output, Status};
//! use watchfire_types::Instant;
//!
//! let limits = LongPollLimits::default();
//! let (mut session, mut outputs) = (LongPoll::new(Instant::ZERO), Vec::new());
//! session.handle_input(Instant::ZERO, &limits, Input::Poll { connection: 7 }, &mut outputs);
//! assert!(outputs.is_empty(), "without a message, the poll is parked");
//!
//! let message = longpoll::escape_message(br#"[null,null,"rooms:lobby","new_msg",{}]"#);
//! session.handle_input(Instant::ZERO, &limits, Input::Message(message), &mut outputs);
//! let Some(Output::Answer { connection: 7, status, messages }) = outputs.pop() else { panic!() };
//!
//! let mut body = Vec::new();
//! longpoll::encode_answer(status, Some("token"), &messages, &mut body);
//! let expected = r#"{"status":200,"token":"token","messages":["[null,null,\"rooms:lobby\",\"new_msg\",{}]"]}"#;
//! assert_eq!(body, expected.as_bytes());
//! ```

mod answer;
mod body;
mod session;

pub use answer::{BINARY_REFUSAL, Status, encode_answer, escape_message, message};
pub use body::{BASE64_LINE_BYTES_MAX, BodyError, Frame, LINES_MAX, decode_body};
pub use session::{EndReason, Input, LongPoll, LongPollLimits, Output};
