//! `watchfire publish`: an event to the subscribers of a topic, through the HTTP API of a server.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watchfire_page_client::ServerUrl;

/// Bytes that are read of an answer. An error is far shorter.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The largest payload. Servers accept less by default.
const PAYLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The variable with the key. The server reads the same one.
const KEY_VARIABLE: &str = "WATCHFIRE_API_KEY";

/// Arguments of `watchfire publish`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The topic, such as rooms:lobby.
    #[arg(value_name = "TOPIC")]
    topic: String,
    /// The event, such as new_msg.
    #[arg(value_name = "EVENT")]
    event: String,
    /// The payload, a JSON object; `-` reads it from the standard input.
    #[arg(value_name = "JSON", required_unless_present = "binary", conflicts_with = "binary")]
    json: Option<String>,
    /// Send the bytes of this file as a binary payload; `-` is the standard input.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://localhost:4000")]
    url: ServerUrl,
    /// A file with the key of the API. Without it, the key is in the variable WATCHFIRE_API_KEY.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Names this message. A repeat with the same name within five minutes publishes nothing.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// How long to wait for the answer.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    timeout: humantime::Duration,
}

/// The call for the server.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
}

/// Publish the event, and fail unless the server accepts it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let key = key(arguments.key_file.as_deref(), std::env::var(KEY_VARIABLE).ok())?;
    if let Some(name) = &arguments.idempotency_key
        && !is_visible(name)
    {
        bail!("cannot use the idempotency key {name:?}: it needs visible ASCII characters only");
    }
    let call = call(arguments)?;
    let head = head(&arguments.url, &call, &key, arguments.idempotency_key.as_deref());
    let timeout = Duration::from(arguments.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exchange = exchange(&arguments.url, &head, &call.body);
    let answer = runtime
        .block_on(async { tokio::time::timeout(timeout, exchange).await })
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")))
        .with_context(|| format!("cannot reach {}", arguments.url))?;
    check(&arguments.url, &arguments.topic, &answer)
}

/// The key of the API, from its file or else from the environment.
fn key(file: Option<&Path>, variable: Option<String>) -> anyhow::Result<String> {
    let (key, from) = match file {
        Some(path) => {
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read the key file {}", path.display()))?;
            (text, path.display().to_string())
        }
        None => match variable.filter(|key| !key.is_empty()) {
            Some(key) => (key, KEY_VARIABLE.to_owned()),
            None => bail!(
                "cannot publish without a key of the API: set {KEY_VARIABLE}, or name a file with --key-file"
            ),
        },
    };
    let key = key.trim();
    if key.is_empty() || !is_visible(key) {
        bail!("cannot use the key in {from}: a key has visible ASCII characters only, on one line");
    }
    Ok(key.to_owned())
}

/// Whether a text can stand in a header.
fn is_visible(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn call(arguments: &Arguments) -> anyhow::Result<Call> {
    let Arguments { topic, event, .. } = arguments;
    if let Some(file) = &arguments.binary {
        let escaped = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let path = format!("/api/publish?topic={}&event={}", escaped(topic), escaped(event));
        return Ok(Call { path, content_type: "application/octet-stream", body: read(file)? });
    }
    let json = match arguments.json.as_deref() {
        Some("-") => String::from_utf8(read(Path::new("-"))?)
            .context("cannot read the payload: the standard input is not UTF-8")?,
        json => json.unwrap_or_default().to_owned(),
    };
    let payload: &RawValue = serde_json::from_str(&json)
        .with_context(|| format!("cannot read the payload {:?} as JSON", shortened(&json)))?;
    if !payload.get().starts_with('{') {
        bail!(
            "cannot publish {:?}: the payload must be a JSON object, such as {{\"n\":1}}",
            shortened(&json)
        );
    }
    let body = format!(
        r#"{{"topic":{},"event":{},"payload":{payload}}}"#,
        Value::from(&**topic),
        Value::from(&**event)
    );
    let path = "/api/publish".to_owned();
    Ok(Call { path, content_type: "application/json", body: body.into_bytes() })
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The bytes of a file, or of the standard input.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut read = |source: &mut dyn Read| {
        source.take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes).map(drop)
    };
    match file.as_os_str() == "-" {
        true => read(&mut io::stdin().lock()),
        false => fs::File::open(file).and_then(|mut file| read(&mut file)),
    }
    .with_context(|| format!("cannot read the payload from {}", file.display()))?;
    if bytes.len() as u64 > PAYLOAD_BYTES_MAX {
        bail!("cannot publish {}: it has more than {PAYLOAD_BYTES_MAX} bytes", file.display());
    }
    Ok(bytes)
}

fn head(server: &ServerUrl, call: &Call, key: &str, idempotency_key: Option<&str>) -> String {
    let Call { path, content_type, body } = call;
    let idempotency = idempotency_key.map(|name| format!("Idempotency-Key: {name}\r\n"));
    format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
        server.authority(),
        body.len(),
        idempotency.unwrap_or_default(),
    )
}

