//! `watchfire cid` from the command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const WATCHFIRE: &str = env!("CARGO_BIN_EXE_watchfire");

/// The CID of a file with the text "Hello, world!", from kubo.
const HELLO: &str = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";

/// A folder with some content that is removed after the test.
struct Content(PathBuf);

impl Content {
    fn new(name: &str) -> Self {
        let folder = format!("watchfire-cid-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(folder.join("sub")).expect("a folder can be made");
        let content = Content(folder);
        content.write("hello.txt", b"Hello, world!\n");
        content.write("sub/.hidden", b"h\n");
        content
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).expect("a file can be written");
    }

    fn cid(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(WATCHFIRE);
        command.arg("cid").args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command.output().expect("the program runs")
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_file_has_the_same_cid_as_in_kubo() {
    let content = Content::new("file");
    let output = content.cid(&["hello.txt"]);
    assert_eq!(text(&output.stdout), format!("{HELLO}  hello.txt\n"));
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));

    let output = content.cid(&["--quiet", "--profile", "kubo-default", "hello.txt"]);
    assert_eq!(text(&output.stdout), "QmeeLUVdiSTTKQqhWqsffYDtNvvvcTfJdotkNyi1KDEJtQ\n");
}

#[test]
fn options_of_a_profile_can_be_changed_one_by_one() {
    let content = Content::new("options");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    content.write("large", &bytes);
    let named = content.cid(&["-q", "--profile", "v1-256-kib", "large"]);
    let spelled = content.cid(&["-q", "--profile", "v1-1-mib", "--chunk", "256KiB", "large"]);
    assert!(named.status.success());
    assert_eq!(text(&named.stdout), text(&spelled.stdout));
    assert_ne!(text(&content.cid(&["-q", "large"]).stdout), text(&named.stdout));

    let output = content.cid(&["--links", "1", "large"]);
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
    let content = Content::new("json");
    let output = content.cid(&["--json", "hello.txt", "sub"]);
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
    let content = Content::new("hidden");
    let whole = text(&content.cid(&["-q", "sub"]).stdout);
    let empty = text(&content.cid(&["-q", "--skip-hidden", "sub"]).stdout);
    // The CID of an empty directory, from kubo.
    assert_eq!(empty, "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354\n");
    assert_ne!(whole, empty);
}

#[test]
fn a_path_that_fails_is_reported_and_the_others_get_their_cid() {
    let content = Content::new("failing");
    let output = content.cid(&["absent", "hello.txt"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), format!("{HELLO}  hello.txt\n"));
    assert!(text(&output.stderr).contains("absent"), "{}", text(&output.stderr));
}

#[test]
fn a_name_cannot_control_the_terminal_or_add_a_line() {
    let content = Content::new("hidden-characters");
    let name = "a\n\u{1b}[31mb\u{202e}c";
    content.write(name, b"Hello, world!\n");
    let output = content.cid(&[name]);
    assert!(text(&output.stdout).ends_with("  a\u{fffd}\u{fffd}[31mb\u{fffd}c\n"));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    // For programs, the name is exact.
    let output = content.cid(&["--json", name]);
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(line["path"], name);
    // An error is shown in the same way.
    let output = content.cid(&["no\u{1b}[31mthing"]);
    assert!(text(&output.stderr).contains("cannot access no\u{fffd}[31mthing: "));
}
