//! Listening sockets: one for each shard and address, or more if they are inherited.

mod inherited;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

pub use self::inherited::InheritedListener;
use rustix::io::FdFlags;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::balancing::ConnectionBalancer;
use crate::limits::SocketLimits;

/// Connections that may wait to be accepted. The kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// Attempts to find a port that is free on every address, for port 0.
const PORT_ATTEMPTS_MAX: usize = 16;

/// Listening sockets and their addresses: for each shard, one socket on each address.
///
/// A single process opens its own listeners. With several processes, a supervisor opens all
/// listeners and passes each process its share in [`crate::SocketServerSettings::inherited`]. While
/// the supervisor keeps a copy of a listener, the kernel queues connections for it, so they wait
/// for the restarted process. To end the whole server, the supervisor closes its copies before the
/// processes drain, because a drain closes only the copies of its own process.
#[derive(Debug)]
pub struct Listeners {
    /// In the order of the request.
    addresses: Vec<SocketAddr>,
    /// By shard, then in the order of the addresses. Each shard has the same number of sockets for
    /// each address.
    shards: Vec<Vec<OwnedFd>>,
    /// The number of sockets of each address, if the sockets were opened in the order of their
    /// numbers and the socket `n` belongs to the shard `n % shards`.
    numbered: Option<usize>,
}

/// The server cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub cause: io::Error,
}

#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    #[error("{sockets} sockets cannot listen on {addresses} addresses")]
    Uneven { addresses: usize, sockets: usize },
    #[error("cannot use the inherited socket for {address}: it does not listen")]
    NotListening { address: SocketAddr },
    #[error("cannot use an inherited descriptor as a listener: {0}")]
    System(io::Error),
}

impl From<io::Error> for PartsError {
    fn from(cause: io::Error) -> Self {
        PartsError::System(cause)
    }
}

impl Listeners {
    /// Listens on each address with `sockets_each` sockets. The kernel distributes connections
    /// among them. Port 0 takes one free port for all sockets and addresses.
    ///
    /// `is_shared` sets `SO_REUSEPORT`, so that the same user can open more sockets on the address
    /// later. More than one socket for each address implies it. An address on which another server
    /// listens is always an error.
    pub fn open(
        addresses: &[SocketAddr],
        sockets_each: usize,
        is_shared: bool,
        limits: &SocketLimits,
    ) -> Result<Self, ListenError> {
        let is_shared = is_shared || sockets_each > 1;
        let has_ipv4 = addresses.iter().any(SocketAddr::is_ipv4);
        open_all(addresses, sockets_each, is_shared, limits, has_ipv4)
    }

    /// The addresses, with the ports that were bound, in the order of the request.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The number of sockets of each address, if a [`ConnectionBalancer`] can choose between them.
    /// The socket `n` then belongs to the shard `n % shards`. `None`: shards share sockets, or the
    /// order of the sockets is not known.
    pub fn numbered(&self) -> Option<usize> {
        self.numbered
    }

    /// The number of sockets that each shard has for each address: 1, unless more were inherited.
    pub fn sockets_per_shard(&self) -> usize {
        self.first_shard().len() / self.addresses.len().max(1)
    }

    /// A balancer that chooses which sockets of the port receive new connections.
    pub fn connection_balancer(&self) -> io::Result<ConnectionBalancer> {
        ConnectionBalancer::new(self.first_shard())
    }

    /// Distributes the listeners over processes, whose numbers of shards differ by at most 1.
    pub fn split(self, processes: usize) -> Vec<Listeners> {
        assert!(processes > 0, "listeners are split over at least one process");
        let Listeners { addresses, shards, numbered } = self;
        let mut shares: Vec<_> = (0..processes)
            .map(|_| Listeners { addresses: addresses.clone(), shards: Vec::new(), numbered })
            .collect();
        for (index, shard) in shards.into_iter().enumerate() {
            shares[index % processes].shards.push(shard);
        }
        shares
    }

    /// The addresses and the descriptors, for [`Listeners::from_parts`] in another process.
    pub fn into_parts(self) -> (Vec<SocketAddr>, Vec<OwnedFd>) {
        (self.addresses, self.shards.into_iter().flatten().collect())
    }

    /// Builds listeners from the result of [`Listeners::into_parts`], in the same order, with the
    /// same [`Listeners::sockets_per_shard`].
    pub fn from_parts(
        addresses: Vec<SocketAddr>,
        sockets_per_shard: usize,
        sockets: Vec<OwnedFd>,
    ) -> Result<Self, PartsError> {
        let each_shard = addresses.len() * sockets_per_shard;
        if sockets.is_empty() || each_shard == 0 || !sockets.len().is_multiple_of(each_shard) {
            let (addresses, sockets) = (addresses.len(), sockets.len());
            return Err(PartsError::Uneven { addresses, sockets });
        }
        let owners = addresses.iter().flat_map(|it| std::iter::repeat_n(it, sockets_per_shard));
        for (socket, &address) in sockets.iter().zip(owners.cycle()) {
            if !sockopt::socket_acceptconn(socket).map_err(io::Error::from)? {
                return Err(PartsError::NotListening { address });
            }
            set_flags(socket)?;
        }
        let mut sockets = sockets.into_iter();
        let mut shards = Vec::new();
        while sockets.len() > 0 {
            shards.push(sockets.by_ref().take(each_shard).collect());
        }
        Ok(Listeners { addresses, shards, numbered: None })
    }

