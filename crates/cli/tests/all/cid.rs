//! `watchfire cid` from the command line.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Scratch, WATCHFIRE, text};

/// The CID of a file with the text "Hello, world!", from kubo.
const HELLO: &str = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";

fn content() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("hello.txt", b"Hello, world!\n");
    scratch.file("sub/.hidden", b"h\n");
    scratch
}

#[test]
fn a_file_has_the_same_cid_as_in_kubo() {
    let content = content();
    let output = content.run(&["cid", "hello.txt"]);
    assert_eq!(text(&output.stdout), format!("{HELLO}  hello.txt\n"));
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));

    let output = content.run(&["cid", "--quiet", "--profile", "kubo-default", "hello.txt"]);
    assert_eq!(text(&output.stdout), "QmeeLUVdiSTTKQqhWqsffYDtNvvvcTfJdotkNyi1KDEJtQ\n");
}

#[test]
fn options_of_a_profile_can_be_changed_one_by_one() {
    let content = content();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    content.file("large", &bytes);
    let named = content.run(&["cid", "-q", "--profile", "v1-256-kib", "large"]);
    let spelled =
        content.run(&["cid", "-q", "--profile", "v1-1-mib", "--chunk", "256KiB", "large"]);
    assert!(named.status.success());
    assert_eq!(text(&named.stdout), text(&spelled.stdout));
    assert_ne!(text(&content.run(&["cid", "-q", "large"]).stdout), text(&named.stdout));

    let output = content.run(&["cid", "--links", "1", "large"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("1 links"), "{}", text(&output.stderr));
}

#[test]
fn the_standard_input_is_a_file() {
    let mut child = Command::new(WATCHFIRE)
        .args(["cid", "-q", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("its input is a pipe");
    input.write_all(b"Hello, world!\n").expect("the program reads its input");
    drop(input);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(text(&output.stdout), format!("{HELLO}\n"));
}

#[test]
fn json_output_has_an_object_for_each_path() {
    let content = content();
    let output = content.run(&["cid", "--json", "hello.txt", "sub"]);
    let lines = text(&output.stdout);
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["cid"], &lines[0]["bytes"]), (&HELLO.into(), &14.into()));
    assert_eq!((&lines[1]["path"], &lines[1]["bytes"]), (&"sub".into(), &2.into()));
    assert!(lines[1]["dag_bytes"].as_u64() > Some(2));
}

#[test]
fn hidden_files_are_included_unless_they_are_skipped() {
    let content = content();
    let whole = text(&content.run(&["cid", "-q", "sub"]).stdout);
    let empty = text(&content.run(&["cid", "-q", "--skip-hidden", "sub"]).stdout);
    // The CID of an empty directory, from kubo.
    assert_eq!(empty, "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354\n");
    assert_ne!(whole, empty);
}

#[test]
fn a_path_that_fails_is_reported_and_the_others_get_their_cid() {
    let content = content();
    let output = content.run(&["cid", "absent", "hello.txt"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), format!("{HELLO}  hello.txt\n"));
    assert!(text(&output.stderr).contains("absent"), "{}", text(&output.stderr));
}

#[test]
fn a_name_cannot_control_the_terminal_or_add_a_line() {
    let content = content();
    let name = "a\n\u{1b}[31mb\u{202e}c";
    content.file(name, b"Hello, world!\n");
    let output = content.run(&["cid", name]);
    assert!(text(&output.stdout).ends_with("  a\u{fffd}\u{fffd}[31mb\u{fffd}c\n"));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    // For programs, the name is exact.
    let output = content.run(&["cid", "--json", name]);
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(line["path"], name);
    // An error is shown in the same way.
    let output = content.run(&["cid", "no\u{1b}[31mthing"]);
    assert!(text(&output.stderr).contains("cannot access no\u{fffd}[31mthing: "));
}
