//! `watchfire share --live`: each file and each line of the standard input becomes an entry of one page.

use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use serde_json::json;
use tokio::sync::mpsc;
use watchfire_content::Block;
use watchfire_content::live::{
    Beginning, ENTRIES_MAX, Form, History, NAME_BYTES_MAX, NODE_BYTES_MAX, NewEntry, PublisherKey,
    TEXT_BYTES_MAX,
};
use watchfire_p2p::Host;
use watchfire_page_client::{Have, LiveChannel, LiveEvent, LivePage, ServerUrl};
use watchfire_store::{LockedMemoryStore, SharedFiles, Stores, WriteBlocks, names};

use crate::content_options::ContentOptions;
use crate::describe;
use crate::host_options::HostOptions;
use crate::link::PagePlace;
use crate::page_clients::{join_live_page, joined, page_link};
use crate::serving::{LISTEN, emit, name_of, report_unshared};
use crate::signals::Signals;
use watchfire_report::units::binary_bytes;

/// Most memory for texts and nodes, and for the CIDs and positions of the blocks of files.
const MEMORY_BYTES: usize = 512 << 20;
/// Lines that wait until earlier ones are appended. Then the standard input is not read.
const LINES_MAX: usize = 16;
/// The mark that some editors write before the first line.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Interval of checks of shared files.
const TICK: Duration = Duration::from_secs(1);

/// A page to publish.
pub struct Publish<'a> {
    pub title: &'a str,
    /// The files and directories of the first entries.
    pub paths: &'a [PathBuf],
    pub content: &'a ContentOptions,
    pub host: &'a HostOptions,
    pub site: &'a ServerUrl,
    pub is_json: bool,
}

/// Publishes until a signal arrives. The end of the standard input does not end the page.
pub async fn publish(page: &Publish<'_>) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .context("cannot generate a key: the operating system returned no random bytes")?;
    let key = PublisherKey::from_seed(&seed);
    let beginning =
        Beginning { key: key.public(), time_ms: now_ms(), title: page.title.to_owned() };
    let block = beginning.block().context("cannot begin the page")?;
    let cid = block.cid().clone();

    let files = Arc::new(SharedFiles::new(MEMORY_BYTES));
    let store = Arc::new(LockedMemoryStore::new(MEMORY_BYTES));
    store.put(&block)?;
    let settings = page.host.settings(LISTEN, &[])?;
    let stores = Stores::new(vec![files.clone()]);
    let host = Arc::new(Host::start(settings, stores, store.clone()).await?);
    let (channel, heads) = LiveChannel::new();
    let place = PagePlace { site: page.site, at: &[], root: &cid };
    let client = join_live_page(&host, page.host.direct(), place, Have::All, Some(heads))?;
    let clients = [client];
    joined(&clients, page.site).await?;
    let [client] = clients;
    let history = History::new(cid.clone(), beginning);
    let mut live = LivePage::new(host, store.clone(), client, channel, history);
    let most = ENTRIES_MAX as usize;
    anyhow::ensure!(
        page.paths.len() <= most,
        "cannot share {} files in one live page: it has at most {most} entries",
        page.paths.len()
    );
    for path in page.paths {
        let entry = file_entry(&files, path, page.content)?;
        live.append(&key, entry).await?;
    }
    report(page, &page_link(page.site, &cid, None, None))?;

    let mut lines = lines();
    let mut is_open = true;
    let mut every = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(()),
            Some(line) = lines.recv(), if is_open => match text_of(line, &store) {
                Ok(entry) => {
                    live.append(&key, entry).await?;
                    if page.is_json {
                        emit(&json!({ "event": "appended", "number": live.history().last() }))?;
                    }
                }
                Err(error) => {
                    is_open = false;
                    close(page, &mut lines, &error)?;
                }
            },
            event = live.next() => match event? {
                LiveEvent::Entry(_) | LiveEvent::Unreadable { .. } => {}
                LiveEvent::End(_) => anyhow::bail!(
                    "cannot go on: another program has appended to this page with the same key"
                ),
            },
            _ = every.tick() => report_unshared(files.take_unshared(), page.is_json)?,
        }
        if live.history().last() == ENTRIES_MAX && is_open {
            is_open = false;
            close(
                page,
                &mut lines,
                &anyhow::anyhow!("the page is full: it has {ENTRIES_MAX} entries"),
            )?;
        }
    }
}

/// Reads no further lines. The page stays for its readers.
fn close(
    page: &Publish<'_>,
    lines: &mut mpsc::Receiver<io::Result<String>>,
    cause: &anyhow::Error,
) -> anyhow::Result<()> {
    let cause = describe(cause);
    eprintln!(
        "watchfire: {cause}. Further lines are not read, and the page lives until you press Ctrl-C"
    );
    if page.is_json {
        emit(&json!({ "event": "closed", "cause": cause }))?;
    }
    lines.close();
    // So the program that writes the lines is told.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(())
}

fn report(page: &Publish<'_>, link: &str) -> io::Result<()> {
    if page.is_json {
        return emit(&json!({ "event": "live", "page": link }));
    }
    println!("{link}");
    println!("Each line that you write is an entry. The page lives until you press Ctrl-C.");
    Ok(())
}

fn file_entry(
    files: &SharedFiles,
    path: &Path,
    content: &ContentOptions,
) -> anyhow::Result<NewEntry> {
    let root = files.share_with_progress(path, &content.import_options(), &mut |_| {})?;
    let name = name_of(path).unwrap_or_default();
    anyhow::ensure!(
        name.len() <= NAME_BYTES_MAX,
        "cannot append {}: its name is longer than {NAME_BYTES_MAX} bytes",
        names::shown(&name)
    );
    Ok(NewEntry {
        time_ms: now_ms(),
        form: Form::File,
        name,
        content: root.cid,
        content_bytes: root.dag_bytes,
    })
}

