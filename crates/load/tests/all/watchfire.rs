//! Loads against the real server.

use std::net::SocketAddr;

use crate::support::{done, load, scenario};
use watchfire::{ChannelRule, HistoryRule, JoinRule, PublishRule, RunningServer, Server, Settings};
use watchfire_load::Results;

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.server.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings.server.shards = 2;
    settings
}

fn watchfire() -> RunningServer {
    let mut settings = settings();
    settings.section_mut::<watchfire_pages::RoomSettings>().open_rooms = true;
    Server::new(settings).with(watchfire_pages::Pages::new()).start().expect("the server starts")
}

#[test]
fn both_serializers_join_push_and_receive_broadcasts() {
    for version in ["1.0.0", "2.0.0"] {
        let server = watchfire();
        let steps = format!(
            r#"{{ connect = {{ path = "/socket/websocket?vsn={version}" }} }},
               {{ join = {{ topic = "rooms:lobby" }} }},
               {{ push = {{ topic = "rooms:lobby", event = "new_msg", expect = "from ${{id}}!",
                            payload = {{ body = "from ${{id}}!", sent = "${{now}}" }} }} }},
               {{ stay = {{}} }}, {{ leave = {{ topic = "rooms:lobby" }} }}, {{ disconnect = {{}} }}"#
        );
        let results = load(server.address(), &scenario(20, 300, &steps));
        assert_eq!(results.errors_total(), 0, "{version}: {:?}", results.errors);
        let names = ["connect", "join", "push new_msg", "leave", "disconnect"];
        assert_eq!(names.map(|name| done(&results, name)), [20; 5], "{version}");
        let received = results.counts.deliveries;
        assert!(
            (20..=400).contains(&received),
            "{version}: a user receives later messages: {received}"
        );
        assert_eq!(results.delivery.len(), received, "the delay of each message is measured");
    }
}

#[test]
fn a_rejected_join_is_counted_and_the_user_stays() {
    let steps = r#"{ connect = { path = "/socket/websocket?vsn=2.0.0" } },
                   { join = { topic = "unknown:topic" } }, { disconnect = {} }"#;
    let results = load(watchfire().address(), &scenario(3, 30, steps));
    let error = ("join".to_owned(), "reply with an error status".to_owned());
    assert_eq!(results.errors.get(&error), Some(&3), "{:?}", results.errors);
    assert_eq!(done(&results, "disconnect"), 3);
}

#[test]
fn heartbeats_are_sent_and_answered() {
    let steps = r#"{ connect = { path = "/socket/websocket?vsn=2.0.0", heartbeat = "1s" } },
                   { stay = { for = "2500ms" } }"#;
    let server = watchfire();
    let results = load(server.address(), &scenario(2, 20, steps));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    // Replies are not deliveries; each user receives two of 63 bytes.
    assert_eq!(results.counts.deliveries, 0);
    assert!(results.counts.bytes_in > 2 * 2 * 60, "{}", results.counts.bytes_in);
}

