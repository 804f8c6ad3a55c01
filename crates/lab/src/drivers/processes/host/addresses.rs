//! Addresses of the loopback device.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;

/// Most nodes with an address of their own on the loopback device.
pub const SITES_MAX: usize = 10_000;
/// The second numbers of loopback addresses that runs use, a block of addresses for each.
const BLOCKS: RangeInclusive<u8> = 1..=200;
const MARK_PORT: u16 = 4000;

/// The addresses of a run. Other runs on this machine use others while this exists.
pub struct Addresses {
    block: u8,
    /// A port that only one run can have: it says that the block is taken.
    taken: TcpListener,
}

impl Addresses {
    /// Takes the first block of addresses that no other run has.
    pub fn take() -> io::Result<Addresses> {
        for block in BLOCKS {
            if let Some(taken) = Addresses::take_block(block)? {
                return Ok(taken);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Takes one block, such as that of a standing cluster. `None` if another run has it.
    pub fn take_block(block: u8) -> io::Result<Option<Addresses>> {
        match TcpListener::bind((Ipv4Addr::new(127, block, 255, 254), MARK_PORT)) {
            Ok(taken) => Ok(Some(Addresses { block, taken })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn block(&self) -> u8 {
        self.block
    }

    /// Processes that are started from now on inherit the port. So the block is taken as long as one of
    /// them runs, also when this process has ended.
    pub fn hand_on(&self) -> io::Result<()> {
        Ok(rustix::io::fcntl_setfd(&self.taken, rustix::io::FdFlags::empty())?)
    }

    /// The address of a node.
    pub fn of(&self, index: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, self.block, (index / 250) as u8, 1 + (index % 250) as u8)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nodes_of_all_runs_have_addresses_of_their_own() {
        let runs: Vec<Addresses> = (0..3).map(|_| Addresses::take().unwrap()).collect();
        let all: BTreeSet<_> =
            runs.iter().flat_map(|run| (0..SITES_MAX).map(|index| run.of(index))).collect();
        assert_eq!(all.len(), 3 * SITES_MAX);
        assert!(all.iter().all(|address| address.is_loopback()));
    }
}
