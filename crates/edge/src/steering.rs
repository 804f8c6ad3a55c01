//! Which of the sockets that share a port get the newcomers.

use std::io;
use std::os::fd::OwnedFd;

use nix::libc::{self, sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};

use crate::listen::Listeners;

/// Sends newcomers to some of the sockets that share a port, at random among those.
///
/// Left alone, the kernel spreads connections over all of them by a hash. With many processes to
/// few cores each then wakes for every single event of its few newcomers, which costs more than
/// what is to be done; and a hash is uneven. The kernel can be given a small program instead, by
/// any owner of one of the sockets.
#[derive(Debug)]
pub struct Steering {
    /// A listener of each address; what it is told holds for all of that address.
    listeners: Vec<OwnedFd>,
}

impl Steering {
    pub(crate) fn of(listeners: &Listeners) -> io::Result<Self> {
        let shard = listeners.first_shard().iter();
        Ok(Steering { listeners: shard.map(OwnedFd::try_clone).collect::<io::Result<_>>()? })
    }

    /// From now on, newcomers go to these sockets, by the order in which the port's sockets were
    /// opened. One that is not there leaves its newcomers to the kernel's hash.
    ///
    /// # Errors
    ///
    /// The system's; more than some thousand places make a program longer than the kernel takes.
    pub fn steer(&self, places: &[u32]) -> io::Result<()> {
        let mut program = program(places);
        let len = program.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = sock_fprog { len, filter: program.as_mut_ptr() };
        for listener in &self.listeners {
            setsockopt(listener, sockopt::AttachReusePortCbpf, &program)?;
        }
        Ok(())
    }
}

/// A random number modulo the number of places, and the place of that number.
fn program(places: &[u32]) -> Vec<sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const MODULO: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const RANDOM: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;

    let instruction = |code, jump_if_false, k| sock_filter { code, jt: 0, jf: jump_if_false, k };
    let mut program = vec![instruction(LOAD, 0, RANDOM)];
    program.push(instruction(MODULO, 0, places.len().max(1) as u32));
    for (number, place) in (0..).zip(places) {
        program.push(instruction(JUMP_IF_EQUAL, 1, number));
        program.push(instruction(RETURN, 0, *place));
    }
    // Never reached, unless there is no place: nobody's, which is the hash's.
    program.push(instruction(RETURN, 0, u32::MAX));
    program
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use rustix::net::{AddressFamily, SocketType};

    use super::*;
    use crate::settings::EdgeLimits;

    /// How many connections wait at each of the port's sockets.
    fn waiting(sockets: &[OwnedFd]) -> Vec<usize> {
        let count = |socket| std::iter::from_fn(|| rustix::net::accept(socket).ok()).count();
        sockets.iter().map(count).collect()
    }

    #[test]
    fn newcomers_go_where_they_are_steered_and_nowhere_else() {
        let addresses = ["127.0.0.1:0", "[::1]:0"].map(|a| a.parse::<SocketAddr>().unwrap());
        // A machine may be without IPv6.
        let has_ipv6 = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None).is_ok();
        let addresses = &addresses[..if has_ipv6 { 2 } else { 1 }];
        let listeners =
            Listeners::open(addresses, 8, true, &EdgeLimits::default()).expect("free ports");
        let steering = listeners.steering().unwrap();
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

        for places in [&[6][..], &[1, 4], &[7, 0, 3]] {
            steering.steer(places).unwrap();
            let _open = connect();
            for (shard, number) in by_shard(waiting(&sockets)).into_iter().enumerate() {
                let is_chosen = places.contains(&(shard as u32));
                assert_eq!(number > 0, is_chosen, "{number} at {shard}, steered to {places:?}");
            }
        }

        for nobody in [&[][..], &[99]] {
            steering.steer(nobody).unwrap();
            let open = connect();
            let hashed = waiting(&sockets);
            assert_eq!(hashed.iter().sum::<usize>(), open.len());
            assert!(hashed.iter().filter(|number| **number > 0).count() > 4, "{hashed:?}");
        }
    }

    #[test]
    fn a_program_that_is_too_long_is_an_error() {
        let listeners =
            Listeners::open(&["127.0.0.1:0".parse().unwrap()], 2, true, &EdgeLimits::default());
        let steering = listeners.unwrap().steering().unwrap();
        assert!(steering.steer(&vec![0; 10_000]).is_err());
        assert!(steering.steer(&vec![0; 100_000]).is_err());
    }
}
