//! The UDP sockets of the direct connections of one page.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::Datagram;

/// Most addresses at which a client can be reached. Further ones are not offered.
const ADDRESSES_MAX: usize = 8;
/// Larger datagrams are cut, and then rejected. WebRTC sends at most 1,500 bytes.
const DATAGRAM_BYTES_MAX: usize = 2048;
/// Datagrams that are received before anything else is done.
const BATCH_MAX: usize = 64;
/// Bytes that the kernel may queue for a socket.
pub(super) const QUEUED_BYTES_MAX: usize = 2 << 20;

/// Bounds the direct connections of all clients that share it.
#[derive(Clone, Debug)]
pub struct DirectLimit(Arc<Semaphore>);

impl DirectLimit {
    /// At the limit, further peers are reached through the relay only.
    pub fn new(connections_max: usize) -> Self {
        DirectLimit(Arc::new(Semaphore::new(connections_max)))
    }

    pub(super) fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}

/// Sockets that are bound when the first call needs them.
#[derive(Debug, Default)]
pub(crate) struct DirectSockets {
    bound: OnceLock<Vec<(SocketAddr, UdpSocket)>>,
    was_bound: Notify,
}

impl DirectSockets {
    /// Binds the sockets at the first call. Must be called within a tokio runtime.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let sockets = self.bound.get_or_init(bind_all);
        self.was_bound.notify_one();
        sockets.iter().map(|(address, _)| *address).collect()
    }

    /// Waits for a datagram. Returns it, and others that are here already.
    pub(crate) async fn receive(&self) -> Vec<Datagram> {
        loop {
            match self.bound.get() {
                Some(sockets) if !sockets.is_empty() => {
                    return poll_fn(|context| poll_receive(sockets, context)).await;
                }
                Some(_) => return std::future::pending().await,
                None => self.was_bound.notified().await,
            }
        }
    }

    /// A datagram that cannot be sent is lost, as any datagram may be.
    pub(crate) async fn send(&self, datagram: &Datagram) {
        let sockets = self.bound.get().into_iter().flatten();
        let Some((_, socket)) = sockets.into_iter().find(|(at, _)| *at == datagram.from) else {
            return;
        };
        if let Err(error) = socket.send_to(&datagram.bytes, datagram.to).await {
            tracing::trace!(to = %datagram.to, %error, "a datagram was not sent");
        }
    }
}

fn poll_receive(
    sockets: &[(SocketAddr, UdpSocket)],
    context: &mut Context<'_>,
) -> Poll<Vec<Datagram>> {
    let mut received = Vec::new();
    for (to, socket) in sockets {
        while received.len() < BATCH_MAX {
            let mut buffer = [0; DATAGRAM_BYTES_MAX];
            let mut buffer = ReadBuf::new(&mut buffer);
            match socket.poll_recv_from(context, &mut buffer) {
                Poll::Ready(Ok(from)) => {
                    let bytes = buffer.filled().to_vec();
                    received.push(Datagram { from, to: *to, bytes });
                }
                // An earlier datagram caused the error, for example because its port is closed.
                Poll::Ready(Err(_)) => {
                    context.waker().wake_by_ref();
                    break;
                }
                Poll::Pending => break,
            }
        }
    }
    if received.is_empty() { Poll::Pending } else { Poll::Ready(received) }
}

/// A socket for each address of this machine.
fn bind_all() -> Vec<(SocketAddr, UdpSocket)> {
    let sockets = local_addresses().into_iter().filter_map(|address| {
        let bound = bind(address);
        if let Err(error) = &bound {
            tracing::debug!(%address, %error, "cannot bind a UDP socket");
        }
        bound.ok()
    });
    sockets.collect()
}

/// The addresses of this machine to be reached at.
pub(super) fn local_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot list the addresses of this machine: no direct connections");
        Vec::new()
    });
    usable(interfaces.iter().map(|interface| interface.ip()).collect())
}

/// The addresses to be reached at. Loopback only if there is no other.
fn usable(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    // An address of the link alone has no meaning without its interface.
    addresses.retain(|address| match address {
        IpAddr::V4(address) => !address.is_link_local() && !address.is_unspecified(),
        IpAddr::V6(address) => !address.is_unicast_link_local() && !address.is_unspecified(),
    });
    if addresses.iter().any(|address| !address.is_loopback()) {
        addresses.retain(|address| !address.is_loopback());
    }
    addresses.sort();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

fn bind(address: IpAddr) -> io::Result<(SocketAddr, UdpSocket)> {
    let socket = std::net::UdpSocket::bind((address, 0))?;
    socket.set_nonblocking(true)?;
    let options = socket2::SockRef::from(&socket);
    // The kernel may allow less.
    let _ = options.set_recv_buffer_size(QUEUED_BYTES_MAX);
    let _ = options.set_send_buffer_size(QUEUED_BYTES_MAX);
    Ok((socket.local_addr()?, UdpSocket::from_std(socket)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable_of(addresses: &[&str]) -> Vec<String> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        usable(addresses).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn loopback_is_used_only_without_another_address() {
        assert_eq!(usable_of(&["127.0.0.1", "::1"]), ["127.0.0.1", "::1"]);
        assert_eq!(
            usable_of(&["127.0.0.1", "fe80::1", "169.254.1.1", "10.0.0.1", "fd00::1", "10.0.0.1"]),
            ["10.0.0.1", "fd00::1"]
        );
    }

    #[test]
    fn connections_beyond_the_limit_are_rejected() {
        let limit = DirectLimit::new(1);
        let permit = limit.acquire();
        assert!(permit.is_some() && limit.clone().acquire().is_none());
        drop(permit);
        assert!(limit.acquire().is_some());
    }

    #[tokio::test]
    async fn datagrams_are_sent_and_received() {
        let (left, right) = (DirectSockets::default(), DirectSockets::default());
        let (from, to) = (left.addresses()[0], right.addresses()[0]);
        let datagram = Datagram { from, to, bytes: b"hello".to_vec() };
        left.send(&datagram).await;
        assert_eq!(right.receive().await, [datagram]);
    }
}
