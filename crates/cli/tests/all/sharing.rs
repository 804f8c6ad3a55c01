//! `watchfire share`, `get` and `hold` from the command line.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use watchfire_testkit::{eventually, signal};

use crate::support::{Scratch, Serving, WATCHFIRE, names, run_in, succeeded, text, write};

/// The CID of content that no peer shares here.
const HELLO: &str = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";

/// A folder of `share` and one of `get`.
struct Folders(Scratch);

impl Folders {
    fn new() -> Self {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.join("there")).expect("a folder can be made");
        fs::create_dir_all(scratch.join("here")).expect("a folder can be made");
        Folders(scratch)
    }

    fn share_folder(&self) -> PathBuf {
        self.0.join("there")
    }

    fn get_folder(&self) -> PathBuf {
        self.0.join("here")
    }

    /// Writes a file in the folder of `share`.
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        write(&self.share_folder().join(name), bytes);
    }

    /// Shares paths of the folder of `share`.
    fn share(&self, arguments: &[&str]) -> Serving {
        Serving::start(&self.share_folder(), "share", arguments)
    }

    /// Shares a path of the folder of `share`. Returns its link, too.
    fn shared(&self, arguments: &[&str]) -> (Serving, String) {
        let mut share = self.share(arguments);
        let link = share.link("shared");
        (share, link)
    }

    /// Runs `get` in its folder.
    fn get(&self, arguments: &[&str]) -> Output {
        run_in(&self.get_folder(), &[&["get"], arguments].concat())
    }

    /// Runs `get`, which succeeds.
    #[track_caller]
    fn gets(&self, arguments: &[&str]) -> Output {
        succeeded(self.get(arguments))
    }

    /// The standard output of a `get`, which may fail.
    #[track_caller]
    fn prints(&self, arguments: &[&str]) -> String {
        text(&self.get(&[arguments, &["-o", "-"]].concat()).stdout)
    }

    /// Runs `get`, which ends with this code. Its errors contain a text.
    #[track_caller]
    fn fails(&self, arguments: &[&str], code: i32, why: &str) {
        let output = self.get(arguments);
        let errors = text(&output.stderr);
        assert!(output.status.code() == Some(code) && errors.contains(why), "{output:?}");
    }

    /// The last event of a `get`, which succeeds.
    #[track_caller]
    fn gets_event(&self, arguments: &[&str]) -> Value {
        let lines = text(&self.gets(&[&["--json"], arguments].concat()).stdout);
        serde_json::from_str(lines.lines().last().expect("an event")).expect("JSON")
    }

    /// The content of a file that was got.
    fn got(&self, name: &str) -> Vec<u8> {
        fs::read(self.get_folder().join(name)).expect("it is there")
    }

    fn got_names(&self) -> Vec<String> {
        names(&self.get_folder())
    }
}

fn generated(bytes: usize) -> Vec<u8> {
    // No two blocks are the same.
    (0..bytes / 8).flat_map(|number| (number as u64).to_le_bytes()).collect()
}

#[test]
fn a_link_is_enough_to_get_a_file_under_its_name() {
    let scratch = Folders::new();
    let bytes = generated(5_000_000);
    scratch.file("my notes.bin", &bytes);
    let mut share = scratch.share(&["my notes.bin"]);
    let event = share.event("shared");
    let link = event["link"].as_str().expect("a link");

    let got = scratch.gets_event(&[link]);
    assert_eq!((&got["event"], &got["path"]), (&"got".into(), &"my notes.bin".into()));
    assert_eq!((&got["bytes"], &got["peers"]), (&5_000_000.into(), &1.into()));
    assert!(scratch.got("my notes.bin") == bytes);
    assert_eq!(scratch.got_names(), ["my notes.bin"], "no other files are left");

    let cid = run_in(&scratch.share_folder(), &["cid", "-q", "my notes.bin"]);
    assert_eq!(text(&cid.stdout).trim(), event["cid"]);
    assert_eq!(share.interrupt(), Some(0));
}

