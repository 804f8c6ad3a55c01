//! The clients of a shard, by their keys.

use std::ops::{Index, IndexMut};

use super::client::Client;
use crate::chunked_vec::ChunkedVec;

/// The end of the list of free entries.
const NONE: u32 = u32::MAX;

/// The clients of a shard, by their keys. The key of a client that is gone is used again.
pub(super) struct Clients {
    entries: ChunkedVec<Entry>,
    first_free: u32,
}

enum Entry {
    Used(Client),
    /// `generation` is that of the next client here, `next` the index of the next free entry.
    Free {
        generation: u32,
        next: u32,
    },
}

const _: () =
    assert!(size_of::<Entry>() == size_of::<Client>(), "a free entry needs no tag of its own");

impl Clients {
    /// The key and the generation that the next client gets.
    pub fn next(&self) -> (u32, u32) {
        match self.entries.get(self.first_free as usize) {
            Some(Entry::Free { generation, .. }) => (self.first_free, *generation),
            Some(Entry::Used(_)) => {
                unreachable!("the list of free entries holds only free entries")
            }
            None => {
                let key = u32::try_from(self.entries.len()).expect("fewer than 2^32 clients");
                (key, 0)
            }
        }
    }

    /// Adds a client, with the generation of its key.
    pub fn insert(&mut self, client: Client) -> u32 {
        let (key, generation) = self.next();
        let used = Entry::Used(Client { generation, ..client });
        match self.entries.get_mut(key as usize) {
            Some(entry) => {
                if let Entry::Free { next, .. } = std::mem::replace(entry, used) {
                    self.first_free = next;
                }
            }
            None => self.entries.push(used),
        }
        key
    }

    pub fn remove(&mut self, key: u32) -> Client {
        let entry = &mut self.entries[key as usize];
        let Entry::Used(Client { generation, .. }) = *entry else {
            unreachable!("the client exists")
        };
        let free = Entry::Free { generation: generation.wrapping_add(1), next: self.first_free };
        let Entry::Used(client) = std::mem::replace(entry, free) else { unreachable!() };
        self.first_free = key;
        client
    }

    /// The number of keys that are or were in use.
    pub fn key_count(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, key: usize) -> Option<&Client> {
        match self.entries.get(key)? {
            Entry::Used(client) => Some(client),
            Entry::Free { .. } => None,
        }
    }

    pub fn get_mut(&mut self, key: usize) -> Option<&mut Client> {
        match self.entries.get_mut(key)? {
            Entry::Used(client) => Some(client),
            Entry::Free { .. } => None,
        }
    }
}

impl Default for Clients {
    fn default() -> Self {
        Clients { entries: ChunkedVec::default(), first_free: NONE }
    }
}

impl Index<usize> for Clients {
    type Output = Client;

    fn index(&self, key: usize) -> &Client {
        self.get(key).expect("the client exists")
    }
}

impl IndexMut<usize> for Clients {
    fn index_mut(&mut self, key: usize) -> &mut Client {
        self.get_mut(key).expect("the client exists")
    }
}

#[cfg(test)]
mod tests {
    use watchfire_channels::Serializer;
    use watchfire_hub::Subscriptions;
    use watchfire_types::SocketId;

    use super::*;
    use crate::shard::client::{RateLimits, Transport};

    fn client(index: u32) -> Client {
        Client {
            transport: Transport::WebSocket(SocketId { index, generation: 0 }),
            subscriptions: Subscriptions::default(),
            rates: RateLimits::default(),
            serializer: Serializer::V2,
            generation: 0,
            details: None,
        }
    }

    #[test]
    fn a_key_is_used_again_with_the_next_generation() {
        let mut clients = Clients::default();
        assert_eq!([0, 1, 2].map(|index| clients.insert(client(index))), [0, 1, 2]);
        clients.remove(0);
        clients.remove(2);
        assert!(clients.get(0).is_none() && clients.get_mut(2).is_none());
        assert_eq!(clients.next(), (2, 1));
        assert_eq!([3, 4, 5].map(|index| clients.insert(client(index))), [2, 0, 3]);
        assert_eq!([0, 1, 2, 3].map(|key| clients[key].generation), [1, 0, 1, 0]);
        assert_eq!(clients.key_count(), 4);
    }
}
