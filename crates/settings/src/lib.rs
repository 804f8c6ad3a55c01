//! The mechanism of the settings: sections, and the layers from which they are read.
//!
//! Each setting is a field of its section, and that is the only place where it is written: see
//! [`section!`]. The server has sections of its own, and each feature brings those that it reads.
//!
//! Settings come from four sources. Each overrides those before it: the defaults, one TOML file, the
//! environment (`WATCHFIRE_LIMITS_FRAME_BYTES_MAX=65536`), and the command line. An unknown key is an
//! error that names the nearest known key.

mod byte_size;
#[cfg(feature = "settings-file")]
pub mod documents;
#[cfg(feature = "settings-file")]
mod error;
#[cfg(feature = "settings-file")]
mod layers;
mod secret_file;
#[doc(hidden)]
pub mod section;
mod sections;
mod zero;

pub use byte_size::ByteSize;
#[cfg(feature = "settings-file")]
pub use error::SettingsError;
#[cfg(feature = "settings-file")]
pub use layers::{AllSettings, Layers};
pub use secret_file::read_secret;
pub use section::{Limit, Row, Section, section_limits};
pub use sections::{SectionType, Sections};
pub use zero::Zero;

/// The least length of a secret that a client sends, because a shorter one could be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;
