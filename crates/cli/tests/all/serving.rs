//! The output of `watchfire serve` when it starts, and when it fails.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use watchfire_testkit::{UPGRADE, eventually, exchange, signal, text_frame};

use crate::support::{Scratch, WATCHFIRE};

/// Longer than the start of the program on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn serve(arguments: &[&str]) -> Child {
    let mut command = Command::new(WATCHFIRE);
    command.arg("serve").args(["--set", "server.drain_period=0s", "--set", "stun.enabled=false"]);
    // Tests that run at the same time cannot share the default port.
    command.args(["--set", "admin.listen=127.0.0.1:0"]);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program runs")
}

/// Standard error, once the program has ended.
fn wait(mut child: Child) -> (bool, String) {
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    (child.wait().expect("it ended").success(), stderr)
}

#[test]
fn an_address_in_use_is_named_once() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let scratch = Scratch::new();
    let state_dir = format!("tls.acme.state_dir={}", scratch.join("state").display());
    let redirect = format!("tls.redirect_listen={address}");
    let admin = format!("admin.listen={address}");
    let in_use = "Address already in use";
    let tls = ["--set", "tls.acme.domains=a.example", "--set", &state_dir, "--set", &redirect];
    for (listen, settings, once, also) in [
        (&*address, &[][..], in_use, &*address),
        ("127.0.0.1:0", &tls, in_use, &format!("tls.redirect_listen {address}")),
        ("127.0.0.1:0", &["--set", &admin], &address, &format!("admin.listen: {in_use}")),
    ] {
        for processes in ["1", "2"] {
            let listen = ["--listen", listen, "--processes", processes];
            let (is_success, stderr) = wait(serve(&[&listen, settings].concat()));
            assert!(!is_success);
            assert_eq!(stderr.matches(once).count(), 1, "{stderr}");
            assert!(stderr.contains(also), "{stderr}");
        }
    }
}

#[test]
fn the_link_of_each_listener_is_printed() {
    for processes in ["1", "2"] {
        let listeners = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"];
        let mut child = serve(&[&listeners[..], &["--processes", processes]].concat());
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let links: Vec<String> = lines
            .map(|line| line.expect("text"))
            .filter_map(|line| Some(line.strip_prefix("Watchfire is running at ")?.to_owned()))
            .take(2)
            .collect();
        assert!(links[0].starts_with("http://localhost:"), "{links:?}");
        assert!(links[1].starts_with("http://127.0.0.2:"), "{links:?}");
        signal(child.id(), "-TERM");
        assert!(wait(child).0);
    }
}

#[test]
fn the_address_of_the_metrics_is_printed_and_any_process_answers() {
    for processes in ["1", "2"] {
        let mut child = serve(&["--listen", "127.0.0.1:0", "--processes", processes]);
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let address = lines.find_map(|line| {
            let line = line.expect("text");
            let address = line.strip_prefix("Metrics are at http://")?.strip_suffix("/metrics")?;
            Some(address.to_owned())
        });
        let address = address.expect("the address is printed");
        for _ in 0..10 {
            let request = format!("GET /metrics HTTP/1.0\r\nhost: {address}\r\n\r\n");
            let response = exchange(&address, request);
            assert!(
                response.contains("watchfire_channels_clients{transport=\"websocket\"} 0"),
                "{response}"
            );
        }
        signal(child.id(), "-TERM");
        assert!(wait(child).0);
    }
}

