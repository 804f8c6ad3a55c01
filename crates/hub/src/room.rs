/// No index: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Whether a collection should shrink because much of its capacity is unused.
///
/// Shrink to twice the length, so that growing and shrinking in turns does not always copy.
pub(crate) fn should_shrink(len: usize, capacity: usize) -> bool {
    capacity > 4 * len + 16
}
