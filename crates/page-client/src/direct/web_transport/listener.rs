//! The QUIC socket at which browsers reach this process.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use wtransport::endpoint::endpoint_side::Server;
use wtransport::quinn::{IdleTimeout, TransportConfig, VarInt};
use wtransport::{Endpoint, ServerConfig};

use super::certificate::Certificate;
use super::connection::accept;
use super::links::LinkEvent;
use super::outside::Outside;
use super::{Offer, SECRET_BYTES, Secret};
use crate::direct::signal::ADDRESSES_MAX;
use crate::direct::sockets::{QUEUED_BYTES_MAX, local_addresses};
use crate::recent_set::RecentSet;

/// Offers that no browser has used so far. At the limit, no further stream is offered.
const OFFERS_MAX: usize = 256;
/// Handshakes at the same time. At the limit, further ones are refused.
pub(super) const HANDSHAKES_MAX: usize = 32;
/// Handshakes above which a sender must prove its address first. This costs a round trip. Without it, a few datagrams from addresses
/// that never answer would take all handshakes.
const UNPROVEN_HANDSHAKES_MAX: usize = HANDSHAKES_MAX / 2;
/// A connection without a sign of the other side is closed after this time.
const SILENCE_MAX_MS: u32 = 10_000;
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(3);
/// Streams that a browser may open: the session and one to spare, and the three of HTTP/3 with some
/// to spare.
const BIDIRECTIONAL_MAX: u32 = 2;
const UNIDIRECTIONAL_MAX: u32 = 8;
/// Bytes that a browser may send before they are read, and bytes that are kept until they arrive.
const RECEIVE_WINDOW_BYTES: u32 = 2 << 20;
const SEND_WINDOW_BYTES: u64 = 4 << 20;
const DATAGRAMS_BYTES: usize = 64 << 10;

/// A listener that browsers dial over WebTransport. All pages of a process share it.
pub struct WebTransportListener {
    /// An address outside of this machine, whose port is forwarded to this listener.
    outside: Option<Arc<Outside>>,
    /// The wall clock, which decides the validity of certificates.
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    bound: Mutex<State>,
    offers: Arc<Offers>,
}

enum State {
    Unbound,
    Bound(Box<Bound>),
    Failed,
}

struct Bound {
    endpoint: Arc<Endpoint<Server>>,
    is_ipv4_only: bool,
    port: u16,
    certificate: Certificate,
    accepting: JoinHandle<()>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl std::fmt::Debug for WebTransportListener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WebTransportListener").field("outside", &self.outside).finish()
    }
}

impl WebTransportListener {
    /// A listener that is bound when the first browser may dial it. `outside`: a host and a port
    /// that a router forwards to the same port of this machine. Without it, the port is any free one.
    pub fn new(outside: Option<(String, u16)>) -> Self {
        WebTransportListener {
            outside: outside.map(|(host, port)| Arc::new(Outside::new(host, port))),
            clock: Box::new(SystemTime::now),
            bound: Mutex::new(State::Unbound),
            offers: Arc::new(Offers::default()),
        }
    }

    /// A listener with another clock.
    #[cfg(test)]
    pub(super) fn with_clock(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        WebTransportListener { clock: Box::new(clock), ..WebTransportListener::new(None) }
    }

    /// Finds out what offers contain, before the first one. Must be called within a tokio runtime.
    pub(super) fn prepare(&self) {
        if let Some(outside) = &self.outside {
            outside.refresh();
        }
    }

    /// Offers a stream. `None` if none can be accepted. Must be called within a tokio runtime.
    pub(super) fn offer(&self, events: &mpsc::Sender<LinkEvent>) -> Option<Offer> {
        self.prepare();
        let now = (self.clock)();
        let mut state = lock(&self.bound);
        if matches!(*state, State::Unbound) {
            let port = self.outside.as_ref().map_or(0, |outside| outside.port);
            *state = match Bound::new(now, port, Arc::clone(&self.offers)) {
                Ok(bound) => State::Bound(Box::new(bound)),
                Err(error) => {
                    tracing::warn!(port, %error, "cannot listen for browsers: no WebTransport");
                    State::Failed
                }
            };
        }
        let State::Bound(bound) = &mut *state else { return None };
        bound.renew_certificate(now);
        let addresses = bound.addresses(self.outside.as_deref());
        let secret = if addresses.is_empty() { None } else { self.offers.add(events) };
        Some(Offer { secret: secret?, addresses, certificate: bound.certificate.sha256.clone() })
    }

    pub(super) fn withdraw(&self, secret: Secret) {
        self.offers.withdraw(secret);
    }

    /// Withdraws the offers whose events go to this page.
    pub(super) fn withdraw_all(&self, events: &mpsc::Sender<LinkEvent>) {
        self.offers.withdraw_all(events);
    }
}

impl Bound {
    fn new(now: SystemTime, port: u16, offers: Arc<Offers>) -> io::Result<Self> {
        let certificate = Certificate::new(now);
        let (socket, is_ipv4_only) = bind(port)?;
        let port = socket.local_addr()?.port();
        let config = ServerConfig::builder()
            .with_bind_socket(socket)
            .with_custom_transport(certificate.identity.clone_identity(), transport_config())
            .build();
        let endpoint = Arc::new(Endpoint::server(config)?);
        let accepting = tokio::spawn(accept_all(Arc::clone(&endpoint), offers));
        Ok(Bound { endpoint, is_ipv4_only, port, certificate, accepting })
    }

