//! A host that reads commands from standard input, one per line, and writes replies to standard
//! output, one JSON object per line.
//!
//! ```text
//! cargo run --release -p watchfire-p2p --example host -- --listen /ip4/127.0.0.1/tcp/0
//! share PATH [default|raw|256|2025] serve the file from its place, without a copy
//! connect ADDRESS                 connect to a peer
//! disconnect PEER
//! fetch CID [PATH]                fetch the DAG; with a path, also write the file there
//! provide CID                     announce through content routing
//! find CID                        find providers through content routing
//! stats
//! ```
//!
//! It logs to standard error. `RUST_LOG` sets the level, such as `watchfire_p2p=debug`.

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

/// The size of the memory store, which is used without `--folder`.
const MEMORY_BYTES: usize = 1 << 30;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Anyhow<()> {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut settings = HostSettings::default();
    let mut store: Arc<dyn WriteBlocks> = Arc::new(LockedMemoryStore::new(MEMORY_BYTES));
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
            "--swarm-key" => settings.swarm_key = Some(parse_swarm_key(&value)?),
            "--window" => settings.exchange.window_bytes_min = value.parse()?,
            "--folder" => {
                store = Arc::new(DiskStore::open(Path::new(&value), DiskLimits::default())?);
            }
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let shared = Arc::new(SharedFiles::new(1 << 28));
    let stores = Stores::new(vec![shared.clone()]);
    let host = Host::start(settings, stores.clone(), store.clone()).await?;
    write_reply(&json!({ "peer": host.peer_id().to_string(), "addresses": addresses(&host) }))?;

    let mut all = stores;
    all.push(Arc::new(store));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = match run_command(&host, &shared, &all, &words).await {
            Ok(reply) => reply,
            Err(error) => json!({ "error": error.to_string() }),
        };
        write_reply(&reply)?;
    }
    host.stop().await;
    Ok(())
}

async fn run_command(
    host: &Host,
    shared: &SharedFiles,
    all: &Stores,
    words: &[&str],
) -> Anyhow<Value> {
    match *words {
        ["share", path, ref profile @ ..] => {
            let profile = match profile {
                ["default"] => Profile::KUBO_DEFAULT,
                ["raw"] => Profile::V1_1_MIB,
                ["256"] => Profile::V1_256_KIB,
                ["2025"] | [] => Profile::UNIXFS_V1_2025,
                _ => return Err("unknown profile: use default, raw, 256 or 2025".into()),
            };
            let options = ImportOptions { profile, ..ImportOptions::default() };
            let root = shared.share(Path::new(path), &options)?.cid;
            let bytes = all.len_of(&root).ok_or("the shared file is not in the store")?;
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
                write_file(&cid, all, Path::new(path))?;
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
        _ => {
            Err("unknown command: use share, connect, disconnect, fetch, provide, find or stats"
                .into())
        }
    }
}

fn write_file(root: &Cid, all: &Stores, path: &Path) -> Anyhow<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut reader = FileReader::new(root.clone(), u64::MAX);
    while let Some(cid) = reader.next() {
        let block = match Block::from_cid(cid) {
            Some(block) => block,
            None => all.get(cid)?.ok_or_else(|| format!("{cid} is missing"))?,
        };
        out.write_all(&reader.take(&block)?)?;
    }
    Ok(out.flush()?)
}

fn parse_swarm_key(hex: &str) -> Anyhow<[u8; 32]> {
    let mut key = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return Err("invalid swarm key: use 64 hexadecimal digits".into());
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16)?;
    }
    Ok(key)
}

fn addresses(host: &Host) -> Vec<String> {
    host.addresses().iter().map(ToString::to_string).collect()
}

fn write_reply(value: &Value) -> Anyhow<()> {
    let mut out = stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}
