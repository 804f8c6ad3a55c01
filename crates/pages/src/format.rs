//! The format of the messages between the processes of a server about pages and sprites.

use watchfire::feature::PartName;

/// A hash of samples of all messages. A machine whose messages have another format does not have these
/// parts, for this one. A test computes it from the samples, so a change of any message changes it.
const FORMAT: u64 = 0xbb35_fd0c_47f8_c23f;

/// The name of a part that sends such messages.
pub(crate) fn part_name(name: &'static str) -> PartName {
    PartName::new(name, FORMAT)
}

#[cfg(test)]
mod tests {
    use watchfire::internal::format_of;

    use super::*;

    /// Counted up when a message has another meaning, and its bytes are the same.
    const MEANING: u64 = 1;

    #[test]
    fn the_format_changes_with_every_message_between_processes() {
        let mut samples = crate::page::message_samples();
        samples.extend(crate::sprites::message_samples());
        samples.extend(crate::neighbours::message_samples());
        assert_eq!(
            format!("{:#018x}", format_of(MEANING, &samples)),
            format!("{FORMAT:#018x}"),
            "a message between processes has changed: set FORMAT in format.rs to the first value"
        );
    }
}
