//! The span in which this thread works.

use std::cell::Cell;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;

use watchfire_types::TraceContext;

use crate::exporter::is_on;
use crate::span::Span;

thread_local! {
    static CURRENT: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// The place in its trace of the span that this thread has entered, for the messages that it sends.
pub fn current() -> Option<TraceContext> {
    match is_on() {
        true => CURRENT.get(),
        false => None,
    }
}

/// While it exists, its span is the current one of this thread. It cannot be kept while a task waits.
#[derive(Debug)]
#[must_use = "the span is left when this is dropped"]
pub struct Entered {
    before: Option<TraceContext>,
    of_one_thread: PhantomData<*const ()>,
}

impl Span {
    /// Makes this the current span of this thread. A span that is not recorded changes nothing.
    ///
    /// ```
    /// use watchfire_traces::{Kind, Span, current};
    ///
    /// watchfire_traces::start(1.0, drop).unwrap();
    /// let span = Span::root("publish", Kind::Internal);
    /// let entered = span.enter();
    /// assert_eq!(current(), span.context());
    /// drop(entered);
    /// assert_eq!(current(), None);
    /// ```
    pub fn enter(&self) -> Entered {
        let before = CURRENT.get();
        CURRENT.set(self.context().or(before));
        Entered { before, of_one_thread: PhantomData }
    }

    /// Makes this the current span whenever a future runs.
    pub async fn within<F: Future>(&self, future: F) -> F::Output {
        within(self.context().or_else(current), future).await
    }
}

/// Makes a span the current one whenever a future runs. A task that is spawned begins without one.
pub async fn within<F: Future>(span: Option<TraceContext>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _entered = enter_remote(span);
        future.as_mut().poll(context)
    })
    .await
}

/// Makes a span of another process the current one of this thread.
pub fn enter_remote(context: Option<TraceContext>) -> Entered {
    let before = CURRENT.replace(context);
    Entered { before, of_one_thread: PhantomData }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
