//! Guests: clients whose tab another server loaded, and which join pages of this one (`neighbours.guests`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use watchfire::feature::{Direction, Guest, MetricWriter, NoGuest, Part, section_limits};

use super::servers::{KnownServers, SERVER, ServerCounters, by_server, origin};
use crate::page::TOPIC_PREFIX;
use crate::settings::{Guests, NeighbourSettings};

/// Decides which sites have guests here, and counts these.
pub(crate) struct GuestFeature {
    settings: NeighbourSettings,
    /// The origins of the settings.
    named: Vec<String>,
    known: Arc<KnownServers>,
    connections: Arc<Mutex<Connections>>,
    relayed: Arc<Relayed>,
}

/// Relayed bytes of guests.
struct Relayed {
    received: ServerCounters,
    sent: ServerCounters,
}

/// The connections of guests of this process.
#[derive(Default)]
struct Connections {
    all: u32,
    by_origin: HashMap<String, u32>,
}

impl GuestFeature {
    /// `named` are the origins of the settings.
    pub fn new(settings: NeighbourSettings, named: Vec<String>, known: Arc<KnownServers>) -> Self {
        let [received, sent] = [(); 2].map(|()| ServerCounters::new(&named));
        let relayed = Arc::new(Relayed { received, sent });
        GuestFeature { settings, named, known, connections: Arc::default(), relayed }
    }

    fn has_guests_of(&self, origin: &str) -> bool {
        match self.settings.guests {
            Guests::Neighbours => self.known.contains(origin),
            Guests::Any => true,
            Guests::None => false,
        }
    }

    fn has_guests(&self) -> bool {
        let NeighbourSettings { servers, guests, .. } = &self.settings;
        match guests {
            Guests::Neighbours => !servers.is_empty(),
            Guests::Any => true,
            Guests::None => false,
        }
    }
}

impl Part for GuestFeature {
    fn admit_guest(&self, site: &str) -> Result<Box<dyn Guest>, NoGuest> {
        // `null`, the origin of a sandboxed frame, is that of no server.
        let origin = origin(site).filter(|origin| self.has_guests_of(origin));
        let origin = origin.ok_or(NoGuest::Origin)?;
        let mut connections = self.connections.lock();
        let here = connections.by_origin.get(&origin).copied().unwrap_or(0);
        let max = self.settings.guests_max;
        if connections.all >= max || here >= max.div_ceil(4) {
            return Err(NoGuest::Full);
        }
        connections.all += 1;
        connections.by_origin.insert(origin.clone(), here + 1);
        let (connections, relayed) = (self.connections.clone(), self.relayed.clone());
        Ok(Box::new(PageGuest { origin, connections, relayed }))
    }

    fn describe_limits(&self, _: Option<&str>, response: &mut Map<String, Value>) {
        if let (true, Some(Value::Object(all)), Value::Object(own)) =
            (self.has_guests(), response.get_mut("limits"), section_limits(&self.settings))
        {
            all.extend(own);
        }
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        if !self.has_guests() {
            return;
        }
        let connections = self.connections.lock();
        let of = |origin: &str| connections.by_origin.get(origin).copied().unwrap_or(0).into();
        let guests = by_server(&self.named, of, connections.all.into());
        let help = "Open WebSockets of guests, by the server of their tab";
        writer.gauges("neighbours_guests", help, SERVER, &guests);
        let Relayed { received, sent } = &*self.relayed;
        let help = "Bytes that guests gave to the relay";
        received.write(writer, "neighbours_guest_received_bytes", help);
        let help = "Bytes that the relay sent to guests";
        sent.write(writer, "neighbours_guest_sent_bytes", help);
    }
}

/// The connection of a guest. Dropping it gives its place back.
struct PageGuest {
    origin: String,
    connections: Arc<Mutex<Connections>>,
    relayed: Arc<Relayed>,
}

impl Guest for PageGuest {
    fn refusal_of_join(&self, topic: &str) -> Option<&'static str> {
        (!topic.starts_with(TOPIC_PREFIX)).then_some("guests may join pages only")
    }

    fn count_bytes(&self, direction: Direction, bytes: usize) {
        match direction {
            Direction::Received => self.relayed.received.add(&self.origin, bytes),
            Direction::Sent => self.relayed.sent.add(&self.origin, bytes),
        }
    }
}

