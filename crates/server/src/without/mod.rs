//! What stands in for a part of the server in a build without its feature.
//!
//! Each file has the interface of one part: [`nats`](crate::nats), `tls`, `jwt`, the thread of
//! `hooks`, and `pages`. Most of its types have no value. A setting that needs the part is an
//! error at the start: [`NotBuilt`].

/// A setting needs a part that this program does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot use {setting}: this program was built without the feature {feature:?} of the crate watchfire"
)]
pub struct NotBuilt {
    /// The setting, or the section of settings.
    pub setting: &'static str,
    /// The feature of the crate.
    pub feature: &'static str,
}
