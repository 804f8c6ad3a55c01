//! Where users come from: local addresses and ports, and the sockets that begin there.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use crate::failure::Failure;

/// Ports tried before an address is taken for full.
const TRIES_MAX: u32 = 2_000;

/// Addresses with their next port each. Without addresses the system chooses.
pub(super) struct Sources {
    addresses: Vec<(IpAddr, u16)>,
    next: usize,
    ports: (u16, u16),
}

impl Sources {
    /// Workers share addresses, so each begins at a place of its own in the range of ports.
    pub(super) fn new(
        addresses: &[IpAddr],
        ports: (u16, u16),
        worker: usize,
        workers: usize,
    ) -> Sources {
        let range = usize::from(ports.1 - ports.0) + 1;
        let first = ports.0 + (range * worker / workers.max(1)) as u16;
        let addresses = addresses.iter().map(|address| (*address, first)).collect();
        Sources { addresses, next: worker, ports }
    }

    /// A socket on its way to the server; `true` when it is there already.
    pub(super) fn connect(&mut self, server: SocketAddr) -> Result<(OwnedFd, bool), Failure> {
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP));
        let socket = socket.map_err(Failure::from_errno)?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(Failure::from_errno)?;
        if self.addresses.is_empty() {
            return begin(socket, server);
        }
        sockopt::set_socket_reuseaddr(&socket, true).map_err(Failure::from_errno)?;
        for _ in 0..TRIES_MAX {
            let source = self.next_source();
            match bind(&socket, &source) {
                Ok(()) => return begin(socket, server),
                Err(Errno::ADDRINUSE) => {}
                Err(Errno::ADDRNOTAVAIL) => return Err(Failure::SourceAddress),
                Err(errno) => return Err(Failure::from_errno(errno)),
            }
        }
        Err(Failure::SourcePorts)
    }

    fn next_source(&mut self) -> SocketAddr {
        let index = self.next % self.addresses.len();
        self.next = index + 1;
        let (first, last) = self.ports;
        let (address, next_port) = &mut self.addresses[index];
        let port = *next_port;
        *next_port = if port >= last { first } else { port + 1 };
        SocketAddr::new(*address, port)
    }
}

fn begin(socket: OwnedFd, server: SocketAddr) -> Result<(OwnedFd, bool), Failure> {
    match connect(&socket, &server) {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS) => Ok((socket, false)),
        Err(errno) => Err(Failure::from_errno(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 1, last])
    }

    #[test]
    fn addresses_take_turns_and_ports_come_round() {
        let mut sources = Sources::new(&[address(1), address(2)], (5000, 5001), 0, 1);
        let taken: Vec<_> = (0..6).map(|_| sources.next_source()).collect();
        let expected = [(1, 5000), (2, 5000), (1, 5001), (2, 5001), (1, 5000), (2, 5000)];
        assert_eq!(taken, expected.map(|(last, port)| SocketAddr::new(address(last), port)));
    }

    #[test]
    fn workers_begin_at_different_ports() {
        let first =
            |worker| Sources::new(&[address(1)], (1001, 2000), worker, 4).next_source().port();
        assert_eq!([first(0), first(1), first(3)], [1001, 1251, 1751]);
    }

    #[test]
    fn a_full_address_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        // The only port there is, is the listener's own.
        let ports = (server.port(), server.port());
        let mut sources = Sources::new(&[server.ip()], ports, 0, 1);
        assert_eq!(sources.connect(server).unwrap_err(), Failure::SourcePorts);
        let mut foreign = Sources::new(&["192.0.2.1".parse().unwrap()], (1024, 65535), 0, 1);
        assert_eq!(foreign.connect(server).unwrap_err(), Failure::SourceAddress);
    }
}
