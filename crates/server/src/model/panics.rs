//! Panics of the threads of servers. Such a thread has nobody who waits for it, so its panic would be silent.

use std::panic;
use std::sync::{Mutex, Once};
use std::thread;

use super::application::ON_PURPOSE;

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The panics of event loops, buses and threads of hooks so far.
pub(super) fn noted() -> Vec<String> {
    PANICS.lock().expect("no thread panics with the lock").clone()
}

/// Notes panics from now on, except those of the application, which are on purpose.
pub(super) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let text = info.to_string();
            if text.contains(ON_PURPOSE) {
                return;
            }
            let thread = thread::current();
            let name = thread.name().unwrap_or_default();
            if name.starts_with("shard-") || name == "bus" || name == "hooks" {
                PANICS.lock().expect("no thread panics with the lock").push(text);
            }
            before(info);
        }));
    });
}
