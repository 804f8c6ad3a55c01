//! One direction of a link: what becomes of each packet, and when it arrives.
//!
//! A transmitter sends one packet after the other. At 8 Mbit/s a packet of 1,500 bytes takes 1.5 ms, and the next one
//! waits. No queue is kept for this: the time at which the transmitter will be free tells how many bytes wait. When it is
//! free in 3 ms, then 3,000 bytes wait, and a queue of 4,000 bytes has no room for another 1,500. So the average rate is
//! exact, however late the driver reads or writes a packet: a late wake delays one packet, and the times of those behind
//! it are computed from the transmitter's own time.
//!
//! After the transmitter comes the distance: delay, jitter and loss. Jitter is added and never subtracted, and packets
//! keep their order, so a packet with a small jitter waits for the one before it. A lost packet has used the
//! transmitter, as on a real link.
//!
//! The n-th packet draws the n-th numbers of this direction's own generator, whether the queue is full or not. So a
//! change elsewhere in the network, or another queue, does not change which packets are lost here.

use crate::figures::DropCause;
use crate::plan::Direction;
use std::time::Duration;
use watchfire_types::{Instant, Rng};

pub(crate) struct Transmitter {
    direction: Direction,
    rng: Rng,
    /// When the last packet has been sent whole.
    free_at: Instant,
    /// When the last packet arrives.
    last_arrives_at: Instant,
}

impl Transmitter {
    pub fn new(direction: Direction, rng: Rng) -> Self {
        Transmitter { direction, rng, free_at: Instant::ZERO, last_arrives_at: Instant::ZERO }
    }

    /// Takes effect for packets that come from now on. Those that wait are sent at the times that they have.
    pub fn set_direction(&mut self, direction: Direction) {
        self.direction = direction;
    }

    /// When a packet that comes now arrives at the other end.
    pub fn handle_packet(&mut self, now: Instant, bytes: usize) -> Result<Instant, DropCause> {
        let Direction { delay, jitter, loss, .. } = self.direction;
        let is_lost = loss > 0.0 && self.rng.chance(loss);
        let jitter = if jitter.is_zero() { jitter } else { jitter.mul_f64(self.rng.fraction()) };
        if self.free_at > now && self.waiting_bytes(now) + bytes > self.direction.queue_bytes {
            return Err(DropCause::QueueFull);
        }
        self.free_at = self.free_at.max(now) + self.sending_time(bytes);
        if is_lost {
            return Err(DropCause::Lost);
        }
        self.last_arrives_at = self.last_arrives_at.max(self.free_at + delay + jitter);
        Ok(self.last_arrives_at)
    }

