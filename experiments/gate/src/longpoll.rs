//! Long polls: a session parks a poll, a message answers it, and the answer is encoded.

use std::any::Any;
use std::hint::black_box;

use watchfire_channels::longpoll::{
    Input, LongPoll, LongPollLimits, Output, encode_answer, escape_message,
};
use watchfire_types::Instant;

const SESSIONS: u32 = 10;
const FRAME: &[u8] =
    br#"[null,null,"rooms:lobby","new_msg",{"body":"a message to everyone here"}]"#;

/// A round is one message to [`SESSIONS`] sessions with a parked poll each, and their next polls.
pub fn poll(rounds: u32) -> Box<dyn Any> {
    let limits = LongPollLimits::default();
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| LongPoll::new(Instant::ZERO)).collect();
    let (mut outputs, mut body) = (Vec::with_capacity(4), Vec::with_capacity(512));
    for round in 0..rounds {
        let now = Instant::from_nanos(u64::from(round) * 1_000_000);
        let message = escape_message(FRAME);
        for (session, connection) in sessions.iter_mut().zip(0..) {
            session.handle_input(now, &limits, Input::Poll { connection }, &mut outputs);
            session.handle_input(now, &limits, Input::Message(message.clone()), &mut outputs);
            for output in outputs.drain(..) {
                let Output::Answer { status, messages, .. } = output else { continue };
                body.clear();
                encode_answer(status, Some("a token of the session"), &messages, &mut body);
                black_box(&body);
            }
        }
    }
    Box::new(sessions)
}
