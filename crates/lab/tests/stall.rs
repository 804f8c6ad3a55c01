//! A server that freezes for three seconds. Who measures from when a message was sent sees one slow
//! message a user; who measures from when it was due sees what users felt.

mod support;

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use support::{load, scenario, websocket_server};

const STALL: Duration = Duration::from_secs(3);
const USERS: u32 = 40;
const MESSAGES: u32 = 60;
const PERIOD: Duration = Duration::from_millis(100);

/// The share `quantile` of all latencies, when each message that is due in the stall waits for its
/// end, and no other waits at all: evenly spread over the stall.
fn truth(quantile: f64, stall: Duration) -> Duration {
    let slow = stall.as_secs_f64() / PERIOD.as_secs_f64() / f64::from(MESSAGES);
    stall.mul_f64(((quantile - (1.0 - slow)) / slow).max(0.0))
}

#[test]
fn a_stall_of_three_seconds_is_seen_by_every_message_that_was_due_in_it() {
    let heard = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let frozen = Arc::new(Mutex::new(()));
    let server = websocket_server({
        let (heard, frozen) = (Arc::clone(&heard), Arc::clone(&frozen));
        move |socket| {
            loop {
                let message = socket.read()?;
                *heard.0.lock().unwrap() += 1;
                heard.1.notify_one();
                drop(frozen.lock().unwrap());
                socket.send(message)?;
            }
        }
    });
    let stall = std::thread::spawn(move || {
        let count = heard.0.lock().unwrap();
        drop(heard.1.wait_while(count, |count| *count < USERS * MESSAGES / 6).unwrap());
        let stall = frozen.lock().unwrap();
        let begin = Instant::now();
        // The stall is what the test is about.
        std::thread::sleep(STALL);
        drop(stall);
        begin.elapsed()
    });

    let steps = format!(
        r#"{{ connect = {{ path = "/" }} }},
           {{ loop = {{ times = {MESSAGES}, steps = [
             {{ think = "100ms" }},
             {{ send = {{ text = "x", reply = true }} }},
           ] }} }}"#
    );
    let results = load(server, &scenario(USERS, 100, &steps));
    let stall = stall.join().unwrap();

    let send = results.steps.iter().find(|step| step.name == "send").unwrap();
    assert_eq!((results.errors_total(), send.due.len()), (0, u64::from(USERS * MESSAGES)));
    for quantile in [0.75, 0.9, 0.95, 0.99] {
        let (told, truth) = (send.due.quantile(quantile), truth(quantile, stall));
        let error = (told.as_secs_f64() / truth.as_secs_f64() - 1.0).abs();
        assert!(error < 0.05, "p{}: {told:?}, in truth {truth:?}", quantile * 100.0);
    }
    let slow_when_begun = send.begun.quantile(0.9);
    assert!(
        slow_when_begun < STALL / 3,
        "from when it was begun, the stall hides: {slow_when_begun:?}"
    );
}
