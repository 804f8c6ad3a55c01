//! Users that wait for each other.

use std::time::Duration;

use watchfire_types::Instant;

/// Waiting users go on when no other has come for this long, as in Tsung.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Meeting {
    /// The slot and the number of each.
    users: Vec<(usize, u32)>,
    last_came_at: Instant,
    /// How many users go on together.
    size: u64,
}

impl Meeting {
    pub(super) fn new(size: u64) -> Meeting {
        Meeting { users: Vec::new(), last_came_at: Instant::ZERO, size: size.max(1) }
    }

    /// A user waits. Returns whether enough users do.
    pub(super) fn join(&mut self, index: usize, number: u32, now: Instant) -> bool {
        self.users.push((index, number));
        self.last_came_at = now;
        self.users.len() as u64 >= self.size
    }

    /// Whether nobody has come for a while.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        !self.users.is_empty() && now.since(self.last_came_at) >= TIMEOUT
    }

    /// The users that go on.
    pub(super) fn end(&mut self) -> Vec<(usize, u32)> {
        std::mem::take(&mut self.users)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_wait_until_enough_have_come_or_nobody_comes_any_more() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut meeting = Meeting::new(2);
        assert!(!meeting.is_overdue(at(100)));
        assert!(!meeting.join(5, 1, at(10)));
        assert!(!meeting.is_overdue(at(69)) && meeting.is_overdue(at(70)));
        assert!(meeting.join(6, 2, at(20)));
        assert_eq!(meeting.end(), [(5, 1), (6, 2)]);
        assert!(!meeting.is_overdue(at(100)));
    }
}
