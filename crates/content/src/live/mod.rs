//! Live pages: entries that a publisher appends to a page while it is open.
//!
//! A page is its [`Beginning`] with the publisher's public key, and [`Entry`] nodes that link to earlier
//! ones. A [`Head`] is the publisher's signature under the last entry. A [`History`] collects heads and
//! entries from peers, says which blocks are missing, and finds out when a key was used in two places.
//!
//! The format is in docs/reference/protocols/live.md. The web client implements it too; `tests/vectors/live`
//! tests both.

mod beginning;
mod entry;
mod error;
mod fields;
mod head;
mod history;

pub use beginning::Beginning;
pub use entry::{Entry, Form};
pub use error::LiveError;
pub use head::{HEAD_BYTES, Head, PublisherKey};
pub use history::{History, NewEntry, Offer, Split};

/// The most entries of a page.
pub const ENTRIES_MAX: u32 = 10_000;
/// The longest node of an entry in bytes.
pub const NODE_BYTES_MAX: usize = 4096;
/// The longest title of a page, and the longest name of an entry, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest entry of the form [`Form::Text`] in bytes.
pub const TEXT_BYTES_MAX: u64 = 65_536;

/// The first bytes of the data of all nodes. The last character is the version.
const MAGIC: &[u8; 16] = b"watchfire live 1";

/// Returns the numbers of the nodes that entry `number` links to: at the distances 1, 2, 4 and so on.
/// Node 0 is the beginning.
pub fn linked_numbers(number: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map_while(move |bit| number.checked_sub(1 << bit))
}

#[cfg(test)]
mod tests {
    use super::linked_numbers;

    #[test]
    fn an_entry_links_to_nodes_at_powers_of_two() {
        let numbers = |of| linked_numbers(of).collect::<Vec<_>>();
        assert_eq!(numbers(1), [0]);
        assert_eq!(numbers(2), [1, 0]);
        assert_eq!(numbers(7), [6, 5, 3]);
        assert_eq!(numbers(8), [7, 6, 4, 0]);
        assert_eq!(numbers(10_000).len(), 14);
    }
}
