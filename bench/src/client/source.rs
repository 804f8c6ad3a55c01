use std::net::{Ipv4Addr, SocketAddrV4};

const PORT_FIRST: u16 = 10_000;
const PORTS: u32 = 50_000;
const GENERATIONS: u8 = 128;

/// Addresses to connect from.
///
/// The kernel has about 28,000 ports for one address and searches long for the last free ones, so
/// the client chooses its addresses. Each round uses another 127.x network, because the ports of
/// the last round stay in TIME_WAIT for a minute.
#[derive(Default)]
pub struct Sources {
    generation: u8,
    taken: u32,
}

impl Sources {
    /// Continue with addresses that the last round did not use.
    pub fn start_round(&mut self) {
        self.generation = (self.generation + 1) % GENERATIONS;
        self.taken = 0;
    }

    pub fn take_next(&mut self) -> SocketAddrV4 {
        let (network, port) = (self.taken / PORTS, self.taken % PORTS);
        self.taken += 1;
        let address = Ipv4Addr::new(127, 64 + self.generation, network as u8, 1);
        SocketAddrV4::new(address, PORT_FIRST + port as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_address_is_given_twice_in_two_rounds() {
        let mut sources = Sources::default();
        let mut given = HashSet::new();
        for _ in 0..2 {
            sources.start_round();
            given.extend((0..120_000).map(|_| sources.take_next()));
        }
        assert_eq!(given.len(), 240_000);
    }
}
