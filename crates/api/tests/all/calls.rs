//! The HTTP API in one process: keys, calls and repeats.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use watchfire::{RunningServer, Server, StartError};
use watchfire_api::{Api, ApiKeyError, ApiListen, ApiSettings};
use watchfire_operator::AdminSettings;
use watchfire_testkit::{Answer, Client, Request, exchange};

use crate::support::{admin_address, metric, settings, settings_without_operator};
use crate::{
    KEY, READER, Rooms, api_settings, application, call, call_with, client, message, ok, parse,
    post, request, start,
};

fn requests(server: &RunningServer, method: &str, result: &str) -> u64 {
    let labels = format!("{{method=\"{method}\",result=\"{result}\"}}");
    metric(server, &format!("watchfire_api_requests_total{labels}"))
}

#[test]
fn a_published_message_reaches_every_subscriber_once() {
    let server = start();
    let mut clients: Vec<Client> = (0..4).map(|_| client(&server, "ada")).collect();
    for client in &mut clients {
        client.join("rooms:1", json!({}));
    }
    assert_eq!(ok(&server, "publish", &message("rooms:1", 1)), json!({}));
    assert_eq!(ok(&server, "publish", &message("rooms:1", 2)), json!({}));
    for client in &mut clients {
        let received = [client.receive(), client.receive()].map(|message| message[4]["n"].clone());
        assert_eq!(received, [json!(1), json!(2)]);
    }
    assert_eq!(ok(&server, "publish", &message("rooms:nobody", 1)), json!({}));
    assert_eq!(requests(&server, "publish", "ok"), 3);
    assert_eq!(metric(&server, "watchfire_hub_broadcasts_total"), 3);
}

#[test]
fn a_broadcast_reaches_all_its_topics_and_a_batch_does_its_calls_in_order() {
    let server = start();
    let mut ada = client(&server, "ada");
    ada.join("rooms:1", json!({}));
    ada.join("rooms:2", json!({}));
    let both = json!({ "topics": ["rooms:1", "rooms:2"], "event": "note", "payload": { "n": 1 } });
    ok(&server, "broadcast", &both);
    let topics: BTreeSet<String> =
        [ada.receive(), ada.receive()].map(|message| message[2].as_str().unwrap().into()).into();
    assert_eq!(topics, ["rooms:1".to_owned(), "rooms:2".to_owned()].into());

    let calls = json!({ "calls": [
        { "publish": message("rooms:1", 2) },
        { "publish": message("", 3) },
        { "publish": message("rooms:1", 4) },
    ] });
    let results = ok(&server, "batch", &calls)["results"].clone();
    assert_eq!((&results[0], &results[2]), (&json!({}), &json!({})));
    assert_eq!(results[1]["error"]["code"], "topic_invalid");
    assert_eq!([ada.receive(), ada.receive()].map(|m| m[4]["n"].clone()), [json!(2), json!(4)]);
}

