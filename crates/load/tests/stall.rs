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
const ARRIVAL_PERIOD: Duration = Duration::from_micros(2_500);

/// When the server answered which message of which user.
type Answers = Arc<Mutex<Vec<(u32, u32, Instant)>>>;

/// How long each answer took from when its message was due, in order. Of the schedule only its begin
/// is not known: it is where the promptest answer took no time.
fn truth(answers: &Answers) -> Vec<Duration> {
    let due = |user: u32, message: u32| ARRIVAL_PERIOD * user + PERIOD * (message + 1);
    let answers = answers.lock().unwrap();
    let begins = answers.iter().map(|(user, message, at)| *at - due(*user, *message));
    let begin = begins.min().expect("there were answers");
    let late = |(user, message, at): &(u32, u32, Instant)| *at - (begin + due(*user, *message));
    let mut latencies: Vec<Duration> = answers.iter().map(late).collect();
    latencies.sort();
    latencies
}

#[test]
fn a_stall_of_three_seconds_is_seen_by_every_message_that_was_due_in_it() {
    let heard = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let frozen = Arc::new(Mutex::new(()));
    let answers = Answers::default();
    let server = websocket_server({
        let (heard, frozen) = (Arc::clone(&heard), Arc::clone(&frozen));
        let answers = Arc::clone(&answers);
        move |socket| {
            for number in 0.. {
                let message = socket.read()?;
                let user = message.to_text()?.parse().expect("messages are the user's number");
                *heard.0.lock().unwrap() += 1;
                heard.1.notify_one();
                drop(frozen.lock().unwrap());
                answers.lock().unwrap().push((user, number, Instant::now()));
                socket.send(message)?;
            }
            Ok(())
        }
    });
    let stall = std::thread::spawn(move || {
        let count = heard.0.lock().unwrap();
        drop(heard.1.wait_while(count, |count| *count < USERS * MESSAGES / 6).unwrap());
        let stall = frozen.lock().unwrap();
        // The stall is what the test is about.
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
    let truth = truth(&answers);
    for quantile in [0.75, 0.9, 0.95, 0.99] {
        let told = send.due.quantile(quantile);
        let truth = truth[(truth.len() as f64 * quantile) as usize];
        assert!(truth > STALL / 4, "the stall is most of p{}: {truth:?}", quantile * 100.0);
        let error = (told.as_secs_f64() / truth.as_secs_f64() - 1.0).abs();
        assert!(error < 0.05, "p{}: {told:?}, in truth {truth:?}", quantile * 100.0);
    }
    let slow_when_begun = send.begun.quantile(0.9);
    assert!(
        slow_when_begun < STALL / 3,
        "from when it was begun, the stall hides: {slow_when_begun:?}"
    );
}
