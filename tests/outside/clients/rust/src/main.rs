//! The crate phoenix_channels_client against the server at the port of the first argument.

use std::io::BufRead as _;
use std::sync::Arc;
use std::time::Duration;

use phoenix_channels_client::{Channel, Client, Config, Payload};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

const TOPIC: &str = "realtime:room";
const WAIT: Duration = Duration::from_secs(15);
/// Long enough for a message on loopback that should not come.
const SILENCE: Duration = Duration::from_secs(1);

type AnyError = Box<dyn std::error::Error>;

/// A message of the server's side.
fn publish(n: u64) -> Result<(), AnyError> {
    println!(
        "{}",
        json!({ "ask": "publish", "topic": TOPIC, "event": "shout", "payload": { "n": n } })
    );
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

fn show(name: &str, result: Result<bool, AnyError>) {
    let found = match &result {
        Ok(is_passed) => format!("got {is_passed}"),
        Err(error) => error.to_string(),
    };
    println!(
        "{}",
        json!({ "name": name, "isPassed": result.is_ok_and(|passed| passed), "found": found })
    );
}

/// A client of its own that has joined the topic, and the numbers that it hears.
struct Member {
    client: Client,
    channel: Arc<Channel>,
    heard: UnboundedReceiver<u64>,
}

async fn join(port: &str) -> Result<Member, AnyError> {
    let url = format!("ws://127.0.0.1:{port}/socket/websocket");
    let mut client = Client::new(Config::new(url.as_str())?)?;
    client.connect().await?;
    let channel = client.join(TOPIC, Some(WAIT)).await?;
    let (sender, heard) = unbounded_channel();
    let hear = move |_, payload: &Payload| {
        if let Payload::Value(value) = payload {
            // The receiver ends with the program.
            let _ = sender.send(value["n"].as_u64().unwrap_or_default());
        }
    };
    channel.on("shout", hear).await?;
    Ok(Member { client, channel, heard })
}

async fn hears(member: &mut Member, n: u64) -> Result<bool, AnyError> {
    Ok(timeout(WAIT, member.heard.recv()).await? == Some(n))
}

async fn published(member: &mut Member) -> Result<bool, AnyError> {
    publish(1)?;
    hears(member, 1).await
}

async fn pushed(from: &Member, to: &mut Member) -> Result<bool, AnyError> {
    from.channel.send_noreply("shout", json!({ "n": 2 })).await?;
    hears(to, 2).await
}

async fn acknowledged(member: &Member) -> Result<bool, AnyError> {
    member.channel.send_with_timeout("other", json!({}), Some(WAIT)).await?;
    Ok(true)
}

async fn refused(member: &Member) -> Result<bool, AnyError> {
    let error = member.client.join("no-such-topic", Some(WAIT)).await.err();
    Ok(error.is_some_and(|error| error.to_string().contains("reason")))
}

async fn left(leaver: &mut Member, other: &mut Member) -> Result<bool, AnyError> {
    while leaver.heard.try_recv().is_ok() {}
    leaver.channel.leave().await;
    // The reply to a join comes after that to the leave: the server reads the messages in order.
    leaver.client.join("realtime:other", Some(WAIT)).await?;
    publish(3)?;
    let is_heard = hears(other, 3).await?;
    // The channel may have dropped the function that hears, which ends the queue.
    Ok(is_heard && !matches!(timeout(SILENCE, leaver.heard.recv()).await, Ok(Some(_))))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let port = std::env::args().nth(1).ok_or("give the port of a server")?;
    let (mut ada, mut ben) = (join(&port).await?, join(&port).await?);
    show("a join is acknowledged", Ok(ada.channel.is_joined() && ben.channel.is_joined()));
    show("a message of the server's side reaches a client", published(&mut ada).await);
    ben.heard.recv().await;
    show("a push reaches another client", pushed(&ada, &mut ben).await);
    show("a push is acknowledged", acknowledged(&ada).await);
    show("a join of an unknown topic is refused", refused(&ada).await);
    show("a client leaves", left(&mut ada, &mut ben).await);
    Ok(())
}
