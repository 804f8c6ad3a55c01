//! A session keeps cookies, drawn variables and saved values.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::support::{done, http_server, load, load_source, ok, scenario};
use watchfire_load::Results;

/// A server that needs the cookie of its login for every other page, and the requests that it got.
fn shop() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let address = http_server(move |_, head| {
        requests.lock().unwrap().push(head.to_owned());
        if head.starts_with("GET /login") {
            return b"HTTP/1.1 302 Found\r\nlocation: /\r\nset-cookie: sid=s1; Path=/; HttpOnly\r\n\
                set-cookie: theme=dark; Path=/other\r\ncontent-length: 0\r\n\r\n"
                .to_vec();
        }
        match head.contains("Cookie: sid=s1\r\n") {
            true => ok("welcome"),
            false => b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n".to_vec(),
        }
    });
    (address, seen)
}

#[test]
fn a_session_that_asks_for_it_sends_the_cookies_of_its_server() {
    let steps = r#"{ http = { path = "/login" } }, { http = { path = "/page", name = "page" } },
        { http = { path = "/page", name = "own", headers = { Cookie = "sid=mine" }, status = 401 } },"#;
    let (address, seen) = shop();
    let text = scenario(3, 30, steps).replace("[[sessions]]\n", "[[sessions]]\ncookies = true\n");
    let results = load(address, &text);
    assert_eq!((results.errors_total(), done(&results, "page")), (0, 3), "{:?}", results.errors);
    let lines = seen.lock().unwrap().concat();
    assert_eq!(lines.matches("Cookie: sid=mine").count(), 3);
    assert_eq!(lines.to_lowercase().matches("cookie:").count(), 6, "each request has at most one");

    let results =
        load(shop().0, &scenario(3, 30, &steps.replace("page\" } }", "page\", status = 401 } }")));
    assert_eq!(results.errors_total(), 0, "a session without the key sends none");
}

fn tsung(address: SocketAddr, sessions: &str) -> Results {
    let text = format!(
        r#"<tsung><clients><client host="localhost" maxusers="100"/></clients>
        <servers><server host="127.0.0.1" port="{}" type="tcp"/></servers>
        <load duration="5" unit="second"><arrivalphase phase="1" duration="1" unit="second">
          <users maxnumber="20" arrivalrate="200" unit="second"/></arrivalphase></load>
        <sessions>{sessions}</sessions></tsung>"#,
        address.port()
    );
    load_source("test.xml", text, None)
}

#[test]
fn a_session_of_tsung_keeps_cookies() {
    let (address, seen) = shop();
    let results = tsung(
        address,
        r#"<session name="a" probability="100" type="ts_http">
        <request><http url="/login" method="GET"/></request>
        <request><http url="/page" method="GET"/></request></session>"#,
    );
    assert_eq!(results.counts.finished, 20);
    let pages = seen.lock().unwrap().iter().filter(|head| head.contains("sid=s1")).count();
    assert_eq!(pages, 20);
}

#[test]
fn a_variable_of_tsung_belongs_to_its_session_and_is_drawn_where_it_stands() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let address = http_server(move |_, head| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        seen.lock().unwrap().push(path);
        ok("")
    });
    // Debian's Tsung sends /number-31, /loop-3, /loop-29, /loop-41, /text-dixjh: a new draw each time.
    let results = tsung(
        address,
        r#"<session name="a" probability="50" type="ts_http">
        <request subst="true"><http url="/before-%%_v%%"/></request>
        <setdynvars sourcetype="random_number" start="1" end="1000000"><var name="v"/></setdynvars>
        <request subst="true"><http url="/number-%%_v%%"/></request>
        <for from="1" to="3">
          <setdynvars sourcetype="random_number" start="1" end="1000000"><var name="v"/></setdynvars>
          <request subst="true"><http url="/loop-%%_v%%"/></request>
        </for></session>
        <session name="b" probability="50" type="ts_http">
        <setdynvars sourcetype="random_string" length="10"><var name="v"/></setdynvars>
        <request subst="true"><http url="/text-%%_v%%"/></request></session>"#,
    );
    assert_eq!(results.errors_total(), 0);
    let paths = paths.lock().unwrap();
    let values = |prefix: &str| {
        let values = paths.iter().filter_map(|path| path.strip_prefix(prefix));
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    let (numbers, loops, texts) = (values("/number-"), values("/loop-"), values("/text-"));
    assert!(!numbers.is_empty() && !texts.is_empty(), "both sessions ran: {paths:?}");
    assert!(values("/before-").iter().all(|value| value == "undefined"), "as in Tsung");
    assert!(numbers.iter().chain(&loops).all(|value| value.parse::<u32>().is_ok()), "{paths:?}");
    assert!(texts.iter().all(|value| value.len() == 10 && value.parse::<u32>().is_err()));
    let mut drawn = [numbers.clone(), loops.clone()].concat();
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), numbers.len() * 4, "each turn of the loop draws anew");
}

#[test]
fn a_saved_value_stays_valid_where_it_is_inserted() {
    // The value as JSON: quotes, a backslash, the end of a line, a space.
    let value = r#""a\"b\\c\r\nX-Injected: 1 d""#;
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let address = crate::support::server(move |mut stream| {
        use std::io::{Read as _, Write as _};
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            // Small requests arrive as a whole over loopback.
            seen.lock().unwrap().push(String::from_utf8_lossy(&buffer[..len]).into_owned());
            let body = format!("{{\"value\":{value}}}");
            if stream.write_all(&ok(&body)).is_err() {
                return;
            }
        }
    });
    let steps = r#"
        { http = { path = "/save", save = { v = "/value" }, name = "save" } },
        { http = { path = "/table", body = { text = "x ${v}" } } },
        { http = { path = "/text", body = '{"a":"${v}","b":[1]}' } },
        { http = { path = "/form", body = "a=${v}&b=1", headers = { Content-Type = "application/x-www-form-urlencoded" } } },
        { http = { path = "/q?a=${v}", name = "q", headers = { X-V = "<${v}>" } } },"#;
    let results = load(address, &scenario(1, 20, steps));
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    let requests = bodies.lock().unwrap();
    let expected: String = serde_json::from_str(value).unwrap();
    let body = |index: usize| requests[index].split("\r\n\r\n").nth(1).unwrap_or_default();
    let json = |index: usize| serde_json::from_str::<serde_json::Value>(body(index)).unwrap();
    assert_eq!(json(1)["text"], format!("x {expected}"));
    assert_eq!((&json(2)["a"], &json(2)["b"][0]), (&expected.into(), &1.into()));
    assert_eq!(body(3), "a=a%22b%5Cc%0D%0AX-Injected%3A+1+d&b=1");
    let head = &requests[4];
    assert!(head.starts_with("GET /q?a=a%22b\\c%0D%0AX-Injected:%201%20d HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nX-V: <a\"b\\c  X-Injected: 1 d>\r\n"), "{head}");
}
