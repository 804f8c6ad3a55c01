//! `watchfire publish`: an event to the subscribers of a topic, through the HTTP API of a server.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use serde_json::value::RawValue;
use watchfire_page_client::ServerUrl;

use crate::http_client::{Answer, HttpClient, Request};
use crate::secret;

/// Bytes that are read of an answer. An error is far shorter.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
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
    #[arg(long, alias = "url", value_name = "URL", default_value = "http://localhost:4000")]
    to: ServerUrl,
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

/// Publishes the event, and fails unless the server accepts it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let variable = std::env::var(KEY_VARIABLE).ok();
    let Some(key) = secret::read(arguments.key_file.as_deref(), KEY_VARIABLE, variable)? else {
        bail!(
            "cannot publish without a key of the API: set {KEY_VARIABLE}, or name a file with --key-file"
        );
    };
    let mut request = request(arguments)?;
    request.headers.push(("Authorization", format!("Bearer {key}")));
    if let Some(name) = &arguments.idempotency_key {
        if !is_visible(name) {
            bail!(
                "cannot use the idempotency key {name:?}: it needs visible ASCII characters only"
            );
        }
        request.headers.push(("Idempotency-Key", name.clone()));
    }
    let answer = HttpClient::new(&arguments.to, arguments.timeout.into(), ANSWER_BYTES_MAX)
        .and_then(|client| client.exchange_blocking(&request))
        .with_context(|| format!("cannot reach {}", arguments.to))?;
    check(&arguments.to, &arguments.topic, &answer)
}

/// Whether a text can stand in a header.
fn is_visible(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The request without the key.
fn request(arguments: &Arguments) -> anyhow::Result<Request> {
    let post = |path, content_type: &str, body| Request {
        method: "POST",
        headers: vec![("Content-Type", content_type.to_owned())],
        body,
        ..Request::get(path)
    };
    let Arguments { topic, event, .. } = arguments;
    if let Some(file) = &arguments.binary {
        let escaped = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let path = format!("/api/publish?topic={}&event={}", escaped(topic), escaped(event));
        return Ok(post(path, "application/octet-stream", read(file)?));
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
    Ok(post("/api/publish".to_owned(), "application/json", body.into_bytes()))
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

/// Fails unless the answer says that the event was published.
fn check(server: &ServerUrl, topic: &str, answer: &Answer) -> anyhow::Result<()> {
    let status = answer.status;
    if status == 200 {
        return Ok(());
    }
    let json = serde_json::from_slice::<Value>(&answer.body).ok();
    let message = json.as_ref().and_then(|json| json["error"]["message"].as_str());
    match message {
        Some(message) => bail!("cannot publish to {topic} at {server}: {message}"),
        None if status == 404 => bail!(
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

    fn request_of(arguments: &[&str]) -> anyhow::Result<Request> {
        let all = [&["publish"], arguments].concat();
        request(&Command::try_parse_from(all)?.arguments)
    }

    #[test]
    fn the_payload_is_sent_as_it_was_written() {
        let request = request_of(&["rooms:\"1\"", "new_msg", r#"{"n": 1.0}"#]).unwrap();
        let body = r#"{"topic":"rooms:\"1\"","event":"new_msg","payload":{"n": 1.0}}"#;
        assert_eq!(String::from_utf8(request.body).unwrap(), body);
        for bad in ["", "{", "1", "[]", "\"text\"", "{} {}"] {
            assert!(request_of(&["t", "e", bad]).is_err(), "{bad}");
        }
        assert!(request_of(&["t", "e"]).is_err(), "no payload");
        assert!(request_of(&["t", "e", "{}", "--binary", "x"]).is_err(), "two payloads");
    }

    #[test]
    fn the_names_of_a_binary_payload_are_escaped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0, 255]).unwrap();
        let path = file.path().to_str().unwrap();
        let request = request_of(&["rooms:a&b", "e", "--binary", path]).unwrap();
        assert_eq!(
            (&*request.path, &*request.body),
            ("/api/publish?topic=rooms%3Aa%26b&event=e", &[0, 255][..])
        );
    }

    #[test]
    fn an_answer_that_is_not_200_is_an_error_with_its_message() {
        let server = "http://localhost:4000".parse().unwrap();
        let checked = |status, body: &str| {
            let answer = Answer { status, body: body.as_bytes().to_vec(), is_complete: true };
            check(&server, "t", &answer).map_err(|error| error.to_string())
        };
        assert_eq!(checked(200, "{}"), Ok(()));
        assert_eq!(
            checked(403, r#"{"error":{"code":"x","message":"no"}}"#).unwrap_err(),
            "cannot publish to t at http://localhost:4000: no"
        );
        assert!(checked(404, "").unwrap_err().contains("set api.key"));
        assert!(checked(502, "<p>").unwrap_err().ends_with("status 502"));
    }
}
