//! What `get` and `hold` have in common: fetch content, and report progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;
use watchfire_content::Cid;
use watchfire_p2p::{Fetch, Fetched, Host, Multiaddr, Progress};

use crate::host_options::HostOptions;
use crate::link::Link;
use crate::page_clients::Announcer;
use crate::progress::{ProgressLine, Step};
use crate::serving::{emit, peers_of};
use crate::signals::Signals;

/// How often progress is reported as JSON and the timeout is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a fetch ended.
pub enum Ending {
    /// All blocks have arrived.
    Complete(Fetched),
    /// A signal arrived; this is its exit code.
    Signalled(u8),
    /// No new block arrived within the timeout.
    Nobody,
}

/// How to wait for a fetch.
pub struct Patience {
    /// Longest time without a new block; `None` waits forever.
    pub timeout: Option<Duration>,
    /// Whether to print events as JSON.
    pub is_json: bool,
    /// Whether to draw no progress.
    pub is_quiet: bool,
}

/// A duration such as `30s`; `0` is forever.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::MAX),
        text => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// Fail with advice when the host has no way to find a peer.
pub fn check_peers(host: &HostOptions, link: &Link) -> anyhow::Result<()> {
    if host.knows_whom_to_ask(&link.peers) {
        return Ok(());
    }
    anyhow::ensure!(
        link.server.is_some(),
        "the link names nobody who has it: name a peer with --peer"
    );
    Ok(())
}

/// Dial the peers of a link in the background. The host redials lost peers by itself; this call
/// prints what is wrong with an address.
pub fn dial(host: &Arc<Host>, peers: &[Multiaddr]) {
    for peer in peers.iter().cloned() {
        let host = Arc::clone(host);
        tokio::spawn(async move {
            if let Err(error) = host.connect(peer).await {
                eprintln!("watchfire: {error}");
            }
        });
    }
}

/// Wait for the fetch of `cid`. `step` is called from time to time to use the blocks so far.
pub async fn wait(
    mut fetch: Fetch,
    cid: &Cid,
    announcer: &Announcer,
    signals: &mut Signals,
    patience: &Patience,
    mut step: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Ending> {
    let mut line = ProgressLine::start(patience.is_quiet || patience.is_json);
    let mut every = tokio::time::interval(LOOK_EVERY);
    let (mut now, mut told) = (Progress::default(), None);
    let mut came_at = Instant::now();
    loop {
        tokio::select! {
            progress = fetch.next() => match progress {
                Some(progress) => {
                    if progress.bytes() > now.bytes() {
                        came_at = Instant::now();
                    }
                    now = progress;
                }
                None => break,
            },
            code = signals.next() => return Ok(Ending::Signalled(code)),
            _ = every.tick() => {
                if patience.is_json && told.as_ref() != Some(&now) {
                    told = Some(now.clone());
                    emit(&json!({
                        "event": "progress",
                        "bytes": now.bytes(),
                        "total_bytes": now.total_bytes,
                        "bytes_per_second": now.bytes_per_second.round(),
                        "peers": now.peers,
                    }))?;
                }
                if patience.timeout.is_some_and(|timeout| came_at.elapsed() > timeout) {
                    return Ok(Ending::Nobody);
                }
            }
        }
        step()?;
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
    step()?;
    Ok(Ending::Complete(fetched))
}

fn note(progress: &Progress) -> String {
    let peers = peers_of(progress.peers);
    if progress.is_searching { format!("{peers}, looking for more") } else { peers }
}