#[test]
fn a_directory_or_one_of_its_files_is_fetched() {
    let scratch = Folders::new();
    scratch.file("trip/day 1.md", "sunny\n");
    scratch.file("trip/sub/.hidden", "h\n");
    scratch.file("trip/large", generated(3_000_000));
    let (_share, link) = scratch.shared(&["trip"]);

    let output = scratch.get(&["-q", &link]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    assert_eq!(scratch.got("trip/day 1.md"), b"sunny\n");
    assert_eq!(scratch.got("trip/sub/.hidden"), b"h\n");

    let one = link.replacen('?', "/day%201.md?", 1);
    assert_eq!(scratch.prints(&[&one]), "sunny\n");
    assert_eq!(scratch.got_names(), ["trip"]);
    let deep = link.replacen('?', "/sub/.hidden?", 1);
    let got = scratch.gets_event(&[&deep]);
    assert_eq!((&got["path"], &got["bytes"]), (&"hidden".into(), &2.into()), "{got}");
    assert!(
        got["fetched_bytes"].as_u64() < Some(1000),
        "only the blocks on the path are fetched: {got}"
    );
    let absent = link.replacen('?', "/day%202.md?", 1);
    scratch.fails(&[&absent], 1, "day 2.md");
}

#[test]
fn each_path_gets_a_link_of_the_same_host() {
    let scratch = Folders::new();
    scratch.file("a", "first\n");
    scratch.file("b", generated(3_000_000));
    let mut share = scratch.share(&["a", "b"]);
    let links = [share.link("shared"), share.link("shared")];
    for (link, name) in links.iter().zip(["a", "b"]) {
        let output = scratch.get(&[link, "-o", "-", "-q"]);
        assert!(output.stdout == fs::read(scratch.share_folder().join(name)).expect("it is there"));
    }
}

#[test]
fn a_killed_get_continues_from_the_blocks_on_disk_and_leaves_nothing_else() {
    for (megabytes, arguments) in [(96, &["large"][..]), (24, &["--private", "large"])] {
        let scratch = Folders::new();
        let bytes = generated(megabytes << 20);
        scratch.file("large", &bytes);
        let (_share, link) = scratch.shared(arguments);

        kill_get_of_large(&scratch, &link);
        let got = scratch.gets_event(&[&link]);
        assert!(got["present_bytes"].as_u64() >= Some(4 << 20), "{got}");
        assert!(got["fetched_bytes"].as_u64() < Some((megabytes as u64) << 20), "{got}");
        assert!(scratch.got("large") == bytes);
        assert_eq!(scratch.got_names(), ["large"], "and no ciphertext is left");
    }
}

/// Starts to get the file `large`, and kills the process when it has a part of it.
fn kill_get_of_large(scratch: &Folders, link: &str) {
    let mut command = Command::new(WATCHFIRE);
    command.args(["get", link]).current_dir(scratch.get_folder()).stderr(Stdio::null());
    let mut get = command.spawn().expect("the program runs");
    eventually("blocks come", || bytes_in_parts(&scratch.get_folder()) >= 5 << 20);
    get.kill().expect("it runs");
    get.wait().expect("it ends");
    let is_there = scratch.get_folder().join("large").exists();
    assert!(!is_there, "an incomplete file has appeared, or the process was killed too late");
}

/// Bytes on disk of incomplete files.
fn bytes_in_parts(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let parts = entries.filter_map(|entry| fs::metadata(entry.path().join("part")).ok());
    parts.map(|metadata| metadata.blocks() * 512).sum()
}

#[test]
fn an_interrupted_get_ends_with_the_exit_code_of_the_signal() {
    let scratch = Folders::new();
    scratch.file("one", "one\n");
    let (_share, link) = scratch.shared(&["one"]);
    let peer = link.split("peer=").nth(1).expect("it names a peer");
    // No peer has this content.
    let link = format!("{HELLO}?peer={peer}");
    let mut get = Serving::start(&scratch.get_folder(), "get", &[&link, "--timeout", "0"]);
    get.event("progress");
    assert_eq!(get.interrupt(), Some(130));
}

#[test]
fn two_gets_of_one_cid_into_one_folder_do_not_disturb_each_other() {
    let scratch = Folders::new();
    let bytes = generated(3_000_000);
    scratch.file("one", &bytes);
    let mut share = scratch.share(&["one"]);
    let event = share.event("shared");
    let (link, cid) =
        (event["link"].as_str().expect("a link"), event["cid"].as_str().expect("a CID"));
    // The first waits for a peer that never comes.
    let nobody = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA";
    let waiting = format!("{cid}?peer={nobody}&filename=first");
    let mut first = Serving::start(&scratch.get_folder(), "get", &[&waiting, "--timeout", "0"]);
    first.event("progress");

    scratch.gets(&[link]);
    assert!(scratch.got("one") == bytes);
    let own = format!(".watchfire-{cid}");
    assert_eq!(scratch.got_names(), [&*own, "one"]);

    // The first can be continued when it has been interrupted.
    assert_eq!(first.interrupt(), Some(130));
    scratch.gets(&[link, "--output", "first"]);
    assert_eq!(scratch.got_names(), ["first", "one"]);
}

#[test]
fn gets_of_one_link_in_one_folder_all_succeed() {
    let scratch = Folders::new();
    scratch.file("one", "one\n");
    let (_share, link) = scratch.shared(&["one"]);
    for round in 0..3 {
        let gets: Vec<_> = (0..6)
            .map(|number| {
                let mut command = Command::new(WATCHFIRE);
                command.args(["get", &link, "-o", &format!("{round}-{number}")]);
                command.current_dir(scratch.get_folder()).stderr(Stdio::piped());
                command.stdout(Stdio::null()).spawn().expect("the program runs")
            })
            .collect();
        for get in gets {
            succeeded(get.wait_with_output().expect("it ends"));
        }
    }
    assert_eq!(scratch.got_names().len(), 18, "{:?}", scratch.got_names());
}

#[test]
fn a_get_writes_nothing_through_a_link_of_another_user() {
    let scratch = Folders::new();
    scratch.file("one", "one\n");
    let mut share = scratch.share(&["one"]);
    let event = share.event("shared");
    let text_of = |name: &str| event[name].as_str().expect("a text").to_owned();
    let (link, cid) = (text_of("link"), text_of("cid"));
    let precious = scratch.0.join("precious/file");
    write(&precious, "mine");
    let lead = |path: PathBuf, to: &Path| {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        std::os::unix::fs::symlink(to, path).expect("a link can be made");
    };
    let user = fs::metadata(&precious).expect("it is there").uid();
    let temporary = scratch.0.join("tmp");
    for folder in [
        scratch.get_folder().join(format!(".watchfire-{cid}")),
        temporary.join(format!("watchfire-{user}")),
    ] {
        lead(folder.clone(), precious.parent().expect("a folder"));
        lead(folder.with_extension("part"), &precious);
    }
    lead(temporary.join(format!("watchfire-{cid}/lock")), &precious);
    scratch.gets(&[&link]);
    assert_eq!(scratch.got("one"), b"one\n");
    let mut command = Command::new(WATCHFIRE);
    command.args(["get", "-o", "-", &link]).env("TMPDIR", &temporary);
    assert_eq!(text(&succeeded(command.output().expect("it runs")).stdout), "one\n");
    assert_eq!(fs::read(&precious).expect("it is there"), b"mine");
    assert_eq!(names(precious.parent().expect("a folder")), ["file"]);
    // Content for the standard output leaves nothing that others can read.
    let own = fs::metadata(temporary.join(format!("watchfire-{user}-2"))).expect("it was made");
    assert_eq!(own.mode() & 0o777, 0o700);
}

#[test]
fn a_path_that_cannot_be_written_is_refused_before_the_fetch() {
    let scratch = Folders::new();
    scratch.file("one", "one\n");
    let (_share, link) = scratch.shared(&["one"]);
    write(&scratch.get_folder().join("file"), "old");
    std::os::unix::fs::symlink("/dev/null", scratch.get_folder().join("device")).expect("a link");
    let long = "x".repeat(300);
    for (path, why) in [
        ("new/..", "does not end with a name"),
        ("file/", "Not a directory"),
        ("file/below", "Not a directory"),
        (&*long, "too long"),
        ("device", "it is not a file"),
        ("/dev/null", "it is not a file"),
        ("new/", "ends with a slash"),
    ] {
        scratch.fails(&[&link, "--force", "-o", path], 1, why);
    }
    assert!(!fs::metadata("/dev/null").expect("it is there").is_file());
}

#[test]
fn a_get_fails_if_the_standard_output_is_closed() {
    let scratch = Folders::new();
    // The CID contains the text.
    for command in ["get -o - bafkqabtimvwgy3yk", "cid ."] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{WATCHFIRE} {command} >&-")]).current_dir(scratch.get_folder());
        let output = shell.output().expect("there is a shell");
        let errors = text(&output.stderr);
        assert!(output.status.code() == Some(1) && errors.contains("it is closed"), "{errors}");
    }
}