#[test]
fn a_broadcast_is_reported_with_audience_receivers_and_delays() {
    let scenario = r#"
        [[phases]]
        duration = "200ms"
        rate = 100
        sessions = ["listener"]
        [[phases]]
        duration = "2s"
        rate = 10
        users_max = 1
        sessions = ["speaker"]
        [[sessions]]
        name = "listener"
        steps = [
          { connect = { path = "/socket/websocket?vsn=2.0.0" } },
          { join = { topic = "rooms:lobby" } },
          { stay = {} },
        ]
        [[sessions]]
        name = "speaker"
        probability = 0
        steps = [
          { connect = { path = "/socket/websocket?vsn=1.0.0" } },
          { join = { topic = "rooms:lobby" } },
          { think = "1200ms" },
          { loop = { times = 3, steps = [
            { push = { topic = "rooms:lobby", event = "new_msg", broadcast = true, name = "news",
                       payload = { body = "to all", sent = "${now}" } } },
            { think = "100ms" },
          ] } },
          { stay = {} },
        ]
        [thresholds]
        broadcasts.missing_max = 0
        broadcasts.last_max = "10s"
    "#;
    let server = watchfire();
    let results = load(server.address(), scenario);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    let broadcasts: Vec<_> = results.broadcasts();
    let counts = broadcasts.iter().map(|one| (one.step.as_str(), one.audience, one.times.len()));
    assert_eq!(counts.collect::<Vec<_>>(), [("news", 21, 21); 3]);
    let is_complete =
        |one: &watchfire_load::Broadcast| one.missing == 0 && !one.times.max().is_zero();
    assert!(broadcasts.iter().all(is_complete), "{broadcasts:?}");
    let thresholds = watchfire_load::Scenario::parse("test.toml", scenario)
        .expect("the scenario is valid")
        .thresholds;
    let verdicts = watchfire_load::judge(&thresholds, &results);
    assert!(verdicts.len() == 2 && verdicts.iter().all(|one| one.is_kept), "{verdicts:?}");
    let table = watchfire_load::table(&results, &verdicts);
    assert!(table.contains("\nbroadcast ") && table.contains("\nall 3 "), "{table}");
    assert_eq!(watchfire_load::json(&results, &verdicts)["broadcasts"][2]["times"]["count"], 21);
}

#[test]
fn readers_of_event_streams_are_connected_and_receive_broadcasts_to_their_topic() {
    let scenario = r#"
        [[phases]]
        duration = "1s"
        rate = 20
        sessions = ["reader", "lost"]
        [[phases]]
        duration = "2s"
        rate = 10
        users_max = 1
        sessions = ["speaker"]
        [[sessions]]
        name = "reader"
        probability = 9
        steps = [
          { connect = { path = "/api/stream?topic=rooms:lobby", serializer = "events", name = "read" } },
          { expect = { text = "to all", name = "heard" } },
          { stay = {} },
        ]
        [[sessions]]
        name = "lost"
        steps = [{ connect = { path = "/api/stream?topic=nowhere", serializer = "events", name = "lost" } }]
        [[sessions]]
        name = "speaker"
        probability = 0
        steps = [
          { connect = { path = "/socket/websocket?vsn=2.0.0" } },
          { join = { topic = "rooms:lobby" } },
          { think = "1200ms" },
          { loop = { times = 3, steps = [
            { push = { topic = "rooms:lobby", event = "new_msg", broadcast = true,
                       payload = { body = "to all", sent = "${now}" } } },
          ] } },
          { stay = {} },
        ]
    "#;
    let server = watchfire();
    let results = load(server.address(), scenario);
    let readers = done(&results, "read");
    let lost = ("lost".to_owned(), "HTTP 404".to_owned());
    assert_eq!(results.errors, [(lost, 20 - readers)].into(), "{:?}", results.errors);
    assert_eq!(done(&results, "heard"), readers);
    let broadcasts = results.broadcasts();
    let counts = broadcasts.iter().map(|one| (one.audience, one.times.len(), one.missing));
    assert_eq!(counts.collect::<Vec<_>>(), [(readers + 1, readers + 1, 0); 3]);
    // Neither the reply to the join nor a comment is a message.
    assert_eq!(results.counts.deliveries, 3 * (readers + 1));
    assert_eq!(results.connected_max, readers + 1);
}

/// Ten users of the measurement, which are away for a second while ten publishers send 15 messages each.
fn cut_off(scenario: &str) -> Results {
    let shorter = [
        ("rate = 2000", "rate = 20"),
        ("rate = 100", "rate = 10"),
        ("user % 100", "user % 10"),
        ("duration = \"5s\"", "duration = \"500ms\""),
        ("duration = \"2s\"", "duration = \"100ms\""),
        ("duration = \"38s\"", "duration = \"1s\""),
        ("duration = \"6s\"", "duration = \"1s\""),
        ("duration = \"24s\"", "duration = \"2s\""),
        ("for = \"16s\"", "for = \"2s\""),
        ("think = \"1s\"", "think = \"200ms\""),
        ("think = \"30s\"", "think = \"1s\""),
        ("times = 60", "times = 15"),
    ];
    let shorter = shorter.iter().fold(scenario.to_owned(), |text, (long, short)| {
        assert!(text.contains(long), "{long}");
        text.replace(long, short)
    });
    let mut settings = settings();
    settings.channels.rules = vec![ChannelRule {
        join: JoinRule::Anyone,
        publish: PublishRule::Clients,
        history: Some(HistoryRule::default()),
        ..ChannelRule::of("kept:*")
    }];
    let server = Server::new(settings).start().expect("the server starts");
    let results = load(server.address(), &shorter);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!((done(&results, "join again"), done(&results, "message")), (10, 150));
    results
}

