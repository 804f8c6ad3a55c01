//! Threads without which a server does not work.

use std::sync::{Mutex, PoisonError};
use std::thread;

static PANICKED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Notes if its thread, or its task, ends by a panic. A thread of the server beside the event loops holds
/// one while it runs. Such a panic is a fault of the program, and the work of the thread is not done any
/// more: nothing is reported to other processes, or no certificate is renewed. So the process should end.
///
/// ```
/// use watchfire_types::VitalThread;
///
/// let thread = std::thread::spawn(|| {
///     let _vital = VitalThread::enter("reports");
///     panic!("a fault");
/// });
/// assert!(thread.join().is_err());
/// assert_eq!(VitalThread::panicked(), ["reports"]);
/// ```
#[derive(Debug)]
#[must_use = "it notes a panic while it is held"]
pub struct VitalThread(&'static str);

impl VitalThread {
    pub fn enter(name: &'static str) -> Self {
        VitalThread(name)
    }

    /// The names of the threads of this process that have ended by a panic.
    pub fn panicked() -> Vec<&'static str> {
        PANICKED.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for VitalThread {
    fn drop(&mut self) {
        if thread::panicking() {
            PANICKED.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
        }
    }
}
