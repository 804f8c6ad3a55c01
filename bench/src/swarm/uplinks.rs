use serde::Serialize;

/// Upload rates of the peers in Mbit/s, including headers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Uplinks {
    pub seeder_mbit: f64,
    pub leecher_mbit: f64,
}

impl Uplinks {
    /// The least possible time in seconds until that many leechers have a file (Kumar and Ross,
    /// 2006), with unlimited download rates and without headers.
    pub fn bound_seconds(self, file_bytes: u64, leechers: usize) -> f64 {
        let (bits, leechers) = (file_bytes as f64 * 8.0 / 1e6, leechers as f64);
        let all = self.seeder_mbit + leechers * self.leecher_mbit;
        (bits / self.seeder_mbit).max(leechers * bits / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeder_must_send_every_byte_once_and_all_together_all_copies() {
        let megabyte = 1_000_000;
        let slow_seeder = Uplinks { seeder_mbit: 8.0, leecher_mbit: 800.0 };
        assert!((slow_seeder.bound_seconds(megabyte, 10) - 1.0).abs() < 1e-9);
        let slow_leechers = Uplinks { seeder_mbit: 80.0, leecher_mbit: 8.0 };
        assert!((slow_leechers.bound_seconds(megabyte, 10) - 0.5).abs() < 1e-9);
    }
}
