//! Presence on one topic: keys come, change and go, and each hundred changes are a diff.

use std::any::Any;
use std::hint::black_box;

use watchfire_hub::{Presence, PresenceOwner};

const TOPIC: &str = "rooms:lobby";
const CHANGES_PER_DIFF: u32 = 100;

/// A round is one key that is tracked and updated. Every second key is untracked; the others stay.
pub fn change(rounds: u32) -> Box<dyn Any> {
    let mut presence = Presence::new(7);
    let mut owners = Vec::new();
    for number in 0..rounds {
        let (mut owner, key) = (PresenceOwner::default(), format!("user-{number}"));
        presence.track(&mut owner, TOPIC, &key, r#"{"status":"online"}"#).expect("the key is new");
        presence.update(&owner, TOPIC, &key, r#"{"status":"away"}"#).expect("the key is tracked");
        match number % 2 {
            0 => owners.push(owner),
            _ => presence.untrack(&mut owner, TOPIC, &key),
        }
        if number % CHANGES_PER_DIFF == CHANGES_PER_DIFF - 1 {
            black_box(presence.poll_diff());
        }
    }
    black_box(presence.poll_diff());
    Box::new((presence, owners))
}
