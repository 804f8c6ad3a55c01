//! The page protocol, as a browser uses it.

use serde_json::{Value, json};
use watchfire::{RunningServer, Server};
use watchfire_api::{Api, ApiSettings};
use watchfire_pages::{P2pSettings, PageSettings, Pages, PagesError, StunSettings};
use watchfire_testkit::Client;

use crate::support::{metric, settings, settings_without_operator};
use crate::{server, start, support, with_pages};

const PAGE: &str = "page:bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";

fn join(client: &mut Client, have: &str) -> Value {
    let reply = client.join(PAGE, json!({ "have": have }));
    assert_eq!(reply["status"], "ok", "{reply}");
    reply["response"].clone()
}

fn peer_bytes(id: &Value) -> [u8; 8] {
    u64::from_str_radix(id.as_str().expect("an id"), 16).expect("digits").to_be_bytes()
}

#[test]
fn a_visitor_and_a_holder_are_introduced_to_each_other() {
    let server = server();
    let (mut holder, mut visitor) =
        (Client::connect(server.address()), Client::connect(server.address()));
    let first = join(&mut holder, "all");
    assert_eq!(first["peers"], json!([]));
    assert_eq!(first["counts"], json!({ "watching": 1, "holders": 1, "partial": 0 }));

    let second = join(&mut visitor, "none");
    assert_eq!(second["peers"], json!([{ "peer": first["peer"], "have": "all" }]));
    assert_eq!(second["counts"], json!({ "watching": 2, "holders": 1, "partial": 0 }));
    let joined = holder.receive_event("peer_joined");
    assert_eq!(joined, json!({ "peer": second["peer"], "have": "none" }));

    drop(visitor);
    assert_eq!(holder.receive_event("peer_left"), json!({ "peer": second["peer"] }));
}

#[test]
fn a_relayed_segment_arrives_with_its_senders_peer_id_and_is_acknowledged() {
    let server = server();
    let (mut a, mut b) = (Client::connect(server.address()), Client::connect(server.address()));
    let a_id = join(&mut a, "all")["peer"].clone();
    let b_id = join(&mut b, "none")["peer"].clone();

    let mut data = peer_bytes(&a_id).to_vec();
    data.extend_from_slice(b"a segment");
    let reference = b.send_bytes(PAGE, "relay", &data);
    assert_eq!(b.reply_to(&reference), json!({ "status": "ok", "response": {} }));

    let mut expected = peer_bytes(&b_id).to_vec();
    expected.extend_from_slice(b"a segment");
    assert_eq!(a.receive_bytes(), expected);
    assert_eq!(metric(&server, "watchfire_pages_relayed_frames_total"), 1);
}

#[test]
fn a_segment_sent_with_the_join_goes_to_the_first_peer_that_has_the_page() {
    let server = server();
    let (mut a, mut b, mut c) = (
        Client::connect(server.address()),
        Client::connect(server.address()),
        Client::connect(server.address()),
    );
    join(&mut a, "none");
    let first = [&[0; 8][..], b"a request"].concat();
    let refused = a.send_bytes(PAGE, "relay", &first);
    assert_eq!(a.reply_to(&refused)["response"]["reason"], "peer gone", "nobody has it all");

    join(&mut b, "all");
    let joined = join(&mut c, "none");
    let reference = c.send_bytes(PAGE, "relay", &first);
    assert_eq!(c.reply_to(&reference), json!({ "status": "ok", "response": {} }));
    assert_eq!(b.receive_bytes(), [&peer_bytes(&joined["peer"])[..], b"a request"].concat());
}

#[test]
fn a_relayed_frame_beyond_a_limit_is_refused() {
    let mut settings = settings();
    settings.section_mut::<watchfire_pages::PageLimits>().relay_frame_bytes_max = 100;
    settings.section_mut::<watchfire_pages::PageLimits>().relay_bytes_per_second_per_peer = 150;
    let server = start(settings);
    let (mut a, mut b) = (Client::connect(server.address()), Client::connect(server.address()));
    let a_id = join(&mut a, "all")["peer"].clone();
    join(&mut b, "none");
    let mut relay = |to: [u8; 8], bytes: usize| {
        let mut data = to.to_vec();
        data.resize(8 + bytes, 0);
        let reference = b.send_bytes(PAGE, "relay", &data);
        b.reply_to(&reference)["response"].clone()
    };
    let too_large = json!({ "reason": "relay frame too large", "max": 100 });
    assert_eq!(relay(peer_bytes(&a_id), 93), too_large);
    assert_eq!(relay([1; 8], 9)["reason"], "peer gone");
    let spent = (0..100).map(|_| relay(peer_bytes(&a_id), 92)).find(|reply| *reply != json!({}));
    let spent = spent.expect("the budget is limited");
    assert_eq!(spent["reason"], "relay budget");
    assert!(spent["retry_after_ms"].as_u64().unwrap() > 0);
}

