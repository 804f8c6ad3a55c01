//! Promises of `channels.rules` and of tokens, through a whole server.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::{get, settings};
use crate::tokens::{Own, SECRET, message, now, reason, sign};
use crate::{start, with_operator};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use serde_json::{Value, json};
use watchfire::{ChannelRule, Connected, JoinRule, PublishRule, RunningServer, Server, Settings};
use watchfire_testkit::{Client, Received, eventually, response, serve};

fn rule(pattern: &str, join: JoinRule, publish: PublishRule, presence: bool) -> ChannelRule {
    ChannelRule { join, publish, presence, ..ChannelRule::of(pattern) }
}

fn rule_settings() -> Settings {
    use {JoinRule::*, PublishRule::*};
    let mut settings = settings();
    settings.auth.hs256_secret = SECRET.into();
    settings.auth.leeway = Duration::ZERO;
    settings.channels.rules = vec![
        rule("news:secret", Never, Server, false),
        rule("news:*", Anyone, Server, false),
        rule("lobby:*", Anyone, Clients, true),
        rule("orders:*", Token, Clients, true),
        rule("feed:*", Token, Server, false),
    ];
    settings
}

fn rules() -> RunningServer {
    start(rule_settings())
}

fn claims(subject: &str, seconds: u64) -> Value {
    json!({
        "sub": subject,
        "exp": now() + seconds,
        "channels": { "join": ["orders:*", "feed:*"], "publish": ["orders:42"] },
        "meta": { "name": subject },
    })
}

/// A token of a client, valid for this many seconds.
fn token(subject: &str, seconds: u64) -> String {
    sign(&claims(subject, seconds))
}

fn connect(server: &RunningServer, token: &str) -> Client {
    let query = format!("vsn=2.0.0&token={token}");
    Client::connect_with(server.address(), &query).expect("the token is valid")
}

#[test]
fn a_rule_decides_which_clients_may_join() {
    let server = rules();
    let mut client = Client::connect(server.address());
    assert_eq!(client.join("news:today", json!({}))["status"], "ok");
    assert_eq!(reason(&client.join("news:secret", json!({}))), "unauthorized");
    assert_eq!(reason(&client.join("orders:42", json!({}))), "unauthorized");
    assert_eq!(reason(&client.join("other:1", json!({}))), "unmatched topic");
    for payload in [json!(null), json!([]), json!("text"), json!({ "token": null })] {
        assert_eq!(reason(&client.join("orders:42", payload)), "unauthorized");
    }
    for bad in [json!("text"), json!(7), json!({}), json!("x".repeat(1 << 20))] {
        assert_eq!(reason(&client.join("orders:42", json!({ "token": bad }))), "token_invalid");
    }
    let expired = json!({ "token": sign(&json!({ "sub": "1", "exp": now() - 1 })) });
    assert_eq!(reason(&client.join("orders:42", expired.clone())), "token_expired");
    // Also where no token is needed: the client would not be the one that it says.
    assert_eq!(reason(&client.join("news:today", expired)), "token_expired");
    let valid = json!({ "token": token("ada", 60) });
    assert_eq!(client.join("orders:42", valid.clone())["status"], "ok");
    assert_eq!(reason(&client.join("news:secret", valid)), "unauthorized");
}

#[test]
fn the_token_of_a_socket_holds_for_all_its_channels() {
    let server = rules();
    let mut client = connect(&server, &token("ada", 60));
    assert_eq!(client.join("orders:42", json!({}))["status"], "ok");
    assert_eq!(client.join("feed:1", json!({}))["status"], "ok");
    // A token in the payload of a join comes first.
    let other = sign(&json!({ "sub": "bob", "exp": now() + 60 }));
    assert_eq!(reason(&client.join("orders:7", json!({ "token": other }))), "unauthorized");
}

#[test]
fn a_connect_with_an_invalid_token_gets_403() {
    let server = rules();
    for bad in
        ["text".to_owned(), sign(&json!({ "sub": "1", "exp": now() - 1 })), "x".repeat(9_000)]
    {
        let error = Client::connect_with(server.address(), &format!("vsn=2.0.0&token={bad}"))
            .err()
            .unwrap();
        assert!(error.contains("403"), "{error}");
    }
    assert!(Client::connect_with(server.address(), "vsn=2.0.0&token=").is_ok());
}

#[test]
fn without_keys_the_parameter_of_an_application_is_not_read() {
    let mut settings = rule_settings();
    settings.auth = Default::default();
    settings.channels.rules.retain(|rule| rule.join == JoinRule::Anyone);
    let server = start(settings);
    let mut client = connect(&server, "text");
    assert_eq!(client.join("news:1", json!({ "token": "text" }))["status"], "ok");
    assert_eq!(
        reason(&client.push("news:1", "refresh", json!({ "token": "text" }))),
        "unauthorized"
    );
}