#[test]
fn users_that_were_cut_off_see_each_message_once_and_in_order() {
    let scenario = include_str!("../../../../experiments/loads/recovery-phoenix.toml");
    let forgetful = scenario.replace("{ history = { after = \"${position}\" } }", "{}");
    assert_ne!(forgetful, scenario);
    let (recovered, forgotten) = std::thread::scope(|scope| {
        let forgotten = scope.spawn(|| cut_off(&forgetful));
        (cut_off(scenario), forgotten.join().expect("the load runs"))
    });
    let counts = |results: &Results| {
        ["in_order_received", "in_order_missing", "in_order_repeated"]
            .map(|name| results.counters[name])
    };
    assert_eq!(counts(&recovered), [300, 0, 0]);
    let again = done(&recovered, "recovered");
    assert!((20..=100).contains(&again), "{again} messages recovered");
    let [received, missing, repeated] = counts(&forgotten);
    assert!(missing >= 20 && received + missing == 300, "{received} received, {missing} missing");
    // A message that was under way when its receiver came back counts as recovered, also without a history.
    assert!(done(&forgotten, "recovered") <= 5 && repeated == 0, "{repeated} repeated");
}

#[test]
fn sprites_are_thrown_and_caught_over_plain_http() {
    let scenario = include_str!("../../../../examples/load/sprites.toml");
    let scenario = scenario.replace("10s\"\nrate = 100", "500ms\"\nrate = 60");
    let scenario = scenario.replace("20s", "2500ms").replace("\"2s\"", "\"300ms\"");
    let scenario = scenario.replace("for = \"5s\"", "for = \"1s\"");
    let results = load(watchfire().address(), &scenario);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!(["join", "leave"].map(|name| done(&results, name)), [30; 2]);
    let (thrown, caught) = (done(&results, "throw"), done(&results, "catch"));
    assert!(thrown >= 60 && thrown == caught, "{thrown} thrown, {caught} caught");
    let measured = results.delivery.len();
    assert!((60..=thrown).contains(&measured), "{thrown} thrown, {measured} with a delay");
}

#[test]
fn a_long_poll_is_repeated_until_the_reply_arrives() {
    let steps = r#"
        { http = { path = "/socket/longpoll?vsn=2.0.0", save = { token = "/token" }, name = "open" } },
        { http = { path = "/socket/longpoll?vsn=2.0.0&token=${token}", name = "join",
                   headers = { content-type = "application/x-ndjson" },
                   body = '["1","1","rooms:lobby","phx_join",{}]' } },
        { longpoll = { path = "/socket/longpoll?vsn=2.0.0&token=${token}", until = "phx_reply", name = "poll" } },"#;
    let results = load(watchfire().address(), &scenario(10, 100, steps));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!(["open", "join", "poll"].map(|name| done(&results, name)), [10; 3]);
}

/// A window throws three sprites while its poll waits.
const WINDOW: &str = r#"
    { http = { path = "/sprites/meadow/join", method = "POST", save = { token = "/token" }, name = "join" } },
    { longpoll = { path = "/sprites/meadow/poll?token=${token}", beside = true, name = "poll" } },
    { think = "600ms" },
    { loop = { times = 3, steps = [
        { http = { path = "/sprites/meadow/throw", delivered = true, contains = "{}", name = "throw", body = {
            token = "${token}", sprite = "${now}", edge = "right", at = 0.5, velocity = { x = 600, y = -40 } } } },
        { think = "300ms" },
    ] } },
    { stay = {} },"#;

