//! The figures of a case over several rounds.

use super::case::{Case, Outcome};
use crate::report::median;

/// First, median and last host, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub first: f64,
    pub half: f64,
    pub last: f64,
}

/// Medians over rounds; memory is the maximum.
#[derive(Clone, Debug)]
pub struct Figures {
    pub case: Case,
    pub rounds: usize,
    pub fetched: Times,
    pub complete: Times,
    /// CPU-seconds per measured host.
    pub mirror_cpu: f64,
    pub client_cpu: f64,
    /// CPU-seconds of the registry and the shared cache, and of the kernel threads for network work.
    pub servers_cpu: f64,
    pub kernel_cpu: f64,
    /// Copies of the image that the registry served, and that hosts sent to each other.
    pub upstream_copies: f64,
    pub host_copies: f64,
    /// Of these, copies that hosts got twice.
    pub duplicate_copies: f64,
    pub mirror_peak: f64,
    pub client_peak: f64,
    /// The load average of the machine before a round.
    pub load_before: f64,
    /// Seconds until each host had fetched the image, in the round with the median end.
    pub fetched_times: Vec<f64>,
}

impl Figures {
    /// `None` if there is no round.
    pub fn of(case: Case, rounds: &[Outcome]) -> Option<Self> {
        let of = |value: &dyn Fn(&Outcome) -> f64| median(rounds.iter().map(value).collect());
        let most = |value: &dyn Fn(&Outcome) -> u64| rounds.iter().map(value).max();
        let times = |all: &dyn Fn(&Outcome) -> &[f64]| Times {
            first: of(&|outcome| at(all(outcome), 0)),
            half: of(&|outcome| at(all(outcome), all(outcome).len().saturating_sub(1) / 2)),
            last: of(&|outcome| at(all(outcome), all(outcome).len().saturating_sub(1))),
        };
        let (image, hosts) = (case.image.bytes() as f64, case.measured_hosts() as f64);
        let mut by_end: Vec<&Outcome> = rounds.iter().collect();
        by_end.sort_by(|one, other| one.last_fetched().total_cmp(&other.last_fetched()));
        let typical = by_end.get(by_end.len().saturating_sub(1) / 2)?;
        Some(Figures {
            case,
            rounds: rounds.len(),
            fetched: times(&|outcome| &outcome.fetched),
            complete: times(&|outcome| &outcome.complete),
            mirror_cpu: of(&|outcome| outcome.mirrors_cpu / hosts),
            client_cpu: of(&|outcome| outcome.clients_cpu / hosts),
            servers_cpu: of(&|outcome| outcome.servers_cpu),
            kernel_cpu: of(&|outcome| outcome.kernel_cpu),
            upstream_copies: of(&|outcome| outcome.upstream_bytes as f64 / image),
            host_copies: of(&|outcome| outcome.between_hosts_bytes as f64 / image),
            duplicate_copies: of(&|outcome| outcome.duplicate_bytes as f64 / image),
            mirror_peak: most(&|outcome| outcome.mirror_peak)? as f64,
            client_peak: most(&|outcome| outcome.client_peak)? as f64,
            load_before: of(&|outcome| outcome.load_before),
            fetched_times: typical.fetched.clone(),
        })
    }

    /// CPU-seconds of the mirror and the client of a host.
    pub fn host_cpu(&self) -> f64 {
        self.mirror_cpu + self.client_cpu
    }

    /// The time of the last host divided by the bound of the links; `None` without rates.
    pub fn times_bound(&self) -> Option<f64> {
        Some(self.fetched.last / self.case.bound_seconds()?)
    }

    /// The number of hosts that have fetched the image over time, as a step function.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let mut points = vec![(0.0, 0.0)];
        for (index, at) in self.fetched_times.iter().enumerate() {
            points.extend([(*at, index as f64), (*at, index as f64 + 1.0)]);
        }
        points
    }
}

fn at(times: &[f64], index: usize) -> f64 {
    times.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::fleet::image::Image;
    use crate::fleet::system::System;

    /// An outcome of hosts that fetch an image at these times, and need a second to unpack it.
    pub fn outcome(fetched: &[f64]) -> Outcome {
        Outcome {
            fetched: fetched.to_vec(),
            complete: fetched.iter().map(|at| at + 1.0).collect(),
            mirrors_cpu: 4.0,
            clients_cpu: 6.0,
            servers_cpu: 1.0,
            kernel_cpu: 0.5,
            upstream_bytes: 300,
            upstream_wire_bytes: 310,
            between_hosts_bytes: 600,
            duplicate_bytes: 60,
            mirror_peak: 10,
            client_peak: 20,
            load_before: 0.5,
        }
    }

    #[test]
    fn figures_are_medians_and_memory_is_the_maximum() {
        let image = Image::Usual { bytes: 300 };
        let system = System::Fleet;
        let case = Case { system, image, hosts: 2, links: None, is_warm: false };
        let mut rounds = [outcome(&[1.0, 5.0]), outcome(&[2.0, 9.0]), outcome(&[3.0, 4.0])];
        rounds[1].mirror_peak = 30;
        let figures = Figures::of(case, &rounds).unwrap();
        assert_eq!(figures.fetched, Times { first: 2.0, half: 2.0, last: 5.0 });
        assert_eq!(figures.complete, Times { first: 3.0, half: 3.0, last: 6.0 });
        assert_eq!([figures.mirror_cpu, figures.client_cpu, figures.host_cpu()], [2.0, 3.0, 5.0]);
        assert_eq!([figures.upstream_copies, figures.host_copies], [1.0, 2.0]);
        assert_eq!(figures.mirror_peak, 30.0);
        assert_eq!(figures.times_bound(), None);
        let steps = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (5.0, 1.0), (5.0, 2.0)];
        assert_eq!(figures.curve(), steps);
        assert!(Figures::of(case, &[]).is_none());
    }
}