#[test]
fn the_time_in_which_a_get_was_stopped_does_not_count() {
    let scratch = Folders::new();
    let nobody = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA";
    let arguments = [HELLO, "--peer", nobody, "--timeout", "2s"];
    let mut get = Serving::start(&scratch.get_folder(), "get", &arguments);
    get.event("progress");
    signal(get.child.id(), "-STOP");
    // Longer than the timeout.
    std::thread::sleep(Duration::from_millis(2500));
    let continued = Instant::now();
    signal(get.child.id(), "-CONT");
    assert_eq!(get.child.wait().expect("it ends").code(), Some(3));
    assert!(continued.elapsed() > Duration::from_millis(900), "{:?}", continued.elapsed());
}

#[test]
fn a_get_without_a_provider_times_out_with_exit_code_3() {
    let scratch = Folders::new();
    scratch.file("one", "one\n");
    let (_share, link) = scratch.shared(&["one"]);
    let peer = link.split("peer=").nth(1).expect("it names a peer");
    scratch.fails(&[HELLO, "--peer", peer, "--timeout", "1s"], 3, HELLO);
}

#[test]
fn a_get_without_a_peer_fails_with_advice() {
    let scratch = Folders::new();
    scratch.fails(&[HELLO], 1, "--peer");
    // No server listens there, but one could start.
    let link = format!("http://127.0.0.1:1/p/{HELLO}#filename=x");
    scratch.fails(&[&link, "--timeout", "1s"], 3, "http://127.0.0.1:1: ");
    fs::remove_dir_all(scratch.get_folder().join(format!(".watchfire-{HELLO}")))
        .expect("the fetch had begun");
    scratch.fails(&["not-a-cid"], 2, "");
    assert_eq!(scratch.got_names(), [""; 0]);
}