async fn exchange(server: &ServerUrl, head: &str, body: &[u8]) -> io::Result<String> {
    let mut connection = server.connector()?.connect().await?;
    connection.write_all(head.as_bytes()).await?;
    // A server that refuses the call may not read the whole body.
    let written = connection.write_all(body).await;
    let mut answer = Vec::new();
    let read = connection.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    match answer.is_empty() {
        true => written.and(read).and(Err(io::ErrorKind::UnexpectedEof.into())),
        false => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// Fails unless the answer says that the event was published.
fn check(server: &ServerUrl, topic: &str, answer: &str) -> anyhow::Result<()> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let mut words = head.split_ascii_whitespace();
    let status = match (words.next(), words.next()) {
        (Some(version), Some(status)) if version.starts_with("HTTP/1.") => status,
        _ => bail!(
            "cannot publish to {topic} at {server}: the answer is not HTTP; check the address"
        ),
    };
    if status == "200" {
        return Ok(());
    }
    // Between the first and the last brace, also when a proxy sent the body in chunks.
    let json = body.find('{').zip(body.rfind('}')).and_then(|(from, to)| body.get(from..=to));
    let json = json.and_then(|json| serde_json::from_str::<Value>(json).ok());
    let message = json.as_ref().and_then(|json| json["error"]["message"].as_str());
    match message {
        Some(message) => bail!("cannot publish to {topic} at {server}: {message}"),
        None if status == "404" => bail!(
            "cannot publish to {topic} at {server}: the server has no API there; set api.key, and use the \
             address of the listener that api.listen names"
        ),
        None => bail!("cannot publish to {topic} at {server}: the answer has status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn call_of(arguments: &[&str]) -> anyhow::Result<Call> {
        let all = [&["publish"], arguments].concat();
        call(&Command::try_parse_from(all)?.arguments)
    }

    #[test]
    fn the_payload_is_sent_as_it_was_written() {
        let call = call_of(&["rooms:\"1\"", "new_msg", r#"{"n": 1.0}"#]).unwrap();
        let body = r#"{"topic":"rooms:\"1\"","event":"new_msg","payload":{"n": 1.0}}"#;
        assert_eq!(String::from_utf8(call.body).unwrap(), body);
        for bad in ["", "{", "1", "[]", "\"text\"", "{} {}"] {
            assert!(call_of(&["t", "e", bad]).is_err(), "{bad}");
        }
        assert!(call_of(&["t", "e"]).is_err(), "no payload");
        assert!(call_of(&["t", "e", "{}", "--binary", "x"]).is_err(), "two payloads");
    }

    #[test]
    fn the_names_of_a_binary_payload_are_escaped() {
        let file = std::env::temp_dir().join(format!("watchfire-publish-{}", std::process::id()));
        fs::write(&file, [0, 255]).unwrap();
        let call = call_of(&["rooms:a&b", "e", "--binary", file.to_str().unwrap()]);
        fs::remove_file(&file).unwrap();
        let call = call.unwrap();
        assert_eq!(
            (&*call.path, &*call.body),
            ("/api/publish?topic=rooms%3Aa%26b&event=e", &[0, 255][..])
        );
    }

    #[test]
    fn the_key_is_that_of_the_file_or_else_of_the_environment() {
        let variable = || Some("from-the-environment".to_owned());
        assert_eq!(key(None, variable()).unwrap(), "from-the-environment");
        assert!(key(None, None).unwrap_err().to_string().contains("set WATCHFIRE_API_KEY"));
        assert!(key(None, Some("two\nlines".into())).is_err());
        let file = std::env::temp_dir().join(format!("watchfire-key-{}", std::process::id()));
        fs::write(&file, "from-the-file\n").unwrap();
        let found = key(Some(&file), variable());
        fs::remove_file(&file).unwrap();
        assert_eq!(found.unwrap(), "from-the-file");
        assert!(key(Some(&file), variable()).is_err(), "it is gone");
    }

    #[test]
    fn an_answer_that_is_not_200_is_an_error_with_its_message() {
        let server = "http://localhost:4000".parse().unwrap();
        let checked = |answer: &str| check(&server, "t", answer).map_err(|error| error.to_string());
        assert_eq!(checked("HTTP/1.1 200 OK\r\n\r\n{}"), Ok(()));
        let refused = "HTTP/1.1 403 Forbidden\r\n\r\n2b\r\n{\"error\":{\"code\":\"x\",\"message\":\"no\"}}\r\n0\r\n";
        assert_eq!(
            checked(refused).unwrap_err(),
            "cannot publish to t at http://localhost:4000: no"
        );
        assert!(checked("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().contains("set api.key"));
        assert!(checked("HTTP/1.1 502 B\r\n\r\n<p>").unwrap_err().ends_with("status 502"));
        assert!(checked("SSH-2.0-x").unwrap_err().contains("is not HTTP"));
    }
}
