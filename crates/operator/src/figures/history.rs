//! The history of figures and events, in memory and in a file that survives a restart.
//!
//! An operator looks at the history after something went wrong, often after the server was restarted because
//! of it. So it must not end with the process, and it must not itself become a trouble: a file that grows
//! fills the disk, and a database would be another program that can fail.
//!
//! # Rings of rows, and a ring of events
//!
//! The file is four rings of slots of fixed size. A row belongs to a second, a minute or an hour of Unix time, and
//! the remainder of its number decides its slot: with 86,400 slots for seconds, second 1,700,000,123 has slot 80,123,
//! and so has the second a day later, which replaces it. Nothing says where a ring begins. A slot has the time of its
//! row, so a reader that wants a second looks into its slot, and finds the row of that second, or an older one
//! because the server was down. Events have no fixed rate, so each has a number that counts up, and its remainder by
//! 4,096 decides the slot.
//!
//! A day is known by the second, a month by the minute, and a year by the hour. A value in the file has two bytes: its
//! logarithm, in steps of a twelfth of a percent ([`encode`]). With 80 columns, a row has 176 bytes with its time and a
//! checksum, and the file about 25 MB. A server with other features has a file of another size. The memory has only the rows of the last 15
//! minutes, 24 hours and 31 days by their steps: about 1.5 MB. One sample writes one slot, every sixtieth one more, and each hour a third. They are in the
//! kernel's cache when the write returns, so they survive the end of the process by any signal.
//!
//! The row of a minute is made from the seconds of that minute: the mean, and of a quantile the largest
//! (`Row::mean`). The row of an hour is made from its minutes in the same way.
//!
//! # Faults of the file
//!
//! - The machine loses power within a write. Each slot ends with 8 bytes of a SHA-256 of its content, so a slot
//!   that was half written counts as empty. One second is missing, and nothing else.
//! - The disk becomes full. The space is reserved when the file is opened, so writing goes on.
//! - The file is cut. It gets its length back, and the missing slots are empty.
//! - A version of the server has other columns. The header has a hash of their names, and of the sizes. A
//!   file with another header is started anew: values under wrong names would be worse than none.
//! - A server replaces another one. A lock gives the file to one of them. The new server records in memory,
//!   tries again each second, and when it gets the lock it puts its rows behind those of the file.
//! - The clock is set back. A row that is not newer than the last one is dropped, in memory and in the file,
//!   until the clock has reached the time of the last row again.
//! - Writing fails. The history goes on in memory, and the log says so.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::columns::Columns;
use super::sampler::Row;
use crate::answers::Event;

/// Events that the memory has, and those of the file. A further one replaces the oldest.
const EVENTS: usize = 256;
const EVENTS_IN_FILE: usize = 4_096;
/// The most rows of one answer: 24 hours by the minute.
const ROWS_READ_MAX: usize = 24 * 60;
/// Slots that are read at a time while a file is attached.
const SLOTS_AT_A_TIME: usize = 4_096;

const CHECKSUM_BYTES: usize = 8;
/// An event in the file: its length, its JSON, and the checksum.
const EVENT_BYTES: usize = 512;
/// The longest text of an event. It is cut further if its JSON does not fit in a slot.
const EVENT_TEXT_BYTES_MAX: usize = 240;
const HEADER_BYTES: usize = 64;
const VERSION: &str = "watchfire history 2";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Step {
    #[default]
    Second,
    Minute,
    Hour,
}

impl Step {
    const ALL: [Step; 3] = [Step::Second, Step::Minute, Step::Hour];

    pub fn millis(self) -> u64 {
        match self {
            Step::Second => 1_000,
            Step::Minute => 60_000,
            Step::Hour => 3_600_000,
        }
    }

    /// The number of the step that has a time, since the beginning of Unix time.
    fn position(self, time_ms: u64) -> u64 {
        time_ms / self.millis()
    }

    /// Rows in memory.
    fn rows_max(self) -> usize {
        match self {
            Step::Second => 15 * 60,
            Step::Minute => 24 * 60,
            Step::Hour => 31 * 24,
        }
    }

    /// Rows in the file.
    fn slots(self) -> usize {
        match self {
            Step::Second => 24 * 60 * 60,
            Step::Minute => 31 * 24 * 60,
            Step::Hour => 366 * 24,
        }
    }
}

