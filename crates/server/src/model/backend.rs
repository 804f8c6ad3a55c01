//! The backend of hooks. It has no state: the payload of the client says how it answers.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;

use serde_json::Value;
use watchfire_testkit::{Received, response, serve};

/// The URL of the backend that all seeds share.
pub(super) fn url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let address = serve(|stream| {
            // A question that cannot be answered closes the connection.
            answer_questions(&stream);
        });
        format!("http://{address}/hooks")
    })
}

/// Answers the requests of one connection until it ends.
fn answer_questions(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let body = Received::read(&mut reader)?.body;
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
        let answer = response(status, &["content-type: application/json"], answer);
        stream.write_all(&answer).ok()?;
    }
}
