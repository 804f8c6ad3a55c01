//! The HTTP API of a [Watchfire](watchfire) server, as a feature: programs in any language publish to topics,
//! and ask about them.
//!
//! ```
//! use watchfire::{Server, Settings};
//! use watchfire_api::{Api, ApiSettings};
//!
//! let mut settings = Settings::default();
//! settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
//! settings.section_mut::<ApiSettings>().key = "a-secret-of-sixteen-bytes".into();
//! let server = Server::new(settings).with(Api::new()).start().unwrap();
//! ```
//!
//! A call is `POST /api/<method>` with a key; `methods` is the table of methods. The process that receives a
//! call answers it: it asks the other processes about their own clients (`processes`), and they answer from
//! what they know (`local_answers`). A request with an `Idempotency-Key` goes to the one process that decides
//! about that key (`once`, `repeats`), so a repeat publishes nothing, whichever process receives it.

mod error;
mod feature;
mod kept_messages;
mod keys;
mod local_answers;
mod methods;
mod names;
mod once;
mod params;
mod processes;
mod publish;
mod question;
mod realtime;
mod repeats;
mod requests;
mod settings;
mod storing;

pub use self::feature::Api;
pub use self::keys::ApiKeyError;
pub use self::settings::{ApiKey, ApiListen, ApiScope, ApiSettings};
