//! The state of a subscription and of its topic.

use std::any::Any;

use watchfire_hub::{Hub, HubLimits, Subscriptions};

/// A round is one client that subscribes to the lobby, and to a topic of its own.
pub fn subscribe(rounds: u32) -> Box<dyn Any> {
    let mut hub: Hub<()> = Hub::new(7, HubLimits::default());
    let mut lists = Vec::new();
    for client in 0..rounds {
        let mut list = Subscriptions::default();
        hub.subscribe(client, &mut list, "rooms:lobby");
        hub.subscribe(client, &mut list, &format!("user:{client}"));
        lists.push(list);
    }
    Box::new((hub, lists))
}
