use std::collections::BTreeMap;

use serde::Serialize;
use watchfire_report::units::number;

use super::figure::{Figure, Figures};
use crate::servers::Server;

/// User memory of a websocket joined to one topic.
const SOCKET_BYTES_MAX: f64 = 300.0;
/// User memory of a websocket joined to three topics and tracked in one.
const THREE_TOPICS_BYTES_MAX: f64 = 600.0;
/// CPU of a delivery, divided by that of the baseline with as many threads.
const DELIVERY_RATIO_MAX: f64 = 1.12;
/// CPU of accept, upgrade and join.
const SETUP_MICROS_MAX: f64 = 25.0;
/// User memory of a parked long poll.
const POLL_BYTES_MAX: f64 = 1_000.0;

/// A target of Watchfire, and the measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    pub figure: Figure,
    pub what: &'static str,
    #[serde(serialize_with = "key")]
    pub server: Server,
    pub unit: &'static str,
    pub value: f64,
    pub at_most: f64,
    pub is_met: bool,
}

impl Target {
    /// Format the measured or the allowed value, without its unit.
    pub fn number(&self, value: f64) -> String {
        number(value, if self.unit == "x" { 2 } else { usize::from(self.unit == "CPU-us") })
    }

    /// `met`, or `MISSED` with the difference in percent.
    pub fn verdict(&self) -> String {
        if self.is_met {
            return "met".into();
        }
        format!("MISSED by {:.0} %", (self.value / self.at_most - 1.0) * 100.0)
    }
}

/// Compare the targets with medians. A figure that was not measured has no target.
pub fn targets(medians: &BTreeMap<Server, Figures>) -> Vec<Target> {
    let mut targets = Vec::new();
    for (server, figures) in medians.iter().filter(|(server, _)| server.is_watchfire()) {
        let mut add = |figure, what, unit, value: Option<f64>, at_most| {
            let target = |value| Target {
                figure,
                what,
                server: *server,
                unit,
                value,
                at_most,
                is_met: value <= at_most,
            };
            targets.extend(value.map(target));
        };
        let of = |figure| figures.get(&figure).copied();
        let three_topics = *server == Server::ThreeTopics;

        let bytes_max = if three_topics { THREE_TOPICS_BYTES_MAX } else { SOCKET_BYTES_MAX };
        for (figure, what) in [
            (Figure::SocketBytes, "a joined socket, idle"),
            (Figure::SocketBytesAfterBroadcasts, "a joined socket, after the broadcasts"),
            (Figure::SocketBytesAfterReconnects, "a joined socket, after the reconnects"),
        ] {
            add(figure, what, "B", of(figure), bytes_max);
        }

        let figure = Figure::DeliveryMicros;
        let baseline = server.baseline().and_then(|bare| medians.get(&bare)?.get(&figure));
        let ratio = of(figure).zip(baseline).map(|(ours, baseline)| ours / baseline);
        add(
            figure,
            "CPU of a delivery, compared with the bare server",
            "x",
            ratio,
            DELIVERY_RATIO_MAX,
        );

        // Three joins with presence diffs cannot be compared with one join.
        let figure = Figure::SetupMicros;
        let setup = of(figure).filter(|_| !three_topics);
        add(figure, "accept, upgrade and join", "CPU-us", setup, SETUP_MICROS_MAX);

        for (figure, what) in [
            (Figure::PollBytes, "a parked long poll"),
            (Figure::PollBytesAfterCycles, "a parked long poll, after the cycles"),
        ] {
            add(figure, what, "B", of(figure), POLL_BYTES_MAX);
        }
    }
    targets
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

    fn verdicts(medians: impl IntoIterator<Item = (Server, Figures)>) -> Vec<(Server, String)> {
        let targets = targets(&medians.into_iter().collect());
        targets.iter().map(|target| (target.server, target.verdict())).collect()
    }

    #[test]
    fn a_delivery_is_compared_with_the_bare_server_with_as_many_threads() {
        let verdicts = verdicts([
            (Server::Bare1, measured(4.0, 21.0)),
            (Server::BareN, measured(5.0, 21.0)),
            (Server::Watchfire1, measured(4.7, 100.0)),
            (Server::WatchfireN, measured(4.7, 360.0)),
        ]);
        assert_eq!(
            verdicts,
            [
                (Server::Watchfire1, "met".into()),
                (Server::Watchfire1, "MISSED by 5 %".into()),
                (Server::WatchfireN, "MISSED by 20 %".into()),
                (Server::WatchfireN, "met".into()),
            ]
        );
    }

    #[test]
    fn three_topics_may_take_twice_the_memory_and_have_no_setup_target() {
        let mut figures = measured(5.0, 598.0);
        figures.insert(Figure::SetupMicros, 400.0);
        let verdicts = verdicts([(Server::ThreeTopics, figures)]);
        assert_eq!(verdicts, [(Server::ThreeTopics, "met".into())]);
    }
}
