//! Memory for pieces of files.
#![allow(unsafe_code)]

/// Keeps the allocator's memory small while pieces of files come and go.
///
/// The C library otherwise learns from the first long piece that is returned to put those that follow
/// between all that is short, and keeps apart what several threads had, up to eight times for each core.
/// To be called while there is one thread. The pieces themselves are in [`store::Buffer`]s, which are used
/// again.
pub fn keep_pieces() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, PIECE_BYTES_MAX),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX),
        (libc::M_ARENA_MAX, ARENAS_MAX),
    ] {
        // SAFETY: it takes numbers, and changes nothing but the allocator's own settings; no other
        // thread is there to see them change. One that it refuses stays as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// What is longer goes back to the system at once: between smaller pieces it leaves holes that nothing fits
/// into, 12 to 31 MiB of them among 32 nodes that exchange a file.
#[cfg(target_env = "gnu")]
const PIECE_BYTES_MAX: i32 = 256 << 10;

/// Most that is kept at the end of what an arena has from the system.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: i32 = 4 << 20;

/// One for the event loop, one for the threads that read and write files.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: i32 = 2;
