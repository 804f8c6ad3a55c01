//! The terms of the OCI distribution specification: names, tags, digests, ranges and errors.

mod digest;
mod error;
mod name;
mod range;
mod reference;
mod request;

pub use digest::{Algorithm, Digest, DigestError, Hasher};
pub use error::{ApiError, ErrorCode};
pub use name::{NameError, Repository};
pub use range::{ByteRange, RangeError};
pub use reference::{Manifest, Reference, Tag, TagError};
pub use request::{Resource, parse_path};
