//! `watchfire get`: fetches the content of a link, verifies it, and writes it to disk.

use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use watchfire_content::encryption::{Index, Key, Kind, Output as Opened};
use watchfire_content::{Block, Cid, FileReader, Walk};
use watchfire_p2p::{Fetched, Host, HostStats};
use watchfire_page_client::Have;
use watchfire_store::{
    DiskLimits, DiskStore, ExportError, ExportLimits, FileAssembler, PrivateReader, ReadBlocks,
    StoreError, Stores, WriteBlocks, create_own_folder, export, export_private, names, resolve,
};

use crate::car::BLOCKS_MAX;
use crate::cpu_profile::CpuProfileOption;
use crate::fetching::{Ending, NO_PEER, WaitOptions, check_peers, dial, parse_timeout, wait};
use crate::get_part::fetch_part;
use crate::host_options::HostOptions;
use crate::key_hiding::hidden_key;
use crate::link::Link;
use crate::live_pages::{Follow, follow, is_live};
use crate::output::content_output;
use crate::page_clients::{Announcer, join_page};
use crate::progress::{ProgressLine, Step};
use crate::serving::{emit, exchange, peers_of};
use crate::signals::Signals;
use crate::traces;
use watchfire_report::units::{binary_bytes, parse_bytes};
use watchfire_traces::{Kind as SpanKind, Span};

/// Arguments of `watchfire get`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A link or a CID, with an optional path after it, such as CID/docs/a.txt.
    #[arg(value_name = "LINK|CID")]
    link: Link,
    /// Write the content to this new path; `-` is the standard output, for files. The default is
    /// the name in the link, or else the CID.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Keep the blocks in this block store, and use the blocks it has.
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Fail after this time without a new block; 0 waits forever.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Write at most this many bytes, such as 10GiB. In a folder, each entry counts at least 4KiB.
    #[arg(long, value_name = "SIZE", default_value = "1TiB", value_parser = parse_bytes)]
    bytes_max: u64,
    /// Read a live page: print its texts as they come, and save its files in the folder --output.
    #[arg(long, conflicts_with_all = ["force"])]
    follow: bool,
    #[command(flatten)]
    host: HostOptions,
    /// Print events as JSON, one object per line.
    #[arg(long)]
    json: bool,
    /// Print nothing, and show no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    pub cpu_profile: CpuProfileOption,
}

enum Output {
    Stdout,
    Path(PathBuf),
}

/// Fetches the content of a link, and writes it.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.follow {
        return run_follow(arguments);
    }
    let output = output(arguments)?;
    check_sources(arguments)?;
    let key = arguments.link.key.clone().map_or_else(hidden_key, |key| Ok(Some(key)))?;
    let blocks = Blocks::open(arguments, &output)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _traces = traces::start("get")?;
    let mut span = Span::below_or_root(traces::parent(), "get", SpanKind::Client);
    span.set("watchfire.root", arguments.link.cid.to_string());
    let got = runtime.block_on(span.within(get(arguments, &blocks, &output, key.as_ref())));
    note_end(span, &got);
    let cid = &arguments.link.cid;
    let explain = |error: anyhow::Error| match is_live(&blocks.store, cid) {
        true => anyhow::anyhow!("cannot write {cid}: it is a live page; read it with --follow"),
        false => with_advice(error),
    };
    match got.map_err(explain)? {
        (Ending::Complete(fetched), totals) => {
            let written = match &output {
                Output::Stdout => None,
                Output::Path(path) => {
                    let written = write_out(arguments, &blocks, path, key.as_ref());
                    Some(written.map_err(explain)?)
                }
            };
            blocks.close(&arguments.link.cid)?;
            if let (Output::Path(path), None) = (&output, &key) {
                warn_if_sealed(path, &arguments.link.cid);
            }
            report(arguments, &fetched, &totals, written)?;
            Ok(ExitCode::SUCCESS)
        }
        (Ending::Signalled(code), _) => {
            if !arguments.quiet {
                eprintln!("watchfire: stopped; run the same command to continue");
            }
            Ok(ExitCode::from(code))
        }
        (Ending::TimedOut, _) => {
            eprintln!("watchfire: no peer has all of {}", arguments.link.cid);
            Ok(ExitCode::from(NO_PEER))
        }
    }
}

