//! Links between the processes of a server on several machines, over NATS.
//!
//! [`crate::bus::LocalBus`] exchanges messages over one stream for each other process, and
//! needs nothing from it but that bytes arrive in order while it lasts. Between processes of one
//! machine that stream is a socket pair. This crate makes it from NATS messages, so that
//! everything that holds between processes holds between machines.
//!
//! - A [`Machine`] gets the numbers of its processes and the secret of the cluster.
//! - [`Links`] connects one process to the processes of the other machines: it finds them, opens a link to
//!   each, and gives one end of it to the bus.
//!
//! - [`streams`] keeps the messages of topics with a history, in JetStream.
//!
//! # Loss
//!
//! NATS delivers at most once. A message may be lost when a NATS server dies or a client is slow.
//! Each side of a link numbers what it sends, keeps it until the other side has it, and sends it
//! again. So a link survives the loss of a NATS server without the loss of a message. A process that
//! is silent for six seconds is gone: its links end, and the bus reports it as down.
//!
//! # Bounds
//!
//! A link has at most eight MiB on its way, counted until the other side's bus has read them. Then
//! it reads no more from the bus, whose own queue grows up to its limits: see
//! [`crate::bus::BusLimits`].

mod claim;
mod link;
mod links;
mod machine;
mod packet;
mod refusals;
mod settings;
pub mod streams;

pub use claim::ClaimError;
pub use links::{Links, Process};
pub use machine::{JoinError, Machine};
pub use settings::{NatsError, NatsSettings};

/// A number that is larger than at earlier starts, and differs between machines.
fn new_incarnation() -> Result<u64, getrandom::Error> {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Ok((millis << 20) | u64::from(getrandom::u32()? >> 12))
}

#[cfg(test)]
mod tests {
    use watchfire_types::FixedHash;

    use crate::nats::claim::{self, FORMAT};
    use crate::nats::{links, packet};

    #[test]
    fn the_format_changes_with_every_message_between_machines() {
        let samples = [claim::samples(), links::samples(), packet::samples()].concat();
        let hash = samples.iter().fold(FixedHash::new(1), |hash, sample| hash.bytes(sample));
        assert_eq!(
            format!("{:#018x}", hash.finish()),
            format!("{FORMAT:#018x}"),
            "a message between machines has changed: set FORMAT in claim.rs to the first value, so \
             that machines with the old messages are not linked"
        );
    }

    /// Asserts that each variant of an enum is among these encoded samples: the next number of a variant
    /// is unknown to the decoder.
    pub(crate) fn assert_all_variants<'a, T: serde::Deserialize<'a>>(
        samples: &[Vec<u8>],
        unknown: &'a mut [u8; 64],
    ) {
        let variants: std::collections::BTreeSet<u8> =
            samples.iter().map(|sample| sample[0]).collect();
        assert!(variants.iter().copied().eq(0..variants.len() as u8));
        unknown[0] = variants.len() as u8;
        assert_eq!(
            postcard::from_bytes::<T>(unknown).err(),
            Some(postcard::Error::SerdeDeCustom),
            "a variant has no sample"
        );
    }
}
