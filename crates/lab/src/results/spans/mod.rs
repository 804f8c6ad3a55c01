//! Spans of a run: what every node did when, in one file for a viewer.
//!
//! Without them, a slow run is one number. With them, one picture shows that the third node waited 1.2 s for a
//! connection while the seeder sent to the second.
//!
//! Spans come from two sources, and both are in one trace of the run:
//!
//! - The **lab** knows when it prepared a node, and when the node began to fetch, had its first byte, had all, failed
//!   and left. So each node has spans, whatever its program is, and a simulated one too.
//! - A **program** of Watchfire that was built with the feature `otlp` exports its own spans over OTLP. The lab listens
//!   on loopback ([`Receiver`]) and gives each node an endpoint of its own, whose path has the number of the node. So
//!   a span is of the node that sent it, whatever it claims. The variable `TRACEPARENT` names the lab's span of the
//!   node, so what `get` and `hold` do is below it, and what a seeder serves is below the request of its peer.
//!
//! The ids of the lab's spans are hashes of the run's id, the node and the name of the span. So the lab names a
//! span to a program before the span exists.
//!
//! The bounds: 10,000 spans and 8 MiB of each node, 1 million spans and 256 MiB of a run, 4 MiB of a request, 1,200
//! connections. Spans beyond them are dropped and counted, and the count is told with the file.
//!
//! [`jaeger`] writes the JSON that Jaeger's page opens, and [`perfetto`] the trace events that Perfetto opens.

mod lab_spans;
mod otlp;
mod receiver;
mod viewers;

pub use lab_spans::spans;
pub use receiver::{Listening, Receiver};
pub use viewers::{jaeger, perfetto};
