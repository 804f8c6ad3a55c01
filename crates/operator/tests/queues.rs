//! The queues of the server itself, as an operator sees them.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};
use watchfire::{
    Channel, HandleIn, Joined, Outcome, Payload, Refusal, RunningServer, Server, Settings, Socket,
};
use watchfire_operator::{AdminSettings, Operator};
use watchfire_testkit::{Client, DEADLINE, Request, find};

/// The places in the queue of an event loop.
const PLACES: u64 = 8_192;
const SENT: u64 = 40_000;

/// A channel whose message blocks its event loop, which it tells, until the sender is dropped.
struct Blocks(Mutex<(Sender<()>, Receiver<()>)>);

impl Channel for Blocks {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn handle_in(&self, _: &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        let (is_blocked, unblocked) = &*self.0.lock().expect("no panic");
        is_blocked.send(()).expect("the test waits");
        unblocked.recv().expect_err("nothing is sent");
        Ok(Outcome::NoReply)
    }
}

fn get(server: &RunningServer, path: &str) -> String {
    Request::get(path).to(server.addresses_of("operator")[0]).text().to_owned()
}

/// The first queue in the table.
fn first_queue(server: &RunningServer) -> Value {
    let state: Value = serde_json::from_str(&get(server, "/admin/state")).expect("JSON");
    state["own_tables"][0]["rows"][0].clone()
}

#[test]
fn the_full_queue_of_a_blocked_event_loop_is_the_first_in_the_table() {
    let (unblock, unblocked) = channel();
    let (is_blocked, blocked) = channel();
    let mut settings = Settings::default();
    settings.server.listen = vec![([127, 0, 0, 1], 0).into()];
    settings.server.shards = 2;
    settings.section_mut::<AdminSettings>().listen = vec![([127, 0, 0, 1], 0).into()];
    let server = Server::new(settings)
        .with(Operator::new())
        .channel("block", Blocks(Mutex::new((is_blocked, unblocked))))
        .start()
        .expect("it starts");
    // Dropped before the server, whose end waits for the event loop.
    let unblock = unblock;
    let mut client = Client::connect(server.address());
    client.join("block", json!({}));
    client.send("block", "block", json!({}));
    blocked.recv_timeout(DEADLINE).expect("the event loop is blocked");
    for _ in 0..SENT {
        server.endpoint().broadcast("nobody", "event", json!({})).expect("an object");
    }
    let metrics = get(&server, "/metrics");
    let is_full = |line: &str| {
        line.starts_with("watchfire_queue_messages{queue=\"event loop 0/")
            && line.ends_with(&format!("}} {PLACES}"))
    };
    assert!(metrics.lines().any(is_full), "{metrics}");
    let queue = find("a full queue", || {
        Some(first_queue(&server)).filter(|queue| queue[1] == PLACES as f64)
    });
    assert!(queue[0].as_str().is_some_and(|name| name.starts_with("event loop 0/")), "{queue}");
    assert!(queue[2].as_f64() > Some(0.0), "{queue}");
    assert!(queue[3].as_f64() >= Some((SENT - PLACES) as f64), "{queue}");
    drop(unblock);
    find("an empty queue", || Some(first_queue(&server)).filter(|queue| queue[1] == 0.0));
}