#[test]
fn waiting_peers_are_notified_when_the_page_becomes_available_and_unavailable() {
    let server = server();
    let (mut waiting, mut holder) =
        (Client::connect(server.address()), Client::connect(server.address()));
    join(&mut waiting, "none");
    join(&mut holder, "none");
    assert_eq!(holder.push(PAGE, "have", json!({ "have": "all" }))["status"], "ok");
    assert_eq!(waiting.receive_event("available"), json!({}));
    drop(holder);
    assert_eq!(waiting.receive_event("unavailable"), json!({}));
    assert!(support::metrics(&server).contains("watchfire_pages_available 0"));
}

#[test]
fn an_invalid_page_or_payload_is_refused_with_a_reason() {
    let server = server();
    let mut client = Client::connect(server.address());
    for name in ["", "hello", "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH", "BAFKREI"] {
        let reply = client.join(&format!("page:{name}"), json!({ "have": "none" }));
        assert_eq!(reply["response"]["reason"], "not a CID", "{name}: {reply}");
    }
    let with_key = |key: Value| json!({ "have": "none", "peer_key": key });
    let keys = [json!("a".repeat(15)), json!("a".repeat(65)), json!(7), json!(["a".repeat(16)])];
    let payloads = [json!({}), json!({ "have": "much" }), json!(null), json!([1])];
    for payload in payloads.into_iter().chain(keys.map(with_key)) {
        let reply = client.join(PAGE, payload.clone());
        assert_eq!(reply["response"]["reason"], "bad join", "{payload}");
        let message = reply["response"]["message"].as_str().expect("a message");
        assert!(message.contains("peer_key") && message.contains("have"), "{message}");
    }
}

#[test]
fn a_peer_with_a_key_has_the_same_id_at_every_server_and_nobody_else_can_take_it() {
    let (home, other) = (server(), server());
    let key = "0123456789abcdef";
    let join = |server: &RunningServer, key: &str| {
        let mut client = Client::connect(server.address());
        let reply = client.join(PAGE, json!({ "have": "none", "peer_key": key }));
        (client, reply["response"]["peer"].as_str().expect("an id").to_owned())
    };
    // The first eight bytes of SHA-256 of the key.
    let id = "9f9f5111f7b27a78";
    let [(mut tab, at_home), (_, elsewhere)] = [join(&home, key), join(&other, key)];
    assert_eq!([&*at_home, &*elsewhere], [id, id]);
    // The id is no key, and a second client gets a random id.
    for key in [key, id] {
        let (_client, other_id) = join(&home, key);
        assert_ne!(other_id, id, "{key}");
    }
    tab.push(PAGE, "phx_leave", json!({}));
    assert_eq!(join(&home, key).1, id, "it is free again");
}

#[test]
fn a_node_is_marked_as_one_and_unknown_kinds_count_as_tabs() {
    let server = server();
    let mut node = Client::connect(server.address());
    let joined = node.join(PAGE, json!({ "have": "all", "kind": "node" }));
    let marked = json!({ "peer": joined["response"]["peer"], "have": "all", "kind": "node" });
    let kinds = [json!("tab"), json!(["node"]), json!("x".repeat(1000)), json!(null), json!(7)];
    let mut others: Vec<Client> = kinds.iter().map(|_| Client::connect(server.address())).collect();
    for (client, kind) in others.iter_mut().zip(kinds) {
        let joined = client.join(PAGE, json!({ "have": "none", "kind": kind }));
        assert_eq!(joined["status"], "ok", "{joined}");
        let peer = joined["response"]["peer"].clone();
        assert_eq!(node.receive_event("peer_joined"), json!({ "peer": peer, "have": "none" }));
        let peers = joined["response"]["peers"].as_array().expect("a list");
        assert!(peers.contains(&marked), "{peers:?}");
        assert_eq!(peers.iter().filter(|peer| peer.get("kind").is_some()).count(), 1);
    }
    let reply = others[0].push(PAGE, "more_peers", json!({}));
    assert!(reply["response"]["peers"].as_array().expect("a list").contains(&marked));
}

