//! Fuzz targets for every decoder.
//!
//! A [`Target`] is a function of bytes. It must return for any input, within bounds of time and
//! memory, and must keep the promises that it asserts, such as "decoded input encodes to the same
//! bytes". [`TARGETS`] lists all targets; those of a crate are in `targets/<crate>.rs`.
//!
//! - `cargo test -p watchfire-fuzz` runs each target with its seeds, and with small changes of them.
//!   The inputs are the same in every run.
//! - `make fuzz` runs each target for a minute with libFuzzer, which mutates inputs and keeps those
//!   that reach new code. It writes a failing input to `fuzz/artifacts/`.
//!
//! An input that found a bug belongs among the seeds, and into a small named test beside the code.
//!
//! To add a target, write the function, list it in [`TARGETS`], and add a few seeds in
//! `fuzz/seeds/<target>/`.
//!
//! ```
//! use fuzz::Target;
//!
//! fn has_no_zeros(bytes: &[u8]) {
//!     assert!(!bytes.contains(&0));
//! }
//!
//! let target = Target::new("no_zeros", has_no_zeros);
//! assert!(target.run(b"a seed").is_ok());
//! assert!(target.run(b"a \0").is_err());
//! ```

mod target;
pub mod targets;

pub use target::Target;
pub use targets::TARGETS;
use watchfire_testkit::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator(|size| size);
