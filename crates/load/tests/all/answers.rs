//! Answers of a server in every form, and answers that do not come.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use watchfire_testkit::answer_requests;

use crate::support::{done, http_server, load, load_url, ok, scenario, server};

const GET: &str = r#"{ http = { path = "/", name = "get" } }"#;

fn errors(results: &watchfire_load::Results) -> Vec<(String, String, u64)> {
    let errors = results.errors.iter();
    errors.map(|((step, kind), count)| (step.clone(), kind.clone(), *count)).collect()
}

#[test]
fn an_interim_answer_does_not_end_a_step() {
    let address = server(|mut stream| {
        let mut requests = 0;
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer) {
            requests += 1;
            stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").unwrap();
            // The final answer is another read of the client.
            std::thread::sleep(Duration::from_millis(50));
            let answer = match requests {
                1 => b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_vec(),
                _ => ok("second"),
            };
            stream.write_all(&answer).unwrap();
        }
    });
    let second = r#"{ http = { path = "/", name = "second", contains = "second" } }"#;
    let results = load(address, &scenario(1, 20, &format!("{GET}, {second}")));
    assert_eq!(errors(&results), [("get".into(), "HTTP 503".into(), 1)]);
    assert_eq!(done(&results, "second"), 1);
    assert!(results.steps[1].due.max() >= Duration::from_millis(50), "{:?}", results.steps[1]);
}

#[test]
fn a_step_that_times_out_counts_with_at_least_its_timeout() {
    let address = http_server(|connection, _| if connection % 10 == 9 { vec![] } else { ok("") });
    let text = scenario(40, 200, GET).replace("\"10s\"", "\"2s\"")
        + "[thresholds.steps.get]\np50_max = \"2s\"\np99_max = \"10s\"\ncount_min = 37\n";
    let results = load(address, &text);
    assert_eq!(errors(&results), [("get".into(), "timed out".into(), 4)]);
    let step = &results.steps[0];
    assert_eq!((step.due.len(), step.unanswered, step.done()), (40, 4, 36));
    let timeout = Duration::from_secs(2);
    for times in [&step.due, &step.begun] {
        assert!(times.quantile(0.99) >= timeout, "{times:?}");
    }
    let source = watchfire_load::Scenario::parse("test.toml", &text).unwrap();
    let verdicts = watchfire_load::judge(&source.thresholds, &results);
    assert_eq!(verdicts.iter().map(|one| one.is_kept).collect::<Vec<_>>(), [true, false, false]);
    assert!(verdicts[1].measured.starts_with("at least "), "{verdicts:?}");
    let json = watchfire_load::json(&results, &verdicts);
    assert_eq!(
        (&json["steps"][0]["done"], &json["steps"][0]["unanswered"]),
        (&36.into(), &4.into())
    );
}

#[test]
fn a_step_that_still_waits_at_the_end_of_the_load_counts_with_its_wait() {
    let address = http_server(|_, _| Vec::new());
    // All arrive long before the end, which is a second later.
    let text = scenario(3, 30, GET).replace("\"30ms\"", "\"1s\"");
    let text = format!("wind_down = \"200ms\"\n{text}");
    let results = load(address, &text);
    assert_eq!((results.counts.cut_off, results.errors_total()), (3, 0));
    let step = &results.steps[0];
    assert_eq!((step.unanswered, step.done()), (3, 0));
    assert!(step.due.quantile(0.0) >= Duration::from_millis(199), "{:?}", step.due);
}

#[test]
fn no_step_is_faster_than_the_server() {
    const DELAY: Duration = Duration::from_millis(20);
    let address = http_server(|_, _| {
        // The delay is what is measured.
        std::thread::sleep(DELAY);
        ok("")
    });
    let results = load(address, &scenario(1, 20, GET));
    let step = &results.steps[0];
    assert!(step.due.quantile(0.0) >= DELAY && step.begun.quantile(0.0) >= DELAY, "{step:?}");
}

/// A socket that is bound at an address and does not listen, so that no other program takes its port.
fn held(address: SocketAddr) -> std::io::Result<socket2::Socket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Sockets at one port of 127.0.0.1 and of `::1`. The second is `None` on a machine without IPv6.
fn held_at_both() -> (socket2::Socket, Option<socket2::Socket>) {
    loop {
        let four = held(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let port = four.local_addr().unwrap().as_socket().unwrap().port();
        match held(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port))) {
            Ok(six) => return (four, Some(six)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(_) => return (four, None),
        }
    }
}

#[test]
fn every_address_of_a_name_is_tried() {
    // `localhost` is often `::1` first. Where it is not, this proves only that nothing broke.
    let (four, _six) = held_at_both();
    let port = four.local_addr().unwrap().as_socket().unwrap().port();
    four.listen(16).unwrap();
    let listener = TcpListener::from(four);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_requests(stream, |_| Some(ok(""))));
        }
    });
    let results = load_url(&format!("http://localhost:{port}"), &scenario(10, 50, GET));
    assert_eq!((errors(&results), done(&results, "get")), (vec![], 10));
}

#[test]
fn a_name_without_a_server_is_refused() {
    let (four, _six) = held_at_both();
    let port = four.local_addr().unwrap().as_socket().unwrap().port();
    let results = load_url(&format!("http://localhost:{port}"), &scenario(4, 20, GET));
    assert_eq!(errors(&results), [("get".into(), "connection refused".into(), 4)]);
}

#[test]
fn a_refused_upgrade_is_named_even_if_its_body_ends_with_the_connection() {
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 403 No\r\n\r\nno origin");
    });
    let results = load(address, &scenario(2, 20, r#"{ connect = { path = "/" } }"#));
    assert_eq!(errors(&results), [("connect".into(), "upgrade failed: HTTP 403".into(), 2)]);
}

#[test]
fn a_server_may_say_that_it_closes_an_idle_connection() {
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&ok(""));
        let timeout =
            b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(timeout);
    });
    let steps = format!("{GET}, {{ think = \"1s\" }}, {GET}");
    let results = load(address, &scenario(2, 20, &steps));
    assert_eq!((errors(&results), done(&results, "get")), (vec![], 4));
}

#[test]
fn a_user_that_said_close_sends_the_next_request_on_another_connection() {
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&ok(""));
        // Another request would be read, and never answered.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let get = r#"{ http = { name = "get", path = "/", headers = { connection = "Close" } } }"#;
    let results = load(address, &scenario(2, 20, &format!("{get}, {get}")));
    assert_eq!((errors(&results), done(&results, "get")), (vec![], 4));
}

#[test]
fn a_server_may_end_an_idle_connection_with_a_reset() {
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&ok(""));
        let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    });
    let steps = format!("{GET}, {{ think = \"1s\" }}, {GET}");
    let results = load(address, &scenario(2, 20, &steps));
    assert_eq!((errors(&results), done(&results, "get")), (vec![], 4));
}