fn run_follow(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let page = Follow {
        link: &arguments.link,
        output: arguments.output.as_deref(),
        store: arguments.store.as_deref(),
        timeout: arguments.timeout,
        bytes_max: arguments.bytes_max,
        host: &arguments.host,
        is_json: arguments.json,
        is_quiet: arguments.quiet,
    };
    runtime.block_on(follow(&page))
}

/// Fails with advice if the content is nowhere: at no peer, at no server, and not here already.
fn check_sources(arguments: &Arguments) -> anyhow::Result<()> {
    let Err(error) = check_peers(&arguments.host, &arguments.link) else { return Ok(()) };
    let is_here = match arguments.store.as_deref().filter(|folder| folder.exists()) {
        Some(folder) => {
            let limits = DiskLimits { bytes_max: u64::MAX, ..DiskLimits::default() };
            has_all(&DiskStore::open(folder, limits)?, &arguments.link)
        }
        None => has_all(&Stores::default(), &arguments.link),
    };
    if is_here { Ok(()) } else { Err(error) }
}

/// Whether these blocks, and the CIDs that contain their data, are all of the content of a link.
fn has_all(blocks: &dyn ReadBlocks, link: &Link) -> bool {
    // The names of a private page are encrypted inside it.
    let path = if link.key.is_some() { "" } else { &*link.path };
    let Ok(root) = resolve(blocks, &link.cid, path) else { return false };
    let mut walk = Walk::new(root, BLOCKS_MAX);
    while let Some(cid) = walk.next() {
        let block = Block::from_cid(cid).or_else(|| blocks.get(cid).ok().flatten());
        if block.is_none_or(|block| walk.take(&block).is_err()) {
            return false;
        }
    }
    true
}

/// An error of writing, with advice if another program has written the file during the fetch.
fn with_advice(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<ExportError>() {
        Some(ExportError::Exists { .. }) => {
            anyhow::anyhow!(
                "{error}; it was written during the fetch. Run the same command with --output or --force"
            )
        }
        _ => error,
    }
}

/// The totals of the host that fetched.
struct Totals {
    stats: HostStats,
    /// As JSON, for `--json`.
    exchange: Value,
}

fn note_end(mut span: Span, got: &anyhow::Result<(Ending, Totals)>) {
    match got {
        Ok((Ending::Complete(fetched), _)) => {
            span.set("watchfire.bytes", fetched.progress.fetched_bytes);
            span.set("watchfire.blocks", fetched.progress.fetched_blocks);
            span.set("watchfire.peers", fetched.progress.peers);
        }
        Ok((Ending::Signalled(_), _)) => span.fail("stopped by a signal"),
        Ok((Ending::TimedOut, _)) => span.fail("no peer has all of the content"),
        Err(error) => span.fail(error),
    }
}

fn output(arguments: &Arguments) -> anyhow::Result<Output> {
    let path = match &arguments.output {
        Some(path) if path.as_os_str() == "-" => {
            anyhow::ensure!(!arguments.json, "the standard output cannot be both file and JSON");
            content_output()?;
            return Ok(Output::Stdout);
        }
        Some(path) => path.clone(),
        None => PathBuf::from(arguments.link.file_name()),
    };
    check_target(&path, arguments.force)?;
    Ok(Output::Path(path))
}

/// Fails if nothing can be written to this path. Only files are replaced: without this check, a device
/// would become a file.
fn check_target(path: &Path, replaces: bool) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let name = names::shown(&name);
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            anyhow::ensure!(
                path.file_name().is_some(),
                "cannot write {name:?}: it does not end with a name; choose another path with --output"
            );
            return Ok(());
        }
        found => found.with_context(|| format!("cannot write {name}"))?,
    };
    // A link that leads nowhere is replaced itself.
    let found = path.metadata().unwrap_or(found);
    anyhow::ensure!(
        !found.is_dir(),
        "cannot replace {name}: it is a directory; choose another path with --output"
    );
    anyhow::ensure!(
        found.is_file() || found.is_symlink(),
        "cannot replace {name}: it is not a file; write to it with `--output - > {name}`"
    );
    anyhow::ensure!(replaces, "{name} already exists; --force replaces it");
    Ok(())
}

