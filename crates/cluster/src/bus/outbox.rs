//! The queue of one node, and its writer.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Instant;

use bytes::Bytes;

use crate::bus::frame::{self, ACK, HEADER};
use crate::bus::{BusLimits, Loss};

/// Maximum slices of one system call, which is the kernel's maximum (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;

/// Slices for short queues, where preparing 1024 would be noticeable.
const SLICES_FEW: usize = 32;

/// A queued item: a header of its own, and bytes that may be shared.
#[derive(Clone)]
pub(crate) struct Entry {
    body: Bytes,
    header: [u8; ACK],
    header_len: u8,
    kind: Kind,
}

const _: () = assert!(size_of::<Entry>() <= 48, "stored once per message and node");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A message of the bus's user.
    Message,
    /// An announcement or acknowledgement.
    Control,
    /// All topics for a new link. They do not count against the queue's bound: they are as large as
    /// the topics that this node stores anyway.
    Initial,
}

impl Entry {
    pub fn message(body: Bytes) -> Self {
        let mut header = [0; ACK];
        header[..HEADER].copy_from_slice(&frame::message_header(body.len()));
        Entry { body, header, header_len: HEADER as u8, kind: Kind::Message }
    }

    pub fn ack(seq: u64) -> Self {
        let header = frame::ack(seq);
        Entry { body: Bytes::new(), header, header_len: ACK as u8, kind: Kind::Control }
    }

    /// Frames that are already encoded.
    pub fn frames(body: Vec<u8>) -> Self {
        Entry { body: body.into(), header: [0; ACK], header_len: 0, kind: Kind::Control }
    }

    /// The first announcements on a new link.
    pub fn initial(body: Vec<u8>) -> Self {
        Entry { kind: Kind::Initial, ..Entry::frames(body) }
    }

    fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    fn len(&self) -> usize {
        usize::from(self.header_len) + self.body.len()
    }

    /// Its size in the queue, in bytes.
    fn cost(&self) -> usize {
        if self.kind == Kind::Initial { 0 } else { self.len() + size_of::<Entry>() }
    }
}

