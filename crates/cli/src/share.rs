//! `watchfire share`: files and directories, served from where they lie until Ctrl-C.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use content::Cid;
use p2p::Host;
use private::Key;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::json;
use store::{Memory, PrivateFiles, ReadBlocks, SharedFiles, Stores, Withdrawn};
use visit::{Have, Site, Visit};

use crate::content_options::ContentOptions;
use crate::host_options::HostOptions;
use crate::link::Link;
use crate::progress::{ProgressLine, Step};
use crate::serving::{LISTEN, emit, link_to, provide, serve};
use crate::signals::Signals;
use crate::visiting::{joined, page_link, visit};

/// Most memory for the names and places of blocks: enough for some terabytes.
const MEMORY_BYTES: usize = 512 << 20;

/// What `watchfire share` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Files and directories; each gets a link of its own.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    content: ContentOptions,
    #[command(flatten)]
    host: HostOptions,
    /// Put it on this server, such as `https://example.org`, so that browsers open it by a link to
    /// there.
    #[arg(long, value_name = "URL")]
    to: Option<Site>,
    /// Seal it, so that only who has the whole link can read it: not the server, nor those who keep
    /// it burning.
    #[arg(long, conflicts_with_all = ["profile", "chunk", "links"])]
    private: bool,
    /// Draw each link as a QR code too.
    #[arg(long, conflicts_with = "json")]
    qr: bool,
    /// Tell what happens as JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// Share until a signal comes.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let shared = Shared::new(arguments.private);
    let mut roots = Vec::new();
    for path in &arguments.paths {
        roots.push(shared.share(path, arguments)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve_all(arguments, &shared, &roots))?;
    Ok(ExitCode::SUCCESS)
}

/// What one path is shared as.
struct SharedRoot {
    cid: Cid,
    /// What opens it, if it is private.
    key: Option<Key>,
}

/// Where the blocks come from: files as they are, or sealed on the way.
enum Shared {
    Plain(Arc<SharedFiles>),
    Private(Arc<PrivateFiles>),
}

impl Shared {
    fn new(is_private: bool) -> Self {
        if is_private {
            Shared::Private(Arc::new(PrivateFiles::new(MEMORY_BYTES)))
        } else {
            Shared::Plain(Arc::new(SharedFiles::new(MEMORY_BYTES)))
        }
    }

    fn share(&self, path: &Path, arguments: &Arguments) -> anyhow::Result<SharedRoot> {
        let mut line = ProgressLine::start(arguments.json);
        let total_bytes = line.is_seen().then(|| arguments.content.bytes_at(path));
        let mut step = Step { total_bytes, ..Step::default() };
        let options = arguments.content.import_options();
        match self {
            Shared::Plain(files) => {
                let root = files.share_and_tell(path, &options, &mut |imported| {
                    step.bytes += imported.place.map_or(0, |place| place.bytes);
                    line.show(&step);
                });
                Ok(SharedRoot { cid: root?.cid, key: None })
            }
            Shared::Private(pages) => {
                let mut bytes = [0; 32];
                getrandom::fill(&mut bytes).context("the system has no dice for a key")?;
                // Of this page alone: a key that seals twice gives both away.
                let key = Key::from_bytes(bytes);
                let root = pages.share(path, &key, options.skips_hidden, &mut |bytes| {
                    step.bytes += bytes;
                    line.show(&step);
                });
                Ok(SharedRoot { cid: root?.cid, key: Some(key) })
            }
        }
    }

    fn blocks(&self) -> Arc<dyn ReadBlocks> {
        match self {
            Shared::Plain(files) => files.clone(),
            Shared::Private(pages) => pages.clone(),
        }
    }

    fn take_withdrawn(&self) -> Vec<Withdrawn> {
        match self {
            Shared::Plain(files) => files.take_withdrawn(),
            Shared::Private(pages) => pages.take_withdrawn(),
        }
    }

