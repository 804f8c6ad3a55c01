//! `watchfire hold`: a keeper. It fetches what links name, and serves it on until Ctrl-C.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use p2p::{Host, Multiaddr};
use serde_json::json;
use store::{DiskLimits, DiskStore, Stores};
use visit::{Have, Visit};

use crate::fetching::{Ending, Patience, dial, parse_timeout, wait};
use crate::host_options::HostOptions;
use crate::link::Link;
use crate::serving::{LISTEN, emit, link_to, provide, serve};
use crate::signals::Signals;
use crate::size::{parse_bytes, show_bytes};
use crate::visiting::{Announcer, page_link, visit};

/// What the process ends with when nobody was found who has it; other failures end with 1.
const NOBODY: u8 = 3;

/// What `watchfire hold` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Links or CIDs; all of what each names is held.
    #[arg(value_name = "LINK|CID", required = true)]
    links: Vec<Link>,
    /// The block store; by default watchfire/blocks in the user's folder for data.
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// What the store may take; what is not held by anyone goes first.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = parse_bytes)]
    size: u64,
    /// Hold these no longer, and end.
    #[arg(long)]
    release: bool,
    /// Give up after so long without anything new; 0: never.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_timeout)]
    timeout: Duration,
    #[command(flatten)]
    host: HostOptions,
    /// Tell what happens as JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// Hold until a signal comes.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let folder = match &arguments.store {
        Some(folder) => folder.clone(),
        None => default_folder().context("there is no folder for data; name one with --store")?,
    };
    let limits = DiskLimits { bytes_max: arguments.size, ..DiskLimits::default() };
    let store = Arc::new(DiskStore::open(&folder, limits)?);
    if arguments.release {
        for link in &arguments.links {
            let word = if store.unpin(&link.cid)? { "is held no longer" } else { "was not held" };
            println!("{} {word}", link.cid);
        }
        return Ok(ExitCode::SUCCESS);
    }
    for link in &arguments.links {
        store.pin(&link.cid)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
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
    dial(&host, &peers);
    let patience = Patience {
        timeout: (arguments.timeout != Duration::MAX).then_some(arguments.timeout),
        is_json: arguments.json,
        is_quiet: false,
    };
    // Dropped at the end alone: pages burn as long as they are visited.
    let mut visits: Vec<Arc<Visit>> = Vec::new();
    for link in &arguments.links {
        let visit = link.server.as_ref().map(|site| visit(&host, site, &link.cid, Have::None));
        let visit = visit.transpose()?.map(Arc::new);
        visits.extend(visit.clone());
        let announcer = Announcer::of(visit.into_iter().collect());
        let fetch = host.fetch(link.cid.clone()).await?;
        match wait(fetch, &link.cid, &announcer, &mut signals, &patience, || Ok(())).await? {
            Ending::Complete(_) => tell(&host, link, store, arguments)?,
            Ending::Signalled(code) => {
                host.stop().await;
                return Ok(ExitCode::from(code));
            }
            Ending::Nobody => {
                host.stop().await;
                eprintln!("watchfire: nobody who was asked has all of {}", link.cid);
                return Ok(ExitCode::from(NOBODY));
            }
        }
    }
    store.sync()?;
    if arguments.host.uses_dht() {
        provide(&host, arguments.links.iter().map(|link| link.cid.clone()).collect());
    }
    if !arguments.json {
        println!("It is held until you press Ctrl-C, and kept on disk.");
    }
    serve(&host, &mut signals, arguments.json, || Ok(())).await?;
    Ok(ExitCode::SUCCESS)
}

fn tell(host: &Host, link: &Link, store: &DiskStore, arguments: &Arguments) -> anyhow::Result<()> {
    let ours = link_to(host, &link.cid, link.name.clone()).to_string();
    let page =
        link.server.as_ref().map(|site| page_link(site, &link.cid, link.name.as_deref(), None));
    if arguments.json {
        let cid = link.cid.to_string();
        emit(&json!({ "event": "held", "cid": cid, "link": ours, "page": page }))?;
    } else {
        let totals = store.totals();
        println!("{}  {} in the store\n{ours}", link.cid, show_bytes(totals.bytes));
        page.iter().for_each(|page| println!("{page}"));
    }
    Ok(())
}