    fn renew_certificate(&mut self, now: SystemTime) {
        if !self.certificate.is_due(now) {
            return;
        }
        let certificate = Certificate::new(now);
        let config = ServerConfig::builder()
            .with_bind_default(0)
            .with_custom_transport(certificate.identity.clone_identity(), transport_config())
            .build();
        // The socket stays, so nothing is bound that could fail.
        match self.endpoint.reload_config(config, false) {
            Ok(()) => self.certificate = certificate,
            Err(error) => tracing::warn!(%error, "cannot renew the certificate for browsers"),
        }
    }

    /// The name outside of this machine, the addresses of the machine, and those of the name. A
    /// browser dials them in this order.
    fn addresses(&self, outside: Option<&Outside>) -> Vec<String> {
        let name = outside.map(Outside::name);
        let of_name = outside.map(Outside::addresses).unwrap_or_default();
        let local_max = ADDRESSES_MAX - usize::from(name.is_some()) - of_name.len();
        let local = local_addresses().into_iter();
        let reachable = local.filter(|address| address.is_ipv4() || !self.is_ipv4_only);
        let local = reachable.map(|address| SocketAddr::new(address, self.port)).take(local_max);
        name.into_iter().chain(local.chain(of_name).map(|address| address.to_string())).collect()
    }
}

/// The secrets of the offers.
pub(super) struct Offers(Mutex<Secrets>);

struct Secrets {
    unused: HashMap<Secret, mpsc::Sender<LinkEvent>>,
    used: RecentSet<Secret>,
}

/// The offer of a secret.
pub(super) enum Offered {
    Unused(mpsc::Sender<LinkEvent>),
    Used,
    Unknown,
}

impl Default for Offers {
    fn default() -> Self {
        let used = RecentSet::new(OFFERS_MAX);
        Offers(Mutex::new(Secrets { unused: HashMap::new(), used }))
    }
}

impl Offers {
    fn add(&self, events: &mpsc::Sender<LinkEvent>) -> Option<Secret> {
        let Secrets { unused, .. } = &mut *lock(&self.0);
        unused.retain(|_, events| !events.is_closed());
        let mut secret = [0; SECRET_BYTES];
        if unused.len() >= OFFERS_MAX || getrandom::fill(&mut secret).is_err() {
            return None;
        }
        unused.insert(Secret(secret), events.clone());
        Some(Secret(secret))
    }

    /// Uses an offer. Each is good for one session.
    pub(super) fn take(&self, secret: Secret) -> Offered {
        let Secrets { unused, used } = &mut *lock(&self.0);
        match unused.remove(&secret) {
            Some(events) => {
                used.insert(secret);
                Offered::Unused(events)
            }
            None if used.contains(secret) => Offered::Used,
            None => Offered::Unknown,
        }
    }

    fn withdraw(&self, secret: Secret) {
        lock(&self.0).unused.remove(&secret);
    }

    fn withdraw_all(&self, events: &mpsc::Sender<LinkEvent>) {
        lock(&self.0).unused.retain(|_, of_offer| !of_offer.same_channel(events));
    }
}

async fn accept_all(endpoint: Arc<Endpoint<Server>>, offers: Arc<Offers>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let incoming = endpoint.accept().await;
        let under_way = HANDSHAKES_MAX - handshakes.available_permits();
        if under_way >= UNPROVEN_HANDSHAKES_MAX && !incoming.remote_address_validated() {
            incoming.retry();
            continue;
        }
        match Arc::clone(&handshakes).try_acquire_owned() {
            Ok(permit) => drop(tokio::spawn(accept(incoming, Arc::clone(&offers), permit))),
            Err(_) => incoming.refuse(),
        }
    }
}

/// Binds a socket of all addresses. Returns whether it is of IPv4 alone.
fn bind(port: u16) -> io::Result<(UdpSocket, bool)> {
    let dual = || {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_only_v6(false)?;
        socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
        Ok::<_, io::Error>(socket)
    };
    let (socket, is_ipv4_only) = match dual() {
        Ok(socket) => (socket, false),
        // The kernel may have no IPv6.
        Err(_) => {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
            socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
            (socket, true)
        }
    };
    socket.set_nonblocking(true)?;
    // The kernel may allow less.
    let _ = socket.set_recv_buffer_size(QUEUED_BYTES_MAX);
    let _ = socket.set_send_buffer_size(QUEUED_BYTES_MAX);
    Ok((socket.into(), is_ipv4_only))
}

fn transport_config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(SILENCE_MAX_MS))))
        .keep_alive_interval(Some(KEEP_ALIVE_INTERVAL))
        .max_concurrent_bidi_streams(VarInt::from_u32(BIDIRECTIONAL_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_MAX))
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(2 * RECEIVE_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        // WebTransport demands datagrams, although none is used here.
        .datagram_receive_buffer_size(Some(DATAGRAMS_BYTES))
        .datagram_send_buffer_size(DATAGRAMS_BYTES);
    config
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
