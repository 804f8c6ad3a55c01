//! Common code of `get` and `hold`: fetch content, and report progress.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use watchfire_content::Cid;
use watchfire_p2p::{ConnectError, Fetch, FetchError, Fetched, Host, Multiaddr, Progress};
use watchfire_store::{DiskStore, StoreError};
use watchfire_traces::{current, within};

use crate::host_options::HostOptions;
use crate::link::Link;
use crate::page_clients::Announcer;
use crate::progress::{ProgressLine, Step};
use crate::serving::{emit, peers_of};
use crate::signals::{Signals, TICK, ticks};

/// How long a fetch without a terminal waits until it says so.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// The exit code when no peer has the content; other failures end with 1.
pub const NO_PEER: u8 = 3;

pub enum Ending {
    /// All blocks have arrived.
    Complete(Fetched),
    /// A signal arrived; this is its exit code.
    Signalled(u8),
    /// No new block arrived within the timeout.
    TimedOut,
}

pub struct WaitOptions {
    /// Longest time without a new block; `None` waits forever.
    pub timeout: Option<Duration>,
    /// Whether to print events as JSON.
    pub is_json: bool,
    /// Whether to hide progress.
    pub is_quiet: bool,
}

/// How long a fetch waits, in words.
fn patience(timeout: Option<Duration>) -> String {
    let timeout = timeout.map(|timeout| humantime::format_duration(timeout).to_string());
    timeout.map_or("waiting".to_owned(), |timeout| format!("waiting {timeout}"))
}

/// Parses a duration such as `30s`; `0` means without a limit.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::MAX),
        text => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// Fails with advice if the host cannot find a peer.
pub fn check_peers(host: &HostOptions, link: &Link) -> anyhow::Result<()> {
    if host.has_peer(&link.peers) {
        return Ok(());
    }
    anyhow::ensure!(
        link.server.is_some() || !host.is_relay_only(),
        "cannot fetch with --relay-only: the link names no server"
    );
    anyhow::ensure!(
        link.server.is_some(),
        "cannot find a provider: the link names no peer and no server; name a peer with --peer"
    );
    Ok(())
}

/// Dials the peers of a link in the background, and prints errors. The host redials lost peers
/// itself.
pub fn dial(host: &Arc<Host>, peers: &[Multiaddr]) {
    for peer in peers.iter().cloned() {
        let host = Arc::clone(host);
        let connect = async move {
            match host.connect(peer).await {
                // The fetch has ended without this peer.
                Ok(_) | Err(ConnectError::Stopped(_)) => {}
                Err(error) => eprintln!("watchfire: {error}"),
            }
        };
        tokio::spawn(within(current(), connect));
    }
}

/// Whether a fetch failed because the store has no room beside the content that it holds.
pub fn is_full(error: &anyhow::Error) -> bool {
    let full = |error: &StoreError| {
        matches!(error, StoreError::Full { .. } | StoreError::TooManyPinned { .. })
    };
    matches!(error.downcast_ref(), Some(FetchError::Store(error)) if full(error))
}

/// Stops holding content that has no room, so that its blocks make room for other content.
pub fn release_if_full(store: &DiskStore, cid: &Cid, error: &anyhow::Error) {
    if is_full(error)
        && let Err(error) = store.unpin(cid)
    {
        eprintln!("watchfire: {error}");
    }
}

/// Waits for the fetch of `cid`. `step` is called regularly to use the blocks so far.
pub async fn wait(
    mut fetch: Fetch,
    cid: &Cid,
    announcer: &Announcer,
    signals: &mut Signals,
    options: &WaitOptions,
    mut step: impl FnMut(&Progress) -> anyhow::Result<()>,
) -> anyhow::Result<Ending> {
    let is_silent = options.is_quiet || options.is_json;
    let mut line = ProgressLine::start(is_silent);
    let mut every = ticks();
    let is_first =
        |reported: &Option<Progress>| reported.as_ref().is_none_or(|one| one.bytes() == 0);
    let (mut now, mut reported) = (Progress::default(), None);
    // Since the last new block.
    let mut waited = Duration::ZERO;
    // Without a terminal, nothing else says that nobody has it.
    let mut may_tell = !is_silent && !line.is_seen();
    loop {
        tokio::select! {
            progress = fetch.next() => match progress {
                Some(progress) => {
                    if progress.bytes() > now.bytes() {
                        waited = Duration::ZERO;
                    }
                    now = progress;
                    // The first bytes are reported when they arrive.
                    if options.is_json && is_first(&reported) && now.bytes() > 0 {
                        report(cid, &now)?;
                        reported = Some(now.clone());
                    }
                }
                None => break,
            },
            code = signals.next() => return Ok(Ending::Signalled(code)),
            _ = every.tick() => {
                if options.is_json && reported.as_ref() != Some(&now) {
                    report(cid, &now)?;
                    reported = Some(now.clone());
                }
                if options.timeout.is_some_and(|timeout| waited >= timeout) {
                    return Ok(Ending::TimedOut);
                }
                waited += TICK;
                let is_nowhere = now.bytes() == 0 && !announcer.is_elsewhere();
                if may_tell && is_nowhere && waited >= TELL_AFTER {
                    may_tell = false;
                    eprintln!("watchfire: nobody has {cid} open; {}", patience(options.timeout));
                }
            }
        }
        step(&now)?;
        announcer.has(now.bytes());
        line.show(&Step {
            bytes: now.bytes(),
            total_bytes: now.total_bytes,
            bytes_per_second: Some(now.bytes_per_second),
            note: note(&now),
        });
    }
    let fetched = fetch.finished().await.with_context(|| cid.to_string())?;
    announcer.has_all();
    step(&fetched.progress)?;
    Ok(Ending::Complete(fetched))
}

fn report(cid: &Cid, progress: &Progress) -> io::Result<()> {
    emit(&json!({
        "event": "progress",
        "cid": cid.to_string(),
        "bytes": progress.bytes(),
        "total_bytes": progress.total_bytes,
        "bytes_per_second": progress.bytes_per_second.round(),
        "peers": progress.peers,
    }))
}

fn note(progress: &Progress) -> String {
    let peers = peers_of(progress.peers);
    if progress.is_searching { format!("{peers}, looking for more") } else { peers }
}
