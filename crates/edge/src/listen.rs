//! The listeners: one for each shard and address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Socket, Type};

use crate::settings::EdgeLimits;

/// Connections that wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// How often other ports are tried when a free one is asked for and not free on every address.
const PORT_ATTEMPTS_MAX: usize = 16;

/// Listeners of all shards, and where they listen.
pub(crate) struct Listeners {
    /// By shard.
    pub(crate) shards: Vec<Vec<OwnedFd>>,
    /// In the order of the settings.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Why an address cannot be listened on.
#[derive(Debug)]
pub(crate) struct ListenError {
    pub(crate) address: SocketAddr,
    pub(crate) source: io::Error,
}

/// Listen on each address once a shard.
pub(crate) fn listen(
    addresses: &[SocketAddr],
    shards: usize,
    limits: &EdgeLimits,
) -> Result<Listeners, ListenError> {
    let any_port = addresses.iter().any(|address| address.port() == 0);
    let mut attempts = if any_port { PORT_ATTEMPTS_MAX } else { 1 };
    loop {
        attempts -= 1;
        match listen_once(addresses, shards, limits) {
            Err(error) if attempts > 0 && error.source.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
}

fn listen_once(
    addresses: &[SocketAddr],
    shards: usize,
    limits: &EdgeLimits,
) -> Result<Listeners, ListenError> {
    let mut listeners =
        Listeners { shards: (0..shards).map(|_| Vec::new()).collect(), addresses: Vec::new() };
    let mut free_port = None;
    let has_ipv4 = addresses.iter().any(SocketAddr::is_ipv4);
    for &wanted in addresses {
        let failed = |source| ListenError { address: wanted, source };
        let mut address = wanted;
        if address.port() == 0 {
            address.set_port(free_port.unwrap_or(0));
        }
        if address.port() != 0 {
            // Alone for a moment, to make sure that nobody else listens there: another server with
            // `SO_REUSEPORT` would take half of our connections, unnoticed by both.
            open(address, limits, has_ipv4, false).map_err(failed)?;
        }
        for shard in &mut listeners.shards {
            let socket = open(address, limits, has_ipv4, shards > 1).map_err(failed)?;
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

fn open(
    address: SocketAddr,
    limits: &EdgeLimits,
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

    #[test]
    fn port_zero_gives_all_shards_and_addresses_one_port() {
        let addresses = [loopback(0), SocketAddr::from(([127, 0, 0, 2], 0))];
        let listeners = listen(&addresses, 3, &EdgeLimits::default()).unwrap();
        let ports: Vec<u16> = listeners
            .shards
            .iter()
            .flatten()
            .map(|fd| rustix::net::getsockname(fd).unwrap())
            .map(|address| SocketAddr::try_from(address).unwrap().port())
            .collect();
        assert_eq!(ports, vec![listeners.addresses[0].port(); 6]);
    }

    #[test]
    fn an_address_that_another_server_shares_out_is_refused() {
        let first = listen(&[loopback(0)], 2, &EdgeLimits::default()).unwrap();
        let second = listen(&first.addresses, 2, &EdgeLimits::default());
        assert_eq!(second.err().unwrap().source.kind(), io::ErrorKind::AddrInUse);
    }
}
