/// The memory of an allocation of a size with the allocator of glibc: multiples of 16 bytes, of which 8 are its own.
///
/// ```
/// use watchfire_types::heap_bytes;
///
/// assert_eq!([0, 1, 24, 25, 100].map(heap_bytes), [0, 32, 32, 48, 112]);
/// ```
pub const fn heap_bytes(size: usize) -> usize {
    match size {
        0 => 0,
        1..=24 => 32,
        _ => (size + 8).next_multiple_of(16),
    }
}
