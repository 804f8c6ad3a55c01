//! The backend of hooks. It has no state: the payload of the client says how it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;

use serde_json::Value;

/// The URL of the backend that all seeds share.
pub(super) fn url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/hooks", listener.local_addr().expect("it listens"));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        url
    })
}

/// Answers the requests of one connection until it ends.
fn serve(stream: TcpStream) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut len = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                len = value.parse().ok()?;
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        let question: Value = serde_json::from_slice(&body).ok()?;
        let (status, answer) = match question["payload"]["hook"].as_str() {
            Some("deny") => ("200 OK", r#"{"allow":false,"reason":"denied by the backend"}"#),
            Some("fail") => ("500 Internal Server Error", "{}"),
            Some("bad") => ("200 OK", "not JSON"),
            Some("cut") => return None,
            Some("hang") => {
                // Until the server gives up.
                drop(reader.read_to_end(&mut Vec::new()));
                return None;
            }
            _ => ("200 OK", r#"{"allow":true}"#),
        };
        let len = answer.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json");
        write!(writer, "{head}\r\ncontent-length: {len}\r\n\r\n{answer}").ok()?;
    }
}
