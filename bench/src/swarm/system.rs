use std::fmt;

use clap::ValueEnum;

use watchfire_report::Colour;

/// A system under test: the program of the seeder, that of the leechers, and the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum System {
    /// Watchfire; all peers know each other.
    WatchfireMesh,
    /// Watchfire; each leecher knows the seeder and a few others.
    WatchfireFew,
    /// Watchfire; each leecher knows only the seeder.
    WatchfireStar,
    /// kubo; all peers are connected to each other.
    KuboMesh,
    /// kubo; each leecher is connected only to the seeder.
    KuboStar,
    /// [`System::KuboMesh`] with blocks of 1 MiB.
    KuboMeshLarge,
    /// [`System::KuboStar`] with blocks of 1 MiB.
    KuboStarLarge,
    /// kubo fetches from Watchfire.
    KuboFromWatchfire,
    /// Watchfire fetches from kubo.
    WatchfireFromKubo,
    /// curl fetches from nginx.
    Http,
    /// dd copies the file to the folder of the leechers: the cost of the disk alone.
    Disk,
}

/// A program of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Watchfire,
    Kubo,
    Http,
    /// No network: it reads the file itself.
    Disk,
}

/// The peers that a leecher knows beside the seeder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    Mesh,
    Few,
    Star,
}

/// The block size and layout of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// The default of Watchfire: 1 MiB, raw, 1024 links.
    Large,
    /// The default of kubo: 256 KiB, wrapped, 174 links.
    Small,
}

impl System {
    pub fn seeder(self) -> Program {
        use System::*;
        match self {
            WatchfireMesh | WatchfireFew | WatchfireStar | KuboFromWatchfire => Program::Watchfire,
            KuboMesh | KuboStar | KuboMeshLarge | KuboStarLarge | WatchfireFromKubo => {
                Program::Kubo
            }
            Http | Disk => Program::Http,
        }
    }

    pub fn leecher(self) -> Program {
        match self {
            System::KuboFromWatchfire => Program::Kubo,
            System::WatchfireFromKubo => Program::Watchfire,
            System::Disk => Program::Disk,
            _ => self.seeder(),
        }
    }

    pub fn topology(self) -> Topology {
        match self {
            System::WatchfireMesh | System::KuboMesh | System::KuboMeshLarge => Topology::Mesh,
            System::WatchfireFew => Topology::Few,
            _ => Topology::Star,
        }
    }

    /// The default of the program; with kubo on one side, the default of kubo.
    pub fn blocks(self) -> Blocks {
        use System::*;
        match self {
            KuboMesh | KuboStar | KuboFromWatchfire | WatchfireFromKubo => Blocks::Small,
            WatchfireMesh | WatchfireFew | WatchfireStar | KuboMeshLarge | KuboStarLarge | Http
            | Disk => Blocks::Large,
        }
    }

    pub fn needs(self, program: Program) -> bool {
        self.seeder() == program || self.leecher() == program
    }

    /// Its name on the command line and in file names.
    pub fn key(self) -> String {
        let value = self.to_possible_value().expect("no system is hidden");
        value.get_name().to_owned()
    }

    /// A short name for charts.
    pub fn short_name(self) -> &'static str {
        match self {
            System::WatchfireMesh => "Watchfire",
            System::WatchfireFew => "Watchfire, few",
            System::WatchfireStar => "Watchfire, star",
            System::KuboMesh => "kubo",
            System::KuboStar => "kubo, star",
            System::KuboMeshLarge => "kubo, 1 MiB",
            System::KuboStarLarge => "kubo, star, 1 MiB",
            System::KuboFromWatchfire => "kubo from Watchfire",
            System::WatchfireFromKubo => "Watchfire from kubo",
            System::Http => "HTTP",
            System::Disk => "disk only",
        }
    }

    pub fn colour(self) -> Colour {
        match self {
            System::WatchfireMesh | System::WatchfireFromKubo => Colour::Orange,
            System::WatchfireFew | System::WatchfireStar => Colour::Purple,
            System::KuboMesh | System::KuboFromWatchfire | System::KuboMeshLarge => Colour::Blue,
            System::KuboStar | System::KuboStarLarge => Colour::Green,
            System::Http | System::Disk => Colour::Grey,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            System::WatchfireMesh => "Watchfire, all know each other",
            System::WatchfireFew => "Watchfire, each knows a few",
            System::WatchfireStar => "Watchfire, only from the seeder",
            System::KuboMesh => "kubo 0.42, all know each other",
            System::KuboStar => "kubo 0.42, only from the seeder",
            System::KuboMeshLarge => "kubo 0.42, all know each other, blocks of 1 MiB",
            System::KuboStarLarge => "kubo 0.42, only from the seeder, blocks of 1 MiB",
            System::KuboFromWatchfire => "kubo 0.42 from Watchfire",
            System::WatchfireFromKubo => "Watchfire from kubo 0.42",
            System::Http => "nginx and curl",
            System::Disk => "dd (only copies the file)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_the_kubo_version() {
        let (major_minor, _) = crate::swarm::KUBO_VERSION.rsplit_once('.').unwrap();
        let named = format!("kubo {}", major_minor.trim_start_matches('v'));
        for system in System::value_variants() {
            let label = system.to_string();
            let is_kubo = system.needs(Program::Kubo);
            assert_eq!(label.contains(&named), is_kubo, "{label} and {named}");
        }
    }
}
