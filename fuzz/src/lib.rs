//! Random bytes into every decoder.
//!
//! A [`Target`] is a plain function of bytes that must return, whatever they are: in bounded time,
//! in bounded memory, and without breaking a promise that it asserts (such as "what decodes encodes
//! to the same bytes"). [`TARGETS`] lists them all; a crate's targets are in `targets/<crate>.rs`.
//!
//! Inputs are mutations of the seeds in `fuzz/seeds/<target>/`, thrown by rng whose seed is known:
//!
//! - `cargo test -p watchfire-fuzz` runs each target over its seeds and a fixed number of inputs,
//!   the same ones every time.
//! - `make fuzz` runs each for a minute, and others every time.
//!
//! What fails is written to `fuzz/artifacts/`, and the message says how to run it again. An input
//! that found a bug belongs among the seeds, and into a small named test beside the code.
//!
//! To add a target: write the function, list it in [`TARGETS`], give it a few seeds.
//!
//! ```
//! use fuzz::{Campaign, Target};
//!
//! /// Promises what is not so.
//! fn has_no_zeros(bytes: &[u8]) {
//!     assert!(!bytes.contains(&0));
//! }
//!
//! let target = Target::new("no_zeros", has_no_zeros);
//! let campaign = Campaign::new(&target, vec![b"a seed".to_vec()], 1);
//! assert!(campaign.run(|throw| throw < 1000).is_err());
//! ```

mod campaign;
mod memory;
mod mutation;
mod seeds;
mod target;
pub mod targets;
mod watchdog;

pub use campaign::{Campaign, Failure};
pub use seeds::{artifact, read_seeds, seeds_folder};
pub use target::{Target, Usage};
pub use targets::TARGETS;
