//! The history of figures and events, in memory and in a file that survives a restart.
//!
//! An operator looks at the history after something went wrong, often after the server was restarted because
//! of it. So it must not end with the process, and it must not itself become a trouble: a file that grows
//! fills the disk, and a database would be another program that can fail.
//!
//! # A ring of seconds, a ring of minutes, a ring of events
//!
//! The file is three rings of slots of fixed size. A row belongs to a second or a minute of Unix time, and
//! the remainder of its number decides its slot: with 900 slots for seconds, second 1,700,000,123 has slot 23,
//! and so has the second 15 minutes later, which replaces it. Nothing says where a ring begins. The reader
//! decodes all slots, sorts the rows by their own time, and drops rows that are older than the ring is long:
//! they are in slots that were not written since, because the server was down. Events have no fixed rate, so
//! each has a number that counts up, and its remainder by 256 decides the slot.
//!
//! With the 54 columns of every server and the 14 of its features, of four bytes each, a row has 288 bytes in the
//! file, with its time and a checksum. 900 seconds are 259,200 bytes, 1,440 minutes 414,720, and 256 events
//! 131,072: the file always has 805,056 bytes. A server with other features has a file of another size. The memory
//! has the same rows, less than 1 MB. One sample writes one slot, and every sixtieth one more.
//!
//! The recorder makes the row of a minute from the seconds of that minute: the mean, and of a quantile the
//! largest (`Row::mean`). So 15 minutes are known by the second, and 24 hours by the minute.
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
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::columns::Columns;
use super::sampler::Row;
use crate::answers::Event;

pub(crate) const SECONDS: usize = 15 * 60;
pub(crate) const MINUTES: usize = 24 * 60;
/// Events that are kept. A further one replaces the oldest.
pub(crate) const EVENTS: usize = 256;

const CHECKSUM_BYTES: usize = 8;
/// An event in the file: its length, its JSON, and the checksum.
const EVENT_BYTES: usize = 512;
/// The longest text of an event. It is cut further if its JSON does not fit in a slot.
const EVENT_TEXT_BYTES_MAX: usize = 240;
const HEADER_BYTES: usize = 64;
const VERSION: &str = "watchfire history 1";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Step {
    #[default]
    Second,
    Minute,
}

impl Step {
    pub fn millis(self) -> u64 {
        match self {
            Step::Second => 1_000,
            Step::Minute => 60_000,
        }
    }

    fn rows_max(self) -> usize {
        match self {
            Step::Second => SECONDS,
            Step::Minute => MINUTES,
        }
    }
}

/// The history of one machine: at most 1 MB in memory, and as much in the file.
#[derive(Default)]
pub(crate) struct History {
    seconds: VecDeque<Row>,
    minutes: VecDeque<Row>,
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
        let file_bytes = (event_offset(row_bytes, 0) + EVENTS * EVENT_BYTES) as u64;
        file.set_len(file_bytes)?;
        match fallocate(&file, FallocateFlags::empty(), 0, file_bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let seconds = read_rows(&file, row_bytes, Step::Second)?;
        let minutes = read_rows(&file, row_bytes, Step::Minute)?;
        let (earlier, next_event) = read_events(&file, row_bytes)?;
        let own = std::mem::replace(self, History::new(self.columns.clone()));
        self.next_event = next_event;
        self.file = Some(file);
        self.events = earlier;
        for (rows, step) in [(seconds, Step::Second), (minutes, Step::Minute)] {
            *self.rows_mut(step) = rows;
        }
        own.events.into_iter().for_each(|event| self.add_event(event));
        own.seconds.into_iter().for_each(|row| self.add(Step::Second, row));
        own.minutes.into_iter().for_each(|row| self.add(Step::Minute, row));
        Ok(())
    }

    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a row. One that is not newer than the last row is dropped: the clock was set back.
    pub fn add(&mut self, step: Step, row: Row) {
        let position = row.time_ms / step.millis();
        if self.rows(step).back().is_some_and(|last| last.time_ms / step.millis() >= position) {
            return;
        }
        let offset = row_offset(row_bytes(&self.columns), step, position);
        self.write(offset, &encode_row(&row));
        let rows = self.rows_mut(step);
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
        let slot = (self.next_event % EVENTS as u64) as usize;
        self.write(event_offset(row_bytes(&self.columns), slot), &bytes);
        self.next_event += 1;
        self.events.push_back(event);
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
    }

    /// The rows after a time, in order.
    pub fn rows_after(&self, step: Step, after_ms: u64) -> impl Iterator<Item = &Row> {
        let rows = self.rows(step);
        rows.range(rows.partition_point(|row| row.time_ms <= after_ms)..)
    }

    pub fn latest(&self) -> Option<&Row> {
        self.seconds.back()
    }

    /// The events after a time, in order.
    pub fn events_after(&self, after_ms: u64) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.time_ms > after_ms)
    }

    fn rows(&self, step: Step) -> &VecDeque<Row> {
        match step {
            Step::Second => &self.seconds,
            Step::Minute => &self.minutes,
        }
    }

    fn rows_mut(&mut self, step: Step) -> &mut VecDeque<Row> {
        match step {
            Step::Second => &mut self.seconds,
            Step::Minute => &mut self.minutes,
        }
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
    8 + 4 * columns.len() + CHECKSUM_BYTES
}

