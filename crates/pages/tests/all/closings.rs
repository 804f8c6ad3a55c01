//! The end of pages at three servers that name each other: everybody who waits, at any of them, is told.

use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchfire::RunningServer;
use watchfire_content::Block;
use watchfire_testkit::Client;
use watchfire_types::Rng;

use crate::neighbours::{free_address, with_neighbours};
use crate::start;

const SERVERS: usize = 3;
const PAGES: usize = 1_000;
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Joins all pages at a server without having them. Says when each is available, here or elsewhere, and returns
/// the time at which each was gone for good.
fn wait_for_ends(
    server: &RunningServer,
    topics: &[String],
    ready: &Sender<()>,
) -> HashMap<String, Instant> {
    let mut client = Client::connect(server.address());
    for topic in topics {
        client.send(topic, "phx_join", json!({ "have": "none" }));
    }
    // Whether somebody here has the page, and whether another server has it.
    let mut known: HashMap<String, (bool, bool)> = HashMap::new();
    let mut gone_at = HashMap::new();
    let mut is_ready = false;
    loop {
        let available = known.values().filter(|(here, elsewhere)| *here || *elsewhere).count();
        if !is_ready && available == topics.len() {
            is_ready = true;
            ready.send(()).expect("the test waits");
        }
        if is_ready && available == 0 {
            return gone_at;
        }
        let message = client.receive();
        let topic = message[2].as_str().expect("a topic");
        let payload = &message[4];
        let names_servers = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        let (here, elsewhere) = known.get(topic).copied().unwrap_or_default();
        let now = match message[3].as_str() {
            Some("phx_reply") => {
                assert_eq!(payload["status"], "ok", "{payload}");
                let response = &payload["response"];
                (response["counts"]["holders"] != 0, names_servers(&response["elsewhere"]))
            }
            Some("available") => (true, elsewhere),
            Some("unavailable") => (false, elsewhere),
            Some("elsewhere") => (here, names_servers(&payload["servers"])),
            _ => continue,
        };
        known.insert(topic.to_owned(), now);
        if now == (false, false) {
            gone_at.insert(topic.to_owned(), Instant::now());
        }
    }
}

#[test]
fn everybody_who_waits_at_any_server_is_told_of_the_end_of_each_page() {
    let addresses = [(); SERVERS].map(|()| free_address());
    let servers = addresses.map(|own| {
        let others: Vec<_> = addresses.into_iter().filter(|other| *other != own).collect();
        let mut settings = with_neighbours(&others);
        settings.server.listen = vec![own];
        settings.limits.channels_per_socket_max = PAGES as u16;
        settings.limits.joins_per_second_per_socket = u16::MAX;
        start(settings)
    });
    let mut rng = Rng::from_seed(7);
    let topics: Vec<String> = (0..PAGES as u64)
        .map(|page| {
            let block = Block::raw(page.to_be_bytes().to_vec().into()).expect("a short block");
            format!("page:{}", block.cid())
        })
        .collect();
    // Each page is on one to three of the servers.
    let mut holders = servers.each_ref().map(|server| Client::connect(server.address()));
    let mut held: Vec<(usize, &String)> = Vec::new();
    for topic in &topics {
        let on = 1 + rng.below((1 << SERVERS) - 1);
        for server in (0..SERVERS).filter(|server| on >> server & 1 == 1) {
            let reply = holders[server].join(topic, json!({ "have": "all" }));
            assert_eq!(reply["status"], "ok", "{reply}");
            held.push((server, topic));
        }
    }
    let (ready, all_ready) = mpsc::channel();
    let (left_at, gone_at) = thread::scope(|scope| {
        let waiting: Vec<_> = servers
            .iter()
            .map(|server| {
                let (ready, topics) = (ready.clone(), &topics);
                scope.spawn(move || wait_for_ends(server, topics, &ready))
            })
            .collect();
        for _ in &waiting {
            all_ready.recv_timeout(Duration::from_secs(60)).expect("all pages are found");
        }
        let mut left_at = HashMap::new();
        while !held.is_empty() {
            let (server, topic) = held.swap_remove(rng.index(held.len()));
            left_at.insert(topic.clone(), Instant::now());
            holders[server].push(topic, "phx_leave", json!({}));
        }
        let gone: Vec<_> =
            waiting.into_iter().map(|waiting| waiting.join().expect("it is told")).collect();
        (left_at, gone)
    });
    let mut slowest = Duration::ZERO;
    for gone_at in &gone_at {
        for topic in &topics {
            assert!(gone_at[topic] >= left_at[topic], "{topic} was called gone before its end");
            slowest = slowest.max(gone_at[topic] - left_at[topic]);
        }
    }
    println!("{PAGES} pages ended; the last client was told after {slowest:?}");
    assert!(slowest < TOLD_WITHIN, "a client was told after {slowest:?}");
}
