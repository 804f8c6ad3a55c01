use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use watchfire_types::TraceContext;

use crate::exporter::{export, is_on, random_id, samples_new_trace};

/// Attributes of one span. Further ones are dropped.
const ATTRIBUTES_MAX: usize = 32;
/// Bytes of one text among the attributes. Longer ones are cut.
const TEXT_BYTES_MAX: usize = 512;

/// On which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Within one process.
    Internal,
    /// Answers a request of another program.
    Server,
    /// Waits for the answer of another program.
    Client,
    /// Sends a message that nobody answers.
    Producer,
    /// Receives such a message.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct FinishedSpan {
    /// Its place in the trace.
    pub context: TraceContext,
    /// The span above it; `None` at the root of a trace.
    pub parent: Option<[u8; 8]>,
    /// Whether the span above it is of another program.
    pub is_parent_remote: bool,
    /// The name of the work.
    pub name: Cow<'static, str>,
    /// On which side of a call.
    pub kind: Kind,
    /// When it began, by the clock of the system.
    pub started_at: SystemTime,
    /// How long it took, by a clock that never jumps.
    pub duration: Duration,
    /// Details.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A piece of work in a trace, from its creation until it is dropped. A null pointer while the
/// trace is not recorded.
#[derive(Debug, Default)]
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Box<Running>>);

#[derive(Debug)]
struct Running {
    span: FinishedSpan,
    started: Instant,
    /// How old it was when it was made.
    age: Duration,
}

impl Span {
    /// A span that is not recorded.
    pub const fn off() -> Self {
        Span(None)
    }

    /// The first span of a new trace, if the new trace is recorded.
    pub fn root(name: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        if !samples_new_trace() {
            return Span::off();
        }
        let context =
            TraceContext { trace_id: random_id(), span_id: random_id(), is_sampled: true };
        Span::start(context, None, false, name.into(), kind)
    }

    /// A span below one of another program, if that one is recorded.
    pub fn below(
        parent: Option<TraceContext>,
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
    ) -> Self {
        match parent {
            Some(parent) if parent.is_sampled && is_on() => {
                let context = TraceContext { span_id: random_id(), ..parent };
                Span::start(context, Some(parent.span_id), true, name.into(), kind)
            }
            _ => Span::off(),
        }
    }

    /// A span below one of another program; without one, the first span of a new trace.
    pub fn below_or_root(
        parent: Option<TraceContext>,
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
    ) -> Self {
        match parent {
            Some(_) => Span::below(parent, name, kind),
            None => Span::root(name, kind),
        }
    }

    /// A span below this one.
    pub fn child(&self, name: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        let mut child = Span::below(self.context(), name, kind);
        if let Some(running) = &mut child.0 {
            running.span.is_parent_remote = false;
        }
        child
    }

    /// Its place in the trace, for the messages that it causes; `None` when it is not recorded.
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|running| running.span.context)
    }

    /// Whether it is recorded. Attributes that cost something are computed only then.
    pub fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Changes its name, when a better one is known.
    pub fn set_name(&mut self, name: impl Into<Cow<'static, str>>) {
        if let Some(running) = &mut self.0 {
            running.span.name = name.into();
        }
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        let Some(running) = &mut self.0 else { return };
        let attributes = &mut running.span.attributes;
        attributes.retain(|(known, _)| *known != name);
        if attributes.len() < ATTRIBUTES_MAX {
            attributes.push((name, value.into()));
        }
    }

    /// Moves its beginning back, for work that began before the span was made.
    pub fn set_age(&mut self, age: Duration) {
        if let Some(running) = &mut self.0 {
            running.span.started_at -= age;
            running.age = age;
        }
    }

    /// Ends the span, which was done so long after its beginning.
    pub fn end_after(mut self, duration: Duration) {
        if let Some(running) = self.0.take() {
            export(FinishedSpan { duration: running.age + duration, ..running.span });
        }
    }

    /// Ends the span without exporting it.
    pub fn discard(mut self) {
        self.0 = None;
    }

    /// Marks the span as failed.
    pub fn fail(&mut self, cause: impl std::fmt::Display) {
        if let Some(running) = &mut self.0 {
            running.span.error = Some(bounded(cause.to_string()));
        }
    }

    fn start(
        context: TraceContext,
        parent: Option<[u8; 8]>,
        is_parent_remote: bool,
        name: Cow<'static, str>,
        kind: Kind,
    ) -> Self {
        let span = FinishedSpan {
            context,
            parent,
            is_parent_remote,
            name,
            kind,
            started_at: SystemTime::now(),
            duration: Duration::ZERO,
            attributes: Vec::new(),
            error: None,
        };
        Span(Some(Box::new(Running { span, started: Instant::now(), age: Duration::ZERO })))
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            let Running { mut span, started, age } = *running;
            span.duration = age + started.elapsed();
            export(span);
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(bounded(text).into())
    }
}

macro_rules! from_number {
    ($($number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
    )*};
}

from_number!(i32, i64, u16, u32, u64, usize);

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    static EXPORTED: Mutex<Vec<FinishedSpan>> = Mutex::new(Vec::new());

    fn exported(name: &str) -> FinishedSpan {
        let exported = EXPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        exported.iter().find(|span| span.name == name).expect("the span was exported").clone()
    }

    #[test]
    fn spans_are_exported_with_their_parents_and_only_when_their_trace_is_recorded() {
        let off = Span::root("too early", Kind::Internal);
        assert!(!off.is_recorded() && !is_on());
        let remote = TraceContext { trace_id: [1; 16], span_id: [2; 8], is_sampled: true };
        assert!(!Span::below(Some(remote), "too early", Kind::Server).is_recorded());

        crate::start(1.0, |span| EXPORTED.lock().unwrap().push(span)).unwrap();
        assert!(crate::start(1.0, |_| {}).is_err());

        let mut root = Span::below_or_root(None, "root", Kind::Client);
        let mut child = root.child("child", Kind::Internal);
        child.set("bytes", 5_u64);
        child.set("bytes", 7_u64);
        child.set("text", "é".repeat(TEXT_BYTES_MAX));
        drop(child);
        root.fail("no peer");
        let root_id = root.context().unwrap().span_id;
        drop(root);
        let child = exported("child");
        assert_eq!((child.parent, child.is_parent_remote), (Some(root_id), false));
        assert_eq!(child.attributes[0], ("bytes", Value::Number(7)));
        assert_eq!(child.attributes[1].1, Value::Text("é".repeat(TEXT_BYTES_MAX / 2).into()));
        let root = exported("root");
        assert_eq!((root.parent, root.error.as_deref()), (None, Some("no peer")));
        assert_eq!(root.context.trace_id, child.context.trace_id);

        drop(Span::below_or_root(Some(remote), "served", Kind::Server));
        let served = exported("served");
        assert_eq!((served.parent, served.is_parent_remote), (Some([2; 8]), true));
        assert_eq!(served.context.trace_id, [1; 16]);
        assert_ne!(served.context.span_id, [2; 8]);

        let unsampled = TraceContext { is_sampled: false, ..remote };
        assert!(!Span::below_or_root(Some(unsampled), "no", Kind::Server).is_recorded());
        assert!(!Span::below(None, "no", Kind::Server).is_recorded());
        assert!(!Span::off().child("no", Kind::Server).is_recorded());
        assert_eq!(size_of::<Span>(), size_of::<usize>());
    }
}
