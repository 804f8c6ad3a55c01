//! `watchfire get`: what a link names, fetched, checked and written out.

use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use watchfire_content::{Block, Cid, FileReader};
use watchfire_encryption::{Index, Key, Kind, Output as Opened};
use watchfire_p2p::{Fetched, Host, HostStats};
use watchfire_page_client::Have;
use watchfire_store::{
    DiskLimits, DiskStore, ExportError, ExportLimits, FileAssembler, PrivateReader, ReadBlocks,
    Stores, WriteBlocks, export, export_private, resolve,
};

use crate::fetching::{Ending, Patience, check_peers, dial, parse_timeout, wait};
use crate::get_part::fetch_part;
use crate::host_options::HostOptions;
use crate::key_hiding::hidden_key;
use crate::link::Link;
use crate::page_clients::{Announcer, join_page};
use crate::progress::{ProgressLine, Step};
use crate::serving::{emit, peers_of};
use crate::signals::Signals;
use watchfire_report::units::{binary_bytes, parse_bytes};

/// The exit code when no peer has the content; other failures end with 1.
const NOBODY: u8 = 3;

/// What `watchfire get` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// A link or a CID, with an optional path after it, such as CID/docs/a.txt.
    #[arg(value_name = "LINK|CID")]
    link: Link,
    /// Write it here, where nothing may be yet; `-` is the standard output, for files. By default
    /// what the link calls it, or else its CID.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Keep the blocks in this block store, and use the blocks it has.
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Give up after this long without a new block; 0 waits forever.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Write at most this much.
    #[arg(long, value_name = "SIZE", default_value = "1TiB", value_parser = parse_bytes)]
    bytes_max: u64,
    #[command(flatten)]
    host: HostOptions,
    /// Print events as JSON, one object per line.
    #[arg(long)]
    json: bool,
    /// Print nothing, and draw no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Where it is to go.
enum Output {
    Stdout,
    Path(PathBuf),
}

/// Fetch it, and write it out.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let output = output(arguments)?;
    check_peers(&arguments.host, &arguments.link)?;
    let key = arguments.link.key.clone().map_or_else(hidden_key, |key| Ok(Some(key)))?;
    let blocks = Blocks::open(arguments, &output)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(get(arguments, &blocks, &output, key.as_ref()))? {
        (Ending::Complete(fetched), stats) => {
            let written = match &output {
                Output::Stdout => None,
                Output::Path(path) => Some(write_out(arguments, &blocks, path, key.as_ref())?),
            };
            blocks.close(&arguments.link.cid)?;
            if let (Output::Path(path), None) = (&output, &key) {
                note_sealed(path, &arguments.link.cid);
            }
            tell(arguments, &fetched, &stats, written)?;
            Ok(ExitCode::SUCCESS)
        }
        (Ending::Signalled(code), _) => {
            if !arguments.quiet {
                eprintln!("watchfire: stopped; the same command goes on from here");
            }
            Ok(ExitCode::from(code))
        }
        (Ending::Nobody, _) => {
            eprintln!("watchfire: nobody who was asked has all of {}", arguments.link.cid);
            Ok(ExitCode::from(NOBODY))
        }
    }
}

fn output(arguments: &Arguments) -> anyhow::Result<Output> {
    let path = match &arguments.output {
        Some(path) if path.as_os_str() == "-" => {
            anyhow::ensure!(!arguments.json, "the standard output cannot be both file and JSON");
            return Ok(Output::Stdout);
        }
        Some(path) => path.clone(),
        None => PathBuf::from(arguments.link.file_name()),
    };
    if let Ok(metadata) = path.symlink_metadata() {
        let name = path.display();
        anyhow::ensure!(!metadata.is_dir(), "{name} is a directory; name what is to be made");
        anyhow::ensure!(arguments.force, "{name} is there already; --force replaces it");
    }
    Ok(Output::Path(path))
}

/// Where blocks are kept until all of them are here.
struct Blocks {
    store: Arc<DiskStore>,
    /// Where a file is put together from its leaves, so that they are written once. Not when they
    /// are to stay in a store, nor when they go to the standard output, which is not read again.
    assembler: Option<Arc<FileAssembler>>,
    /// It was made for this one fetch, and goes with it.
    is_own: bool,
    /// Nobody had asked for the root to stay.
    is_pinned_here: bool,
}

