//! HTTP files of other servers, such as models: `GET /proxy/<host>/<path>`.
//!
//! - Only hosts that the settings name are asked ([`Origin`], [`parse_path`]).
//! - A version of a file is its URL, a strong `ETag` and its length ([`Version`]). The hash of the three
//!   is its name in the store and in the fleet, as its digest is the name of a blob.
//! - The last version of each file is kept ([`Files`]), and the server is asked again when it is old.
//! - Everything without such a version is passed through and not stored.

mod files;
mod origin;
mod path;
mod version;

pub(crate) use files::Files;
pub(crate) use origin::{Origin, OriginFile, Probe, end_to_end_headers};
pub(crate) use path::{ProxyPath, parse_path};
pub(crate) use version::{Version, total_length, url_key};
