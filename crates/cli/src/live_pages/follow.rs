//! `watchfire get --follow`: prints the entries of a live page as they come.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use watchfire_content::live::{Beginning, Entry, Form, History, LiveError, TEXT_BYTES_MAX};
use watchfire_p2p::Host;
use watchfire_page_client::{Have, LiveChannel, LiveEnd, LiveEvent, LivePage};
use watchfire_store::{
    DiskLimits, DiskStore, ExportLimits, LockedMemoryStore, ReadBlocks, Stores, WriteBlocks,
    export, names,
};

use crate::fetching::{Ending, NO_PEER, WaitOptions, dial, wait};
use crate::host_options::HostOptions;
use crate::link::{Link, PagePlace};
use crate::live_pages::kept_head::KeptHead;
use crate::page_clients::{Announcer, join_live_page};
use crate::serving::emit;
use crate::signals::Signals;
use watchfire_report::units::binary_bytes;

/// Most memory for blocks without a store on disk.
const MEMORY_BYTES: usize = 512 << 20;
/// The exit code when the page cannot continue.
const ENDED: u8 = 4;

/// A live page to read.
pub struct Follow<'a> {
    pub link: &'a Link,
    /// The folder for files; `None` only prints their names.
    pub output: Option<&'a Path>,
    pub store: Option<&'a Path>,
    /// Longest time until the page is found.
    pub timeout: Duration,
    /// Largest file.
    pub bytes_max: u64,
    pub host: &'a HostOptions,
    pub is_json: bool,
    pub is_quiet: bool,
}

/// Reads a page until a signal arrives, or the page cannot continue.
pub async fn follow(page: &Follow<'_>) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let link = page.link;
    anyhow::ensure!(
        link.path.is_empty() && link.key.is_none(),
        "cannot follow {}: a live page has neither paths nor a key; name only its CID",
        link.cid
    );
    let site = link.server.as_ref().context(
        "cannot follow the page: its link names no server, and only a server introduces its readers",
    )?;
    let store: Arc<dyn WriteBlocks> = match page.store {
        Some(folder) => Arc::new(DiskStore::open(folder, DiskLimits::default())?),
        None => Arc::new(LockedMemoryStore::new(MEMORY_BYTES)),
    };
    let settings = page.host.settings(&[], &link.peers)?;
    let peers = settings.bootstrap.clone();
    let host = Arc::new(Host::start(settings, Stores::default(), store.clone()).await?);
    dial(&host, &peers);
    let (channel, heads) = LiveChannel::new();
    let place = PagePlace { site, at: &link.at, root: &link.cid };
    let client = join_live_page(&host, page.host.direct(), place, Have::None, Some(heads))?;

    let fetch = host.fetch_block(link.cid.clone()).await?;
    let options = WaitOptions {
        timeout: (page.timeout != Duration::MAX).then_some(page.timeout),
        is_json: false,
        is_quiet: true,
    };
    match wait(fetch, &link.cid, &Announcer::default(), &mut signals, &options, |_| Ok(())).await? {
        Ending::Complete(_) => {}
        Ending::Signalled(code) => return Ok(ExitCode::from(code)),
        Ending::TimedOut => {
            eprintln!("watchfire: no peer has {}", link.cid);
            return Ok(ExitCode::from(NO_PEER));
        }
    }
    let block = store.get(&link.cid)?.context("the block is not in the store")?;
    let beginning = Beginning::decode(block.bytes()).map_err(|error| match error {
        LiveError::NotLive => anyhow::anyhow!(
            "cannot follow {}: it is not a live page; fetch it without --follow",
            link.cid
        ),
        error => anyhow::anyhow!("cannot follow {}: {error}", link.cid),
    })?;
    begin(page, &beginning)?;
    let history = History::new(link.cid.clone(), beginning);
    let mut live = LivePage::new(host, store.clone(), client, channel, history);
    let mut kept = page.store.map(|folder| KeptHead::new(folder, &link.cid));
    if let Some(head) = kept.as_ref().and_then(KeptHead::read) {
        live.begin_with(&head);
    }
    loop {
        let event = tokio::select! {
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
            event = live.next() => event?,
        };
        if let Some(kept) = &mut kept {
            kept.follow(live.history());
        }
        match event {
            LiveEvent::Entry(entry) => show(page, &entry, &*store)?,
            LiveEvent::Unreadable { entry, cause } => {
                eprintln!("watchfire: cannot read entry {}: {cause}", entry.number);
            }
            LiveEvent::End(end) => return ended(page, end),
        }
    }
}

