//! `watchfire share --live` and `watchfire get --follow` over a server.

use std::fs;
use std::io::Write as _;
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Listening, Scratch, Serving, WATCHFIRE, run_in, text};

/// A live page on a server of its own.
struct Live {
    _server: Listening,
    publisher: Serving,
    input: Option<ChildStdin>,
    link: String,
    scratch: Scratch,
}

impl Live {
    fn start(arguments: &[&str]) -> Live {
        let scratch = Scratch::new();
        scratch.file("picture.png", [7; 100_000]);
        let server = Listening::start(&[
            "serve",
            "--set",
            "server.drain_period=0s",
            "--set",
            "stun.enabled=false",
            "--set",
            "admin.listen=127.0.0.1:0",
        ]);
        let site = format!("http://127.0.0.1:{}", server.port);
        let live = ["--live", "--to", &site];
        let mut publisher =
            Serving::start_with_input(&scratch, "share", &[&live[..], arguments].concat());
        let link = publisher.event("live")["page"].as_str().expect("a link").to_owned();
        let input = publisher.child.stdin.take();
        Live { _server: server, publisher, input, link, scratch }
    }

    fn write(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(format!("{line}\n").as_bytes()).expect("it reads");
    }

    fn follow(&self, arguments: &[&str]) -> Serving {
        Serving::start(&self.scratch, "get", &[&["--follow", &self.link], arguments].concat())
    }
}

/// The entry that a reader prints next.
fn entry(reader: &mut Serving) -> Value {
    let mut entry = reader.event("entry");
    assert!(entry["time_ms"].as_u64().is_some_and(|time| time > 1_700_000_000_000), "{entry}");
    entry.as_object_mut().expect("an object").remove("time_ms");
    entry
}

fn text_entry(number: u32, text: &str) -> Value {
    json!({ "event": "entry", "number": number, "form": "text", "text": text })
}

#[test]
fn readers_have_each_entry_within_a_second_and_late_ones_have_all() {
    let mut live = Live::start(&["--title", "Harbour log", "picture.png"]);
    let mut reader = live.follow(&["--output", "files"]);
    assert_eq!(reader.event("following")["title"], "Harbour log");
    let picture = entry(&mut reader);
    assert_eq!((&picture["number"], &picture["name"]), (&json!(1), &json!("picture.png")));
    assert_eq!(picture["path"], "files/00001-picture.png");
    let saved = fs::read(live.scratch.join("files/00001-picture.png")).expect("it was saved");
    assert_eq!(saved, [7; 100_000]);

    let mut slowest = Duration::ZERO;
    for number in 2..=30 {
        let begun = Instant::now();
        let words = format!("line {number} ✓");
        live.write(&words);
        assert_eq!(entry(&mut reader), text_entry(number, &words));
        slowest = slowest.max(begun.elapsed());
    }
    // A second on an idle machine; tests share theirs.
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");

    let mut late = live.follow(&[]);
    let first = entry(&mut late);
    assert_eq!((&first["number"], &first["path"]), (&json!(1), &Value::Null));
    for number in 2..=30 {
        assert_eq!(entry(&mut late), text_entry(number, &format!("line {number} ✓")));
    }
    // Its folder has the file already. It is not replaced, and the page goes on.
    fs::write(live.scratch.join("files/00001-picture.png"), "mine").expect("it can be written");
    let mut again = live.follow(&["--output", "files"]);
    assert_eq!(entry(&mut again)["path"], Value::Null);
    assert_eq!(entry(&mut again), text_entry(2, "line 2 ✓"));
    let kept = fs::read(live.scratch.join("files/00001-picture.png")).expect("it is there");
    assert_eq!(kept, b"mine");

    live.write("for both");
    assert_eq!(entry(&mut late), text_entry(31, "for both"));
    assert_eq!(entry(&mut reader), text_entry(31, "for both"));
    assert_eq!(late.interrupt(), Some(0));
}

