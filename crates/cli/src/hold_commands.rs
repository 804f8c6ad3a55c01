//! `watchfire hold --commands`: another program says what is held, one command per line.
//!
//! | command | effect | event when done |
//! |---|---|---|
//! | `add PATH` | stores a file or a folder, and holds it | `added`, with `path` and `cid` |
//! | `hold LINK` | fetches content, and holds it | `progress`, then `held`, with `cid` |
//! | `release CID` | stops fetching and holding content | `released` |
//! | `peer MULTIADDR` | dials a peer | `connected`, with `address` |
//! | `totals` | | `totals`, as in the last event `stopped` |
//!
//! The first event is `started`, with the addresses of the host. A command that fails has the event `failed`
//! with its text and the reason, and the next commands are still read. The end of the input ends the program.
//!
//! Commands run beside each other, at most [`COMMANDS_MAX`] at a time; further lines wait in the input.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{AbortHandle, JoinSet};
use watchfire_content::Cid;
use watchfire_p2p::{Host, Multiaddr, Progress};
use watchfire_store::{DiskStore, ImportOptions, WriteBlocks as _, import};

use crate::fetching::release_if_full;
use crate::link::Link;
use crate::live_pages::refuse_to_hold;
use crate::serving::{emit, exchange};
use crate::signals::Signals;

/// Most commands that run at the same time.
const COMMANDS_MAX: usize = 64;
/// Longest command in bytes, the end of the line included.
const COMMAND_BYTES_MAX: usize = 64 << 10;
/// Interval of progress reports.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq)]
enum Command {
    Add(PathBuf),
    Hold(Box<Link>),
    Release(Cid),
    Peer(Multiaddr),
    Totals,
}

impl std::str::FromStr for Command {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let (verb, object) = line.split_once(' ').unwrap_or((line, ""));
        Ok(match (verb, object) {
            ("totals", "") => Command::Totals,
            (_, "") | ("totals", _) => anyhow::bail!("invalid command {line:.80?}"),
            ("add", path) => Command::Add(path.into()),
            ("hold", link) => Command::Hold(Box::new(link.parse()?)),
            ("release", cid) => Command::Release(cid.parse::<Link>()?.cid),
            ("peer", address) => Command::Peer(address.parse()?),
            _ => anyhow::bail!(
                "unknown command {verb:.80?}; known: add, hold, release, peer, totals"
            ),
        })
    }
}

