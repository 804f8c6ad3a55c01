//! Writes to the kernel, and queues the part that it does not accept.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use bytes::Bytes;

use crate::counters::ShardCounters;
use crate::outbound_queue::{Outbound, Pace, Sharing};
use crate::record::Record;
use crate::wire;

/// The result of a successful write.
#[derive(Clone, Copy, PartialEq)]
#[must_use]
pub(super) enum Taken {
    /// The bytes were written, or appended to an existing queue.
    NoWait,
    /// The bytes began a queue: the caller must watch for writability.
    Waiting,
}

/// The reason why a frame was neither written nor queued.
pub(super) enum NotTaken {
    Full,
    Broken,
}

/// The counts and the limit for writes to sockets.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    pub(super) queued_bytes_max: usize,
    pub(super) pace: Pace,
    pub(super) counters: &'a ShardCounters,
}

impl Writer<'_> {
    /// Writes a frame, or queues the part that the kernel does not accept.
    pub(super) fn transmit(
        &self,
        record: &mut Record,
        frame: &Bytes,
        sharing: Sharing,
    ) -> Result<Taken, NotTaken> {
        let mut written = 0;
        match &record.outbound {
            Some(queue) if !queue.takes(frame, sharing, self.pace, self.queued_bytes_max) => {
                return Err(NotTaken::Full);
            }
            Some(_) => {}
            None => {
                written = wire::write(descriptor(record), frame).map_err(|_| NotTaken::Broken)?;
                self.counters.bytes_out.add(written as u64);
            }
        }
        self.counters.deliveries.add(1);
        if record.outbound.is_none() && written == frame.len() {
            return Ok(Taken::NoWait);
        }
        self.counters.queued_frames.add(1);
        Ok(self.queue(record, frame.clone(), written, sharing))
    }

    /// Writes bytes that no other socket shares, or queues the part that the kernel does not
    /// accept.
    pub(super) fn transmit_bytes(
        &self,
        record: &mut Record,
        bytes: &[u8],
    ) -> Result<Taken, wire::Broken> {
        let mut written = 0;
        if record.outbound.is_none() {
            written = wire::write(descriptor(record), bytes)?;
            self.counters.bytes_out.add(written as u64);
        }
        Ok(match &bytes[written..] {
            [] => Taken::NoWait,
            rest => self.queue(record, Bytes::copy_from_slice(rest), 0, Sharing::Own),
        })
    }

    /// Writes an HTTP response, or queues the part that the kernel does not accept.
    pub(super) fn transmit_response(
        &self,
        record: &mut Record,
        response: &[Bytes],
    ) -> Result<Taken, wire::Broken> {
        let mut slices = [IoSlice::new(&[]); 8];
        if response.len() > slices.len() {
            return self.transmit_response(record, &[response.concat().into()]);
        }
        let mut written = 0;
        if record.outbound.is_none() {
            for (slice, part) in slices.iter_mut().zip(response) {
                *slice = IoSlice::new(part);
            }
            written = wire::write_all_of(descriptor(record), &slices[..response.len()])?;
            self.counters.bytes_out.add(written as u64);
        }
        let mut taken = Taken::NoWait;
        for part in response {
            if written >= part.len() {
                written -= part.len();
                continue;
            }
            if self.queue(record, part.clone(), written, Sharing::Own) == Taken::Waiting {
                taken = Taken::Waiting;
            }
            written = 0;
        }
        Ok(taken)
    }

    /// Queues bytes of which the first `sent` are written, in a new queue if there is none.
    fn queue(&self, record: &mut Record, mut bytes: Bytes, sent: usize, sharing: Sharing) -> Taken {
        let (before, taken) = match &record.outbound {
            Some(queue) => (queue.bytes(), Taken::NoWait),
            None => (0, Taken::Waiting),
        };
        let queue = match &mut record.outbound {
            Some(queue) => {
                let is_own = sharing == Sharing::Own;
                queue.push(bytes.split_off(sent), is_own, self.pace.tick);
                queue
            }
            None => {
                let queue = Outbound::begin(bytes, sent, self.pace.tick, self.queued_bytes_max);
                record.outbound.insert(Box::new(queue))
            }
        };
        self.counters.queued_bytes_now.add((queue.bytes() - before) as u64);
        taken
    }
}

fn descriptor(record: &Record) -> &OwnedFd {
    record.fd.as_ref().expect("a socket in use has a descriptor")
}
