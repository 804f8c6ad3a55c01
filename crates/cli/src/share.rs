//! `watchfire share`: serves files and directories in place until Ctrl-C.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::json;
use watchfire_content::Cid;
use watchfire_content::encryption::Key;
use watchfire_p2p::Host;
use watchfire_page_client::{Have, PageClient, ServerUrl};
use watchfire_store::{
    LockedMemoryStore, PrivateFiles, ReadBlocks, SharedFiles, Stores, UnsharedFile, names,
};

use crate::content_options::ContentOptions;
use crate::cpu_profile::CpuProfileOption;
use crate::host_options::HostOptions;
use crate::link::{Link, PagePlace};
use crate::live_pages::{Publish, publish};
use crate::page_clients::{join_page, joined, page_link, people};
use crate::progress::{ProgressLine, Step};
use crate::serving::{LISTEN, emit, link_to, name_of, provide, report_unshared, serve};
use crate::signals::Signals;
use crate::traces;

/// Most memory for the CIDs and positions of blocks: enough for some terabytes.
const MEMORY_BYTES: usize = 512 << 20;

/// Arguments of `watchfire share`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Files and directories; each gets its own link.
    #[arg(value_name = "PATH", required_unless_present = "live")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    content: ContentOptions,
    #[command(flatten)]
    host: HostOptions,
    /// Also publish the content on this server, such as `https://example.org`, for browsers.
    #[arg(long, value_name = "URL")]
    to: Option<ServerUrl>,
    /// Encrypt the content: only people with the whole link can read it, not the server or other
    /// peers.
    #[arg(long, conflicts_with_all = ["profile", "chunk", "links"])]
    private: bool,
    /// Make one page that grows: each PATH and then each line of the standard input is an entry, and
    /// readers see it at once.
    #[arg(long, requires = "to", conflicts_with_all = ["private", "qr"])]
    live: bool,
    /// The title of the live page.
    #[arg(long, requires = "live", default_value = "")]
    title: String,
    /// Also print each link as a QR code.
    #[arg(long, conflicts_with = "json")]
    qr: bool,
    /// Print events as JSON, one object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub cpu_profile: CpuProfileOption,
}

/// Shares until a signal arrives.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(site) = arguments.to.as_ref().filter(|_| arguments.live) {
        return run_live(arguments, site);
    }
    anyhow::ensure!(
        arguments.to.is_some() || !arguments.host.is_relay_only(),
        "cannot share with --relay-only: name the server that relays the content with --to"
    );
    let shared = Shared::new(arguments.private);
    let mut roots = Vec::new();
    for path in &arguments.paths {
        roots.push(shared.share(path, arguments)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _traces = traces::start("share")?;
    runtime.block_on(serve_all(arguments, &shared, &roots))?;
    Ok(ExitCode::SUCCESS)
}

fn run_live(arguments: &Arguments, site: &ServerUrl) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let page = Publish {
        title: &arguments.title,
        paths: &arguments.paths,
        content: &arguments.content,
        host: &arguments.host,
        site,
        is_json: arguments.json,
    };
    runtime.block_on(publish(&page))?;
    Ok(ExitCode::SUCCESS)
}

struct SharedRoot {
    cid: Cid,
    /// The key that decrypts it; `None` when it is not private.
    key: Option<Key>,
}

/// The source of the blocks: plain files, or files that are encrypted while they are read.
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
                let root = files.share_with_progress(path, &options, &mut |imported| {
                    step.bytes += imported.place.map_or(0, |place| place.bytes);
                    line.show(&step);
                });
                Ok(SharedRoot { cid: root?.cid, key: None })
            }
            Shared::Private(pages) => {
                let mut bytes = [0; 32];
                getrandom::fill(&mut bytes).context(
                    "cannot generate a key: the operating system returned no random bytes",
                )?;
                // A key per page: encrypting two pages with one key would reveal both.
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

    fn take_unshared(&self) -> Vec<UnsharedFile> {
        match self {
            Shared::Plain(files) => files.take_unshared(),
            Shared::Private(pages) => pages.take_unshared(),
        }
    }

    /// The number of shared files; a private page counts as one.
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
    // `share` fetches nothing, so the host needs no store.
    let host = Arc::new(Host::start(settings, stores, Arc::new(LockedMemoryStore::new(0))).await?);
    // Kept until the end: dropping a client leaves its page.
    let mut clients: Vec<PageClient> = Vec::new();
    if let Some(site) = &arguments.to {
        for root in roots {
            let place = PagePlace { site, at: &[], root: &root.cid };
            clients.push(join_page(&host, arguments.host.direct(), place, Have::All)?);
        }
        joined(&clients, site).await?;
    }
    for (path, root) in arguments.paths.iter().zip(roots) {
        report(&host, path, root, arguments)?;
    }
    if !arguments.json {
        println!("Sharing until you press Ctrl-C.");
    }
    if arguments.host.uses_dht() {
        provide(&host, roots.iter().map(|root| root.cid.clone()).collect());
    }
    let has_files = shared.count() > 0;
    let reading = || people(&clients);
    serve(&host, &mut signals, arguments.json, reading, || {
        report_unshared(shared.take_unshared(), arguments.json)?;
        anyhow::ensure!(!has_files || shared.count() > 0, "cannot share: no file is left");
        Ok(None)
    })
    .await?;
    Ok(())
}

fn report(
    host: &Host,
    path: &Path,
    root: &SharedRoot,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let SharedRoot { cid, key } = root;
    let name = name_of(path);
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
    // The link for browsers first: it is what a person sends.
    page.iter().for_each(|page| println!("{page}"));
    println!("{cid}  {}\n{link}", names::shown(&path.display().to_string()));
    if arguments.qr {
        // A phone needs the link for browsers.
        let code = QrCode::new(page.as_ref().unwrap_or(&link))
            .context("the link is too long for a QR code")?;
        print!("{}", draw(&code, io::stdout().is_terminal()));
    }
    Ok(())
}

/// Draws the code dark on light in any terminal, because many cameras need that.
fn draw(code: &QrCode, has_colours: bool) -> String {
    let (on, off) = if has_colours { ("\x1b[38;5;16;48;5;231m", "\x1b[0m") } else { ("", "") };
    let text = code.render::<Dense1x2>().build();
    text.lines().map(|line| format!("{on}{line}{off}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_sets_its_colours_only_on_a_terminal() {
        let code = QrCode::new("watchfire:bafk").unwrap();
        let (plain, coloured) = (draw(&code, false), draw(&code, true));
        assert!(!plain.contains('\x1b') && plain.contains('█'), "{plain}");
        assert_eq!(coloured.matches("\x1b[0m\n").count(), plain.lines().count());
        // 21 modules with a quiet zone of 4 around them, two rows per line.
        assert_eq!(
            (plain.lines().count(), plain.lines().next().unwrap().chars().count()),
            (15, 29)
        );
    }
}
