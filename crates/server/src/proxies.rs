//! The client of a request that came through proxies: how the server uses [`ForwardingProxies`].

use std::net::{IpAddr, SocketAddr};

pub use watchfire_sockets::{ForwardedClient, NetworkError, is_forwarding_header};
use watchfire_sockets::{ForwardingHeader, ForwardingProxies};

use crate::settings::ProxyHeader;

/// The proxies whose headers are believed.
#[derive(Debug)]
pub struct TrustedProxies(ForwardingProxies);

/// An extension of HTTP requests: the host that the client requested, with which the origin is
/// compared. Routing uses the `Host` header alone. Otherwise the script of another host of this server, which
/// can send a forwarding header to its own origin, could pass for a script of the application.
#[derive(Clone, Debug)]
pub struct RequestedHost(pub String);

impl TrustedProxies {
    /// The proxies of these networks, which set this header.
    pub fn new(networks: &[String], header: ProxyHeader) -> Result<Self, NetworkError> {
        let header = match header {
            ProxyHeader::XForwardedFor => ForwardingHeader::XForwardedFor,
            ProxyHeader::Forwarded => ForwardingHeader::Forwarded,
        };
        ForwardingProxies::new(networks, header).map(TrustedProxies)
    }

    /// The client of a request from `peer`. `values` returns the values of a header, in the order
    /// of their lines.
    pub fn client<'a, V: Iterator<Item = &'a [u8]>>(
        &self,
        peer: SocketAddr,
        host: &'a str,
        values: impl Fn(&'static str) -> V,
    ) -> ForwardedClient<'a> {
        self.0.client(peer, host, values)
    }

    /// Whether an address is that of a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.0.trusts(address)
    }
}
