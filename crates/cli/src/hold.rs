//! `watchfire hold`: fetches content by its link, keeps it, and serves it until Ctrl-C.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::json;
use watchfire_content::Cid;
use watchfire_p2p::{Host, Multiaddr, Progress};
use watchfire_page_client::{Have, PageClient};
use watchfire_store::{DiskLimits, DiskStore, Stores};
use watchfire_traces::{Kind, Span};

use crate::cpu_profile::CpuProfileOption;
use crate::describe;
use crate::fetching::{
    Ending, NO_PEER, WaitOptions, check_peers, dial, is_full, parse_timeout, release_if_full, wait,
};
use crate::hold_commands::obey;
use crate::host_options::HostOptions;
use crate::link::Link;
use crate::live_pages::refuse_to_hold;
use crate::page_clients::{Announcer, join_page, page_link, people};
use crate::progress::Step;
use crate::serving::{LISTEN, emit, link_to, peers_of, provide, serve};
use crate::signals::{Signals, TICK};
use crate::traces;
use watchfire_report::units::{binary_bytes, parse_bytes};

/// Arguments of `watchfire hold`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Links or CIDs; each is held with everything below it.
    #[arg(value_name = "LINK|CID", required_unless_present = "commands")]
    links: Vec<Link>,
    /// Read commands from the standard input, one per line, until it ends: `add PATH`, `hold LINK`,
    /// `release CID`, `peer MULTIADDR`, `totals`.
    #[arg(long, requires = "json", conflicts_with_all = ["links", "release", "timeout", "dht", "relay_only"])]
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

/// Holds content until a signal arrives.
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
    if arguments.host.is_relay_only() {
        arguments.links.iter().try_for_each(|link| check_peers(&arguments.host, link))?;
    }
    let mut signals = Signals::listen()?;
    // Several links of one peer name it once.
    let peers: BTreeSet<Multiaddr> =
        arguments.links.iter().flat_map(|link| link.peers.clone()).collect();
    let peers: Vec<Multiaddr> = peers.into_iter().collect();
    let mut settings = arguments.host.settings(LISTEN, &peers)?;
    let fetches_max = &mut settings.limits.fetches_max;
    *fetches_max = arguments.links.len().max(*fetches_max);
    let keep: Arc<DiskStore> = Arc::clone(store);
    let host = Arc::new(Host::start(settings, Stores::default(), keep).await?);
    if arguments.commands {
        return obey(&host, store, &mut signals).await;
    }
    if !arguments.host.is_relay_only() {
        dial(&host, &peers);
    }
    let holding = Holding {
        arguments,
        host: &host,
        store,
        fetching: RefCell::default(),
        failure: Cell::new(0),
        held: RefCell::default(),
    };
    let reading = || people(holding.held.borrow().iter().flatten().map(Arc::as_ref));
    let shown = || Ok(holding.step());
    let code = tokio::select! {
        code = serve(&host, &mut signals, arguments.json, reading, shown) => {
            let code = code?;
            if holding.fetching.borrow().is_empty() { holding.failure.get() } else { code }
        }
        () = holding.hold_all() => {
            host.stop().await;
            holding.failure.get()
        }
    };
    Ok(ExitCode::from(code))
}

/// The content of all links, side by side.
struct Holding<'a> {
    arguments: &'a Arguments,
    host: &'a Arc<Host>,
    store: &'a Arc<DiskStore>,
    /// The progress of each link that is not settled, by its number.
    fetching: RefCell<BTreeMap<usize, Progress>>,
    /// The exit code of a link that failed; 0 if none has.
    failure: Cell<u8>,
    /// The clients of the pages of held content. Dropping a client leaves its page.
    held: RefCell<Vec<Option<Arc<PageClient>>>>,
}

