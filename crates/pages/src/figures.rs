//! The figures, the tables and the troubles of pages, for the operator.

use std::time::Duration;

use watchfire::feature::FigureKind::{Quantile, Rate, Sum};
use watchfire::feature::{Cell, Figure, FigureKind, Series, Table, TableColumn, Trouble};

use crate::neighbours::SERVER;

/// A server has this long to connect to its first libp2p peer.
const FIRST_PEER: Duration = Duration::from_secs(60);

const fn figure(name: &'static str, kind: FigureKind) -> Figure {
    Figure { name, kind }
}

pub(crate) const FIGURES: &[Figure] = &[
    figure("pages_open", Sum(Series::all("watchfire_pages_open"))),
    figure("pages_available", Sum(Series::all("watchfire_pages_available"))),
    figure("page_loads", Rate(Series::all("watchfire_page_loads"))),
    figure("page_sessions", Rate(Series::all("watchfire_page_sessions"))),
    figure("page_visitors", Sum(Series::all("watchfire_page_visitors"))),
    figure("relayed_bytes", Rate(Series::all("watchfire_pages_relayed_bytes"))),
    figure("relay_p99", Quantile("watchfire_pages_relay_seconds", 0.99)),
    figure(
        "refusals_relay_quota",
        Rate(Series::with("watchfire_refusals", "reason", "relay_quota")),
    ),
    figure("signals", Rate(Series::all("watchfire_pages_signals"))),
    figure("signals_outside", Sum(Series::all("watchfire_pages_signals_outside"))),
    figure("stun_answers_outside", Sum(Series::all("watchfire_stun_answers_outside"))),
    figure("sprites", Sum(Series::all("watchfire_sprites_peers"))),
    figure("neighbours_silent", Sum(Series::all("watchfire_neighbours_silent"))),
    figure("p2p_connections", Sum(Series::all("watchfire_p2p_connections"))),
    figure("p2p_peers", Sum(Series::all("watchfire_p2p_peers"))),
    figure("p2p_received_bytes", Rate(Series::all("watchfire_p2p_received_bytes"))),
    figure("p2p_sent_bytes", Rate(Series::all("watchfire_p2p_sent_bytes"))),
    figure("p2p_duplicate_bytes", Rate(Series::all("watchfire_p2p_duplicate_block_bytes"))),
];

const fn column(title: &'static str, metric: &'static str, cell: Cell) -> TableColumn {
    TableColumn { title, metric, cell }
}

pub(crate) const TABLES: &[Table] = &[Table {
    title: "Neighbours",
    label: SERVER,
    heading: "Server",
    columns: &[
        column("State", "watchfire_neighbours_state", Cell::Label("state")),
        column("Pages", "watchfire_neighbours_pages", Cell::Count),
        column("Guests", "watchfire_neighbours_guests", Cell::Count),
        column("From guests", "watchfire_neighbours_guest_received_bytes", Cell::Bytes),
        column("To guests", "watchfire_neighbours_guest_sent_bytes", Cell::Bytes),
        column("Filters", "watchfire_neighbours_filter_bytes", Cell::Bytes),
    ],
}];

pub(crate) const TROUBLES: &[Trouble] = &[
    Trouble {
        kind: "relay_quota",
        begins_after: 1,
        ends_after: 30,
        fix: "Peers that cannot connect directly have used up the relay; raise limits.relay_bytes_per_day_per_address or offer STUN.",
        see: |figures| {
            let rate = figures.above("refusals_relay_quota", 0.0)?;
            Some(format!("{rate:.1} relayed messages a second exceed the quota"))
        },
    },
    Trouble {
        kind: "stun_unreached",
        begins_after: 30,
        ends_after: 1,
        fix: "Open the UDP port of stun.listen in the firewall, and let stun.listen and stun.announce lead browsers to it; without UDP, set stun.enabled = false.",
        see: |figures| {
            let has_tried = figures.above("signals_outside", 0.0).is_some();
            let has_reached = (figures.get)("stun_answers_outside")? > 0.0;
            (has_tried && !has_reached).then(|| {
                "No browser from outside has ever reached STUN, so all content between browsers on \
                 different networks passes this server"
                    .to_owned()
            })
        },
    },
    Trouble {
        kind: "no_libp2p_peers",
        begins_after: 5,
        ends_after: 2,
        fix: "Set p2p.bootstrap to a libp2p peer that runs, or p2p.dht = \"client\" for the public network, and check outgoing connections, p2p.listen and the firewall.",
        see: |figures| {
            let has_none = (figures.get)("p2p_connections")? < 0.5;
            (has_none && figures.uptime > FIRST_PEER)
                .then(|| "The server has no connection to any libp2p peer".to_owned())
        },
    },
    Trouble {
        kind: "neighbour_silent",
        begins_after: 30,
        ends_after: 2,
        fix: "Start the server that neighbours.servers names, and give it neighbours too, or remove its name; the table of neighbours shows which one it is.",
        see: |figures| {
            let count = figures.above("neighbours_silent", 0.0)?;
            Some(format!("{count:.0} of the neighbours tell no pages, so theirs are not found"))
        },
    },
];

#[cfg(test)]
mod tests {
    use watchfire::feature::Figures;

    use super::*;

    /// The message of a kind of trouble about these figures, a thousand seconds after the start.
    fn seen(kind: &str, known: &[(&str, f64)]) -> bool {
        let value = |name: &str| known.iter().find(|known| known.0 == name).map(|known| known.1);
        let trouble = TROUBLES.iter().find(|trouble| trouble.kind == kind).unwrap();
        assert!(known.iter().all(|(name, _)| FIGURES.iter().any(|figure| figure.name == *name)));
        (trouble.see)(&Figures { get: &value, uptime: Duration::from_secs(1_000) }).is_some()
    }

    #[test]
    fn stun_that_no_browser_from_outside_reaches_is_a_trouble_until_one_does() {
        let seen = |signals, answers| {
            let known = [("signals_outside", signals), ("stun_answers_outside", answers)];
            seen("stun_unreached", &known)
        };
        assert!(!seen(0.0, 0.0), "no browser has tried");
        assert!(seen(8.0, 0.0));
        assert!(!seen(9.0, 1.0));
    }

    #[test]
    fn figures_that_are_not_known_are_no_trouble() {
        assert!(TROUBLES.iter().all(|trouble| !seen(trouble.kind, &[])));
        assert!(seen("no_libp2p_peers", &[("p2p_connections", 0.0)]));
        assert!(seen("relay_quota", &[("refusals_relay_quota", 0.5)]));
        assert!(!seen("neighbour_silent", &[("neighbours_silent", 0.0)]));
        assert!(seen("neighbour_silent", &[("neighbours_silent", 1.0)]));
    }
}
