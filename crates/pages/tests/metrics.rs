//! `/metrics`: what each metric counts, and the page that describes them.

#[path = "../../server/tests/all/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::json;
use support::{get, metric, metrics, settings};
use watchfire::{RunningServer, Server};
use watchfire_testkit::{Client, Request, eventually};

const PAGE: &str = include_str!("../../../docs/reference/metrics.md");

/// Metrics that this test's server does not have: they need certificates, a backend, several
/// processes, several machines, or libp2p peers.
const OF_OTHER_SERVERS: &[&str] = &[
    "watchfire_tls_",
    "watchfire_hooks_",
    "watchfire_history_",
    "watchfire_bus_",
    "watchfire_nats_",
    "watchfire_cluster_",
    "watchfire_p2p_",
];

const API_KEY: &str = "a-key-of-this-test";

fn start() -> RunningServer {
    let mut settings = settings();
    settings.section_mut::<watchfire_pages::RoomSettings>().open_rooms = true;
    settings.section_mut::<watchfire_pages::PageSettings>().count_referrers = true;
    settings.section_mut::<watchfire_api::ApiSettings>().key = API_KEY.into();
    // Nothing listens there.
    settings.section_mut::<watchfire_pages::NeighbourSettings>().servers =
        vec!["http://127.0.0.1:1".into()];
    Server::new(settings)
        .with(watchfire_pages::Pages::new())
        .with(watchfire_operator::Operator::new())
        .with(watchfire_api::Api::new())
        .start()
        .expect("the server starts")
}

/// One call of the HTTP API, which is counted.
fn call_api(server: &RunningServer) {
    let body = json!({ "topic": "rooms:1", "event": "note", "payload": {} }).to_string();
    let request = Request::post("/api/publish", body)
        .line(format!("authorization: Bearer {API_KEY}"))
        .line("content-type: application/json");
    let answer = request.to(server.address());
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The rows of a table of the page, up to this heading, by their first cell.
fn rows_before(heading: &str) -> BTreeMap<&'static str, Vec<&'static str>> {
    let (part, _) = PAGE.split_once(heading).expect("the page has the heading");
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        (cells[0].trim_matches('`'), cells)
    })
    .collect()
}

/// The names of the labels of a series, apart from that of a bucket.
fn labels_of(series: &str) -> BTreeSet<&str> {
    let labels = series.split_once('{').map_or("", |(_, labels)| labels);
    let names = labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name);
    names.filter(|name| *name != "le").collect()
}

#[test]
fn the_page_describes_every_metric_of_a_server_with_its_type_and_labels() {
    let server = start();
    let mut client = Client::connect(server.address());
    client.join("unknown", json!({}));
    call_api(&server);
    let mut described = rows_before("## Refusals");
    let text = metrics(&server);
    let families = text.split("# HELP ").skip(1);
    for family in families {
        let mut lines = family.lines().skip(1);
        let (name, kind) = lines
            .next()
            .and_then(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
            .expect("the type follows the help");
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        let row = described.remove(&*name).unwrap_or_else(|| panic!("{name} is not on the page"));
        assert_eq!(row[1], kind, "{name}");
        let labels: BTreeSet<_> = row[3].split(", ").map(|label| label.trim_matches('`')).collect();
        let labels: BTreeSet<_> = labels.into_iter().filter(|label| !label.is_empty()).collect();
        for series in lines.filter(|line| line.starts_with(&name)) {
            assert_eq!(labels_of(series), labels, "{series}");
        }
    }
    described.retain(|name, _| !OF_OTHER_SERVERS.iter().any(|start| name.starts_with(start)));
    assert!(described.is_empty(), "the server does not have {:?}", described.keys());
}

/// All source files of the server.
fn sources(folder: &std::path::Path) -> String {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| match path.is_dir() {
        true => sources(&path),
        false => std::fs::read_to_string(path).expect("text"),
    });
    texts.collect()
}