/// The blocks of the fetch, until all of them have arrived.
struct Blocks {
    store: Arc<DiskStore>,
    /// Writes the leaves of a file directly to their place in the file. `None` if the blocks stay
    /// in a store, or go to the standard output, which cannot be read again.
    assembler: Option<Arc<FileAssembler>>,
    /// The folder of a temporary store, unless another process has that one open.
    base: PathBuf,
    /// The store is temporary, and is removed after the fetch.
    is_own: bool,
    /// This fetch pinned the root; it was not pinned before.
    is_newly_pinned: bool,
}

impl Blocks {
    fn open(arguments: &Arguments, output: &Output) -> anyhow::Result<Self> {
        let cid = &arguments.link.cid;
        let base = match output {
            Output::Path(path) => path.with_file_name(format!(".watchfire-{cid}")),
            Output::Stdout => temporary_folder()?.join(cid.to_string()),
        };
        let is_own = arguments.store.is_none();
        let store = match &arguments.store {
            Some(folder) => DiskStore::open(folder, DiskLimits::default())?,
            None => open_own(&base)?,
        };
        let is_newly_pinned = store.pin(cid)?;
        let store = Arc::new(store);
        let assembler = match output {
            Output::Path(_) if is_own => {
                let part = store.folder().join("part");
                let assembler = FileAssembler::new(store.clone(), &part, arguments.bytes_max);
                Some(Arc::new(assembler))
            }
            Output::Path(_) | Output::Stdout => None,
        };
        Ok(Blocks { store, assembler, base, is_own, is_newly_pinned })
    }

    /// The store for fetched blocks, from which they are also served.
    fn fetched(&self) -> Arc<dyn WriteBlocks> {
        match &self.assembler {
            Some(assembler) => assembler.clone(),
            None => self.store.clone(),
        }
    }

    /// Removes temporary files after the content is written.
    fn close(self, cid: &Cid) -> anyhow::Result<()> {
        if self.is_own {
            // Its file is in the folder, and open.
            drop(self.assembler);
            self.store.remove_folder()?;
            remove_abandoned(&self.base)?;
        } else if self.is_newly_pinned {
            self.store.unpin(cid)?;
        }
        Ok(())
    }
}

/// Temporary stores of one CID beside each other, each of a `get` that runs. Further ones fail.
const OWN_STORES_MAX: u32 = 16;

/// The folders of temporary stores, the first for a `get` that is alone or continues an earlier one.
fn own_folders(base: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = (2..=OWN_STORES_MAX).map(|number| {
        let mut folder = base.as_os_str().to_owned();
        folder.push(format!("-{number}"));
        PathBuf::from(folder)
    });
    std::iter::once(base.to_owned()).chain(numbered)
}

/// Returns the first of the folders that no other process has open and no other user has made.
fn first_own<T>(
    base: &Path,
    open: impl Fn(&Path) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut last = None;
    for folder in own_folders(base) {
        match open(&folder) {
            Err(error @ (StoreError::Locked { .. } | StoreError::NotOwn { .. })) => {
                last = Some(error);
            }
            opened => return opened,
        }
    }
    Err(last.expect("there is a folder, and it cannot be opened"))
}

/// Returns this user's folder in the folder for temporary files, to which all users can write.
fn temporary_folder() -> Result<PathBuf, StoreError> {
    let user = rustix::process::geteuid().as_raw();
    first_own(&std::env::temp_dir().join(format!("watchfire-{user}")), |folder| {
        create_own_folder(folder).map(|()| folder.to_owned())
    })
}

/// Opens a temporary store.
fn open_own(base: &Path) -> Result<DiskStore, StoreError> {
    let limits = DiskLimits { bytes_max: u64::MAX, ..DiskLimits::default() };
    first_own(base, |folder| DiskStore::open_own(folder, limits))
}

/// Removes further temporary stores that an interrupted process left. Nothing continues them.
fn remove_abandoned(base: &Path) -> anyhow::Result<()> {
    for folder in own_folders(base).skip(1).filter(|folder| folder.exists()) {
        // Another process has a store open that cannot be opened here.
        if let Ok(store) = DiskStore::open_own(&folder, DiskLimits::default()) {
            store.remove_folder()?;
        }
    }
    Ok(())
}

