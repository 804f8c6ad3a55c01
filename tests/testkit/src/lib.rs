//! Helpers for the tests of all crates. They import none of these crates, so each crate may use them: a test waits with
//! [`eventually`], sends HTTP with [`Request`], answers it with [`serve_http`], and joins channels with [`Client`].

mod http;
mod memory;
mod phoenix;
mod process;
mod server;

use std::thread;
use std::time::{Duration, Instant};

pub use http::{Answer, Request, exchange};
pub use memory::{CountingAllocator, allocated, peak_of};
pub use phoenix::{Client, UPGRADE, text_frame};
pub use process::{is_running, signal, write_program};
pub use server::{HttpServer, Received, answer_requests, response, serve, serve_http};

/// The longest wait of a test. Only a test that fails waits this long, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    find(what, || holds().then_some(()));
}

/// Waits until there is a value, and returns it.
#[track_caller]
pub fn find<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        thread::sleep(PAUSE);
    }
}

/// Waits in a runtime until a condition holds. A look that never ends is also over at the deadline.
pub async fn eventually_async(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looks = async {
        while !holds().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let in_time = tokio::time::timeout(DEADLINE, looks).await;
    assert!(in_time.is_ok(), "not within {DEADLINE:?}: {what}");
}
