//! The relay between the peers of a page: its kinds of data, and what is counted of them.

use std::sync::Arc;

use watchfire::feature::{Counter, Direction, MetricWriter, Registry};
use watchfire::internal::{Forward, ForwardKind, Times};

/// Counts of relayed data that the queue of its destination took.
#[derive(Default)]
pub(crate) struct RelayCounts {
    frames: Counter,
    bytes: Counter,
    signals: Counter,
    /// Signals of clients on other machines.
    pub signals_outside: Counter,
    times: Times,
}

impl RelayCounts {
    /// Adds the two kinds of data: pieces of Bitswap messages, and signals for setting up a direct
    /// connection.
    pub fn register(counts: &Arc<Self>, registry: &mut Registry) -> (ForwardKind, ForwardKind) {
        let of_segments = counts.clone();
        let segments = registry.add_forward(Forward {
            event: "relay",
            queue_quarters: 2,
            gone: "relay_peer_gone",
            busy: "relay_peer_busy",
            count: Box::new(move |bytes, time, guest| {
                of_segments.frames.inc();
                of_segments.bytes.add(bytes as u64);
                guest.inspect(|guest| guest.count_bytes(Direction::Sent, bytes));
                time.inspect(|time| of_segments.times.observe(*time));
            }),
        });
        let of_signals = counts.clone();
        let signals = registry.add_forward(Forward {
            event: "signal",
            // A signal passes while segments wait, because it sets up a direct connection.
            queue_quarters: 3,
            gone: "relay_peer_gone",
            busy: "relay_peer_busy",
            count: Box::new(move |_, time, _| {
                of_signals.signals.inc();
                time.inspect(|time| of_signals.times.observe(*time));
            }),
        });
        (segments, signals)
    }

    pub fn write_metrics(&self, writer: &mut MetricWriter) {
        let RelayCounts { frames, bytes, signals, signals_outside, times } = self;
        for (name, help, counter) in [
            ("pages_relayed_frames", "Frames relayed between peers", frames),
            ("pages_relayed_bytes", "Bytes relayed between peers", bytes),
            ("pages_signals", "Signals relayed between peers", signals),
            ("pages_signals_outside", "Signals of peers on other machines", signals_outside),
        ] {
            writer.counter(name, help, counter.get());
        }
        let help = "Time from relayed data to its destination's queue";
        writer.times("pages_relay_seconds", help, times);
    }
}
