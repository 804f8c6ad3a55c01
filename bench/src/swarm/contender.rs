use std::fmt;

use clap::ValueEnum;

use crate::scale::report::Tint;

/// What is compared: who has the file, who takes it, and who knows whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Contender {
    /// Watchfire; everyone knows everyone.
    WatchfireMesh,
    /// Watchfire; everyone knows the seeder and a few others.
    WatchfireFew,
    /// Watchfire; everyone knows the seeder alone.
    WatchfireStar,
    /// kubo; everyone is connected to everyone.
    KuboMesh,
    /// kubo; everyone is connected to the seeder alone.
    KuboStar,
    /// The same with blocks as large as ours.
    KuboStarLarge,
    /// kubo takes from Watchfire.
    KuboFromWatchfire,
    /// Watchfire takes from kubo.
    WatchfireFromKubo,
    /// nginx gives, curl takes.
    Http,
    /// dd copies the file to where leechers put theirs: what the disk alone takes.
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

/// Whom a leecher knows beside the seeder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    Mesh,
    Few,
    Star,
}

/// How the file is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// What Watchfire does unasked: 1 MiB, raw, 1024 links.
    Large,
    /// What kubo does unasked: 256 KiB, wrapped, 174 links.
    Small,
}

impl Contender {
    pub fn seeder(self) -> Program {
        use Contender::*;
        match self {
            WatchfireMesh | WatchfireFew | WatchfireStar | KuboFromWatchfire => Program::Watchfire,
            KuboMesh | KuboStar | KuboStarLarge | WatchfireFromKubo => Program::Kubo,
            Http | Disk => Program::Http,
        }
    }

    pub fn leecher(self) -> Program {
        match self {
            Contender::KuboFromWatchfire => Program::Kubo,
            Contender::WatchfireFromKubo => Program::Watchfire,
            Contender::Disk => Program::Disk,
            _ => self.seeder(),
        }
    }

    pub fn topology(self) -> Topology {
        match self {
            Contender::WatchfireMesh | Contender::KuboMesh => Topology::Mesh,
            Contender::WatchfireFew => Topology::Few,
            _ => Topology::Star,
        }
    }

    /// Everyone cuts as it comes, and with kubo on one side as kubo does.
    pub fn blocks(self) -> Blocks {
        use Contender::*;
        match self {
            KuboMesh | KuboStar | KuboFromWatchfire | WatchfireFromKubo => Blocks::Small,
            WatchfireMesh | WatchfireFew | WatchfireStar | KuboStarLarge | Http | Disk => {
                Blocks::Large
            }
        }
    }

    pub fn needs(self, program: Program) -> bool {
        self.seeder() == program || self.leecher() == program
    }

    /// The word for it on the command line and in file names.
    pub fn key(self) -> String {
        let value = self.to_possible_value().expect("no contender is hidden");
        value.get_name().to_owned()
    }

    /// For where there is little room.
    pub fn in_short(self) -> &'static str {
        match self {
            Contender::WatchfireMesh => "Watchfire",
            Contender::WatchfireFew => "Watchfire, few",
            Contender::WatchfireStar => "Watchfire, star",
            Contender::KuboMesh => "kubo",
            Contender::KuboStar => "kubo, star",
            Contender::KuboStarLarge => "kubo, star, 1 MiB",
            Contender::KuboFromWatchfire => "kubo from Watchfire",
            Contender::WatchfireFromKubo => "Watchfire from kubo",
            Contender::Http => "HTTP",
            Contender::Disk => "the disk alone",
        }
    }

    pub fn tint(self) -> Tint {
        match self {
            Contender::WatchfireMesh | Contender::WatchfireFromKubo => Tint::Fire,
            Contender::WatchfireFew | Contender::WatchfireStar => Tint::Plum,
            Contender::KuboMesh | Contender::KuboFromWatchfire => Tint::Water,
            Contender::KuboStar | Contender::KuboStarLarge => Tint::Grass,
            Contender::Http | Contender::Disk => Tint::Stone,
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Contender::WatchfireMesh => "Watchfire, everyone knows everyone",
            Contender::WatchfireFew => "Watchfire, everyone knows a few",
            Contender::WatchfireStar => "Watchfire, from the seeder alone",
            Contender::KuboMesh => "kubo 0.42, everyone knows everyone",
            Contender::KuboStar => "kubo 0.42, from the seeder alone",
            Contender::KuboStarLarge => "kubo 0.42, the same with blocks of 1 MiB",
            Contender::KuboFromWatchfire => "kubo 0.42 from Watchfire",
            Contender::WatchfireFromKubo => "Watchfire from kubo 0.42",
            Contender::Http => "nginx and curl",
            Contender::Disk => "dd, which only copies the file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubo_is_called_by_the_version_that_is_built() {
        let (major_minor, _) = crate::swarm::KUBO_VERSION.rsplit_once('.').unwrap();
        let named = format!("kubo {}", major_minor.trim_start_matches('v'));
        for contender in Contender::value_variants() {
            let called = contender.to_string();
            let is_kubo = contender.needs(Program::Kubo);
            assert_eq!(called.contains(&named), is_kubo, "{called} and {named}");
        }
    }
}
