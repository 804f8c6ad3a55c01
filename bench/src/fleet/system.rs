use std::fmt;

use clap::ValueEnum;
use watchfire_report::Colour;

/// A way in which images reach the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum System {
    /// `watchfire mirror` on each host; the mirrors share blobs with each other.
    Fleet,
    /// Each host pulls straight from the registry.
    Registry,
    /// nginx with `proxy_cache` on the first host.
    NginxCache,
    /// docker-registry as a pull-through cache on the first host.
    RegistryCache,
    /// `watchfire mirror` on each host, without the others.
    Mirror,
}

/// The server that the container engine of a host asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The registry itself.
    Registry,
    /// One program on the first host.
    SharedCache,
    /// A mirror on the same host.
    OwnMirror,
}

impl System {
    pub fn source(self) -> Source {
        match self {
            System::Registry => Source::Registry,
            System::NginxCache | System::RegistryCache => Source::SharedCache,
            System::Mirror | System::Fleet => Source::OwnMirror,
        }
    }

    /// Its name on the command line and in file names.
    pub fn key(self) -> String {
        let value = self.to_possible_value().expect("no system is hidden");
        value.get_name().to_owned()
    }

    /// A short name for charts.
    pub fn short_name(self) -> &'static str {
        match self {
            System::Fleet => "Watchfire",
            System::Registry => "registry",
            System::NginxCache => "nginx cache",
            System::RegistryCache => "registry cache",
            System::Mirror => "Watchfire, alone",
        }
    }

    pub fn colour(self) -> Colour {
        match self {
            System::Fleet => Colour::Orange,
            System::Registry => Colour::Grey,
            System::NginxCache => Colour::Green,
            System::RegistryCache => Colour::Blue,
            System::Mirror => Colour::Purple,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            System::Fleet => "Watchfire, a fleet of mirrors",
            System::Registry => "straight from the registry",
            System::NginxCache => "nginx proxy_cache on one host",
            System::RegistryCache => "docker-registry cache on one host",
            System::Mirror => "Watchfire, each mirror alone",
        })
    }
}