#[test]
fn content_that_is_here_already_is_got_without_a_peer() {
    let scratch = Folders::new();
    // The CID contains the text.
    assert_eq!(scratch.prints(&["bafkqabtimvwgy3yk"]), "hello\n");
    let run = |arguments: &[&str]| {
        let output = succeeded(run_in(&scratch.get_folder(), arguments));
        text(&output.stdout).trim().to_owned()
    };
    scratch.file("notes.md", "Hello, world!\n");
    let trip = scratch.share_folder();
    let trip = trip.to_str().expect("UTF-8");
    let cid = run(&["cid", "--quiet", trip]);
    run(&["car", "export", trip, "-o", "trip.car"]);
    run(&["car", "import", "trip.car", "--store", "kept"]);
    scratch.gets(&[&cid, "--store", "kept", "-o", "trip"]);
    assert_eq!(scratch.got("trip/notes.md"), b"Hello, world!\n");
    let path = format!("{cid}/notes.md");
    scratch.gets(&[&path, "--store", "kept"]);
    scratch.fails(&[HELLO, "--store", "empty"], 1, "--peer");
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let scratch = Folders::new();
    scratch.file("file", "new\n");
    fs::write(scratch.get_folder().join("file"), "old\n").expect("a file can be written");
    let (_share, link) = scratch.shared(&["file"]);
    let read = || fs::read_to_string(scratch.get_folder().join("file")).expect("it is there");
    let output = scratch.get(&[&link]);
    assert_eq!((output.status.code(), &*read()), (Some(1), "old\n"));
    let output = scratch.get(&[&link, "--force"]);
    assert_eq!((output.status.code(), &*read()), (Some(0), "new\n"));
    assert_eq!(scratch.got_names(), ["file"]);
}

#[test]
fn held_content_is_available_after_the_sharer_has_left() {
    let scratch = Folders::new();
    let bytes = generated(3_000_000);
    scratch.file("file", &bytes);
    let (mut share, link) = scratch.shared(&["file"]);
    let mut hold = Serving::start(&scratch.0, "hold", &[&link, "--store", "kept"]);
    let held = hold.link("held");
    assert_eq!(share.interrupt(), Some(0));

    scratch.gets(&[&held]);
    assert!(scratch.got("file") == bytes);
    assert_eq!(hold.interrupt(), Some(0));

    // From disk, without any other peer.
    let mut again = Serving::start(&scratch.0, "hold", &[&link, "--store", "kept"]);
    let held = again.link("held");
    let output = scratch.get(&[&held, "-o", "-", "-q"]);
    assert!(output.stdout == bytes);
    assert_eq!(again.interrupt(), Some(0));

    let release = |arguments: [&str; 5]| text(&scratch.0.run(&arguments).stdout);
    let arguments = ["hold", &*link, "--store", "kept", "--release"];
    assert!(release(arguments).contains("no longer held"));
    assert!(release(arguments).contains("was not held"));
}