#[test]
fn the_page_describes_every_reason_for_a_refusal() {
    let (_, part) = PAGE.split_once("## Refusals").expect("the page has the heading");
    let (part, _) = part.split_once("\n## ").expect("another heading follows");
    let rows = part.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let described: BTreeSet<_> = rows
        .flat_map(|(cell, _)| cell.split(", "))
        .map(|reason| reason.trim_matches('`'))
        .collect();
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let code: String = ["server", "pages", "operator"]
        .map(|name| sources(&crates.join(name).join("src")))
        .concat();
    let counted = code.split("refused(\"").skip(1).filter_map(|rest| rest.split('"').next());
    let counted: Vec<_> = counted.collect();
    assert!(counted.len() > 20, "{counted:?}");
    for reason in counted {
        assert!(described.contains(reason), "the page lacks the reason {reason}");
    }
    for reason in &described {
        assert!(code.contains(&format!("\"{reason}\"")), "no code counts {reason}");
    }
}

fn histogram(server: &RunningServer, name: &str) -> (f64, u64) {
    let text = metrics(server);
    let value = |suffix: &str| {
        let start = format!("{name}_{suffix} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{name} is missing")).parse::<f64>().expect("a number")
    };
    let infinite = format!("{name}_bucket{{le=\"+Inf\"}} {}", value("count"));
    assert!(text.lines().any(|line| line == infinite), "{infinite} is missing in\n{text}");
    (value("sum"), value("count") as u64)
}

#[test]
fn a_broadcast_is_observed_once_for_each_event_loop_and_a_join_once() {
    let server = start();
    // The kernel spreads connections over two event loops.
    let mut clients: Vec<_> = (0..10).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        client.join("rooms:lobby", json!({}));
    }
    let joins = || histogram(&server, "watchfire_channels_join_seconds");
    eventually("all joins are observed", || joins().1 == 10);
    let (sum, _) = joins();
    assert!(sum > 0.0 && sum < 20.0, "{sum}");
    assert_eq!(histogram(&server, "watchfire_hub_fan_out_subscribers"), (0.0, 0));
    clients[0].send("rooms:lobby", "new_msg", json!({ "body": "hello" }));
    for client in &mut clients {
        client.receive_event("new_msg");
    }
    // The observation follows the last write, and topics are counted ten times a second.
    let fan_out = || histogram(&server, "watchfire_hub_fan_out_subscribers");
    eventually("all subscribers are observed", || fan_out().0 == 10.0);
    let loops = fan_out().1;
    eventually("each event loop has the topic", || {
        metric(&server, "watchfire_hub_topics") == loops
    });
    let (seconds, count) = histogram(&server, "watchfire_hub_broadcast_seconds");
    assert_eq!(count, loops);
    assert!(seconds > 0.0 && seconds < 20.0, "{seconds}");
}

#[test]
fn http_answers_connections_and_closes_are_counted() {
    let server = start();
    let (_, before) = histogram(&server, "watchfire_sockets_http_seconds");
    for _ in 0..3 {
        get(&server, "/healthz");
    }
    // An event loop counts after it has sent the answer.
    eventually("the answers are counted", || {
        histogram(&server, "watchfire_sockets_http_seconds").1 - before == 3
    });
    let client = Client::connect(server.address());
    let websockets = r#"watchfire_sockets_connections{state="websocket"}"#;
    eventually("the socket is counted", || metric(&server, websockets) == 1);
    assert_eq!(metric(&server, r#"watchfire_sockets_closes_total{reason="client"}"#), 0);
    drop(client);
    eventually("the socket is gone", || metric(&server, websockets) == 0);
    eventually("its close is counted", || {
        metric(&server, r#"watchfire_sockets_closes_total{reason="client"}"#) == 1
    });
    assert_eq!(metric(&server, r#"watchfire_sockets_closes_total{reason="late"}"#), 0);
    assert!(metric(&server, "watchfire_sockets_connections_max") > 100);
}

#[test]
fn an_event_loop_that_works_is_busy() {
    let server = start();
    let busy = || {
        let text = metrics(&server);
        let series = "watchfire_sockets_shard_busy_seconds_total{process=\"0\",shard=\"";
        let lines = text.lines().filter_map(|line| line.strip_prefix(series));
        let values: Vec<f64> =
            lines.map(|line| line.rsplit(' ').next().unwrap().parse().expect("a number")).collect();
        assert_eq!(values.len(), 2, "one for each event loop");
        values.iter().sum::<f64>()
    };
    let before = busy();
    let start = Instant::now();
    for _ in 0..200 {
        get(&server, "/limits");
    }
    let worked = busy() - before;
    // Two event loops cannot work longer than twice the time that has passed.
    assert!(worked > 0.0 && worked <= 2.0 * start.elapsed().as_secs_f64() + 0.1, "{worked}");
}
