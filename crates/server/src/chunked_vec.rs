use std::ops::{Index, IndexMut};

/// Elements of one piece.
const PIECE_LEN: usize = 256;

/// A list that grows in pieces of fixed size, which never move.
///
/// A doubling vector has, on average, a third more room than it needs, and leaves holes in the heap
/// when it moves. With some 50 bytes for each client and each of its topics, that is much.
pub(crate) struct ChunkedVec<T> {
    pieces: Vec<Vec<T>>,
}

impl<T> ChunkedVec<T> {
    pub fn len(&self) -> usize {
        let last = self.pieces.last().map_or(0, Vec::len);
        self.pieces.len().saturating_sub(1) * PIECE_LEN + last
    }

    pub fn push(&mut self, element: T) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE_LEN => piece.push(element),
            _ => {
                let mut piece = Vec::with_capacity(PIECE_LEN);
                piece.push(element);
                self.pieces.push(piece);
            }
        }
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        self.pieces.get(index / PIECE_LEN)?.get(index % PIECE_LEN)
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.pieces.get_mut(index / PIECE_LEN)?.get_mut(index % PIECE_LEN)
    }
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        ChunkedVec { pieces: Vec::new() }
    }
}

impl<T> Index<usize> for ChunkedVec<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.pieces[index / PIECE_LEN][index % PIECE_LEN]
    }
}

impl<T> IndexMut<usize> for ChunkedVec<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.pieces[index / PIECE_LEN][index % PIECE_LEN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_keeps_its_index_while_others_are_added() {
        let mut pieces = ChunkedVec::default();
        for element in 0..3 * PIECE_LEN + 1 {
            assert_eq!(pieces.len(), element);
            pieces.push(element);
        }
        assert!((0..pieces.len()).all(|index| pieces[index] == index));
        assert_eq!(pieces.get(pieces.len()), None);
        assert_eq!(pieces.get_mut(4 * PIECE_LEN), None);
    }
}
