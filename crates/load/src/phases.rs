//! Announces when the phases of a load begin and end, so that others can measure the server in each.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::Serialize;

use crate::scenario::Phase;

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

/// Sends the events of phases, each at its time of the schedule.
pub(crate) struct Announcer {
    events: VecDeque<PhaseEvent>,
    sender: Option<Sender<PhaseEvent>>,
}

impl Announcer {
    pub(crate) fn new(phases: &[Phase], sender: Option<Sender<PhaseEvent>>) -> Announcer {
        let events = if sender.is_some() { events(phases) } else { Vec::new() };
        Announcer { events: events.into(), sender }
    }

    /// The time of the schedule at which the next event is due.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.events.front().map(|event| Duration::from_secs_f64(event.at))
    }

    /// Sends the events until a time of the schedule, which is behind the clock by `paused`.
    pub(crate) fn announce(&mut self, time: Duration, paused: Duration) {
        while self.next_at().is_some_and(|at| at <= time) {
            let event = self.events.pop_front().zip(self.sender.as_ref());
            if let Some((event, sender)) = event {
                // Nobody may listen any more.
                let _ = sender.send(PhaseEvent { at: event.at + paused.as_secs_f64(), ..event });
            }
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
    use std::sync::mpsc::channel;

    use super::*;
    use crate::scenario::Scenario;

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
    fn an_event_is_announced_at_its_time_of_the_schedule() {
        let scenario = Scenario::parse("two.toml", PHASES).unwrap();
        let (sender, receiver) = channel();
        let mut announcer = Announcer::new(&scenario.phases, Some(sender));
        let mut until = |millis, paused| {
            announcer.announce(Duration::from_millis(millis), Duration::from_secs(paused));
            receiver.try_iter().map(|event| (event.event, event.at)).collect::<Vec<_>>()
        };
        assert_eq!(until(1_999, 0), [(PhaseChange::PhaseBegan, 0.0)]);
        let expected = [(PhaseChange::PhaseEnded, 12.0), (PhaseChange::PhaseBegan, 12.0)];
        assert_eq!(until(2_000, 10), expected, "after a pause");
        assert_eq!(until(2_500, 10), [(PhaseChange::PhaseEnded, 12.5)], "together with the load");
    }
}