/// Stores a line of the standard input.
fn text_of(line: io::Result<String>, store: &LockedMemoryStore) -> anyhow::Result<NewEntry> {
    let text = line.context("cannot read the standard input")?;
    // The node of the entry needs room too.
    let needed = text.len() + NODE_BYTES_MAX;
    anyhow::ensure!(
        store.lock().bytes() + needed <= MEMORY_BYTES,
        "the page is full: its texts have more than {}",
        binary_bytes(MEMORY_BYTES as u64)
    );
    let block = Block::raw(text.into())?;
    store.put(&block)?;
    Ok(NewEntry {
        time_ms: now_ms(),
        form: Form::Text,
        name: String::new(),
        content: block.cid().clone(),
        content_bytes: block.bytes().len() as u64,
    })
}

/// Reads the lines of the standard input. A line that is too long for one entry becomes several.
fn lines() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut reader = LineReader::new(io::stdin().lock());
        while let Some(text) = reader.next().transpose() {
            let is_over = text.is_err();
            if sender.blocking_send(text).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// Reads lines of any length, in texts that are short enough for an entry.
struct LineReader<R> {
    input: R,
    /// The text of the present line that was not returned yet.
    text: String,
    /// Bytes after it that may be the start of a character.
    tail: Vec<u8>,
    /// Whether the present line goes on.
    is_open: bool,
    is_first: bool,
}

impl<R: BufRead> LineReader<R> {
    const fn new(input: R) -> Self {
        LineReader { input, text: String::new(), tail: Vec::new(), is_open: false, is_first: true }
    }

    /// Returns the next text; `None` at the end.
    fn next(&mut self) -> io::Result<Option<String>> {
        let max = TEXT_BYTES_MAX as usize;
        if self.text.len() <= max && (self.is_open || self.text.is_empty()) && !self.read()? {
            return Ok(None);
        }
        let end = self.text.floor_char_boundary(max);
        let after = self.text.split_off(end);
        Ok(Some(std::mem::replace(&mut self.text, after)))
    }

    /// Reads more of the present line, or the next one. Returns whether there is any.
    fn read(&mut self) -> io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.tail);
        // Two bytes more than a text has, for the line break.
        let read = self.input.by_ref().take(TEXT_BYTES_MAX + 2).read_until(b'\n', &mut bytes)?;
        if std::mem::take(&mut self.is_first) && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        self.is_open = read > 0 && !bytes.ends_with(b"\n");
        if self.is_open {
            let last = bytes.utf8_chunks().last();
            let unfinished = last.map_or(0, |chunk| chunk.invalid().len());
            // A carriage return may be the first half of a line break.
            let unfinished = unfinished.max(usize::from(bytes.ends_with(b"\r")));
            self.tail = bytes.split_off(bytes.len() - unfinished);
        } else if read > 0 {
            bytes.pop();
            bytes.pop_if(|last| *last == b'\r');
        }
        self.text += &String::from_utf8_lossy(&bytes);
        Ok(read > 0 || !self.text.is_empty())
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = TEXT_BYTES_MAX as usize;

    /// The lengths of the texts in bytes, and all texts together.
    fn read(input: &[u8]) -> (Vec<usize>, String) {
        let mut reader = LineReader::new(input);
        let texts: Vec<_> = std::iter::from_fn(|| reader.next().expect("it is memory")).collect();
        (texts.iter().map(String::len).collect(), texts.concat())
    }

    #[test]
    fn each_line_is_a_text_and_empty_lines_are_too() {
        assert_eq!(read(b"one\n\nthree"), (vec![3, 0, 5], "onethree".to_owned()));
        assert_eq!(read(b"").0, [0; 0]);
    }

    #[test]
    fn line_breaks_of_windows_and_a_byte_order_mark_are_no_text() {
        assert_eq!(
            read(b"\xef\xbb\xbfone\r\n\r\ntwo\rthree"),
            (vec![3, 0, 9], "onetwo\rthree".to_owned())
        );
        let longest = format!("{}\r\nb", "a".repeat(MAX));
        assert_eq!(read(longest.as_bytes()).0, [MAX, 1]);
        for bytes in MAX + 1..=MAX + 3 {
            let line = format!("{}\r\nb", "a".repeat(bytes));
            assert_eq!(read(line.as_bytes()).0, [MAX, bytes - MAX, 1]);
        }
    }

    #[test]
    fn a_line_of_the_greatest_length_is_one_text_and_a_longer_one_is_several() {
        let line = |len: usize| format!("{}\nb", "a".repeat(len)).into_bytes();
        assert_eq!(read(&line(MAX)).0, [MAX, 1]);
        assert_eq!(read(&line(MAX + 1)).0, [MAX, 1, 1]);
        assert_eq!(read(&line(3 * MAX)).0.iter().sum::<usize>(), 3 * MAX + 1);
    }

    #[test]
    fn a_character_is_never_cut() {
        for shift in 0..4 {
            let line = "x".repeat(shift) + &"✓🔥é".repeat(MAX / 4);
            let (lengths, text) = read(line.as_bytes());
            assert!(lengths.len() > 2 && text == line, "{shift}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_become_texts_that_are_short_enough() {
        let (lengths, text) = read(&vec![0xff; MAX]);
        assert!(lengths.iter().all(|len| *len <= MAX), "{lengths:?}");
        assert_eq!(text.chars().count(), MAX);
    }
}
