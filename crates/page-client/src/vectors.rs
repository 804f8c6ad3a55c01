//! The vectors in `tests/vectors/page`, which the page protocol of browsers must pass too.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use watchfire_types::Instant;

use crate::assembler::{Assembled, Assembler, AssemblyBudget};
use crate::messages;
use crate::outgoing::{Outgoing, SentSegment};
use crate::segment::{Segment, UnsentMessage};
use crate::unread_blocks::UnreadBlocks;

#[derive(Deserialize)]
struct Scenario<Step> {
    about: String,
    frame_bytes_max: Option<usize>,
    budget: Option<usize>,
    steps: Vec<Step>,
}

fn read<Step: DeserializeOwned>(name: &str) -> Vec<Scenario<Step>> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/page");
    let json = std::fs::read(vectors.join(name)).expect("the vectors are there");
    serde_json::from_slice(&json).expect("the vectors have this form")
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AssemblerStep {
    Segment(u64, usize, u32, usize, usize, String, String),
    Segments(u64, usize, u32, usize, usize, String, String, usize),
    Clear(String, usize),
}

#[test]
fn messages_are_assembled_as_in_the_vectors() {
    for Scenario { about, budget, steps, .. } in read("assembler.json") {
        let mut budget = AssemblyBudget { bytes: 0, bytes_max: budget.unwrap_or(1000) };
        let mut assemblers = [Assembler::default(), Assembler::default()];
        for step in steps {
            let (millis, peer, message, first, total, part, expected, times) = match step {
                AssemblerStep::Clear(action, peer) => {
                    assert_eq!(action, "clear");
                    assemblers[peer].clear(&mut budget);
                    continue;
                }
                AssemblerStep::Segment(at, peer, message, first, total, part, result) => {
                    (at, peer, message, first, total, part, result, 1)
                }
                AssemblerStep::Segments(at, peer, message, first, total, part, result, times) => {
                    (at, peer, message, first, total, part, result, times)
                }
            };
            for offset in first..first + times {
                let bytes = Bytes::copy_from_slice(part.as_bytes());
                let segment = Segment { message, offset, total, bytes };
                let result = match assemblers[peer].accept(at(millis), &mut budget, segment) {
                    Assembled::Whole(bytes) => format!("={}", String::from_utf8_lossy(&bytes)),
                    Assembled::Partial => "partial".to_owned(),
                    Assembled::Malformed => "malformed".to_owned(),
                    Assembled::Dropped => "dropped".to_owned(),
                };
                assert_eq!(result, expected, "{about} Segment {offset} of {message} at {millis}");
            }
        }
        assemblers.iter_mut().for_each(|assembler| assembler.clear(&mut budget));
        assert_eq!(budget.bytes, 0, "{about}");
    }
}

/// A peer whose direct path does nothing by itself.
struct TwoPaths {
    outgoing: Outgoing,
    unread_blocks: UnreadBlocks,
    in_flight: Vec<SentSegment>,
    direct: Vec<UnsentMessage>,
    is_up: bool,
}

impl TwoPaths {
    /// Returns the results in the form of the vectors.
    fn step(&mut self, millis: u64, action: &[Value]) -> Value {
        let before = self.direct.len();
        let mut results = json!({ "at": millis, "do": action });
        let number = |at: usize| action[at].as_u64().expect("a number");
        let mut in_flight = || self.in_flight.remove(number(1) as usize);
        let mut is_lost = false;
        match action[0].as_str().expect("an action") {
            kind @ ("push" | "push-blocks") => {
                let (id, bytes) = (number(1) as u32, vec![7; number(2) as usize].into());
                let message = UnsentMessage { id, bytes, is_reported: false, is_relayed: false };
                if kind == "push-blocks" {
                    self.unread_blocks.note_sent(id);
                }
                if self.is_up { self.direct.push(message) } else { self.outgoing.push(message) }
            }
            "ok" => {
                if let Some(bytes) = self.outgoing.handle_relayed(in_flight()) {
                    results["sent"] = json!([bytes]);
                }
            }
            "error" => {
                let error = messages::relay_error(&action[2]);
                is_lost = self.outgoing.handle_error(at(millis), in_flight(), &error).is_err();
            }
            "timeout" => is_lost = self.outgoing.handle_timeout(in_flight()).is_err(),
            "hold" => self.outgoing.hold(at(number(1))),
            "up" => {
                self.is_up = true;
                self.outgoing.release();
                self.direct.extend(self.outgoing.take_for_direct(false));
            }
            "down" => {
                self.is_up = false;
                let unread = self.direct.drain(..).filter(|message| !message.is_relayed);
                unread.for_each(|message| self.outgoing.push(message));
            }
            "read" => self.direct.retain(|message| u64::from(message.id) != number(1)),
            "tick" => {}
            action => panic!("unknown action {action}"),
        }
        if is_lost {
            results["lost"] = json!(true);
            return results;
        }
        let mut relayed = Vec::new();
        while let Some((sent, segment)) = self.outgoing.next(at(millis)) {
            self.in_flight.push(sent);
            relayed.push((segment.message, segment.offset, segment.bytes.len()));
        }
        if !relayed.is_empty() {
            results["relayed"] = json!(relayed);
        }
        let direct = self.direct.get(before..).unwrap_or_default();
        if !direct.is_empty() {
            results["direct"] = direct.iter().map(|message| message.id).collect();
        }
        let is_unread =
            |id| self.outgoing.has(id) || self.direct.iter().any(|message| message.id == id);
        if let Some(messages) = self.unread_blocks.update(is_unread) {
            results["acknowledged"] = json!(messages);
        }
        if let Some(wake) = self.outgoing.next_wake() {
            results["wake"] = json!(wake.since(Instant::ZERO).as_millis() as u64);
        }
        results
    }
}

#[test]
fn a_peer_with_two_paths_gets_messages_as_in_the_vectors() {
    for Scenario { about, frame_bytes_max, steps, .. } in read::<Value>("outgoing.json") {
        let mut peer = TwoPaths {
            outgoing: Outgoing::new(frame_bytes_max.unwrap_or(65_536)),
            unread_blocks: UnreadBlocks::default(),
            in_flight: Vec::new(),
            direct: Vec::new(),
            is_up: false,
        };
        for (nth, step) in steps.iter().enumerate() {
            let millis = step["at"].as_u64().expect("a time");
            let action = step["do"].as_array().expect("an action");
            assert_eq!(peer.step(millis, action), *step, "{about} Step {nth}");
        }
    }
}
