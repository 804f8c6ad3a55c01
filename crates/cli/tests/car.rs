//! `watchfire car` as a person at a shell meets it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const WATCHFIRE: &str = env!("CARGO_BIN_EXE_watchfire");

/// A folder to work in; gone when the test is over.
struct Desk(PathBuf);

impl Desk {
    fn new(name: &str) -> Self {
        let folder = format!("watchfire-car-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(folder.join("trip/empty")).expect("a folder can be made");
        let desk = Desk(folder);
        let long: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(desk.0.join("trip/day1.bin"), long).expect("a file can be written");
        std::fs::write(desk.0.join("trip/nothing"), b"").expect("a file can be written");
        std::fs::write(desk.0.join("trip/notes.md"), b"Hello, world!\n")
            .expect("a file can be written");
        desk
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

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder can be listed");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_directory_comes_out_of_its_archive_as_it_went_in() {
    let desk = Desk::new("both-ways");
    let cid = desk.cid("trip");
    assert!(desk.prints(&["car", "export", "trip", "-o", "trip.car"]).starts_with(&cid));
    assert!(desk.prints(&["car", "import", "trip.car", "-o", "again"]).starts_with(&cid));
    assert_eq!(desk.cid("again"), cid);
    assert_eq!(desk.names(), ["again", "trip", "trip.car"], "nothing else is left behind");

    desk.prints(&["car", "export", "again"]);
    let named = std::fs::read(desk.0.join(format!("{cid}.car"))).expect("it is called by its CID");
    assert_eq!(named, std::fs::read(desk.0.join("trip.car")).expect("the archive"));
}

#[test]
fn a_block_store_takes_an_archive_and_gives_it_back() {
    let desk = Desk::new("store");
    let cid = desk.cid("trip");
    desk.prints(&["car", "export", "trip", "-o", "trip.car"]);
    assert_eq!(desk.prints(&["car", "import", "trip.car", "--store", "blocks"]).trim(), cid);
    desk.prints(&["car", "export", &cid, "--store", "blocks", "-o", "back.car"]);
    let archives =
        ["trip.car", "back.car"].map(|name| std::fs::read(desk.0.join(name)).expect(name));
    assert_eq!(archives[0], archives[1]);

    let notes = format!("{cid}/notes.md");
    desk.prints(&["car", "export", &notes, "--store", "blocks", "-o", "notes.car"]);
    desk.prints(&["car", "import", "notes.car", "-o", "notes.md"]);
    let read = std::fs::read_to_string(desk.0.join("notes.md")).expect("the notes");
    assert_eq!(read, "Hello, world!\n");
}

#[test]
fn archives_that_are_none_cut_off_or_spoilt_leave_nothing_behind() {
    let desk = Desk::new("broken");
    desk.prints(&["car", "export", "trip", "-o", "trip.car"]);
    let whole = std::fs::read(desk.0.join("trip.car")).expect("the archive");
    let mut spoilt = whole.clone();
    spoilt[1_000_000] ^= 1;
    let cut = &whole[..whole.len() - 100];
    for (bytes, reason) in
        [(&spoilt[..], "do not match"), (cut, "truncated"), (b"hello", "archive")]
    {
        std::fs::write(desk.0.join("broken.car"), bytes).expect("a file can be written");
        let error = desk.fails(&["car", "import", "broken.car", "-o", "again"]);
        assert!(error.contains(reason), "{error}");
        assert_eq!(desk.names(), ["broken.car", "trip", "trip.car"]);
    }
    let there = desk.fails(&["car", "export", "trip", "-o", "trip.car"]);
    assert!(there.contains("trip.car"), "{there}");
    assert_eq!(std::fs::read(desk.0.join("trip.car")).expect("the archive"), whole);
}
