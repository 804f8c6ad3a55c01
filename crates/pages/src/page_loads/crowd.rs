//! Notices a crowd: a minute with many times the loads of a usual minute.

use std::collections::{BTreeMap, VecDeque};

use super::NO_HOSTS;

/// The fewest loads of a crowd in its minute, and how many times those of the mean minute of the hour before they are.
const LOADS_MIN: u64 = 100;
const TIMES_MIN: u64 = 10;
const HOUR_MINUTES: usize = 60;

/// The loads of the last hour. Minutes count from the start of the server, so that none was seen in part.
#[derive(Default)]
pub(super) struct Crowd {
    minute: u64,
    /// The loads of the minute by the host of the referrer.
    loads: BTreeMap<String, u64>,
    /// The loads of each minute before, at most of an hour.
    before: VecDeque<u64>,
    noticed_at: Option<u64>,
}

impl Crowd {
    pub fn add(&mut self, host: &str) {
        *self.loads.entry(host.to_owned()).or_default() += 1;
    }

    /// Begins a minute. Returns a text if the minute that ends had a crowd; at most one an hour.
    pub fn turn(&mut self, minute: u64) -> Option<String> {
        if minute == self.minute {
            return None;
        }
        let by_host = std::mem::take(&mut self.loads);
        let loads: u64 = by_host.values().sum();
        let (minutes, before) = (self.before.len() as u64, self.before.iter().sum::<u64>());
        let is_new = self.noticed_at.is_none_or(|at| self.minute >= at + HOUR_MINUTES as u64);
        // A server that has just started does not know what is usual.
        let is_known = minutes > 0 && loads * minutes >= TIMES_MIN * before;
        let is_crowd = is_known && is_new && loads >= LOADS_MIN;
        self.noticed_at = if is_crowd { Some(self.minute) } else { self.noticed_at };
        self.before.push_back(loads);
        self.before.drain(..self.before.len().saturating_sub(HOUR_MINUTES));
        self.minute = minute;
        let (most, _) = by_host.iter().max_by_key(|(_, loads)| **loads).filter(|_| is_crowd)?;
        let is_host = !NO_HOSTS.contains(&most.as_str());
        let host = if is_host { format!(", most from {most}") } else { String::new() };
        Some(format!("A crowd came: {loads} page loads in a minute{host}"))
    }
}

#[test]
fn a_crowd_is_told_once_an_hour_with_the_host_that_most_came_from() {
    let mut crowd = Crowd::default();
    let mut after = |host: &str, loads: &[u64]| {
        let turn = |loads: &u64| {
            (0..*loads).for_each(|_| crowd.add(host));
            crowd.turn(crowd.minute + 1)
        };
        loads.iter().filter_map(turn).collect::<Vec<_>>()
    };
    assert_eq!(after("none", &[900]), [""; 0], "nothing is usual yet");
    assert_eq!(after("none", &[[20; 60], [19; 60]].concat()), [""; 0]);
    let text = "A crowd came: 300 page loads in a minute, most from a.example";
    assert_eq!(after("a.example", &[189, 300, 9_000]), [text]);
    assert_eq!(after("none", &[5; 58]), [""; 0]);
    let text = "A crowd came: 9000 page loads in a minute";
    assert_eq!(after("none", &[9_000, 9_000]), [text], "an hour later");
    assert_eq!(after("none", &[&[0; 60][..], &[99]].concat()), [""; 0], "few are no crowd");
}
