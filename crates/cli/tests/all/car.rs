//! `watchfire car` from the command line.

use crate::support::{Scratch, names};

/// A folder with a trip: a large file, an empty one, a small one and an empty folder.
fn trip() -> Scratch {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.join("trip/empty")).expect("a folder can be made");
    let long: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    scratch.file("trip/day1.bin", long);
    scratch.file("trip/nothing", b"");
    scratch.file("trip/notes.md", b"Hello, world!\n");
    scratch
}

fn cid(scratch: &Scratch, path: &str) -> String {
    scratch.prints(&["cid", "--quiet", path]).trim().to_owned()
}

#[test]
fn an_exported_directory_is_imported_unchanged() {
    let scratch = trip();
    let root = cid(&scratch, "trip");
    assert!(scratch.prints(&["car", "export", "trip", "-o", "trip.car"]).starts_with(&root));
    assert!(scratch.prints(&["car", "import", "trip.car", "-o", "again"]).starts_with(&root));
    assert_eq!(cid(&scratch, "again"), root);
    assert_eq!(names(&scratch), ["again", "trip", "trip.car"], "no other files are left");

    scratch.prints(&["car", "export", "again"]);
    let named = std::fs::read(scratch.join(format!("{root}.car")))
        .expect("the archive is named by its CID");
    assert_eq!(named, std::fs::read(scratch.join("trip.car")).expect("the archive"));
}

#[test]
fn an_archive_is_imported_to_a_block_store_and_exported_again() {
    let scratch = trip();
    let cid = cid(&scratch, "trip");
    scratch.prints(&["car", "export", "trip", "-o", "trip.car"]);
    assert_eq!(scratch.prints(&["car", "import", "trip.car", "--store", "blocks"]).trim(), cid);
    scratch.prints(&["car", "export", &cid, "--store", "blocks", "-o", "back.car"]);
    let archives =
        ["trip.car", "back.car"].map(|name| std::fs::read(scratch.join(name)).expect(name));
    assert_eq!(archives[0], archives[1]);

    let notes = format!("{cid}/notes.md");
    scratch.prints(&["car", "export", &notes, "--store", "blocks", "-o", "notes.car"]);
    scratch.prints(&["car", "import", "notes.car", "-o", "notes.md"]);
    let read = std::fs::read_to_string(scratch.join("notes.md")).expect("the notes");
    assert_eq!(read, "Hello, world!\n");
}

#[test]
fn invalid_truncated_or_corrupted_archives_leave_no_files() {
    let scratch = trip();
    scratch.prints(&["car", "export", "trip", "-o", "trip.car"]);
    let whole = std::fs::read(scratch.join("trip.car")).expect("the archive");
    let mut corrupted = whole.clone();
    corrupted[1_000_000] ^= 1;
    let truncated = &whole[..whole.len() - 100];
    for (bytes, reason) in
        [(&corrupted[..], "do not match"), (truncated, "truncated"), (b"hello", "archive")]
    {
        scratch.file("broken.car", bytes);
        let error = scratch.fails(&["car", "import", "broken.car", "-o", "again"]);
        assert!(error.contains(reason), "{error}");
        assert_eq!(names(&scratch), ["broken.car", "trip", "trip.car"]);
    }
    let error = scratch.fails(&["car", "export", "trip", "-o", "trip.car"]);
    assert!(error.contains("trip.car"), "{error}");
    assert_eq!(std::fs::read(scratch.join("trip.car")).expect("the archive"), whole);
}

#[test]
fn an_archive_that_cannot_be_written_or_read_is_an_error_with_its_cause() {
    let scratch = trip();
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