#[test]
fn links_are_held_side_by_side_and_one_that_fails_ends_alone() {
    let scratch = Folders::new();
    scratch.file("small", generated(1_500_000));
    scratch.file("big", generated(9_000_000));
    let mut share = scratch.share(&["small", "big"]);
    let [small, big] = [share.link("shared"), share.link("shared")];
    // No peer has the first, and the last is larger than the store.
    let arguments = [HELLO, &*small, &*big, "--store", "kept", "--size", "5MiB"];
    let mut hold = Serving::start(&scratch.0, "hold", &arguments);
    let held = hold.link("held");
    assert!(held.contains(small.split(['?', ':']).nth(1).expect("a CID")), "{held}");
    let failed = hold.event("failed");
    assert!(
        failed["error"].as_str().is_some_and(|why| why.contains("raise the limit")),
        "{failed}"
    );
    assert_eq!(share.interrupt(), Some(0));
    let output = scratch.get(&[&held, "-o", "-", "-q"]);
    assert!(output.stdout == generated(1_500_000), "{}", text(&output.stderr));
    assert_eq!(hold.interrupt(), Some(130), "the first is still fetched");

    // Content that is not complete takes no room of what is.
    let kept = fs::read_to_string(scratch.0.join("kept/pins")).expect("it is there");
    assert_eq!(kept.lines().count(), 2, "{kept}");
    let nothing = ["hold", HELLO, "--store", "kept", "--timeout", "1s"];
    assert_eq!(scratch.0.run(&nothing).status.code(), Some(3));
}

#[test]
fn a_shared_folder_has_the_name_of_its_place() {
    let scratch = Folders::new();
    scratch.file("trip/day 1.md", "sunny\n");
    let mut share = Serving::start(&scratch.share_folder().join("trip"), "share", &["."]);
    scratch.gets(&["-q", &share.link("shared")]);
    assert_eq!(scratch.got("trip/day 1.md"), b"sunny\n");
}

#[test]
fn a_file_that_changes_while_it_is_shared_is_withdrawn() {
    let scratch = Folders::new();
    scratch.file("file", generated(3_000_000));
    let (mut share, link) = scratch.shared(&["file"]);
    scratch.file("file", "other\n");
    scratch.fails(&[&link, "--timeout", "10s"], 3, "");
    assert_eq!(
        share.event("withdrawn")["path"],
        scratch.share_folder().join("file").to_str().unwrap()
    );
    // It was the only shared file.
    assert_eq!(share.child.wait().expect("it ends").code(), Some(1));
}

fn split_key(link: &str) -> (String, String) {
    let (keyless, fragment) = link.split_once('#').expect("a fragment");
    let key = fragment.split('&').find_map(|part| part.strip_prefix("key=")).expect("a key");
    (key.to_owned(), keyless.to_owned())
}

/// A folder with a file of several blocks, a small file, a hidden file and a symbolic link.
fn trip(scratch: &Folders) -> Vec<u8> {
    let large = generated(3_000_000);
    scratch.file("trip/day 1.md", "sunny\n");
    scratch.file("trip/sub/.hidden", "h\n");
    scratch.file("trip/large", &large);
    scratch.file("trip/zebra.md", "stripes\n");
    let link = scratch.share_folder().join("trip/today");
    std::os::unix::fs::symlink("day 1.md", link).expect("a link can be made");
    large
}

