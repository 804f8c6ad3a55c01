//! Guests: clients whose tab another server loaded.

use serde_json::{Value, json};
use watchfire::{Channel, Connected, HandleIn, Joined, Outcome, Payload, Refusal, Refused, Socket};
use watchfire::{RunningServer, Settings};
use watchfire_pages::{Guests, NeighbourSettings, RoomSettings};
use watchfire_testkit::{Client, Request, UPGRADE, eventually, find};

use crate::support::{admin_address, get, http, metric, settings};
use crate::{start, with_pages};

const PAGE: &str = "page:bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
const NEIGHBOUR: &str = "https://a.example";
const STRANGER: &str = "https://evil.example";

/// The settings of a server with one neighbour and with rooms.
fn with_neighbour(guests: Guests) -> Settings {
    let mut settings = settings();
    settings.section_mut::<RoomSettings>().open_rooms = true;
    let neighbours = settings.section_mut::<NeighbourSettings>();
    (neighbours.servers, neighbours.guests) = (vec![NEIGHBOUR.into()], guests);
    settings
}

/// The answer to an upgrade of a client of this origin: `Ok`, or the refusal.
fn connect(server: &RunningServer, origin: &str) -> Result<Client, String> {
    Client::connect_from(origin, server.address())
}

fn guest(server: &RunningServer) -> Client {
    connect(server, NEIGHBOUR).expect("the guest is admitted")
}

fn is_refused(server: &RunningServer, origin: &str, status: &str) -> bool {
    connect(server, origin).err().is_some_and(|refusal| refusal.contains(status))
}

fn refusal_of_join(client: &mut Client, topic: &str) -> Value {
    client.join(topic, json!({}))["response"]["reason"].clone()
}

/// The answer to a long poll without a session from this origin.
fn long_poll(server: &RunningServer, method: &str, origin: &str) -> String {
    long_poll_of(server, "localhost", method, origin)
}

/// The same for a request to this host.
fn long_poll_of(server: &RunningServer, host: &str, method: &str, origin: &str) -> String {
    let request = format!(
        "{method} /socket/longpoll?vsn=2.0.0 HTTP/1.1\r\nhost: {host}\r\n\
         origin: {origin}\r\nconnection: close\r\n\r\n"
    );
    http(server, &request)
}

/// A topic of an application.
struct App;

impl Channel for App {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::NoReply)
    }
}

#[test]
fn a_guest_joins_pages_and_no_other_topic() {
    let server = with_pages(with_neighbour(Guests::Neighbours)).channel("app:*", App);
    let server = server.start().expect("the server starts");
    let (mut guest, mut own) = (guest(&server), Client::connect(server.address()));
    let held = own.join(PAGE, json!({ "have": "all" }))["response"]["peer"].clone();
    let joined = guest.join(PAGE, json!({ "have": "none", "peer_key": "0123456789abcdef" }));
    assert_eq!(joined["response"]["peers"], json!([{ "peer": held, "have": "all" }]));
    let introduced = json!({ "peer": joined["response"]["peer"], "have": "none" });
    assert_eq!(own.receive_event("peer_joined"), introduced);
    for topic in ["rooms:lobby", "sprites:1", "site", "app:1", "unknown"] {
        assert_eq!(refusal_of_join(&mut guest, topic), "guests may join pages only", "{topic}");
    }
    assert_eq!(guest.push(PAGE, "more_peers", json!({}))["status"], "ok", "it is still there");
    assert_eq!(metric(&server, "watchfire_channels_guests"), 1);
    drop(guest);
    eventually("no guest", || metric(&server, "watchfire_channels_guests") == 0);
}

