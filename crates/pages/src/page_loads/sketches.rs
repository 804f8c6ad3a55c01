//! Counts different visitors, and the loads that begin a session, in a fixed amount of memory. What is stored cannot name a
//! visitor: a register has the length of a run of zeros, and a slot a number of minutes.

/// Registers of a sketch. The standard error of an estimate is 1.04 / √4096 = 1.6 %.
const REGISTERS: usize = 1 << 12;
/// Slots of recent visitors. While n of them are remembered, a new one is taken for one of them with a probability of
/// (2n / 2²⁰)²: 0.04 % for 10,000 and 3 % for 100,000.
const SLOTS: usize = 1 << 20;
/// A visitor that loads nothing for so many minutes begins a new session with the next load.
const PAUSE_MINUTES: u8 = 30;

/// Estimates how many different hashes it was given: HyperLogLog (Flajolet and others, 2007). Empty before the first.
#[derive(Default)]
pub(super) struct Sketch(Vec<u8>);

impl Sketch {
    pub fn insert(&mut self, hash: u64) {
        self.0.resize(REGISTERS, 0);
        // The first 12 bits choose a register. It keeps the length of the longest run of zeros behind them.
        let register = &mut self.0[(hash >> 52) as usize];
        let length = 1 + ((hash << 12) | (1 << 11)).leading_zeros() as u8;
        *register = length.max(*register);
    }

    pub fn estimate(&self) -> f64 {
        let all = REGISTERS as f64;
        let sum: f64 = self.0.iter().map(|length| 0.5_f64.powi(i32::from(*length))).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / all) * all * all / sum;
        let empty = self.0.iter().filter(|length| **length == 0).count();
        // The number of empty registers is the better measure of few visitors.
        match empty {
            1.. if estimate <= 2.5 * all => all * (all / empty as f64).ln(),
            _ if self.0.is_empty() => 0.0,
            _ => estimate,
        }
    }
}

/// Remembers the visitors of the last half hour, in 1 MiB.
#[derive(Default)]
pub(super) struct Recent {
    /// The minutes for which each slot still counts as taken. Empty before the first visitor.
    slots: Vec<u8>,
    minute: u64,
}

impl Recent {
    /// Begins a minute.
    pub fn turn(&mut self, minute: u64) {
        let passed = minute.saturating_sub(self.minute).min(u8::MAX.into()) as u8;
        if passed > 0 {
            self.slots.iter_mut().for_each(|left| *left = left.saturating_sub(passed));
            self.minute = minute;
        }
    }

    /// Returns whether the load of a visitor begins a session.
    pub fn begins_session(&mut self, hash: u64) -> bool {
        self.slots.resize(SLOTS, 0);
        let own = [hash as usize % SLOTS, (hash >> 32) as usize % SLOTS];
        let begins = own.iter().any(|slot| self.slots[*slot] == 0);
        // One more, because a part of this minute has passed.
        own.iter().for_each(|slot| self.slots[*slot] = PAUSE_MINUTES + 1);
        begins
    }
}

#[cfg(test)]
mod tests {
    use watchfire_types::Rng;

    use super::*;

    #[test]
    fn an_estimate_is_within_five_percent() {
        for visitors in [0, 10, 1_000, 100_000] {
            let (mut sketch, mut rng) = (Sketch::default(), Rng::from_seed(visitors));
            let hashes: Vec<u64> = (0..visitors).map(|_| rng.next_u64()).collect();
            hashes.iter().chain(&hashes).for_each(|hash| sketch.insert(*hash));
            let (estimate, visitors) = (sketch.estimate(), visitors as f64);
            assert!((estimate - visitors).abs() <= 0.05 * visitors, "{visitors}: {estimate}");
        }
    }

    #[test]
    fn a_session_ends_after_half_an_hour_without_a_load() {
        let mut recent = Recent::default();
        let begun = [0, 29, 59, 90, 400].map(|minute| {
            recent.turn(minute);
            recent.begins_session(u64::MAX / 7)
        });
        assert_eq!(begun, [true, false, false, true, true]);
    }
}
