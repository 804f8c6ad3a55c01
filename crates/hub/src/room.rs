/// Whether a collection has so much unused room that it should give some back.
///
/// Who does shrinks to twice what it holds: then growing and shrinking by turns does not copy
/// everything each time.
pub(crate) fn is_much_too_large(len: usize, capacity: usize) -> bool {
    capacity > 4 * len + 16
}
