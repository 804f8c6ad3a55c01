//! Pages of several servers that name each other: a page that is available on one is found from the others.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use watchfire::{RunningServer, Settings};
use watchfire_pages::{NeighbourSettings, PagesError};
use watchfire_testkit::{Client, HttpServer, Request, eventually, response};

use crate::support::{self, metric, settings};
use crate::{start, with_pages};

const PAGE: &str = "page:bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";

fn origin(address: SocketAddr) -> String {
    format!("http://{address}")
}

pub fn with_neighbours(servers: &[SocketAddr]) -> Settings {
    let mut settings = settings();
    let servers = servers.iter().copied().map(origin).collect();
    settings.section_mut::<NeighbourSettings>().servers = servers;
    settings
}

/// A server with these neighbours.
fn server(neighbours: &[SocketAddr]) -> RunningServer {
    start(with_neighbours(neighbours))
}

/// An address on which nothing listens.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("a listener has an address")
}

fn join(server: &RunningServer, have: &str) -> (Client, Value) {
    let mut client = Client::connect(server.address());
    let reply = client.join(PAGE, json!({ "have": have }));
    assert_eq!(reply["status"], "ok", "{reply}");
    (client, reply["response"].clone())
}

/// The row of `GET /limits`.
fn neighbours(server: &RunningServer) -> Value {
    Request::get("/limits").to(server.address()).json()["neighbours"].clone()
}

/// Waits until the only neighbour of a server has this state.
fn eventually_is(server: &RunningServer, state: &str) {
    eventually(state, || neighbours(server)[0]["state"] == state);
}

#[test]
fn a_page_of_one_server_is_found_from_the_other_until_its_holder_leaves() {
    // Each server must know the address of the other before it starts.
    let addresses = [free_address(), free_address()];
    let [east, west] = [0, 1].map(|own| {
        let mut settings = with_neighbours(&[addresses[1 - own]]);
        settings.server.listen = vec![addresses[own]];
        start(settings)
    });
    let (mut early, joined) = join(&west, "none");
    assert_eq!(joined.get("elsewhere"), None);

    let (holder, joined) = join(&east, "all");
    assert_eq!(joined.get("elsewhere"), None, "a page that is here is not looked for");
    let at_east = json!([origin(east.address())]);
    assert_eq!(early.receive_event("elsewhere"), json!({ "servers": at_east }));
    let (late, joined) = join(&west, "none");
    assert_eq!(joined["elsewhere"], at_east);
    assert_eq!(
        neighbours(&west)[0],
        json!({
            "server": origin(east.address()), "state": "answers", "pages": 1,
        })
    );
    let pages = format!("pages{{server=\"{}\"}}", origin(east.address()));
    for (name, value) in [("answering", 1), ("silent", 0), (&pages, 1), ("found_total", 1)] {
        assert_eq!(metric(&west, &format!("watchfire_neighbours_{name}")), value, "{name}");
    }

    drop(holder);
    assert_eq!(early.receive_event("elsewhere"), json!({ "servers": [] }));
    let (_, joined) = join(&west, "none");
    assert_eq!(joined.get("elsewhere"), None);

    // The page comes back, and then to this server too.
    let (_holder, _) = join(&east, "all");
    assert_eq!(early.receive_event("elsewhere"), json!({ "servers": at_east }));
    early.push(PAGE, "have", json!({ "have": "all" }));
    assert_eq!(early.receive_event("elsewhere"), json!({ "servers": [] }));
    drop(late);
    let (_, joined) = join(&west, "none");
    assert_eq!(joined.get("elsewhere"), None, "a page that is here is not looked for");
}

/// Receives that no server has the page any more. A filter that arrives during a join is in its reply, and in an event too.
fn receive_none(waiting: &mut Client) {
    while waiting.receive_event("elsewhere") != json!({ "servers": [] }) {}
}

#[test]
fn a_neighbour_that_is_gone_has_no_pages() {
    let east = server(&[free_address()]);
    let (_holder, _) = join(&east, "all");
    let west = server(&[east.address()]);
    let (mut waiting, joined) = join(&west, "none");
    if joined.get("elsewhere").is_none() {
        waiting.receive_event("elsewhere");
    }
    drop(east);
    receive_none(&mut waiting);
    eventually_is(&west, "silent");
    assert!(metric(&west, "watchfire_neighbours_failures_total") >= 3);
    assert_eq!(metric(&west, "watchfire_neighbours_silent"), 1);
}

#[test]
fn the_filter_is_sent_again_only_when_it_has_changed() {
    let server = server(&[free_address()]);
    let ask = |method: &str, etag: &str| {
        let request = Request::new(method, "/neighbours/pages");
        request.line(format!("if-none-match: {etag}")).to(server.address())
    };
    let empty = ask("GET", "\"\"");
    assert_eq!((empty.status, empty.body.len()), (200, 22));
    assert_eq!(empty.header("content-type"), "application/octet-stream");
    let etag = empty.header("etag");
    let known = ask("GET", etag);
    assert_eq!((known.status, known.header("etag"), known.body.len()), (304, etag, 0));
    let head = ask("HEAD", "\"\"");
    assert_eq!(
        (head.status, head.header("etag"), head.header("content-length")),
        (200, etag, "22")
    );

    let (_holder, _) = join(&server, "all");
    eventually("the filter has the page", || ask("GET", etag).status == 200);
    assert_eq!(ask("GET", etag).body.len(), 25);
}