fn row_offset(row_bytes: usize, step: Step, position: u64) -> usize {
    let slot = (position % step.rows_max() as u64) as usize;
    match step {
        Step::Second => HEADER_BYTES + slot * row_bytes,
        Step::Minute => HEADER_BYTES + (SECONDS + slot) * row_bytes,
    }
}

fn event_offset(row_bytes: usize, slot: usize) -> usize {
    HEADER_BYTES + (SECONDS + MINUTES) * row_bytes + slot * EVENT_BYTES
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = Sha256::digest(bytes);
    std::array::from_fn(|index| hash[index])
}

fn encode_row(row: &Row) -> Vec<u8> {
    let mut bytes = row.time_ms.to_le_bytes().to_vec();
    for value in &row.values {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(checksum(&bytes));
    bytes
}

fn decode_row(bytes: &[u8]) -> Option<Row> {
    let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum(content) == *sum).then_some(())?;
    let (time, values) = content.split_first_chunk::<8>()?;
    let values = values
        .chunks_exact(4)
        .map(|value| f32::from_le_bytes(value.try_into().expect("each chunk has four bytes")));
    Some(Row { time_ms: u64::from_le_bytes(*time), values: values.collect() })
}

fn read_rows(file: &File, row_bytes: usize, step: Step) -> io::Result<VecDeque<Row>> {
    let mut bytes = vec![0; step.rows_max() * row_bytes];
    file.read_exact_at(&mut bytes, row_offset(row_bytes, step, 0) as u64)?;
    let mut rows: Vec<Row> = bytes.chunks_exact(row_bytes).filter_map(decode_row).collect();
    rows.sort_by_key(|row| row.time_ms);
    // Older rows than the step keeps are of slots that were not written since.
    let newest = rows.last().map_or(0, |row| row.time_ms);
    let oldest = newest.saturating_sub(step.rows_max() as u64 * step.millis());
    rows.retain(|row| row.time_ms > oldest);
    Ok(rows.into())
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
fn read_events(file: &File, row_bytes: usize) -> io::Result<(VecDeque<Event>, u64)> {
    let mut bytes = vec![0; EVENTS * EVENT_BYTES];
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
        Event { time_ms, kind: "start".into(), text: text.into() }
    }

    fn opened(path: &Path) -> History {
        let mut history = History::default();
        history.attach(path).unwrap();
        history
    }

    fn times(history: &History, step: Step) -> Vec<u64> {
        history.rows_after(step, 0).map(|row| row.time_ms).collect()
    }

    #[test]
    fn a_restart_shows_the_past() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        for second in 1..=SECONDS as u64 + 100 {
            history.add(Step::Second, row(second * 1_000));
        }
        history.add(Step::Minute, row(60_000));
        (1..300).for_each(|at| history.add_event(event(at, &format!("event {at}"))));
        drop(history);

        // The next server has recorded for a moment before the file was free.
        let mut history = History::default();
        let own = (SECONDS as u64 + 105) * 1_000;
        history.add(Step::Second, row(own));
        history.add_event(event(1_000, "start"));
        history.attach(&path).unwrap();
        let seconds = times(&history, Step::Second);
        assert_eq!((seconds.len(), seconds[seconds.len() - 1]), (SECONDS, own));
        assert_eq!(seconds[0], 102_000);
        assert_eq!(history.latest(), Some(&row(own)));
        assert_eq!(times(&history, Step::Minute), [60_000]);
        let events: Vec<_> = history.events_after(0).map(|event| event.text.clone()).collect();
        assert_eq!((events.len(), &*events[0]), (EVENTS, "event 45"));
        assert_eq!(events[EVENTS - 1], "start");
        assert!(std::fs::metadata(&path).unwrap().len() < 2 * 1024 * 1024);
    }

    #[test]
    fn a_file_that_is_cut_in_half_keeps_the_rest() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        (1..=SECONDS as u64).for_each(|second| history.add(Step::Second, row(second * 1_000)));
        history.add_event(event(5, "lost"));
        drop(history);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len((HEADER_BYTES + SECONDS * row_bytes(&Columns::default()) / 2 + 7) as u64)
            .unwrap();
        drop(file);
        let history = opened(&path);
        let half = times(&history, Step::Second).len();
        assert!((SECONDS / 2 - 1..=SECONDS / 2).contains(&half), "{half}");
        assert_eq!(history.events_after(0).count(), 0);
    }

    #[test]
    fn damaged_slots_and_files_of_others_are_empty() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        history.add(Step::Second, row(1_000));
        history.add(Step::Second, row(2_000));
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
            history.add(Step::Second, row(time_ms));
        }
        assert_eq!(times(&history, Step::Second), [5_000, 6_000]);
        assert_eq!(history.rows_after(Step::Second, 5_000).count(), 1);
    }

    #[test]
    fn a_text_of_any_length_and_content_fits() {
        let (_folder, path) = scratch();
        let mut history = opened(&path);
        for text in ["\u{1}".repeat(9_000), "é".repeat(500), String::new(), "<b>\n".repeat(99)] {
            history.add_event(event(1, &text));
        }
        let before: Vec<Event> = history.events_after(0).cloned().collect();
        assert!(before[1].text.starts_with('é') && before[1].text.len() <= 240);
        drop(history);
        assert!(opened(&path).events_after(0).eq(&before));
    }
}
