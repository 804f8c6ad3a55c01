//! Replication of presences between nodes, by interest. `crates/server/src/presence/simulation.rs` runs it
//! through faults.

use crate::reader::{Client, Shown, check, parse};
use serde_json::{Value, json};
use watchfire_hub::{
    Exported, ImportError, OwnChange, Presence, PresenceLimits, PresenceOwner, Reference,
    TrackError,
};
use watchfire_types::{NodeId, Rng};

const LOBBY: &str = "rooms:lobby";
const HERE: NodeId = NodeId(0);
const THERE: NodeId = NodeId(1);

fn state(presence: &mut Presence, topic: &str) -> Shown {
    parse(&serde_json::from_str(&presence.state(topic)).unwrap())
}

/// The joins and leaves of the next diff for this node's clients.
fn diff(presence: &mut Presence) -> Option<(Shown, Shown)> {
    let payload = presence.poll_diff()?.payload?;
    let payload: Value = serde_json::from_str(&payload).unwrap();
    check(&payload);
    Some((parse(&payload["joins"]), parse(&payload["leaves"])))
}

fn own(presence: &mut Presence) -> Vec<OwnChange> {
    presence.poll_diff().map(|diff| diff.own).unwrap_or_default()
}

/// Two nodes with an interest in the lobby, and alice on the other one.
fn two_nodes_with_alice() -> (Presence, Presence, PresenceOwner) {
    let (mut there, mut alice) = (Presence::of_node(8, THERE), PresenceOwner::default());
    there.track(&mut alice, LOBBY, "alice", r#"{"n":1}"#).unwrap();
    let mut here = Presence::of_node(7, HERE);
    import(&mut here, &there.export(LOBBY));
    (here, there, alice)
}

fn import(here: &mut Presence, changes: &[OwnChange]) {
    for change in changes {
        here.import(THERE, LOBBY, change).unwrap();
    }
}

fn exported(key: &str, meta: &str, reference: Reference) -> OwnChange {
    let (key, meta) = (key.into(), meta.into());
    OwnChange::Joined(Exported { key, meta, reference, previous: None })
}

/// A reference made by the other node.
fn reference_of_alice(here: &mut Presence) -> Reference {
    let (_, mut there, _alice) = two_nodes_with_alice();
    let OwnChange::Joined(Exported { reference, .. }) = there.export(LOBBY)[0] else {
        panic!("an export has joins only");
    };
    assert_eq!((reference.node(), here.node()), (THERE, HERE));
    reference
}

#[test]
fn an_exported_presence_is_shown_under_the_same_reference() {
    let (mut here, mut there, _alice) = two_nodes_with_alice();
    let there_shown = state(&mut there, LOBBY);
    assert_eq!(state(&mut here, LOBBY), there_shown);
    assert_eq!(diff(&mut here), Some((there_shown, Shown::new())));
    assert_eq!((here.len(), here.own_len(), there.own_len()), (1, 0, 1));
    assert_eq!(here.export(LOBBY), [], "a node exports only its own presences");
}

#[test]
fn a_repeated_change_is_shown_once() {
    let (mut here, mut there, _alice) = two_nodes_with_alice();
    diff(&mut here).unwrap();
    import(&mut here, &own(&mut there));
    import(&mut here, &there.export(LOBBY));
    assert_eq!((here.count(LOBBY), diff(&mut here)), (1, None));
}

#[test]
fn an_update_on_another_node_looks_like_a_local_one() {
    let (mut here, mut there, alice) = two_nodes_with_alice();
    let (old, _) = diff(&mut here).unwrap();
    import(&mut here, &own(&mut there));
    there.update(&alice, LOBBY, "alice", r#"{"n":2}"#).unwrap();
    let changes = own(&mut there);
    assert_eq!(changes.len(), 1);
    import(&mut here, &changes);
    let (joins, leaves) = diff(&mut here).unwrap();
    assert_eq!(leaves, old);
    let meta = joins["alice"].values().next().unwrap();
    assert_eq!(meta["n"], 2);
    assert_eq!(
        Some(meta["phx_ref_prev"].as_str().unwrap()),
        old["alice"].keys().next().map(|r| &**r)
    );
    assert_eq!(state(&mut there, LOBBY), state(&mut here, LOBBY));
}

#[test]
fn an_update_of_a_presence_unknown_to_clients_is_only_a_join() {
    let (mut here, mut there, alice) = two_nodes_with_alice();
    own(&mut there);
    there.update(&alice, LOBBY, "alice", r#"{"n":2}"#).unwrap();
    import(&mut here, &own(&mut there));
    let (joins, leaves) = diff(&mut here).unwrap();
    let meta = joins["alice"].values().next().unwrap();
    assert_eq!((&meta["n"], meta.get("phx_ref_prev"), leaves), (&json!(2), None, Shown::new()));
}

#[test]
fn a_leave_of_an_exported_presence_is_sent_to_nodes_even_if_no_client_knew_it() {
    let (mut here, mut there, mut alice) = two_nodes_with_alice();
    diff(&mut here).unwrap();
    there.untrack_all(&mut alice);
    let diff_there = there.poll_diff().unwrap();
    assert_eq!((diff_there.payload, diff_there.own.len()), (None, 1));
    import(&mut here, &diff_there.own);
    assert_eq!((here.count(LOBBY), diff(&mut here).unwrap().0), (0, Shown::new()));
    import(&mut here, &diff_there.own);
    assert_eq!(here.poll_diff(), None, "an unknown presence cannot leave");
}

#[test]
fn a_new_export_replaces_the_outdated_presences_of_its_node() {
    let (mut here, mut there, mut alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", "{}").unwrap();
    diff(&mut here).unwrap();
    there.untrack_all(&mut alice);
    there.track(&mut alice, LOBBY, "carol", "{}").unwrap();
    here.forget_topic_of(THERE, LOBBY);
    import(&mut here, &there.export(LOBBY));
    let (joins, leaves) = diff(&mut here).unwrap();
    assert!(joins.keys().eq(["carol"]) && leaves.keys().eq(["alice"]));
    assert!(state(&mut here, LOBBY).keys().eq(["bob", "carol"]));
}

#[test]
fn all_presences_of_a_node_leave_with_it() {
    let (mut here, _there, _alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", "{}").unwrap();
    diff(&mut here).unwrap();
    here.forget_node(THERE);
    let (joins, leaves) = diff(&mut here).unwrap();
    assert_eq!((joins, leaves.len()), (Shown::new(), 1));
    here.forget_node(HERE);
    assert_eq!((here.len(), here.own_len()), (1, 1), "a node cannot forget itself");
}

#[test]
fn a_node_that_returns_at_once_has_not_left() {
    let (mut here, mut there, _alice) = two_nodes_with_alice();
    let mut client = Client::sync_state(&serde_json::from_str(&here.state(LOBBY)).unwrap());
    here.poll_diff();
    here.forget_node(THERE);
    import(&mut here, &there.export(LOBBY));
    let payload = here.poll_diff().unwrap().payload.unwrap();
    client.sync_diff(&serde_json::from_str(&payload).unwrap());
    assert_eq!(client.shown(), state(&mut here, LOBBY));
    assert_eq!(client.shown().len(), 1);
}

#[test]
fn leaves_of_other_nodes_are_not_sent_on_a_topic_without_subscribers() {
    let (mut here, _there, _alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", "{}").unwrap();
    here.poll_diff();
    here.untrack_all(&mut bob);
    here.forget_remote(LOBBY);
    let last = here.poll_diff().unwrap();
    assert!(matches!(&last.own[..], [OwnChange::Left { key, .. }] if key == "bob"));
    assert!(!last.payload.unwrap().contains("alice"));
    assert_eq!((here.len(), here.poll_diff()), (0, None));
}

#[test]
fn a_server_of_one_node_has_no_own_changes() {
    let (mut presence, mut alice) = (Presence::new(7), PresenceOwner::default());
    presence.track(&mut alice, LOBBY, "alice", "{}").unwrap();
    assert_eq!(own(&mut presence), []);
    presence.untrack_all(&mut alice);
    assert_eq!(own(&mut presence), []);
}

#[test]
fn a_node_may_send_only_its_own_presences() {
    let mut here = Presence::of_node(7, HERE);
    let reference = reference_of_alice(&mut here);
    let joined = exported("alice", "{}", reference);
    let refused = here.import(NodeId(2), LOBBY, &joined);
    assert_eq!(refused, Err(ImportError::WrongNode { from: NodeId(2), of: THERE }));
    let mut there = Presence::of_node(9, THERE);
    assert!(there.import(THERE, LOBBY, &joined).is_err(), "a node does not import its own");
    assert_eq!((here.len(), there.len()), (0, 0));

    let (mut here, _there, _alice) = two_nodes_with_alice();
    let left = OwnChange::Left { key: "alice".into(), reference };
    assert!(here.import(NodeId(2), LOBBY, &left).is_err());
    here.forget_topic_of(NodeId(2), LOBBY);
    assert_eq!(here.len(), 1);
}

#[test]
fn a_presence_over_a_limit_is_not_imported_and_its_older_meta_is_removed() {
    let limits = PresenceLimits { key_bytes_max: 5, meta_bytes_max: 20, ..Default::default() };
    let mut here = Presence::of_node_with_limits(7, HERE, limits);
    let reference = reference_of_alice(&mut here);
    let mut import = |key, meta| here.import(THERE, LOBBY, &exported(key, meta, reference));
    let key = TrackError::KeyTooLong { len: 6, max: 5 };
    assert_eq!(import("alices", "{}"), Err(ImportError::Refused(key)));
    let meta = TrackError::MetaTooLong { len: 21, max: 20 };
    assert_eq!(import("alice", r#"{"a":"1234567890123"}"#), Err(meta.into()));
    for meta in ["", "[]", "{", "{}{}", "}"] {
        assert_eq!(import("alice", meta), Err(TrackError::MetaNotObject.into()));
    }
    assert_eq!(import("alice", r#"{"phx_ref":"me"}"#), Ok(()));
    assert!(!here.state(LOBBY).contains("me\""));

    let (mut there, mut alice) = (Presence::of_node(8, THERE), PresenceOwner::default());
    there.track(&mut alice, LOBBY, "alice", "{}").unwrap();
    for joined in there.export(LOBBY) {
        here.import(THERE, LOBBY, &joined).unwrap();
    }
    own(&mut there);
    there
        .update(&alice, LOBBY, "alice", &json!({ "too": "long for the other" }).to_string())
        .unwrap();
    assert!(here.import(THERE, LOBBY, &own(&mut there)[0]).is_err());
    let (joins, leaves) = diff(&mut here).unwrap();
    assert!(joins.is_empty() && leaves.keys().eq(["alice"]) && here.is_empty());
}

#[test]
fn any_references_may_be_imported() {
    for seed in 1..=200 {
        let mut rng = Rng::from_seed(seed);
        let mut here = Presence::of_node(seed, THERE);
        for _ in 0..300 {
            // Few references, so that they meet: under other keys, and as their own predecessors.
            let mut reference = || -> Reference {
                let number = [0, 1 << 16, u64::MAX << 16, 2, 1 << 16 | 2][rng.index(5)];
                serde_json::from_value(json!(number)).unwrap()
            };
            let (reference, previous) = (reference(), Some(reference()));
            let key = ["", "a", "\"b\""][rng.index(3)].to_owned();
            let change = match rng.index(3) {
                0 => OwnChange::Left { key, reference },
                _ => OwnChange::Joined(Exported { key, meta: "{}".into(), reference, previous }),
            };
            here.import(reference.node(), LOBBY, &change).unwrap();
            match rng.index(10) {
                0 => here.forget_node(reference.node()),
                1 => here.forget_remote(LOBBY),
                2 => drop(state(&mut here, LOBBY)),
                3 => {
                    let payload = here.poll_diff().and_then(|diff| diff.payload);
                    let payload = payload.unwrap_or_else(|| r#"{"joins":{},"leaves":{}}"#.into());
                    let payload: Value = serde_json::from_str(&payload).unwrap();
                    drop((parse(&payload["joins"]), parse(&payload["leaves"])));
                }
                _ => {}
            }
        }
        here.forget_node(NodeId(0));
        here.forget_node(NodeId(2));
        here.poll_diff();
        assert_eq!((here.len(), here.poll_diff(), here.count(LOBBY)), (0, None, 0));
    }
}

#[test]
fn a_remote_key_of_ten_thousand_owners_is_removed_quickly() {
    let (mut here, mut there) = (Presence::of_node(7, HERE), Presence::of_node(8, THERE));
    let mut owners: Vec<PresenceOwner> = (0..10_000).map(|_| PresenceOwner::default()).collect();
    for owner in &mut owners {
        there.track(owner, LOBBY, "guest", "{}").unwrap();
    }
    let changes = own(&mut there);
    import(&mut here, &changes);
    import(&mut here, &changes);
    assert_eq!((here.count(LOBBY), here.keys(LOBBY)), (10_000, 1));
    diff(&mut here).unwrap();
    owners.iter_mut().rev().for_each(|owner| there.untrack_all(owner));
    import(&mut here, &own(&mut there));
    assert_eq!((here.len(), diff(&mut here).unwrap().1["guest"].len()), (0, 10_000));
}

#[test]
fn the_own_state_has_the_presences_of_this_node_only_and_notes_no_reader() {
    let (mut here, _there, _alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", r#"{"n":2}"#).unwrap();
    let own: Value = serde_json::from_str(&here.own_state(LOBBY)).unwrap();
    assert!(own.as_object().unwrap().keys().eq(["bob"]));
    assert_eq!((here.own_count(LOBBY), here.count(LOBBY), here.keys(LOBBY)), (1, 2, 2));
    assert_eq!((here.own_state("rooms:attic"), here.own_count("rooms:attic")), ("{}".into(), 0));

    // No client knows bob, so there is no leave to send.
    here.untrack_all(&mut bob);
    let (joins, leaves) = diff(&mut here).expect("alice joined");
    assert!(joins.keys().eq(["alice"]) && leaves.is_empty(), "{joins:?} {leaves:?}");
}
