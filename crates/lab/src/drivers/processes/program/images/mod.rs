//! Container images: docker-registry at the nodes that have them. The others are hosts, which pull with skopeo or
//! containerd: straight from the registry, through a cache that all share, or each through a `watchfire mirror` of its
//! own.
//!
//! The first node with an image is its registry. Another node with the same image is a host that has pulled it before the
//! clock starts. Nodes find facts about each other in files of the folder that their folders are in: where the
//! registry of an image is, where the cache is, and the key of the fleet that the mirrors form.

mod cache;
mod containerd;
mod disk;
mod facts;
mod host;
mod mirror;
mod registry;
mod skopeo;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::content::Content;
use super::contract::{Node, Program, Started, Ticket};
use crate::drivers::driver::{check_settings, choice};
use crate::drivers::processes::host::{NodeError, Site};

use cache::{Cache, CacheKind};
use containerd::Engine;
use facts::{PORT, image_file, known_tickets, nodes_folder};
use host::{Between, Host, upstream};
use mirror::MirrorProgram;

/// The file with the address of the cache, in the folder of all nodes.
const CACHE: &str = ".cache.address";

/// Nodes that pull images, and their registry.
#[derive(Debug)]
pub struct Images {
    engine: Option<EngineSettings>,
    source: Source,
}

/// Hosts have containerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EngineSettings {
    unpacks: bool,
}

/// The server that hosts ask first.
#[derive(Debug)]
enum Source {
    Registry,
    Cache(CacheKind),
    Mirror(MirrorProgram),
}

type Settings = BTreeMap<String, String>;

impl Images {
    /// Hosts that pull straight from the registry, or through a cache.
    pub fn from_registry(settings: &Settings) -> Result<Self, String> {
        check_settings(settings.keys(), &["client", "unpack", "cache"])?;
        let source = match choice(settings, "cache", &["nginx", "registry"])? {
            None => Source::Registry,
            Some("nginx") => Source::Cache(CacheKind::Nginx),
            Some(_) => Source::Cache(CacheKind::Registry),
        };
        if let Source::Cache(kind) = &source {
            check_can_mount()?;
            check_installed(kind.program())?;
        }
        Ok(Images { engine: engine(settings)?, source })
    }

    /// Hosts that pull through a mirror each.
    pub fn through_mirrors(program: PathBuf, settings: &Settings) -> Result<Self, String> {
        check_settings(settings.keys(), &["client", "unpack", "fleet"])?;
        let has_fleet = is_true(settings, "fleet")?;
        let source = Source::Mirror(MirrorProgram { program, has_fleet });
        Ok(Images { engine: engine(settings)?, source })
    }

    /// A host with all its programs. `wanted` are the images that it will pull.
    fn host(&self, site: &Site, wanted: &[Ticket]) -> Result<Host, NodeError> {
        let registry = one_registry(wanted)?;
        let own = format!("{}:{PORT}", site.address);
        let (server, between) = match &self.source {
            Source::Registry => (registry.to_owned(), Between::Nothing),
            Source::Mirror(program) => {
                let mirror = program.start(site, &upstream(registry), self.engine.is_some())?;
                (mirror::address(site), Between::Mirror(mirror))
            }
            Source::Cache(kind) => {
                let file = nodes_folder(site).join(CACHE);
                match fs::read_to_string(&file) {
                    Ok(other) => (other, Between::OtherCache),
                    Err(_) => {
                        let cache = Cache::start(*kind, site, registry)?;
                        fs::write(&file, &own).map_err(NodeError::file(&file))?;
                        (own, Between::OwnCache(cache))
                    }
                }
            }
        };
        let engine = self
            .engine
            .map(|EngineSettings { unpacks }| Engine::start(site, registry, &server, unpacks));
        Ok(Host::new(site, server, engine.transpose()?, between, wanted))
    }
}

