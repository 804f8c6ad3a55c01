use std::ops::{Index, IndexMut};

use super::client::Client;
use crate::pieces::Pieces;

/// The end of the list of vacant places.
const NONE: u32 = u32::MAX;

/// The clients of a shard, by their keys. A key goes to the next client once its client is gone.
pub(super) struct Clients {
    places: Pieces<Place>,
    first_vacant: u32,
}

enum Place {
    Taken(Client),
    /// The next client here is to get this generation; `next` is the next vacant place.
    Vacant {
        generation: u32,
        next: u32,
    },
}

const _: () = assert!(size_of::<Place>() == size_of::<Client>(), "a vacant place costs nothing");

impl Clients {
    /// The key and the generation that the next client gets.
    pub fn next(&self) -> (u32, u32) {
        match self.places.get(self.first_vacant as usize) {
            Some(Place::Vacant { generation, .. }) => (self.first_vacant, *generation),
            Some(Place::Taken(_)) => unreachable!("only vacant places are listed as such"),
            None => {
                let key = u32::try_from(self.places.len()).expect("fewer than 2^32 clients");
                (key, 0)
            }
        }
    }

    /// Take in a client, with the generation of its place.
    pub fn insert(&mut self, client: Client) -> u32 {
        let (key, generation) = self.next();
        let taken = Place::Taken(Client { generation, ..client });
        match self.places.get_mut(key as usize) {
            Some(place) => {
                if let Place::Vacant { next, .. } = std::mem::replace(place, taken) {
                    self.first_vacant = next;
                }
            }
            None => self.places.push(taken),
        }
        key
    }

    pub fn remove(&mut self, key: u32) -> Client {
        let place = &mut self.places[key as usize];
        let Place::Taken(Client { generation, .. }) = *place else {
            unreachable!("a client that is removed is there")
        };
        let vacant =
            Place::Vacant { generation: generation.wrapping_add(1), next: self.first_vacant };
        let Place::Taken(client) = std::mem::replace(place, vacant) else { unreachable!() };
        self.first_vacant = key;
        client
    }

    /// How many keys there have been at once.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    pub fn get(&self, key: usize) -> Option<&Client> {
        match self.places.get(key)? {
            Place::Taken(client) => Some(client),
            Place::Vacant { .. } => None,
        }
    }

    pub fn get_mut(&mut self, key: usize) -> Option<&mut Client> {
        match self.places.get_mut(key)? {
            Place::Taken(client) => Some(client),
            Place::Vacant { .. } => None,
        }
    }
}

impl Default for Clients {
    fn default() -> Self {
        Clients { places: Pieces::default(), first_vacant: NONE }
    }
}

impl Index<usize> for Clients {
    type Output = Client;

    fn index(&self, key: usize) -> &Client {
        self.get(key).expect("the client is there")
    }
}

impl IndexMut<usize> for Clients {
    fn index_mut(&mut self, key: usize) -> &mut Client {
        self.get_mut(key).expect("the client is there")
    }
}

#[cfg(test)]
mod tests {
    use channels::Serializer;
    use hub::Subscriptions;
    use vocab::SocketId;

    use super::*;
    use crate::shard::client::{Allowance, Transport};

    fn client(index: u32) -> Client {
        Client {
            transport: Transport::WebSocket(SocketId { index, generation: 0 }),
            subscriptions: Subscriptions::default(),
            allowance: Allowance::default(),
            serializer: Serializer::V2,
            generation: 0,
            admission: None,
        }
    }

    #[test]
    fn a_key_goes_to_another_client_under_the_next_generation() {
        let mut clients = Clients::default();
        assert_eq!([0, 1, 2].map(|index| clients.insert(client(index))), [0, 1, 2]);
        clients.remove(0);
        clients.remove(2);
        assert!(clients.get(0).is_none() && clients.get_mut(2).is_none());
        assert_eq!(clients.next(), (2, 1));
        assert_eq!([3, 4, 5].map(|index| clients.insert(client(index))), [2, 0, 3]);
        assert_eq!([0, 1, 2, 3].map(|key| clients[key].generation), [1, 0, 1, 0]);
        assert_eq!(clients.places(), 4);
    }
}