impl Blocks {
    fn open(arguments: &Arguments, output: &Output) -> anyhow::Result<Self> {
        let cid = &arguments.link.cid;
        let folder = match (&arguments.store, output) {
            (Some(folder), _) => folder.clone(),
            (None, Output::Path(path)) => path.with_file_name(format!(".watchfire-{cid}")),
            (None, Output::Stdout) => std::env::temp_dir().join(format!("watchfire-{cid}")),
        };
        let is_own = arguments.store.is_none();
        let own = DiskLimits { bytes_max: u64::MAX, ..DiskLimits::default() };
        let limits = if is_own { own } else { DiskLimits::default() };
        let store = DiskStore::open(&folder, limits)?;
        let is_pinned_here = store.pin(cid)?;
        let store = Arc::new(store);
        let assembler = match output {
            Output::Path(path) if is_own => {
                let part = path.with_file_name(format!(".watchfire-{cid}.part"));
                let assembler = FileAssembler::new(store.clone(), &part, arguments.bytes_max);
                Some(Arc::new(assembler))
            }
            Output::Path(_) | Output::Stdout => None,
        };
        Ok(Blocks { store, assembler, is_own, is_pinned_here })
    }

    /// Where what is fetched goes, and is served from.
    fn keep(&self) -> Arc<dyn WriteBlocks> {
        match &self.assembler {
            Some(assembler) => assembler.clone(),
            None => self.store.clone(),
        }
    }

    /// All is written out.
    fn close(self, cid: &Cid) -> anyhow::Result<()> {
        if let Some(assembler) = &self.assembler
            && assembler.path().exists()
        {
            // From an earlier attempt, and of no use: what came was no file.
            let path = assembler.path();
            fs::remove_file(path).with_context(|| path.display().to_string())?;
        }
        if self.is_own {
            let folder = self.store.folder().to_owned();
            return fs::remove_dir_all(&folder).with_context(|| folder.display().to_string());
        }
        if self.is_pinned_here {
            self.store.unpin(cid)?;
        }
        Ok(())
    }
}

async fn get(
    arguments: &Arguments,
    blocks: &Blocks,
    output: &Output,
    key: Option<&Key>,
) -> anyhow::Result<(Ending, HostStats)> {
    let mut signals = Signals::listen()?;
    let link = &arguments.link;
    let settings = arguments.host.settings(&[], &link.peers)?;
    let peers = settings.bootstrap.clone();
    let host = Arc::new(Host::start(settings, Stores::default(), blocks.keep()).await?);
    dial(&host, &peers);
    let mut stream = None;
    let patience = Patience {
        timeout: (arguments.timeout != Duration::MAX).then_some(arguments.timeout),
        is_json: arguments.json,
        is_quiet: arguments.quiet || (matches!(output, Output::Stdout) && is_terminal()),
    };
    let clients = match &link.server {
        Some(site) => vec![Arc::new(join_page(&host, site, &link.cid, Have::None)?)],
        None => Vec::new(),
    };
    let announcer = Announcer::of(clients);
    let ending = async {
        let (root, before) = match find(&host, link, key, blocks, &mut signals, &patience).await? {
            Found::Root { root, before } => (root, before),
            Found::Not(ending) => return Ok(ending),
        };
        match output {
            Output::Stdout => stream = Some(Stream::new(root.clone(), key, arguments)),
            Output::Path(_) => {}
        }
        let part = key.filter(|_| !link.path.is_empty());
        if let Some(key) = part {
            let reader = PrivateReader::new(root, key, &link.path, arguments.bytes_max);
            let write = || write_on(&mut stream, blocks);
            return fetch_part(&host, reader, &blocks.store, &mut signals, &patience, write).await;
        }
        if let Some(assembler) = &blocks.assembler {
            assembler.start(&root)?;
        }
        let fetch = host.fetch(root.clone()).await?;
        let ending = wait(fetch, &root, &announcer, &mut signals, &patience, || {
            write_on(&mut stream, blocks)
        });
        Ok(match ending.await? {
            Ending::Complete(fetched) => Ending::Complete(together(before, fetched)),
            ending => ending,
        })
    };
    let ending: anyhow::Result<Ending> = ending.await;
    let stats = host.stats().await;
    host.stop().await;
    let (ending, stats) = (ending?, stats?);
    if let (Ending::Complete(_), Some(stream)) = (&ending, stream) {
        stream.end(&*blocks.store)?;
    }
    Ok((ending, stats))
}

/// Writes what can be written by now, where it goes out as it comes.
fn write_on(stream: &mut Option<Stream>, blocks: &Blocks) -> anyhow::Result<()> {
    match stream {
        Some(stream) => stream.write_on(&*blocks.store, &mut io::stdout().lock()),
        None => Ok(()),
    }
}

/// What a link leads to.
enum Found {
    /// This, and what was fetched to find it.
    Root { root: Cid, before: Option<Fetched> },
    /// It was not found.
    Not(Ending),
}

