//! Messages between a supervisor and its worker. Both ends are the same program.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The low bits of a hash of samples of these messages, which a test computes. So it changes with them:
/// otherwise a program that was replaced on disk, under a running supervisor, would misread them.
pub(crate) const PROTOCOL: u16 = 12096;

/// Maximum bytes of startup data in one message.
pub(crate) const STARTUP_DATA_PIECE_BYTES: usize = 32 * 1024;

/// Maximum bytes of a message: a piece of startup data and its encoding.
pub(crate) const MESSAGE_BYTES_MAX: usize = STARTUP_DATA_PIECE_BYTES + 64;

/// From the supervisor. Descriptors are sent with the message, in the order given here.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SupervisorMessage<'a> {
    Start {
        protocol: u16,
        slot: u16,
        workers: u16,
        startup_data_bytes: u32,
        listeners: u32,
        restarts: u64,
        hangs: u64,
        heartbeat_period: Duration,
    },
    StartupData(#[serde(borrow)] &'a [u8]),
    /// The next listeners, one for each descriptor.
    Listeners,
    /// The sockets for the bus and for handing over connections.
    Link {
        to: u16,
        number: u64,
    },
    /// The setup is complete.
    Begin,
    /// All workers that do not respond now.
    Unresponsive(Vec<u16>),
    /// Finish open work, then exit.
    Drain,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum WorkerReport {
    /// The worker serves its listeners.
    Ready,
    /// The worker's event loops run.
    Heartbeat,
    LinkLost {
        to: u16,
        number: u64,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use watchfire_types::FixedHash;

    use super::*;

    /// Hashes encoded samples of an enum, of which every variant must be one: the next number of a
    /// variant is unknown to the decoder.
    fn hash_all<T: Serialize>(
        hash: FixedHash,
        samples: &[T],
        decode: fn(&[u8]) -> Option<postcard::Error>,
    ) -> FixedHash {
        let encoded = samples.iter().map(|sample| postcard::to_stdvec(sample).unwrap());
        let encoded: Vec<Vec<u8>> = encoded.collect();
        let variants: BTreeSet<u8> = encoded.iter().map(|bytes| bytes[0]).collect();
        assert!(variants.iter().copied().eq(0..variants.len() as u8));
        let unknown = [&[variants.len() as u8][..], &[0; 64]].concat();
        assert_eq!(decode(&unknown), Some(postcard::Error::SerdeDeCustom), "it has no sample");
        encoded.iter().fold(hash, |hash, bytes| hash.bytes(bytes))
    }

    #[test]
    fn the_protocol_changes_with_every_message_of_supervisor_and_worker() {
        let orders = [
            SupervisorMessage::Start {
                protocol: 0,
                slot: 1,
                workers: 2,
                startup_data_bytes: 3,
                listeners: 4,
                restarts: 5,
                hangs: 6,
                heartbeat_period: Duration::from_millis(1_500),
            },
            SupervisorMessage::StartupData(b"d"),
            SupervisorMessage::Listeners,
            SupervisorMessage::Link { to: 1, number: 2 },
            SupervisorMessage::Begin,
            SupervisorMessage::Unresponsive(vec![1]),
            SupervisorMessage::Drain,
        ];
        let reports = [
            WorkerReport::Ready,
            WorkerReport::Heartbeat,
            WorkerReport::LinkLost { to: 1, number: 2 },
        ];
        let hash = FixedHash::new(1);
        let hash = hash_all(hash, &orders, |bytes| {
            postcard::from_bytes::<SupervisorMessage<'_>>(bytes).err()
        });
        let hash =
            hash_all(hash, &reports, |bytes| postcard::from_bytes::<WorkerReport>(bytes).err());
        let protocol = hash.finish() as u16;
        assert_eq!(protocol, PROTOCOL, "a message has changed: set PROTOCOL to the first value");
    }
}
