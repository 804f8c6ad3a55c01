//! A network address translator, as a state machine: it has no clock and opens no sockets.
//!
//! Many hosts share one public address, so their router replaces the source of each packet that leaves, and remembers the
//! *mapping* from the inner address and port to the outer port. Two decisions, named by RFC 4787, make the kinds of NAT:
//!
//! - **Mapping**: does a second destination see the same outer port? With [`Scope::Any`] it does, and a peer can learn its
//!   own outer address from a server and tell it to others. With [`Scope::AddressAndPort`] (a *symmetric* NAT) each
//!   destination sees another port, so the address that the server saw is of no use to anyone else.
//! - **Filtering**: who may send to the outer port? [`Scope::Any`]: everyone. [`Scope::Address`]: the hosts that the inner
//!   side has sent to. [`Scope::AddressAndPort`]: the exact ports that it has sent to.
//!
//! An example with two port-restricted NATs. A sends from 10.0.1.2:4000 to B's outer address 198.18.0.2:5000, and A's NAT
//! maps it to 198.18.0.1:4000. B's NAT has no session with 198.18.0.1:4000, so it drops the packet. B sends to
//! 198.18.0.1:4000. A's NAT has a session with 198.18.0.2:5000 since A's packet, and lets B's packet in. From then on both
//! directions are open. Had B's NAT been symmetric, B's packet would have come from 198.18.0.2:61234, which A has never
//! sent to. A cannot guess that port, so a direct connection is not possible.
//!
//! A packet that no session admits is dropped without an answer. An answer (a TCP reset or an ICMP error) would end an
//! attempt at once that succeeds when the other side's packet arrives a few milliseconds later; RFC 5382 forbids it for six
//! seconds.
//!
//! **Sessions.** A mapping has one session for each remote address and port that the inner side has sent to. A session
//! ends after a time without packets ([`NatLimits`]). For TCP that time is long once both sides have sent, and short
//! before and after: the NAT follows SYN, FIN and RST only as far as this needs. A mapping without sessions is gone. Only a
//! packet from inside creates a session, and for TCP only a SYN does. A NAT that has restarted would otherwise let the
//! segments of old connections open ports.
//!
//! **Bound.** A NAT keeps at most [`NatLimits::sessions_max`] sessions. When it is full, it removes those that have ended, at
//! most once a second, because that looks at each of them. When it is still full, the packet that needs a new session is
//! dropped; the sessions that exist go on. A session takes about 150 bytes, so the default of 16,384 takes 2.5 MB.
//!
//! The same state machine is the firewall of an IPv6 home: there the outer address is the inner one, and the port is kept.
//!
//! Absent on purpose: fragments (their later pieces have no port; they are dropped), port forwarding by UPnP or PCP,
//! and helpers that look into the payload.

use crate::figures::DropCause;
use crate::network::packet::{ACK, End, FIN, Flow, Headers, Payload, Protocol, RST, SYN};
use crate::network::packet::{set_end, set_quoted_end};
use crate::plan::NatLimits;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use watchfire_types::{Instant, Rng};

/// How much of the remote address decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Any,
    Address,
    AddressAndPort,
}

/// The decisions that make a kind of NAT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    pub mapping: Scope,
    pub filtering: Scope,
    /// The outer port equals the inner one when it is free. Otherwise every outer port is random.
    pub keeps_ports: bool,
    /// UDP packets pass.
    pub passes_udp: bool,
}

pub(crate) struct Nat {
    outer: IpAddr,
    behaviour: Behaviour,
    limits: NatLimits,
    rng: Rng,
    /// By protocol and outer port.
    mappings: BTreeMap<(Protocol, u16), Mapping>,
    /// The outer port of each inner address and port, and, as far as the mapping's scope says, of each remote one.
    ports: BTreeMap<Inner, u16>,
    sessions: usize,
    /// The next time at which ended sessions may be looked for.
    next_purge_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Inner {
    protocol: Protocol,
    at: SocketAddr,
    remote_address: Option<IpAddr>,
    remote_port: Option<u16>,
}

struct Mapping {
    inner: Inner,
    sessions: BTreeMap<SocketAddr, Session>,
    /// When the last session ends.
    ends_at: Instant,
}

struct Session {
    ends_at: Instant,
    has_answer: bool,
    inner_has_closed: bool,
    remote_has_closed: bool,
}

impl Nat {
    pub fn new(outer: IpAddr, behaviour: Behaviour, limits: NatLimits, rng: Rng) -> Self {
        Nat {
            outer,
            behaviour,
            limits,
            rng,
            mappings: BTreeMap::new(),
            ports: BTreeMap::new(),
            sessions: 0,
            next_purge_at: Instant::ZERO,
        }
    }