/// A load of windows that stay until the sprites of the slowest one have arrived.
fn windows(count: u32, steps: &str) -> String {
    scenario(count, 100, steps) + "[[phases]]\nduration = \"5s\"\nrate = 0\n"
}

fn no_sprite_is_lost(server: SocketAddr) {
    let results = load(server, &windows(20, WINDOW));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!(["join", "throw"].map(|name| done(&results, name)), [20, 60]);
    assert_eq!((results.delivery.len(), results.lost()), (60, 0));
    assert_eq!((results.users_max, results.connected_max, results.counts.finished), (20, 20, 20));
    assert!(done(&results, "poll") > 20, "{} polls", done(&results, "poll"));
}

#[test]
fn a_user_throws_while_its_poll_waits_and_no_sprite_is_lost() {
    no_sprite_is_lost(watchfire().address());
}

/// A program that is killed with the test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill(); // fails only if it has already ended
        let _ = self.0.wait();
    }
}

#[test]
fn the_plain_server_beside_which_sprites_are_measured_loses_none() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/peers/sprites.mjs");
    let mut node = std::process::Command::new("node");
    node.args([script, "127.0.0.1", "0"]).stdout(std::process::Stdio::piped());
    let mut node = Killed(node.spawn().expect("node starts"));
    let mut line = String::new();
    let stdout = node.0.stdout.take().expect("its output is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).expect("it is ready");
    let url = ready["url"].as_str().expect("the event has a URL");
    no_sprite_is_lost(url.trim_start_matches("ws://").parse().expect("an address"));
}

#[test]
fn a_poll_that_fails_ends_its_user() {
    let steps = r#"
        { longpoll = { path = "/sprites/meadow/poll?token=wrong", beside = true, name = "poll" } },
        { expect = { text = "a sprite" } },"#;
    let results = load(watchfire().address(), &scenario(3, 100, steps));
    let errors: Vec<_> = results.errors.iter().collect();
    assert_eq!(errors, [(&("poll".to_owned(), "HTTP 410".to_owned()), &3)]);
    assert_eq!((results.counts.failed, results.counts.cut_off), (3, 0));
}

#[test]
fn users_load_a_page_from_each_other_and_verify_it() {
    let scenario = r#"
        [pages.article]
        random = "50kB"
        [[phases]]
        duration = "500ms"
        rate = 2
        sessions = ["holder"]
        [[phases]]
        duration = "1s"
        rate = 40
        sessions = ["visitor"]
        [[phases]]
        duration = "1s"
        rate = 0
        [[sessions]]
        name = "holder"
        steps = [{ connect = { path = "/socket/websocket?vsn=2.0.0" } },
            { page = { of = "article", has = true } }, { stay = {} }]
        [[sessions]]
        name = "visitor"
        steps = [{ connect = { path = "/socket/websocket?vsn=2.0.0" } }, { join = { topic = "site" } },
            { page = { of = "article" } }, { think = { fixed = "300ms", from = "answer" } }]"#;
    let results = load(watchfire().address(), scenario);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!((done(&results, "page"), results.counts.finished), (41, 41));
    assert!(results.counts.delivery_bytes > 40 * 50_000);
}

#[test]
fn sprites_over_channels_are_counted_if_they_are_lost() {
    let steps = r#"
        { connect = { path = "/socket/websocket?vsn=2.0.0" } },
        { join = { topic = "sprites:meadow" } },
        { think = "600ms" },
        { push = { topic = "sprites:meadow", event = "throw", delivered = true, name = "throw", payload = {
            sprite = "${now}", edge = "right", at = 0.5, velocity = { x = 600, y = -40 } } } },
        { stay = {} },"#;
    let results = load(watchfire().address(), &windows(20, steps));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!((done(&results, "throw"), results.delivery.len(), results.lost()), (20, 20, 0));
    // Alone on its grid, a window gets its sprite back, and nobody receives it.
    let results = load(watchfire().address(), &scenario(1, 100, steps));
    assert_eq!((done(&results, "throw"), results.lost()), (1, 1));
}
