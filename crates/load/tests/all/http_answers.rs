//! The answers of `tests/vectors/http_answers.json`, to simulated users.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;

use crate::support::{load, ok, scenario, server};

#[derive(Clone, Deserialize)]
struct Vector {
    name: String,
    method: Option<String>,
    answer: String,
    #[serde(default)]
    repeat: BTreeMap<String, usize>,
    #[serde(default)]
    closes: bool,
    #[serde(default)]
    status: u16,
    #[serde(default)]
    body: String,
    #[serde(default)]
    fails: bool,
    #[serde(default)]
    may_fail: bool,
    /// Whether the connection takes another request.
    #[serde(default)]
    reused: bool,
    /// Whether a client may close a connection that takes another request.
    #[serde(default)]
    may_close: bool,
}

#[derive(Deserialize)]
struct Vectors {
    answers: Vec<Vector>,
}

#[test]
fn a_user_reads_every_form_of_an_answer() {
    let text = include_str!("../../../../tests/vectors/http_answers.json");
    let vectors: Vectors = serde_json::from_str(text).expect("the vectors are valid");
    std::thread::scope(|scope| {
        for vector in &vectors.answers {
            scope.spawn(|| check(vector));
        }
    });
}

/// Runs one user that gets this answer, and then asks for something else.
fn check(vector: &Vector) {
    let lines = vector.repeat.iter().map(|(line, count)| format!("{line}\r\n").repeat(*count));
    let bytes = vector.answer.replace("{repeat}", &lines.collect::<String>()).into_bytes();
    let (connections, closes) = (Arc::new(AtomicUsize::new(0)), vector.closes);
    let count = Arc::clone(&connections);
    let address = server(move |mut stream| {
        count.fetch_add(1, Ordering::Relaxed);
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            let is_second = buffer[..len].windows(7).any(|bytes| bytes == b"/second");
            let answer = if is_second { ok("second") } else { bytes.clone() };
            if stream.write_all(&answer).is_err() || (closes && !is_second) {
                return;
            }
        }
    });
    let method = vector.method.as_deref().unwrap_or("GET");
    let body = serde_json::to_string(&vector.body).expect("a text has a JSON form");
    let steps = format!(
        r#"{{ http = {{ path = "/first", method = "{method}", status = {}, contains = {body}, name = "first" }} }},
           {{ http = {{ path = "/second", contains = "second", name = "second" }} }}"#,
        vector.status
    );
    let results = load(address, &scenario(1, 20, &steps));
    let name = &vector.name;
    if vector.fails || (vector.may_fail && results.errors_total() > 0) {
        let kinds: Vec<_> = results.errors.keys().collect();
        assert_eq!((results.counts.failed, kinds.len()), (1, 1), "{name}: {kinds:?}");
        assert_eq!(kinds[0].0, "first", "{name}");
        return;
    }
    assert_eq!(results.errors_total(), 0, "{name}: {:?}", results.errors);
    let connections = connections.load(Ordering::Relaxed);
    let expected = if vector.reused { 1 } else { 2 };
    assert!(connections == expected || vector.may_close, "{name}: {connections} connections");
}
