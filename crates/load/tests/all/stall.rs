//! A server that stalls for three seconds. Times since sending show one slow message per user;
//! times since the due time show the delay that users experience.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::support::{load, scenario, websocket_server};

const STALL: Duration = Duration::from_secs(3);
const USERS: u32 = 40;
const MESSAGES: u32 = 60;
const PERIOD: Duration = Duration::from_millis(100);
const ARRIVAL_PERIOD: Duration = Duration::from_micros(2_500);

/// User, message and time of each response.
type Responses = Arc<Mutex<Vec<(u32, u32, Instant)>>>;

/// The true delays of all responses since their messages were due, sorted. The start of the
/// schedule is unknown; it is set so that the fastest response has no delay.
fn true_delays(responses: &Responses) -> Vec<Duration> {
    let due = |user: u32, message: u32| ARRIVAL_PERIOD * user + PERIOD * (message + 1);
    let responses = responses.lock().unwrap();
    let starts = responses.iter().map(|(user, message, at)| *at - due(*user, *message));
    let start = starts.min().expect("there are responses");
    let delay = |(user, message, at): &(u32, u32, Instant)| *at - (start + due(*user, *message));
    let mut latencies: Vec<Duration> = responses.iter().map(delay).collect();
    latencies.sort();
    latencies
}

#[test]
fn a_stall_delays_every_message_that_was_due_during_it() {
    let received = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let frozen = Arc::new(Mutex::new(()));
    let responses = Responses::default();
    let server = websocket_server({
        let (received, frozen) = (Arc::clone(&received), Arc::clone(&frozen));
        let responses = Arc::clone(&responses);
        move |socket| {
            for number in 0.. {
                let message = socket.read()?;
                let user = message.to_text()?.parse().expect("messages are the user's number");
                *received.0.lock().unwrap() += 1;
                received.1.notify_one();
                drop(frozen.lock().unwrap());
                responses.lock().unwrap().push((user, number, Instant::now()));
                socket.send(message)?;
            }
            Ok(())
        }
    });
    let stall = std::thread::spawn(move || {
        let count = received.0.lock().unwrap();
        drop(received.1.wait_while(count, |count| *count < USERS * MESSAGES / 6).unwrap());
        let stall = frozen.lock().unwrap();
        // The stall is the purpose of the test.
        std::thread::sleep(STALL);
        drop(stall);
    });

    let steps = format!(
        r#"{{ connect = {{ path = "/" }} }},
           {{ loop = {{ times = {MESSAGES}, steps = [
             {{ think = "100ms" }},
             {{ send = {{ text = "${{user}}", reply = true }} }},
           ] }} }}"#
    );
    let results = load(server, &scenario(USERS, 100, &steps));
    stall.join().unwrap();

    let send = results.steps.iter().find(|step| step.name == "send").unwrap();
    assert_eq!((results.errors_total(), send.due.len()), (0, u64::from(USERS * MESSAGES)));
    let delays = true_delays(&responses);
    for quantile in [0.75, 0.9, 0.95, 0.99] {
        let reported = send.due.quantile(quantile);
        let truth = delays[(delays.len() as f64 * quantile) as usize];
        assert!(truth > STALL / 4, "p{} must be mostly the stall: {truth:?}", quantile * 100.0);
        let error = (reported.as_secs_f64() / truth.as_secs_f64() - 1.0).abs();
        assert!(error < 0.05, "p{}: {reported:?}, true delay {truth:?}", quantile * 100.0);
    }
    let slow_when_begun = send.begun.quantile(0.9);
    assert!(
        slow_when_begun < STALL / 3,
        "times since sending must hide the stall: {slow_when_begun:?}"
    );
}
