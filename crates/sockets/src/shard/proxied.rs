//! Connections that begin with a header of the PROXY protocol.
//!
//! The header is peeked at, and stays in the kernel until it is complete. So a slow peer costs no
//! memory, and no byte after the header is read: TLS may follow.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use watchfire_types::{Instant, SocketId};

use super::EventLoop;
use crate::handler::SocketHandler;
use crate::handoff::ClientAddress;
use crate::proxy_header::ProxyHeader;
use crate::settings::ProxyProtocol;
use crate::wire::{self, Read};

/// A closed connection is logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The proxies that name clients with the PROXY protocol. All shards share it.
pub(crate) struct TrustedProxies {
    settings: ProxyProtocol,
    /// When the next closed connection may be logged, in nanoseconds of the shards' clock.
    next_log_at: AtomicU64,
}

impl TrustedProxies {
    pub(crate) fn new(settings: ProxyProtocol) -> Self {
        TrustedProxies { settings, next_log_at: AtomicU64::new(0) }
    }

    /// The places of the listeners whose connections begin with a header.
    pub(super) fn listeners(&self) -> &[usize] {
        &self.settings.listeners
    }

    fn trusts(&self, address: IpAddr) -> bool {
        (self.settings.trusts)(address)
    }

    /// Whether to log a closed connection now; false for a minute after a `true`.
    fn is_log_due(&self, now: Instant) -> bool {
        let due_at = self.next_log_at.load(Ordering::Relaxed);
        let next = now.as_nanos().saturating_add(LOG_INTERVAL.as_nanos() as u64);
        now.as_nanos() >= due_at
            && self
                .next_log_at
                .compare_exchange(due_at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

impl<T: SocketHandler> EventLoop<T> {
    /// Adopts a connection whose first bytes are a header, or closes it if it is not from a proxy.
    pub(super) fn adopt_proxied(&mut self, connection: OwnedFd, peer: Option<SocketAddr>) {
        if !peer.is_some_and(|peer| self.proxies.trusts(peer.ip())) {
            self.sockets.count().proxy_untrusted.add(1);
            if self.proxies.is_log_due(self.sockets.now()) {
                tracing::warn!(
                    from = peer.map(tracing::field::display),
                    "cannot accept a connection at an address of server.proxy_protocol: it does \
                     not come from a trusted proxy; add the proxy's address to \
                     server.trusted_proxies"
                );
            }
            return;
        }
        let client = ClientAddress::InProxyHeader;
        let Some(connection) = self.offer_if_crowded(connection, client) else { return };
        let counted = self.sockets.count_connection();
        if let Err(error) = self.sockets.adopt(connection, client, false, counted) {
            tracing::warn!(%error, "cannot add a connection to the epoll");
        }
    }

    /// Reads the header if it is complete. An `ending` socket sends no more bytes.
    pub(super) fn read_proxy_header(&mut self, id: SocketId, ending: bool) {
        let Some(fd) = self.sockets.slab.get(id).and_then(|record| record.fd.as_ref()) else {
            return;
        };
        let peeked = wire::peek(fd, &mut self.buffer[..ProxyHeader::BYTES_MAX]);
        let len = match peeked {
            Read::Nothing => return,
            Read::End => return self.sockets.disconnect(id),
            Read::Bytes(len) => len,
        };
        match ProxyHeader::parse(&self.buffer[..len]) {
            Ok(None) if ending => self.refuse_proxy_header(id, &"it is incomplete"),
            Ok(None) => {}
            Ok(Some((header, len))) => {
                // The bytes were just peeked at, so they are read in one piece.
                wire::read(fd, &mut self.buffer[..len]);
                self.sockets.count().bytes_in.add(len as u64);
                self.begin_proxied(id, header.client);
            }
            Err(error) => self.refuse_proxy_header(id, &error),
        }
        self.settle();
    }

    /// Begins with TLS, or with the first request.
    fn begin_proxied(&mut self, id: SocketId, client: Option<SocketAddr>) {
        if self.acceptors.tls.is_none() {
            self.sockets.end_proxy_header(id, client);
            // The edge-triggered epoll does not report bytes that already arrived.
            self.read_queue.push(id);
            return;
        }
        let peer = client.or_else(|| self.sockets.peer(id));
        if let (Some(released), Some(peer), Some(tls)) =
            (self.sockets.release(id), peer, &self.acceptors.tls)
        {
            tls.receive(released.fd, peer, released.counted);
        }
    }

    /// Closes a connection whose header is invalid.
    pub(super) fn refuse_proxy_header(&mut self, id: SocketId, cause: &dyn Display) {
        self.sockets.count().proxy_header_errors.add(1);
        if self.proxies.is_log_due(self.sockets.now()) {
            let from = self.sockets.peer(id);
            tracing::warn!(
                from = from.map(tracing::field::display),
                %cause,
                "cannot read the PROXY header of a connection; make the proxy send it \
                 (send-proxy), or remove the address from server.proxy_protocol"
            );
        }
        self.sockets.disconnect(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_is_logged_once_a_minute() {
        let proxies = TrustedProxies::new(ProxyProtocol::default());
        let is_due = |seconds| proxies.is_log_due(Instant::ZERO + Duration::from_secs(seconds));
        assert!(is_due(1));
        assert!(!is_due(1) && !is_due(60));
        assert!(is_due(61));
    }
}