#[test]
fn a_closed_standard_output_does_not_stop_the_server() {
    // A free port, chosen here because the output of the program is closed.
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address: SocketAddr = free.local_addr().expect("bound");
    drop(free);
    let mut child = serve(&["--listen", &address.to_string()]);
    drop(child.stdout.take());
    eventually("the server listens", || std::net::TcpStream::connect(address).is_ok());
    signal(child.id(), "-TERM");
    let (is_success, stderr) = wait(child);
    assert!(is_success, "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn at_info_the_log_names_no_client_and_no_page() {
    const CID: &str = "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
    const CLIENT: &str = "203.0.113.97";
    let mut child = serve(&["--listen", "127.0.0.1:0"]);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let link = lines.next().expect("the link is printed").expect("text");
    let port: u16 = link.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    let mut bytes = format!(
        "GET /p/{CID} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {CLIENT}\r\n\r\n\
         {UPGRADE}Host: localhost\r\nX-Forwarded-For: {CLIENT}\r\n\r\n"
    )
    .into_bytes();
    let join = format!(r#"["1","1","page:{CID}","phx_join",{{"have":"all"}}]"#);
    bytes.extend(text_frame(&join));
    // Invalid, so that the server closes the socket.
    bytes.extend([0x83, 0x80, 0, 0, 0, 0]);
    stream.write_all(&bytes).expect("the requests are sent");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("the server closes");
    assert!(String::from_utf8_lossy(&received).contains(r#""status":"ok""#), "the page is joined");
    signal(child.id(), "-TERM");
    let (is_success, log) = wait(child);
    assert!(is_success, "{log}");
    assert!(!log.contains(CID) && !log.contains(CLIENT), "{log}");
}

/// Runs `watchfire serve` with arguments that make it print and exit.
fn output(arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String, String) {
    let mut command = Command::new(WATCHFIRE);
    command.env_remove("PORT").envs(variables.iter().copied()).arg("serve").args(arguments);
    let output = command.output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn printed_settings_name_their_source() {
    let (is_success, out, _) = output(
        &["--print-config", "--set", "server.processes=2"],
        &[("PORT", "8080"), ("WATCHFIRE_LOG_LEVEL", "debug")],
    );
    assert!(is_success);
    for line in [
        "listen = [\"0.0.0.0:8080\"]  # PORT",
        "processes = 2  # --set",
        "level = \"debug\"  # WATCHFIRE_LOG_LEVEL",
        "format = \"text\"  # default",
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line} in {out}");
    }
}

#[test]
fn a_check_shows_what_would_happen_or_what_is_wrong() {
    let (is_success, out, _) = output(&["--check", "--listen", "192.0.2.1:4000"], &[]);
    assert!(is_success && out.contains("would listen at http://192.0.2.1:4000"), "{out}");
    for (setting, problem) in [
        ("server.public_url=example.org", "cannot use server.public_url"),
        ("server.trusted_proxies=10.0.0.0/33", "a network looks like"),
        ("socket.check_origin=example.org", "an origin looks like"),
        ("tls.cert=/nonexistent.pem", "set both tls.cert and tls.key"),
        ("pages.deny_file=/nonexistent", "pages.deny_file"),
        ("admin.listen=0.0.0.0:4010", "there is no admin.token"),
        ("server.proxy_protocol=127.0.0.1:9", "add the address to server.listen"),
        (
            "channels.rules=[{pattern=\"page:*\",join=\"anyone\"}]",
            "overlaps the server's own topics",
        ),
        ("channels.rules=[{pattern=\"news\"}]", "the section auth has no key"),
        ("auth.hs256_secret=short", "cannot use the HS256 secret: it has 5 bytes"),
        ("auth.public_key_files=/nonexistent.pem", "auth: cannot read /nonexistent.pem"),
        ("server.trusted_proxy=x", "did you mean `server.trusted_proxies`?"),
    ] {
        let (is_success, _, stderr) = output(&["--check", "--set", setting], &[]);
        assert!(!is_success && stderr.contains(problem), "{setting}: {stderr}");
    }
    let tls =
        ["--check", "--set", "tls.cert=/nonexistent.pem", "--set", "tls.key=/nonexistent.key"];
    let (is_success, _, stderr) = output(&tls, &[]);
    assert!(!is_success && stderr.contains("cannot read /nonexistent.pem"), "{stderr}");
    assert_eq!(stderr.matches("No such file").count(), 1, "{stderr}");
}

/// Runs `watchfire health` with these arguments and variables.
fn health(arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(WATCHFIRE);
    command.arg("health").args(arguments).envs(variables.iter().copied());
    let output = command.output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("text"))
}

#[test]
fn a_running_server_is_healthy_and_a_stopped_one_is_not() {
    let mut child = serve(&["--listen", "127.0.0.1:0"]);
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let link = lines
        .map(|line| line.expect("text"))
        .find_map(|line| Some(line.strip_prefix("Watchfire is running at ")?.to_owned()))
        .expect("a link");
    let port = link.rsplit(':').next().expect("a port");
    assert_eq!(health(&["--to", &link], &[]), (true, format!("{link} is healthy\n")));
    assert!(health(&[&link], &[]).0, "checks of before name the server without --to");
    // Without a URL it reads the settings that the server in the same container has.
    let (is_healthy, text) = health(&[], &[("PORT", port)]);
    assert!(is_healthy, "{text}");
    let listen = format!("0.0.0.0:{port}");
    let (is_healthy, text) = health(&[], &[("PORT", "1"), ("WATCHFIRE_SERVER_LISTEN", &listen)]);
    assert!(is_healthy, "{text}");

    signal(child.id(), "-TERM");
    assert!(wait(child).0);
    let (is_healthy, text) = health(&["--to", &link], &[]);
    assert!(!is_healthy);
    assert!(text.starts_with(&format!("watchfire: cannot check {link}/healthz: ")), "{text}");
}

#[test]
fn a_check_shows_what_tls_would_do() {
    let scratch = Scratch::new();
    let state = scratch.join("state");
    let state_dir = format!("tls.acme.state_dir={}", state.display());
    let acme = ["--check", "--set", "tls.acme.domains=a.example,b.example", "--set", &state_dir];
    let (is_success, out, stderr) = output(&acme, &[]);
    assert!(is_success, "{stderr}");
    for line in [
        "TLS: ACME for a.example, b.example",
        "would order from https://acme-v02.api.letsencrypt.org/directory with tls-alpn-01",
        "it has no certificate yet",
    ] {
        assert!(out.contains(line), "{line} in {out}");
    }
    assert!(!state.exists(), "a check creates nothing");

    let redirect = "tls.redirect_listen=192.0.2.1:80";
    let public = "server.public_url=https://a.example";
    let arguments = [&acme[..], &["--set", redirect, "--set", public]].concat();
    let (_, out, _) = output(&arguments, &[]);
    assert!(out.contains("would redirect http://192.0.2.1:80 to https://a.example\n"), "{out}");

    for (setting, problem) in [
        (redirect, "cannot use tls.redirect_listen: TLS is off"),
        ("tls.acme.domains=a.example", "without tls.acme.state_dir"),
        ("tls.acme.domains=*.a.example", "a wildcard needs the challenge DNS-01"),
    ] {
        let (is_success, _, stderr) = output(&["--check", "--set", setting], &[]);
        assert!(!is_success && stderr.contains(problem), "{setting}: {stderr}");
    }
    let http = [&acme[..], &["--set", "tls.acme.challenge=http-01"]].concat();
    let (is_success, _, stderr) = output(&http, &[]);
    assert!(!is_success && stderr.contains("set tls.redirect_listen"), "{stderr}");
    let unwritable = ["--check", "--set", "tls.acme.domains=a.example", "--set"];
    let arguments = [&unwritable[..], &["tls.acme.state_dir=/dev/null/acme"]].concat();
    let (is_success, _, stderr) = output(&arguments, &[]);
    assert!(
        !is_success && stderr.contains("cannot use tls.acme.state_dir /dev/null/acme"),
        "{stderr}"
    );
}

#[test]
fn the_check_refuses_a_gateway_and_a_cluster_that_cannot_start() {
    let check = |changes: &[&str]| {
        let mut command = Command::new(WATCHFIRE);
        command.args(["serve", "--check", "--listen", "127.0.0.1:0"]);
        for change in changes {
            command.args(["--set", change]);
        }
        let output = command.output().expect("the program runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let listen = r#"p2p.listen=["/ip4/127.0.0.1/tcp/0"]"#;
    let (is_valid, error) = check(&[listen, "p2p.identity=/no/such/file"]);
    assert!(is_valid, "a missing identity is created at the start: {error}");
    let manifest = concat!("p2p.identity=", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cases: [(&[&str], &str); 7] = [
        (&[listen, manifest], "cannot load the identity"),
        (&[listen, "p2p.swarm_key=/no/such/file"], "cannot read the swarm key"),
        (&[listen, "p2p.dht_protocol=kad"], "begin it with a slash"),
        (&[r#"p2p.listen=["/ip4/127.0.0.1/tcp/1/ws"]"#], "cannot listen on"),
        (&[r#"cluster.nats=["http://a.example"]"#], "cannot use cluster.nats"),
        (&[r#"cluster.nats=[""]"#], "cannot use cluster.nats"),
        (
            &[r#"cluster.nats=["nats://a"]"#, "cluster.credentials_file=/no/such/file"],
            "cannot read the NATS credentials",
        ),
    ];
    for (changes, expected) in cases {
        let (is_valid, error) = check(changes);
        assert!(!is_valid && error.contains(expected), "{changes:?}: {error}");
    }
}