/// The history of one machine.
#[derive(Default)]
pub(crate) struct History {
    /// The last rows, by their steps.
    rows: [VecDeque<Row>; Step::ALL.len()],
    events: VecDeque<Event>,
    /// The number of the next event, which decides its slot.
    next_event: u64,
    file: Option<File>,
    columns: Columns,
}

/// Why the file of the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryFileError {
    /// Another server has it: the one that this server replaces, until it ends.
    #[error("another server uses it")]
    InUse,
    #[error(transparent)]
    File(#[from] io::Error),
}

impl History {
    pub fn new(columns: Columns) -> Self {
        History { columns, ..History::default() }
    }

    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Uses a file from now on: adds its content before the own one, and writes to it.
    pub fn attach(&mut self, path: &Path) -> Result<(), HistoryFileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(HistoryFileError::InUse),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut header = [0; HEADER_BYTES];
        let is_ours =
            file.read_exact_at(&mut header, 0).is_ok() && header == own_header(&self.columns);
        if !is_ours {
            file.set_len(0)?;
            file.write_all_at(&own_header(&self.columns), 0)?;
        }
        // A file that was cut gets its length back; the missing slots are empty. Its space is reserved, so
        // that it can be written while the disk is full.
        let row_bytes = row_bytes(&self.columns);
        let file_bytes = event_offset(row_bytes, EVENTS_IN_FILE) as u64;
        file.set_len(file_bytes)?;
        match fallocate(&file, FallocateFlags::empty(), 0, file_bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut rows: [VecDeque<Row>; Step::ALL.len()] = Default::default();
        for step in Step::ALL {
            let newest = newest_position(&file, row_bytes, step)?;
            let oldest = newest.saturating_sub(step.rows_max() as u64 - 1);
            rows[step as usize] =
                read_rows(&file, row_bytes, step, oldest..=newest, step.rows_max())?.into();
        }
        let (earlier, next_event) = read_events(&file, row_bytes)?;
        let own = std::mem::replace(self, History::new(self.columns.clone()));
        self.next_event = next_event;
        self.file = Some(file);
        self.events = earlier.into();
        self.events.drain(..self.events.len().saturating_sub(EVENTS));
        self.rows = rows;
        own.events.into_iter().for_each(|event| self.add_event(event));
        for (step, rows) in Step::ALL.into_iter().zip(own.rows) {
            rows.into_iter().for_each(|row| self.write_row(step, row));
        }
        Ok(())
    }

    /// Adds the row of a second, and those of the minute and the hour that it ends. One that is not newer than the last
    /// row is dropped: the clock was set back.
    pub fn add(&mut self, row: Row) {
        let before = self.latest().map(|row| row.time_ms);
        let now = row.time_ms;
        if before.is_some_and(|before| Step::Second.position(before) >= Step::Second.position(now))
        {
            return;
        }
        for (step, part) in [(Step::Minute, Step::Second), (Step::Hour, Step::Minute)] {
            let Some(ended) = before.map(|before| step.position(before)) else { continue };
            if ended < step.position(now) {
                let start = ended * step.millis();
                let (columns, rows) = (&self.columns, self.rows(part));
                let from = rows.partition_point(|row| row.time_ms < start);
                let until = rows.partition_point(|row| row.time_ms < start + step.millis());
                let mean = Row::mean(columns, start, rows.range(from..until));
                self.write_row(step, mean);
            }
        }
        self.write_row(Step::Second, row);
    }

    fn write_row(&mut self, step: Step, row: Row) {
        let position = step.position(row.time_ms);
        if self.rows(step).back().is_some_and(|last| step.position(last.time_ms) >= position) {
            return;
        }
        let offset = row_offset(row_bytes(&self.columns), step, position);
        self.write(offset, &encode_row(&row));
        let rows = &mut self.rows[step as usize];
        rows.push_back(row);
        if rows.len() > step.rows_max() {
            rows.pop_front();
        }
    }