    /// A packet from the inner side: its source becomes the outer address.
    pub fn handle_outbound(
        &mut self,
        now: Instant,
        packet: &mut [u8],
        headers: &Headers,
    ) -> Result<(), DropCause> {
        match headers.payload {
            Payload::Flow(flow, flags) => {
                self.admit_protocol(flow.protocol)?;
                let port = self.port_for(now, &flow, flags)?;
                self.touch(now, (flow.protocol, port), flow.destination, End::Source, flags)?;
                set_end(packet, End::Source, SocketAddr::new(self.outer, port));
            }
            Payload::Error { about, at } => {
                let inner = self.inner(about.protocol, about.destination, about.source);
                let port = *self.ports.get(&inner).ok_or(DropCause::Unmapped)?;
                // The error is about a packet that was let in.
                let key = (about.protocol, port);
                self.admits(now, key, about.source).ok_or(DropCause::Unmapped)?;
                let outer = SocketAddr::new(self.outer, port);
                set_quoted_end(packet, at, End::Destination, outer);
            }
            Payload::Fragment => return Err(DropCause::Fragment),
            Payload::Other => return Err(DropCause::Unmapped),
        }
        Ok(())
    }

    /// A packet to the outer address: its destination becomes an inner one.
    pub fn handle_inbound(
        &mut self,
        now: Instant,
        packet: &mut [u8],
        headers: &Headers,
    ) -> Result<(), DropCause> {
        match headers.payload {
            Payload::Flow(flow, flags) => {
                self.admit_protocol(flow.protocol)?;
                let key = (flow.protocol, flow.destination.port());
                let inner = self.admits(now, key, flow.source).ok_or(DropCause::Unsolicited)?;
                if self.has_session(now, key, flow.source) {
                    self.touch(now, key, flow.source, End::Destination, flags)?;
                }
                set_end(packet, End::Destination, inner);
            }
            Payload::Error { about, at } => {
                let key = (about.protocol, about.source.port());
                let is_ours = about.source.ip() == self.outer;
                if !is_ours || !self.has_session(now, key, about.destination) {
                    return Err(DropCause::Unsolicited);
                }
                set_quoted_end(packet, at, End::Source, self.mappings[&key].inner.at);
            }
            Payload::Fragment => return Err(DropCause::Fragment),
            Payload::Other => return Err(DropCause::Unsolicited),
        }
        Ok(())
    }

    fn admit_protocol(&self, protocol: Protocol) -> Result<(), DropCause> {
        let is_blocked = protocol == Protocol::Udp && !self.behaviour.passes_udp;
        if is_blocked { Err(DropCause::UdpBlocked) } else { Ok(()) }
    }

    fn inner(&self, protocol: Protocol, at: SocketAddr, remote: SocketAddr) -> Inner {
        let scope = self.behaviour.mapping;
        Inner {
            protocol,
            at,
            remote_address: (scope != Scope::Any).then_some(remote.ip()),
            remote_port: (scope == Scope::AddressAndPort).then_some(remote.port()),
        }
    }

    /// The outer port of a flow from inside, which may be new.
    fn port_for(&mut self, now: Instant, flow: &Flow, flags: u8) -> Result<u16, DropCause> {
        let inner = self.inner(flow.protocol, flow.source, flow.destination);
        if let Some(port) = self.ports.get(&inner).copied() {
            if self.is_live(now, (flow.protocol, port)) {
                return Ok(port);
            }
            self.remove_mapping((flow.protocol, port));
        }
        let opens = match flow.protocol {
            Protocol::Tcp => flags & (SYN | ACK | RST) == SYN,
            Protocol::Udp => true,
            // Only a request has a port.
            Protocol::Echo => flow.source.port() != 0 || flow.destination.port() == 0,
        };
        if !opens {
            return Err(DropCause::Unmapped);
        }
        let port = self.free_port(now, flow.protocol, flow.source.port())?;
        let mapping = Mapping { inner, sessions: BTreeMap::new(), ends_at: now };
        self.mappings.insert((flow.protocol, port), mapping);
        self.ports.insert(inner, port);
        Ok(port)
    }

    fn free_port(&mut self, now: Instant, protocol: Protocol, wish: u16) -> Result<u16, DropCause> {
        self.make_room(now)?;
        if self.behaviour.keeps_ports && self.is_free(now, (protocol, wish)) {
            return Ok(wish);
        }
        const LOWEST: u16 = 1024;
        let ports = u64::from(u16::MAX - LOWEST) + 1;
        let first = self.rng.below(ports);
        // The sessions are fewer than the ports, or the protocol has none left: then this looks at each port once.
        let candidates = (0..ports).map(|n| LOWEST + ((first + n) % ports) as u16);
        for port in candidates {
            if self.is_free(now, (protocol, port)) {
                return Ok(port);
            }
        }
        Err(DropCause::NatFull)
    }

