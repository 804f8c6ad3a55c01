//! A host that is told what to do on its standard input, a command a line, and answers on its
//! standard output, a JSON object a line.
//!
//! ```text
//! cargo run --release -p watchfire-p2p --example host -- --listen /ip4/127.0.0.1/tcp/0
//! share PATH [default|raw|256|2025] import nothing, serve the file from where it lies
//! connect ADDRESS                 connect to a peer
//! disconnect PEER
//! fetch CID [PATH]                fetch all of it; with a path, write the file out as well
//! provide CID                     tell content routing
//! find CID                        ask content routing
//! stats
//! ```
//!
//! What it does is told on its standard error as far as `RUST_LOG` says, such as `watchfire_p2p=debug`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use watchfire_content::{Block, Cid, FileReader, Profile};
use watchfire_p2p::{Dht, Host, HostSettings};
use watchfire_store::{
    DiskLimits, DiskStore, ImportOptions, LockedMemoryStore, ReadBlocks, SharedFiles, Stores,
    WriteBlocks,
};

type Anyhow<T> = Result<T, Box<dyn Error>>;

/// What is kept when no folder is given.
const MEMORY_BYTES: usize = 1 << 30;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Anyhow<()> {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut settings = HostSettings::default();
    let mut keep: Arc<dyn WriteBlocks> = Arc::new(LockedMemoryStore::new(MEMORY_BYTES));
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => settings.listen.push(value.parse()?),
            "--bootstrap" => settings.bootstrap.push(value.parse()?),
            "--threads" => settings.threads = value.parse()?,
            "--dht" => settings.dht = if value == "server" { Dht::Server } else { Dht::Client },
            "--dht-protocol" => settings.dht_protocol = value,
            "--leaves" => settings.leaves = value == "on",
            "--swarm-key" => settings.swarm_key = Some(key(&value)?),
            // As if the network were that fast from the start.
            "--window" => settings.exchange.window_bytes_min = value.parse()?,
            "--folder" => {
                keep = Arc::new(DiskStore::open(Path::new(&value), DiskLimits::default())?);
            }
            _ => return Err(format!("what is {name}?").into()),
        }
    }
    let shared = Arc::new(SharedFiles::new(1 << 28));
    let stores = Stores::new(vec![shared.clone()]);
    let host = Host::start(settings, stores.clone(), keep.clone()).await?;
    say(&json!({ "peer": host.peer_id().to_string(), "addresses": addresses(&host) }))?;

    let mut all = stores;
    all.push(Arc::new(keep));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match obey(&host, &shared, &all, &words).await {
            Ok(answer) => answer,
            Err(error) => json!({ "error": error.to_string() }),
        };
        say(&answer)?;
    }
    host.stop().await;
    Ok(())
}

async fn obey(host: &Host, shared: &SharedFiles, all: &Stores, words: &[&str]) -> Anyhow<Value> {
    match *words {
        ["share", path, ref profile @ ..] => {
            let profile = match profile {
                ["default"] => Profile::KUBO_DEFAULT,
                ["raw"] => Profile::V1_1_MIB,
                ["256"] => Profile::V1_256_KIB,
                ["2025"] | [] => Profile::UNIXFS_V1_2025,
                _ => return Err("a profile is default, raw, 256 or 2025".into()),
            };
            let options = ImportOptions { profile, ..ImportOptions::default() };
            let root = shared.share(Path::new(path), &options)?.cid;
            let bytes = all.len_of(&root).ok_or("shared and not there")?;
            host.notify_block_stored(root.clone(), usize::try_from(bytes)?).await?;
            Ok(json!({ "cid": root.to_string() }))
        }
        ["connect", address] => {
            let peer = host.connect(address.parse()?).await?;
            Ok(json!({ "peer": peer.to_string() }))
        }
        ["disconnect", peer] => {
            host.disconnect(peer.parse()?).await?;
            Ok(json!({}))
        }
        ["provide", cid] => {
            host.provide(cid.parse()?).await?;
            Ok(json!({}))
        }
        ["fetch", cid, ref path @ ..] => {
            let cid: Cid = cid.parse()?;
            let fetched = host.fetch(cid.clone()).await?.finished().await?;
            if let [path] = path {
                write_out(&cid, all, Path::new(path))?;
            }
            Ok(json!({
                "fetched_bytes": fetched.progress.fetched_bytes,
                "fetched_blocks": fetched.progress.fetched_blocks,
                "present_blocks": fetched.progress.present_blocks,
                "total_bytes": fetched.progress.total_bytes,
                "peers": fetched.progress.peers,
                "seconds": fetched.took.as_secs_f64(),
            }))
        }
        ["find", cid] => {
            let found = host.find_providers(cid.parse()?).await?;
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            Ok(json!({ "providers": found }))
        }
        ["stats"] => {
            let stats = host.stats().await?;
            let numbers = BTreeMap::from([
                ("peers", stats.peers as u64),
                ("connections", stats.connections as u64),
                ("sent_bytes", stats.sent_bytes),
                ("received_bytes", stats.received_bytes),
                ("sent_block_bytes", stats.sent_block_bytes),
                ("received_block_bytes", stats.received_block_bytes),
                ("duplicate_block_bytes", stats.duplicate_block_bytes),
                ("sent_messages", stats.sent_messages),
                ("received_messages", stats.received_messages),
                ("malformed_messages", stats.malformed_messages),
                ("dropped_peers", stats.dropped_peers),
                ("trimmed_peers", stats.trimmed_peers),
                ("paused_ms", stats.paused.as_millis() as u64),
            ]);
            Ok(json!(numbers))
        }
        _ => Err("share, connect, disconnect, fetch, provide, find or stats".into()),
    }
}

/// The file that a root is, from blocks that are here.
fn write_out(root: &Cid, all: &Stores, path: &Path) -> Anyhow<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut reader = FileReader::new(root.clone(), u64::MAX);
    while let Some(cid) = reader.next() {
        let block = match Block::implied_by(cid) {
            Some(block) => block,
            None => all.get(cid)?.ok_or_else(|| format!("{cid} is missing"))?,
        };
        out.write_all(&reader.take(&block)?)?;
    }
    Ok(out.flush()?)
}

fn key(hex: &str) -> Anyhow<[u8; 32]> {
    let mut key = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return Err("a swarm key is 64 hexadecimal digits".into());
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16)?;
    }
    Ok(key)
}

fn addresses(host: &Host) -> Vec<String> {
    host.addresses().iter().map(ToString::to_string).collect()
}

fn say(value: &Value) -> Anyhow<()> {
    let mut out = stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}
