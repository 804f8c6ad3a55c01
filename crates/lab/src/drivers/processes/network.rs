//! Where the processes of a node run: on an address of the loopback device.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Most nodes with an address of their own on the loopback device.
pub const SITES_MAX: usize = 10_000;
/// The second numbers of loopback addresses that runs use, a block of addresses for each.
const BLOCKS: RangeInclusive<u8> = 1..=200;
const MARK_PORT: u16 = 4000;

/// The place of one node.
#[derive(Clone, Debug)]
pub struct Site {
    /// The id of the run, which every process of it has in its environment.
    pub run: String,
    pub address: Ipv4Addr,
    /// The folder of the node, which exists.
    pub folder: PathBuf,
    /// Variables for its processes.
    pub environment: Vec<(&'static str, String)>,
    /// Where its program writes a flame graph, if it is asked for one.
    pub flame: Option<PathBuf>,
}

impl Site {
    /// Starts a command here.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.spawn()
    }

    #[cfg(test)]
    pub fn for_test(name: &str) -> Site {
        let name = format!("watchfire-lab-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Site {
            run: "test".to_owned(),
            address: Ipv4Addr::LOCALHOST,
            folder,
            environment: Vec::new(),
            flame: None,
        }
    }
}

/// The addresses of a run. Other runs on this machine use others while this exists.
pub struct Addresses {
    block: u8,
    /// A port that only one run can have: it says that the block is taken.
    _taken: TcpListener,
}

impl Addresses {
    /// Takes the first block of addresses that no other run has.
    pub fn take() -> io::Result<Addresses> {
        let mut last = None;
        for block in BLOCKS {
            match TcpListener::bind((Ipv4Addr::new(127, block, 255, 254), MARK_PORT)) {
                Ok(taken) => return Ok(Addresses { block, _taken: taken }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
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
