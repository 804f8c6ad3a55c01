//! Writes to the kernel, and queues the part that it does not accept.

use std::io::IoSlice;

use bytes::Bytes;

use crate::counters::ShardCounters;
use crate::outbound::Outbound;
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

/// Write a frame, or queue the part that the kernel does not accept.
pub(super) fn transmit(
    record: &mut Record,
    frame: &Bytes,
    queued_bytes_max: usize,
    tick: u32,
    counters: &ShardCounters,
) -> Result<Taken, NotTaken> {
    if let Some(queue) = &mut record.outbound {
        if !queue.has_room(frame, queued_bytes_max) {
            return Err(NotTaken::Full);
        }
        let before = queue.bytes();
        queue.push(frame.clone());
        counters.queued_bytes_now.add((queue.bytes() - before) as u64);
        counters.queued_frames.add(1);
        counters.deliveries.add(1);
        return Ok(Taken::NoWait);
    }
    let fd = record.fd.as_ref().expect("a socket in use has a descriptor");
    let written = wire::write(fd, frame).map_err(|_| NotTaken::Broken)?;
    counters.bytes_out.add(written as u64);
    counters.deliveries.add(1);
    if written < frame.len() {
        let queue = Outbound::begin(frame.clone(), written, tick, queued_bytes_max);
        counters.queued_bytes_now.add(queue.bytes() as u64);
        counters.queued_frames.add(1);
        record.outbound = Some(Box::new(queue));
        return Ok(Taken::Waiting);
    }
    Ok(Taken::NoWait)
}

/// Write bytes that no other socket shares, or queue the part that the kernel does not accept.
pub(super) fn transmit_bytes(
    record: &mut Record,
    bytes: &[u8],
    queued_bytes_max: usize,
    tick: u32,
    counters: &ShardCounters,
) -> Result<Taken, wire::Broken> {
    if record.outbound.is_some() {
        let rest = Bytes::copy_from_slice(bytes);
        return transmit_response(record, &[rest], queued_bytes_max, tick, counters);
    }
    let fd = record.fd.as_ref().expect("a socket in use has a descriptor");
    let written = wire::write(fd, bytes)?;
    counters.bytes_out.add(written as u64);
    if written < bytes.len() {
        let rest = Bytes::copy_from_slice(&bytes[written..]);
        let queue = Outbound::begin(rest, 0, tick, queued_bytes_max);
        counters.queued_bytes_now.add(queue.bytes() as u64);
        record.outbound = Some(Box::new(queue));
        return Ok(Taken::Waiting);
    }
    Ok(Taken::NoWait)
}

/// Write an HTTP response, or queue the part that the kernel does not accept.
pub(super) fn transmit_response(
    record: &mut Record,
    response: &[Bytes],
    queued_bytes_max: usize,
    tick: u32,
    counters: &ShardCounters,
) -> Result<Taken, wire::Broken> {
    let mut slices = [IoSlice::new(&[]); 8];
    if response.len() > slices.len() {
        let whole = response.concat().into();
        return transmit_response(record, &[whole], queued_bytes_max, tick, counters);
    }
    let (mut written, mut taken) = (0, Taken::NoWait);
    if record.outbound.is_none() {
        let fd = record.fd.as_ref().expect("a socket in use has a descriptor");
        for (slice, part) in slices.iter_mut().zip(response) {
            *slice = IoSlice::new(part);
        }
        written = wire::write_all_of(fd, &slices[..response.len()])?;
        counters.bytes_out.add(written as u64);
    }
    for part in response {
        if written >= part.len() {
            written -= part.len();
            continue;
        }
        match &mut record.outbound {
            Some(queue) => {
                let before = queue.bytes();
                queue.push(part.slice(written..));
                counters.queued_bytes_now.add((queue.bytes() - before) as u64);
            }
            None => {
                let queue = Outbound::begin(part.clone(), written, tick, queued_bytes_max);
                counters.queued_bytes_now.add(queue.bytes() as u64);
                record.outbound = Some(Box::new(queue));
                taken = Taken::Waiting;
            }
        }
        written = 0;
    }
    Ok(taken)
}
