//! The addresses of each server. A name such as `localhost` may have several, and a server may listen
//! on some of them only.

use std::net::SocketAddr;
use std::time::Duration;

use watchfire_types::Instant;

use crate::scenario::Target;

/// How long an address that refused a connection is tried after the others.
const FAILED_FOR: Duration = Duration::from_secs(5);

/// The addresses that one user has tried for its next connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tried(u32);

/// The addresses of all servers, and which of them failed.
pub(super) struct Addresses(Vec<Vec<Address>>);

struct Address {
    at: SocketAddr,
    failed_at: Option<Instant>,
}

impl Addresses {
    pub(super) fn new(targets: &[Target]) -> Addresses {
        let all = |target: &Target| {
            target.addresses().iter().map(|at| Address { at: *at, failed_at: None }).collect()
        };
        Addresses(targets.iter().map(all).collect())
    }

    /// The next address of a server for a user, and its index. Users are spread evenly over the
    /// addresses. Those that failed lately come last. `None`: all were tried.
    pub(super) fn next(
        &self,
        target: u16,
        user: u32,
        tried: Tried,
        now: Instant,
    ) -> Option<(usize, SocketAddr)> {
        let all = &self.0[usize::from(target)];
        let first = user as usize % all.len();
        let in_turn = (0..all.len()).map(|step| (first + step) % all.len());
        let untried = in_turn.filter(|index| tried.0 & (1 << index) == 0);
        let has_failed =
            |index: &usize| all[*index].failed_at.is_some_and(|at| now.since(at) < FAILED_FOR);
        let found = untried.clone().find(|index| !has_failed(index)).or(untried.clone().next());
        found.map(|index| (index, all[index].at))
    }

    pub(super) fn note_failed(&mut self, target: u16, address: u8, now: Instant) {
        self.0[usize::from(target)][usize::from(address)].failed_at = Some(now);
    }

    pub(super) fn note_connected(&mut self, target: u16, address: u8) {
        self.0[usize::from(target)][usize::from(address)].failed_at = None;
    }
}

impl Tried {
    pub(super) fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_spread_over_addresses_and_pass_over_those_that_failed() {
        let addresses = |count: u16| {
            let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
            Addresses(vec![
                (0..count).map(|port| Address { at: at(port), failed_at: None }).collect(),
            ])
        };
        let mut three = addresses(3);
        let now = Instant::ZERO + FAILED_FOR;
        let next = |three: &Addresses, user, tried, now| {
            three.next(0, user, tried, now).map(|(index, _)| index)
        };
        let first = |three: &Addresses, now| {
            (0..4).map(|user| next(three, user, Tried::default(), now).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(first(&three, now), [0, 1, 2, 0]);
        three.note_failed(0, 1, now);
        assert_eq!(first(&three, now), [0, 2, 2, 0]);
        // A user whose other addresses failed tries this one too, and then no more.
        let mut tried = Tried::default();
        tried.add(0);
        tried.add(2);
        assert_eq!(next(&three, 0, tried, now), Some(1));
        tried.add(1);
        assert_eq!(next(&three, 0, tried, now), None);
        assert_eq!(first(&three, now + FAILED_FOR), [0, 1, 2, 0]);
        three.note_failed(0, 0, now);
        three.note_connected(0, 0);
        assert_eq!(first(&three, now), [0, 2, 2, 0]);
    }
}
