use watchfire_types::NodeId;

use crate::bus::NODES_MAX;

/// A set of nodes, as a bit map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nodes([u64; 2]);

const _: () = assert!(size_of::<Nodes>() * 8 == NODES_MAX as usize);
const _: () = assert!(align_of::<Nodes>() == 8, "stored once per topic, beside 8 bytes");

impl Nodes {
    /// Adds the node; returns whether it is new.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let is_new = !self.contains(node);
        self.0[word(node)] |= bit(node);
        is_new
    }

    /// Removes the node; returns whether it was in the set.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let was_in = self.contains(node);
        self.0[word(node)] &= !bit(node);
        was_in
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.0[word(node)] & bit(node) != 0
    }

    pub fn is_empty(&self) -> bool {
        self.0 == [0, 0]
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0_u16..).zip(self.0).flat_map(|(index, mut word)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as u16)?;
                word &= word - 1;
                Some(NodeId(index * 64 + bit))
            })
        })
    }
}

fn word(node: NodeId) -> usize {
    usize::from(node.0 / 64)
}

fn bit(node: NodeId) -> u64 {
    1 << (node.0 % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_can_contain_every_node_of_a_bus() {
        let mut nodes = Nodes::default();
        for node in (0..NODES_MAX).map(NodeId) {
            assert!(!nodes.contains(node) && nodes.insert(node) && !nodes.insert(node));
        }
        assert!(nodes.iter().eq((0..NODES_MAX).map(NodeId)));
        assert!(nodes.remove(NodeId(64)) && !nodes.remove(NodeId(64)));
        assert_eq!(nodes.len(), usize::from(NODES_MAX) - 1);
    }
}