    /// Adds an event. Its text is cut to what a slot can hold.
    pub fn add_event(&mut self, mut event: Event) {
        event.text.truncate(event.text.floor_char_boundary(EVENT_TEXT_BYTES_MAX));
        let bytes = loop {
            match encode_event(self.next_event, &event) {
                Some(bytes) => break bytes,
                None => {
                    let half = event.text.len() / 2;
                    event.text.truncate(event.text.floor_char_boundary(half));
                }
            }
        };
        let slot = (self.next_event % EVENTS_IN_FILE as u64) as usize;
        self.write(event_offset(row_bytes(&self.columns), slot), &bytes);
        self.next_event += 1;
        self.events.push_back(event);
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
    }

    /// The rows after a time, and before or at another one, in order. Those that only the file has are read from it; at
    /// most 1,440 rows are read at once.
    pub fn rows_between(&self, step: Step, after_ms: u64, until_ms: u64) -> Vec<Row> {
        let rows = self.rows(step);
        let in_memory = rows.front().is_some_and(|oldest| oldest.time_ms <= after_ms);
        let newest = rows.back().map(|row| step.position(row.time_ms));
        let read = self.file.as_ref().zip(newest).filter(|_| !in_memory && after_ms > 0);
        if let Some((file, newest)) = read {
            let oldest = (newest + 1).saturating_sub(step.slots() as u64);
            let first = step.position(after_ms).max(oldest);
            let last = step.position(until_ms).min(newest);
            // The first row may be one at or before `after_ms`.
            match read_rows(file, row_bytes(&self.columns), step, first..=last, ROWS_READ_MAX + 1) {
                Ok(mut read) => {
                    read.retain(|row| row.time_ms > after_ms && row.time_ms <= until_ms);
                    read.truncate(ROWS_READ_MAX);
                    return read;
                }
                Err(error) => tracing::warn!(%error, "cannot read the operator's history"),
            }
        }
        let from = rows.partition_point(|row| row.time_ms <= after_ms);
        let until = rows.partition_point(|row| row.time_ms <= until_ms).max(from);
        rows.range(from..until).cloned().collect()
    }

    pub fn latest(&self) -> Option<&Row> {
        self.rows(Step::Second).back()
    }

    /// The events after a time, and before or at another one, in order. Those that only the file has are read from it.
    pub fn events_between(&self, after_ms: u64, until_ms: u64) -> Vec<Event> {
        let in_memory = self.events.front().is_some_and(|oldest| oldest.time_ms <= after_ms);
        let read = self.file.as_ref().filter(|_| !in_memory && after_ms > 0);
        let read = read.and_then(|file| read_events(file, row_bytes(&self.columns)).ok());
        let all = read.map_or_else(|| self.events.iter().cloned().collect(), |(events, _)| events);
        let is_between = |event: &Event| event.time_ms > after_ms && event.time_ms <= until_ms;
        all.into_iter().filter(is_between).collect()
    }

    fn rows(&self, step: Step) -> &VecDeque<Row> {
        &self.rows[step as usize]
    }

    /// Writes to the file. After an error the history is in memory only.
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let Some(file) = &self.file else { return };
        if let Err(error) = file.write_all_at(bytes, offset as u64) {
            tracing::warn!(%error, "cannot write the operator's history; it is kept in memory only");
            self.file = None;
        }
    }
}

