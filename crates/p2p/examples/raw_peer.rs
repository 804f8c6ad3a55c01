//! A Bitswap peer that sends exactly the commanded messages, to test any host. It reads commands
//! from standard input, one per line, and writes replies to standard output, one JSON object per
//! line.
//!
//! ```text
//! cargo run --release -p watchfire-p2p --example raw_peer -- ADDRESS [1.2.0|1.1.0|1.0.0]
//! want block|block?|have|have? CID...  send wants in one message; `?` requests no DONT_HAVE
//! cancel CID...                        send cancels in one message
//! receive-until CID                    receive until a presence or a block of this CID
//! receive-count N                      receive until N presences and blocks
//! serve PATH CHUNK_BYTES MILLIS        serve the blocks of this file, each after a pause
//! send-oversized                       start an oversized message on a new stream, which must end
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::io::{Write, stdout};
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use watchfire_bitswap::message::MESSAGE_BYTES_MAX;
use watchfire_bitswap::{Message, Presence, WantKind};
use watchfire_content::{Block, Cid, FileBuilder, Profile, varint};

#[path = "../tests/all/raw_peers/raw.rs"]
mod raw;

use raw::{RawPeer, Received, cancel, want, within};

type Anyhow<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Anyhow<()> {
    let mut arguments = std::env::args().skip(1);
    let address =
        arguments.next().ok_or("missing address: pass the multiaddress of the host")?.parse()?;
    let protocols = match arguments.next().as_deref() {
        None | Some("1.2.0") => &["/ipfs/bitswap/1.2.0"],
        Some("1.1.0") => &["/ipfs/bitswap/1.1.0"],
        Some("1.0.0") => &["/ipfs/bitswap/1.0.0"],
        Some(version) => {
            return Err(format!("unknown version {version}: use 1.2.0, 1.1.0 or 1.0.0").into());
        }
    };
    let mut peer = RawPeer::dial(address, protocols).await;
    write_reply(&json!({}))?;
    let mut served_file = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let line = match &served_file {
            None => lines.next_line().await?,
            Some(file) => tokio::select! {
                line = lines.next_line() => line?,
                Some(message) = peer.received.recv() => {
                    serve(&mut peer, file, message).await;
                    continue;
                }
            },
        };
        let Some(line) = line else { return Ok(()) };
        let words: Vec<&str> = line.split(' ').collect();
        let reply = match *words {
            ["serve", path, chunk_bytes, millis] => ServedFile::read(path, chunk_bytes, millis)
                .map(|file| json!({ "cid": served_file.insert(file).root.to_string() })),
            _ => run_command(&mut peer, &words).await,
        };
        write_reply(&reply.unwrap_or_else(|error| json!({ "error": error.to_string() })))?;
    }
}

/// The blocks of a file, each of which is sent after a pause.
struct ServedFile {
    root: Cid,
    blocks: Vec<Block>,
    pause: Duration,
}

impl ServedFile {
    fn read(path: &str, chunk_bytes: &str, millis: &str) -> Anyhow<ServedFile> {
        let profile = Profile { chunk_bytes: chunk_bytes.parse()?, ..Profile::UNIXFS_V1_2025 };
        let mut blocks = Vec::new();
        let mut push = |block| {
            blocks.push(block);
            Ok::<_, Infallible>(())
        };
        let mut builder = FileBuilder::new(profile)?;
        builder.write(&std::fs::read(path)?, &mut push)?;
        let root = builder.finish(&mut push)?.cid;
        Ok(ServedFile { root, blocks, pause: Duration::from_millis(millis.parse()?) })
    }
}

async fn serve(peer: &mut RawPeer, file: &ServedFile, message: Message) {
    for want in message.wants.into_iter().filter(|want| !want.cancel) {
        let found = file.blocks.iter().find(|block| *block.cid() == want.cid);
        let reply = match (want.kind, found) {
            (WantKind::Block, Some(block)) => {
                tokio::time::sleep(file.pause).await;
                Message { blocks: vec![block.clone()], ..Message::default() }
            }
            (WantKind::Block, None) | (WantKind::Have, _) => {
                let presence = Presence { cid: want.cid, has_block: found.is_some() };
                Message { presences: vec![presence], ..Message::default() }
            }
        };
        peer.send(&reply).await;
    }
}

async fn run_command(peer: &mut RawPeer, words: &[&str]) -> Anyhow<Value> {
    match *words {
        ["want", kind, ref cids @ ..] => {
            let (kind, send_dont_have) = match kind {
                "block" => (WantKind::Block, true),
                "block?" => (WantKind::Block, false),
                "have" => (WantKind::Have, true),
                "have?" => (WantKind::Have, false),
                _ => return Err("unknown want: use block, block?, have or have?".into()),
            };
            let wants = parse(cids)?.iter().map(|cid| want(cid, kind, send_dont_have)).collect();
            peer.want(wants).await;
            Ok(json!({}))
        }
        ["cancel", ref cids @ ..] => {
            peer.want(parse(cids)?.iter().map(cancel).collect()).await;
            Ok(json!({}))
        }
        ["receive-until", cid] => Ok(received_json(&peer.receive_until(&cid.parse()?).await)),
        ["receive-count", count] => Ok(received_json(&peer.receive_count(count.parse()?).await)),
        ["send-oversized"] => {
            let mut stream = peer.stream().await;
            let mut length = Vec::new();
            varint::encode(MESSAGE_BYTES_MAX as u64 + 1, &mut length);
            stream.write_all(&length).await?;
            stream.flush().await?;
            match within(stream.read(&mut [0; 1])).await {
                Ok(1..) => Err("the host sent data on the stream".into()),
                Ok(0) | Err(_) => Ok(json!({})),
            }
        }
        _ => Err("unknown command: use want, cancel, receive-until, receive-count, serve or send-oversized".into()),
    }
}

fn received_json(received: &Received) -> Value {
    let texts = |cids: &mut dyn Iterator<Item = &Cid>| -> Vec<String> {
        cids.map(ToString::to_string).collect()
    };
    json!({
        "haves": texts(&mut received.haves.iter()),
        "dont_haves": texts(&mut received.dont_haves.iter()),
        "blocks": texts(&mut received.blocks.iter().map(|block| block.cid())),
        "bytes": received.blocks.iter().map(|block| block.bytes().len()).sum::<usize>(),
    })
}

fn parse(cids: &[&str]) -> Anyhow<Vec<Cid>> {
    Ok(cids.iter().map(|cid| cid.parse()).collect::<Result<_, _>>()?)
}

fn write_reply(value: &Value) -> Anyhow<()> {
    let mut out = stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}
