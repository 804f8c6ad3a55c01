//! The listeners: one for each shard and address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::FdFlags;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use crate::balancing::ConnectionBalancer;
use crate::limits::SocketLimits;

/// Connections that wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// How often other ports are tried when a free one is asked for and not free on every address.
const PORT_ATTEMPTS_MAX: usize = 16;

/// Sockets that listen, and where: for each shard one on each address.
///
/// A socket server opens its own; a server of several processes has one of them open the listeners of all,
/// and gives each its share in [`crate::SocketServerSettings::inherited`]. A process that keeps copies keeps the
/// port: while one is open, the kernel goes on to queue connections for it, for a process that is
/// started anew in the place of another. So one who ends the whole server closes its copies before
/// the socket servers drain; they only close their own.
#[derive(Debug)]
pub struct Listeners {
    /// In the order in which they were asked for.
    addresses: Vec<SocketAddr>,
    /// By shard, then in the order of the addresses.
    shards: Vec<Vec<OwnedFd>>,
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

/// An error in inherited descriptors.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// There is no address, or not the same number of sockets for each.
    #[error("{sockets} sockets cannot listen on {addresses} addresses")]
    Uneven {
        /// How many addresses there are.
        addresses: usize,
        /// How many sockets there are.
        sockets: usize,
    },
    /// One does not listen.
    #[error("cannot use the inherited socket for {address}: it does not listen")]
    NotListening {
        /// Where it should.
        address: SocketAddr,
    },
    /// The system refused to look at one.
    #[error("cannot use an inherited descriptor as a listener: {0}")]
    System(#[from] io::Error),
}

impl Listeners {
    /// Listen on each address with `sockets_each` sockets, among which the kernel shares the
    /// connections out. Port 0 takes a free port, the same for all sockets and, where it is free
    /// there too, for all addresses.
    ///
    /// `is_shared` lets the same user open more sockets there later (`SO_REUSEPORT`), as several
    /// sockets each always do. An address on which another server listens is refused in any case.
    pub fn open(
        addresses: &[SocketAddr],
        sockets_each: usize,
        is_shared: bool,
        limits: &SocketLimits,
    ) -> Result<Self, ListenError> {
        let is_shared = is_shared || sockets_each > 1;
        let any_port = addresses.iter().any(|address| address.port() == 0);
        let mut attempts = if any_port { PORT_ATTEMPTS_MAX } else { 1 };
        loop {
            attempts -= 1;
            match open_all(addresses, sockets_each, is_shared, limits) {
                Err(error) if attempts > 0 && error.source.kind() == io::ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
    }

    /// Where they listen, in the order in which they were asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// For how many shards they are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Chooses which sockets of the port get new connections.
    pub fn connection_balancer(&self) -> io::Result<ConnectionBalancer> {
        ConnectionBalancer::new(self.first_shard())
    }

    /// Deal them out to processes, whose numbers of shards differ by one at most.
    pub fn split(self, processes: usize) -> Vec<Listeners> {
        assert!(processes > 0, "listeners are dealt out to somebody");
        let Listeners { addresses, shards } = self;
        let mut shares: Vec<_> = (0..processes)
            .map(|_| Listeners { addresses: addresses.clone(), shards: Vec::new() })
            .collect();
        for (index, shard) in shards.into_iter().enumerate() {
            shares[index % processes].shards.push(shard);
        }
        shares
    }

    /// The addresses and the descriptors, to be put together by [`Listeners::from_parts`] in
    /// another process.
    pub fn into_parts(self) -> (Vec<SocketAddr>, Vec<OwnedFd>) {
        (self.addresses, self.shards.into_iter().flatten().collect())
    }

    /// Put together what [`Listeners::into_parts`] took apart, in its order.
    pub fn from_parts(
        addresses: Vec<SocketAddr>,
        sockets: Vec<OwnedFd>,
    ) -> Result<Self, PartsError> {
        let is_even = !addresses.is_empty() && sockets.len().is_multiple_of(addresses.len());
        if !is_even || sockets.is_empty() {
            let (addresses, sockets) = (addresses.len(), sockets.len());
            return Err(PartsError::Uneven { addresses, sockets });
        }
        for (socket, &address) in sockets.iter().zip(addresses.iter().cycle()) {
            if !sockopt::socket_acceptconn(socket).map_err(io::Error::from)? {
                return Err(PartsError::NotListening { address });
            }
            // The process that passed it on may have set neither.
            rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC).map_err(io::Error::from)?;
            rustix::io::ioctl_fionbio(socket, true).map_err(io::Error::from)?;
        }
        let mut sockets = sockets.into_iter();
        let mut shards = Vec::new();
        while sockets.len() > 0 {
            shards.push(sockets.by_ref().take(addresses.len()).collect());
        }
        Ok(Listeners { addresses, shards })
    }

    pub(crate) fn first_shard(&self) -> &[OwnedFd] {
        self.shards.first().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn into_shards(self) -> (Vec<SocketAddr>, Vec<Vec<OwnedFd>>) {
        (self.addresses, self.shards)
    }
}

fn open_all(
    addresses: &[SocketAddr],
    sockets_each: usize,
    is_shared: bool,
    limits: &SocketLimits,
) -> Result<Listeners, ListenError> {
    let mut listeners = Listeners {
        addresses: Vec::new(),
        shards: (0..sockets_each).map(|_| Vec::with_capacity(addresses.len())).collect(),
    };
    let mut free_port = None;
    let has_ipv4 = addresses.iter().any(SocketAddr::is_ipv4);
    for &wanted in addresses {
        let failed = |source| ListenError { address: wanted, source };
        let mut address = wanted;
        if address.port() == 0 {
            address.set_port(free_port.unwrap_or(0));
        }
        if address.port() != 0 {
            // Bind without sharing first, to make sure that no other server listens there: one
            // with `SO_REUSEPORT` would take half of our connections, unnoticed by both.
            open_one(address, limits, has_ipv4, false).map_err(failed)?;
        }
        for shard in &mut listeners.shards {
            let socket = open_one(address, limits, has_ipv4, is_shared).map_err(failed)?;
            if address.port() == 0 {
                let bound = socket.local_addr().map_err(failed)?;
                address = bound.as_socket().unwrap_or(address);
            }
            shard.push(socket.into());
        }
        if wanted.port() == 0 {
            free_port = Some(address.port());
        }
        listeners.addresses.push(address);
    }
    Ok(listeners)
}

fn open_one(
    address: SocketAddr,
    limits: &SocketLimits,
    has_ipv4: bool,
    is_shared: bool,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    if address.is_ipv6() {
        // `[::]` alone means all of IPv4 too; beside an IPv4 address it would be in its way.
        socket.set_only_v6(has_ipv4)?;
    }
    // Accepted sockets inherit these three, which saves as many calls a connection.
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(limits.send_buffer_bytes)?;
    socket.set_tcp_user_timeout(Some(limits.user_timeout))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn open(addresses: &[SocketAddr], sockets_each: usize) -> Result<Listeners, ListenError> {
        Listeners::open(addresses, sockets_each, false, &SocketLimits::default())
    }

    fn bound_to(socket: &OwnedFd) -> SocketAddr {
        SocketAddr::try_from(rustix::net::getsockname(socket).unwrap()).unwrap()
    }

    #[test]
    fn port_zero_gives_all_shards_and_addresses_one_port() {
        let addresses = [loopback(0), SocketAddr::from(([127, 0, 0, 2], 0))];
        let listeners = open(&addresses, 3).unwrap();
        let port = listeners.addresses()[0].port();
        let (_, sockets) = listeners.into_parts();
        let ports: Vec<u16> = sockets.iter().map(|socket| bound_to(socket).port()).collect();
        assert_eq!(ports, vec![port; 6]);
    }

    #[test]
    fn an_address_that_another_server_shares_out_is_refused() {
        let first = open(&[loopback(0)], 2).unwrap();
        for (sockets_each, is_shared) in [(2, false), (1, false), (1, true)] {
            let limits = SocketLimits::default();
            let second = Listeners::open(first.addresses(), sockets_each, is_shared, &limits);
            assert_eq!(second.err().unwrap().source.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn each_process_gets_its_share_on_every_address() {
        let addresses = [loopback(0), SocketAddr::from(([127, 0, 0, 2], 0))];
        let shares = open(&addresses, 4).unwrap().split(2);
        assert_eq!(shares.len(), 2);
        for share in shares {
            assert_eq!(share.shards(), 2);
            let (addresses, sockets) = share.into_parts();
            let bound: Vec<_> = sockets.iter().map(bound_to).collect();
            assert_eq!(bound, [addresses.clone(), addresses.clone()].concat());
            let again = Listeners::from_parts(addresses.clone(), sockets).unwrap();
            assert_eq!((again.shards(), again.addresses()), (2, &addresses[..]));
        }
    }

    #[test]
    fn parts_that_cannot_listen_are_refused() {
        let (addresses, mut sockets) = open(&[loopback(0)], 2).unwrap().into_parts();
        let from_parts = Listeners::from_parts;
        let two = [addresses[0]; 2].to_vec();
        let three = sockets.iter().chain(&sockets[..1]).map(|s| s.try_clone().unwrap()).collect();
        let uneven = from_parts(two, three).unwrap_err();
        assert!(matches!(uneven, PartsError::Uneven { addresses: 2, sockets: 3 }), "{uneven}");
        assert!(matches!(from_parts(vec![], vec![]), Err(PartsError::Uneven { .. })));
        assert!(matches!(from_parts(addresses.clone(), vec![]), Err(PartsError::Uneven { .. })));

        let mut with = |socket: OwnedFd| {
            sockets.pop();
            sockets.push(socket);
            let sockets = sockets.iter().map(|socket| socket.try_clone().unwrap()).collect();
            from_parts(addresses.clone(), sockets).unwrap_err()
        };
        let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let error = with(silent.into());
        assert!(matches!(error, PartsError::NotListening { .. }), "{error}");
        let error = with(std::fs::File::open("/dev/null").unwrap().into());
        assert!(matches!(error, PartsError::System(_)), "{error}");
    }
}