#[test]
fn broadcasts_of_supabases_client_reach_the_channels_of_its_clients() {
    let server = application(api_settings()).channel("realtime:*", Rooms).start();
    let server = server.expect("the server starts");
    let mut ada = client(&server, "ada");
    ada.join("realtime:a b", json!({}));
    let apikey = format!("apikey: {KEY}");
    let of_user = "authorization: Bearer the.token.of-a-user";
    let (json_type, bytes_type) =
        ("content-type: application/json", "content-type: application/octet-stream");
    let send = |lines: &[&str], topics: &[&str]| {
        let message = |topic| json!({ "topic": topic, "event": "shout", "payload": { "n": 1 } });
        let messages: Vec<Value> = topics.iter().map(message).collect();
        let body = json!({ "messages": messages }).to_string();
        post(&server, "/api/broadcast", &[&[json_type], lines].concat(), &body)
    };
    assert_eq!(send(&[&apikey, of_user], &["a b"]).status, 200);
    let heard = json!({ "type": "broadcast", "event": "shout", "payload": { "n": 1 } });
    assert_eq!(ada.receive_event("broadcast"), heard);
    assert_eq!(send(&[of_user], &["a b"]).code(), "unauthorized");
    assert_eq!(send(&[&apikey], &["a b", &"x".repeat(250)]).code(), "topic_invalid");
    let path = "/api/broadcast/a%20b/events/shout?private=true";
    assert_eq!(post(&server, path, &[&apikey, json_type], r#"{"n":1}"#).status, 202);
    assert_eq!(ada.receive()[4], heard, "a call with an invalid topic has sent nothing");
    assert_eq!(post(&server, path, &[&apikey, bytes_type], "bytes").status, 202);
    assert!(ada.receive_frame().ends_with(b"\x04\x0c\x05\0\0realtime:a bshoutbytes"));
    assert_eq!(requests(&server, "broadcast", "ok"), 3);
}

#[test]
fn bytes_are_published_as_a_binary_broadcast_and_skipped_for_v1() {
    let server = start();
    let mut old = Client::connect_with(server.address(), "vsn=1.0.0").expect("it is accepted");
    old.send_v1("rooms:1", "phx_join", json!({}));
    assert_eq!(old.receive()["event"], "phx_reply");
    let mut ada = client(&server, "ada");
    ada.join("rooms:1", json!({}));
    let key = format!("authorization: Bearer {KEY}");
    let lines = [&*key, "content-type: application/octet-stream"];
    let path = "/api/publish?topic=rooms%3A1&event=bin";
    let response = post(&server, path, &lines, "\x01\x02");
    assert_eq!((response.status, response.json), (200, json!({})));
    let mut frame = vec![2, 7, 3];
    frame.extend_from_slice(b"rooms:1bin\x01\x02");
    assert_eq!(ada.receive_frame(), frame);

    ok(&server, "publish", &message("rooms:1", 7));
    assert_eq!(old.receive()["payload"]["n"], 7, "the socket without binary frames stays open");

    for path in [
        "/api/publish",
        "/api/publish?topic=rooms%3A1",
        "/api/publish?topic=rooms%3A%E4&event=bin",
        "/api/broadcast?topic=a&event=b",
    ] {
        let refused = post(&server, path, &lines, "x");
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{path}");
    }
    let reserved = "/api/publish?topic=phoenix&event=b";
    assert_eq!(post(&server, reserved, &lines, "x").code(), "topic_invalid");
}

#[test]
fn a_body_may_be_gzip_and_the_limit_holds_for_what_it_unpacks_to() {
    let mut settings = api_settings();
    settings.section_mut::<ApiSettings>().body_bytes_max = 20_000;
    let server = application(settings).start().expect("the server starts");
    let mut ada = client(&server, "ada");
    ada.join("rooms:1", json!({}));
    let call = |coding: &str, body: &[u8]| {
        let lines = [
            format!("authorization: Bearer {KEY}"),
            "content-type: application/json".to_owned(),
            format!("content-encoding: {coding}"),
        ];
        parse(Request::post("/api/publish", body).lines(lines).to(server.address()))
    };
    let gzip = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    };
    let body = message("rooms:1", 7).to_string();
    for coding in ["gzip", "GZIP"] {
        assert_eq!(call(coding, &gzip(body.as_bytes())).status, 200, "{coding}");
        assert_eq!(ada.receive()[4]["n"], 7);
    }
    assert_eq!(call("identity", body.as_bytes()).status, 200);
    let large = gzip(&b" ".repeat(20_001));
    assert!(large.len() < 1_000);
    assert_eq!(call("gzip", &large).code(), "payload_too_large");
    assert_eq!(call("gzip", body.as_bytes()).code(), "bad_request");
    for coding in ["br", "gzip, gzip"] {
        let refused = call(coding, body.as_bytes());
        assert_eq!((refused.status, refused.code()), (415, "unsupported_encoding"), "{coding}");
        assert!(refused.head.contains("\r\naccept-encoding: gzip"), "{}", refused.head);
    }
}

#[test]
fn a_call_needs_a_key_with_its_scope() {
    let server = start();
    let json_type = "content-type: application/json";
    let of = |method: &str, key: &str| {
        let line = format!("authorization: Bearer {key}");
        post(&server, &format!("/api/{method}"), &[&line, json_type], "{}")
    };
    for method in ["publish", "info", "nothing"] {
        let without = post(&server, &format!("/api/{method}"), &[json_type], "{}");
        assert_eq!((without.status, without.code()), (401, "unauthorized"), "{method}");
        assert!(without.head.contains("www-authenticate: bearer"), "{}", without.head);
        assert_eq!(of(method, "a-key-that-is-wrong").status, 401, "{method}");
        assert_eq!(of(method, &KEY[1..]).status, 401, "{method}");
    }
    for method in ["publish", "broadcast", "batch", "disconnect", "unsubscribe"] {
        let refused = of(method, READER);
        assert_eq!((refused.status, refused.code()), (403, "forbidden"), "{method}");
    }
    assert_eq!(of("info", READER).status, 200);
    assert_eq!(of("nothing", READER).code(), "unknown_method");
    let get = Request::get("/api/info").line(format!("authorization: Bearer {KEY}"));
    let get = parse(get.to(server.address()));
    assert_eq!((get.status, get.code()), (405, "method_not_allowed"));
    assert!(get.head.contains("allow: post"), "{}", get.head);
    assert_eq!(requests(&server, "unknown", "unauthorized"), 3);
    assert_eq!(requests(&server, "publish", "forbidden"), 1);
}

#[test]
fn without_a_key_there_is_no_api() {
    let server = application(settings()).start().expect("the server starts");
    assert_eq!(call(&server, "info", &json!({})).status, 404);
    let mut short = settings();
    short.section_mut::<ApiSettings>().key = "short".into();
    let error = application(short.clone()).start().err().expect("the server does not start");
    assert!(matches!(error.of_feature(), Some(ApiKeyError::Short { .. })), "{error:?}");
    let error = application(short).check().expect_err("the check finds it, too");
    assert!(matches!(error.of_feature(), Some(ApiKeyError::Short { .. })), "{error:?}");
}

#[test]
fn a_server_that_was_not_given_the_feature_refuses_its_keys() {
    let text = "cannot use the section [api]: no feature of this server reads it";
    let mut settings = settings_without_operator();
    settings.section_mut::<ApiSettings>().key = KEY.into();
    let error = Server::new(settings.clone()).start().err().expect("the server does not start");
    assert!(matches!(error, StartError::Unread { feature: "watchfire-api", .. }), "{error:?}");
    let error = Server::new(settings).check().unwrap_err().to_string();
    assert!(error.starts_with(text), "{error}");
}

#[test]
fn the_limits_are_listed_while_there_is_a_key() {
    let limits = |server: &RunningServer| Request::get("/limits").to(server.address()).json();
    let on = limits(&start());
    assert_eq!(on["api"]["requests_max"]["value"], 256);
    assert!(on["limits"].is_object());
    let off = limits(&application(settings()).start().expect("the server starts"));
    assert_eq!(off.get("api"), Some(&Value::Null));
}

#[test]
fn the_admin_listener_serves_the_api_instead_if_the_settings_say_so() {
    let mut settings = api_settings();
    settings.section_mut::<ApiSettings>().listen = ApiListen::Admin;
    settings.section_mut::<AdminSettings>().listen = vec![SocketAddr::from(([0, 0, 0, 0], 0))];
    settings.section_mut::<AdminSettings>().token = "a token of the operator".into();
    let server = application(settings).start().expect("the server starts");
    assert_eq!(call(&server, "info", &json!({})).status, 404, "the public port");
    let address = SocketAddr::from(([127, 0, 0, 1], admin_address(&server).port()));
    let of = |key: &str| {
        let line = format!("authorization: Bearer {key}");
        parse(request("/api/info", &[&line], "").to(address))
    };
    assert_eq!(of(KEY).json["processes"], 1);
    assert_eq!(of("a token of the operator").code(), "unauthorized", "it is no key of the API");
    let line = format!("authorization: Bearer {KEY}");
    assert_eq!(parse(request("/metrics", &[&line], "").to(address)).status, 401);
}

#[test]
fn an_api_for_the_operators_listener_needs_a_feature_that_has_one() {
    let mut settings = api_settings();
    settings.section_mut::<ApiSettings>().listen = ApiListen::Admin;
    assert!(application(settings.clone()).check().is_ok());
    settings.section_mut::<AdminSettings>().listen.clear();
    let closed = application(settings).start().err().expect("there is no listener");
    assert!(matches!(closed.of_feature(), Some(ApiKeyError::NoListener)), "{closed:?}");
    let mut without = settings_without_operator();
    without.section_mut::<ApiSettings>().key = KEY.into();
    without.section_mut::<ApiSettings>().listen = ApiListen::Admin;
    let missing = Server::new(without).with(Api::new()).check().unwrap_err();
    assert_eq!(missing.to_string(), closed.to_string());
}

#[test]
fn a_repeat_with_the_same_idempotency_key_publishes_nothing() {
    let server = start();
    let mut ada = client(&server, "ada");
    ada.join("rooms:1", json!({}));
    let once = |method: &str, key: &str, body: &Value| {
        call_with(&server, method, &[&format!("idempotency-key: {key}")], body)
    };
    let replayed = "idempotency-replayed: true";
    let first = once("publish", "k1", &message("rooms:1", 1));
    assert!(first.status == 200 && !first.head.contains(replayed), "{first:?}");
    let second = once("publish", "k1", &message("rooms:1", 1));
    assert!(second.status == 200 && second.head.contains(replayed), "{second:?}");
    assert_eq!(second.json, first.json);

    let other = once("publish", "k1", &message("rooms:1", 2));
    assert_eq!((other.status, other.code()), (422, "idempotency_conflict"));
    let bad = once("publish", "k2", &message("", 1));
    assert_eq!(bad.code(), "topic_invalid");
    assert_eq!(once("publish", "k2", &message("rooms:1", 3)).status, 200, "errors are not kept");

    let batch = json!({ "calls": [{ "publish": message("rooms:1", 4) }] });
    let results = [once("batch", "k3", &batch), once("batch", "k3", &batch)];
    assert_eq!(results[0].json, results[1].json);
    let long = "k".repeat(256);
    assert_eq!(once("publish", &long, &message("rooms:1", 5)).code(), "bad_request");

    let received = [ada.receive(), ada.receive(), ada.receive()].map(|m| m[4]["n"].clone());
    assert_eq!(received, [json!(1), json!(3), json!(4)]);
    assert_eq!(requests(&server, "publish", "replayed"), 1);
    assert_eq!(metric(&server, "watchfire_api_idempotency_keys"), 3);
}

#[test]
fn a_full_store_of_answers_refuses_new_keys() {
    let mut settings = api_settings();
    settings.section_mut::<ApiSettings>().idempotency_keys_max = 1;
    let server = application(settings).start().expect("the server starts");
    let once = |key: &str| {
        let line = format!("idempotency-key: {key}");
        call_with(&server, "publish", &[&line], &message("rooms:1", 1))
    };
    assert_eq!(once("k1").status, 200);
    let refused = once("k2");
    assert_eq!((refused.status, refused.code()), (429, "too_many"));
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    assert_eq!(once("k1").status, 200);
    assert_eq!(call(&server, "publish", &message("rooms:1", 1)).status, 200, "without a key");
}

#[test]
fn bodies_are_bounded_and_must_say_their_type() {
    let mut settings = api_settings();
    settings.section_mut::<ApiSettings>().body_bytes_max = 200;
    let server = application(settings).start().expect("the server starts");
    let long = json!({ "topic": "t", "event": "e", "payload": { "p": "p".repeat(200) } });
    let refused = call(&server, "publish", &long);
    assert_eq!((refused.status, refused.code()), (413, "payload_too_large"));
    let damaged = format!(
        "POST /api/publish HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {KEY}\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n\r\n"
    );
    let refused = exchange(server.address(), damaged);
    let refused = parse(Answer::parse(refused.as_bytes(), false).expect("an answer"));
    assert_eq!((refused.status, refused.code()), (400, "bad_request"));
    let key = format!("authorization: Bearer {KEY}");
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let line = format!("content-type: {kind}");
        let body = message("t", 1).to_string();
        let refused = post(&server, "/api/publish", &[&key, &line], &body);
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{kind}");
    }
    let charset = "Content-Type: Application/JSON; charset=utf-8";
    let body = message("t", 1).to_string();
    let accepted = post(&server, "/api/publish", &[&key, charset], &body);
    assert_eq!(accepted.status, 200);
    let garbage = post(&server, "/api/publish", &[&key, charset], "{]");
    assert!(garbage.json["error"]["message"].as_str().unwrap().contains("line 1"), "{garbage:?}");
    let deep = "[".repeat(190);
    let deep = post(&server, "/api/info", &[&key, charset], &deep);
    assert_eq!(deep.code(), "bad_request");
}

