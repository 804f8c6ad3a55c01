//! A peer made by hand, for any host that speaks Bitswap: it is told on its standard input what to say, a command a
//! line, and answers on its standard output, a JSON object a line. What it is asked itself it answers when it was told
//! what to give.
//!
//! ```text
//! cargo run --release -p watchfire-p2p --example raw_peer -- ADDRESS [1.2.0|1.1.0|1.0.0]
//! want block|block?|have|have? CID...  in one message; with a question mark it is not to be told what is lacking
//! cancel CID...                        in one message
//! hear CID                             all that it is told, until something answers for this block
//! count N                              all that it is told, until that is so many presences and blocks
//! give PATH CHUNK_BYTES MILLIS         from now on give the blocks of this file, each after a pause; their root
//! overlong                             announce a message that is too long on another stream, which must end
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

#[path = "../tests/raw_peers/raw.rs"]
mod raw;

use raw::{Heard, Raw, cancel, want, within};

type Anyhow<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Anyhow<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("an address is needed")?.parse()?;
    let protocols = match arguments.next().as_deref() {
        None | Some("1.2.0") => &["/ipfs/bitswap/1.2.0"],
        Some("1.1.0") => &["/ipfs/bitswap/1.1.0"],
        Some("1.0.0") => &["/ipfs/bitswap/1.0.0"],
        Some(version) => return Err(format!("nobody speaks Bitswap {version}").into()),
    };
    let mut peer = Raw::dial(address, protocols).await;
    say(&json!({}))?;
    let mut gift = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let line = match &gift {
            None => lines.next_line().await?,
            Some(gift) => tokio::select! {
                line = lines.next_line() => line?,
                Some(message) = peer.heard.recv() => {
                    give(&mut peer, gift, message).await;
                    continue;
                }
            },
        };
        let Some(line) = line else { return Ok(()) };
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match *words {
            ["give", path, chunk_bytes, millis] => Gift::of(path, chunk_bytes, millis)
                .map(|given| json!({ "cid": gift.insert(given).root.to_string() })),
            _ => obey(&mut peer, &words).await,
        };
        say(&answer.unwrap_or_else(|error| json!({ "error": error.to_string() })))?;
    }
}

/// The blocks of a file, of which each is given after a pause.
struct Gift {
    root: Cid,
    blocks: Vec<Block>,
    pause: Duration,
}

impl Gift {
    fn of(path: &str, chunk_bytes: &str, millis: &str) -> Anyhow<Gift> {
        let profile = Profile { chunk_bytes: chunk_bytes.parse()?, ..Profile::UNIXFS_V1_2025 };
        let mut blocks = Vec::new();
        let mut keep = |block| {
            blocks.push(block);
            Ok::<_, Infallible>(())
        };
        let mut builder = FileBuilder::new(profile)?;
        builder.write(&std::fs::read(path)?, &mut keep)?;
        let root = builder.finish(&mut keep)?.cid;
        Ok(Gift { root, blocks, pause: Duration::from_millis(millis.parse()?) })
    }
}

async fn give(peer: &mut Raw, gift: &Gift, message: Message) {
    for want in message.wants.into_iter().filter(|want| !want.cancel) {
        let found = gift.blocks.iter().find(|block| *block.cid() == want.cid);
        let answer = match (want.kind, found) {
            (WantKind::Block, Some(block)) => {
                tokio::time::sleep(gift.pause).await;
                Message { blocks: vec![block.clone()], ..Message::default() }
            }
            (WantKind::Block, None) | (WantKind::Have, _) => {
                let presence = Presence { cid: want.cid, is_here: found.is_some() };
                Message { presences: vec![presence], ..Message::default() }
            }
        };
        peer.say(&answer).await;
    }
}

async fn obey(peer: &mut Raw, words: &[&str]) -> Anyhow<Value> {
    match *words {
        ["want", kind, ref cids @ ..] => {
            let (kind, send_dont_have) = match kind {
                "block" => (WantKind::Block, true),
                "block?" => (WantKind::Block, false),
                "have" => (WantKind::Have, true),
                "have?" => (WantKind::Have, false),
                _ => return Err("a want is block, block?, have or have?".into()),
            };
            let wants = parse(cids)?.iter().map(|cid| want(cid, kind, send_dont_have)).collect();
            peer.want(wants).await;
            Ok(json!({}))
        }
        ["cancel", ref cids @ ..] => {
            peer.want(parse(cids)?.iter().map(cancel).collect()).await;
            Ok(json!({}))
        }
        ["hear", cid] => Ok(told(&peer.hear_of(&cid.parse()?).await)),
        ["count", count] => Ok(told(&peer.hear_many(count.parse()?).await)),
        ["overlong"] => {
            let mut stream = peer.stream().await;
            let mut length = Vec::new();
            varint::encode(MESSAGE_BYTES_MAX as u64 + 1, &mut length);
            stream.write_all(&length).await?;
            stream.flush().await?;
            match within(stream.read(&mut [0; 1])).await {
                Ok(1..) => Err("something was said on it".into()),
                Ok(0) | Err(_) => Ok(json!({})),
            }
        }
        _ => Err("want, cancel, hear, count, give or overlong".into()),
    }
}

fn told(heard: &Heard) -> Value {
    let texts = |cids: &mut dyn Iterator<Item = &Cid>| -> Vec<String> {
        cids.map(ToString::to_string).collect()
    };
    json!({
        "haves": texts(&mut heard.haves.iter()),
        "dont_haves": texts(&mut heard.dont_haves.iter()),
        "blocks": texts(&mut heard.blocks.iter().map(|block| block.cid())),
        "bytes": heard.blocks.iter().map(|block| block.bytes().len()).sum::<usize>(),
    })
}

fn parse(cids: &[&str]) -> Anyhow<Vec<Cid>> {
    Ok(cids.iter().map(|cid| cid.parse()).collect::<Result<_, _>>()?)
}

fn say(value: &Value) -> Anyhow<()> {
    let mut out = stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}