/// Finds what the link leads to. Of the directories on the way no more is fetched than has to be
/// read to go through them.
async fn find(
    host: &Host,
    link: &Link,
    key: Option<&Key>,
    blocks: &Blocks,
    signals: &mut Signals,
    patience: &Patience,
) -> anyhow::Result<Found> {
    let mut before = None;
    // The names of a private page are inside it.
    let path = if key.is_some() { "" } else { &*link.path };
    loop {
        let missing = match resolve(&*blocks.store, &link.cid, path) {
            Ok(root) => return Ok(Found::Root { root, before }),
            Err(ExportError::Missing { cid }) => cid,
            Err(error) => return Err(error.into()),
        };
        let fetch = host.fetch_block(missing.clone()).await?;
        match wait(fetch, &missing, &Announcer::of(Vec::new()), signals, patience, || Ok(()))
            .await?
        {
            Ending::Complete(fetched) => {
                before =
                    Some(before.map_or(fetched.clone(), |before| together(Some(before), fetched)));
            }
            ending => return Ok(Found::Not(ending)),
        }
    }
}

/// Two fetches, one after the other, as one.
fn together(before: Option<Fetched>, after: Fetched) -> Fetched {
    let Some(before) = before else { return after };
    let mut progress = after.progress;
    progress.fetched_bytes += before.progress.fetched_bytes;
    progress.fetched_blocks += before.progress.fetched_blocks;
    progress.peers = progress.peers.max(before.progress.peers);
    Fetched { progress, took: before.took + after.took }
}

/// Whether what is written to the standard output is seen where progress would be drawn.
fn is_terminal() -> bool {
    io::IsTerminal::is_terminal(&io::stdout())
}

fn write_out(
    arguments: &Arguments,
    blocks: &Blocks,
    path: &Path,
    key: Option<&Key>,
) -> anyhow::Result<(PathBuf, u64)> {
    let replaces = arguments.force && path.symlink_metadata().is_ok();
    if let Some(key) = key {
        return write_private(arguments, blocks, path, key, replaces);
    }
    if let Some(assembler) = blocks.assembler.as_ref().filter(|assembler| assembler.is_file()) {
        let exported = assembler.finish(path, replaces)?;
        return Ok((path.to_owned(), exported.bytes));
    }
    let root = resolve(&*blocks.store, &arguments.link.cid, &arguments.link.path)?;
    let limits = ExportLimits { bytes_max: arguments.bytes_max, ..ExportLimits::default() };
    let mut line = ProgressLine::start(arguments.quiet || arguments.json);
    let mut show = |bytes| {
        line.show(&Step { bytes, note: "written".to_owned(), ..Step::default() });
    };
    if !replaces {
        let exported = export(&*blocks.store, &root, path, &limits, &mut show)?;
        return Ok((path.to_owned(), exported.bytes));
    }
    // Beside it first: the old file is there until the new one is whole.
    let beside = path.with_file_name(format!(".watchfire-{}-{root}", std::process::id()));
    let exported = export(&*blocks.store, &root, &beside, &limits, &mut show)?;
    fs::rename(&beside, path).with_context(|| path.display().to_string())?;
    Ok((path.to_owned(), exported.bytes))
}

