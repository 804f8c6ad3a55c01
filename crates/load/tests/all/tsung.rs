//! Elements of Tsung that decide when users come, wait and end, and that change the protocol. The
//! rest runs beside Tsung itself, in `tests/interop/tsung`.

use std::time::Duration;

use tungstenite::Message;

use crate::support::{Seen, done, http_server, ok, path, tsung, websocket_server};

/// One phase in which these users arrive within 50 ms.
fn users(count: u32) -> String {
    format!(
        r#"<arrivalphase phase="1" duration="2" unit="second">
        <users maxnumber="{count}" arrivalrate="1000" unit="second"/></arrivalphase>"#
    )
}

/// A session of HTTP.
fn session(name: &str, steps: &str) -> String {
    format!(r#"<session name="{name}" probability="100" type="ts_http">{steps}</session>"#)
}

fn get(url: &str) -> String {
    format!(r#"<request subst="true"><http url="{url}" method="GET"/></request>"#)
}

/// A server of HTTP, and the paths that were requested, with the number of the connection.
fn noting_server() -> (std::net::SocketAddr, Seen) {
    let seen = Seen::default();
    let noted = seen.clone();
    let address = http_server(move |connection, head| {
        noted.push(format!("{connection} {}", path(head)));
        ok("")
    });
    (address, seen)
}

/// The paths without the numbers of their connections.
fn paths(seen: &Seen) -> Vec<String> {
    let paths = seen.all().into_iter();
    paths.map(|line| line.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
}

#[test]
fn users_that_wait_for_each_other_go_on_together() {
    let (address, seen) = noting_server();
    let steps = get("/before") + r#"<thinktime value="wait_global"/>"# + &get("/after");
    let results = tsung(address, &users(8), &session("a", &steps));
    assert_eq!((results.counts.finished, results.errors_total()), (8, 0));
    let first_after = paths(&seen).iter().position(|path| path == "/after").unwrap();
    assert!(first_after >= 4, "four meet: {:?}", seen.all());
}

#[test]
fn a_connection_is_kept_while_the_session_speaks_another_protocol() {
    let (address, seen) = noting_server();
    let heard = Seen::default();
    let hearing = heard.clone();
    let websockets = websocket_server(move |socket| {
        loop {
            if let Message::Text(text) = socket.read()? {
                hearing.push(text.as_str());
                socket.send(Message::text(format!("token={text}!")))?;
            }
        }
    });
    let change = |kind: &str, port: u16, keep: &str| {
        format!(
            r#"<change_type new_type="{kind}" host="127.0.0.1" port="{port}" server_type="tcp" {keep}/>"#
        )
    };
    let (http_port, websocket_port) = (address.port(), websockets.port());
    let say = |text: &str| {
        format!(
            r#"<request subst="true"><dyn_variable name="token" re="token=(.*)!"/>
            <websocket type="message" frame="text">{text}</websocket></request>"#
        )
    };
    let steps = get("/login")
        + &change("ts_websocket", websocket_port, r#"store="true""#)
        + r#"<request><websocket type="connect" path="/"/></request>"#
        + &say("one")
        + &change("ts_http", http_port, r#"store="true" restore="true""#)
        + &get("/with/%%_token%%")
        + &change("ts_websocket", websocket_port, r#"restore="true""#)
        + &say("two %%_token%%");
    let results = tsung(address, &users(1), &session("a", &steps));
    assert_eq!((results.counts.finished, results.errors_total()), (1, 0), "{:?}", results.errors);
    assert_eq!(seen.all(), ["0 /login", "0 /with/one"], "over the same connection");
    assert_eq!(heard.all(), ["one", "two one"]);
    assert_eq!(results.connected_max, 1);
}

#[test]
fn a_rate_limit_slows_what_a_user_receives() {
    let address = http_server(|_, _| ok(&"x".repeat(96 << 10)));
    let limit = r#"<set_option name="rate_limit" value="64"/>"#;
    let results = tsung(address, &users(1), &session("a", &(limit.to_owned() + &get("/"))));
    assert_eq!((results.counts.finished, results.errors_total()), (1, 0), "{:?}", results.errors);
    let step = results.steps.iter().find(|step| step.name == "GET /").unwrap();
    let time = step.begun.max();
    // The first 64 KiB are the burst; the other 32 take half a second.
    assert!((Duration::from_millis(400)..Duration::from_secs(5)).contains(&time), "{time:?}");
}

#[test]
fn a_phase_may_wait_for_its_users_and_choose_its_sessions() {
    let (address, seen) = noting_server();
    let phase = |number: u32, waits: bool, name: &str| {
        format!(
            r#"<arrivalphase phase="{number}" duration="100" unit="millisecond" wait_all_sessions_end="{waits}">
            <session_setup name="{name}" probability="100"/>
            <users maxnumber="2" arrivalrate="1000" unit="second"/></arrivalphase>"#
        )
    };
    let sessions = session("slow", &(r#"<thinktime value="0.7"/>"#.to_owned() + &get("/slow")))
        + &session("quick", &get("/quick"));
    let results = tsung(address, &(phase(1, true, "slow") + &phase(2, false, "q*")), &sessions);
    assert_eq!(results.counts.finished, 4);
    assert_eq!(paths(&seen), ["/slow", "/slow", "/quick", "/quick"]);
}

#[test]
fn the_duration_of_the_load_holds_also_while_a_phase_waits_for_its_users() {
    let (address, seen) = noting_server();
    let text = format!(
        r#"<tsung><servers><server host="127.0.0.1" port="{}" type="tcp"/></servers>
        <load duration="1" unit="second">
          <arrivalphase phase="1" duration="50" unit="millisecond" wait_all_sessions_end="true">
            <users maxnumber="1" arrivalrate="1000" unit="second"/></arrivalphase>
          <arrivalphase phase="2" duration="50" unit="millisecond">
            <users maxnumber="1" arrivalrate="1000" unit="second"/></arrivalphase></load>
        <sessions>{}</sessions></tsung>"#,
        address.port(),
        session("a", &(get("/a") + r#"<thinktime value="60"/>"#)),
    );
    let results = crate::support::load_source("test.xml", text, None);
    assert_eq!((results.counts.started, results.counts.cut_off), (1, 1));
    assert_eq!(paths(&seen), ["/a"]);
}

#[test]
fn the_phases_may_be_repeated_and_users_may_come_at_a_fixed_time() {
    let (address, seen) = noting_server();
    let text = format!(
        r#"<tsung><servers><server host="127.0.0.1" port="{}" type="tcp"/></servers>
        <load loop="2"><arrivalphase phase="1" duration="50" unit="millisecond">
            <users maxnumber="1" arrivalrate="1000" unit="second"/></arrivalphase>
            <user session="fixed" start_time="20" unit="millisecond"/></load>
        <sessions>{}<session name="fixed" probability="0" type="ts_http">{}</session></sessions></tsung>"#,
        address.port(),
        session("a", &get("/a")),
        get("/fixed"),
    );
    let results = crate::support::load_source("test.xml", text, None);
    assert_eq!(results.counts.finished, 4, "{:?}", results.errors);
    let mut paths = paths(&seen);
    paths.sort();
    assert_eq!(paths, ["/a", "/a", "/a", "/fixed"]);
}

#[test]
fn a_match_may_end_the_load_and_note_the_answer() {
    let address = http_server(|_, head| ok(if path(head) == "/stop" { "stop now" } else { "go" }));
    let steps = r#"<request><match do="dump" name="seen" when="match">go</match><http url="/go"/></request>"#
        .to_owned()
        + r#"<request><match do="abort_test" when="match">stop</match><http url="/stop"/></request>"#
        + &get("/never");
    let results = tsung(address, &users(1), &session("a", &steps));
    assert!(results.is_aborted);
    assert_eq!((results.counts.finished, results.counters["match"]), (1, 2));
    let (table, page) = (watchfire_load::table(&results, &[]), watchfire_load::html(&results, &[]));
    for report in [table, page] {
        assert!(report.contains("2 match, 1 match_stop"), "{report}");
    }
    let noted = &results.matches[0];
    assert_eq!((noted.name.as_str(), noted.step.as_str()), ("seen", "GET /go"));
    assert!(noted.text.as_ref().unwrap().ends_with("\r\n\r\ngo"), "{noted:?}");
    assert!(results.steps.iter().all(|step| step.name != "GET /never" || step.done() == 0));
}

#[test]
fn an_aborted_session_ends_without_an_error() {
    let (address, seen) = noting_server();
    let steps = get("/a") + "<abort/>" + &get("/b");
    let results = tsung(address, &users(2), &session("a", &steps));
    assert_eq!((results.counts.finished, results.errors_total()), (2, 0));
    assert_eq!(paths(&seen), ["/a", "/a"]);
}

#[test]
fn a_url_from_a_variable_may_name_only_a_server_of_the_file() {
    let (address, seen) = noting_server();
    let next = Seen::default();
    let port = address.port();
    let linking = http_server(move |_, head| {
        next.push(path(head));
        ok(&format!(
            r#"{{"known":"http://127.0.0.1:{port}/linked","unknown":"http://127.0.0.1:1/x","path":"/p"}}"#
        ))
    });
    let steps = format!(
        r#"<request><dyn_variable name="known" jsonpath="$.known"/>
        <dyn_variable name="unknown" jsonpath="$.unknown"/><dyn_variable name="path" jsonpath="$.path"/>
        <http url="http://127.0.0.1:{}/links" method="GET"/></request>"#,
        linking.port()
    ) + &get("%%_known%%")
        + &get("%%_path%%")
        + &get("%%_unknown%%");
    let results = tsung(address, &users(1), &session("a", &steps));
    assert_eq!(results.counts.finished, 1);
    assert_eq!(paths(&seen), ["/linked", "/p"]);
    let errors: Vec<_> = results.errors.keys().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(errors, ["the URL names a server that the file does not"]);
}

#[test]
fn a_message_of_the_server_ends_the_wait_for_it() {
    let websockets = websocket_server(|socket| {
        socket.send(Message::text("hello"))?;
        crate::support::echo(socket)
    });
    let steps = r#"<request><websocket type="connect" path="/"/></request>
        <thinktime value="wait_bidi"/>
        <request><websocket type="message" frame="text">x</websocket></request>"#;
    let session =
        format!(r#"<session name="a" probability="100" type="ts_websocket">{steps}</session>"#);
    let results = tsung(websockets, &users(2), &session);
    assert_eq!(
        (results.counts.finished, done(&results, "message")),
        (2, 2),
        "{:?}",
        results.errors
    );
}

#[test]
fn the_number_of_a_loop_may_come_from_an_answer() {
    let address = http_server(|_, head| {
        ok(if path(head) == "/list" {
            r#"{"list":["a","b"]}"#
        } else {
            r#"{"n":-9223372036854775808}"#
        })
    });
    let steps = r#"<request><dyn_variable name="list" jsonpath="$.list"/><http url="/list"/></request>
        <foreach name="x" in="list">
        <request><dyn_variable name="x_iter" jsonpath="$.n"/><http url="/number"/></request></foreach>"#;
    let results = tsung(address, &users(1), &session("a", steps));
    assert_eq!((results.counts.finished, done(&results, "GET /number")), (1, 1));
}

#[test]
fn users_of_an_empty_session_do_nothing_and_end() {
    let (address, seen) = noting_server();
    let sessions = session("a", &get("/a")) + &session("b", "");
    let results = tsung(address, &users(40), &sessions);
    assert_eq!((results.counts.finished, results.errors_total()), (40, 0));
    assert!((1..40).contains(&paths(&seen).len()), "{:?}", seen.all());
}