#[test]
fn a_private_page_opens_only_with_its_key() {
    let scratch = Folders::new();
    let large = trip(&scratch);
    let mut share = scratch.share(&["--private", "trip"]);
    let event = share.event("shared");
    let link = event["link"].as_str().expect("a link");
    let cid = event["cid"].as_str().expect("a CID");
    let (key, keyless) = split_key(link);

    assert_eq!(scratch.gets_event(&[link])["path"], "trip");
    assert_eq!(scratch.got("trip/day 1.md"), b"sunny\n");
    assert_eq!(scratch.got("trip/sub/.hidden"), b"h\n");
    assert!(scratch.got("trip/large") == large);
    let leads = fs::read_link(scratch.get_folder().join("trip/today")).expect("a link");
    assert_eq!(leads, Path::new("day 1.md"));
    assert_eq!(scratch.got_names(), ["trip"], "and no ciphertext is left");

    // The key can be in the environment instead.
    let mut command = Command::new(WATCHFIRE);
    command.args(["get", "-q", &keyless, "-o", "again"]).env("WATCHFIRE_LINK_KEY", &key);
    let output = command.current_dir(scratch.get_folder()).output().expect("the program runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(scratch.got("again/large") == large);

    for wrong in ["A".repeat(43), key[..42].to_owned(), format!("{key}A"), "%00".into()] {
        let output = scratch.get(&["-q", &format!("{keyless}#key={wrong}"), "-o", "wrong"]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{wrong}: {output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("key") && !stderr.contains("panicked"), "{wrong}: {stderr}");
        assert!(!stderr.contains(&key), "the key must not be printed: {stderr}");
        assert!(!scratch.get_folder().join("wrong").exists());
    }

    let output = scratch.gets(&[&keyless, "-o", "sealed"]);
    assert!(text(&output.stderr).contains("is its ciphertext"), "{}", text(&output.stderr));
    let sealed = scratch.got("sealed");
    assert!(sealed.starts_with(b"watchfire seal 1") && sealed.len() > large.len());
    for secret in [&b"sunny"[..], b"day 1.md", b".hidden", b"trip"] {
        assert!(!sealed.windows(secret.len()).any(|part| part == secret));
    }

    // The CID of a link can be verified with the content and the key.
    let named = run_in(&scratch.share_folder(), &["cid", "-q", "--private", link, "trip"]);
    assert_eq!(text(&named.stdout).trim(), cid, "{}", text(&named.stderr));
    assert_eq!(share.interrupt(), Some(0));
}

#[test]
fn one_file_of_a_private_page_is_fetched_alone() {
    let scratch = Folders::new();
    let large = trip(&scratch);
    let mut share = scratch.share(&["--private", "trip"]);
    let (key, keyless) = split_key(&share.link("shared"));
    let inside =
        |path: &str| format!("{}#key={key}", keyless.replacen('?', &format!("/{path}?"), 1));

    assert_eq!(scratch.prints(&["-q", &inside("day%201.md")]), "sunny\n");
    // The index is in the first of four blocks, and the file in the last.
    let got = scratch.gets_event(&[&inside("zebra.md")]);
    assert_eq!((&got["path"], &got["bytes"]), (&"zebra.md".into(), &8.into()), "{got}");
    assert!(
        got["fetched_bytes"].as_u64() < Some(2_200_000),
        "the blocks between are not fetched: {got}"
    );
    assert_eq!(scratch.prints(&["-q", &inside("zebra.md")]), "stripes\n");
    scratch.gets(&["-q", &inside("large")]);
    assert!(scratch.got("large") == large);
    assert!(scratch.got_names().iter().all(|name| !name.contains("watchfire")), "no ciphertext");
    scratch.gets(&["-q", &inside("sub"), "-o", "below"]);
    assert!(scratch.get_folder().join("below/.hidden").exists());
    scratch.fails(&[&inside("day%202.md")], 1, "day 2.md");
    let output = scratch.get(&[&inside("..%2Fescaped"), "-o", "escaped"]);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
    assert!(!scratch.get_folder().join("escaped").exists() && !scratch.0.join("escaped").exists());
}

#[test]
fn a_private_page_is_held_and_served_without_its_key() {
    let scratch = Folders::new();
    let large = trip(&scratch);
    let (mut share, link) = scratch.shared(&["--private", "trip"]);
    let (key, keyless) = split_key(&link);
    let store = scratch.0.join("store");
    let store = store.to_str().expect("UTF-8");
    // The printed link has no key, even if the given link has one.
    for given in [&keyless, &link] {
        let mut hold = Serving::start(&scratch.get_folder(), "hold", &[given, "--store", store]);
        let held = hold.event("held");
        let printed = held["link"].as_str().expect("a link");
        assert!(!printed.contains(&key) && !printed.contains("key="), "{printed}");
        assert_eq!(hold.interrupt(), Some(0));
    }
    assert_eq!(share.interrupt(), Some(0));

    let mut hold = Serving::start(&scratch.get_folder(), "hold", &[&keyless, "--store", store]);
    let held = hold.link("held");
    scratch.gets(&["-q", &format!("{held}#key={key}"), "-o", "trip"]);
    assert!(scratch.got("trip/large") == large);
}

#[test]
fn hold_with_only_the_relay_refuses_a_link_that_names_no_server() {
    let scratch = Scratch::new();
    let error = scratch.fails(&["hold", HELLO, "--relay-only", "--store", "store"]);
    assert!(error.contains("the link names no server"), "{error}");
}