#[test]
fn nodes_are_also_counted_separately_if_there_are_any() {
    let server = server();
    let mut tab = Client::connect(server.address());
    let alone = join(&mut tab, "some");
    assert_eq!(alone["counts"], json!({ "watching": 1, "holders": 0, "partial": 1 }));
    let mut node = Client::connect(server.address());
    let joined = node.join(PAGE, json!({ "have": "all", "kind": "node" }));
    let nodes = json!({ "watching": 1, "holders": 1, "partial": 0 });
    let both = json!({ "watching": 2, "holders": 1, "partial": 1, "nodes": nodes });
    assert_eq!(joined["response"]["counts"], both);
    while tab.receive_event("counts") != both {}
    drop(node);
    while tab.receive_event("counts") != json!({ "watching": 1, "holders": 0, "partial": 1 }) {}
}

#[test]
fn a_peer_can_request_more_peers() {
    let server = server();
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        join(client, "all");
    }
    let reply = clients[0].push(PAGE, "more_peers", json!({}));
    let peers = reply["response"]["peers"].as_array().expect("a list");
    assert!((1..=10).contains(&peers.len()), "neighbours and a few holders: {peers:?}");
}

#[test]
fn a_client_that_joined_with_another_number_of_visitors_receives_the_current_one() {
    let server = server();
    let (mut first, mut second) =
        (Client::connect(server.address()), Client::connect(server.address()));
    for client in [&mut first, &mut second] {
        client.join("site", json!({}));
        while client.receive_event("visitors") != json!({ "visitors": 2 }) {}
    }
    // Both happen within the second after the last broadcast.
    let mut third = Client::connect(server.address());
    assert_eq!(third.join("site", json!({}))["response"], json!({ "visitors": 3 }));
    drop(second);
    while third.receive_event("visitors") != json!({ "visitors": 2 }) {}
}

#[test]
fn the_number_of_visitors_is_sent_to_clients_that_joined_the_topic() {
    let server = server();
    let mut first = Client::connect(server.address());
    assert_eq!(first.join("site", json!({}))["response"], json!({ "visitors": 1 }));
    let _second = Client::connect(server.address());
    loop {
        // An earlier broadcast may not count the second client.
        if first.receive_event("visitors") == json!({ "visitors": 2 }) {
            break;
        }
    }
}

#[test]
fn a_terminal_that_shares_a_page_is_no_visitor() {
    let server = server();
    let mut terminal = Client::connect(server.address());
    let reply = terminal.join(PAGE, json!({ "have": "all", "kind": "node" }));
    assert_eq!(reply["status"], "ok", "{reply}");
    let mut tab = Client::connect(server.address());
    assert_eq!(tab.join("site", json!({}))["response"], json!({ "visitors": 1 }));
    // A reader without the app, as in an element of another site.
    let mut reader = Client::connect(server.address());
    join(&mut reader, "none");
    while tab.receive_event("visitors") != json!({ "visitors": 2 }) {}
    terminal.push(PAGE, "phx_leave", json!({}));
    while tab.receive_event("visitors") != json!({ "visitors": 3 }) {}
}

fn signal(client: &mut Client, to: [u8; 8], text: &[u8]) -> Value {
    let data = [&to[..], text].concat();
    let reference = client.send_bytes(PAGE, "signal", &data);
    client.reply_to(&reference)["response"].clone()
}

#[test]
fn a_signal_arrives_with_its_senders_peer_id_and_does_not_count_as_relayed_bytes() {
    let server = server();
    let (mut a, mut b) = (Client::connect(server.address()), Client::connect(server.address()));
    let a_id = join(&mut a, "all")["peer"].clone();
    let b_id = join(&mut b, "none")["peer"].clone();
    assert_eq!(signal(&mut b, peer_bytes(&a_id), b"{\"kind\":\"offer\"}"), json!({}));
    let expected = [&peer_bytes(&b_id)[..], b"{\"kind\":\"offer\"}"].concat();
    assert_eq!(a.receive_bytes(), expected);
    assert_eq!(metric(&server, "watchfire_pages_signals_total"), 1);
    assert_eq!(metric(&server, "watchfire_pages_relayed_bytes_total"), 0);
}

#[test]
fn a_signal_beyond_a_limit_is_refused() {
    let mut settings = settings();
    settings.section_mut::<watchfire_pages::PageLimits>().signal_bytes_max = 100;
    settings.section_mut::<watchfire_pages::PageLimits>().signals_per_second_per_peer = 1;
    let server = start(settings);
    let (mut a, mut b) = (Client::connect(server.address()), Client::connect(server.address()));
    let a_id = peer_bytes(&join(&mut a, "all")["peer"]);
    let b_id = peer_bytes(&join(&mut b, "none")["peer"]);
    let too_large = json!({ "reason": "signal too large", "max": 100 });
    assert_eq!(signal(&mut b, a_id, &[b'x'; 101]), too_large);
    assert_eq!(signal(&mut b, [0; 8], b"hello")["reason"], "peer gone");
    assert_eq!(signal(&mut b, b_id, b"to myself")["reason"], "peer gone");
    let reference = b.send_bytes(PAGE, "signal", b"short");
    assert_eq!(b.reply_to(&reference)["status"], "error");
    assert_eq!(b.push(PAGE, "signal", json!({}))["response"]["reason"], "signal takes bytes");

    let spent = (0..100).map(|_| signal(&mut b, a_id, b"hello")).find(|reply| *reply != json!({}));
    let spent = spent.expect("the rate is limited");
    assert_eq!(spent["reason"], "too many signals");
    assert!(spent["retry_after_ms"].as_u64().unwrap() > 0);
    // Other peers are not affected.
    a.send_bytes(PAGE, "signal", &[&b_id[..], b"hello"].concat());
    assert_eq!(b.receive_bytes(), [&a_id[..], b"hello"].concat());
}

