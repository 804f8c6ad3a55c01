//! Asks a machine over its HTTP API how many entries the presence of many topics has.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::system::{API_KEY, System};
use crate::message;

const TIMEOUT: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The sum of the entries of the topics `prefix0`, `prefix1` and so on; `None` while the machine
/// cannot answer.
pub fn entries(
    system: System,
    machine: SocketAddr,
    prefix: &str,
    topics: u32,
) -> Result<Option<u64>> {
    let mut stream = TcpStream::connect(machine).context("cannot connect to the HTTP API")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut sum = 0;
    for topic in 0..topics {
        match entries_of(system, &mut stream, &format!("{prefix}{topic}"))? {
            Some(entries) => sum += entries,
            None => return Ok(None),
        }
    }
    Ok(Some(sum))
}

fn entries_of(system: System, stream: &mut TcpStream, topic: &str) -> Result<Option<u64>> {
    let (name, header, pointer) = match system {
        System::Watchfire => ("topic", format!("Authorization: Bearer {API_KEY}"), "/metas"),
        System::CentrifugoNats | System::CentrifugoRedis => {
            ("channel", format!("X-API-Key: {API_KEY}"), "/result/num_clients")
        }
        System::SocketIo => bail!("{system} has no presence"),
    };
    let body = serde_json::json!({ name: topic }).to_string();
    let request = format!(
        "POST /api/presence_stats HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         {header}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut part) = (Vec::new(), [0; 4_096]);
    loop {
        let len = stream.read(&mut part).context("cannot read from the HTTP API")?;
        ensure!(len > 0, "the HTTP API closed the connection");
        answer.extend_from_slice(&part[..len]);
        ensure!(answer.len() <= ANSWER_BYTES_MAX, "the answer of the HTTP API is too long");
        let Some(message) = message::http_message(&answer) else { continue };
        let text = String::from_utf8_lossy(message.body);
        // Watchfire waits for an answer of every machine; one is gone, and this is not noticed yet.
        if message.line.contains(" 503 ") {
            return Ok(None);
        }
        ensure!(message.line.contains(" 200 "), "the HTTP API answered {}: {text}", message.line);
        let json: Value = serde_json::from_slice(message.body)?;
        let entries = json.pointer(pointer).and_then(Value::as_u64);
        return entries.map(Some).with_context(|| format!("the HTTP API answered {text}"));
    }
}