#[test]
fn presence_is_what_a_client_sees() {
    let server = start();
    let (mut ada, mut also_ada, mut ben) =
        (client(&server, "ada"), client(&server, "ada"), client(&server, "ben"));
    let mut seen = Value::Null;
    for client in [&mut ada, &mut also_ada, &mut ben] {
        client.join("presence:1", json!({}));
        seen = client.receive_event("presence_state");
    }
    let topic = json!({ "topic": "presence:1" });
    let state = ok(&server, "presence", &topic)["presence"].clone();
    assert_eq!(state, seen);
    assert_eq!(state["ada"]["metas"].as_array().unwrap().len(), 2);
    assert_eq!(ok(&server, "presence_stats", &topic), json!({ "keys": 2, "metas": 3 }));
    let empty = json!({ "topic": "presence:2" });
    assert_eq!(ok(&server, "presence", &empty), json!({ "presence": {} }));
    assert_eq!(ok(&server, "presence_stats", &empty), json!({ "keys": 0, "metas": 0 }));
    assert_eq!(call(&server, "presence", &json!({ "topic": "" })).code(), "topic_invalid");
}

#[test]
fn topics_are_listed_a_page_at_a_time() {
    let server = start();
    let mut clients = [client(&server, "ada"), client(&server, "ben"), client(&server, "eve")];
    for client in &mut clients {
        for n in 0..5 {
            client.join(&format!("rooms:{n}"), json!({}));
        }
    }
    clients[0].join("presence:1", json!({}));
    let mut names = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let query = json!({ "prefix": "rooms:", "limit": 2, "cursor": cursor });
        let page = ok(&server, "topics", &query);
        for topic in page["topics"].as_array().unwrap() {
            assert_eq!(topic["subscribers"], 3);
            names.push(topic["topic"].as_str().unwrap().to_owned());
        }
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(names, ["rooms:0", "rooms:1", "rooms:2", "rooms:3", "rooms:4"]);
    let all = ok(&server, "topics", &json!({}));
    assert_eq!(all["topics"].as_array().unwrap().len(), 6, "no topic of an id: {all}");
    assert_eq!(ok(&server, "topics", &json!({ "limit": 1000.0 }))["cursor"], Value::Null);
    for limit in [0, 1_001] {
        assert_eq!(call(&server, "topics", &json!({ "limit": limit })).code(), "bad_request");
    }
}

