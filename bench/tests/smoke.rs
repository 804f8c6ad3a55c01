//! The whole bench with fifty sockets and the baseline: all processes and files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder); // missing after a clean run
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn targets(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire-bench"));
    command.args(["targets", "--rounds", "1", "--broadcasts", "3", "--reconnects", "2"]);
    command.args(["--poll-cycles", "2"]).args(arguments);
    command.arg("--out").arg(&folder.0).arg("--docs").arg(folder.0.join("docs"));
    command.output().unwrap()
}

#[test]
fn fifty_sockets_are_measured_beside_the_baseline() {
    let folder = Folder::new("fifty");
    let output = targets(&folder, &["--sockets", "50", "--servers", "bare1,bare-n"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let json = fs::read_to_string(folder.0.join("targets.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for figure in ["setup_micros", "delivery_micros", "heartbeat_micros", "poll_cycle_micros"] {
        let micros = json["medians"]["bare1"][figure].as_f64().unwrap();
        assert!(micros > 0.0, "{figure} is {micros}");
    }
    assert!(fs::read_to_string(folder.0.join("targets.svg")).unwrap().ends_with("</svg>\n"));
    assert!(fs::read_to_string(folder.0.join("targets.md")).unwrap().contains("bare epoll"));
    assert!(!folder.0.join("docs").exists(), "a partial run must not write to docs");
}

#[test]
fn a_server_that_does_not_start_is_named_and_fails_the_run() {
    let folder = Folder::new("missing");
    let output =
        targets(&folder, &["--sockets", "5", "--servers", "watchfire1", "--watchfire", "/missing"]);
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("cannot run /missing"), "{stderr}");
}

#[test]
fn more_sockets_than_a_process_may_open_fail_at_once() {
    let folder = Folder::new("many");
    let output = targets(&folder, &["--sockets", "2000000000"]);
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("ulimit -Hn"), "{stderr}");
}