#[test]
fn clients_of_the_own_origin_and_of_none_join_everything() {
    let server = with_pages(with_neighbour(Guests::Any)).channel("app:*", App);
    let server = server.start().expect("the server starts");
    let own = connect(&server, &format!("http://{}", server.address())).expect("its own site");
    for mut client in [own, Client::connect(server.address())] {
        for topic in ["rooms:lobby", "sprites:1", "site", "app:1"] {
            assert_eq!(client.join(topic, json!({}))["status"], "ok", "{topic}");
        }
    }
    assert_eq!(metric(&server, "watchfire_channels_guests"), 0);
}

#[test]
fn only_the_sites_of_the_setting_have_guests() {
    for (guests, neighbour, stranger) in
        [(Guests::Neighbours, true, false), (Guests::Any, true, true), (Guests::None, false, false)]
    {
        let server = start(with_neighbour(guests));
        for (origin, is_guest) in [(NEIGHBOUR, neighbour), (STRANGER, stranger), ("null", false)] {
            match connect(&server, origin) {
                Ok(mut client) => {
                    let refusal = refusal_of_join(&mut client, "rooms:lobby");
                    assert_eq!(refusal, "guests may join pages only", "{guests:?}: {origin}");
                    assert!(is_guest, "{guests:?}: {origin}");
                }
                Err(refusal) => {
                    assert!(
                        !is_guest && refusal.contains("403"),
                        "{guests:?}: {origin}: {refusal}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_server_without_neighbours_has_no_guests() {
    assert!(is_refused(&start(settings()), STRANGER, "403"));
}

#[test]
fn long_polls_of_guests_and_rebound_names_are_refused() {
    let server = start(with_neighbour(Guests::Any));
    let response = long_poll(&server, "GET", NEIGHBOUR);
    assert!(response.ends_with("{\"status\":403}"), "{response}");
    // A domain that has the address 127.0.0.1 meanwhile.
    for origin in ["http://attacker.example", NEIGHBOUR] {
        let request = format!("{UPGRADE}host: attacker.example\r\norigin: {origin}\r\n\r\n");
        assert!(http(&server, &request).starts_with("HTTP/1.1 403 "), "{origin}");
        for method in ["GET", "POST"] {
            let response = long_poll_of(&server, "attacker.example", method, origin);
            assert!(response.ends_with("{\"status\":403}"), "{method} {origin}: {response}");
        }
    }
}

#[test]
fn a_post_without_a_session_tells_whether_the_origin_is_refused_and_guests_are_not() {
    for (guests, neighbour, stranger) in
        [(Guests::Neighbours, 410, 403), (Guests::Any, 410, 410), (Guests::None, 403, 403)]
    {
        let server = start(with_neighbour(guests));
        for (origin, status) in [(NEIGHBOUR, neighbour), (STRANGER, stranger), ("null", 403)] {
            let response = long_poll(&server, "POST", origin);
            let body = format!("{{\"status\":{status}}}");
            assert!(response.ends_with(&body), "{guests:?}: {origin}: {response}");
        }
        assert_eq!(metric(&server, "watchfire_channels_guests"), 0);
    }
}

#[test]
fn guests_are_bounded_and_the_place_of_one_that_left_is_free_again() {
    let mut settings = with_neighbour(Guests::Any);
    settings.section_mut::<NeighbourSettings>().guests_max = 8;
    let server = start(settings);
    let admit = |site: u32| connect(&server, &format!("https://{site}.example"));
    let mut guests: Vec<Client> = (0..8).map(|n| admit(n / 2).expect("a free place")).collect();
    for (site, of) in [(0, "this site"), (4, "all sites")] {
        let refusal = admit(site).err().expect("all places are taken");
        assert!(refusal.contains("503"), "{of}: {refusal}");
        // The client asks whether it is refused for ever.
        let response = long_poll(&server, "POST", &format!("https://{site}.example"));
        assert!(response.ends_with("{\"status\":410}"), "{of}: {response}");
    }
    assert_eq!(metric(&server, r#"watchfire_refusals_total{reason="guests_max"}"#), 2);
    // Other clients are not affected.
    Client::connect(server.address());
    let limits: Value =
        serde_json::from_str(get(&server, "/limits").rsplit("\r\n").next().unwrap()).unwrap();
    assert_eq!(limits["limits"]["guests_max"]["value"], 8);
    guests.remove(0);
    guests.push(find("a free place", || admit(4).ok()));
    assert!(is_refused(&server, "https://0.example", "503"), "the place is taken again");
}

#[test]
fn a_guest_is_no_visitor_whatever_kind_it_says_that_it_is() {
    let server = start(with_neighbour(Guests::Neighbours));
    let mut tab = Client::connect(server.address());
    let (mut browser, mut node) = (guest(&server), guest(&server));
    assert_eq!(browser.join(PAGE, json!({ "have": "none" }))["status"], "ok");
    assert_eq!(node.join(PAGE, json!({ "have": "all", "kind": "node" }))["status"], "ok");
    assert_eq!(tab.join("site", json!({}))["response"], json!({ "visitors": 1 }));
    node.push(PAGE, "phx_leave", json!({}));
    drop((browser, node));
    eventually("no guest", || metric(&server, "watchfire_channels_guests") == 0);
    let mut second = Client::connect(server.address());
    assert_eq!(second.join("site", json!({}))["response"], json!({ "visitors": 2 }));
}

#[test]
fn the_application_may_refuse_guests_and_can_give_them_no_further_topic() {
    let start = |rule: fn() -> Result<Connected, Refused>| {
        let server = with_pages(with_neighbour(Guests::Neighbours));
        server.on_connect(move |_| rule()).start().expect("the server starts")
    };
    assert!(is_refused(&start(|| Err(Refused::because("no token"))), NEIGHBOUR, "403"));
    let server = start(|| Ok(Connected::default().with_id("users:1").with_assigns(7)));
    let refusal = refusal_of_join(&mut guest(&server), "rooms:lobby");
    assert_eq!(refusal, "guests may join pages only");
}

#[test]
fn the_operator_sees_the_neighbours_and_the_relayed_bytes_of_their_guests() {
    let server = start(with_neighbour(Guests::Any));
    let (mut known, mut unknown) = (guest(&server), connect(&server, STRANGER).expect("a guest"));
    let mut own = Client::connect(server.address());
    let [to_own, to_known, _] = [&mut own, &mut known, &mut unknown].map(|client| {
        let joined = client.join(PAGE, json!({ "have": "all" }));
        let peer = joined["response"]["peer"].as_str().expect("an id").to_owned();
        u64::from_str_radix(&peer, 16).expect("digits").to_be_bytes()
    });
    let relay = |from: &mut Client, to: [u8; 8], bytes: usize| {
        let reference = from.send_bytes(PAGE, "relay", &[&to[..], &vec![0; bytes - 8]].concat());
        assert_eq!(from.reply_to(&reference)["status"], "ok");
    };
    relay(&mut known, to_own, 100);
    own.receive_bytes();
    relay(&mut own, to_known, 1_000);
    relay(&mut unknown, to_known, 10);
    let table = find("the table has the bytes", || {
        let state = Request::get("/admin/state").to(admin_address(&server)).json();
        let table = state["tables"][0].clone();
        (table["rows"][0][5] == 1_010.0).then_some(table)
    });
    assert_eq!(table["title"], "Neighbours");
    let columns = table["columns"].as_array().expect("columns");
    let titles: Vec<_> = columns.iter().map(|column| &column["title"]).collect();
    let expected =
        json!(["Server", "State", "Pages", "Guests", "From guests", "To guests", "Filters"]);
    assert_eq!(json!(titles), expected);
    let mut rows = table["rows"].clone();
    // It depends on the time whether it was asked often enough.
    rows[0][1] = Value::Null;
    let expected = json!([
        [NEIGHBOUR, null, 0.0, 1.0, 100.0, 1_010.0, 0.0],
        ["other", null, 0.0, 1.0, 10.0, 0.0, 0.0],
    ]);
    assert_eq!(rows, expected);
}