#[test]
fn unsubscribe_ends_the_channels_of_an_id_and_disconnect_its_sockets() {
    let server = start();
    let (mut ada, mut also_ada, mut ben) =
        (client(&server, "ada"), client(&server, "ada"), client(&server, "ben"));
    for client in [&mut ada, &mut also_ada, &mut ben] {
        client.join("rooms:1", json!({}));
        client.join("rooms:2", json!({}));
    }
    let one = json!({ "id": "users:ada", "topic": "rooms:1" });
    assert_eq!(ok(&server, "unsubscribe", &one), json!({ "channels": 2 }));
    for client in [&mut ada, &mut also_ada] {
        let closed = client.receive();
        assert_eq!((&closed[2], &closed[3]), (&json!("rooms:1"), &json!("phx_close")));
        assert_eq!(
            client.push("rooms:1", "echo", json!({}))["response"]["reason"],
            "unmatched topic"
        );
        assert_eq!(client.push("rooms:2", "echo", json!({}))["status"], "ok");
    }
    assert_eq!(ok(&server, "unsubscribe", &one), json!({ "channels": 0 }));
    ok(&server, "publish", &message("rooms:1", 1));
    assert_eq!(ben.receive()[4], json!({ "n": 1 }));

    let id = json!({ "id": "users:ada" });
    assert_eq!(ok(&server, "disconnect", &id), json!({ "sockets": 2 }));
    assert_eq!([ada.receive_close(), also_ada.receive_close()], [1001, 1001]);
    assert_eq!(ben.push("rooms:1", "echo", json!({}))["status"], "ok");
    assert_eq!(call(&server, "disconnect", &json!({ "id": "" })).code(), "bad_request");
}