fn begin(page: &Follow<'_>, beginning: &Beginning) -> io::Result<()> {
    let Beginning { title, time_ms, .. } = beginning;
    if page.is_json {
        return emit(&json!({ "event": "following", "title": title, "time_ms": time_ms }));
    }
    if !page.is_quiet && !title.is_empty() {
        eprintln!("{}", names::shown(title));
    }
    Ok(())
}

fn show(page: &Follow<'_>, entry: &Entry, store: &dyn WriteBlocks) -> anyhow::Result<()> {
    match entry.form {
        Form::Text => show_text(page, entry, store),
        Form::File => show_file(page, entry, store),
    }
}

fn show_text(page: &Follow<'_>, entry: &Entry, store: &dyn WriteBlocks) -> anyhow::Result<()> {
    let block = store.get(&entry.content)?.context("a text is not in the store")?;
    if block.bytes().len() as u64 > TEXT_BYTES_MAX {
        eprintln!(
            "watchfire: skipped entry {}: a text has at most {TEXT_BYTES_MAX} bytes",
            entry.number
        );
        return Ok(());
    }
    let text = String::from_utf8_lossy(block.bytes());
    if page.is_json {
        emit(&json!({
            "event": "entry",
            "number": entry.number,
            "time_ms": entry.time_ms,
            "form": "text",
            "text": text,
        }))?;
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", visible(&text)).context("standard output")?;
    out.flush().context("standard output")
}

/// A text without characters that control a terminal. Tabs stay, and line breaks of all systems are the same.
fn visible(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let lines = text.split(['\n', '\r']).map(|line| {
        line.split('\t').map(|part| names::shown(part).into_owned()).collect::<Vec<_>>().join("\t")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn show_file(page: &Follow<'_>, entry: &Entry, store: &dyn WriteBlocks) -> anyhow::Result<()> {
    let saved = page.output.and_then(|folder| {
        let saved = save(page, folder, entry, store);
        // The other entries are worth reading.
        saved.map_err(|error| eprintln!("watchfire: entry {}: {error:#}", entry.number)).ok()
    });
    if page.is_json {
        emit(&json!({
            "event": "entry",
            "number": entry.number,
            "time_ms": entry.time_ms,
            "form": "file",
            "name": entry.name,
            "cid": entry.content.to_string(),
            "bytes": entry.content_bytes,
            "path": saved.map(|path| path.display().to_string()),
        }))?;
    } else if !page.is_quiet {
        let (name, size) = (names::shown(&entry.name), binary_bytes(entry.content_bytes));
        match saved {
            Some(path) => println!("{} {size}", names::shown(&path.display().to_string())),
            None => println!("{name} {size} {}", entry.content),
        }
    }
    Ok(())
}

/// Writes a file or directory into the folder, under its name and the number of its entry.
fn save(
    page: &Follow<'_>,
    folder: &Path,
    entry: &Entry,
    store: &dyn WriteBlocks,
) -> anyhow::Result<PathBuf> {
    let shown = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {shown}"))?;
    let path = folder.join(format!("{:05}-{}", entry.number, names::saved(&entry.name)));
    let limits = ExportLimits { bytes_max: page.bytes_max, ..ExportLimits::default() };
    export(store, &entry.content, &path, &limits, &mut |_| {})?;
    Ok(path)
}

fn ended(page: &Follow<'_>, end: LiveEnd) -> anyhow::Result<ExitCode> {
    let (kind, number) = match end {
        LiveEnd::Split { number } => ("split", number),
        LiveEnd::Invalid { number } => ("invalid", number),
    };
    if page.is_json {
        emit(&json!({ "event": kind, "number": number }))?;
    }
    match end {
        LiveEnd::Split { number } => eprintln!(
            "watchfire: the page has split at entry {number}: its key was used in two places. \
             Do not trust entries from {number} on"
        ),
        LiveEnd::Invalid { number } => {
            eprintln!("watchfire: entry {number} is invalid, so the page ends before it");
        }
    }
    Ok(ExitCode::from(ENDED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_of_all_systems_break_lines() {
        assert_eq!(visible("\u{feff}a\r\nb\rc\n\td\r\n"), "a\nb\nc\n\td\n");
    }
}
