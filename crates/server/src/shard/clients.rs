//! The clients of a shard, by their keys.

use std::ops::{Index, IndexMut};

use watchfire_types::Slab;

use super::client::Client;

/// The clients of a shard, by their keys. The key of a client that is gone is used again, with
/// another generation.
#[derive(Default)]
pub(super) struct Clients {
    entries: Slab<Option<Client>>,
    /// It wraps after four billion clients. No id of a client that is gone is kept until then.
    last_generation: u32,
}

const _: () =
    assert!(size_of::<Option<Client>>() == size_of::<Client>(), "a free entry has no tag");

impl Clients {
    /// The key and the generation that the next client gets.
    pub fn next(&self) -> (u32, u32) {
        (self.entries.next_slot(), self.last_generation.wrapping_add(1))
    }

    /// Adds a client, with a generation of its own.
    pub fn insert(&mut self, client: Client) -> u32 {
        self.last_generation = self.last_generation.wrapping_add(1);
        self.entries.insert(Some(Client { generation: self.last_generation, ..client }))
    }

    pub fn remove(&mut self, key: u32) -> Client {
        self.entries.remove(key).expect("the client exists")
    }

    /// A number above every key in use.
    pub fn key_count(&self) -> usize {
        self.entries.slots()
    }

    pub fn get(&self, key: usize) -> Option<&Client> {
        self.entries.get(u32::try_from(key).ok()?)?.as_ref()
    }

    pub fn get_mut(&mut self, key: usize) -> Option<&mut Client> {
        self.entries.get_mut(u32::try_from(key).ok()?)?.as_mut()
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
    fn a_key_is_used_again_with_another_generation() {
        let mut clients = Clients::default();
        assert_eq!([0, 1, 2].map(|index| clients.insert(client(index))), [0, 1, 2]);
        let first = clients[0].generation;
        clients.remove(0);
        clients.remove(2);
        assert!(clients.get(0).is_none() && clients.get_mut(2).is_none());
        let (key, generation) = clients.next();
        assert_eq!([3, 4, 5].map(|index| clients.insert(client(index))), [0, 2, 3]);
        assert_eq!((key, generation), (0, clients[0].generation));
        assert_ne!(clients[0].generation, first);
        assert!(clients.key_count() > 3);
    }
}