    fn sending_time(&self, bytes: usize) -> Duration {
        let nanos = |rate| bytes as u128 * 8 * 1_000_000_000 / u128::from(rate);
        let nanos = self.direction.bits_per_second.map_or(0, nanos);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes that are not sent yet.
    fn waiting_bytes(&self, now: Instant) -> usize {
        let nanos = self.free_at.since(now).as_nanos();
        let bytes = |rate| nanos * u128::from(rate) / 8 / 1_000_000_000;
        let bytes = self.direction.bits_per_second.map_or(0, bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn transmitter(direction: Direction) -> Transmitter {
        Transmitter::new(direction, Rng::from_seed(7))
    }

    #[test]
    fn packets_wait_for_one_another() {
        let direction = Direction { bits_per_second: Some(8_000_000), ..Direction::default() };
        let mut link = transmitter(direction);
        assert_eq!(link.handle_packet(at(0), 1_500), Ok(at(1_500)));
        assert_eq!(link.handle_packet(at(0), 500), Ok(at(2_000)));
        assert_eq!(link.handle_packet(at(5_000), 500), Ok(at(5_500)));
    }

    #[test]
    fn a_packet_over_the_queue_is_dropped_and_the_next_one_that_fits_is_sent() {
        let bits_per_second = Some(8_000_000);
        let queue_bytes = 4_000;
        let mut link =
            transmitter(Direction { bits_per_second, queue_bytes, ..Direction::default() });
        assert_eq!(link.handle_packet(at(0), 3_000), Ok(at(3_000)));
        assert_eq!(link.handle_packet(at(0), 1_500), Err(DropCause::QueueFull));
        assert_eq!(link.handle_packet(at(0), 1_000), Ok(at(4_000)));
        assert_eq!(link.handle_packet(at(1_500), 1_500), Ok(at(5_500)));
    }

    #[test]
    fn a_packet_larger_than_the_queue_passes_an_idle_link() {
        let bits_per_second = Some(8_000_000);
        let queue_bytes = 100;
        let mut link =
            transmitter(Direction { bits_per_second, queue_bytes, ..Direction::default() });
        assert_eq!(link.handle_packet(at(0), 1_500), Ok(at(1_500)));
    }

    #[test]
    fn a_new_rate_is_that_of_the_packets_after_it() {
        let direction = Direction { bits_per_second: Some(8_000_000), ..Direction::default() };
        let mut link = transmitter(direction);
        assert_eq!(link.handle_packet(at(0), 1_000), Ok(at(1_000)));
        link.set_direction(Direction { bits_per_second: Some(4_000_000), ..direction });
        assert_eq!(link.handle_packet(at(0), 1_000), Ok(at(3_000)));
    }

    #[test]
    fn a_lost_packet_has_used_the_rate() {
        let bits_per_second = Some(8_000_000);
        let mut link =
            transmitter(Direction { bits_per_second, loss: 1.0, ..Direction::default() });
        assert_eq!(link.handle_packet(at(0), 1_000), Err(DropCause::Lost));
        link.set_direction(Direction { bits_per_second, ..Direction::default() });
        assert_eq!(link.handle_packet(at(0), 1_000), Ok(at(2_000)));
    }

    #[test]
    fn the_queue_does_not_change_which_packets_are_lost() {
        let lost = |queue_bytes| -> Vec<usize> {
            let bits_per_second = Some(8_000_000);
            let direction =
                Direction { bits_per_second, queue_bytes, loss: 0.3, ..Direction::default() };
            let mut link = transmitter(direction);
            let mut outcomes = (0..200).map(|n| link.handle_packet(at(n * 900), 1_000));
            let mut lost = Vec::new();
            for n in 0..200 {
                if outcomes.next() == Some(Err(DropCause::Lost)) {
                    lost.push(n);
                }
            }
            lost
        };
        let (few, all) = (lost(1_500), lost(1 << 20));
        assert!(few.len() > 20 && few.iter().all(|n| all.contains(n)), "{few:?} {all:?}");
    }

    proptest! {
        #[test]
        fn order_rate_delay_and_queue_hold_for_any_packets(
            packets in prop::collection::vec((0_u64..3_000, 40_usize..1_500), 1..200),
            rate in 1_000_000_u64..100_000_000, delay in 0_u64..50_000, jitter in 0_u64..20_000,
            queue_bytes in 1_500_usize..100_000, loss in 0.0..0.5_f64, seed: u64,
        ) {
            let delay = Duration::from_micros(delay);
            let direction = Direction {
                bits_per_second: Some(rate), delay, jitter: Duration::from_micros(jitter), loss, queue_bytes,
            };
            let run = || {
                let mut link = Transmitter::new(direction, Rng::from_seed(seed));
                let mut now = Instant::ZERO;
                packets.iter().map(|(wait, bytes)| {
                    now += Duration::from_micros(*wait);
                    (now, *bytes, link.handle_packet(now, *bytes))
                }).collect::<Vec<_>>()
            };
            let outcomes = run();
            prop_assert_eq!(&outcomes, &run());
            let longest_wait = Duration::from_secs_f64((queue_bytes + 1_500) as f64 * 8.0 / rate as f64);
            let (mut last, mut sent) = (Instant::ZERO, 0);
            for (now, bytes, outcome) in outcomes {
                let Ok(arrives_at) = outcome else { continue };
                prop_assert!(arrives_at >= last && arrives_at >= now + delay);
                prop_assert!(arrives_at <= (now + delay + direction.jitter + longest_wait).max(last));
                sent += bytes;
                let least = Duration::from_secs_f64(sent as f64 * 8.0 / rate as f64);
                prop_assert!(arrives_at.since(Instant::ZERO) + Duration::from_micros(1) >= least);
                last = arrives_at;
            }
        }
    }
}