    /// Whether a port has no mapping. One that has ended is removed.
    fn is_free(&mut self, now: Instant, key: (Protocol, u16)) -> bool {
        if self.mappings.contains_key(&key) && !self.is_live(now, key) {
            self.remove_mapping(key);
        }
        !self.mappings.contains_key(&key)
    }

    fn is_live(&self, now: Instant, key: (Protocol, u16)) -> bool {
        self.mappings.get(&key).is_some_and(|mapping| mapping.ends_at > now)
    }

    fn has_session(&self, now: Instant, key: (Protocol, u16), remote: SocketAddr) -> bool {
        let sessions = self.mappings.get(&key).map(|mapping| &mapping.sessions);
        let session = sessions.and_then(|sessions| sessions.get(&remote));
        session.is_some_and(|session| session.ends_at > now)
    }

    /// The inner end of a mapping, when its filter admits packets from this remote end.
    fn admits(&self, now: Instant, key: (Protocol, u16), remote: SocketAddr) -> Option<SocketAddr> {
        let mapping = self.mappings.get(&key).filter(|mapping| mapping.ends_at > now)?;
        let is_admitted = match self.behaviour.filtering {
            Scope::Any => true,
            Scope::Address => {
                let of_host = SocketAddr::new(remote.ip(), 0)..=SocketAddr::new(remote.ip(), 65535);
                mapping.sessions.range(of_host).any(|(_, session)| session.ends_at > now)
            }
            Scope::AddressAndPort => self.has_session(now, key, remote),
        };
        is_admitted.then_some(mapping.inner.at)
    }

    /// Notes a packet of a session. A packet from inside creates the session.
    fn touch(
        &mut self,
        now: Instant,
        key: (Protocol, u16),
        remote: SocketAddr,
        from: End,
        flags: u8,
    ) -> Result<(), DropCause> {
        if !self.mappings[&key].sessions.contains_key(&remote) {
            self.make_room(now)?;
            self.sessions += 1;
        }
        let mapping =
            self.mappings.get_mut(&key).expect("the mapping exists, as the caller checked");
        let session = mapping.sessions.entry(remote).or_insert(Session {
            ends_at: now,
            has_answer: false,
            inner_has_closed: false,
            remote_has_closed: false,
        });
        let ended_at = session.ends_at;
        session.note(from, flags, ended_at <= now);
        session.ends_at = now + session.timeout(key.0, &self.limits);
        if session.ends_at >= mapping.ends_at {
            mapping.ends_at = session.ends_at;
        } else if ended_at == mapping.ends_at {
            let ends = mapping.sessions.values().map(|session| session.ends_at);
            mapping.ends_at = ends.max().expect("a session was just touched");
        }
        Ok(())
    }

    fn make_room(&mut self, now: Instant) -> Result<(), DropCause> {
        if self.sessions >= self.limits.sessions_max && self.next_purge_at <= now {
            self.next_purge_at = now + Duration::from_secs(1);
            self.purge(now);
        }
        if self.sessions < self.limits.sessions_max { Ok(()) } else { Err(DropCause::NatFull) }
    }

    /// Removes the sessions and mappings that have ended.
    fn purge(&mut self, now: Instant) {
        for mapping in self.mappings.values_mut() {
            mapping.sessions.retain(|_, session| session.ends_at > now);
        }
        let ports = &mut self.ports;
        self.mappings.retain(|_, mapping| {
            let has_ended = mapping.sessions.is_empty();
            if has_ended {
                ports.remove(&mapping.inner);
            }
            !has_ended
        });
        self.sessions = self.mappings.values().map(|mapping| mapping.sessions.len()).sum();
    }

    fn remove_mapping(&mut self, key: (Protocol, u16)) {
        if let Some(mapping) = self.mappings.remove(&key) {
            self.sessions -= mapping.sessions.len();
            self.ports.remove(&mapping.inner);
        }
    }
}

impl Session {
    fn note(&mut self, from: End, flags: u8, has_ended: bool) {
        // The same ports, used again for another connection.
        if has_ended || (from == End::Source && flags & (SYN | ACK) == SYN) {
            (self.has_answer, self.inner_has_closed, self.remote_has_closed) =
                (false, false, false);
        }
        let closes = flags & (FIN | RST) != 0;
        match from {
            End::Source => self.inner_has_closed |= closes,
            End::Destination => {
                self.has_answer = true;
                self.remote_has_closed |= closes;
            }
        }
        if flags & RST != 0 {
            (self.inner_has_closed, self.remote_has_closed) = (true, true);
        }
    }

    fn timeout(&self, protocol: Protocol, limits: &NatLimits) -> Duration {
        let is_open = self.has_answer && !(self.inner_has_closed && self.remote_has_closed);
        match protocol {
            Protocol::Udp => limits.udp_timeout,
            Protocol::Echo => limits.echo_timeout,
            Protocol::Tcp if is_open => limits.tcp_open_timeout,
            Protocol::Tcp => limits.tcp_opening_timeout,
        }
    }
}
