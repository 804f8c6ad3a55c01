//! The sending half of a link.

use std::collections::VecDeque;

use bytes::Bytes;

use super::WINDOW_BYTES;
use crate::nats::packet::Ack;

/// The packets that one side has sent and the other may not have.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Packets from number `first` on, for sending them again.
    kept: VecDeque<Bytes>,
    first: u64,
    /// The lengths of packets that were received but not consumed, from `consumed` on, and of
    /// those that are kept.
    lengths: VecDeque<u32>,
    consumed: u64,
    unconsumed_bytes: usize,
}

/// An acknowledgement of packets that were never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidAck;

impl Outgoing {
    /// How many packets were sent.
    pub fn sent(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Whether further bytes may be sent now.
    pub fn has_room(&self) -> bool {
        self.unconsumed_bytes < WINDOW_BYTES
    }

    /// Whether some packets may not have arrived.
    pub fn is_unacknowledged(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Keeps a packet and returns its number.
    pub fn push(&mut self, bytes: Bytes) -> u64 {
        let number = self.sent();
        self.unconsumed_bytes += bytes.len();
        self.lengths.push_back(u32::try_from(bytes.len()).expect("packets are small"));
        self.kept.push_back(bytes);
        number
    }

    /// Drops what the other side has. Returns the packets to send again, with their numbers.
    pub fn acknowledge(
        &mut self,
        ack: Ack,
    ) -> Result<impl Iterator<Item = (u64, Bytes)> + use<>, InvalidAck> {
        if ack.expected > self.sent() || ack.consumed > ack.expected {
            return Err(InvalidAck);
        }
        // A late acknowledgement says less than an earlier one did, and changes nothing.
        while self.first < ack.expected {
            self.kept.pop_front();
            self.first += 1;
        }
        while self.consumed < ack.consumed {
            self.unconsumed_bytes -= self.lengths.pop_front().expect("it was sent") as usize;
            self.consumed += 1;
        }
        let again = match ack.is_missing {
            true => self.kept.clone(),
            false => VecDeque::new(),
        };
        Ok((self.first..).zip(again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(outgoing: &mut Outgoing, ack: Ack) -> Vec<u64> {
        outgoing.acknowledge(ack).unwrap().map(|(number, _)| number).collect()
    }

    #[test]
    fn the_window_is_full_until_the_other_side_consumes() {
        let mut outgoing = Outgoing::default();
        let packet = Bytes::from(vec![0; WINDOW_BYTES / 2]);
        assert_eq!(outgoing.push(packet.clone()), 0);
        assert!(outgoing.has_room());
        assert_eq!(outgoing.push(packet), 1);
        assert!(!outgoing.has_room() && outgoing.is_unacknowledged());

        assert!(again(&mut outgoing, Ack { expected: 2, ..Ack::default() }).is_empty());
        assert!(!outgoing.has_room() && !outgoing.is_unacknowledged());
        assert!(
            again(&mut outgoing, Ack { expected: 2, consumed: 1, ..Ack::default() }).is_empty()
        );
        assert!(outgoing.has_room());
    }

    #[test]
    fn packets_are_sent_again_from_the_first_missing_one() {
        let mut outgoing = Outgoing::default();
        for number in 0..5 {
            assert_eq!(outgoing.push(Bytes::from(vec![0])), number);
        }
        let ack = Ack { expected: 2, consumed: 1, is_missing: true };
        assert_eq!(again(&mut outgoing, ack), [2, 3, 4]);
        // A late acknowledgement.
        assert_eq!(again(&mut outgoing, Ack { expected: 1, ..ack }), [2, 3, 4]);
        assert_eq!(outgoing.sent(), 5);
    }

    #[test]
    fn an_acknowledgement_of_unsent_packets_is_refused() {
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::new());
        let refused = |outgoing: &mut Outgoing, ack| outgoing.acknowledge(ack).is_err();
        assert!(refused(&mut outgoing, Ack { expected: 2, ..Ack::default() }));
        assert!(refused(&mut outgoing, Ack { consumed: 1, ..Ack::default() }));
    }
}
