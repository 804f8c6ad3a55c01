//! Spans of distributed traces. They cost nothing while no exporter receives them.
//!
//! A part of the program starts a [`Span`], sets attributes, and drops it; [`start`] names the
//! exporter that receives the finished ones. Until then a span is a null pointer. A span knows its
//! [`TraceContext`], which travels to other processes and peers in their own messages.
//!
//! Spans do not pass through `tracing`, so an exporter works beside any logger, and a log never
//! contains them.
//!
//! ```
//! use watchfire_traces::{Kind, Span};
//!
//! assert!(Span::root("get", Kind::Client).context().is_none(), "traces are off");
//! watchfire_traces::start(1.0, |span| println!("{} took {:?}", span.name, span.duration)).unwrap();
//! let get = Span::root("get", Kind::Client);
//! let mut connect = get.child("connect", Kind::Client);
//! connect.set("peers", 3);
//! let traceparent = connect.context().unwrap().to_string();
//! assert_eq!(traceparent.len(), 55);
//! ```

mod current;
mod exporter;
#[cfg(feature = "otlp")]
pub mod otlp;
mod span;

pub use current::{Entered, current, enter_remote, within};
pub use exporter::{AlreadyStarted, is_on, report, start};
pub use span::{FinishedSpan, Kind, Span, Value};
pub use watchfire_types::TraceContext;
