//! What `get` and `hold` have in common: fetch what a link names, and say how far it has come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use content::Cid;
use p2p::{Fetch, Fetched, Host, Multiaddr, Progress};
use serde_json::json;

use crate::host_options::HostOptions;
use crate::link::Link;
use crate::progress::{ProgressLine, Step};
use crate::serving::{emit, peers_of};
use crate::signals::Signals;
use crate::visiting::Announcer;

/// How often progress is told to scripts, and silence is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a fetch ended.
pub enum Ending {
    /// All of it is here.
    Complete(Fetched),
    /// A signal came; this is the exit code for it.
    Signalled(u8),
    /// Nothing came for as long as one was willing to wait.
    Nobody,
}

/// How a fetch is waited for.
pub struct Patience {
    /// Longest time without a single new block; `None`: for ever.
    pub timeout: Option<Duration>,
    /// Whether to tell scripts.
    pub is_json: bool,
    /// Whether to draw nothing.
    pub is_quiet: bool,
}

/// A duration such as `30s`; `0` is for ever.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::MAX),
        text => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// Says what to do when there is nobody to ask.
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

/// Dials the peers of a link, beside all else. The host dials them again whenever they are lost;
/// this one is to say what is wrong with an address.
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

/// Waits for a fetch of `cid`. `step` is called now and again, to use what is here already.
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
