//! `watchfire car` from the command line.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const WATCHFIRE: &str = env!("CARGO_BIN_EXE_watchfire");

/// A folder that is removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = format!("watchfire-car-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(folder.join("trip/empty")).expect("a folder can be made");
        let scratch = Scratch(folder);
        let long: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(scratch.0.join("trip/day1.bin"), long).expect("a file can be written");
        std::fs::write(scratch.0.join("trip/nothing"), b"").expect("a file can be written");
        std::fs::write(scratch.0.join("trip/notes.md"), b"Hello, world!\n")
            .expect("a file can be written");
        scratch
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(WATCHFIRE);
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command.output().expect("the program runs")
    }

    fn prints(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    fn cid(&self, path: &str) -> String {
        self.prints(&["cid", "--quiet", path]).trim().to_owned()
    }

    fn file_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder can be listed");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_exported_directory_is_imported_unchanged() {
    let scratch = Scratch::new("both-ways");
    let cid = scratch.cid("trip");
    assert!(scratch.prints(&["car", "export", "trip", "-o", "trip.car"]).starts_with(&cid));
    assert!(scratch.prints(&["car", "import", "trip.car", "-o", "again"]).starts_with(&cid));
    assert_eq!(scratch.cid("again"), cid);
    assert_eq!(scratch.file_names(), ["again", "trip", "trip.car"], "no other files are left");

    scratch.prints(&["car", "export", "again"]);
    let named = std::fs::read(scratch.0.join(format!("{cid}.car")))
        .expect("the archive is named by its CID");
    assert_eq!(named, std::fs::read(scratch.0.join("trip.car")).expect("the archive"));
}

#[test]
fn an_archive_is_imported_to_a_block_store_and_exported_again() {
    let scratch = Scratch::new("store");
    let cid = scratch.cid("trip");
    scratch.prints(&["car", "export", "trip", "-o", "trip.car"]);
    assert_eq!(scratch.prints(&["car", "import", "trip.car", "--store", "blocks"]).trim(), cid);
    scratch.prints(&["car", "export", &cid, "--store", "blocks", "-o", "back.car"]);
    let archives =
        ["trip.car", "back.car"].map(|name| std::fs::read(scratch.0.join(name)).expect(name));
    assert_eq!(archives[0], archives[1]);

    let notes = format!("{cid}/notes.md");
    scratch.prints(&["car", "export", &notes, "--store", "blocks", "-o", "notes.car"]);
    scratch.prints(&["car", "import", "notes.car", "-o", "notes.md"]);
    let read = std::fs::read_to_string(scratch.0.join("notes.md")).expect("the notes");
    assert_eq!(read, "Hello, world!\n");
}

#[test]
fn invalid_truncated_or_corrupted_archives_leave_no_files() {
    let scratch = Scratch::new("broken");
    scratch.prints(&["car", "export", "trip", "-o", "trip.car"]);
    let whole = std::fs::read(scratch.0.join("trip.car")).expect("the archive");
    let mut corrupted = whole.clone();
    corrupted[1_000_000] ^= 1;
    let truncated = &whole[..whole.len() - 100];
    for (bytes, reason) in
        [(&corrupted[..], "do not match"), (truncated, "truncated"), (b"hello", "archive")]
    {
        std::fs::write(scratch.0.join("broken.car"), bytes).expect("a file can be written");
        let error = scratch.fails(&["car", "import", "broken.car", "-o", "again"]);
        assert!(error.contains(reason), "{error}");
        assert_eq!(scratch.file_names(), ["broken.car", "trip", "trip.car"]);
    }
    let error = scratch.fails(&["car", "export", "trip", "-o", "trip.car"]);
    assert!(error.contains("trip.car"), "{error}");
    assert_eq!(std::fs::read(scratch.0.join("trip.car")).expect("the archive"), whole);
}

#[test]
fn an_archive_that_cannot_be_written_or_read_is_an_error_with_its_cause() {
    let scratch = Scratch::new("errors");
    scratch.prints(&["car", "export", "trip", "-o", "trip.car"]);
    let error = scratch.fails(&["car", "export", "trip", "-o", "trip.car"]);
    let expected =
        "watchfire: cannot write trip.car: it exists already; choose another path with --output\n";
    assert_eq!(error, expected);
    let error = scratch.fails(&["car", "import", "nothing.car"]);
    assert!(error.starts_with("watchfire: cannot import nothing.car: No such file"), "{error}");
    let error = scratch.fails(&["car", "import", "trip"]);
    assert!(error.starts_with("watchfire: cannot import trip: Is a directory"), "{error}");
}