/// The queue of one node. Any thread appends to it; the thread that writes takes entries.
#[derive(Default)]
pub(crate) struct Outbox {
    entries: VecDeque<Entry>,
    /// The cost of the entries, and of those that a [`Writer`] has taken and not written.
    bytes: usize,
    /// The number of the same entries.
    waiting: usize,
    /// When the first of the entries came, and the first of those that the writer has. So the clock is read once for
    /// all entries that are written together.
    since: Option<Instant>,
    taken_since: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Outbox {
    pub fn push(&mut self, entry: Entry, loss: Loss, limits: &BusLimits) -> Result<(), Full> {
        let bytes_max = match loss {
            Loss::Drop => limits.droppable_bytes_max,
            Loss::Cut => limits.queue_bytes_max,
        };
        let bytes = self.bytes + entry.cost();
        // An empty queue accepts one entry of any size.
        if bytes > bytes_max && self.bytes > 0 {
            return Err(Full);
        }
        self.bytes = bytes;
        self.waiting += 1;
        self.since.get_or_insert_with(Instant::now);
        self.entries.push_back(entry);
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Entries that are not written.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// When the oldest of them came, or an earlier one that was written with it.
    pub fn oldest(&self) -> Option<Instant> {
        self.taken_since.or(self.since)
    }

    /// Entries that no [`Writer`] has taken.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Entries taken from an [`Outbox`] to be written.
#[derive(Default)]
pub(crate) struct Writer {
    entries: VecDeque<Entry>,
    /// The written bytes of the first entry.
    first_written: usize,
    /// The cost and the number of written entries that are not yet subtracted from the [`Outbox`].
    written_cost: usize,
    written: usize,
}

/// The result of one system call.
#[derive(Default)]
pub(crate) struct Written {
    pub bytes: usize,
    pub messages: u64,
}

impl Writer {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Subtracts what was written, and takes all entries when none are left to write.
    pub fn take(&mut self, outbox: &mut Outbox) {
        outbox.bytes -= std::mem::take(&mut self.written_cost);
        outbox.waiting -= std::mem::take(&mut self.written);
        if self.entries.is_empty() {
            outbox.taken_since = outbox.since.take();
            std::mem::swap(&mut self.entries, &mut outbox.entries);
            // Free the capacity of a burst: there are two of these queues for each node.
            outbox.entries.shrink_to(SLICES_MAX);
        }
    }

    /// Writes with one system call.
    pub fn write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<Written> {
        let bytes = match self.entries.len() * 2 <= SLICES_FEW {
            true => write(self.slices(&mut [IoSlice::new(&[]); SLICES_FEW]))?,
            false => write(self.slices(&mut [IoSlice::new(&[]); SLICES_MAX]))?,
        };
        Ok(Written { bytes, messages: self.advance(bytes) })
    }

    fn slices<'a, 'b>(&'a self, room: &'b mut [IoSlice<'a>]) -> &'b [IoSlice<'a>] {
        let mut len = 0;
        let mut skip = self.first_written;
        for entry in self.entries.iter().take(room.len() / 2) {
            for part in [entry.header(), &entry.body] {
                let rest = &part[skip.min(part.len())..];
                skip -= part.len() - rest.len();
                if !rest.is_empty() {
                    room[len] = IoSlice::new(rest);
                    len += 1;
                }
            }
        }
        &room[..len]
    }

    /// Removes written entries; returns the number of messages among them.
    fn advance(&mut self, bytes: usize) -> u64 {
        self.first_written += bytes;
        let mut messages = 0;
        while let Some(first) = self.entries.front()
            && first.len() <= self.first_written
        {
            self.first_written -= first.len();
            self.written_cost += first.cost();
            self.written += 1;
            messages += u64::from(first.kind == Kind::Message);
            self.entries.pop_front();
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::frame::{Decoder, Frame};

    fn limits() -> BusLimits {
        BusLimits { droppable_bytes_max: 1000, queue_bytes_max: 2000, ..BusLimits::default() }
    }

    fn message(len: usize) -> Entry {
        Entry::message(vec![7; len].into())
    }

    #[test]
    fn droppable_messages_leave_room_for_required_ones() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.push(message(900), Loss::Drop, &limits()), Ok(()));
        assert_eq!(outbox.push(message(100), Loss::Drop, &limits()), Err(Full));
        assert_eq!(outbox.push(message(900), Loss::Cut, &limits()), Ok(()));
        assert_eq!(outbox.push(message(100), Loss::Cut, &limits()), Err(Full));
        assert_eq!(outbox.push(Entry::initial(vec![0; 9000]), Loss::Cut, &limits()), Ok(()));
    }

    #[test]
    fn an_empty_queue_accepts_one_message_of_any_size() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.push(message(5000), Loss::Drop, &limits()), Ok(()));
        assert_eq!(outbox.push(message(0), Loss::Drop, &limits()), Err(Full));
    }

    #[test]
    fn frames_written_in_pieces_decode_as_they_were_pushed() {
        for piece in [1, 2, 5, 7, 64, 100_000] {
            let (mut outbox, mut writer, mut written) = Default::default();
            let outbox: &mut Outbox = &mut outbox;
            let writer: &mut Writer = &mut writer;
            for len in 0..40 {
                outbox.push(message(len), Loss::Cut, &BusLimits::default()).unwrap();
                outbox.push(Entry::ack(len as u64), Loss::Cut, &BusLimits::default()).unwrap();
            }
            let mut messages = 0;
            let since = outbox.oldest();
            writer.take(outbox);
            assert_eq!((outbox.waiting(), outbox.oldest()), (80, since));
            while !writer.is_empty() {
                let call = writer.write(|slices| Ok(write_up_to(piece, slices, &mut written)));
                messages += call.unwrap().messages;
            }
            writer.take(outbox);
            assert_eq!((messages, outbox.bytes()), (40, 0));
            assert_eq!((outbox.waiting(), outbox.oldest()), (0, None));
            let (mut decoder, mut input) = (Decoder::new(1000), written.as_slice());
            for len in 0..40 {
                let frame = decoder.decode(&mut input).unwrap();
                assert_eq!(frame, Some(Frame::Message(&vec![7; len])));
                let frame = decoder.decode(&mut input).unwrap();
                assert_eq!(frame, Some(Frame::Ack { seq: len as u64 }));
            }
        }
    }

    fn write_up_to(max: usize, slices: &[IoSlice<'_>], into: &mut Vec<u8>) -> usize {
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied()).take(max);
        let before = into.len();
        into.extend(bytes);
        into.len() - before
    }
}
