//! A STUN server (RFC 8489) that supports Binding requests only: it returns the address from which
//! a client's UDP datagram arrived.
//!
//! Two browsers need their public addresses to connect directly. Behind a NAT, only an outside
//! server can see them. This crate is that server, so no third party is needed.
//!
//! Requests are not authenticated, so their source addresses can be forged. To be useless for
//! amplification, an answer is small ([`RESPONSE_BYTES_MAX`]), and an address gets at most
//! [`StunLimits::answers_per_second_per_address`]. Only requests are answered, so two servers
//! cannot keep each other busy.
//!
//! [`BindingRequest`] parses and answers without a socket; [`Responder`] does so on UDP sockets.
//!
//! ```
//! use std::net::UdpSocket;
//!
//! use watchfire_pages::stun::{Responder, StunLimits};
//!
//! let here = "127.0.0.1:0".parse().unwrap();
//! let responder = Responder::start(&[here], false, &StunLimits::default()).unwrap();
//!
//! let browser = UdpSocket::bind("127.0.0.1:0").unwrap();
//! let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"any 12 bytes"].concat();
//! browser.send_to(&request, responder.addresses()[0]).unwrap();
//! let mut answer = [0; watchfire_pages::stun::RESPONSE_BYTES_MAX];
//! let bytes = browser.recv(&mut answer).unwrap();
//! let port = u16::from_be_bytes([answer[26] ^ 0x21, answer[27] ^ 0x12]);
//! assert_eq!((bytes, port), (32, browser.local_addr().unwrap().port()));
//! ```

mod allowance;
mod announce;
mod counters;
mod message;
mod responder;
mod steering;

pub use allowance::StunLimits;
pub use announce::StunError;
pub(crate) use announce::{Announced, StunMetrics, announced, describe, open};
pub use counters::{StunCounters, StunTotals};
pub use message::{BindingRequest, ParseError, RESPONSE_BYTES_MAX};
pub use responder::{Responder, StartError};
