//! The behaviour of simulated users, with small test servers.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex};

use crate::support::{
    done, echo, http_server, load, ok, responding, scenario, server, websocket_server,
};
use tungstenite::Message;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use watchfire_load::{LoadOptions, Source};

#[test]
fn users_connect_send_receive_and_disconnect() {
    let steps = r#"
        { connect = { path = "/chat" } },
        { loop = { times = 3, steps = [
            { send = { text = "hello ${id}", expect = "hello ${id}" } },
            { think = "10ms" },
        ] } },
        { send = { text = "bytes", binary = true, reply = true, name = "bytes" } },
        { disconnect = {} },"#;
    let results = load(websocket_server(echo), &scenario(50, 200, steps));

    let names = ["connect", "send", "bytes", "disconnect"];
    assert_eq!(names.map(|name| done(&results, name)), [50, 150, 50, 50]);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!((results.counts.started, results.counts.finished), (50, 50));
    assert_eq!(results.counts.deliveries, 0, "all received messages were expected");
    assert!(results.lateness.len() == 50 && results.connected_max > 0);
}

#[test]
fn a_message_that_the_scenario_wrote_whole_can_expect_its_reply() {
    let address = websocket_server(|socket| {
        assert!(socket.read()?.into_text()?.contains("heartbeat"));
        let reply = r#"[null,"2","phoenix","phx_reply",{"status":"ok","response":{}}]"#;
        socket.send(Message::Text(reply.into()))?;
        echo(socket)
    });
    let steps = r#"
        { connect = { path = "/?vsn=2.0.0" } },
        { send = { text = '[null,"2","phoenix","heartbeat",{}]', expect = "phx_reply" } }"#;
    let results = load(address, &scenario(5, 200, steps));
    assert_eq!((done(&results, "send"), results.errors_total()), (5, 0), "{:?}", results.errors);
    assert_eq!(results.counts.deliveries, 0);
}

#[test]
fn a_repeated_and_a_missing_message_are_counted() {
    let address = websocket_server(|socket| {
        for times in [1, 0, 2, 1] {
            // One text may have several messages, as an answer of Centrifugo has.
            let text = socket.read()?.into_text()?.as_str().repeat(times);
            socket.send(Message::Text(text.into()))?;
        }
        echo(socket)
    });
    let steps = r#"
        { connect = { path = "/" } },
        { loop = { times = 4, steps = [{ send = { text = "${now}", in_order = true } }] } },
        { stay = { for = "1s" } }"#;
    let text = scenario(5, 200, steps)
        + "[thresholds]\nin_order = { missing_max = 4, repeated_max = 5, received_min = 21 }";
    let results = load(address, &text);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    let count = |name| results.counters[name];
    assert_eq!(
        ["in_order_received", "in_order_missing", "in_order_repeated"].map(count),
        [20, 5, 5]
    );
    assert_eq!((done(&results, "recovered"), results.lost()), (0, 0));
    let thresholds = watchfire_load::Scenario::parse("test.toml", &text).unwrap().thresholds;
    let verdicts = watchfire_load::judge(&thresholds, &results);
    let kept = verdicts.iter().map(|one| (one.measured.as_str(), one.is_kept));
    assert_eq!(kept.collect::<Vec<_>>(), [("5", false), ("5", true), ("20", false)]);
}

