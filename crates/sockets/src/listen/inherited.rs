//! Listening sockets from another process: a service manager, or the server that this one replaces.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;
use socket2::SockRef;

use super::{ListenError, Listeners, open_all, open_one, set_accepted_options, set_flags};
use crate::limits::SocketLimits;

/// A listening socket from another process.
#[derive(Debug)]
pub struct InheritedListener {
    /// The address that the other process was asked to listen on, perhaps with port 0.
    pub wanted: SocketAddr,
    pub socket: OwnedFd,
}

impl InheritedListener {
    /// A socket with the address on which it listens.
    ///
    /// # Errors
    ///
    /// The socket is not a TCP socket, or it does not listen.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(InheritedListener { wanted: check_listening(&socket)?, socket })
    }
}

impl Listeners {
    /// Like [`Listeners::open`] with `SO_REUSEPORT`, for `shards` shards, but use inherited sockets
    /// for the addresses that have some. Inherited sockets for other addresses are closed.
    ///
    /// Every inherited socket of an address is served, because connections may wait in it. A shard
    /// listens on several sockets of an address if there are more sockets than shards. If there are
    /// fewer, and more cannot be opened, shards share sockets.
    pub fn open_with(
        mut inherited: Vec<InheritedListener>,
        addresses: &[SocketAddr],
        shards: usize,
        limits: &SocketLimits,
    ) -> Result<Self, ListenError> {
        assert!(shards > 0, "there is at least one shard");
        let mut groups = Vec::new();
        for &wanted in addresses {
            groups.push(take_group(&mut inherited, wanted, limits)?);
        }
        let most = groups.iter().map(|(_, sockets)| sockets.len()).max().unwrap_or(0);
        let sockets_each = most.max(shards);
        // The addresses without an inherited socket are opened together, so that they agree on a
        // free port.
        let missing = addresses.iter().zip(&groups).filter(|(_, it)| it.1.is_empty());
        let missing: Vec<SocketAddr> = missing.map(|(wanted, _)| *wanted).collect();
        let has_ipv4 = addresses.iter().any(SocketAddr::is_ipv4);
        let opened = open_all(&missing, sockets_each, true, limits, has_ipv4)?;
        let mut opened_addresses = opened.addresses.iter();
        let mut opened: Vec<Vec<OwnedFd>> = transpose(opened.shards, missing.len());
        let mut is_numbered = true;
        for (address, sockets) in &mut groups {
            if sockets.is_empty() {
                *address = *opened_addresses.next().expect("one for each missing address");
                *sockets = opened.remove(0);
            } else if sockets.len() < sockets_each {
                let further = sockets_each - sockets.len();
                match open_further(&sockets[0], *address, further, limits, has_ipv4) {
                    Ok(further) => sockets.extend(further),
                    // The shards share the sockets that there are.
                    Err(_) => is_numbered = false,
                }
            }
        }
        Listeners::distribute(groups, shards, sockets_each, is_numbered)
    }

    /// Copies of all sockets, for a process that takes them over with [`Listeners::open_with`].
    /// `wanted` has the configured addresses.
    pub fn copies(&self, wanted: &[SocketAddr]) -> io::Result<Vec<InheritedListener>> {
        let per_address = self.sockets_per_shard();
        let mut copies = Vec::new();
        for (index, &address) in self.addresses.iter().enumerate() {
            let wanted = wanted.get(index).copied().unwrap_or(address);
            let mut seen = BTreeSet::new();
            // In the order of their numbers; shared sockets are copied once.
            for row in 0..per_address {
                for shard in &self.shards {
                    let socket = &shard[index * per_address + row];
                    let inode = rustix::fs::fstat(socket).map_err(io::Error::from)?.st_ino;
                    if seen.insert(inode) {
                        copies.push(InheritedListener { wanted, socket: socket.try_clone()? });
                    }
                }
            }
        }
        Ok(copies)
    }

