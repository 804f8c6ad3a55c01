//! Users that connect again when their connection breaks, as a client library does.
//!
//! Such a user waits, and continues at its last `connect`, at another server if the load has several. The step
//! `return` measures the time from the break until the user waits or stays again: it is connected, and has joined
//! its topics. All pauses but the last are used once for each break, so a user does not try faster and faster.

use std::time::Duration;

use watchfire_types::Instant;

use crate::scenario::Target;

/// When the connection of a user broke, and how often it has tried to connect since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Break {
    at: Instant,
    attempts: u32,
}

impl Break {
    pub(super) fn new(at: Instant) -> Break {
        Break { at, attempts: 0 }
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// The number of the next attempt, from 0, and the pause before it.
    pub(super) fn next_attempt(&mut self, pauses: &[Duration]) -> (u32, Duration) {
        let attempt = self.attempts;
        self.attempts = attempt.saturating_add(1);
        (attempt, pauses[pauses.len().min(attempt as usize + 1) - 1])
    }
}

/// Another server than the present one, so that its users are spread over all others.
pub(super) fn another_target(targets: &[Target], target: u16, number: u32, attempt: u32) -> u16 {
    let others = targets.iter().enumerate();
    let others =
        others.filter(|(index, other)| other.weight > 0.0 && *index != usize::from(target));
    let others: Vec<u16> = others.map(|(index, _)| index as u16).collect();
    // Users take turns at the servers, so those of one server differ by the number of servers.
    let turn = number / (others.len() as u32 + 1);
    let chosen = turn.wrapping_add(attempt).checked_rem(others.len() as u32);
    chosen.map_or(target, |chosen| others[chosen as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pause_is_repeated() {
        let pauses = [1, 2, 5].map(Duration::from_secs);
        let mut broken = Break::new(Instant::ZERO);
        let seconds = [(); 5].map(|()| broken.next_attempt(&pauses).1.as_secs());
        assert_eq!(seconds, [1, 2, 5, 5, 5]);
    }

    #[test]
    fn the_users_of_a_server_are_spread_over_the_others() {
        let targets = ["ws://a", "ws://b", "ws://c"].map(|url| Target::parse(url, 1.0).unwrap());
        let of_first = [0, 3, 6, 9].map(|number| another_target(&targets, 0, number, 0));
        assert_eq!(of_first, [1, 2, 1, 2]);
        assert_eq!(another_target(&targets, 0, 0, 1), 2, "the next attempt is at another one");
        assert_eq!(another_target(&targets[..1], 0, 7, 3), 0);
    }
}
