use std::fmt;

use serde::{Deserialize, Serialize};
use watchfire_types::{NodeId, Rng};

/// Characters of a `phx_ref`.
pub(crate) const REFERENCE_LEN: usize = 16;

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NODE_BITS: u32 = u16::BITS;
const COUNTER_MASK: u64 = u64::MAX >> NODE_BITS;

/// The id of one version of a meta, the same on every node.
///
/// Clients see it as `phx_ref`. The low 16 bits are its node; above them is that node's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reference(u64);

impl Reference {
    pub(crate) const NONE: Reference = Reference(0);

    pub const fn node(self) -> NodeId {
        NodeId(self.0 as u16)
    }

    /// Writes the `phx_ref`: the number in URL-safe base 64.
    pub(crate) fn write(self, out: &mut String) {
        let bits = u128::from(self.0);
        let sextets = (0..REFERENCE_LEN).rev().map(|place| (bits >> (6 * place)) & 63);
        out.extend(sextets.map(|sextet| char::from(URL_SAFE[sextet as usize])));
    }

    /// Parses a `phx_ref`.
    pub(crate) fn parse(text: &str) -> Option<Reference> {
        let sextet = |byte| URL_SAFE.iter().position(|&known| known == byte);
        let bits = text.bytes().try_fold(0, |bits, byte| Some(bits << 6 | sextet(byte)? as u128));
        u64::try_from(bits?).ok().map(Reference)
    }
}

/// Formats as `phx_ref`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::with_capacity(REFERENCE_LEN);
        self.write(&mut shown);
        f.write_str(&shown)
    }
}

/// Generates the references of one process of a node.
///
/// The counter starts at one of 2⁴⁸ values, derived from the seed. It does not depend on other
/// nodes' references: otherwise a restarted node would continue near its old counter, and could
/// reuse references that clients know. Two processes that made a billion references each share one
/// with a probability of 1 to 140,000, which matters only if the key is the same too.
#[derive(Debug)]
pub(crate) struct References {
    node: NodeId,
    counter: u64,
}

impl References {
    pub fn new(seed: u64, node: NodeId) -> Self {
        // The drivers' seeds may differ in a few bits only; the counters must start far apart.
        let first = Rng::from_seed(seed).next_u64();
        References { node, counter: first & COUNTER_MASK }
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    pub fn next(&mut self) -> Reference {
        self.counter = (self.counter + 1) & COUNTER_MASK;
        Reference(self.counter << NODE_BITS | u64::from(self.node.0))
    }
}

#[cfg(test)]
impl Reference {
    pub(crate) fn numbered(number: u64) -> Self {
        Reference(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn references_are_sixteen_characters_and_all_different() {
        let mut shown = BTreeSet::new();
        for (seed, node) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 65_535), (u64::MAX, 7)] {
            let mut references = References::new(seed, NodeId(node));
            for _ in 0..1_000 {
                let reference = references.next();
                assert_eq!(reference.node(), NodeId(node));
                let text = reference.to_string();
                assert_eq!(text.len(), REFERENCE_LEN);
                assert!(text.bytes().all(|byte| URL_SAFE.contains(&byte)), "{text}");
                assert_eq!(Reference::parse(&text), Some(reference));
                shown.insert(text);
            }
        }
        assert_eq!(shown.len(), 6_000);
    }

    #[test]
    fn the_counter_wraps_around() {
        let mut references = References { node: NodeId(3), counter: COUNTER_MASK };
        assert_eq!(references.next(), Reference(3));
        assert_eq!(references.next(), Reference(1 << 16 | 3));
    }

    #[test]
    fn counters_of_different_seeds_start_far_apart() {
        let starts: BTreeSet<u64> =
            (0..1_000).map(|seed| References::new(seed, NodeId(1)).counter).collect();
        let gaps = starts.iter().zip(starts.iter().skip(1)).map(|(a, b)| b - a);
        assert_eq!(starts.len(), 1_000);
        assert!(gaps.min() > Some(100_000));
    }

    #[test]
    fn an_invalid_reference_is_not_parsed() {
        for text in ["AAAA+AAAAAAAAAAA", "AAAAAQAAAAAAAAAA", "________________"] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
    }
}