#[test]
fn readers_have_all_from_each_other_when_the_publisher_has_gone() {
    let mut live = Live::start(&[]);
    for number in 1..=20 {
        live.write(&format!("line {number}"));
        assert_eq!(live.publisher.event("appended")["number"], number);
    }
    let held = run_in(&live.scratch, &["hold", &live.link, "--store", "held"]);
    let refusal = text(&held.stderr);
    assert!(held.status.code() == Some(1) && refusal.contains("it is a live page"), "{refusal}");
    let mut hold =
        Serving::start_with_input(&live.scratch, "hold", &["--commands", "--store", "held"]);
    hold.event("started");
    let mut commands = hold.child.stdin.take().expect("a pipe");
    commands.write_all(format!("hold {}\n", live.link).as_bytes()).expect("it reads");
    let refusal = hold.event("failed");
    assert!(
        refusal["error"].as_str().is_some_and(|why| why.contains("it is a live page")),
        "{refusal}"
    );
    assert_eq!(hold.interrupt(), Some(0));
    let reads_all = |reader: &mut Serving| {
        for number in 1..=20 {
            assert_eq!(entry(reader), text_entry(number, &format!("line {number}")));
        }
    };
    let mut reader = live.follow(&["--store", "blocks"]);
    reads_all(&mut reader);
    assert_eq!(live.publisher.interrupt(), Some(0));
    let mut late = live.follow(&[]);
    reads_all(&mut late);
    assert_eq!((late.interrupt(), reader.interrupt()), (Some(0), Some(0)));
    // Nobody else has the page.
    let mut again = live.follow(&["--store", "blocks"]);
    reads_all(&mut again);
    reads_all(&mut live.follow(&[]));
}

#[test]
fn a_line_that_is_too_long_for_an_entry_becomes_several() {
    let mut live = Live::start(&[]);
    let mut reader = live.follow(&[]);
    let long = "x".repeat(100_000);
    live.write(&long);
    live.write("after it");
    assert_eq!(entry(&mut reader)["text"].as_str().map(str::len), Some(65_536));
    assert_eq!(entry(&mut reader)["text"].as_str().map(str::len), Some(100_000 - 65_536));
    assert_eq!(entry(&mut reader), text_entry(3, "after it"));
}

#[test]
fn a_page_that_is_full_says_so_and_stays_for_its_readers() {
    let mut live = Live::start(&[]);
    let lines: String = (1..=10_001).map(|number| format!("line {number}\r\n")).collect();
    let (publisher, mut input) = (&mut live.publisher, live.input.take().expect("it is open"));
    std::thread::scope(|threads| {
        // The last line is refused, or waits when the input ends.
        threads.spawn(move || input.write_all(lines.as_bytes()));
        let closed = publisher.event("closed");
        assert_eq!(closed["cause"], "the page is full: it has 10000 entries");
    });
    // Its first block is still served, which says what it is.
    for output in ["beginning", "-"] {
        let got = run_in(&live.scratch, &["get", &live.link, "--output", output]);
        let error = text(&got.stderr);
        assert!(error.contains("it is a live page; read it with --follow"), "{error}");
    }
    assert_eq!(live.publisher.interrupt(), Some(0));
}

#[test]
fn texts_are_printed_without_characters_that_control_a_terminal() {
    let mut live = Live::start(&[]);
    live.write("\u{1b}[31mred\u{1b}[0m\tand \u{202e}turned");
    live.publisher.event("appended");
    let mut command = std::process::Command::new(WATCHFIRE);
    command.args(["get", "--follow", &live.link]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut reader = command.spawn().expect("the program runs");
    let mut line = String::new();
    let mut output = std::io::BufReader::new(reader.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("text");
    reader.kill().expect("it runs");
    reader.wait().expect("it ends");
    assert_eq!(line, "\u{fffd}[31mred\u{fffd}[0m\tand \u{fffd}turned\n");
}

#[test]
fn a_page_that_cannot_be_followed_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    scratch.file("plain.txt", "not live");
    let get = |arguments: &[&str]| {
        let output = run_in(&scratch, &[&["get", "--follow"], arguments].concat());
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let cid = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
    let no_server = get(&[&format!("watchfire:{cid}")]);
    assert!(no_server.contains("its link names no server"), "{no_server}");

    let inside = get(&[&format!("http://127.0.0.1:1/p/{cid}/notes.txt")]);
    assert!(inside.contains("a live page has neither paths nor a key"), "{inside}");

    let server = Listening::start(&["serve", "--set", "server.drain_period=0s"]);
    let site = format!("http://127.0.0.1:{}", server.port);
    let mut plain = Serving::start(&scratch, "share", &["plain.txt", "--to", &site]);
    let page = plain.event("shared")["page"].as_str().expect("a link").to_owned();
    let not_live = get(&[&page]);
    assert!(not_live.contains("it is not a live page; fetch it without --follow"), "{not_live}");

    let share = |arguments: &[&str]| {
        let output = run_in(&scratch, &[&["share", "--live"], arguments].concat());
        assert!(!output.status.success());
        text(&output.stderr)
    };
    assert!(share(&[]).contains("--to"));
    let title = "x".repeat(256);
    let long = share(&["--to", &site, "--title", &title]);
    assert!(long.contains("a name of 256 bytes exceeds the limit of 255 bytes"), "{long}");
    let missing = share(&["--to", &site, "absent.png"]);
    assert!(missing.contains("absent.png"), "{missing}");
}