/// Obeys the commands of the standard input until it ends or a signal arrives.
pub async fn obey(
    host: &Arc<Host>,
    store: &Arc<DiskStore>,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    let addresses: Vec<String> = host.addresses().iter().map(ToString::to_string).collect();
    let peer = host.peer_id().to_string();
    emit(&json!({ "event": "started", "peer": peer, "addresses": addresses }))?;
    let mut lines = read_lines()?;
    let mut running = JoinSet::new();
    let mut fetches: HashMap<Cid, AbortHandle> = HashMap::new();
    loop {
        let has_room = running.len() < COMMANDS_MAX;
        tokio::select! {
            _ = signals.next() => break,
            Some(done) = running.join_next() => match done {
                Ok(emitted) => emitted?,
                Err(error) if error.is_cancelled() => {}
                Err(error) => return Err(error.into()),
            },
            line = lines.recv(), if has_room => {
                let Some(line) = line else { break };
                let (line, command) = match line {
                    Ok(line) => (line.clone(), line.parse()),
                    Err(error) => (String::new(), Err(error.into())),
                };
                let fetched = match &command {
                    Ok(Command::Hold(link)) => Some(link.cid.clone()),
                    Ok(Command::Release(cid)) => {
                        fetches.remove(cid).inspect(AbortHandle::abort);
                        None
                    }
                    _ => None,
                };
                let (host, store) = (Arc::clone(host), Arc::clone(store));
                let task = running.spawn(async move { emit(&answer(&host, &store, line, command).await) });
                fetches.retain(|_, fetch| !fetch.is_finished());
                fetches.extend(fetched.map(|cid| (cid, task)));
            }
        }
    }
    running.shutdown().await;
    let totals = totals(host, "stopped").await?;
    host.stop().await;
    store.sync()?;
    emit(&totals)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a command, and returns its event.
async fn answer(
    host: &Arc<Host>,
    store: &Arc<DiskStore>,
    line: String,
    command: anyhow::Result<Command>,
) -> Value {
    let done = match command {
        Ok(command) => run(host, store, command).await,
        Err(error) => Err(error),
    };
    done.unwrap_or_else(
        |error| json!({ "event": "failed", "command": line, "error": format!("{error:#}") }),
    )
}

async fn run(host: &Arc<Host>, store: &Arc<DiskStore>, command: Command) -> anyhow::Result<Value> {
    match command {
        Command::Add(path) => {
            let store = Arc::clone(store);
            let adding = path.clone();
            let cid = tokio::task::spawn_blocking(move || add(&store, &adding)).await??;
            Ok(json!({ "event": "added", "path": path, "cid": cid.to_string() }))
        }
        Command::Hold(link) => {
            store.pin(&link.cid)?;
            for peer in link.peers.clone() {
                host.connect(peer).await?;
            }
            fetch(host, &link.cid)
                .await
                .inspect_err(|error| release_if_full(store, &link.cid, error))?;
            refuse_to_hold(store, &link.cid)?;
            Ok(json!({ "event": "held", "cid": link.cid.to_string() }))
        }
        Command::Release(cid) => {
            let was_held = store.unpin(&cid)?;
            Ok(json!({ "event": "released", "cid": cid.to_string(), "was_held": was_held }))
        }
        Command::Peer(address) => {
            host.connect(address.clone()).await?;
            Ok(json!({ "event": "connected", "address": address.to_string() }))
        }
        Command::Totals => Ok(totals(host, "totals").await?),
    }
}

/// Stores a file or a folder. It is pinned when all of it is stored.
fn add(store: &DiskStore, path: &Path) -> anyhow::Result<Cid> {
    let root = import(path, &ImportOptions::default(), &mut |imported| store.put(imported.block))?;
    store.pin(&root.cid)?;
    Ok(root.cid)
}

/// Fetches content, and reports its progress: the first bytes when they arrive, then each second.
async fn fetch(host: &Host, cid: &Cid) -> anyhow::Result<()> {
    let mut fetch = host.fetch(cid.clone()).await?;
    let mut every = tokio::time::interval(TICK);
    let (mut now, mut reported) = (Progress::default(), 0);
    loop {
        let is_due = tokio::select! {
            progress = fetch.next() => match progress {
                Some(progress) => {
                    now = progress;
                    reported == 0
                }
                None => break,
            },
            _ = every.tick() => true,
        };
        if is_due && now.bytes() > reported {
            reported = now.bytes();
            let cid = cid.to_string();
            emit(&json!({ "event": "progress", "cid": cid, "bytes": reported }))?;
        }
    }
    fetch.finished().await.with_context(|| cid.to_string())?;
    Ok(())
}

async fn totals(host: &Host, event: &str) -> anyhow::Result<Value> {
    let sent = host.stats().await?.sent_block_bytes;
    Ok(json!({ "event": event, "sent_bytes": sent, "exchange": exchange(host).await? }))
}

/// The lines of the standard input. A thread reads them, because a read of it cannot be cancelled.
fn read_lines() -> io::Result<Receiver<io::Result<String>>> {
    let (sender, receiver) = channel(1);
    std::thread::Builder::new().name("commands".to_owned()).spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = String::new();
            let read = input.by_ref().take(COMMAND_BYTES_MAX as u64).read_line(&mut line);
            let (line, is_last) = match read {
                Ok(0) => return,
                Ok(_) if line.len() == COMMAND_BYTES_MAX => {
                    let problem = format!("a command is longer than {COMMAND_BYTES_MAX} bytes");
                    (Err(io::Error::new(io::ErrorKind::InvalidData, problem)), true)
                }
                Ok(_) if line.trim().is_empty() => continue,
                Ok(_) => (Ok(line.trim_end_matches(['\r', '\n']).to_owned()), false),
                Err(error) => (Err(error), true),
            };
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_says_why_not() {
        let parse = |line: &str| line.parse::<Command>();
        assert_eq!(parse("totals").unwrap(), Command::Totals);
        assert_eq!(parse("add /a b/c").unwrap(), Command::Add("/a b/c".into()));
        assert_eq!(
            parse("peer /ip4/127.0.0.1/tcp/1").unwrap(),
            Command::Peer("/ip4/127.0.0.1/tcp/1".parse().unwrap())
        );
        for (line, problem) in [
            ("add", "invalid command"),
            ("totals now", "invalid command"),
            ("drop x", "known: add"),
            ("hold x", "invalid"),
            ("peer x", ""),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(problem), "{line}: {error}");
        }
    }
}