impl Drop for PageGuest {
    fn drop(&mut self) {
        let mut connections = self.connections.lock();
        connections.all -= 1;
        let of_origin = connections.by_origin.get_mut(&self.origin).expect("the guest was counted");
        *of_origin -= 1;
        if *of_origin == 0 {
            connections.by_origin.remove(&self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(guests: Guests, guests_max: u32) -> GuestFeature {
        let settings = NeighbourSettings { guests, guests_max, ..NeighbourSettings::default() };
        let known = KnownServers::default();
        let named = vec!["https://a.example".to_owned()];
        known.set(named.clone());
        GuestFeature::new(settings, named, Arc::new(known))
    }

    #[test]
    fn the_setting_names_the_sites_that_have_guests() {
        for (guests, own, other) in [
            (Guests::Neighbours, true, false),
            (Guests::Any, true, true),
            (Guests::None, false, false),
        ] {
            let feature = feature(guests, 100);
            let is_admitted = |origin| feature.admit_guest(origin).is_ok();
            for spelling in ["https://a.example", "https://A.example", "https://a.example:443"] {
                assert_eq!(is_admitted(spelling), own, "{guests:?}: {spelling}");
            }
            let others = ["http://a.example", "https://a.example:444", "https://b.a.example"];
            for origin in others {
                assert_eq!(is_admitted(origin), other, "{guests:?}: {origin}");
            }
            for none in ["null", "", "file:///a", "a.example", "https://a.example/p"] {
                assert!(!is_admitted(none), "{guests:?}: {none}");
            }
        }
    }

    #[test]
    fn one_site_takes_a_quarter_of_the_places_at_most_and_a_place_is_given_back() {
        let feature = feature(Guests::Any, 8);
        let admit = |site: u32| feature.admit_guest(&format!("https://{site}.example"));
        let mut guests = Vec::new();
        for site in 0..4 {
            guests
                .extend([admit(site), admit(site)].map(|admitted| admitted.expect("a free place")));
            assert_eq!(admit(site).err(), Some(NoGuest::Full), "of this site");
        }
        assert_eq!(admit(4).err(), Some(NoGuest::Full), "of all sites");
        guests.remove(0);
        assert!(admit(4).is_ok() && admit(0).is_ok());
        guests.clear();
        let connections = feature.connections.lock();
        assert_eq!((connections.all, connections.by_origin.len()), (0, 0), "no origin stays");
    }

    #[test]
    fn guests_of_servers_that_the_settings_do_not_name_have_one_row() {
        let feature = feature(Guests::Any, 100);
        let origins = ["https://a.example", "https://b.example", "https://c.example"];
        let guests = origins.map(|origin| feature.admit_guest(origin).expect("a free place"));
        for guest in &guests {
            guest.count_bytes(Direction::Received, 10);
            guest.count_bytes(Direction::Sent, 100);
        }
        let mut writer = MetricWriter::default();
        feature.write_metrics(&mut writer);
        let metrics = writer.into_snapshot();
        for (metric, one) in
            [("guests", 1), ("guest_received_bytes", 10), ("guest_sent_bytes", 100)]
        {
            let series = metrics.series(&format!("watchfire_neighbours_{metric}"));
            let rows: Vec<_> = series
                .iter()
                .map(|(labels, value)| (labels[0].1.as_str(), value.number().unwrap() as u64))
                .collect();
            assert_eq!(rows, [("https://a.example", one), ("other", 2 * one)], "{metric}");
        }
    }

    #[test]
    fn a_guest_joins_pages_only() {
        let feature = feature(Guests::Any, 100);
        let guest = feature.admit_guest("https://a.example").expect("a guest");
        assert_eq!(guest.refusal_of_join("page:bafk"), None);
        for topic in ["rooms:lobby", "sprites:1", "site", "pages:1", "page", "", "phoenix"] {
            let refusal = guest.refusal_of_join(topic);
            assert_eq!(refusal, Some("guests may join pages only"), "{topic}");
        }
    }
}
