//! A network namespace without devices, for a server and its users on one machine.
//!
//! It has ports, limits and a table of TCP connections of its own. With the usual table of a host, which has 262,144
//! chains, two million connections give chains of 16, because both ends are in it. Every packet walks one. A delivery
//! to one of a million sockets then takes a third more CPU time of the server.
//!
//! Example: the table of 4,194,304 chains takes 32 MiB, and two million connections with both ends in it give chains of
//! one or two.
//!
//! The size of the table is a setting of the namespace in which another one is made, and counts for all that are made
//! later. So it is set, the namespace is made, and the old value is set again. A namespace that another program
//! makes in this moment has the larger table too, which does no harm.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};

use crate::namespace::Namespace;

/// Chains of the TCP table.
const TCP_CHAINS: u32 = 1 << 22;
/// The chains of the tables of later namespaces. Linux has the setting since 6.2.
const LATER_TCP_CHAINS: &str = "/proc/sys/net/ipv4/tcp_child_ehash_entries";
const SETTINGS: [(&str, &str); 3] = [
    ("net/core/somaxconn", "65535"),
    ("net/ipv4/tcp_max_syn_backlog", "262144"),
    // Every host permits it in a namespace. BBR, the default of some hosts, needs a timer for each socket.
    ("net/ipv4/tcp_congestion_control", "reno"),
];

/// A network namespace of its own, with the loopback interface alone.
pub struct PrivateNetwork {
    namespace: Namespace,
}

impl PrivateNetwork {
    /// Makes the namespace. It needs root.
    pub fn open() -> io::Result<PrivateNetwork> {
        let before = raise_chains()?;
        let opened = Namespace::open_alone();
        if let Some(before) = before {
            fs::write(LATER_TCP_CHAINS, before)?;
        }
        let network = PrivateNetwork { namespace: opened.map_err(|error| error.cause)? };
        network.enter(|| {
            let exist =
                SETTINGS.iter().map(|(name, value)| (Path::new("/proc/sys").join(name), value));
            // Older kernels lack some of these settings.
            exist
                .filter(|(path, _)| path.exists())
                .try_for_each(|(path, value)| fs::write(path, value))
        })??;
        Ok(network)
    }

    /// Starts a program in the namespace.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.enter(|| command.spawn())?
    }

    /// Runs `work` in a thread that has entered the namespace, and waits for it.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.namespace.enter(work)
    }
}

/// Sets the size of the table of later namespaces. Returns the old value; `None` without such a setting.
fn raise_chains() -> io::Result<Option<String>> {
    if !Path::new(LATER_TCP_CHAINS).exists() {
        return Ok(None);
    }
    let before = fs::read_to_string(LATER_TCP_CHAINS)?.trim().to_owned();
    fs::write(LATER_TCP_CHAINS, TCP_CHAINS.to_string())?;
    Ok(Some(before))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    #[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
    fn a_private_network_has_loopback_and_a_large_table() {
        let before = fs::read_to_string(LATER_TCP_CHAINS).ok();
        let network = PrivateNetwork::open().unwrap();
        assert_eq!(fs::read_to_string(LATER_TCP_CHAINS).ok(), before, "as it was");
        let inside = network.enter(|| {
            let listener = TcpListener::bind("127.3.0.1:4000").unwrap();
            TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            fs::read_to_string("/proc/sys/net/ipv4/tcp_ehash_entries").unwrap()
        });
        if before.is_some() {
            assert_eq!(inside.unwrap().trim(), TCP_CHAINS.to_string());
        }
        let mut child = network.spawn(&mut Command::new("true")).unwrap();
        assert!(child.wait().unwrap().success());
    }
}
