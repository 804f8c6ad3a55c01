//! The handshake of a client: its parameters, origin, subprotocols and version.
//!
//! ```
//! use watchfire_channels::Serializer;
//! use watchfire_channels::handshake::{OriginPolicy, Params};
//!
//! let params = Params::parse("user%5Bname%5D=ada&vsn=2.0.0")?;
//! assert_eq!(params.serializer(), Ok(Serializer::V2));
//! assert_eq!(params.map()["user"]["name"], "ada");
//!
//! let origin = Some("http://localhost:4000");
//! assert!(OriginPolicy::SameHost.allows(origin, "localhost:4000"));
//! # Ok::<(), watchfire_channels::handshake::QueryError>(())
//! ```

mod origin;
mod path;
mod query;
mod subprotocol;
mod version;

pub use origin::{OriginPattern, OriginPatternError, OriginPolicy, is_local_host};
pub use path::is_same_path;
pub use query::{PARAM_DEPTH_MAX, PARAMS_MAX, Params, QueryError};
pub use subprotocol::{PHOENIX, SubprotocolRefusal, Subprotocols, negotiate};
pub use version::UnsupportedVersion;
