//! Whether the standard output was closed when the process began, as with `>&-`. Rust opens `/dev/null` in its
//! place before `main`, where content would be lost in silence.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the C library calls the functions of this section before Rust's own start. This one needs nothing of
// that start: it makes a system call and stores a bool.
#[used]
#[unsafe(link_section = ".init_array")]
static ASK: extern "C" fn() = ask;

extern "C" fn ask() {
    let flags = rustix::io::fcntl_getfd(rustix::stdio::stdout());
    IS_CLOSED.store(flags.is_err(), Ordering::Relaxed);
}

/// Fails if nobody receives what is written to the standard output.
pub fn check() -> anyhow::Result<()> {
    let is_closed = IS_CLOSED.load(Ordering::Relaxed);
    anyhow::ensure!(!is_closed, "cannot write to the standard output: it is closed");
    Ok(())
}