#[test]
fn the_history_of_a_topic_is_read_a_page_at_a_time() {
    let server = start();
    let news = |n: u64| json!({ "topic": "news:1", "event": "note", "payload": { "n": n } });
    let positions = [1, 2, 3, 4, 5].map(|n| ok(&server, "publish", &news(n))["position"].clone());
    let numbers = |answer: &Value| -> Vec<u64> {
        let messages = answer["messages"].as_array().unwrap().iter();
        messages.map(|message| message["payload"]["n"].as_u64().unwrap()).collect()
    };
    let last = ok(&server, "history", &json!({ "topic": "news:1", "limit": 4 }));
    assert_eq!(numbers(&last), [2, 3, 4, 5]);
    assert_eq!(last["recovered"], json!(false));
    let of_messages = [0, 1, 2, 3].map(|index| last["messages"][index]["position"].clone());
    assert_eq!(of_messages, positions[1..], "the answers to the publishers have them");
    let after = &last["messages"][0]["position"];
    let page = ok(&server, "history", &json!({ "topic": "news:1", "after": after, "limit": 2 }));
    assert_eq!((numbers(&page), &page["recovered"]), (vec![3, 4], &json!(true)));
    let after = &page["position"];
    let rest = ok(&server, "history", &json!({ "topic": "news:1", "after": after }));
    assert_eq!((numbers(&rest), &rest["position"]), (vec![5], &last["position"]));

    let bytes =
        ["authorization: Bearer a-key-with-every-scope", "content-type: application/octet-stream"];
    let refused = post(&server, "/api/publish?topic=news:1&event=note", &bytes, "x");
    assert_eq!(
        (refused.status, refused.code()),
        (400, "payload_invalid"),
        "a history has no bytes"
    );
    let mut late = client(&server, "late");
    late.join("news:1", json!({ "history": { "last": 1 } }));
    assert_eq!(late.receive()[4]["n"], 5, "a client receives it, too");

    // A number that no float holds is JSON.
    let text = r#"{"topic":"news:2","event":"note","payload":{"n":1e999}}"#;
    let key = format!("authorization: Bearer {KEY}");
    let lines = [&*key, "content-type: application/json"];
    assert_eq!(post(&server, "/api/publish", &lines, text).status, 200);
    let kept = request("/api/history", &lines, r#"{"topic":"news:2"}"#).to(server.address());
    let kept = kept.text();
    assert!(kept.contains(r#""payload":{"n":1e999}"#), "{kept}");

    let topics = json!({ "topics": ["news:3", "rooms:1"], "event": "note", "payload": {} });
    assert_eq!(ok(&server, "broadcast", &topics), json!({}), "several topics have no one position");
    let batch = json!({ "calls": [{ "broadcast": topics }, { "publish": news(6) }] });
    let results = ok(&server, "batch", &batch)["results"].clone();
    let end = ok(&server, "history", &json!({ "topic": "news:1" }))["position"].clone();
    assert_eq!(results, json!([{}, { "position": end }]));

    for after in ["zz:1", "-1", "", "a:99999999999999999999"] {
        let lost = ok(&server, "history", &json!({ "topic": "news:1", "after": after }));
        assert_eq!((numbers(&lost), &lost["recovered"]), (vec![], &json!(false)), "{after:?}");
    }
    for (call_of, code) in [
        (json!({ "topic": "rooms:1" }), "topic_invalid"),
        (json!({ "topic": "news:1", "limit": 0 }), "bad_request"),
        (json!({ "topic": "news:1", "limit": 1_001 }), "bad_request"),
        (json!({}), "bad_request"),
    ] {
        assert_eq!(call(&server, "history", &call_of).code(), code, "{call_of}");
    }
}
