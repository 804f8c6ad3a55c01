//! The answers of `tests/vectors/http_answers.json`, to simulated users.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{load, ok, scenario, server};

include!("../../../../tests/vectors/http_answers.rs");

#[test]
fn a_user_reads_every_form_of_an_answer() {
    std::thread::scope(|scope| {
        for vector in vectors() {
            scope.spawn(move || check(&vector));
        }
    });
}

/// Runs one user that gets this answer, and then asks for something else.
fn check(vector: &Vector) {
    let bytes = vector.bytes();
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
    let method = &vector.method;
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
