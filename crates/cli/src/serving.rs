//! Common code of `share` and `hold`: print links, and serve content until a signal arrives.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire_content::Cid;
use watchfire_p2p::{AddressPart, Host, HostStats, Multiaddr, RoutingError, Stopped};
use watchfire_store::{UnsharedFile, names};

use crate::link::Link;
use crate::progress::{ProgressLine, Step};
use crate::signals::Signals;
use watchfire_report::units::binary_bytes;

/// The default listen address: all interfaces, any free port.
pub const LISTEN: &[&str] = &["/ip4/0.0.0.0/tcp/0"];

/// Interval of reports of the sent bytes, and of checks of shared files.
const TICK: Duration = Duration::from_secs(1);

/// Prints one event as a line of JSON.
pub fn emit(event: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{event}")?;
    out.flush()
}

/// The addresses that other machines can reach; loopback addresses only if there are no others.
pub fn reachable(addresses: Vec<Multiaddr>) -> Vec<Multiaddr> {
    let is_local = |address: &Multiaddr| {
        address.iter().any(|part| match part {
            AddressPart::Ip4(ip) => ip.is_loopback(),
            AddressPart::Ip6(ip) => ip.is_loopback(),
            _ => false,
        })
    };
    let (local, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_local);
    if others.is_empty() { local } else { others }
}

/// The link to content that `host` serves.
pub fn link_to(host: &Host, cid: &Cid, name: Option<String>) -> Link {
    Link {
        cid: cid.clone(),
        path: String::new(),
        name,
        peers: reachable(host.addresses()),
        server: None,
        at: Vec::new(),
        key: None,
    }
}

/// Announces the roots to content routing in the background. A failure is printed, and serving
/// continues.
pub fn provide(host: &Arc<Host>, roots: Vec<Cid>) {
    for root in roots {
        let host = Arc::clone(host);
        tokio::spawn(async move {
            match host.provide(root.clone()).await {
                Ok(()) | Err(RoutingError::Stopped(_)) => {}
                Err(error) => eprintln!("watchfire: {root}: {error}"),
            }
        });
    }
}

/// Reports files that have changed.
pub fn report_unshared(files: Vec<UnsharedFile>, is_json: bool) -> io::Result<()> {
    for unshared in files {
        let path = unshared.path.display().to_string();
        let shown = names::shown(&path);
        eprintln!("watchfire: {shown} is no longer shared: {}", unshared.change);
        if is_json {
            emit(&json!({ "event": "withdrawn", "path": path }))?;
        }
    }
    Ok(())
}

/// The name of a file or directory; that of its place for a path such as `.`.
pub fn name_of(path: &Path) -> Option<String> {
    let named = match path.file_name() {
        Some(_) => path.to_owned(),
        None => path.canonicalize().ok()?,
    };
    named.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Serves until a signal arrives, and returns its exit code. `people` counts those who have the
/// content open in browsers. `check` is called every second; an error from it ends serving. The
/// step that it returns is shown instead of the sent bytes.
pub async fn serve(
    host: &Host,
    signals: &mut Signals,
    is_json: bool,
    people: impl Fn() -> u64,
    mut check: impl FnMut() -> anyhow::Result<Option<Step>>,
) -> anyhow::Result<u8> {
    let mut line = ProgressLine::start(is_json);
    let mut every = tokio::time::interval(TICK);
    let mut reported = (0, 0);
    let mut sent_before = 0;
    let code = loop {
        tokio::select! {
            code = signals.next() => break code,
            _ = every.tick() => {}
        }
        let step = check()?;
        let HostStats { peers, sent_block_bytes, .. } = host.stats().await?;
        if is_json && reported != (peers, sent_block_bytes) {
            reported = (peers, sent_block_bytes);
            emit(&json!({ "event": "serving", "peers": peers, "sent_bytes": sent_block_bytes }))?;
        }
        let per_second = (sent_block_bytes - sent_before) as f64 / TICK.as_secs_f64();
        sent_before = sent_block_bytes;
        line.show(&step.unwrap_or_else(|| Step {
            bytes: sent_block_bytes,
            bytes_per_second: Some(per_second),
            note: format!("sent, {}", readers(people(), peers)),
            ..Step::default()
        }));
    };
    line.clear();
    let HostStats { sent_block_bytes, .. } = host.stats().await?;
    let exchange = exchange(host).await?;
    host.stop().await;
    if is_json {
        emit(&json!({
            "event": "stopped",
            "sent_bytes": sent_block_bytes,
            "exchange": exchange,
        }))?;
    } else {
        println!("{} sent. No longer shared.", binary_bytes(sent_block_bytes));
    }
    Ok(code)
}

/// The totals of a host: its messages with their bytes, and the content that it exchanged with each peer
/// that is still connected.
pub async fn exchange(host: &Host) -> Result<Value, Stopped> {
    let stats = host.stats().await?;
    let with = host.peers().await?.into_iter().map(|peer| {
        json!({
            "peer": peer.peer.to_string(),
            "sent_bytes": peer.sent_block_bytes,
            "received_bytes": peer.received_block_bytes,
        })
    });
    Ok(json!({
        "peer": host.peer_id().to_string(),
        "sent_bytes": stats.sent_bytes,
        "received_bytes": stats.received_bytes,
        "received_messages": stats.received_messages,
        "duplicate_bytes": stats.duplicate_block_bytes,
        "with": with.collect::<Value>(),
    }))
}

/// `2 people are reading`, or without people the number of peers.
fn readers(people: u64, peers: usize) -> String {
    match people {
        0 => peers_of(peers),
        1 => "1 person is reading".to_owned(),
        _ => format!("{people} people are reading"),
    }
}

/// `1 peer`, `3 peers`.
pub fn peers_of(count: usize) -> String {
    if count == 1 { "1 peer".to_owned() } else { format!("{count} peers") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_named_before_peers() {
        let all = [(0, 3), (1, 1), (2, 0)].map(|(people, peers)| readers(people, peers));
        assert_eq!(all, ["3 peers", "1 person is reading", "2 people are reading"]);
    }

    #[test]
    fn a_loopback_address_is_shown_only_when_there_are_no_others() {
        let address = |text: &str| text.parse::<Multiaddr>().unwrap();
        let local = ["/ip4/127.0.0.1/tcp/1", "/ip6/::1/tcp/1"].map(address).to_vec();
        let other = address("/ip4/192.0.2.7/tcp/1");
        assert_eq!(reachable(local.clone()), local);
        assert_eq!(reachable([local, vec![other.clone()]].concat()), [other]);
    }
}
