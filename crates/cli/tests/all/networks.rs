//! Private networks, persistent identities and content routing, with several hosts on one machine.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use serde_json::Value;
use watchfire_p2p::{Dht, Host, HostSettings};
use watchfire_store::{LockedMemoryStore, Stores};

const WATCHFIRE: &str = env!("CARGO_BIN_EXE_watchfire");
const LISTEN: [&str; 3] = ["--json", "--listen", "/ip4/127.0.0.1/tcp/0"];

/// A folder that is removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = format!("watchfire-networks-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        Scratch(folder)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), bytes).expect("a file can be written");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(WATCHFIRE);
        command.args(arguments).current_dir(&self.0).output().expect("the program runs")
    }

    fn start(&self, arguments: &[&str]) -> Serving {
        let mut command = Command::new(WATCHFIRE);
        command.args(arguments).args(LISTEN).current_dir(&self.0);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program runs");
        let events = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Serving { child, events }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A serving process; it is killed after the test.
struct Serving {
    child: Child,
    events: BufReader<std::process::ChildStdout>,
}

impl Serving {
    /// The next event of this kind.
    fn event(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            let len = self.events.read_line(&mut line).expect("it can be read");
            assert!(len > 0, "the process ended before {kind}: {:?}", self.child.wait());
            let event: Value = serde_json::from_str(&line).expect("JSON");
            if event["event"] == kind {
                return event;
            }
        }
    }

    /// The link of the next event of this kind.
    fn link(&mut self, kind: &str) -> String {
        self.event(kind)["link"].as_str().expect("a link").to_owned()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn swarm_key(digit: char) -> String {
    format!("/key/swarm/psk/1.0.0/\n/base16/\n{}\n", digit.to_string().repeat(64))
}

fn peer_of(link: &str) -> &str {
    link.rsplit("/p2p/").next().expect("it names a peer")
}

fn same(scratch: &Scratch, one: &str, other: &str) -> bool {
    let read = |name: &str| fs::read(scratch.0.join(name)).expect("it is there");
    read(one) == read(other)
}

#[test]
fn only_peers_with_the_swarm_key_get_content_of_a_private_network() {
    let scratch = Scratch::new("private");
    scratch.file("ours.key", swarm_key('a'));
    scratch.file("theirs.key", swarm_key('b'));
    scratch.file("secret", vec![7; 3_000_000]);
    let ours = ["--swarm-key", "ours.key"];
    let mut share = scratch.start(&[&["share", "secret"][..], &ours].concat());
    let link = share.link("shared");
    let mut hold = scratch.start(&[&["hold", &link, "--store", "kept"][..], &ours].concat());
    let held = hold.link("held");

    for options in [&["--swarm-key", "theirs.key"][..], &[]] {
        let get = ["get", &link, "-o", "stolen", "--timeout", "2s"];
        let output = scratch.run(&[&get[..], options].concat());
        assert_eq!(output.status.code(), Some(3), "{options:?}: {}", text(&output.stderr));
        assert!(!scratch.0.join("stolen").exists());
    }
    drop(share);
    let output = scratch.run(&[&["get", &held, "-o", "copy"][..], &ours].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(same(&scratch, "copy", "secret"));

    scratch.file("broken.key", "/key/swarm/psk/1.0.0/\n/base16/\nabc\n");
    let output = scratch.run(&["get", &held, "-o", "none", "--swarm-key", "broken.key"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("broken.key"), "{}", text(&output.stderr));
}

#[test]
fn a_host_with_an_identity_file_keeps_its_peer_id() {
    let scratch = Scratch::new("identity");
    scratch.file("file", "hello\n");
    let arguments = ["share", "file", "--identity", "me/key"];
    let mut share = scratch.start(&arguments);
    let first = share.link("shared");
    drop(share);
    let mode = fs::metadata(scratch.0.join("me/key")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner can read the key");
    let mut share = scratch.start(&arguments);
    let second = share.link("shared");
    assert_eq!(peer_of(&first), peer_of(&second));
    let output = scratch.run(&["get", &second, "-o", "copy"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    drop(share);

    let mut anonymous = scratch.start(&["share", "file"]);
    assert_ne!(peer_of(&anonymous.link("shared")), peer_of(&first));
    drop(anonymous);

    scratch.file("no-key", "hello");
    let output = scratch.run(&["share", "file", "--identity", "no-key"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no-key"), "{}", text(&output.stderr));
}

/// A DHT server, which stores provider records.
async fn dht_server() -> Host {
    let listen = vec!["/ip4/127.0.0.1/tcp/0".parse().expect("an address")];
    let settings = HostSettings { listen, dht: Dht::Server, ..HostSettings::default() };
    let keep = Arc::new(LockedMemoryStore::new(1 << 20));
    Host::start(settings, Stores::default(), keep).await.expect("a host")
}

#[test]
fn a_cid_is_enough_if_content_routing_knows_a_provider() {
    let scratch = Scratch::new("dht");
    scratch.file("file", vec![9; 3_000_000]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(dht_server());
    let address = server.addresses()[0].to_string();
    let dht = ["--dht", "--peer", &address];
    let mut share = scratch.start(&[&["share", "file"][..], &dht].concat());
    let event = share.event("shared");
    let cid = event["cid"].as_str().expect("a CID");

    // The search is retried, so a late announcement is found.
    let output = scratch.run(&[&["get", cid, "-o", "copy", "--json"][..], &dht].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(same(&scratch, "copy", "file"));

    // Without `--dht` content routing is not used.
    let get = ["get", cid, "-o", "other", "--timeout", "2s", "--peer", &address];
    assert_eq!(scratch.run(&get).status.code(), Some(3));
    drop(share);
    runtime.block_on(server.stop());
}

#[test]
fn a_link_with_a_path_fetches_only_the_folder_at_the_path() {
    let scratch = Scratch::new("below");
    let tree = scratch.0.join("tree/a/b");
    fs::create_dir_all(&tree).expect("folders can be made");
    fs::write(tree.join("small"), "small\n").expect("it can be written");
    fs::write(scratch.0.join("tree/large"), vec![1; 5_000_000]).expect("it can be written");
    let mut share = scratch.start(&["share", "tree"]);
    let link = share.link("shared");
    let below = link.replacen('?', "/a/b?", 1);
    let output = scratch.run(&["get", &below, "-o", "out", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let last = text(&output.stdout).lines().last().map(str::to_owned).expect("an event");
    let got: Value = serde_json::from_str(&last).expect("JSON");
    assert!(got["fetched_bytes"].as_u64() < Some(2000), "{got}");
    assert_eq!(read(&scratch.0.join("out/small")), "small\n");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}
