//! Announces when the phases of a load begin and end, so that others can measure the server in each.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use serde::Serialize;

use crate::clock::monotonic;
use crate::scenario::{Phase, Scenario};

/// The begin or the end of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseEvent {
    pub event: PhaseChange,
    pub phase: String,
    /// Seconds since the load began.
    pub at: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseChange {
    PhaseBegan,
    PhaseEnded,
}

/// Sends the events of all phases, each at its time, until the result is dropped.
pub(crate) fn announce<'scope>(
    scope: &'scope Scope<'scope, '_>,
    scenario: &Scenario,
    origin: Duration,
    sender: Option<Sender<PhaseEvent>>,
) -> Option<Sender<()>> {
    let sender = sender?;
    let events = events(&scenario.phases);
    let (running, ended) = channel();
    scope.spawn(move || send_all(events, origin, &sender, &ended));
    Some(running)
}

fn send_all(
    events: Vec<PhaseEvent>,
    origin: Duration,
    sender: &Sender<PhaseEvent>,
    ended: &Receiver<()>,
) {
    for event in events {
        let due = origin + Duration::from_secs_f64(event.at);
        let left = due.saturating_sub(monotonic());
        let has_ended = ended.recv_timeout(left) != Err(RecvTimeoutError::Timeout);
        // A load without users ends together with its last phase.
        let is_cut = has_ended && monotonic() < due;
        if is_cut || sender.send(event).is_err() {
            return;
        }
    }
}

/// The events in their order. A phase that waits for users has no known end, so it ends the list.
fn events(phases: &[Phase]) -> Vec<PhaseEvent> {
    let (mut events, mut at) = (Vec::new(), Duration::ZERO);
    for phase in phases {
        let event = |event, at: Duration| {
            let (phase, at) = (phase.name.clone(), at.as_secs_f64());
            PhaseEvent { event, phase, at }
        };
        events.push(event(PhaseChange::PhaseBegan, at));
        if phase.waits_for_users {
            break;
        }
        at += phase.duration;
        events.push(event(PhaseChange::PhaseEnded, at));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: &str = r#"
        targets = [{ url = "ws://127.0.0.1:1" }]
        phases = [{ name = "join", duration = "2s", rate = 1 }, { duration = "500ms", rate = 0 }]
        sessions = [{ steps = [{ connect = { path = "/" } }] }]
    "#;

    #[test]
    fn each_phase_begins_when_the_one_before_has_ended() {
        let scenario = Scenario::parse("two.toml", PHASES).unwrap();
        let events = events(&scenario.phases);
        let lines: Vec<_> =
            events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        assert_eq!(lines[0], r#"{"event":"phase_began","phase":"join","at":0.0}"#);
        assert_eq!(lines[1], r#"{"event":"phase_ended","phase":"join","at":2.0}"#);
        assert_eq!(lines[3], r#"{"event":"phase_ended","phase":"phase 2","at":2.5}"#);
    }

    #[test]
    fn a_load_that_ends_with_its_last_phase_announces_that_end() {
        let scenario = Scenario::parse("two.toml", PHASES).unwrap();
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let origin = monotonic() - Duration::from_millis(2_500);
            drop(announce(scope, &scenario, origin, Some(sender)));
        });
        let last = receiver.iter().last().map(|event| (event.event, event.at));
        assert_eq!(last, Some((PhaseChange::PhaseEnded, 2.5)));
    }

    #[test]
    fn a_load_that_ends_early_announces_nothing_more() {
        let scenario = Scenario::parse("two.toml", PHASES).unwrap();
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let hour = Duration::from_secs(3600);
            drop(announce(scope, &scenario, monotonic() + hour, Some(sender)));
        });
        assert_eq!(receiver.iter().count(), 0);
    }
}
