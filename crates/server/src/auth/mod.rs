//! Tokens (JWT, RFC 7519) with which clients authenticate, and the keys that verify them.
//!
//! [`Auth::verify`] turns a token into a [`Grant`]: a subject, and the topics that it may join and
//! publish to. The key fixes the algorithm. A token can neither choose another one nor do without
//! one. Keys come from the settings, and from a JWK set that a thread fetches ([`JwksThread`]); a
//! verification never waits for it.

mod claims;
#[cfg(feature = "jwt")]
mod cryptography;
mod error;
#[cfg(feature = "jwt")]
mod jwks;
#[cfg(feature = "jwt")]
mod keys;
#[cfg(all(feature = "jwt", test))]
mod signature_vectors;
mod socket_token;
#[cfg(feature = "jwt")]
mod verifier;
#[cfg(not(feature = "jwt"))]
#[path = "../without/jwt.rs"]
mod without_jwt;

pub(crate) use claims::{Grant, Identity};
pub use error::AuthError;
pub(crate) use error::TokenFault;
#[cfg(feature = "jwt")]
pub(crate) use jwks::JwksThread;
pub(crate) use socket_token::SocketToken;
#[cfg(feature = "jwt")]
pub(crate) use verifier::{Auth, TOKEN_BYTES_MAX};
#[cfg(not(feature = "jwt"))]
pub(crate) use without_jwt::{Auth, JwksThread, TOKEN_BYTES_MAX};
