//! `watchfire hold`: fetches content by its link, keeps it, and serves it until Ctrl-C.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use watchfire_p2p::{Host, Multiaddr};
use watchfire_page_client::{Have, PageClient};
use watchfire_store::{DiskLimits, DiskStore, Stores};
use watchfire_traces::{Kind, Span};

use crate::cpu_profile::CpuProfileOption;
use crate::fetching::{Ending, WaitOptions, dial, parse_timeout, wait};
use crate::hold_commands::obey;
use crate::host_options::HostOptions;
use crate::link::Link;
use crate::live_pages::refuse_to_hold;
use crate::page_clients::{Announcer, join_page, page_link};
use crate::serving::{LISTEN, emit, link_to, provide, serve};
use crate::signals::Signals;
use crate::traces;
use watchfire_report::units::{binary_bytes, parse_bytes};

/// The exit code when no peer has the content; other failures end with 1.
const NO_PEER: u8 = 3;

/// Arguments of `watchfire hold`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Links or CIDs; each is held with everything below it.
    #[arg(value_name = "LINK|CID", required_unless_present = "commands")]
    links: Vec<Link>,
    /// Read commands from the standard input, one per line, until it ends: `add PATH`, `hold LINK`,
    /// `release CID`, `peer MULTIADDR`, `totals`.
    #[arg(long, requires = "json", conflicts_with_all = ["links", "release", "timeout", "dht"])]
    commands: bool,
    /// The block store; the default is watchfire/blocks in your data folder.
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Largest size of the store; content that is not held is removed first.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = parse_bytes)]
    size: u64,
    /// Stop holding this content, and exit.
    #[arg(long)]
    release: bool,
    /// Fail after this time without a new block; 0 waits forever.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_timeout)]
    timeout: Duration,
    #[command(flatten)]
    host: HostOptions,
    /// Print events as JSON, one object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub cpu_profile: CpuProfileOption,
}

/// Hold content until a signal arrives.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let folder = match &arguments.store {
        Some(folder) => folder.clone(),
        None => default_folder()
            .context("cannot find your data folder; choose a folder with --store")?,
    };
    let limits = DiskLimits { bytes_max: arguments.size, ..DiskLimits::default() };
    let store = Arc::new(DiskStore::open(&folder, limits)?);
    if arguments.release {
        for link in &arguments.links {
            let result = if store.unpin(&link.cid)? { "is no longer held" } else { "was not held" };
            println!("{} {result}", link.cid);
        }
        return Ok(ExitCode::SUCCESS);
    }
    for link in &arguments.links {
        store.pin(&link.cid)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _traces = traces::start("hold")?;
    runtime.block_on(hold(arguments, &store))
}

fn default_folder() -> Option<PathBuf> {
    let is_set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let data = is_set("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(PathBuf::from(is_set("HOME")?).join(".local/share")))?;
    Some(data.join("watchfire/blocks"))
}

async fn hold(arguments: &Arguments, store: &Arc<DiskStore>) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let peers: Vec<Multiaddr> =
        arguments.links.iter().flat_map(|link| link.peers.clone()).collect();
    let settings = arguments.host.settings(LISTEN, &peers)?;
    let keep: Arc<DiskStore> = Arc::clone(store);
    let host = Arc::new(Host::start(settings, Stores::default(), keep).await?);
    if arguments.commands {
        return obey(&host, store, &mut signals).await;
    }
    dial(&host, &peers);
    let options = WaitOptions {
        timeout: (arguments.timeout != Duration::MAX).then_some(arguments.timeout),
        is_json: arguments.json,
        is_quiet: false,
    };
    // Kept until the end: dropping a client leaves its page.
    let mut clients: Vec<Arc<PageClient>> = Vec::new();
    for link in &arguments.links {
        let client = link
            .server
            .as_ref()
            .map(|site| join_page(&host, arguments.host.direct(), site, &link.cid, Have::None));
        let client = client.transpose()?.map(Arc::new);
        clients.extend(client.clone());
        let announcer = Announcer::of(client.into_iter().collect());
        let mut span = Span::below_or_root(traces::parent(), "hold", Kind::Client);
        span.set("watchfire.root", link.cid.to_string());
        let fetch = span.within(host.fetch(link.cid.clone())).await?;
        match wait(fetch, &link.cid, &announcer, &mut signals, &options, || Ok(())).await? {
            Ending::Complete(_) => {
                if let Err(error) = refuse_to_hold(store, &link.cid) {
                    host.stop().await;
                    return Err(error);
                }
                report(&host, link, store, arguments)?;
            }
            Ending::Signalled(code) => {
                host.stop().await;
                return Ok(ExitCode::from(code));
            }
            Ending::TimedOut => {
                host.stop().await;
                eprintln!("watchfire: no peer has all of {}", link.cid);
                return Ok(ExitCode::from(NO_PEER));
            }
        }
    }
    store.sync()?;
    if arguments.host.uses_dht() {
        provide(&host, arguments.links.iter().map(|link| link.cid.clone()).collect());
    }
    if !arguments.json {
        println!("Serving until you press Ctrl-C; the content stays on disk.");
    }
    serve(&host, &mut signals, arguments.json, || Ok(())).await?;
    Ok(ExitCode::SUCCESS)
}

fn report(
    host: &Host,
    link: &Link,
    store: &DiskStore,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let ours = link_to(host, &link.cid, link.name.clone()).to_string();
    let page =
        link.server.as_ref().map(|site| page_link(site, &link.cid, link.name.as_deref(), None));
    if arguments.json {
        let cid = link.cid.to_string();
        emit(&json!({ "event": "held", "cid": cid, "link": ours, "page": page }))?;
    } else {
        let totals = store.totals();
        println!("{}  {} in the store\n{ours}", link.cid, binary_bytes(totals.bytes));
        page.iter().for_each(|page| println!("{page}"));
    }
    Ok(())
}