async fn get(
    arguments: &Arguments,
    blocks: &Blocks,
    output: &Output,
    key: Option<&Key>,
) -> anyhow::Result<(Ending, Totals)> {
    let mut signals = Signals::listen()?;
    let link = &arguments.link;
    let settings = arguments.host.settings(&[], &link.peers)?;
    let peers = settings.bootstrap.clone();
    let host = Arc::new(Host::start(settings, Stores::default(), blocks.fetched()).await?);
    dial(&host, &peers);
    let mut stream = None;
    let options = WaitOptions {
        timeout: (arguments.timeout != Duration::MAX).then_some(arguments.timeout),
        is_json: arguments.json,
        is_quiet: arguments.quiet || (matches!(output, Output::Stdout) && is_terminal()),
    };
    let join = |place| join_page(&host, arguments.host.direct(), place, Have::None);
    let client = link.place().map(join).transpose()?.map(Arc::new);
    let announcer = Announcer::of(client.into_iter().collect());
    let ending = async {
        let found =
            find(&host, link, key, blocks, &announcer.silent(), &mut signals, &options).await?;
        let (root, before) = match found {
            Found::Root { root, before } => (root, before),
            Found::Unresolved(ending) => return Ok(ending),
        };
        match output {
            Output::Stdout => stream = Some(Stream::new(root.clone(), key, arguments)),
            Output::Path(_) => {}
        }
        let part = key.filter(|_| !link.path.is_empty());
        if let Some(key) = part {
            let reader = PrivateReader::new(root, key, &link.path, arguments.bytes_max);
            let write = || write_available(&mut stream, blocks);
            return fetch_part(&host, reader, &blocks.store, &mut signals, &options, write).await;
        }
        if let Some(assembler) = &blocks.assembler {
            assembler.start(&root)?;
        }
        let fetch = host.fetch(root.clone()).await?;
        let ending = wait(fetch, &root, &announcer, &mut signals, &options, |_| {
            check_kind(arguments, output, blocks)?;
            write_available(&mut stream, blocks)
        });
        Ok(match ending.await? {
            Ending::Complete(fetched) => Ending::Complete(combined(before, fetched)),
            ending => ending,
        })
    };
    let ending: anyhow::Result<Ending> = ending.await;
    let (stats, exchange) = (host.stats().await, exchange(&host).await);
    host.stop().await;
    let (ending, totals) = (ending?, Totals { stats: stats?, exchange: exchange? });
    if let (Ending::Complete(_), Some(stream)) = (&ending, stream) {
        stream.finish(&*blocks.store)?;
    }
    Ok((ending, totals))
}

/// Fails if the content is a file, and its path ends with a slash, as that of a directory.
fn check_kind(arguments: &Arguments, output: &Output, blocks: &Blocks) -> anyhow::Result<()> {
    let is_file = blocks.assembler.as_ref().is_some_and(|assembler| assembler.is_file());
    match output {
        Output::Path(path)
            if is_file
                && arguments.link.key.is_none()
                && path.as_os_str().as_encoded_bytes().ends_with(b"/") =>
        {
            let name = path.display().to_string();
            anyhow::bail!(
                "cannot write the file {}: it ends with a slash; name a file with --output",
                names::shown(&name)
            )
        }
        _ => Ok(()),
    }
}

/// Writes the bytes of a stream that have arrived.
fn write_available(stream: &mut Option<Stream>, blocks: &Blocks) -> anyhow::Result<()> {
    match stream {
        Some(stream) => stream.write_available(&*blocks.store, &mut content_output()?),
        None => Ok(()),
    }
}

/// The result of resolving a link.
enum Found {
    /// The root, and the blocks that were fetched to find it.
    Root { root: Cid, before: Option<Fetched> },
    /// The root was not found.
    Unresolved(Ending),
}

/// Finds the root of a link. Of the directories in its path, it fetches only the blocks that it
/// reads.
async fn find(
    host: &Host,
    link: &Link,
    key: Option<&Key>,
    blocks: &Blocks,
    page: &Announcer,
    signals: &mut Signals,
    options: &WaitOptions,
) -> anyhow::Result<Found> {
    let mut before = None;
    // The names of a private page are encrypted inside it.
    let path = if key.is_some() { "" } else { &*link.path };
    loop {
        let missing = match resolve(&*blocks.store, &link.cid, path) {
            Ok(root) => return Ok(Found::Root { root, before }),
            Err(ExportError::Missing { cid }) => cid,
            Err(error) => return Err(error.into()),
        };
        let fetch = host.fetch_block(missing.clone()).await?;
        match wait(fetch, &missing, page, signals, options, |_| Ok(())).await? {
            Ending::Complete(fetched) => {
                before =
                    Some(before.map_or(fetched.clone(), |before| combined(Some(before), fetched)));
            }
            ending => return Ok(Found::Unresolved(ending)),
        }
    }
}

