use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::{Figure, Figures};
use crate::servers::Server;

/// User memory of a joined websocket.
pub const SOCKET_BYTES_MAX: f64 = 350.0;
/// CPU of a delivery, times that of the bare broadcaster with as many threads.
pub const DELIVERY_RATIO_MAX: f64 = 1.25;
/// CPU of accept, upgrade and join.
pub const SETUP_MICROS_MAX: f64 = 25.0;
/// User memory of a parked long poll.
pub const POLL_BYTES_MAX: f64 = 1_000.0;

/// A promise about Watchfire and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    pub what: &'static str,
    #[serde(serialize_with = "key")]
    pub server: Server,
    pub unit: &'static str,
    pub value: f64,
    pub at_most: f64,
    pub is_met: bool,
}

impl Mark {
    /// `met`, or by how much not.
    pub fn verdict(&self) -> String {
        if self.is_met {
            return "met".into();
        }
        format!("MISSED by {:.0} %", (self.value / self.at_most - 1.0) * 100.0)
    }
}

/// The promises, held against medians. A figure that was not measured has no mark.
pub fn marks(medians: &BTreeMap<Server, Figures>) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (server, figures) in medians.iter().filter(|(server, _)| server.is_watchfire()) {
        let mut hold = |what, unit, value: Option<f64>, at_most| {
            let mark = |value| Mark {
                what,
                server: *server,
                unit,
                value,
                at_most,
                is_met: value <= at_most,
            };
            marks.extend(value.map(mark));
        };
        let of = |figure| figures.get(&figure).copied();
        let floor = server.floor().and_then(|floor| medians.get(&floor));
        let floor = floor.and_then(|figures| figures.get(&Figure::DeliveryMicros));
        let ratio = of(Figure::DeliveryMicros).zip(floor).map(|(ours, floor)| ours / floor);
        hold("a joined socket, idle", "B", of(Figure::SocketBytes), SOCKET_BYTES_MAX);
        let after_broadcasts = of(Figure::SocketBytesAfterBroadcasts);
        hold("a joined socket, after the broadcasts", "B", after_broadcasts, SOCKET_BYTES_MAX);
        let after_reconnects = of(Figure::SocketBytesAfterReconnects);
        hold("a joined socket, after the reconnects", "B", after_reconnects, SOCKET_BYTES_MAX);
        hold("a delivery, against the bare one", "x", ratio, DELIVERY_RATIO_MAX);
        let setup = of(Figure::SetupMicros);
        hold("accept, upgrade and join", "CPU-us", setup, SETUP_MICROS_MAX);
        hold("a parked long poll", "B", of(Figure::PollBytes), POLL_BYTES_MAX);
        let after_cycles = of(Figure::PollBytesAfterCycles);
        hold("a parked long poll, after the cycles", "B", after_cycles, POLL_BYTES_MAX);
    }
    marks
}

fn key<S: serde::Serializer>(server: &Server, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&server.key())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(delivery_micros: f64, socket_bytes: f64) -> Figures {
        Figures::from([
            (Figure::DeliveryMicros, delivery_micros),
            (Figure::SocketBytes, socket_bytes),
        ])
    }

    #[test]
    fn a_delivery_is_held_against_the_bare_one_with_as_many_threads() {
        let medians = BTreeMap::from([
            (Server::Bare1, measured(4.0, 21.0)),
            (Server::BareN, measured(5.0, 21.0)),
            (Server::Watchfire1, measured(5.2, 100.0)),
            (Server::WatchfireN, measured(5.2, 400.0)),
        ]);
        let marks = marks(&medians);
        let verdicts: Vec<_> = marks.iter().map(|mark| (mark.server, mark.verdict())).collect();
        assert_eq!(
            verdicts,
            [
                (Server::Watchfire1, "met".into()),
                (Server::Watchfire1, "MISSED by 4 %".into()),
                (Server::WatchfireN, "MISSED by 14 %".into()),
                (Server::WatchfireN, "met".into()),
            ]
        );
    }
}
