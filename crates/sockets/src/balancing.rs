//! Balancing of new connections over the sockets that share a port.

use std::io;
use std::os::fd::OwnedFd;

use nix::libc::{self, sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};

/// Directs each new connection to a random one of the chosen sockets that share a port.
///
/// Without it, the kernel spreads connections over all sockets by a hash, which is uneven. With
/// many processes on few cores, each process then also wakes for single events of few connections,
/// which costs more than the work itself. Any owner of one of the sockets can attach a BPF program
/// that chooses instead.
#[derive(Debug)]
pub struct ConnectionBalancer {
    /// One listener for each address. Its program applies to all sockets of that address.
    listeners: Vec<OwnedFd>,
}

impl ConnectionBalancer {
    /// `listeners` has one listener for each address.
    pub(crate) fn new(listeners: &[OwnedFd]) -> io::Result<Self> {
        let listeners = listeners.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(ConnectionBalancer { listeners })
    }

    /// Sends new connections to these sockets from now on. A socket's number is its index in the
    /// order in which the port's sockets were opened. If no socket has the number, the kernel's
    /// hash decides.
    ///
    /// # Errors
    ///
    /// The system's error. The kernel rejects the program for more than about 2,000 targets.
    pub fn set_targets(&self, targets: &[u32]) -> io::Result<()> {
        let mut program = program(targets);
        let len = program.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = sock_fprog { len, filter: program.as_mut_ptr() };
        for listener in &self.listeners {
            setsockopt(listener, sockopt::AttachReusePortCbpf, &program)?;
        }
        Ok(())
    }
}

/// A BPF program that returns a random element of `targets`.
fn program(targets: &[u32]) -> Vec<sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const MODULO: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const RANDOM: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;

    let instruction = |code, jump_if_false, k| sock_filter { code, jt: 0, jf: jump_if_false, k };
    let mut program = vec![instruction(LOAD, 0, RANDOM)];
    program.push(instruction(MODULO, 0, targets.len().max(1) as u32));
    for (index, target) in (0..).zip(targets) {
        program.push(instruction(JUMP_IF_EQUAL, 1, index));
        program.push(instruction(RETURN, 0, *target));
    }
    // Reached only without targets. No socket has this number, so the hash decides.
    program.push(instruction(RETURN, 0, u32::MAX));
    program
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use rustix::net::{AddressFamily, SocketType};

    use super::*;
    use crate::limits::SocketLimits;
    use crate::listen::Listeners;

    /// The number of connections in the backlog of each socket.
    fn waiting(sockets: &[OwnedFd]) -> Vec<usize> {
        let count = |socket| std::iter::from_fn(|| rustix::net::accept(socket).ok()).count();
        sockets.iter().map(count).collect()
    }

    #[test]
    fn connections_go_to_the_chosen_sockets_only() {
        let addresses = ["127.0.0.1:0", "[::1]:0"].map(|a| a.parse::<SocketAddr>().unwrap());
        // Some machines have no IPv6.
        let has_ipv6 = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None).is_ok();
        let addresses = &addresses[..if has_ipv6 { 2 } else { 1 }];
        let listeners =
            Listeners::open(addresses, 8, true, &SocketLimits::default()).expect("free ports");
        let balancer = listeners.connection_balancer().unwrap();
        let (addresses, sockets) = listeners.into_parts();
        let connect = || {
            let connect = |address| TcpStream::connect(address).unwrap();
            (0..60).flat_map(|_| addresses.iter().map(connect)).collect::<Vec<_>>()
        };
        let by_shard = |waiting: Vec<usize>| {
            waiting.chunks(addresses.len()).map(|shard| shard.iter().sum()).collect::<Vec<usize>>()
        };

        let _open = connect();
        let hashed = by_shard(waiting(&sockets));
        assert!(hashed.iter().filter(|number| **number > 0).count() > 4, "{hashed:?}");

        for targets in [&[6][..], &[1, 4], &[7, 0, 3]] {
            balancer.set_targets(targets).unwrap();
            let _open = connect();
            for (shard, number) in by_shard(waiting(&sockets)).into_iter().enumerate() {
                let is_chosen = targets.contains(&(shard as u32));
                assert_eq!(number > 0, is_chosen, "{number} at shard {shard}, targets {targets:?}");
            }
        }

        for no_target in [&[][..], &[99]] {
            balancer.set_targets(no_target).unwrap();
            let open = connect();
            let hashed = waiting(&sockets);
            assert_eq!(hashed.iter().sum::<usize>(), open.len());
            assert!(hashed.iter().filter(|number| **number > 0).count() > 4, "{hashed:?}");
        }
    }

    #[test]
    fn a_program_that_is_too_long_is_an_error() {
        let listeners =
            Listeners::open(&["127.0.0.1:0".parse().unwrap()], 2, true, &SocketLimits::default());
        let balancer = listeners.unwrap().connection_balancer().unwrap();
        assert!(balancer.set_targets(&vec![0; 10_000]).is_err());
        assert!(balancer.set_targets(&vec![0; 100_000]).is_err());
    }
}
