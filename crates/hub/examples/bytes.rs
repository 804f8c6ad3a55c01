//! Memory and time of a hub with a million clients:
//! `cargo run --release -p watchfire-hub --example bytes`.
//!
//! Each measurement runs in a process of its own, so that none reuses memory that another freed.

use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use watchfire_hub::{Hub, HubLimits, Presence, PresenceOwner, Subscriptions};
use watchfire_types::NodeId;

const CLIENTS: u32 = 1_000_000;
const ROOMS: u32 = 10_000;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("presence") => presence(),
        Some("replica") => replica(),
        Some(topics) => subscriptions(topics.parse().expect("a number of topics")),
        None => {
            for measure in ["1", "2", "3", "presence", "replica"] {
                let program = std::env::current_exe().expect("this program has a path");
                Command::new(program).arg(measure).status().expect("the program starts");
            }
        }
    }
}

/// Topics of a client: the lobby, then a topic of its own, then one of ten thousand rooms.
fn subscriptions(topics: u32) {
    let mut clients: Vec<Subscriptions> = (0..CLIENTS).map(|_| Subscriptions::default()).collect();
    let idle = resident_bytes() - clients.len() * size_of::<Subscriptions>();
    let mut hub = Hub::new(7, HubLimits::default());
    let join = timed(|| {
        for (client, list) in (0..).zip(&mut clients) {
            hub.subscribe(client, list, "rooms:lobby");
            if topics > 1 {
                hub.subscribe(client, list, &format!("user:{client}"));
            }
            if topics > 2 {
                hub.subscribe(client, list, &format!("rooms:{}", client % ROOMS));
            }
        }
    });
    let bytes = (resident_bytes() - idle) / CLIENTS as usize;
    hub.broadcast("rooms:lobby", ()).expect("no delivery waits");
    let mut sum = 0;
    let deliver =
        timed(|| while hub.deliver(2_000, |_, client, ()| sum += u64::from(client), |(), _| {}) {});
    black_box(sum);
    let leave = timed(|| {
        for list in &mut clients {
            while let Some(id) = hub.subscriptions(list).next() {
                hub.unsubscribe(list, id);
            }
        }
    });
    println!(
        "{topics} topics: {bytes} bytes a client; join {} ns, leave {} ns, deliver {} ns",
        nanos(join),
        nanos(leave),
        nanos(deliver)
    );
}

fn presence() {
    let mut owners: Vec<PresenceOwner> = (0..CLIENTS).map(|_| PresenceOwner::default()).collect();
    let idle = resident_bytes() - owners.len() * size_of::<PresenceOwner>();
    let mut presence = Presence::new(7);
    let track = timed(|| {
        for (client, owner) in (0..).zip(&mut owners) {
            let topic = format!("rooms:{}", client % ROOMS);
            let meta = r#"{"status":"online","online_at":1234567890}"#;
            presence.track(owner, &topic, &format!("user:{client}"), meta).expect("a new key");
        }
    });
    let changed = (resident_bytes() - idle) / CLIENTS as usize;
    let diffs = timed(|| while presence.poll_diff().is_some() {});
    let state = timed(|| {
        (0..ROOMS).for_each(|room| drop(presence.state(&format!("rooms:{room}"))));
    });
    // The allocator may keep the memory of the diffs, so measure again without such a burst.
    drop(presence);
    let mut presence = Presence::new(7);
    let mut owners: Vec<PresenceOwner> = (0..CLIENTS).map(|_| PresenceOwner::default()).collect();
    for (client, owner) in (0..).zip(&mut owners) {
        let topic = format!("rooms:{}", client % ROOMS);
        let meta = r#"{"status":"online","online_at":1234567890}"#;
        presence.track(owner, &topic, &format!("user:{client}"), meta).expect("a new key");
        if client % ROOMS == ROOMS - 1 {
            while presence.poll_diff().is_some() {}
        }
    }
    let after_diff = (resident_bytes() - idle) / CLIENTS as usize;
    let leave = timed(|| owners.iter_mut().for_each(|owner| presence.untrack_all(owner)));
    println!(
        "presence: {after_diff} bytes an entry, {changed} before its diff; track {} ns, untrack {} \
         ns, diff {} ns, state {} ns",
        nanos(track),
        nanos(leave),
        nanos(diffs),
        nanos(state)
    );
}

/// The presences of another node: exported, imported and forgotten.
fn replica() {
    let mut there = Presence::of_node(8, NodeId(1));
    for client in 0..CLIENTS {
        let (topic, key) = (format!("rooms:{}", client % ROOMS), format!("user:{client}"));
        let meta = r#"{"status":"online","online_at":1234567890}"#;
        // The owner is dropped, because nothing is untracked here.
        let mut owner = PresenceOwner::default();
        there.track(&mut owner, &topic, &key, meta).expect("a new key");
    }
    let idle = resident_bytes();
    let mut here = Presence::of_node(7, NodeId(0));
    let (mut export, mut import) = (Duration::ZERO, Duration::ZERO);
    for topic in (0..ROOMS).map(|room| format!("rooms:{room}")) {
        let mut exported = Vec::new();
        export += timed(|| exported = there.export(&topic));
        import += timed(|| {
            let import = |joined| here.import(NodeId(1), &topic, joined);
            exported.iter().try_for_each(import).expect("no limit is reached");
        });
        while here.poll_diff().is_some() {}
    }
    let bytes = (resident_bytes() - idle) / CLIENTS as usize;
    let forget = timed(|| here.forget_node(NodeId(1)));
    println!(
        "replica: {bytes} bytes an entry; export {} ns, import {} ns, forget {} ns",
        nanos(export),
        nanos(import),
        nanos(forget)
    );
}

/// Time per client, in nanoseconds.
fn nanos(all: Duration) -> u128 {
    all.as_nanos() / u128::from(CLIENTS)
}

/// The processor time of a call, independent of other processes.
fn timed(act: impl FnOnce()) -> Duration {
    let start = Duration::from_nanos(proc_number("schedstat", 0));
    act();
    Duration::from_nanos(proc_number("schedstat", 0)) - start
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    proc_number("statm", 1) as usize * 4_096
}

/// A number from a file in `/proc/self`.
#[allow(clippy::disallowed_methods)] // A measurement may read files.
fn proc_number(file: &str, field: usize) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).expect("Linux has procfs");
    let number = text.split_whitespace().nth(field).and_then(|number| number.parse().ok());
    number.expect("the file has numbers")
}
