//! Presence states and diffs, as clients receive them.

use std::collections::{BTreeMap, VecDeque};
use watchfire_types::Rng;

use crate::reader::{Client, Shown, check, parse};
use serde_json::{Value, json};
use watchfire_hub::{Presence, PresenceLimits, PresenceOwner, TrackError};

const LOBBY: &str = "rooms:lobby";

fn state(presence: &mut Presence, topic: &str) -> Shown {
    parse(&serde_json::from_str(&presence.state(topic)).unwrap())
}

/// The joins and leaves of the next diff, which must be of the lobby.
fn diff(presence: &mut Presence) -> Option<(Shown, Shown)> {
    let diff = presence.poll_diff()?;
    assert_eq!((&*diff.topic, &*diff.own), (LOBBY, &[][..]));
    let payload: Value = serde_json::from_str(&diff.payload.unwrap()).unwrap();
    assert_eq!(payload.as_object().unwrap().len(), 2);
    Some((parse(&payload["joins"]), parse(&payload["leaves"])))
}

/// A field of the only meta of a key.
fn field(shown: &Shown, key: &str, name: &str) -> Value {
    assert_eq!(shown[key].len(), 1);
    shown[key].values().next().unwrap()[name].clone()
}

fn presence_with_alice() -> (Presence, PresenceOwner) {
    let (mut presence, mut alice) = (Presence::new(7), PresenceOwner::default());
    presence.track(&mut alice, LOBBY, "alice", r#"{"status":"online"}"#).unwrap();
    (presence, alice)
}

#[test]
fn a_tracked_key_is_in_the_state_and_in_one_diff() {
    let (mut presence, _alice) = presence_with_alice();
    let (joins, leaves) = diff(&mut presence).unwrap();
    assert_eq!(field(&joins, "alice", "status"), "online");
    assert_eq!(leaves, Shown::new());
    assert_eq!(state(&mut presence, LOBBY), joins);
    assert_eq!(diff(&mut presence), None);
}

#[test]
fn a_state_includes_the_joins_of_the_next_diff() {
    let (mut presence, _alice) = presence_with_alice();
    assert_eq!(state(&mut presence, LOBBY), diff(&mut presence).unwrap().0);
}

#[test]
fn a_presence_that_joins_and_leaves_between_diffs_is_not_in_them() {
    let (mut presence, mut alice) = presence_with_alice();
    presence.untrack(&mut alice, LOBBY, "alice");
    assert_eq!((presence.len(), diff(&mut presence)), (0, None));
}

#[test]
fn a_leave_after_a_state_is_in_the_next_diff() {
    let (mut presence, mut alice) = presence_with_alice();
    let seen = state(&mut presence, LOBBY);
    presence.untrack_all(&mut alice);
    assert_eq!(diff(&mut presence), Some((Shown::new(), seen)));
}

#[test]
fn an_update_joins_the_new_meta_and_removes_the_one_that_clients_know() {
    let (mut presence, alice) = presence_with_alice();
    let (old, _) = diff(&mut presence).unwrap();
    presence.update(&alice, LOBBY, "alice", r#"{"status":"typing"}"#).unwrap();
    presence.update(&alice, LOBBY, "alice", r#"{"status":"away"}"#).unwrap();
    let (joins, leaves) = diff(&mut presence).unwrap();
    assert_eq!(leaves, old);
    assert_eq!(field(&joins, "alice", "status"), "away");
    assert_eq!(field(&joins, "alice", "phx_ref_prev"), field(&old, "alice", "phx_ref"));
    assert_eq!(state(&mut presence, LOBBY), joins);
}

#[test]
fn an_update_before_the_first_diff_is_only_a_join() {
    let (mut presence, alice) = presence_with_alice();
    presence.update(&alice, LOBBY, "alice", r#"{"status":"away"}"#).unwrap();
    let (joins, leaves) = diff(&mut presence).unwrap();
    assert_eq!(field(&joins, "alice", "status"), "away");
    assert_eq!(field(&joins, "alice", "phx_ref_prev"), Value::Null);
    assert_eq!(leaves, Shown::new());
}

#[test]
fn an_update_and_a_leave_give_only_the_leave() {
    let (mut presence, mut alice) = presence_with_alice();
    let (old, _) = diff(&mut presence).unwrap();
    presence.update(&alice, LOBBY, "alice", "{}").unwrap();
    presence.untrack(&mut alice, LOBBY, "alice");
    assert_eq!(diff(&mut presence), Some((Shown::new(), old)));
    assert_eq!((presence.count(LOBBY), presence.is_empty()), (0, true));
}

#[test]
fn one_key_of_several_owners_has_several_metas() {
    let (mut presence, mut phone) = presence_with_alice();
    let mut laptop = PresenceOwner::default();
    presence.track(&mut laptop, LOBBY, "alice", r#"{"on":"laptop"}"#).unwrap();
    assert_eq!((presence.count(LOBBY), presence.keys(LOBBY)), (2, 1));
    assert_eq!(state(&mut presence, LOBBY)["alice"].len(), 2);
    presence.untrack_all(&mut phone);
    assert_eq!(field(&state(&mut presence, LOBBY), "alice", "on"), "laptop");
}

#[test]
fn topics_and_keys_are_separate() {
    let (mut presence, mut alice) = presence_with_alice();
    presence.track(&mut alice, LOBBY, "alice's cat", "{}").unwrap();
    presence.track(&mut alice, "rooms:kitchen", "alice", "{}").unwrap();
    assert_eq!((presence.keys(LOBBY), presence.keys("rooms:kitchen"), presence.len()), (2, 1, 3));
    let mut changed: Vec<String> =
        std::iter::from_fn(|| presence.poll_diff()).map(|d| d.topic).collect();
    changed.sort();
    assert_eq!(changed, ["rooms:kitchen", LOBBY]);
    presence.untrack(&mut alice, LOBBY, "alice");
    assert_eq!(presence.state("rooms:attic"), "{}");
    assert!(state(&mut presence, LOBBY).keys().eq(["alice's cat"]));
}

#[test]
fn the_same_owner_tracks_a_key_once_and_updates_only_what_it_tracks() {
    let (mut presence, mut alice) = presence_with_alice();
    let again = presence.track(&mut alice, LOBBY, "alice", "{}");
    assert_eq!(again, Err(TrackError::AlreadyTracked));
    let unknown = presence.update(&alice, LOBBY, "bob", "{}");
    assert_eq!(unknown, Err(TrackError::NotTracked));
    let elsewhere = presence.update(&alice, "rooms:attic", "alice", "{}");
    assert_eq!(elsewhere, Err(TrackError::NotTracked));
    presence.untrack(&mut alice, LOBBY, "bob");
    assert_eq!(presence.len(), 1);
}

#[test]
fn any_text_can_be_a_key() {
    let (mut presence, mut owner) = (Presence::new(7), PresenceOwner::default());
    let keys = ["", "\"", "\\", "{}", "line\nbreak", "\u{0}", "käse 🧀", "\u{2028}"];
    for key in keys {
        presence.track(&mut owner, LOBBY, key, "{}").unwrap();
    }
    let shown = state(&mut presence, LOBBY);
    assert!(keys.iter().all(|key| shown.contains_key(*key)), "{shown:?}");
    keys.iter().for_each(|key| presence.untrack(&mut owner, LOBBY, key));
    assert!(presence.is_empty() && owner.is_empty());
}

#[test]
fn a_meta_without_fields_may_hold_white_space() {
    let (mut presence, mut alice) = (Presence::new(7), PresenceOwner::default());
    presence.track(&mut alice, LOBBY, "alice", "{ \n}").unwrap();
    let (joins, _) = diff(&mut presence).unwrap();
    assert_eq!(joins["alice"].len(), 1);
}

#[test]
fn input_over_a_limit_is_refused_and_changes_nothing() {
    let limits = PresenceLimits {
        key_bytes_max: 5,
        meta_bytes_max: 10,
        keys_per_owner_max: 2,
        leaves_waiting_max: 1,
    };
    let (mut presence, mut alice) = (Presence::with_limits(7, limits), PresenceOwner::default());
    let key = presence.track(&mut alice, LOBBY, "alices", "{}");
    assert_eq!(key, Err(TrackError::KeyTooLong { len: 6, max: 5 }));
    let meta = presence.track(&mut alice, LOBBY, "alice", r#"{"a":12345}"#);
    assert_eq!(meta, Err(TrackError::MetaTooLong { len: 11, max: 10 }));
    let meta = presence.track(&mut alice, LOBBY, "alice", "[]");
    assert_eq!(meta, Err(TrackError::MetaNotObject));
    assert_eq!((presence.poll_diff(), presence.count(LOBBY)), (None, 0));

    presence.track(&mut alice, LOBBY, "a", "{}").unwrap();
    presence.track(&mut alice, LOBBY, "b", "{}").unwrap();
    let third = presence.track(&mut alice, LOBBY, "c", "{}");
    assert_eq!(third, Err(TrackError::TooManyKeys { max: 2 }));
    presence.poll_diff().unwrap();
    presence.untrack(&mut alice, LOBBY, "a");
    let refused = presence.update(&alice, LOBBY, "b", "{}");
    assert_eq!(refused, Err(TrackError::TooManyLeaves { max: 1 }));
    presence.poll_diff().unwrap();
    assert_eq!(presence.update(&alice, LOBBY, "b", "{}"), Ok(()));
}

#[test]
fn a_key_of_ten_thousand_owners_is_untracked_quickly() {
    let mut presence = Presence::new(7);
    let mut owners: Vec<PresenceOwner> = (0..10_000).map(|_| PresenceOwner::default()).collect();
    for owner in &mut owners {
        presence.track(owner, LOBBY, "guest", "{}").unwrap();
    }
    assert_eq!((presence.count(LOBBY), presence.keys(LOBBY)), (10_000, 1));
    for owner in owners.iter_mut().rev() {
        presence.untrack_all(owner);
    }
    assert_eq!((presence.len(), presence.poll_diff()), (0, None));
}

#[test]
fn every_client_ends_up_with_the_state_through_any_churn() {
    for seed in 1..=300 {
        let mut rng = Rng::from_seed(seed);
        let mut presence = Presence::new(seed);
        let keys = ["a", "b", "c", "d"];
        let mut owners: Vec<PresenceOwner> = (0..6).map(|_| PresenceOwner::default()).collect();
        let mut clients: Vec<Client> = Vec::new();
        // Diffs that were polled but have not reached the clients yet.
        let mut on_their_way: VecDeque<Value> = VecDeque::new();
        for step in 0..300 {
            let (owner, key) = (rng.index(owners.len()), keys[rng.index(keys.len())]);
            let owner = &mut owners[owner];
            let meta = json!({ "step": step }).to_string();
            match rng.index(14) {
                0..4 => drop(presence.track(owner, LOBBY, key, &meta)),
                4..7 => drop(presence.update(owner, LOBBY, key, &meta)),
                7..9 => presence.untrack(owner, LOBBY, key),
                9 => presence.untrack_all(owner),
                10 => {
                    let state = serde_json::from_str(&presence.state(LOBBY)).unwrap();
                    clients.push(Client::sync_state(&state));
                }
                11..13 => {
                    if let Some(diff) = presence.poll_diff() {
                        let payload = diff.payload.unwrap();
                        on_their_way.push_back(serde_json::from_str(&payload).unwrap());
                        check(on_their_way.back().unwrap());
                    }
                    assert_eq!(presence.poll_diff(), None, "one diff a topic");
                }
                _ => {
                    if let Some(diff) = on_their_way.pop_front() {
                        clients.iter_mut().for_each(|client| client.sync_diff(&diff));
                    }
                }
            }
        }
        if let Some(diff) = presence.poll_diff() {
            on_their_way.push_back(serde_json::from_str(&diff.payload.unwrap()).unwrap());
        }
        for diff in on_their_way {
            clients.iter_mut().for_each(|client| client.sync_diff(&diff));
        }
        let state = state(&mut presence, LOBBY);
        for client in &clients {
            assert_eq!(client.shown(), state, "seed {seed}");
        }
        assert_eq!(presence.count(LOBBY), state.values().map(BTreeMap::len).sum::<usize>());
        owners.iter_mut().for_each(|owner| presence.untrack_all(owner));
        presence.poll_diff();
        assert_eq!((presence.len(), presence.state(LOBBY)), (0, "{}".into()));
    }
}
