//! The receiving half of a link.

use crate::nats::packet::Ack;

/// Packets after which an acknowledgement is due, for a sender whose window is small beside them.
const ACK_PACKETS: u64 = 32;

/// The packets that one side has received.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    expected: u64,
    consumed: u64,
    /// The numbers that the last acknowledgement had.
    acknowledged: (u64, u64),
    /// Whether a gap was reported and no missing packet has come since.
    is_gap_reported: bool,
}

/// The next step for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Its bytes are the next ones.
    Next,
    /// It came before: nothing.
    Repeated,
    /// Packets before it are missing: drop it, and send an acknowledgement if one is given.
    Early(Option<Ack>),
}

impl Incoming {
    pub fn receive(&mut self, number: u64) -> Arrival {
        if number < self.expected {
            return Arrival::Repeated;
        }
        if number > self.expected {
            let is_new = !std::mem::replace(&mut self.is_gap_reported, true);
            return Arrival::Early(is_new.then(|| self.ack(true)));
        }
        self.expected += 1;
        self.is_gap_reported = false;
        Arrival::Next
    }

    /// Notes that the bytes of one more packet have left the queue. Returns an acknowledgement if
    /// one is due.
    pub fn consume(&mut self) -> Option<Ack> {
        self.consumed += 1;
        let is_due = self.consumed - self.acknowledged.1 >= ACK_PACKETS;
        is_due.then(|| self.ack(false))
    }

    /// Answers a probe of the sender, which has sent this number of packets.
    pub fn probed(&mut self, sent: u64) -> Ack {
        self.is_gap_reported = sent > self.expected;
        self.ack(self.is_gap_reported)
    }

    /// The acknowledgement of what the sender does not know yet.
    pub fn pending_ack(&mut self) -> Option<Ack> {
        ((self.expected, self.consumed) != self.acknowledged).then(|| self.ack(false))
    }

    fn ack(&mut self, is_missing: bool) -> Ack {
        self.acknowledged = (self.expected, self.consumed);
        Ack { expected: self.expected, consumed: self.consumed, is_missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_accepted_in_order_once_and_a_gap_is_reported_once() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.receive(0), Arrival::Next);
        assert_eq!(incoming.receive(0), Arrival::Repeated);
        let missing = Ack { expected: 1, consumed: 0, is_missing: true };
        assert_eq!(incoming.receive(2), Arrival::Early(Some(missing)));
        assert_eq!(incoming.receive(3), Arrival::Early(None));
        assert_eq!(incoming.receive(1), Arrival::Next);
        assert_eq!(incoming.receive(3), Arrival::Early(Some(Ack { expected: 2, ..missing })));
    }

    #[test]
    fn a_probe_finds_a_lost_end() {
        let mut incoming = Incoming::default();
        incoming.receive(0);
        assert!(!incoming.probed(1).is_missing);
        assert_eq!(incoming.probed(2), Ack { expected: 1, consumed: 0, is_missing: true });
    }

    #[test]
    fn consumed_packets_are_acknowledged_in_groups_or_when_asked() {
        let mut incoming = Incoming::default();
        for number in 0..ACK_PACKETS {
            assert_eq!(incoming.receive(number), Arrival::Next);
            assert_eq!(incoming.consume().is_some(), number == ACK_PACKETS - 1);
        }
        assert_eq!(incoming.pending_ack(), None);
        incoming.receive(ACK_PACKETS);
        let ack = Ack { expected: ACK_PACKETS + 1, consumed: ACK_PACKETS, is_missing: false };
        assert_eq!(incoming.pending_ack(), Some(ack));
        assert_eq!(incoming.pending_ack(), None);
    }
}