#[test]
fn a_server_without_neighbours_tells_no_pages() {
    let server = start(settings());
    assert_eq!(Request::get("/neighbours/pages").to(server.address()).status, 404);
    assert_eq!(neighbours(&server), Value::Null);
    assert!(!support::metrics(&server).contains("watchfire_neighbours"));
}

#[test]
fn a_neighbour_that_is_not_an_origin_is_refused_at_the_start() {
    let mut wrong = settings();
    let servers = vec!["https://a.example/pages".to_owned()];
    wrong.section_mut::<NeighbourSettings>().servers = servers;
    let error = with_pages(wrong).start().err().expect("the server does not start");
    let text = error.to_string();
    assert!(text.contains("neighbours.servers") && text.contains("a.example/pages"), "{text}");
    let watchfire::StartError::Feature(error) = &error else { panic!("{error:?}") };
    assert!(matches!(error.downcast_ref(), Some(PagesError::Neighbour(_))));
}

#[test]
fn a_server_that_is_its_own_neighbour_is_not_asked() {
    let address = free_address();
    let mut settings = with_neighbours(&[address]);
    settings.server.listen = vec![address];
    let server = start(settings);
    eventually_is(&server, "itself");
    assert_eq!(metric(&server, "watchfire_neighbours_answering"), 0);
}

#[test]
fn a_neighbour_that_leads_to_this_server_now_has_no_pages_any_more() {
    let filter_of = |server: &RunningServer| {
        let request = Request::get("/neighbours/pages");
        response("200 OK", &[], request.to(server.address()).body)
    };
    let east = server(&[free_address()]);
    let (_holder, _) = join(&east, "all");
    let empty_bytes = 22;
    eventually("the filter has the page", || {
        Request::get("/neighbours/pages").to(east.address()).body.len() > empty_bytes
    });
    let answer = Arc::new(Mutex::new(filter_of(&east)));
    let answers = answer.clone();
    let neighbour = HttpServer::start(move |_| Some(answers.lock().unwrap().clone()));
    let west = server(&[neighbour.address]);
    let (mut waiting, joined) = join(&west, "none");
    if joined.get("elsewhere").is_none() {
        waiting.receive_event("elsewhere");
    }
    let itself = filter_of(&west);
    *answer.lock().unwrap() = itself;
    receive_none(&mut waiting);
    eventually_is(&west, "itself");
}

#[test]
fn an_answer_that_is_no_filter_has_no_pages() {
    // A hash of 16 bits, of which 40,000 are there: most pages would be.
    let dense = [&[1; 17][..], &[16, 0, 0, 0x9c, 0x40], &[0; 450]].concat();
    let elsewhere = "location: http://127.0.0.1:1/neighbours/pages";
    let started = [
        ("dense", response("200 OK", &[], dense)),
        ("invalid", response("200 OK", &[], "<!doctype html>")),
        ("invalid", response("302 Found", &[elsewhere], "")),
        ("silent", response("502 Bad Gateway", &[], "")),
    ]
    .map(|(state, answer)| {
        let neighbour = HttpServer::start(move |_| Some(answer.clone()));
        (state, server(&[neighbour.address]))
    });
    for (state, server) in started {
        let (_waiting, joined) = join(&server, "none");
        assert_eq!(joined.get("elsewhere"), None);
        eventually_is(&server, state);
        assert_eq!(neighbours(&server)[0]["pages"], 0);
        let (_, joined) = join(&server, "none");
        assert_eq!(joined.get("elsewhere"), None);
    }
}

#[test]
fn with_depth_2_the_neighbours_of_a_neighbour_are_asked_too_and_no_further() {
    let far = server(&[free_address()]);
    let (_holder, _) = join(&far, "all");
    let middle = server(&[far.address()]);
    let mut settings = with_neighbours(&[middle.address()]);
    settings.section_mut::<NeighbourSettings>().depth = 2;
    let near = start(settings);
    let (mut waiting, joined) = join(&near, "none");
    let at_far = json!([origin(far.address())]);
    if joined.get("elsewhere").is_none() {
        assert_eq!(waiting.receive_event("elsewhere"), json!({ "servers": at_far }));
    }
    assert_eq!(metric(&near, "watchfire_neighbours_answering"), 2);
    let row = neighbours(&near);
    assert_eq!(row.as_array().map(Vec::len), Some(1), "it names its own: {row}");

    let mut settings = with_neighbours(&[near.address()]);
    settings.section_mut::<NeighbourSettings>().depth = 2;
    let further = start(settings);
    eventually("it knows two", || metric(&further, "watchfire_neighbours_answering") == 2);
    let (_, joined) = join(&further, "none");
    assert_eq!(joined.get("elsewhere"), None);
}
