//! The headers of IPv4 and IPv6 packets: the fields that decide where a packet goes, and changes of addresses and ports
//! in place.
//!
//! Every packet that a peer sends passes through [`Headers::parse`]. Anything can stand in it, so each length is checked
//! against the bytes that are there, and a packet that contradicts itself is an error.
//!
//! A NAT changes an address or a port, and must correct the checksums that cover it. It does so incrementally (RFC 1624):
//! the new checksum follows from the old one, the old word and the new word. A sum over all bytes would be slower, and it
//! would hide damage: a packet that was damaged before the NAT would leave it with a correct checksum. For an IPv4 packet,
//! the addresses are covered by the header's checksum and, as the pseudo-header, by TCP's and UDP's. The ports are
//! covered by TCP's and UDP's alone. A UDP checksum of 0 means that the sender computed none, so it stays 0, and a
//! computed checksum of 0 is written as 0xffff.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The transports whose flows a NAT can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    /// Echo requests and replies (ping). The identifier is the port of the side that sends requests; the other port is 0.
    Echo,
}

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// Both ends of a flow, as a packet names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub protocol: Protocol,
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

/// The part after the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// A whole TCP segment, UDP datagram or echo message, with the flags of TCP.
    Flow(Flow, u8),
    /// An ICMP error, which quotes a packet that caused it. `at` is where the quoted packet begins.
    Error { about: Flow, at: usize },
    /// A piece of a datagram. Only the first one has ports, so a NAT cannot tell the flow.
    Fragment,
    /// Anything else.
    Other,
}

/// The fields of a packet that decide where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub payload: Payload,
}

/// The packet contradicts itself, or is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const FRAGMENT_V6: u8 = 44;
/// Stands for the ICMP of the other version of IP, which is of no use in this one.
const NONE: u8 = 255;
const HEADER_BYTES_V6: usize = 40;
/// The part of an ICMP message before the quoted packet, or before the data of an echo.
const ICMP_HEADER_BYTES: usize = 8;

impl Headers {
    pub fn parse(packet: &[u8]) -> Result<Headers, Malformed> {
        let ip = IpHeader::parse(packet)?;
        if ip.whole_bytes > packet.len() {
            return Err(Malformed);
        }
        let payload = match ip.protocol {
            _ if ip.is_fragment => Payload::Fragment,
            ICMP | ICMP_V6 if is_icmp_error(packet, &ip)? => {
                let at = ip.transport_at + ICMP_HEADER_BYTES;
                let quoted = IpHeader::parse(packet.get(at..).ok_or(Malformed)?)?;
                if quoted.source.is_ipv4() != ip.source.is_ipv4() {
                    return Err(Malformed);
                }
                match flow(&packet[at..], &quoted)? {
                    Some(about) => Payload::Error { about, at },
                    None => Payload::Other,
                }
            }
            TCP => match flow(packet, &ip)? {
                Some(tcp) => Payload::Flow(tcp, byte(packet, ip.transport_at + 13)?),
                None => Payload::Other,
            },
            _ => flow(packet, &ip)?.map_or(Payload::Other, |flow| Payload::Flow(flow, 0)),
        };
        Ok(Headers { source: ip.source, destination: ip.destination, payload })
    }
}

/// An IP header, of either version.
struct IpHeader {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    transport_at: usize,
    /// The length that the header states. A quoted packet is cut short, and may be longer than what is there.
    whole_bytes: usize,
    is_fragment: bool,
}

impl IpHeader {
    fn parse(packet: &[u8]) -> Result<IpHeader, Malformed> {
        match byte(packet, 0)? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => Err(Malformed),
        }
    }

    fn parse_v4(packet: &[u8]) -> Result<IpHeader, Malformed> {
        let header_bytes = usize::from(packet[0] & 0xf) * 4;
        let whole_bytes = usize::from(word(packet, 2)?);
        if header_bytes < 20 || whole_bytes < header_bytes || packet.len() < header_bytes {
            return Err(Malformed);
        }
        // The bit "more fragments", and the offset.
        let is_fragment = word(packet, 6)? & 0x3fff != 0;
        let address = |at| Ok(IpAddr::from(Ipv4Addr::from(array::<4>(packet, at)?)));
        Ok(IpHeader {
            source: address(12)?,
            destination: address(16)?,
            protocol: if packet[9] == ICMP_V6 { NONE } else { packet[9] },
            transport_at: header_bytes,
            whole_bytes,
            is_fragment,
        })
    }

    fn parse_v6(packet: &[u8]) -> Result<IpHeader, Malformed> {
        let address = |at| Ok(IpAddr::from(Ipv6Addr::from(array::<16>(packet, at)?)));
        let protocol = match byte(packet, 6)? {
            ICMP => NONE,
            protocol => protocol,
        };
        Ok(IpHeader {
            source: address(8)?,
            destination: address(24)?,
            protocol,
            transport_at: HEADER_BYTES_V6,
            whole_bytes: HEADER_BYTES_V6 + usize::from(word(packet, 4)?),
            is_fragment: protocol == FRAGMENT_V6,
        })
    }
}

