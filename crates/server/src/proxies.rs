//! The client of a request that came through proxies: how the server uses [`ForwardingProxies`].

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

pub use watchfire_sockets::{ForwardedClient, NetworkError, is_forwarding_header};
use watchfire_sockets::{ForwardingHeader, ForwardingProxies};

use crate::settings::ProxyHeader;

/// The proxies whose headers are believed.
#[derive(Debug)]
pub struct TrustedProxies {
    proxies: ForwardingProxies,
    /// Whether a client that cannot reach STUN should be logged.
    awaits_remote_client: AtomicBool,
}

/// An extension of HTTP requests: the host that the client requested, with which the origin is
/// compared. Routing uses the `Host` header alone. Otherwise a page of a site, which can send a
/// forwarding header to its own origin, could pass for a page of the app.
#[derive(Clone, Debug)]
pub struct RequestedHost(pub String);

impl TrustedProxies {
    /// The proxies of these networks, which set this header.
    pub fn new(networks: &[String], header: ProxyHeader) -> Result<Self, NetworkError> {
        let header = match header {
            ProxyHeader::XForwardedFor => ForwardingHeader::XForwardedFor,
            ProxyHeader::Forwarded => ForwardingHeader::Forwarded,
        };
        let proxies = ForwardingProxies::new(networks, header)?;
        Ok(TrustedProxies { proxies, awaits_remote_client: AtomicBool::new(false) })
    }

    /// STUN is answered only on loopback addresses: log it when a client of another machine
    /// connects.
    pub fn note_local_stun(&self) {
        self.awaits_remote_client.store(true, Ordering::Relaxed);
    }

    /// Whether to log that this client cannot reach STUN; true for one client.
    fn is_first_without_stun(&self, client: IpAddr) -> bool {
        self.awaits_remote_client.load(Ordering::Relaxed)
            && !client.to_canonical().is_loopback()
            && self.awaits_remote_client.swap(false, Ordering::Relaxed)
    }

    /// The client of a request from `peer`. `values` returns the values of a header, in the order
    /// of their lines.
    pub fn client<'a, V: Iterator<Item = &'a [u8]>>(
        &self,
        peer: SocketAddr,
        host: &'a str,
        values: impl Fn(&'static str) -> V,
    ) -> ForwardedClient<'a> {
        let client = self.proxies.client(peer, host, values);
        if self.is_first_without_stun(client.from.ip()) {
            tracing::warn!(
                client = %client.from.ip(),
                "browsers behind a proxy cannot reach STUN, because the server answers it only on \
                 loopback addresses; they use the relay. Set stun.listen and stun.announce to a \
                 public address, or stun.enabled = false"
            );
        }
        client
    }

    /// Whether an address is that of a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.proxies.trusts(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_stun_is_logged_once() {
        let proxies = TrustedProxies::new(&[], ProxyHeader::default()).unwrap();
        let [local, remote] = ["::ffff:127.0.0.1", "192.0.2.1"].map(|text| text.parse().unwrap());
        assert!(!proxies.is_first_without_stun(remote), "STUN may be reachable");
        proxies.note_local_stun();
        assert!(!proxies.is_first_without_stun(local));
        assert!(proxies.is_first_without_stun(remote));
        assert!(!proxies.is_first_without_stun(remote));
    }
}