#[test]
fn a_message_reaches_every_subscriber_and_its_sender_gets_a_reply() {
    let server = rules();
    let mut ada = connect(&server, &token("ada", 60));
    let mut bob = connect(&server, &token("bob", 60));
    for client in [&mut ada, &mut bob] {
        assert_eq!(client.join("orders:42", json!({}))["status"], "ok");
    }
    ada.send("orders:42", "shipped", json!({ "n": 1 }));
    assert_eq!(bob.receive_event("shipped"), json!({ "n": 1 }));
    assert_eq!(ada.receive_event("shipped"), json!({ "n": 1 }));
    assert_eq!(
        ada.push("orders:42", "shipped", json!({ "n": 2 })),
        json!({ "status": "ok", "response": {} })
    );
    assert_eq!(reason(&ada.push("orders:42", "shipped", json!("text"))), "payload_not_an_object");
}

#[test]
fn a_message_without_the_right_to_send_it_is_refused() {
    let server = rules();
    let mut client = connect(&server, &token("ada", 60));
    for topic in ["orders:42", "orders:7", "feed:1", "news:1", "lobby:1"] {
        assert_eq!(client.join(topic, json!({}))["status"], "ok");
    }
    // The token names only orders:42, and the others are for the server.
    for topic in ["orders:7", "feed:1", "news:1"] {
        assert_eq!(reason(&client.push(topic, "note", json!({}))), "unauthorized", "{topic}");
    }
    assert_eq!(client.push("lobby:1", "note", json!({}))["status"], "ok");
    for event in ["presence_diff", "presence_state", "phx_error", "phx_close", "token_expired"] {
        assert_eq!(reason(&client.push("lobby:1", event, json!({}))), "event_reserved", "{event}");
    }
}

#[test]
fn bytes_are_sent_to_others_too_and_count_as_messages() {
    let mut settings = rule_settings();
    settings.limits.messages_per_second_per_socket = 3;
    let server = start(settings);
    let mut client = Client::connect(server.address());
    client.join("lobby:1", json!({}));
    let refs: Vec<String> =
        (0..20).map(|_| client.send_bytes("lobby:1", "sample", b"\x01\x02\xff")).collect();
    let replies: Vec<Value> =
        refs.iter().map(|reference| reply_to(&mut client, reference)).collect();
    assert_eq!(replies[0]["status"], "ok");
    assert!(replies.iter().any(|reply| reply["response"]["reason"] == "too fast"), "{replies:?}");
}

/// The reply to a message, among the binary broadcasts.
fn reply_to(client: &mut Client, reference: &str) -> Value {
    loop {
        if let Some(message) = client.receive_text()
            && message[1] == reference
        {
            return message[4].clone();
        }
    }
}

#[test]
fn a_client_is_present_under_its_subject_with_the_meta_of_its_token() {
    let server = rules();
    let mut ada = connect(&server, &token("ada", 60));
    ada.join("orders:42", json!({}));
    ada.receive_event("presence_state");
    let mut bob = Client::connect(server.address());
    bob.join("orders:42", json!({ "token": token("bob", 60) }));
    let state = bob.receive_event("presence_state");
    assert_eq!(state["ada"]["metas"][0]["name"], "ada", "{state}");
    assert_eq!(state["bob"]["metas"][0]["name"], "bob", "{state}");

    let mut anonymous = Client::connect(server.address());
    anonymous.join("lobby:1", json!({}));
    let state = anonymous.receive_event("presence_state");
    let keys: Vec<&String> = state.as_object().unwrap().keys().collect();
    assert!(keys.len() == 1 && keys[0].len() == 16, "{state}");
}

#[test]
fn a_channel_closes_when_its_token_expires() {
    let mut settings = rule_settings();
    settings.auth.expiry_notice = Duration::from_secs(60);
    let server = start(settings);
    let mut client = connect(&server, &token("ada", 2));
    client.join("orders:42", json!({}));
    client.join("news:1", json!({}));
    let notice = client.receive_event("token_expiring");
    assert!(notice["expires_in"].as_u64().unwrap() <= 2, "{notice}");
    assert_eq!(client.receive_event("token_expired"), json!({ "reason": "token_expired" }));
    client.receive_event("phx_close");
    // The socket and the channels that need no token stay.
    assert_eq!(reason(&client.push("orders:42", "note", json!({}))), "unmatched topic");
    assert_eq!(reason(&client.join("orders:42", json!({}))), "token_expired");
    assert_eq!(reason(&client.push("news:1", "note", json!({}))), "unauthorized");
}