    /// Files, or of private pages the pages, that are shared.
    fn count(&self) -> usize {
        match self {
            Shared::Plain(files) => files.files(),
            Shared::Private(pages) => pages.pages(),
        }
    }
}

async fn serve_all(
    arguments: &Arguments,
    shared: &Shared,
    roots: &[SharedRoot],
) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let settings = arguments.host.settings(LISTEN, &[])?;
    let stores = Stores::new(vec![shared.blocks()]);
    // Nothing is fetched, so nothing is kept.
    let host = Arc::new(Host::start(settings, stores, Arc::new(Memory::new(0))).await?);
    // Dropped at the end alone: pages burn as long as they are visited.
    let mut visits: Vec<Visit> = Vec::new();
    if let Some(site) = &arguments.to {
        for root in roots {
            visits.push(visit(&host, site, &root.cid, Have::All)?);
        }
        joined(&visits, site).await?;
    }
    for (path, root) in arguments.paths.iter().zip(roots) {
        tell(&host, path, root, arguments)?;
    }
    if !arguments.json {
        println!("It burns until you press Ctrl-C.");
    }
    if arguments.host.uses_dht() {
        provide(&host, roots.iter().map(|root| root.cid.clone()).collect());
    }
    let has_files = shared.count() > 0;
    serve(&host, &mut signals, arguments.json, || {
        for withdrawn in shared.take_withdrawn() {
            let path = withdrawn.path.display();
            eprintln!("watchfire: {path} is shared no longer: {}", withdrawn.change);
            if arguments.json {
                emit(&json!({ "event": "withdrawn", "path": path.to_string() }))?;
            }
        }
        anyhow::ensure!(!has_files || shared.count() > 0, "nothing is left to share");
        Ok(())
    })
    .await
}

fn tell(host: &Host, path: &Path, root: &SharedRoot, arguments: &Arguments) -> anyhow::Result<()> {
    let SharedRoot { cid, key } = root;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let page =
        arguments.to.as_ref().map(|site| page_link(site, cid, name.as_deref(), key.as_ref()));
    let link = Link { key: key.clone(), ..link_to(host, cid, name) }.to_string();
    if arguments.json {
        let addresses: Vec<_> = host.addresses().iter().map(ToString::to_string).collect();
        emit(&json!({
            "event": "shared",
            "path": path.display().to_string(),
            "cid": cid.to_string(),
            "link": link,
            "page": page,
            "addresses": addresses,
        }))?;
        return Ok(());
    }
    println!("{cid}  {}\n{link}", path.display());
    page.iter().for_each(|page| println!("{page}"));
    if arguments.qr {
        // Whoever has a camera has a browser.
        let code = QrCode::new(page.as_ref().unwrap_or(&link))
            .context("the link is too long for a QR code")?;
        print!("{}", drawn(&code, io::stdout().is_terminal()));
    }
    Ok(())
}

/// Dark on light whatever colours the terminal has: many cameras do not read it the other way.
fn drawn(code: &QrCode, has_colours: bool) -> String {
    let (on, off) = if has_colours { ("\x1b[38;5;16;48;5;231m", "\x1b[0m") } else { ("", "") };
    let text = code.render::<Dense1x2>().build();
    text.lines().map(|line| format!("{on}{line}{off}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_colours_of_its_own_on_a_terminal_alone() {
        let code = QrCode::new("watchfire:bafk").unwrap();
        let (plain, coloured) = (drawn(&code, false), drawn(&code, true));
        assert!(!plain.contains('\x1b') && plain.contains('█'), "{plain}");
        assert_eq!(coloured.matches("\x1b[0m\n").count(), plain.lines().count());
        // 21 modules and a quiet zone of 4 around them, two rows a line.
        assert_eq!(
            (plain.lines().count(), plain.lines().next().unwrap().chars().count()),
            (15, 29)
        );
    }
}