impl Holding<'_> {
    /// Holds all content. Returns only if none of it can be held.
    async fn hold_all(&self) {
        let count = self.arguments.links.len();
        self.fetching.borrow_mut().extend((0..count).map(|at| (at, Progress::default())));
        let mut running: FuturesUnordered<_> =
            (0..count).map(|at| async move { (at, self.hold(at).await) }).collect();
        while let Some((at, held)) = running.next().await {
            self.settle(at, held);
        }
        if !self.held.borrow().is_empty() {
            std::future::pending::<()>().await;
        }
    }

    /// Notes that a link is held or has failed.
    fn settle(&self, at: usize, held: anyhow::Result<Option<Arc<PageClient>>>) {
        self.fetching.borrow_mut().remove(&at);
        let Err(error) = held.map(|client| self.held.borrow_mut().push(client)) else { return };
        if !error.is::<NoPeer>() {
            self.failure.set(1);
        } else if self.failure.get() == 0 {
            self.failure.set(NO_PEER);
        }
        let cid = self.arguments.links[at].cid.to_string();
        let error = describe(&error);
        eprintln!("watchfire: {error}");
        if self.arguments.json {
            // A closed output ends the command when it reports what it serves.
            let _ = emit(&json!({ "event": "failed", "cid": cid, "error": error }));
        }
    }

    /// Fetches and holds the content of one link. Returns the client of its page.
    async fn hold(&self, at: usize) -> anyhow::Result<Option<Arc<PageClient>>> {
        let Holding { arguments, host, store, .. } = self;
        let link = &arguments.links[at];
        let join = |place| join_page(host, arguments.host.direct(), place, Have::None);
        let client = link.place().map(join).transpose()?.map(Arc::new);
        let announcer = Announcer::of(client.iter().cloned().collect());
        let mut span = Span::below_or_root(traces::parent(), "hold", Kind::Client);
        span.set("watchfire.root", link.cid.to_string());
        loop {
            match span.within(self.fetch(at, &announcer)).await {
                Err(error) if is_full(&error) => {
                    release_if_full(store, &link.cid, &error);
                    // A larger one may be what does not fit. Then it fails, and its blocks make room.
                    tokio::time::sleep(TICK).await;
                    anyhow::ensure!(self.has_larger(at), error);
                }
                fetched => break fetched?,
            }
        }
        refuse_to_hold(store, &link.cid)?;
        let syncing = Arc::clone(store);
        tokio::task::spawn_blocking(move || syncing.sync()).await??;
        self.report(link)?;
        if arguments.host.uses_dht() {
            provide(host, vec![link.cid.clone()]);
        }
        Ok(client)
    }

    async fn fetch(&self, at: usize, announcer: &Announcer) -> anyhow::Result<()> {
        let Holding { arguments, host, store, .. } = self;
        let cid = &arguments.links[at].cid;
        store.pin(cid)?;
        let fetch = host.fetch(cid.clone()).await?;
        let options = WaitOptions {
            timeout: (arguments.timeout != Duration::MAX).then_some(arguments.timeout),
            is_json: arguments.json,
            is_quiet: true,
        };
        let mut signals = Signals::listen()?;
        let ending = wait(fetch, cid, announcer, &mut signals, &options, |progress| {
            self.fetching.borrow_mut().insert(at, progress.clone());
            Ok(())
        });
        match ending.await? {
            Ending::Complete(_) => Ok(()),
            Ending::TimedOut => Err(NoPeer { cid: cid.clone() }.into()),
            // `serve` ends the command.
            Ending::Signalled(_) => std::future::pending().await,
        }
    }

    /// Whether content that is larger, as far as is known, is fetched too.
    fn has_larger(&self, at: usize) -> bool {
        let fetching = self.fetching.borrow();
        let size = |at: &usize| {
            let progress = &fetching[at];
            (progress.total_bytes.unwrap_or(progress.bytes()), *at)
        };
        fetching.keys().any(|other| size(other) > size(&at))
    }

    fn report(&self, link: &Link) -> anyhow::Result<()> {
        let ours = link_to(self.host, &link.cid, link.name.clone()).to_string();
        let page =
            link.server.as_ref().map(|site| page_link(site, &link.cid, link.name.as_deref(), None));
        if self.arguments.json {
            let cid = link.cid.to_string();
            emit(&json!({ "event": "held", "cid": cid, "link": ours, "page": page }))?;
            return Ok(());
        }
        let totals = self.store.totals();
        println!("{}  {} in the store\n{ours}", link.cid, binary_bytes(totals.bytes));
        page.iter().for_each(|page| println!("{page}"));
        if self.held.borrow().is_empty() {
            println!("Serving until you press Ctrl-C; the content stays on disk.");
        }
        Ok(())
    }

    /// The progress of all fetches together; `None` after the last.
    fn step(&self) -> Option<Step> {
        let fetching = self.fetching.borrow();
        let all = || fetching.values();
        (!fetching.is_empty()).then(|| Step {
            bytes: all().map(Progress::bytes).sum(),
            total_bytes: all().map(|progress| progress.total_bytes).sum(),
            bytes_per_second: Some(all().map(|progress| progress.bytes_per_second).sum()),
            note: peers_of(all().map(|progress| progress.peers).max().unwrap_or_default()),
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no peer has all of {cid}")]
struct NoPeer {
    cid: Cid,
}