/// The first bytes of a file: its version, and a hash of the columns and sizes.
fn own_header(columns: &Columns) -> [u8; HEADER_BYTES] {
    let mut hash = Sha256::new();
    for name in columns.names() {
        hash.update(name.as_bytes());
        hash.update([0]);
    }
    hash.update((row_bytes(columns) as u64).to_le_bytes());
    hash.update((EVENT_BYTES as u64).to_le_bytes());
    let mut header = [0; HEADER_BYTES];
    header[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
    header[HEADER_BYTES - 32..].copy_from_slice(&hash.finalize());
    header
}

/// The bytes of a row in the file: its time, the values, and the checksum.
fn row_bytes(columns: &Columns) -> usize {
    8 + 2 * columns.len() + CHECKSUM_BYTES
}

fn row_offset(row_bytes: usize, step: Step, position: u64) -> usize {
    let slot = (position % step.slots() as u64) as usize;
    HEADER_BYTES + (slots_before(step) + slot) * row_bytes
}

fn slots_before(step: Step) -> usize {
    Step::ALL[..step as usize].iter().map(|step| step.slots()).sum()
}

fn event_offset(row_bytes: usize, slot: usize) -> usize {
    let rows: usize = Step::ALL.iter().map(|step| step.slots()).sum();
    HEADER_BYTES + rows * row_bytes + slot * EVENT_BYTES
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = Sha256::digest(bytes);
    std::array::from_fn(|index| hash[index])
}

fn encode_row(row: &Row) -> Vec<u8> {
    let mut bytes = row.time_ms.to_le_bytes().to_vec();
    for value in &row.values {
        bytes.extend(encode(*value).to_le_bytes());
    }
    bytes.extend(checksum(&bytes));
    bytes
}

/// Codes for each doubling of a value, and the exponent of two of the least value.
const CODES_PER_DOUBLING: f32 = 819.0;
const LEAST_EXPONENT: f32 = -30.0;

/// The code of a value: 0 for one that is not known, 1 for zero, and else its logarithm. It is within a twentieth of a
/// percent, for values from a billionth to 10 to the power of 15.
fn encode(value: f32) -> u16 {
    if !value.is_finite() {
        return 0;
    }
    let code = (value.max(0.0).log2() - LEAST_EXPONENT) * CODES_PER_DOUBLING;
    // Zero has no logarithm, and a small value counts as zero.
    if code > 0.0 { code.round().min(f32::from(u16::MAX) - 2.0) as u16 + 2 } else { 1 }
}

/// The value of a code. A number that can have been a whole one is a whole one.
fn decode(code: u16) -> f32 {
    match code {
        0 => f32::NAN,
        1 => 0.0,
        _ => {
            let value = (f32::from(code - 2) / CODES_PER_DOUBLING + LEAST_EXPONENT).exp2();
            let whole = value.round();
            if whole > 0.0 && (whole - value).abs() < 0.000_5 * value { whole } else { value }
        }
    }
}

fn decode_row(bytes: &[u8]) -> Option<Row> {
    let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum(content) == *sum).then_some(())?;
    let (time, values) = content.split_first_chunk::<8>()?;
    let (values, _) = values.as_chunks::<2>();
    let values = values.iter().map(|code| decode(u16::from_le_bytes(*code)));
    Some(Row { time_ms: u64::from_le_bytes(*time), values: values.collect() })
}

/// The first rows of these positions, in order.
fn read_rows(
    file: &File,
    row_bytes: usize,
    step: Step,
    positions: RangeInclusive<u64>,
    rows_max: usize,
) -> io::Result<Vec<Row>> {
    let (first, last) = positions.into_inner();
    let mut rows = Vec::new();
    let mut next = first;
    while next <= last && rows.len() < rows_max {
        // Up to the end of the ring, then from its beginning.
        let room = step.slots() as u64 - next % step.slots() as u64;
        let count = (last - next + 1).min(room).min(SLOTS_AT_A_TIME as u64);
        let mut bytes = vec![0; count as usize * row_bytes];
        file.read_exact_at(&mut bytes, row_offset(row_bytes, step, next) as u64)?;
        for (slot, position) in bytes.chunks_exact(row_bytes).zip(next..) {
            // A slot may be empty, or have a row of the turn before: then its checksum says nothing.
            let is_asked = position_of(step, slot) == Some(position);
            rows.extend(is_asked.then(|| decode_row(slot)).flatten());
        }
        next += count;
    }
    rows.truncate(rows_max);
    Ok(rows)
}

/// The position of the row in a slot. It may be damaged.
fn position_of(step: Step, slot: &[u8]) -> Option<u64> {
    slot.first_chunk::<8>().map(|time| step.position(u64::from_le_bytes(*time)))
}

/// The position of the newest row; 0 without one. Only the newest slots are decoded: the checksums of all take a second.
fn newest_position(file: &File, row_bytes: usize, step: Step) -> io::Result<u64> {
    let mut positions = Vec::with_capacity(step.slots());
    for first in (0..step.slots()).step_by(SLOTS_AT_A_TIME) {
        let count = SLOTS_AT_A_TIME.min(step.slots() - first);
        let mut bytes = vec![0; count * row_bytes];
        file.read_exact_at(&mut bytes, row_offset(row_bytes, step, first as u64) as u64)?;
        let slots = bytes.chunks_exact(row_bytes);
        positions.extend(slots.filter_map(|slot| position_of(step, slot)));
    }
    positions.sort_unstable();
    while let Some(position) = positions.pop().filter(|position| *position > 0) {
        if !read_rows(file, row_bytes, step, position..=position, 1)?.is_empty() {
            return Ok(position);
        }
    }
    Ok(0)
}