#[test]
fn the_reply_to_a_join_has_the_stun_port_and_stun_answers_there() {
    let server = server();
    let mut client = Client::connect(server.address());
    let stun = join(&mut client, "none")["stun"].clone();
    let port = stun["port"].as_u64().expect("a port");
    assert_eq!(stun, json!({ "port": port }));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"twelve bytes"].concat();
    socket.send_to(&request, ("127.0.0.1", port as u16)).unwrap();
    let mut response = [0; 100];
    assert_eq!(socket.recv(&mut response).expect("a response arrives"), 32);
    assert_eq!(metric(&server, "watchfire_stun_answers_total"), 1);
}

#[test]
fn stun_uses_the_addresses_of_the_settings() {
    let mut elsewhere = settings();
    elsewhere.section_mut::<StunSettings>().listen = vec!["[::1]:0".parse().unwrap()];
    elsewhere.section_mut::<StunSettings>().announce = "stun.example.org:3478".into();
    let server = start(elsewhere);
    let stun = join(&mut Client::connect(server.address()), "none")["stun"].clone();
    assert_eq!(stun, json!({ "host": "stun.example.org", "port": 3478 }));

    let mut without = settings();
    without.section_mut::<StunSettings>().enabled = false;
    let server = start(without);
    assert_eq!(join(&mut Client::connect(server.address()), "none").get("stun"), None);
    assert!(!support::metrics(&server).contains("watchfire_stun"));

    let mut wrong = settings();
    wrong.section_mut::<StunSettings>().announce = "somewhere".into();
    let error = with_pages(wrong).start().err().expect("the server does not start");
    assert!(error.to_string().contains("stun.announce"), "{error}");

    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut blocked = settings();
    blocked.section_mut::<StunSettings>().listen = vec![taken.local_addr().unwrap()];
    let error = with_pages(blocked).start().err().expect("the server does not start");
    assert!(error.to_string().contains("stun.listen"), "{error}");
}

#[test]
fn a_deny_list_that_cannot_be_read_prevents_the_start() {
    let mut missing = settings_without_operator();
    missing.section_mut::<PageSettings>().deny_file = "/nowhere/denied.txt".into();
    let error = Server::new(missing).with(Pages::new()).start().err().expect("it does not start");
    let refusal = error.of_feature();
    assert!(matches!(refusal, Some(PagesError::DenyFile(_))), "{error:?}");
}

#[test]
fn a_server_with_pages_keeps_its_own_topics() {
    let mut with_api = settings_without_operator();
    with_api.section_mut::<ApiSettings>().key = "a-key-of-the-http-api".into();
    let server = Server::new(with_api)
        .with(Pages::new())
        .with(Api::new())
        .start()
        .expect("the server starts");
    for (topic, status) in
        [("site", 400), ("page:bafk", 400), ("sprites:1", 400), ("phoenix", 400), ("rooms:1", 200)]
    {
        let body = format!(r#"{{"topic":"{topic}","event":"e","payload":{{}}}}"#);
        let request = format!(
            "POST /api/publish HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer a-key-of-the-http-api\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let response = support::http(&server, &request).to_ascii_lowercase();
        assert!(response.starts_with(&format!("http/1.1 {status}")), "{topic}: {response}");
        assert_eq!(response.contains("topic_invalid"), status == 400, "{topic}: {response}");
    }
}

#[test]
fn an_address_that_is_none_prevents_the_start_also_without_a_gateway() {
    let mut announced = settings_without_operator();
    announced.section_mut::<P2pSettings>().announce = vec!["/ip4/1.2.3/tcp/1".into()];
    let text = "p2p: cannot use p2p.announce \"/ip4/1.2.3/tcp/1\": write an address such as";
    let server = || Server::new(announced.clone()).with(Pages::new());
    assert!(server().check().unwrap_err().to_string().starts_with(text));
    assert!(server().start().err().expect("no start").to_string().starts_with(text));
}