    /// Gives each shard its sockets: the socket with the number `n` goes to the shard `n % shards`.
    fn distribute(
        groups: Vec<(SocketAddr, Vec<OwnedFd>)>,
        shards: usize,
        sockets_each: usize,
        is_numbered: bool,
    ) -> Result<Self, ListenError> {
        let rows = sockets_each.div_ceil(shards);
        let mut listeners = Listeners {
            addresses: Vec::new(),
            shards: (0..shards).map(|_| Vec::new()).collect(),
            numbered: is_numbered.then_some(sockets_each),
        };
        for (address, sockets) in groups {
            let failed = |cause| ListenError { address, cause };
            let mut sockets: Vec<_> = sockets.into_iter().map(Some).collect();
            let count = sockets.len();
            let mut column: Vec<Vec<OwnedFd>> = (0..shards).map(|_| Vec::new()).collect();
            // From the last number, so that a shared socket is copied before it is taken.
            for number in (0..rows * shards).rev() {
                let socket = match number < count {
                    true => sockets[number].take().expect("each socket is taken once"),
                    false => {
                        let shared = sockets[number % count].as_ref();
                        shared.expect("it is taken later").try_clone().map_err(failed)?
                    }
                };
                column[number % shards].insert(0, socket);
            }
            for (shard, column) in listeners.shards.iter_mut().zip(column) {
                shard.extend(column);
            }
            listeners.addresses.push(address);
        }
        Ok(listeners)
    }
}

/// Removes the sockets of an address from the list, and returns them with the address that they are
/// bound to.
fn take_group(
    inherited: &mut Vec<InheritedListener>,
    wanted: SocketAddr,
    limits: &SocketLimits,
) -> Result<(SocketAddr, Vec<OwnedFd>), ListenError> {
    let failed = |cause| ListenError { address: wanted, cause };
    let (mut address, mut sockets, mut rest) = (wanted, Vec::new(), Vec::new());
    for listener in inherited.drain(..) {
        let bound = check_listening(&listener.socket).map_err(failed)?;
        if listener.wanted != wanted && bound != wanted {
            rest.push(listener);
            continue;
        }
        set_flags(&listener.socket).map_err(failed)?;
        set_accepted_options(SockRef::from(&listener.socket), limits).map_err(failed)?;
        address = bound;
        sockets.push(listener.socket);
    }
    *inherited = rest;
    Ok((address, sockets))
}

fn check_listening(socket: &OwnedFd) -> io::Result<SocketAddr> {
    if !sockopt::socket_acceptconn(socket).map_err(io::Error::from)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket does not listen"));
    }
    let address = SockRef::from(socket).local_addr()?.as_socket();
    let not_tcp = || io::Error::new(io::ErrorKind::InvalidInput, "the socket is not a TCP socket");
    address.ok_or_else(not_tcp)
}