/// Says so when what was written is a private page that nobody can read like this.
fn note_sealed(path: &Path, cid: &Cid) {
    let mut start = [0; watchfire_encryption::MAGIC.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    if read.is_ok() && watchfire_encryption::is_sealed(&start) {
        eprintln!(
            "watchfire: {cid} is a private page, and the link has no key: {} is its ciphertext",
            path.display()
        );
    }
}

/// Opens a private page: only what is authenticated gets to the disk, beside its place until it is
/// whole.
fn write_private(
    arguments: &Arguments,
    blocks: &Blocks,
    path: &Path,
    key: &Key,
    replaces: bool,
) -> anyhow::Result<(PathBuf, u64)> {
    let Link { cid, path: inside, .. } = &arguments.link;
    let limits = ExportLimits { bytes_max: arguments.bytes_max, ..ExportLimits::default() };
    let mut line = ProgressLine::start(arguments.quiet || arguments.json);
    let mut show = |bytes| {
        line.show(&Step { bytes, note: "opened".to_owned(), ..Step::default() });
    };
    let beside = path.with_file_name(format!(".watchfire-{}-{cid}", std::process::id()));
    let to = if replaces { &beside } else { path };
    // Of a part alone nothing was put together in its place.
    let from: Arc<dyn WriteBlocks> =
        if inside.is_empty() { blocks.keep() } else { blocks.store.clone() };
    let exported = export_private(&*from, cid, key, inside, to, &limits, &mut show)?;
    if replaces {
        fs::rename(to, path).with_context(|| path.display().to_string())?;
    }
    Ok((path.to_owned(), exported.bytes))
}

fn tell(
    arguments: &Arguments,
    fetched: &Fetched,
    stats: &HostStats,
    written: Option<(PathBuf, u64)>,
) -> anyhow::Result<()> {
    let progress = &fetched.progress;
    if arguments.json {
        let (path, bytes) = written.unzip();
        emit(&json!({
            "event": "got",
            "cid": arguments.link.cid.to_string(),
            "path": path.map(|path| path.display().to_string()),
            "bytes": bytes,
            "fetched_bytes": progress.fetched_bytes,
            "present_bytes": progress.present_bytes,
            "duplicate_bytes": stats.duplicate_block_bytes,
            "sent_bytes": stats.sent_block_bytes,
            "peers": progress.peers,
            "seconds": fetched.took.as_secs_f64(),
        }))?;
    } else if let (Some((path, bytes)), false) = (written, arguments.quiet) {
        println!(
            "{}  {} in {:.1} s, {} of them from {}",
            path.display(),
            binary_bytes(bytes),
            fetched.took.as_secs_f64(),
            binary_bytes(progress.fetched_bytes),
            peers_of(progress.peers),
        );
    }
    Ok(())
}

/// A file that is written in its order, as soon as its next bytes are here.
enum Stream {
    Plain(FileReader),
    Private(Box<PrivateStream>),
}

/// A file of a private page.
struct PrivateStream {
    reader: PrivateReader,
    /// Its path in the page; empty for a page that is one file.
    inside: String,
    /// Which entry it is, once the index is here.
    entry: Option<usize>,
}

impl Stream {
    fn new(root: Cid, key: Option<&Key>, arguments: &Arguments) -> Self {
        let bytes_max = arguments.bytes_max;
        let Some(key) = key else { return Stream::Plain(FileReader::new(root, bytes_max)) };
        Stream::Private(Box::new(PrivateStream {
            reader: PrivateReader::new(root, key, &arguments.link.path, bytes_max),
            inside: arguments.link.path.clone(),
            entry: None,
        }))
    }

    /// The block with its next bytes; `None` at its end.
    fn next(&self) -> Option<&Cid> {
        match self {
            Stream::Plain(reader) => reader.next(),
            Stream::Private(stream) => stream.reader.next(),
        }
    }

    fn take(&mut self, block: &Block, out: &mut impl Write) -> anyhow::Result<()> {
        match self {
            Stream::Plain(reader) => out.write_all(&reader.take(block)?).context("standard output"),
            Stream::Private(stream) => stream.take(block, out),
        }
    }

    /// Writes what can be written by now.
    fn write_on(&mut self, blocks: &dyn ReadBlocks, out: &mut impl Write) -> anyhow::Result<()> {
        while let Some(cid) = self.next() {
            let found =
                Block::implied_by(cid).map_or_else(|| blocks.get(cid), |it| Ok(Some(it)))?;
            let Some(block) = found else { break };
            self.take(&block, out)?;
        }
        out.flush().context("standard output")
    }

    /// Whether all was written.
    fn end(mut self, blocks: &dyn ReadBlocks) -> anyhow::Result<()> {
        self.write_on(blocks, &mut io::stdout().lock())?;
        anyhow::ensure!(self.next().is_none(), "a part of the file is missing");
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Private(stream) => Ok(stream.reader.finish()?),
        }
    }
}

impl PrivateStream {
    fn take(&mut self, block: &Block, out: &mut impl Write) -> anyhow::Result<()> {
        let mut outputs = Vec::new();
        self.reader.take(block, &mut outputs)?;
        for output in outputs {
            match output {
                Opened::Index(index) => self.entry = Some(self.find(&index)?),
                Opened::Bytes { entry, bytes } if Some(entry) == self.entry => {
                    out.write_all(&bytes).context("standard output")?;
                }
                Opened::Bytes { .. } => {}
            }
        }
        Ok(())
    }

    fn find(&self, index: &Index) -> anyhow::Result<usize> {
        let inside = &self.inside;
        let is_it =
            |entry: &watchfire_encryption::Entry| entry.path == *inside && entry.kind == Kind::File;
        index.entries.iter().position(is_it).with_context(|| {
            if inside.is_empty() {
                "this is a directory, and only a file can go to the standard output".to_owned()
            } else {
                format!("there is no file {inside:?} in this private page")
            }
        })
    }
}