    pub(crate) fn first_shard(&self) -> &[OwnedFd] {
        self.shards.first().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn into_shards(self) -> (Vec<SocketAddr>, Vec<Vec<OwnedFd>>) {
        (self.addresses, self.shards)
    }
}

/// Opens all sockets. For port 0, another port is tried if one is not free on every address.
/// `has_ipv4` tells whether the server listens on an IPv4 address.
fn open_all(
    addresses: &[SocketAddr],
    sockets_each: usize,
    is_shared: bool,
    limits: &SocketLimits,
    has_ipv4: bool,
) -> Result<Listeners, ListenError> {
    let any_port = addresses.iter().any(|address| address.port() == 0);
    let mut attempts = if any_port { PORT_ATTEMPTS_MAX } else { 1 };
    loop {
        attempts -= 1;
        match try_open_all(addresses, sockets_each, is_shared, limits, has_ipv4) {
            Err(error) if attempts > 0 && error.cause.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
}

fn try_open_all(
    addresses: &[SocketAddr],
    sockets_each: usize,
    is_shared: bool,
    limits: &SocketLimits,
    has_ipv4: bool,
) -> Result<Listeners, ListenError> {
    let mut listeners = Listeners {
        addresses: Vec::new(),
        shards: (0..sockets_each).map(|_| Vec::with_capacity(addresses.len())).collect(),
        numbered: Some(sockets_each),
    };
    let mut free_port = None;
    for &wanted in addresses {
        let failed = |cause| ListenError { address: wanted, cause };
        let mut address = wanted;
        if address.port() == 0 {
            address.set_port(free_port.unwrap_or(0));
        }
        if address.port() != 0 {
            // Bind without sharing first, to be sure that no other server listens there: with
            // `SO_REUSEPORT` it would receive half of our connections, unnoticed.
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
        // `[::]` also covers IPv4, which would conflict with an IPv4 address in the list.
        socket.set_only_v6(has_ipv4)?;
    }
    set_accepted_options(SockRef::from(&socket), limits)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Accepted sockets inherit these options, which saves three calls per connection.
fn set_accepted_options(listener: SockRef<'_>, limits: &SocketLimits) -> io::Result<()> {
    listener.set_tcp_nodelay(true)?;
    listener.set_send_buffer_size(limits.send_buffer_bytes)?;
    listener.set_tcp_user_timeout(Some(limits.user_timeout))
}

/// Sets the flags of a descriptor from another process, which may have others.
fn set_flags(socket: &OwnedFd) -> io::Result<()> {
    rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC)?;
    Ok(rustix::io::ioctl_fionbio(socket, true)?)
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
    fn an_address_on_which_another_server_listens_is_refused() {
        let first = open(&[loopback(0)], 2).unwrap();
        for (sockets_each, is_shared) in [(2, false), (1, false), (1, true)] {
            let limits = SocketLimits::default();
            let second = Listeners::open(first.addresses(), sockets_each, is_shared, &limits);
            assert_eq!(second.err().unwrap().cause.kind(), io::ErrorKind::AddrInUse);
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
            let again = Listeners::from_parts(addresses.clone(), 1, sockets).unwrap();
            assert_eq!((again.shards(), again.addresses()), (2, &addresses[..]));
        }
    }

    #[test]
    fn invalid_parts_are_refused() {
        let (addresses, mut sockets) = open(&[loopback(0)], 2).unwrap().into_parts();
        let from_parts = Listeners::from_parts;
        let two = [addresses[0]; 2].to_vec();
        let three = sockets.iter().chain(&sockets[..1]).map(|s| s.try_clone().unwrap()).collect();
        let uneven = from_parts(two, 1, three).unwrap_err();
        assert!(matches!(uneven, PartsError::Uneven { addresses: 2, sockets: 3 }), "{uneven}");
        assert!(matches!(from_parts(vec![], 1, vec![]), Err(PartsError::Uneven { .. })));
        assert!(matches!(from_parts(addresses.clone(), 1, vec![]), Err(PartsError::Uneven { .. })));

        let mut with = |socket: OwnedFd| {
            sockets.pop();
            sockets.push(socket);
            let sockets = sockets.iter().map(|socket| socket.try_clone().unwrap()).collect();
            from_parts(addresses.clone(), 1, sockets).unwrap_err()
        };
        let not_listening = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let error = with(not_listening.into());
        assert!(matches!(error, PartsError::NotListening { .. }), "{error}");
        let error = with(std::fs::File::open("/dev/null").unwrap().into());
        assert!(matches!(error, PartsError::System(_)), "{error}");
    }
}