#[test]
fn an_order_without_messages_is_not_kept() {
    let steps = r#"{ connect = { path = "/" } }, { send = { text = "${now}", in_order = true } }"#;
    let text =
        scenario(1, 100, steps) + "[thresholds]\nin_order = { missing_max = 0, repeated_max = 0 }";
    let silent = websocket_server(|socket| {
        loop {
            socket.read()?;
        }
    });
    let results = load(silent, &text);
    let thresholds = watchfire_load::Scenario::parse("test.toml", &text).unwrap().thresholds;
    let verdicts = watchfire_load::judge(&thresholds, &results);
    assert_eq!(verdicts.iter().map(|one| one.is_kept).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn a_session_keeps_the_last_value_of_its_messages_over_connections() {
    let address = websocket_server(|socket| {
        let message = socket.read()?;
        for text in ["offset 3", "offset 4\noffset 5", "no number"] {
            socket.send(Message::Text(text.into()))?;
        }
        socket.send(message)?;
        echo(socket)
    });
    let steps = r#"
        { connect = { path = "/" } }, { send = { text = "first", expect = "first" } },
        { disconnect = { abrupt = true } },
        { connect = { path = "/" } }, { send = { text = "after ${offset}", expect = "after 5" } }"#;
    let text = scenario(3, 100, steps)
        .replace("steps =", "keep = { offset = { regex = '(?s).*offset ([0-9]+)' } }\nsteps =");
    let results = load(address, &text);
    assert_eq!((done(&results, "send"), results.errors_total()), (6, 0), "{:?}", results.errors);
}

#[test]
fn a_session_can_name_the_server_of_its_users() {
    let counted = || {
        let count = Arc::new(Mutex::new(0));
        let seen = count.clone();
        let address = websocket_server(move |socket| {
            *seen.lock().unwrap() += 1;
            echo(socket)
        });
        (format!("ws://{address}"), count)
    };
    let (servers, counts): (Vec<_>, Vec<_>) = [counted(), counted()].into_iter().unzip();
    for (server, expected) in [(1, [6, 0]), (2, [6, 6]), (9, [6, 12])] {
        let steps = r#"{ connect = { path = "/" } }, { send = { text = "x", reply = true } }"#;
        let text =
            scenario(6, 100, steps).replace("steps =", &format!("server = {server}\nsteps ="));
        let targets = servers.clone();
        let source = Source { name: "server.toml".into(), text, targets, ..Source::default() };
        let results = watchfire_load::run_load(&source, &LoadOptions::default(), |_| {}).unwrap();
        assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
        assert_eq!([0, 1].map(|index| *counts[index].lock().unwrap()), expected);
    }
}

/// A server that cuts each connection after one message, as often as this, and echoes afterwards.
fn cutting(times: usize) -> SocketAddr {
    let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(times));
    websocket_server(move |socket| {
        let message = socket.read()?;
        let cut = left.fetch_update(
            std::sync::atomic::Ordering::Relaxed,
            std::sync::atomic::Ordering::Relaxed,
            |left| left.checked_sub(1),
        );
        if cut.is_ok() {
            return Ok(());
        }
        socket.send(message)?;
        echo(socket)
    })
}

#[test]
fn a_user_connects_again_after_its_connection_broke() {
    let steps = r#"
        { connect = { path = "/" } }, { send = { text = "join", expect = "join" } },
        { think = "10ms" }, { disconnect = {} }"#;
    let text = scenario(4, 200, steps);
    let results = load(cutting(3), &text);
    assert_eq!((results.counts.finished, results.counts.failed), (1, 3), "{:?}", results.errors);

    let again = text.replace("steps =", "reconnect_after = [\"1ms\", \"30ms\"]\nsteps =");
    assert_ne!(again, text);
    let results = load(cutting(6), &again);
    assert_eq!((results.counts.finished, results.errors_total()), (4, 0), "{:?}", results.errors);
    assert_eq!((done(&results, "connect"), done(&results, "send")), (10, 4));
    assert!((2..=4).contains(&done(&results, "return")));
    assert_eq!(results.counters["reconnect"], 6);
}

#[test]
fn users_of_a_server_that_is_gone_return_at_the_others() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let steps = r#"
        { connect = { path = "/" } }, { send = { text = "${user / 3}", reply = true } },
        { stay = {} }"#;
    let text = scenario(9, 200, steps);
    let text = text.replace("steps =", "reconnect_after = [\"5ms\"]\nsteps =");
    let mut source = Source { name: "others.toml".into(), text, ..Source::default() };
    let others = [websocket_server(echo), websocket_server(echo)];
    source.targets = [gone, others[0], others[1]].map(|at| format!("ws://{at}")).to_vec();
    let results = watchfire_load::run_load(&source, &LoadOptions::default(), |_| {}).unwrap();
    assert_eq!((done(&results, "send"), results.errors_total()), (9, 0), "{:?}", results.errors);
    assert_eq!(done(&results, "return"), 3, "a third was at the server that is gone");
}