#[test]
fn a_refresh_keeps_the_channels_of_the_socket() {
    let server = rules();
    let mut client = connect(&server, &token("ada", 3));
    client.join("orders:42", json!({}));
    client.join("orders:7", json!({}));
    let mut short = Client::connect(server.address());
    short.join("orders:42", json!({ "token": token("bob", 3) }));
    for bad in [json!({}), json!({ "token": "text" }), json!("text")] {
        assert_eq!(reason(&client.push("orders:42", "refresh", bad)), "token_invalid");
    }
    let other = json!({ "token": token("bob", 60) });
    assert_eq!(reason(&client.push("orders:42", "refresh", other)), "unauthorized");
    let without = json!({ "token": sign(&json!({ "sub": "ada", "exp": now() + 60 })) });
    assert_eq!(reason(&client.push("orders:42", "refresh", without)), "unauthorized");

    let reply = client.push("orders:42", "refresh", json!({ "token": token("ada", 60) }));
    assert_eq!(reply["status"], "ok", "{reply}");
    assert!((58..=60).contains(&reply["response"]["expires_in"].as_u64().unwrap()), "{reply}");
    // The channel of the other client ends, so the time of both first tokens is over.
    short.receive_event("phx_close");
    for topic in ["orders:42", "orders:7"] {
        let reply = client.push(topic, "refresh", json!({ "token": token("ada", 60) }));
        assert_eq!(reply["status"], "ok", "{topic}: {reply}");
    }
}

#[test]
fn the_sockets_of_a_user_can_be_disconnected() {
    let server = rules();
    let mut client = connect(&server, &token("ada", 60));
    client.join("orders:42", json!({}));
    // The topic of the id is the server's own: a client can neither send to it nor join it.
    for event in ["note", "phx_join", "disconnect"] {
        let reply = client.push("\0users:ada", event, json!({}));
        assert_eq!(reason(&reply), "unmatched topic", "{event}");
    }
    server.endpoint().disconnect("users:ada");
    assert_eq!(client.receive_close(), 1001);
}

#[test]
fn an_application_keeps_its_channels_and_its_data_beside_the_rules() {
    let server = with_operator(rule_settings())
        .channel("orders:own", Own)
        .on_connect(|connect| {
            Ok(match connect.params.text("user") {
                Some(user) => Connected::default().with_assigns(user.to_owned()),
                None => Connected::default(),
            })
        })
        .start()
        .unwrap();
    let query = format!("vsn=2.0.0&user=me&token={}", token("ada", 60));
    let mut client = Client::connect_with(server.address(), &query).unwrap();
    let reply = client.join("orders:own", json!({}));
    assert_eq!(reply, json!({ "status": "ok", "response": { "own": "me" } }));
    assert_eq!(client.join("orders:42", json!({}))["status"], "ok");
}

#[test]
fn a_rule_that_cannot_work_prevents_the_start() {
    let error = |settings: Settings| Server::new(settings).start().err().unwrap().to_string();
    let mut without_key = rule_settings();
    without_key.auth = Default::default();
    let text = error(without_key);
    assert!(text.starts_with("channels.rules: cannot use join = \"token\""), "{text}");
    let mut built_in = rule_settings();
    built_in.channels.rules.push(rule("phoenix", JoinRule::Anyone, PublishRule::Server, false));
    let text = error(built_in.clone());
    assert!(text.contains("it overlaps the server's own topics \"phoenix\""), "{text}");
    assert_eq!(Server::new(built_in).check().unwrap_err().to_string(), text);
    let mut missing = rule_settings();
    missing.auth.public_key_files = vec!["/nowhere/key.pem".into()];
    let text = Server::new(missing).check().unwrap_err().to_string();
    assert!(text.starts_with("auth: cannot read /nowhere/key.pem"), "{text}");
}

/// A server of a JWK set whose every response a test decides.
struct JwksServer {
    address: SocketAddr,
    requests: Receiver<TcpStream>,
}

impl JwksServer {
    fn start() -> JwksServer {
        let (sender, requests) = channel();
        let address = serve(move |stream| drop(sender.send(stream)));
        JwksServer { address, requests }
    }

    /// The next request.
    fn accept(&self) -> TcpStream {
        let stream = self.requests.recv_timeout(Duration::from_secs(20)).expect("a request");
        let Received { head, .. } = Received::read(&mut BufReader::new(&stream)).expect("a head");
        // Key servers behind a firewall refuse requests without these.
        let agent = format!("user-agent: {}\r\n", watchfire_types::USER_AGENT);
        assert!(head.contains(&agent) && head.contains("accept: application/json,"), "{head}");
        stream
    }

