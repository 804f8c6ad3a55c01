//! The queue for one node, and how it is written.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;

use crate::frame::{self, ACK, HEADER};
use crate::{BusLimits, Loss};

/// Slices in one system call: what the kernel takes at most (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;

/// Slices for the few entries that most calls are for, where preparing 1024 would show.
const SLICES_FEW: usize = 32;

/// Something to be written: a header of its own and bytes that others may share.
#[derive(Clone)]
pub(crate) struct Entry {
    body: Bytes,
    header: [u8; ACK],
    header_len: u8,
    kind: Kind,
}

const _: () = assert!(size_of::<Entry>() <= 48, "kept once per message and node");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A message of the bus's user.
    Message,
    /// Something about topics.
    Control,
    /// All topics for a new link: outside the queue's bounds, as it is no more than what is kept
    /// here anyway.
    Welcome,
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

    /// Frames that were encoded already.
    pub fn frames(body: Vec<u8>) -> Self {
        Entry { body: body.into(), header: [0; ACK], header_len: 0, kind: Kind::Control }
    }

    /// The announcements of a new link.
    pub fn welcome(body: Vec<u8>) -> Self {
        Entry { kind: Kind::Welcome, ..Entry::frames(body) }
    }

    fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    fn len(&self) -> usize {
        usize::from(self.header_len) + self.body.len()
    }

    /// Its size in a queue, in bytes.
    fn cost(&self) -> usize {
        if self.kind == Kind::Welcome { 0 } else { self.len() + size_of::<Entry>() }
    }
}

/// The queue of one node. Any thread puts into it, the bus's takes out.
#[derive(Default)]
pub(crate) struct Outbox {
    entries: VecDeque<Entry>,
    /// The cost of the entries and of those that a [`Writer`] has taken and not written.
    bytes: usize,
}

/// A full queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Outbox {
    pub fn push(&mut self, entry: Entry, loss: Loss, limits: &BusLimits) -> Result<(), Full> {
        let bytes_max = match loss {
            Loss::Drop => limits.droppable_bytes_max,
            Loss::Cut => limits.queue_bytes_max,
        };
        let bytes = self.bytes + entry.cost();
        // An empty queue takes any one.
        if bytes > bytes_max && self.bytes > 0 {
            return Err(Full);
        }
        self.bytes = bytes;
        self.entries.push_back(entry);
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Entries taken from an [`Outbox`] to be written.
#[derive(Default)]
pub(crate) struct Writer {
    taken: VecDeque<Entry>,
    /// How much of the first entry is written.
    begun: usize,
    /// The cost of what was written and has not been taken off [`Outbox::bytes`].
    settled: usize,
}

/// The result of one system call.
#[derive(Default)]
pub(crate) struct Written {
    pub bytes: usize,
    pub messages: u64,
}

impl Writer {
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Settle what was written, and take all that waits when nothing is left to write.
    pub fn take(&mut self, outbox: &mut Outbox) {
        outbox.bytes -= std::mem::take(&mut self.settled);
        if self.taken.is_empty() {
            std::mem::swap(&mut self.taken, &mut outbox.entries);
            // A burst's room is not kept for good: there are two of these for each node.
            outbox.entries.shrink_to(SLICES_MAX);
        }
    }

    /// One system call.
    pub fn write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<Written> {
        let bytes = match self.taken.len() * 2 <= SLICES_FEW {
            true => write(self.slices(&mut [IoSlice::new(&[]); SLICES_FEW]))?,
            false => write(self.slices(&mut [IoSlice::new(&[]); SLICES_MAX]))?,
        };
        Ok(Written { bytes, messages: self.advance(bytes) })
    }

    fn slices<'a, 'b>(&'a self, room: &'b mut [IoSlice<'a>]) -> &'b [IoSlice<'a>] {
        let mut len = 0;
        let mut skip = self.begun;
        for entry in self.taken.iter().take(room.len() / 2) {
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

    /// Takes off what is written; returns how many messages it ended.
    fn advance(&mut self, bytes: usize) -> u64 {
        self.begun += bytes;
        let mut messages = 0;
        while let Some(first) = self.taken.front()
            && first.len() <= self.begun
        {
            self.begun -= first.len();
            self.settled += first.cost();
            messages += u64::from(first.kind == Kind::Message);
            self.taken.pop_front();
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Decoder, Frame};

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
        assert_eq!(outbox.push(Entry::welcome(vec![0; 9000]), Loss::Cut, &limits()), Ok(()));
    }

    #[test]
    fn an_empty_queue_takes_any_one_message() {
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
            writer.take(outbox);
            while !writer.is_empty() {
                let call = writer.write(|slices| Ok(write_up_to(piece, slices, &mut written)));
                messages += call.unwrap().messages;
            }
            writer.take(outbox);
            assert_eq!((messages, outbox.bytes()), (40, 0));
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
