//! Tells whoever asks by UDP at which address they are seen: STUN Binding (RFC 8489), and nothing
//! else of STUN.
//!
//! Two browsers that are to talk directly must tell each other where they can be reached. Behind a
//! router only somebody outside can tell them; this is that somebody, so that no third party has
//! to be asked.
//!
//! Nobody proves who they are, so an answer may go to one who never asked. It is therefore small
//! ([`ANSWER_BYTES_MAX`]), and an address gets only [`StunLimits::answers_per_second_per_address`] of
//! them: what somebody can make of it against another is less than they could send themselves.
//! Only requests are answered, so that two responders cannot keep each other busy.
//!
//! [`BindingRequest`] reads and answers without a socket; [`Responder`] does so on some.
//!
//! ```
//! use std::net::UdpSocket;
//!
//! use watchfire_stun::{Responder, StunLimits};
//!
//! let here = "127.0.0.1:0".parse().unwrap();
//! let responder = Responder::start(&[here], false, &StunLimits::default()).unwrap();
//!
//! let browser = UdpSocket::bind("127.0.0.1:0").unwrap();
//! let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"any 12 bytes"].concat();
//! browser.send_to(&request, responder.addresses()[0]).unwrap();
//! let mut answer = [0; watchfire_stun::ANSWER_BYTES_MAX];
//! let bytes = browser.recv(&mut answer).unwrap();
//! let port = u16::from_be_bytes([answer[26] ^ 0x21, answer[27] ^ 0x12]);
//! assert_eq!((bytes, port), (32, browser.local_addr().unwrap().port()));
//! ```

mod allowance;
mod counters;
mod message;
mod responder;

pub use allowance::StunLimits;
pub use counters::{StunCounters, StunTotals};
pub use message::{ANSWER_BYTES_MAX, BindingRequest, NoRequest};
pub use responder::{Responder, StartError};