/// The sum of two consecutive fetches.
fn combined(before: Option<Fetched>, after: Fetched) -> Fetched {
    let Some(before) = before else { return after };
    let mut progress = after.progress;
    progress.fetched_bytes += before.progress.fetched_bytes;
    progress.fetched_blocks += before.progress.fetched_blocks;
    progress.peers = progress.peers.max(before.progress.peers);
    Fetched { progress, took: before.took + after.took }
}

/// Whether the standard output is a terminal, on which progress would disturb the content.
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
    // Write beside it first: the old file stays until the new one is complete.
    let beside = path.with_file_name(format!(".watchfire-{}-{root}", std::process::id()));
    let exported = export(&*blocks.store, &root, &beside, &limits, &mut show)?;
    fs::rename(&beside, path).with_context(|| path.display().to_string())?;
    Ok((path.to_owned(), exported.bytes))
}

/// Prints a warning if the written file is the ciphertext of a private page.
fn warn_if_sealed(path: &Path, cid: &Cid) {
    let mut start = [0; watchfire_content::encryption::MAGIC.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    if read.is_ok() && watchfire_content::encryption::is_sealed(&start) {
        eprintln!(
            "watchfire: {cid} is a private page, and the link has no key: {} is its ciphertext",
            path.display()
        );
    }
}

/// Decrypts a private page. Only authenticated bytes are written, beside `path` until complete.
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
    let target = if replaces { &beside } else { path };
    // The assembler has only whole pages, not parts.
    let from: Arc<dyn WriteBlocks> =
        if inside.is_empty() { blocks.fetched() } else { blocks.store.clone() };
    let exported = export_private(&*from, cid, key, inside, target, &limits, &mut show)?;
    if replaces {
        fs::rename(target, path).with_context(|| path.display().to_string())?;
    }
    Ok((path.to_owned(), exported.bytes))
}

fn report(
    arguments: &Arguments,
    fetched: &Fetched,
    totals: &Totals,
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
            "duplicate_bytes": totals.stats.duplicate_block_bytes,
            "sent_bytes": totals.stats.sent_block_bytes,
            "exchange": totals.exchange,
            "peers": progress.peers,
            "seconds": fetched.took.as_secs_f64(),
        }))?;
    } else if let (Some((path, bytes)), false) = (written, arguments.quiet) {
        println!(
            "{}  {} in {:.1} s, {} of them from {}",
            names::shown(&path.display().to_string()),
            binary_bytes(bytes),
            fetched.took.as_secs_f64(),
            binary_bytes(progress.fetched_bytes),
            peers_of(progress.peers),
        );
    }
    Ok(())
}

/// A file that is written in order, as its bytes arrive.
enum Stream {
    Plain(FileReader),
    Private(Box<PrivateStream>),
}

struct PrivateStream {
    reader: PrivateReader,
    /// Its path in the page; empty for a page that is one file.
    inside: String,
    /// The index of its entry, once the page's index has arrived.
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

    /// The block with the next bytes; `None` at the end.
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

    /// Writes the bytes that have arrived.
    fn write_available(
        &mut self,
        blocks: &dyn ReadBlocks,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        while let Some(cid) = self.next() {
            let found =
                Block::from_cid(cid).map_or_else(|| blocks.get(cid), |block| Ok(Some(block)))?;
            let Some(block) = found else { break };
            self.take(&block, out)?;
        }
        out.flush().context("standard output")
    }

    /// Writes the rest. Fails if a part of the file is missing.
    fn finish(mut self, blocks: &dyn ReadBlocks) -> anyhow::Result<()> {
        self.write_available(blocks, &mut content_output()?)?;
        anyhow::ensure!(self.next().is_none(), "cannot write the file: a part of it is missing");
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
        let is_wanted = |entry: &watchfire_content::encryption::Entry| {
            entry.path == *inside && entry.kind == Kind::File
        };
        index.entries.iter().position(is_wanted).with_context(|| {
            if inside.is_empty() {
                "cannot write a directory to the standard output; choose a path with --output"
                    .to_owned()
            } else {
                format!("no file {inside:?} in this private page")
            }
        })
    }
}