    fn answer(&self, body: &str) {
        let mut stream = self.accept();
        // The server may close the connection before it has read a body that is too large.
        stream.write_all(&response("200 OK", &[], body)).ok();
    }

    fn settings(&self) -> Settings {
        let mut settings = rule_settings();
        settings.auth.hs256_secret = String::new();
        settings.auth.jwks_url = format!("http://{}/jwks", self.address);
        settings.auth.jwks_retry = Duration::from_millis(50);
        settings.auth.jwks_timeout = Duration::from_millis(500);
        settings
    }
}

fn jwks(keys: &[(&str, &KeyPair)]) -> String {
    let jwk = |(kid, key): &(&str, &KeyPair)| {
        let x = URL_SAFE_NO_PAD.encode(key.public_key_raw());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x, "use": "sig" })
    };
    json!({ "keys": keys.iter().map(jwk).collect::<Vec<_>>() }).to_string()
}

fn eddsa(kid: &str, key: &KeyPair) -> Value {
    let message = message(&json!({ "alg": "EdDSA", "kid": kid }), &claims("ada", 60));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).unwrap());
    json!({ "token": format!("{message}.{signature}") })
}

/// Joins until the server has the key, as the npm client repeats its joins.
fn join_until_ok(client: &mut Client, params: &Value) {
    eventually("the server fetches the key", || {
        // Gives the thread of the server time; the limit of joins per second applies too.
        std::thread::sleep(Duration::from_millis(50));
        client.join("orders:42", params.clone())["status"] == "ok"
    });
}

#[test]
fn a_new_key_of_a_jwk_set_is_fetched_when_a_token_names_it() {
    let [old, new] = [(); 2].map(|()| KeyPair::generate_for(&PKCS_ED25519).unwrap());
    let keys = JwksServer::start();
    let server = start(keys.settings());
    keys.answer(&jwks(&[("old", &old)]));
    let mut client = Client::connect(server.address());
    join_until_ok(&mut client, &eddsa("old", &old));
    assert_eq!(reason(&client.join("orders:42", eddsa("new", &new))), "token_invalid");
    keys.answer(&jwks(&[("new", &new)]));
    join_until_ok(&mut client, &eddsa("new", &new));
    // The old key is gone from the set.
    assert_eq!(reason(&client.join("orders:42", eddsa("old", &old))), "token_invalid");
}

#[test]
fn a_jwk_set_that_cannot_be_fetched_blocks_no_join_of_a_known_key() {
    let [old, new] = [(); 2].map(|()| KeyPair::generate_for(&PKCS_ED25519).unwrap());
    let keys = JwksServer::start();
    let server = start(keys.settings());
    keys.answer(&jwks(&[("old", &old)]));
    let mut client = Client::connect(server.address());
    join_until_ok(&mut client, &eddsa("old", &old));

    // It hangs: the request gets no response.
    assert_eq!(reason(&client.join("orders:7", eddsa("new", &new))), "token_invalid");
    let hanging = keys.accept();
    assert_eq!(client.join("orders:7", eddsa("old", &old))["status"], "ok");
    // After its timeout the server tries again. Now the set has 10 MB, and is refused.
    keys.answer(&format!("{{\"keys\":[],\"more\":\"{}\"}}", "x".repeat(10 << 20)));
    keys.answer("<html>");
    assert_eq!(client.join("orders:7", eddsa("old", &old))["status"], "ok");
    keys.answer(&jwks(&[("old", &old), ("new", &new)]));
    join_until_ok(&mut client, &eddsa("new", &new));
    drop(hanging);
}

#[test]
fn a_server_is_ready_once_its_jwk_set_was_fetched() {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let keys = JwksServer::start();
    let server = start(keys.settings());
    let condition = |is_met: bool| format!(r#""token_keys":{{"ok":{is_met}}}"#);
    let readyz = || get(&server, "/readyz");
    // The set does not answer, and then it cannot be used.
    let hanging = keys.accept();
    let not_ready = || {
        let health = readyz();
        health.starts_with("HTTP/1.1 503 ") && health.contains(&condition(false))
    };
    assert!(not_ready(), "{}", readyz());
    keys.answer("<html>");
    assert!(not_ready(), "{}", readyz());
    drop(hanging);
    keys.answer(&jwks(&[("kid", &key)]));
    join_until_ok(&mut Client::connect(server.address()), &eddsa("kid", &key));
    let health = readyz();
    assert!(health.starts_with("HTTP/1.1 200 ") && health.contains(&condition(true)), "{health}");
    // Without a JWK set, there is no such condition.
    assert!(!get(&rules(), "/readyz").contains("token_keys"));
}
