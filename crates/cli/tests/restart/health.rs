//! A process that runs but does not respond.

use std::time::{Duration, Instant};

use watchfire_testkit::{eventually, is_running, signal};

use crate::server::{Installation, get, get_within, is_stopped};

#[test]
fn a_stopped_process_is_missing_then_replaced_and_new_clients_go_elsewhere() {
    // The first process directs new connections, until it does not respond.
    let first = std::thread::spawn(|| stop_and_replace(0));
    stop_and_replace(1);
    first.join().expect("the first process is replaced as well");
}

fn stop_and_replace(slot: usize) {
    let installation = Installation::new();
    let mut server = installation.serve(&["--processes", "2"]);
    let (status, body) = server.get("/readyz");
    assert_eq!(status, 200, "{body}");
    assert!(body.contains(r#""processes":{"missing":[],"of":2,"ok":true,"up":2}"#), "{body}");
    let (address, stopped) = (server.address, server.workers()[slot]);
    signal(stopped, "-STOP");
    // Until the signal reaches them, its threads can take connections.
    eventually("all threads are stopped", || is_stopped(stopped));
    let began = Instant::now();
    // A request that the stopped process gets is answered by the one that replaces it.
    let waiting: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(move || get(address, "/healthz").map(|(status, _)| status)))
        .collect();
    let missing = format!(r#""processes":{{"missing":[{slot}],"of":2,"ok":false,"up":1}}"#);
    let is_missing = || {
        let answer = get_within(address, "/readyz", Duration::from_millis(300));
        answer.is_ok_and(|(status, body)| status == 503 && body.contains(&missing))
    };
    eventually("the process is missing", is_missing);
    // Before it is replaced, new connections go elsewhere. A request that it gets is not answered.
    let is_answered = || {
        let answer = get_within(address, "/healthz", Duration::from_millis(500));
        answer.is_ok_and(|(status, _)| status == 200)
    };
    let mut in_a_row = 0;
    while in_a_row < 20 && is_running(stopped) {
        in_a_row = if is_answered() { in_a_row + 1 } else { 0 };
    }
    assert_eq!(in_a_row, 20, "new connections went to the stopped process until its end");
    eventually("it is replaced", || !is_running(stopped));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    eventually("all processes serve", || server.get("/readyz").0 == 200);
    for request in waiting {
        assert_eq!(request.join().expect("it does not panic").expect("an answer"), 200);
    }
    assert_eq!(server.metric("watchfire_process_hangs_total"), Some(1.0));
    assert_eq!(server.metric("watchfire_process_restarts_total"), Some(1.0));
    assert!(server.log().contains("did not respond"), "{}", server.log());
    server.stop();
}
