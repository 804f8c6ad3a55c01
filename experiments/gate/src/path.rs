//! A page from one sender to one receiver over a simulated line, bounded by the window of a terminal.

use crate::line::{Line, SimulatedPath};

const CONTENT_BYTES: u64 = 20_000_000;
/// 100 Mbit/s, in bytes per millisecond.
const RATE: f64 = 12_500.0;
const ONE_WAY: f64 = 25.0;
const QUEUE_BYTES: f64 = 524_288.0;

/// As JSON, for each byte of content: the bytes on the wire, and of these the ones that were sent again. Then the time
/// of the last byte, in multiples of the least possible one.
pub fn carry() -> String {
    let line = Line { rate: RATE, one_way: ONE_WAY, queue_bytes: QUEUE_BYTES };
    let mut path = SimulatedPath::new(line, CONTENT_BYTES);
    while path.delivered_bytes < CONTENT_BYTES && path.step() {}
    let content = CONTENT_BYTES as f64;
    let (wire, again) = (path.wire_bytes / content, path.dropped_bytes / content);
    let time = path.now / (content / RATE + ONE_WAY);
    format!(r#"{{"wire":{wire},"again":{again},"time":{time}}}"#)
}
