//! The benchmarks of `make bench-images`, and the cases of each.

use std::fmt;

use clap::ValueEnum;

use super::case::Case;
use super::image::Image;
use super::links::Links;
use super::system::System;

const MIB: u64 = 1 << 20;
/// Layers of the image with many small layers, and their size.
const SMALL_LAYERS: usize = 200;
const SMALL_LAYER_BYTES: u64 = 200_000;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Benchmark {
    /// 300 MiB to all hosts, as fast as the machine can.
    Unshaped,
    /// 300 MiB; the registry and all hosts have links of the same rate.
    EqualLinks,
    /// 300 MiB; the registry has half the rate of a host.
    SlowUpstream,
    /// 200 layers of 200 KB to all hosts, as fast as the machine can.
    SmallLayers,
    /// 10 MiB and 100 MiB to all hosts, as fast as the machine can.
    Sizes,
    /// 300 MiB that one host has, to a second host.
    Neighbour,
}

/// Hosts of a full run.
const HOSTS: usize = 32;
/// The same with shaped links. Hosts that are limited by their links and not by the processors of
/// this machine must be few, or their links so slow that the registry alone needs hours.
const HOSTS_WITH_EQUAL_LINKS: usize = 8;
const HOSTS_WITH_SLOW_UPSTREAM: usize = 16;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// `None`: the number of a full run.
    pub hosts: Option<usize>,
    /// The part of each image, from 0 to 1.
    pub share: f64,
    /// The rate of all links of [`Benchmark::EqualLinks`], in Mbit/s.
    pub equal_mbit: f64,
    /// The links of [`Benchmark::SlowUpstream`].
    pub slow_upstream: Links,
}

impl Benchmark {
    pub const ALL: [Benchmark; 6] = [
        Benchmark::Unshaped,
        Benchmark::EqualLinks,
        Benchmark::SlowUpstream,
        Benchmark::SmallLayers,
        Benchmark::Sizes,
        Benchmark::Neighbour,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Benchmark::Unshaped => "An image to many hosts, as fast as the machine can",
            Benchmark::EqualLinks => "An image to many hosts, with links of the same rate",
            Benchmark::SlowUpstream => "An image to many hosts, from a slow registry",
            Benchmark::SmallLayers => "An image of many small layers to many hosts",
            Benchmark::Sizes => "Smaller images to many hosts",
            Benchmark::Neighbour => "An image that one host has, to a second host",
        }
    }

    pub fn systems(self) -> &'static [System] {
        use System::*;
        match self {
            Benchmark::Unshaped => &[Fleet, Registry, NginxCache, RegistryCache, Mirror],
            _ => &[Fleet, Registry, NginxCache, RegistryCache],
        }
    }

    /// The hosts of a full run.
    pub fn hosts(self) -> usize {
        match self {
            Benchmark::Unshaped | Benchmark::SmallLayers | Benchmark::Sizes => HOSTS,
            Benchmark::EqualLinks => HOSTS_WITH_EQUAL_LINKS,
            Benchmark::SlowUpstream => HOSTS_WITH_SLOW_UPSTREAM,
            Benchmark::Neighbour => 2,
        }
    }

    fn images(self, share: f64) -> Vec<Image> {
        let part = |whole: u64| ((whole as f64 * share) as u64).max(1);
        let usual = |mib: u64| Image::Usual { bytes: part(mib * MIB) };
        match self {
            Benchmark::SmallLayers => vec![Image::Equal {
                layers: part(SMALL_LAYERS as u64) as usize,
                layer_bytes: SMALL_LAYER_BYTES,
            }],
            Benchmark::Sizes => vec![usual(10), usual(100)],
            _ => vec![usual(300)],
        }
    }

    pub fn links(self, size: Size) -> Option<Links> {
        match self {
            Benchmark::EqualLinks => {
                Some(Links { upstream_mbit: size.equal_mbit, host_mbit: size.equal_mbit })
            }
            Benchmark::SlowUpstream => Some(size.slow_upstream),
            _ => None,
        }
    }

    /// The cases of one round: all systems in turns, for each image.
    pub fn cases(self, size: Size, systems: &[System]) -> Vec<Case> {
        let is_warm = self == Benchmark::Neighbour;
        let hosts = if is_warm { 2 } else { size.hosts.unwrap_or(self.hosts()) };
        let links = self.links(size);
        let images = self.images(size.share).into_iter();
        let of_image = |image| {
            systems.iter().map(move |system| Case { system: *system, image, hosts, links, is_warm })
        };
        images.flat_map(of_image).collect()
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no benchmark is hidden").get_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        hosts: None,
        share: 1.0,
        equal_mbit: 100.0,
        slow_upstream: Links { upstream_mbit: 50.0, host_mbit: 100.0 },
    };

    #[test]
    fn only_two_benchmarks_have_shaped_links() {
        let shaped = Benchmark::ALL.iter().filter(|one| one.links(SIZE).is_some()).count();
        assert_eq!(shaped, 2);
    }

    #[test]
    fn systems_take_turns_for_each_image() {
        let cases = Benchmark::Sizes.cases(SIZE, &[System::Fleet, System::Registry]);
        // A layer is rounded down to a whole byte.
        let mib: Vec<u64> = cases.iter().map(|case| (case.image.bytes() + 6) / MIB).collect();
        assert_eq!(mib, [10, 10, 100, 100]);
        assert!(cases.iter().all(|case| case.hosts == 32 && !case.is_warm));
        let fewer = Size { hosts: Some(4), ..SIZE };
        assert!(Benchmark::Sizes.cases(fewer, &[System::Fleet]).iter().all(|case| case.hosts == 4));
        let small = Benchmark::SmallLayers.cases(SIZE, &[System::Fleet]);
        assert_eq!(small[0].image.layers(), [200_000; 200]);
    }

    #[test]
    fn a_neighbour_is_one_of_two_hosts() {
        let cases = Benchmark::Neighbour.cases(SIZE, &[System::Registry]);
        assert!(cases[0].hosts == 2 && cases[0].is_warm);
        assert_eq!(cases[0].measured_hosts(), 1);
    }
}
