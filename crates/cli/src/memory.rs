//! Settings and calls of the memory allocator.
#![allow(unsafe_code)]

/// Keeps the memory of the allocator small while pieces of files come and go.
///
/// By default glibc raises its mmap threshold when the first long piece is freed, and then places
/// later pieces between short allocations. It also keeps up to eight arenas per core. Call this
/// while the process has one thread. The pieces are in [`watchfire_store::PooledBuffer`]s, which
/// are reused.
pub fn keep_pieces() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, PIECE_BYTES_MAX),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX),
        (libc::M_ARENA_MAX, ARENAS_MAX),
    ] {
        // SAFETY: the call takes numbers and changes only settings of the allocator; no other
        // thread runs yet. A refused setting keeps its value.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Returns the free memory of the allocator to the operating system. It walks the free lists, which
/// takes milliseconds, and delays allocations of other threads meanwhile.
pub fn return_free() {
    // SAFETY: the call takes a number, and changes only free memory of the allocator.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// The free memory that the allocator keeps; 0 when it does not tell. It walks the free lists, as above.
pub fn free_bytes() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call has no arguments, and returns numbers.
        unsafe { libc::mallinfo2() }.fordblks as u64
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Longer pieces return to the system immediately. Between short allocations they would leave holes
/// that cannot be reused: 12 to 31 MiB in 32 nodes that exchange a file.
#[cfg(target_env = "gnu")]
const PIECE_BYTES_MAX: i32 = 256 << 10;

/// Most free memory that an arena keeps at its end.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: i32 = 4 << 20;

/// One arena for the event loop, one for the threads that read and write files.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: i32 = 2;