/// The flow of a packet whose first 8 bytes of payload are there; `None` when it is of no flow that a NAT knows.
fn flow(packet: &[u8], ip: &IpHeader) -> Result<Option<Flow>, Malformed> {
    let at = ip.transport_at;
    let (protocol, source, destination) = match ip.protocol {
        TCP => (Protocol::Tcp, word(packet, at)?, word(packet, at + 2)?),
        UDP => (Protocol::Udp, word(packet, at)?, word(packet, at + 2)?),
        ICMP | ICMP_V6 => match (ip.protocol, byte(packet, at)?) {
            (ICMP, 8) | (ICMP_V6, 128) => (Protocol::Echo, word(packet, at + 4)?, 0),
            (ICMP, 0) | (ICMP_V6, 129) => (Protocol::Echo, 0, word(packet, at + 4)?),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    array::<8>(packet, at)?;
    Ok(Some(Flow {
        protocol,
        source: SocketAddr::new(ip.source, source),
        destination: SocketAddr::new(ip.destination, destination),
    }))
}

fn is_icmp_error(packet: &[u8], ip: &IpHeader) -> Result<bool, Malformed> {
    let kind = byte(packet, ip.transport_at)?;
    Ok(match ip.protocol {
        // Destination unreachable, time exceeded, parameter problem.
        ICMP => [3, 11, 12].contains(&kind),
        // The same, and "packet too big".
        _ => (1..=4).contains(&kind),
    })
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

/// Gives one end of an IPv4 packet's flow another address and port, and corrects the checksums. [`Headers::parse`] has
/// accepted the packet as [`Payload::Flow`].
pub(crate) fn set_end(packet: &mut [u8], end: End, to: SocketAddr) {
    let IpAddr::V4(address) = to.ip() else { return };
    let (protocol, transport_at) = (packet[9], usize::from(packet[0] & 0xf) * 4);
    let sum_at = transport_sum_at(packet, protocol, transport_at);
    // The checksum of an ICMP message does not cover the addresses.
    let address_sums = [Some(10), sum_at.filter(|_| protocol != ICMP)];
    replace(packet, address_at(end), &address.octets(), &address_sums);
    replace(packet, port_at(protocol, transport_at, end), &to.port().to_be_bytes(), &[sum_at]);
    if protocol == UDP && sum_at.is_some_and(|at| packet[at..at + 2] == [0, 0]) {
        packet[transport_at + 6..transport_at + 8].fill(0xff);
    }
}

/// Gives one end of the packet that an ICMP error quotes, and the error itself at its opposite end, another address. A
/// quoted packet goes the other way: the error arrives where the quoted packet was sent from.
pub(crate) fn set_quoted_end(packet: &mut [u8], at: usize, end: End, to: SocketAddr) {
    let IpAddr::V4(address) = to.ip() else { return };
    let icmp_at = usize::from(packet[0] & 0xf) * 4;
    let error_sum = Some(icmp_at + 2);
    let (protocol, transport_at) = (packet[at + 9], at + usize::from(packet[at] & 0xf) * 4);
    // The quoted IP header's own checksum is among the bytes that the error's checksum covers, so it is replaced as they are.
    let mut quoted = packet[at..at + 20].to_vec();
    replace(&mut quoted, address_at(end), &address.octets(), &[Some(10)]);
    replace(packet, at, &quoted, &[error_sum]);
    // The quoted transport's checksum is left: it may be cut off, and no receiver can verify it.
    let port_at = port_at(protocol, transport_at, end);
    replace(packet, port_at, &to.port().to_be_bytes(), &[error_sum]);
    let opposite = if end == End::Source { End::Destination } else { End::Source };
    replace(packet, address_at(opposite), &address.octets(), &[Some(10)]);
}

fn address_at(end: End) -> usize {
    if end == End::Source { 12 } else { 16 }
}

fn port_at(protocol: u8, transport_at: usize, end: End) -> usize {
    match (protocol, end) {
        (ICMP, _) => transport_at + 4,
        (_, End::Source) => transport_at,
        (_, End::Destination) => transport_at + 2,
    }
}

/// Where the transport's checksum is; `None` when the sender computed none, or when it is not there.
fn transport_sum_at(packet: &[u8], protocol: u8, transport_at: usize) -> Option<usize> {
    let at = transport_at
        + if protocol == TCP {
            16
        } else if protocol == UDP {
            6
        } else {
            2
        };
    let sum = packet.get(at..at + 2)?;
    (protocol != UDP || sum != [0, 0]).then_some(at)
}

/// Replaces whole words of a packet, and corrects the checksums that cover them.
fn replace(packet: &mut [u8], at: usize, with: &[u8], sums: &[Option<usize>]) {
    for (offset, new) in (at..).step_by(2).zip(with.chunks_exact(2)) {
        let (old, new) = ([packet[offset], packet[offset + 1]], [new[0], new[1]]);
        packet[offset..offset + 2].copy_from_slice(&new);
        for sum_at in sums.iter().flatten().copied() {
            let sum = [packet[sum_at], packet[sum_at + 1]];
            packet[sum_at..sum_at + 2].copy_from_slice(&corrected(sum, old, new));
        }
    }
}

/// RFC 1624, equation 3: the checksum after a word has changed.
fn corrected(sum: [u8; 2], old: [u8; 2], new: [u8; 2]) -> [u8; 2] {
    let not = |word: [u8; 2]| u32::from(!u16::from_be_bytes(word));
    let total = not(sum) + not(old) + u32::from(u16::from_be_bytes(new));
    let folded = (total & 0xffff) + (total >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (!(folded as u16)).to_be_bytes()
}

fn array<const N: usize>(packet: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    let bytes = packet.get(at..at + N).ok_or(Malformed)?;
    bytes.try_into().map_err(|_| Malformed)
}

fn word(packet: &[u8], at: usize) -> Result<u16, Malformed> {
    array(packet, at).map(u16::from_be_bytes)
}

fn byte(packet: &[u8], at: usize) -> Result<u8, Malformed> {
    packet.get(at).copied().ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    fn v4(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn octets(at: SocketAddr) -> [u8; 4] {
        let IpAddr::V4(address) = at.ip() else { panic!("{at} is not IPv4") };
        address.octets()
    }

    fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ipv4(octets(from), octets(to), 64).udp(from.port(), to.port());
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).unwrap();
        packet
    }

    fn segment(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ipv4(octets(from), octets(to), 64);
        let mut packet = Vec::new();
        builder.tcp(from.port(), to.port(), 1, 100).syn().write(&mut packet, payload).unwrap();
        packet
    }

    /// Compares all checksums of a packet with those that another implementation computes.
    fn assert_checksums(packet: &[u8]) {
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let etherparse::NetSlice::Ipv4(ip) = sliced.net.unwrap() else { panic!("not IPv4") };
        let header = ip.header().to_header();
        assert_eq!(header.calc_header_checksum(), header.header_checksum, "the IP header");
        match sliced.transport.unwrap() {
            TransportSlice::Udp(udp) => {
                let computed = udp.to_header().calc_checksum_ipv4(&header, udp.payload());
                assert_eq!(computed.unwrap(), udp.checksum(), "UDP");
            }
            TransportSlice::Tcp(tcp) => {
                let computed = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload());
                assert_eq!(computed.unwrap(), tcp.checksum(), "TCP");
            }
            TransportSlice::Icmpv4(icmp) => {
                let computed = icmp.icmp_type().calc_checksum(icmp.payload());
                assert_eq!(computed, icmp.checksum(), "ICMP");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_ends_of_a_datagram_are_read_and_replaced() {
        let (from, to) = (v4("10.0.0.2:4000"), v4("198.18.0.1:53"));
        let mut packet = datagram(from, to, b"question");
        let flow = Flow { protocol: Protocol::Udp, source: from, destination: to };
        assert_eq!(Headers::parse(&packet).unwrap().payload, Payload::Flow(flow, 0));

        set_end(&mut packet, End::Source, v4("198.18.0.9:61000"));
        let flow = Flow { source: v4("198.18.0.9:61000"), ..flow };
        assert_eq!(Headers::parse(&packet).unwrap().payload, Payload::Flow(flow, 0));
        assert_checksums(&packet);
    }

    #[test]
    fn a_datagram_without_a_checksum_keeps_none() {
        let mut packet = datagram(v4("10.0.0.2:4000"), v4("198.18.0.1:53"), b"question");
        packet[26..28].fill(0);
        set_end(&mut packet, End::Source, v4("198.18.0.9:61000"));
        assert_eq!(packet[26..28], [0, 0]);
    }

    #[test]
    fn an_error_is_about_the_packet_that_it_quotes() {
        let (inside, outside, remote) =
            (v4("10.0.0.2:4000"), v4("198.18.0.9:61000"), v4("198.18.0.1:53"));
        let mut packet = Vec::new();
        let unreachable = etherparse::icmpv4::DestUnreachableHeader::Port;
        PacketBuilder::ipv4(octets(remote), octets(outside), 64)
            .icmpv4(etherparse::Icmpv4Type::DestinationUnreachable(unreachable))
            .write(&mut packet, &datagram(outside, remote, b"question")[..28])
            .unwrap();
        let about = Flow { protocol: Protocol::Udp, source: outside, destination: remote };
        let at = 28;
        assert_eq!(Headers::parse(&packet).unwrap().payload, Payload::Error { about, at });

        set_quoted_end(&mut packet, at, End::Source, inside);
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!(headers.destination, inside.ip());
        assert_eq!(headers.payload, Payload::Error { about: Flow { source: inside, ..about }, at });
        assert_checksums(&packet);
        let quoted = etherparse::Ipv4Header::from_slice(&packet[at..]).unwrap().0;
        assert_eq!(quoted.calc_header_checksum(), quoted.header_checksum);
    }

    #[test]
    fn an_ipv6_flow_is_read() {
        let (from, to): (Ipv6Addr, Ipv6Addr) =
            ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6(from.octets(), to.octets(), 64).tcp(1, 2, 3, 4).syn();
        builder.write(&mut packet, b"").unwrap();
        let flow =
            Flow { protocol: Protocol::Tcp, source: (from, 1).into(), destination: (to, 2).into() };
        assert_eq!(Headers::parse(&packet).unwrap().payload, Payload::Flow(flow, SYN));
    }

    #[test]
    fn a_fragment_has_no_flow() {
        let mut packet = datagram(v4("10.0.0.2:4000"), v4("198.18.0.1:53"), b"question");
        packet[6] = 0x20;
        assert_eq!(Headers::parse(&packet).unwrap().payload, Payload::Fragment);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(packet in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = Headers::parse(&packet);
        }

        #[test]
        fn any_damaged_packet_can_be_rewritten(
            at in 0_usize..60, with in any::<u8>(), cut in 0_usize..60,
        ) {
            let mut packet = segment(v4("10.0.0.2:4000"), v4("198.18.0.1:53"), b"");
            packet[at % 40] = with;
            packet.truncate(packet.len() - cut % 40);
            let to = v4("198.18.0.9:61000");
            match Headers::parse(&packet).map(|headers| headers.payload) {
                Ok(Payload::Flow(..)) if packet[0] >> 4 == 4 => set_end(&mut packet, End::Source, to),
                Ok(Payload::Error { at, .. }) => set_quoted_end(&mut packet, at, End::Source, to),
                _ => {}
            }
        }

        #[test]
        fn checksums_stay_correct(
            addresses in any::<[u32; 3]>(), ports in any::<[u16; 3]>(),
            payload in prop::collection::vec(any::<u8>(), 0..64), is_source: bool, is_tcp: bool,
        ) {
            let [from, to, new]: [SocketAddr; 3] =
                std::array::from_fn(|n| (Ipv4Addr::from(addresses[n]), ports[n]).into());
            let make = if is_tcp { segment } else { datagram };
            let mut packet = make(from, to, &payload);
            let end = if is_source { End::Source } else { End::Destination };
            set_end(&mut packet, end, new);
            assert_checksums(&packet);
            let expected = if is_source { make(new, to, &payload) } else { make(from, new, &payload) };
            prop_assert_eq!(packet, expected);
        }
    }
}
