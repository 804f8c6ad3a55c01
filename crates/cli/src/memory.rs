//! Memory for pieces of files.
#![allow(unsafe_code)]

/// Keeps memory that pieces of files were in for those that come next.
///
/// The C library's allocator otherwise asks the system for each piece and returns it, which then
/// clears it and hands it out page by page: a fifth of what it costs to get a file. And it keeps
/// apart what several threads had, up to eight times for each core. To be called while there is one
/// thread.
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

/// What is larger goes back to the system at once.
#[cfg(target_env = "gnu")]
const PIECE_BYTES_MAX: i32 = 4 << 20;

/// Most that is kept at the end of what an arena has from the system.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: i32 = 4 << 20;

/// One for the event loop, one for the threads that read and write files.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: i32 = 2;