impl Program for Images {
    fn seed(&self, site: &Site, contents: &[Content]) -> Started {
        if let Some(known) = known_tickets(site, contents) {
            return Ok(Box::new(self.host(site, &known)?.pull_before()?));
        }
        let server = registry::start(site, contents)?;
        for (ticket, content) in server.tickets().iter().zip(contents) {
            let file = image_file(site, &content.name);
            fs::write(&file, &ticket.name).map_err(NodeError::file(&file))?;
        }
        Ok(Box::new(server))
    }

    fn prepare(&self, site: &Site, tickets: &[Ticket], _: &[Ticket]) -> Started {
        Ok(Box::new(self.host(site, tickets)?))
    }
}

/// The address of the registry that has all these images. A mirror can have several upstreams, but takes names without a
/// registry from the first only, and so does a cache.
fn one_registry(tickets: &[Ticket]) -> Result<&str, NodeError> {
    let first = tickets.first().and_then(|ticket| ticket.name.split_once('/'));
    let (first, _) = first.unwrap_or_default();
    let is_other = |ticket: &&Ticket| !ticket.name.starts_with(&format!("{first}/"));
    match tickets.iter().find(is_other) {
        None => Ok(first),
        Some(other) => {
            let problem = format!("{} is at another registry than {first}", other.name);
            Err(NodeError::unfit("pull all images of the host", problem))
        }
    }
}

/// The engine of hosts; `None` for skopeo.
fn engine(settings: &Settings) -> Result<Option<EngineSettings>, String> {
    if choice(settings, "client", &["skopeo", "containerd"])? != Some("containerd") {
        return match settings.contains_key("unpack") {
            true => Err("only client = \"containerd\" has the setting unpack".to_owned()),
            false => Ok(None),
        };
    }
    check_can_mount()?;
    check_installed("containerd")?;
    check_installed("ctr")?;
    Ok(Some(EngineSettings { unpacks: is_true(settings, "unpack")? }))
}

fn is_true(settings: &Settings, name: &str) -> Result<bool, String> {
    Ok(choice(settings, name, &["true", "false"])? != Some("false"))
}

/// containerd and caches have a disk of their own.
fn check_can_mount() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("cannot mount a disk for containerd or a cache: run as root".to_owned());
    }
    check_installed("unshare")
}

fn check_installed(program: &str) -> Result<(), String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    is_there
        .then_some(())
        .ok_or_else(|| format!("cannot run {program}: no folder of PATH has it; install it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(all: &[(&str, &str)]) -> Settings {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_mirror_is_a_part_of_a_fleet_unless_it_says_otherwise() {
        let new = |all: &[(&str, &str)]| {
            let images = Images::through_mirrors("watchfire".into(), &settings(all))?;
            match images.source {
                Source::Mirror(mirror) => Ok(mirror.has_fleet),
                other => Err(format!("{other:?}")),
            }
        };
        assert_eq!(new(&[("fleet", "false")]), Ok(false));
        assert_eq!(new(&[]), Ok(true));
        assert!(new(&[("fleet", "no")]).unwrap_err().contains("known: true, false"));
    }

    #[test]
    fn a_wrong_setting_names_those_that_are_known() {
        for (all, problem) in [
            ([("client", "docker")], "known: skopeo, containerd"),
            ([("cache", "squid")], "known: nginx, registry"),
            ([("unpack", "false")], "only client = \"containerd\""),
            ([("fleet", "true")], "unknown setting \"fleet\""),
        ] {
            let error = Images::from_registry(&settings(&all)).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = check_installed("no-such-program").unwrap_err();
        assert_eq!(error, "cannot run no-such-program: no folder of PATH has it; install it");
        assert_eq!(check_installed("sh"), Ok(()));
    }

    #[test]
    fn all_images_of_a_host_are_at_one_registry() {
        let ticket = |name: &str| Ticket { object: 0, name: name.to_owned(), bytes: 1 };
        let two = [ticket("a:5000/lab/image-0:latest"), ticket("a:5000/lab/image-1:latest")];
        assert_eq!(one_registry(&two).unwrap(), "a:5000");
        let error = one_registry(&[ticket("a:5000/x"), ticket("b:5000/y")]).unwrap_err();
        assert!(error.to_string().contains("b:5000/y is at another registry than a:5000"));
    }
}