/// Opens more sockets on the address of a socket. The kernel permits it if the socket has
/// `SO_REUSEPORT` and the same owner.
fn open_further(
    inherited: &OwnedFd,
    address: SocketAddr,
    count: usize,
    limits: &SocketLimits,
    has_ipv4: bool,
) -> io::Result<Vec<OwnedFd>> {
    if !SockRef::from(inherited).reuse_port()? {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let open = |_| Ok(open_one(address, limits, has_ipv4, true)?.into());
    (0..count).map(open).collect()
}

fn transpose(shards: Vec<Vec<OwnedFd>>, addresses: usize) -> Vec<Vec<OwnedFd>> {
    let mut groups: Vec<Vec<OwnedFd>> = (0..addresses).map(|_| Vec::new()).collect();
    for shard in shards {
        for (group, socket) in groups.iter_mut().zip(shard) {
            group.push(socket);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use socket2::{Domain, Socket, Type};

    use super::*;

    fn loopback(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], port))
    }

    fn open(addresses: &[SocketAddr], shards: usize) -> Listeners {
        Listeners::open(addresses, shards, true, &SocketLimits::default()).unwrap()
    }

    fn open_with(
        inherited: Vec<InheritedListener>,
        addresses: &[SocketAddr],
        shards: usize,
    ) -> Listeners {
        Listeners::open_with(inherited, addresses, shards, &SocketLimits::default()).unwrap()
    }

    fn inode(socket: &OwnedFd) -> u64 {
        rustix::fs::fstat(socket).unwrap().st_ino
    }

    fn inodes(listeners: &Listeners) -> Vec<Vec<u64>> {
        listeners.shards.iter().map(|shard| shard.iter().map(inode).collect()).collect()
    }

    /// Accepts once from all sockets of each shard. Returns the number of connections by shard.
    fn accept_all(listeners: &Listeners) -> Vec<usize> {
        let count = |socket| std::iter::from_fn(|| rustix::net::accept(socket).ok()).count();
        let shards = listeners.shards.iter();
        shards.map(|shard| shard.iter().map(count).sum()).collect()
    }

    #[test]
    fn the_same_number_of_shards_takes_over_the_same_sockets_in_order() {
        let wanted = [loopback(1, 0), loopback(2, 0)];
        let old = open(&wanted, 3);
        let new = open_with(old.copies(&wanted).unwrap(), &wanted, 3);
        assert_eq!(new.addresses(), old.addresses());
        assert_eq!(inodes(&new), inodes(&old));
        assert_eq!(new.numbered(), Some(3));
    }

    #[test]
    fn connections_that_wait_survive_the_end_of_the_old_server() {
        let wanted = [loopback(1, 0)];
        let old = open(&wanted, 4);
        let waiting: Vec<_> =
            (0..40).map(|_| TcpStream::connect(old.addresses()[0]).unwrap()).collect();
        for shards in [2, 4, 7] {
            let new = open_with(old.copies(&wanted).unwrap(), &wanted, shards);
            assert_eq!(new.shards(), shards);
            let all = (0..4).all(|n| {
                let socket = inode(&old.shards[n][0]);
                inodes(&new).iter().flatten().any(|it| *it == socket)
            });
            assert!(all, "{shards} shards do not serve all sockets");
            assert_eq!(new.numbered(), Some(shards.max(4)));
        }
        let new = open_with(old.copies(&wanted).unwrap(), &wanted, 2);
        drop(old);
        assert_eq!(accept_all(&new).iter().sum::<usize>(), waiting.len());
    }

    #[test]
    fn a_single_socket_without_reuseport_is_shared_by_all_shards() {
        let single = Listeners::open(&[loopback(1, 0)], 1, false, &SocketLimits::default());
        let single = single.unwrap();
        let addresses = single.addresses().to_vec();
        let new = open_with(single.copies(&addresses).unwrap(), &addresses, 3);
        assert_eq!(new.numbered(), None);
        let expected = inode(&single.shards[0][0]);
        assert_eq!(inodes(&new), vec![vec![expected]; 3]);
        // Passed on once, not three times.
        assert_eq!(new.copies(&addresses).unwrap().len(), 1);
    }

    #[test]
    fn an_added_address_is_opened_and_a_removed_one_is_closed() {
        let old = open(&[loopback(1, 0)], 2);
        let kept = old.addresses()[0];
        let with_more = [kept, loopback(3, 0)];
        let new = open_with(old.copies(&[kept]).unwrap(), &with_more, 2);
        assert_eq!(new.addresses()[0], kept);
        let added = new.addresses()[1];
        TcpStream::connect(added).unwrap();
        drop(old);
        let newest = open_with(new.copies(&with_more).unwrap(), &[added], 2);
        drop(new);
        assert_eq!(newest.addresses(), [added]);
        TcpStream::connect(added).unwrap();
        assert!(TcpStream::connect(kept).is_err());
    }

    #[test]
    fn sockets_that_do_not_listen_are_refused() {
        let not_listening = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let error = InheritedListener::new(not_listening.into()).unwrap_err();
        assert_eq!(error.to_string(), "the socket does not listen");
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(InheritedListener::new(one.into()).is_err());
        let unix = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        unix.bind(&socket2::SockAddr::unix("").unwrap()).unwrap();
        unix.listen(1).unwrap();
        let error = InheritedListener::new(unix.into()).unwrap_err();
        assert_eq!(error.to_string(), "the socket is not a TCP socket");
    }
}