#[test]
fn an_abrupt_disconnect_sends_no_close_frame_and_the_user_goes_on() {
    let (sender, ends) = std::sync::mpsc::channel();
    let address = websocket_server(move |socket| {
        let end = loop {
            match socket.read() {
                Ok(Message::Close(_)) => break "close frame",
                Ok(_) => {}
                Err(_) => break "no close frame",
            }
        };
        sender.send(end).expect("the test waits for the ends");
        Ok(())
    });
    let steps = r#"
        { connect = { path = "/" } }, { disconnect = { abrupt = true, name = "cut" } },
        { connect = { path = "/" } }, { disconnect = {} }"#;
    let results = load(address, &scenario(20, 200, steps));
    let names = ["connect", "cut", "disconnect"];
    assert_eq!(names.map(|name| done(&results, name)), [40, 20, 20]);
    assert_eq!((results.errors_total(), results.counts.finished), (0, 20), "{:?}", results.errors);
    let ends: Vec<_> = ends.iter().take(40).collect();
    assert_eq!(ends.iter().filter(|end| **end == "close frame").count(), 20);
}

#[test]
fn pings_are_answered_and_fragments_are_assembled() {
    let address = websocket_server(|socket| {
        socket.read()?;
        socket.send(Message::Ping("are you there?".into()))?;
        let answer = socket.read()?;
        assert_eq!(answer, Message::Pong("are you there?".into()));
        let frame = |payload: &'static str, data, is_final| {
            Message::Frame(Frame::message(payload, OpCode::Data(data), is_final))
        };
        socket.write(frame("I am ", Data::Text, false))?;
        socket.write(Message::Ping("between".into()))?;
        socket.write(frame("here", Data::Continue, true))?;
        socket.flush()?;
        echo(socket)
    });
    let steps = r#"{ connect = { path = "/" } }, { send = { text = "x", expect = "I am here" } }"#;
    let results = load(address, &scenario(3, 50, steps));
    assert_eq!((done(&results, "send"), results.errors_total()), (3, 0), "{:?}", results.errors);
}

#[test]
fn messages_of_any_size_are_sent_and_received() {
    for len in [0, 125, 126, 70_000, 900_000] {
        let text = "m".repeat(len);
        let steps = format!(
            "{{ connect = {{ path = \"/\" }} }}, {{ send = {{ text = \"{text}\", reply = true }} }}"
        );
        let results = load(websocket_server(echo), &scenario(2, 20, &steps));
        assert_eq!((done(&results, "send"), results.errors_total()), (2, 0), "{len}");
    }
}

#[test]
fn unexpected_messages_count_as_deliveries() {
    let address = websocket_server(|socket| {
        for _ in 0..5 {
            socket.send("news".into())?;
        }
        echo(socket)
    });
    let steps = r#"{ connect = { path = "/" } }, { send = { text = "last", expect = "last" } }"#;
    let results = load(address, &scenario(4, 40, steps));
    assert_eq!((results.counts.deliveries, results.counts.delivery_bytes), (20, 80));
}

#[test]
fn users_above_users_max_are_turned_away_and_counted() {
    let steps = r#"{ connect = { path = "/" } }, { stay = {} }"#;
    let scenario = format!("users_max = 7\n{}", scenario(20, 100, steps));
    let results = load(websocket_server(echo), &scenario);
    assert_eq!((results.counts.started, results.counts.turned_away), (7, 13));
    assert_eq!((results.users_max, results.counts.finished), (7, 7));
}

/// The server answers once three requests are pending, so it never answers if fewer may be.
#[test]
fn users_above_opening_max_arrive_when_earlier_ones_are_answered() {
    #[derive(Default)]
    struct Requests {
        all: usize,
        pending: usize,
        pending_max: usize,
    }
    let shared = Arc::new((Mutex::new(Requests::default()), Condvar::new()));
    let seen = Arc::clone(&shared);
    let address = http_server(move |_, _| {
        let mut requests = seen.0.lock().unwrap();
        requests.all += 1;
        requests.pending += 1;
        requests.pending_max = requests.pending_max.max(requests.pending);
        let group_end = requests.all.next_multiple_of(3);
        seen.1.notify_all();
        let mut requests = seen.1.wait_while(requests, |now| now.all < group_end).unwrap();
        requests.pending -= 1;
        ok("")
    });
    let steps = r#"{ http = { path = "/" } }"#;
    let text = format!("opening_max = 3\n{}", scenario(12, 20, steps));
    let results = load(address, &text);
    assert_eq!((results.counts.started, results.counts.finished), (12, 12));
    assert_eq!((results.counts.turned_away, results.errors_total()), (0, 0));
    let requests = shared.0.lock().unwrap();
    assert_eq!((requests.all, requests.pending_max), (12, 3));
}

