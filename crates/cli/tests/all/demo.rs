//! `watchfire demo`: all parts run, and none is left.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use watchfire_testkit::{Request, signal};

use crate::support::{Scratch, WATCHFIRE};

#[test]
fn the_demo_runs_beside_a_server_and_leaves_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().unwrap().port().min(65_525);
    let scratch = Scratch::new();
    let mut demo = Command::new(WATCHFIRE)
        .args(["demo", "--no-browser", "--port", &port.to_string()])
        .env("TMPDIR", &*scratch)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut after = |start: &str| {
        let line = lines.by_ref().find(|line| line.starts_with(start)).expect(start);
        line[start.len()..].trim().to_owned()
    };
    let page = after("The page:");
    let operator = after("The operator:");
    let hosts = [&page, &operator].map(|link| {
        let (host, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let path = format!("/{}", path.split('#').next().unwrap());
        assert_eq!(Request::get(&path).to(host).status, 200, "{link}");
        host.to_owned()
    });
    assert!(page.ends_with("#filename=demo.md"), "{page}");
    assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 1, "its folder");

    signal(demo.id(), "-INT");
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    let mut errors = String::new();
    demo.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(errors.contains(&format!("port {port} or")), "{errors}");
    for host in hosts {
        TcpStream::connect(&host).expect_err("nothing is left");
    }
    assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 0);
}
