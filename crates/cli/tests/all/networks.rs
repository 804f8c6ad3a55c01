//! Private networks, persistent identities and content routing, with several hosts on one machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use serde_json::Value;
use watchfire_p2p::{Dht, Host, HostSettings};
use watchfire_store::{LockedMemoryStore, Stores};

use crate::support::{Scratch, Serving, text};

fn swarm_key(digit: char) -> String {
    format!("/key/swarm/psk/1.0.0/\n/base16/\n{}\n", digit.to_string().repeat(64))
}

fn peer_of(link: &str) -> &str {
    link.rsplit("/p2p/").next().expect("it names a peer")
}

fn same(scratch: &Scratch, one: &str, other: &str) -> bool {
    let read = |name: &str| fs::read(scratch.join(name)).expect("it is there");
    read(one) == read(other)
}

#[test]
fn only_peers_with_the_swarm_key_get_content_of_a_private_network() {
    let scratch = Scratch::new();
    scratch.file("ours.key", swarm_key('a'));
    scratch.file("theirs.key", swarm_key('b'));
    scratch.file("secret", vec![7; 3_000_000]);
    let ours = ["--swarm-key", "ours.key"];
    let mut share = Serving::start(&scratch, "share", &[&["secret"][..], &ours].concat());
    let link = share.link("shared");
    let holding = [&link, "--store", "kept", ours[0], ours[1]];
    let mut hold = Serving::start(&scratch, "hold", &holding);
    let held = hold.link("held");

    for options in [&["--swarm-key", "theirs.key"][..], &[]] {
        let get = ["get", &link, "-o", "stolen", "--timeout", "2s"];
        let output = scratch.run(&[&get[..], options].concat());
        assert_eq!(output.status.code(), Some(3), "{options:?}: {}", text(&output.stderr));
        assert!(!scratch.join("stolen").exists());
    }
    drop(share);
    scratch.prints(&[&["get", &held, "-o", "copy"][..], &ours].concat());
    assert!(same(&scratch, "copy", "secret"));

    scratch.file("broken.key", "/key/swarm/psk/1.0.0/\n/base16/\nabc\n");
    let error = scratch.fails(&["get", &held, "-o", "none", "--swarm-key", "broken.key"]);
    assert!(error.contains("broken.key"), "{error}");
}

#[test]
fn a_host_with_an_identity_file_keeps_its_peer_id() {
    let scratch = Scratch::new();
    scratch.file("file", "hello\n");
    let arguments = ["file", "--identity", "me/key"];
    let mut share = Serving::start(&scratch, "share", &arguments);
    let first = share.link("shared");
    drop(share);
    let mode = fs::metadata(scratch.join("me/key")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner can read the key");
    let mut share = Serving::start(&scratch, "share", &arguments);
    let second = share.link("shared");
    assert_eq!(peer_of(&first), peer_of(&second));
    scratch.prints(&["get", &second, "-o", "copy"]);
    drop(share);

    let mut anonymous = Serving::start(&scratch, "share", &["file"]);
    assert_ne!(peer_of(&anonymous.link("shared")), peer_of(&first));
    drop(anonymous);

    scratch.file("no-key", "hello");
    let error = scratch.fails(&["share", "file", "--identity", "no-key"]);
    assert!(error.contains("no-key"), "{error}");
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
    let scratch = Scratch::new();
    scratch.file("file", vec![9; 3_000_000]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(dht_server());
    let address = server.addresses()[0].to_string();
    let dht = ["--dht", "--peer", &address];
    let mut share = Serving::start(&scratch, "share", &[&["file"][..], &dht].concat());
    let event = share.event("shared");
    let cid = event["cid"].as_str().expect("a CID");

    // The search is retried, so a late announcement is found.
    scratch.prints(&[&["get", cid, "-o", "copy", "--json"][..], &dht].concat());
    assert!(same(&scratch, "copy", "file"));

    // Without `--dht` content routing is not used.
    let get = ["get", cid, "-o", "other", "--timeout", "3s", "--peer", &address];
    let output = scratch.run(&get);
    assert_eq!(output.status.code(), Some(3));
    // Long before the end, also without a terminal.
    assert!(text(&output.stderr).contains("open; waiting 3s"), "{}", text(&output.stderr));
    drop(share);
    runtime.block_on(server.stop());
}

#[test]
fn a_link_with_a_path_fetches_only_the_folder_at_the_path() {
    let scratch = Scratch::new();
    scratch.file("tree/a/b/small", "small\n");
    scratch.file("tree/large", vec![1; 5_000_000]);
    let mut share = Serving::start(&scratch, "share", &["tree"]);
    let link = share.link("shared");
    let below = link.replacen('?', "/a/b?", 1);
    let events = scratch.prints(&["get", &below, "-o", "out", "--json"]);
    let got: Value = serde_json::from_str(events.lines().last().expect("an event")).expect("JSON");
    assert!(got["fetched_bytes"].as_u64() < Some(2000), "{got}");
    assert_eq!(fs::read(scratch.join("out/small")).expect("it is there"), b"small\n");
}
