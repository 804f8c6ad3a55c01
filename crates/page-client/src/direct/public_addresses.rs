//! The addresses that a router shows for our sockets, as the server's STUN tells (RFC 8489).
//!
//! Two peers behind routers need them: each router accepts the datagrams of an address only after
//! one was sent to that address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Datagram;

const BINDING_REQUEST: [u8; 2] = [0, 1];
const BINDING_RESPONSE: [u8; 2] = [1, 1];
const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const HEADER_BYTES: usize = 20;
const XOR_MAPPED_ADDRESS: u16 = 0x20;

type TransactionId = [u8; 12];

#[derive(Debug, Default)]
pub(super) struct PublicAddresses {
    /// The addresses of the server's STUN. At most one of each family is used.
    servers: Vec<SocketAddr>,
    /// The last request of each local address.
    pending: BTreeMap<SocketAddr, TransactionId>,
    known: BTreeMap<SocketAddr, SocketAddr>,
}

impl PublicAddresses {
    pub(super) fn set_servers(&mut self, servers: Vec<SocketAddr>) {
        self.servers = servers;
    }

    /// The public address of a local one, if it is known.
    pub(super) fn of(&self, local: SocketAddr) -> Option<SocketAddr> {
        self.known.get(&local).copied()
    }

    /// Requests the public addresses again, because a router forgets them after a while.
    pub(super) fn requests(&mut self, locals: &[SocketAddr]) -> Vec<Datagram> {
        let request = |from: &SocketAddr| {
            let is_of_family = |to: &&SocketAddr| to.is_ipv4() == from.is_ipv4();
            let to = *self.servers.iter().find(is_of_family)?;
            let mut id = TransactionId::default();
            getrandom::fill(&mut id).ok()?;
            self.pending.insert(*from, id);
            let bytes = [&BINDING_REQUEST[..], &[0, 0], &MAGIC_COOKIE, &id].concat();
            Some(Datagram { from: *from, to, bytes })
        };
        locals.iter().filter_map(request).collect()
    }

    /// Returns a local and its public address, if the datagram is the response to a request.
    pub(super) fn handle_datagram(
        &mut self,
        datagram: &Datagram,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let Datagram { from, to: local, bytes } = datagram;
        if !self.servers.contains(from) {
            return None;
        }
        let public = mapped_address(bytes, self.pending.get(local)?)?;
        self.pending.remove(local);
        self.known.insert(*local, public);
        Some((*local, public))
    }
}

/// Parses the response to the request with this id.
fn mapped_address(bytes: &[u8], id: &TransactionId) -> Option<SocketAddr> {
    let (header, mut attributes) = bytes.split_at_checked(HEADER_BYTES)?;
    let is_response = header[..2] == BINDING_RESPONSE && header[4..8] == MAGIC_COOKIE;
    if !is_response || header[8..] != *id {
        return None;
    }
    loop {
        let (head, rest) = attributes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let value = rest.get(..length)?;
        if u16::from_be_bytes([head[0], head[1]]) == XOR_MAPPED_ADDRESS {
            return xored_address(value, id);
        }
        attributes = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn xored_address(value: &[u8], id: &TransactionId) -> Option<SocketAddr> {
    let (head, address) = value.split_first_chunk::<4>()?;
    let port = u16::from_be_bytes([head[2] ^ MAGIC_COOKIE[0], head[3] ^ MAGIC_COOKIE[1]]);
    let key = [&MAGIC_COOKIE[..], id].concat();
    let plain: Vec<u8> = address.iter().zip(&key).map(|(byte, key)| byte ^ key).collect();
    let ip = match (head[1], address.len()) {
        (1, 4) => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(plain).ok()?)),
        (2, 16) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(plain).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// A response with an attribute that is skipped before the address 192.0.2.1:32853, as in the
    /// test vectors of RFC 5769.
    fn response(request: &Datagram) -> Datagram {
        let attributes = [
            [0x80, 0x22, 0, 3].as_slice(),
            b"abc ",
            &[0, 0x20, 0, 8, 0, 1, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43],
        ]
        .concat();
        let length = [0, u8::try_from(attributes.len()).unwrap()];
        let head = [&BINDING_RESPONSE[..], &length, &request.bytes[4..]].concat();
        let bytes = [head, attributes].concat();
        Datagram { from: request.to, to: request.from, bytes }
    }

    fn requested() -> (PublicAddresses, Datagram) {
        let mut addresses = PublicAddresses::default();
        addresses.set_servers(vec![address("198.51.100.1:3478")]);
        let locals = [address("10.0.0.1:9"), address("[fd00::1]:9")];
        let requests = addresses.requests(&locals);
        assert_eq!(requests.len(), 1, "the server has no address of the other family");
        (addresses, requests[0].clone())
    }

    #[test]
    fn the_server_tells_the_public_address() {
        let (mut addresses, request) = requested();
        let local = request.from;
        let public = address("192.0.2.1:32853");
        let answer = response(&request);
        assert_eq!(addresses.handle_datagram(&answer), Some((local, public)));
        assert_eq!(addresses.of(local), Some(public));
        assert_eq!(addresses.handle_datagram(&answer), None, "each request has one response");
    }

    #[test]
    fn other_datagrams_are_no_responses() {
        let (mut addresses, request) = requested();
        let answer = response(&request);
        let elsewhere = Datagram { from: address("198.51.100.2:3478"), ..answer.clone() };
        assert_eq!(addresses.handle_datagram(&elsewhere), None);
        for end in 0..answer.bytes.len() {
            let bytes = answer.bytes[..end].to_vec();
            assert_eq!(addresses.handle_datagram(&Datagram { bytes, ..answer.clone() }), None);
        }
        let mut other = answer.clone();
        other.bytes[19] ^= 1;
        assert_eq!(addresses.handle_datagram(&other), None, "another transaction");
        assert!(addresses.handle_datagram(&answer).is_some());
    }
}