#[test]
fn a_user_that_fails_makes_room_for_another_one() {
    let steps = r#"{ connect = { path = "/" } }"#;
    let text = format!("opening_max = 1\n{}", scenario(5, 20, steps));
    let results = load(server(drop), &text);
    assert_eq!((results.counts.started, results.errors_total()), (5, 5));
}

#[test]
fn sessions_are_chosen_by_probability_and_servers_by_weight() {
    let text = r#"
        [[phases]]
        duration = "200ms"
        rate = 5000
        [[sessions]]
        probability = 75
        steps = [{ http = { path = "/often" } }]
        [[sessions]]
        probability = 25
        steps = [{ http = { path = "/rarely" } }]"#;
    let results = load(responding(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), text);
    let (often, rarely) = (done(&results, "GET /often"), done(&results, "GET /rarely"));
    assert_eq!(often + rarely, 1000);
    assert!((200..300).contains(&rarely), "{rarely}");
}

#[test]
fn requests_of_a_user_share_a_connection_and_saved_values() {
    // The second request depends on the response to the first.
    let address = server(|mut stream| {
        use std::io::Write as _;
        let mut buffer = [0; 4096];
        let mut value = "t0k3n".to_owned();
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            let request = String::from_utf8_lossy(&buffer[..len]).into_owned();
            if request.starts_with("POST /echo/t0k3n") {
                value = request.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned();
            }
            let body = format!("{{\"value\":\"{value}\"}}");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    });
    let steps = r#"
        { http = { path = "/token", save = { token = "/value" }, name = "token" } },
        { http = { path = "/echo/${token}", body = "for ${id}", contains = "for ${id}", name = "echo" } },
        { http = { path = "/other", save = { missing = "/nowhere" }, name = "other" } },"#;
    let results = load(address, &scenario(5, 50, steps));
    assert_eq!(done(&results, "echo"), 5, "{:?}", results.errors);
    assert_eq!(results.errors.len(), 1);
    let (step, kind) = results.errors.keys().next().unwrap();
    assert_eq!((step.as_str(), kind.as_str()), ("other", "no value to save in the answer"));
    assert_eq!(results.counts.finished, 5, "a wrong response must not end a user");
}