/// The bytes of an event; `None` when they do not fit in a slot.
fn encode_event(number: u64, event: &Event) -> Option<Vec<u8>> {
    let json = serde_json::to_vec(event).ok()?;
    let len = u16::try_from(json.len()).ok()?;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(json);
    bytes.extend(checksum(&bytes));
    (bytes.len() <= EVENT_BYTES).then_some(bytes)
}

fn decode_event(slot: &[u8]) -> Option<(u64, Event)> {
    let (number, rest) = slot.split_first_chunk::<8>()?;
    let (len, _) = rest.split_first_chunk::<2>()?;
    let end = 10 + usize::from(u16::from_le_bytes(*len));
    let sum = slot.get(end..end + CHECKSUM_BYTES)?;
    (checksum(&slot[..end]) == sum).then_some(())?;
    Some((u64::from_le_bytes(*number), serde_json::from_slice(&slot[10..end]).ok()?))
}

/// The events in order, and the number of the next one.
fn read_events(file: &File, row_bytes: usize) -> io::Result<(Vec<Event>, u64)> {
    let mut bytes = vec![0; EVENTS_IN_FILE * EVENT_BYTES];
    file.read_exact_at(&mut bytes, event_offset(row_bytes, 0) as u64)?;
    let mut events: Vec<(u64, Event)> =
        bytes.chunks_exact(EVENT_BYTES).filter_map(decode_event).collect();
    events.sort_by_key(|(number, _)| *number);
    let next = events.last().map_or(0, |(number, _)| number + 1);
    Ok((events.into_iter().map(|(_, event)| event).collect(), next))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// The path of a new file, and its folder, which is removed at the end.
    fn scratch() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        (folder, path)
    }

    fn row(time_ms: u64) -> Row {
        Row { time_ms, values: vec![time_ms as f32; Columns::default().len()] }
    }

    fn event(time_ms: u64, text: &str) -> Event {
        Event { time_ms, kind: "start".into(), text: text.into(), trouble: String::new() }
    }

    fn opened(path: &Path) -> History {
        let mut history = History::default();
        history.attach(path).unwrap();
        history
    }

    fn times(history: &History, step: Step) -> Vec<u64> {
        history.rows(step).iter().map(|row| row.time_ms).collect()
    }

    const SECONDS: u64 = 15 * 60;
    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn a_restart_shows_the_past() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        for second in 1..=SECONDS + 100 {
            history.add(row(second * 1_000));
        }
        (1..300).for_each(|at| history.add_event(event(at, &format!("event {at}"))));
        drop(history);

        // The next server has recorded for a moment before the file was free.
        let mut history = History::default();
        let own = (SECONDS + 105) * 1_000;
        history.add(row(own));
        history.add_event(event(1_000, "start"));
        history.attach(&path).unwrap();
        let seconds = times(&history, Step::Second);
        assert_eq!((seconds.len() as u64, seconds[seconds.len() - 1]), (SECONDS, own));
        // Four seconds without a server are missing.
        assert_eq!(seconds[0], 102_000);
        assert_eq!(history.latest(), Some(&row(own)));
        let minutes: Vec<u64> = (0..16).map(|minute| minute * 60_000).collect();
        assert_eq!(times(&history, Step::Minute), minutes);
        let events: Vec<_> = history.events_between(44, u64::MAX);
        assert_eq!((events.len(), &*events[0].text), (EVENTS, "event 45"));
        assert_eq!(events[EVENTS - 1].text, "start");
        assert_eq!(history.events_between(1, 3).len(), 2, "earlier ones are in the file");
        assert!(std::fs::metadata(&path).unwrap().len() < 32 * 1024 * 1024);
    }

    #[test]
    fn a_day_is_read_by_the_second_and_a_month_by_the_minute() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        let start = 1_700_000_000;
        (start..start + DAY + 5_000).step_by(2).for_each(|second| history.add(row(second * 1_000)));
        let read = |step, after: u64, until: u64| {
            let rows = history.rows_between(step, after * 1_000, until * 1_000);
            rows.iter().map(|row| row.time_ms / 1_000).collect::<Vec<_>>()
        };
        let at = start + 10_000;
        assert_eq!(read(Step::Second, at, at + 6), [at + 2, at + 4, at + 6]);
        assert_eq!(read(Step::Second, start, start + 6), [0; 0], "a day later it was replaced");
        let minute = at / 60 * 60;
        assert_eq!(read(Step::Minute, minute - 1, minute + 60), [minute, minute + 60]);
        let hour = at / 3_600 * 3_600;
        assert_eq!(read(Step::Hour, hour - 1, hour), [hour]);
        assert_eq!(read(Step::Second, start + 9_000, start + DAY).len(), ROWS_READ_MAX);
        let soon = read(Step::Second, start + 9_000, start + DAY)[0];
        assert_eq!(soon, start + 9_002);
        assert_eq!(
            read(Step::Hour, 1, start + DAY)[0],
            start / 3_600 * 3_600,
            "long before the record began"
        );
    }

    #[test]
    fn a_value_in_the_file_has_three_digits() {
        for value in [1e-9, 0.000_123, 0.97, 1.5, 3.0, 123.0, 1_005.0, 1_234_567.0, 9.9e12_f32] {
            let read = decode(encode(value));
            assert!((read - value).abs() <= 0.000_5 * value, "{value}: {read}");
        }
        for whole in 0..1_000 {
            assert_eq!(decode(encode(whole as f32)), whole as f32);
        }
        assert!(decode(encode(f32::NAN)).is_nan());
        assert_eq!([-1.0, 1e-30].map(|value| decode(encode(value))), [0.0, 0.0]);
        assert!(decode(encode(f32::MAX)) > 1e15);
    }

    #[test]
    fn a_file_that_is_cut_in_half_keeps_the_rest() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        (1..=100).for_each(|second| history.add(row(second * 1_000)));
        history.add_event(event(5, "lost"));
        drop(history);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len((HEADER_BYTES + 50 * row_bytes(&Columns::default()) + 7) as u64).unwrap();
        drop(file);
        let history = opened(&path);
        assert_eq!(times(&history, Step::Second).len(), 49);
        assert_eq!(history.events_between(0, u64::MAX), []);
    }

    #[test]
    fn damaged_slots_and_files_of_others_are_empty() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        history.add(row(1_000));
        history.add(row(2_000));
        drop(history);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let second = row_offset(row_bytes(&Columns::default()), Step::Second, 1) as u64;
        file.write_all_at(&[0xff; 3], second + 20).unwrap();
        drop(file);
        assert_eq!(times(&opened(&path), Step::Second), [2_000]);

        std::fs::write(&path, "something else that is longer than a header".repeat(9)).unwrap();
        assert_eq!(times(&opened(&path), Step::Second), [0; 0]);
    }

    #[test]
    fn one_server_at_a_time_has_the_file() {
        let (_folder, path) = scratch();
        let first = opened(&path);
        let mut second = History::default();
        assert!(matches!(second.attach(&path), Err(HistoryFileError::InUse)));
        drop(first);
        second.attach(&path).unwrap();
    }

    #[test]
    fn a_clock_that_is_set_back_replaces_nothing() {
        let mut history = History::default();
        for time_ms in [5_000, 5_400, 3_000, 6_000] {
            history.add(row(time_ms));
        }
        assert_eq!(times(&history, Step::Second), [5_000, 6_000]);
        assert_eq!(history.rows_between(Step::Second, 5_000, u64::MAX).len(), 1);
    }

    #[test]
    fn a_text_of_any_length_and_content_fits() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        for text in ["\u{1}".repeat(9_000), "é".repeat(500), String::new(), "<b>\n".repeat(99)] {
            history.add_event(event(1, &text));
        }
        let before = history.events_between(0, u64::MAX);
        assert!(before[1].text.starts_with('é') && before[1].text.len() <= 240);
        drop(history);
        assert_eq!(opened(&path).events_between(0, u64::MAX), before);
    }
}
