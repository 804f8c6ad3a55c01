//! Counts of a network: packets and bytes by pair of peers, and the packets that were dropped, by cause.

use std::collections::BTreeMap;
use std::time::Duration;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// The link lost it, with the probability that its plan gives.
    Lost,
    /// The link's queue was full.
    QueueFull,
    /// The whole network carries as many bytes as it may.
    MemoryFull,
    /// No peer has the destination's address, or the source is not the sender's own. Multicast packets are among these.
    Unroutable,
    /// The packet contradicts itself, or is cut short.
    Malformed,
    /// Into a NAT or firewall: no session admits it.
    Unsolicited,
    /// Out of a NAT: it belongs to no session and cannot begin one.
    Unmapped,
    /// The NAT has as many sessions as it may.
    NatFull,
    /// The NAT drops UDP.
    UdpBlocked,
    /// A NAT cannot tell the port of a fragment.
    Fragment,
}

/// Packets, and the bytes of their IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// The packets that one peer has sent to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCount {
    /// Left the sender's link and was on its way to this receiver.
    pub sent: Count,
    /// Reached the receiver's device.
    pub delivered: Count,
}

/// The counts of a network since its start. A peer is named by its position in the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// By sender and receiver.
    pub pairs: BTreeMap<(usize, usize), PairCount>,
    /// By the peer at whose link or NAT it happened, and the cause.
    pub drops: BTreeMap<(usize, DropCause), u64>,
    /// How late packets reached their device, beyond the time that the plan gives: the longest.
    pub lateness_max: Duration,
    /// The same, the sum over all packets that were delivered.
    pub lateness_sum: Duration,
    /// CPU time of the thread that forwards, with the kernel's work for receivers.
    pub cpu_time: Duration,
}

impl Figures {
    /// All that was delivered.
    pub fn delivered(&self) -> Count {
        self.pairs.values().fold(Count::default(), |sum, pair| Count {
            packets: sum.packets + pair.delivered.packets,
            bytes: sum.bytes + pair.delivered.bytes,
        })
    }

    /// Packets dropped for one cause, at all peers.
    pub fn dropped(&self, cause: DropCause) -> u64 {
        self.drops.iter().filter(|((_, of), _)| *of == cause).map(|(_, count)| count).sum()
    }
}