#[test]
fn errors_of_a_server_are_counted_by_kind() {
    const CONNECT: &str = r#"{ connect = { path = "/" } }, { expect = {} }"#;
    const GET: &str = r#"{ http = { path = "/", name = "get" } }"#;
    const UPGRADE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n";
    // A bound port without a listener: another server could take a free port meanwhile.
    let not_listening =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    not_listening.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let refusing = not_listening.local_addr().unwrap().as_socket().unwrap();
    let resetting = server(|stream| {
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(std::time::Duration::ZERO)).expect("linger can be set");
    });
    let closing = websocket_server(|socket| {
        let code = tungstenite::protocol::frame::coding::CloseCode::Again;
        socket.close(Some(tungstenite::protocol::CloseFrame { code, reason: "".into() }))?;
        echo(socket)
    });
    let sending = |frame: &'static [u8]| {
        websocket_server(move |socket| {
            use std::io::Write as _;
            socket.get_mut().write_all(frame)?;
            echo(socket)
        })
    };
    let masking = sending(&[0x81, 0x81, 1, 2, 3, 4, 5]);
    let latin = sending(b"\x81\x03f\xfcr");
    let closing_with_1005 = sending(b"\x88\x02\x03\xed");
    let leaving = websocket_server(|_| Ok(()));
    let forbidding = responding(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n");
    let failing = responding(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n");
    let (smtp, binary) = (responding(b"220 smtp ready\r\n\r\n"), responding(b"\0\xff\0\xff"));
    let (accepting, cutting) = (responding(UPGRADE), responding(b"HTTP/1.1 200 OK\r\ncontent-le"));
    let wrong_accept = "upgrade failed: wrong Sec-WebSocket-Accept";
    let cases = [
        ("refuses", refusing, CONNECT, "connect", "connection refused"),
        ("answers another status", forbidding, CONNECT, "connect", "upgrade failed: HTTP 403"),
        ("accepts a key that was not sent", accepting, CONNECT, "connect", wrong_accept),
        ("sends another protocol", smtp, CONNECT, "connect", "not HTTP"),
        ("sends another protocol", binary, GET, "get", "not HTTP"),
        ("fails", failing, GET, "get", "HTTP 500"),
        ("closes", closing, CONNECT, "expect", "closed by the server with 1013"),
        ("masks", masking, CONNECT, "expect", "the server masked a frame"),
        ("sends Latin-1", latin, CONNECT, "expect", "text that is not UTF-8 (RFC 6455)"),
        // 1005 stands for the absence of a code.
        ("closes with 1005", closing_with_1005, CONNECT, "expect", "invalid frame (RFC 6455)"),
        ("leaves", leaving, CONNECT, "expect", "connection ended"),
        ("sends nothing", responding(b""), CONNECT, "connect", "timed out"),
        ("stops half way", cutting, GET, "get", "timed out"),
    ];
    for (behaviour, address, steps, step, kind) in cases {
        let mut scenario = scenario(3, 30, steps);
        if kind == "timed out" {
            scenario = scenario.replace("\"10s\"", "\"300ms\"");
        }
        let results = load(address, &scenario);
        let expected = ((step.to_owned(), kind.to_owned()), 3);
        let errors: Vec<_> = results.errors.clone().into_iter().collect();
        assert_eq!(errors, [expected], "a server that {behaviour}");
    }
    let results = load(resetting, &scenario(3, 30, CONNECT));
    assert_eq!(results.errors_total(), 3);
    let is_reset = |(_, kind): &(String, String)| {
        ["connection reset", "connection ended"].contains(&kind.as_str())
    };
    assert!(results.errors.keys().all(is_reset), "{:?}", results.errors);
}

#[test]
fn source_addresses_are_used_in_turn() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let address = server(move |mut stream| {
        use std::io::Write as _;
        let peer = stream.peer_addr().expect("a stream has a peer");
        sender.send(peer.ip().to_string()).expect("the test receives");
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let scenario = scenario(6, 60, r#"{ http = { path = "/" } }"#);
    let scenario = format!("[sources]\naddresses = [\"127.0.7.1-127.0.7.3\"]\n{scenario}")
        .replace("step_timeout = \"10s\"\n", "");
    assert_eq!(load(address, &scenario).errors_total(), 0);
    let mut seen: Vec<_> = receiver.try_iter().collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["127.0.7.1", "127.0.7.2", "127.0.7.3"]);
}

#[test]
fn users_that_do_not_receive_a_broadcast_are_counted_as_missing() {
    // Each user receives only its own message.
    let steps = r#"{ connect = { path = "/" } }, { think = "1500ms" },
        { send = { text = "${now}", broadcast = true, reply = true } }, { stay = {} }"#;
    let mut scenario = scenario(4, 100, steps);
    scenario.push_str("[[phases]]\nduration = \"2s\"\nrate = 0\n");
    let results = load(websocket_server(echo), &scenario);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    let broadcasts = results.broadcasts();
    let counts = broadcasts.iter().map(|one| (one.audience, one.times.len(), one.missing));
    assert_eq!(counts.collect::<Vec<_>>(), [(4, 1, 3); 4]);
}

#[test]
fn a_poll_ends_after_its_period() {
    let address = server(|mut stream| {
        // Reads the request, and sends nothing until the client closes.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let steps = r#"{ longpoll = { path = "/", for = "300ms", name = "poll" } }, { think = "0s" }"#;
    let results = load(address, &scenario(5, 100, steps));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!((done(&results, "poll"), results.counts.finished), (5, 5));
    let polled = &results.steps[0].due;
    assert!(polled.quantile(0.0).as_millis() >= 290, "{polled:?}");
}

#[test]
fn an_answer_to_a_poll_beside_the_steps_is_a_message_to_its_user() {
    let address = http_server(|_, head| {
        if head.starts_with("GET /poll") {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        ok("news")
    });
    let steps = r#"{ longpoll = { path = "/poll", name = "poll", beside = true } },
        { http = { path = "/", name = "beside" } }, { expect = { text = "news" } }"#;
    let results = load(address, &scenario(5, 100, steps));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!(["poll", "beside", "expect"].map(|name| done(&results, name)), [5; 3]);
    assert_eq!((results.counts.deliveries, results.counts.finished), (5, 5));
}

#[test]
fn a_user_loads_the_files_that_a_web_page_names() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let address = http_server(move |connection, head| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        sender.send((connection, path.clone())).expect("the test receives");
        match path.as_str() {
            "/" => ok(r#"<script src="/assets/a.js"></script><link href="/a.css">"#),
            "/assets/a.js" => ok(r#"import"./b.js";let later=["assets/View-1.js"]"#),
            "/assets/b.js" => ok(r#"import"./a.js""#),
            _ => ok(""),
        }
    });
    let steps = r#"{ http = { path = "/", name = "page", files = { named = ["assets/View"] } } }"#;
    let results = load(address, &scenario(2, 100, steps));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    assert_eq!(["page", "page files"].map(|name| done(&results, name)), [2; 2]);
    let first: Vec<_> = receiver.try_iter().filter(|(connection, _)| *connection == 0).collect();
    let paths: Vec<_> = first.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(paths, ["/", "/assets/a.js", "/a.css", "/assets/b.js", "/assets/View-1.js"]);
}

#[test]
fn the_files_of_a_page_that_fails_are_not_measured() {
    let address = http_server(|_, head| match head.starts_with("GET /page") {
        true => b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_vec(),
        false => ok(""),
    });
    let steps = r#"{ http = { path = "/page", name = "page", files = {} } },
        { http = { path = "/", name = "next" } }"#;
    let results = load(address, &scenario(2, 100, steps));
    assert_eq!(["page", "page files", "next"].map(|name| done(&results, name)), [0, 0, 2]);
    assert_eq!(results.errors_total(), 2, "{:?}", results.errors);
}

#[test]
fn files_that_an_error_has_left_are_not_loaded_with_the_next_page() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let pages = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let address = http_server(move |_, head| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        sender.send(path.clone()).expect("the test receives");
        match path.as_str() {
            "/page" if pages.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
                ok(r#"<script src="/gone.js"></script><script src="/left.js"></script>"#)
            }
            _ => b"HTTP/1.1 404 Gone\r\ncontent-length: 0\r\n\r\n".to_vec(),
        }
    });
    let page = r#"{ http = { path = "/page", name = "page", files = {} } }"#;
    let steps = format!("{{ loop = {{ times = 2, steps = [{page}] }} }}");
    let results = load(address, &scenario(1, 100, &steps));
    assert_eq!(["page", "page files"].map(|name| done(&results, name)), [1, 0]);
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["/page", "/gone.js", "/page"]);
}

#[test]
fn a_limit_of_this_machine_is_named_if_it_stops_users() {
    // One port for four users that all stay.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let steps = r#"{ connect = { path = "/" } }, { stay = {} }"#;
    let scenario = scenario(4, 200, steps).replace(
        "[[phases]]",
        &format!("[sources]\naddresses = [\"127.0.8.1\"]\nports = [{free}, {free}]\n[[phases]]"),
    );
    let results = load(websocket_server(echo), &scenario);
    assert_eq!((results.connected_max, results.errors_total()), (1, 3), "{:?}", results.errors);
    let limits = results.limits();
    assert_eq!(limits.len(), 1);
    assert!(limits[0].starts_with("ports of the source addresses"), "{limits:?}");
    assert!(
        watchfire_load::table(&results, &[]).contains("stopped by a limit of this machine: ports")
    );
}
