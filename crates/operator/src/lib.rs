//! The operator's listener of a [Watchfire](watchfire) server: a page, `/metrics`, and calls under `/admin`.
//!
//! ```
//! use watchfire::{Server, Settings};
//! use watchfire_operator::{AdminSettings, Operator};
//!
//! let mut settings = Settings::default();
//! settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
//! settings.section_mut::<AdminSettings>().listen = vec!["127.0.0.1:0".parse().unwrap()];
//! let server = Server::new(settings).with(Operator::new()).start().unwrap();
//! ```
//!
//! The listener has addresses, a thread and an event loop of its own, so it answers while the shards are busy, and
//! no route of it is ever on the public port. With several processes, all share its sockets: each may answer, and
//! shows the state of all. `listener` has the sockets, and `guard` decides which requests are answered.
//!
//! The first process of a machine *records*: once a second `recorder` asks all processes of the machine for their
//! metrics, computes a row of `figures`, and looks for `troubles`. The result is the `machine_record`. Any process
//! answers a request (`routes`): it asks the recorder of the machine for what was recorded, and all processes for
//! what they have now (`process_calls`). [`answers`] has the types of the answers, for programs that read them.
//!
//! The feature `profiles` adds CPU profiles of a process (`profiles`).

mod access;
pub mod answers;
mod client_call;
mod denied_addresses;
mod feature;
mod figures;
mod guard;
mod listener;
mod machine_record;
mod machines;
mod metrics_page;
mod page;
mod process_calls;
mod profiles;
mod recorder;
mod refusal;
mod routes;
mod settings;
mod troubles;

pub use self::feature::Operator;
pub use self::listener::AdminError;
#[cfg(feature = "profiles")]
pub use self::profiles::{CpuProfile, Profile, ProfileError};
pub use self::settings::AdminSettings;
