//! The error of a setting that needs a part which this program does not have.

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
