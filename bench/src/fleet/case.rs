//! One case: hosts pull an image through one system, measured until the last has unpacked it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::client::{Containerd, Pull};
use super::disk::Disk;
use super::host::{Host, use_reno};
use super::image::Image;
use super::links::Links;
use super::logged::Logged;
use super::mirror::{self, MirrorFiles, Watchfire};
use super::nginx;
use super::registry::{self, Served};
use super::system::{Source, System};
use super::testbed::{Node, Rates, Testbed};
use crate::process::Watched;
use crate::progress::Progress;
use crate::scale::kernel::softirq_daemons;
use watchfire_lab::MemoryFiller;
use watchfire_lab::machine::load_average;

const PAUSE: Duration = Duration::from_millis(10);
/// Bytes that a host writes for each byte of an image: fetched, unpacked, and in its mirror.
const FETCHED_AND_UNPACKED: f64 = 2.25;
const MIRRORED: f64 = 1.0;
/// Bytes that a host writes beside them for each layer: rounded up files, folders and metadata.
const FILES_BYTES: u64 = 256 << 10;

/// A system with an image and a number of hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub system: System,
    pub image: Image,
    pub hosts: usize,
    /// `None`: no rate limit.
    pub links: Option<Links>,
    /// Whether the first host has the image already, and is not measured. The registry of
    /// [`System::Registry`] is on that host.
    pub is_warm: bool,
}

/// The programs and folders of a run.
pub struct Workspace {
    pub watchfire: Watchfire,
    pub registry: PathBuf,
    /// Where the disk of the current case is mounted.
    pub folder: PathBuf,
    pub failed: PathBuf,
    pub memory_filler: MemoryFiller,
}

/// The measured values of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Seconds until each host had fetched the image, ascending.
    pub fetched: Vec<f64>,
    /// Seconds until each host had also unpacked it, ascending.
    pub complete: Vec<f64>,
    /// CPU-seconds from the start until the last host had unpacked the image.
    pub mirrors_cpu: f64,
    /// containerd and `ctr` of the measured hosts.
    pub clients_cpu: f64,
    /// The registry and the shared cache.
    pub servers_cpu: f64,
    /// Kernel threads for network work.
    pub kernel_cpu: f64,
    /// Bytes of bodies that the registry sent.
    pub upstream_bytes: u64,
    /// Bytes that left the registry's link, including headers.
    pub upstream_wire_bytes: u64,
    /// Bytes that hosts sent to each other, including headers and acknowledgements.
    pub between_hosts_bytes: u64,
    /// Bytes of blobs that hosts got twice from other hosts.
    pub duplicate_bytes: u64,
    /// Peak memory of the mirror with the highest peak; of the shared cache if there is one.
    pub mirror_peak: u64,
    /// The same of containerd.
    pub client_peak: u64,
    /// The load average of the machine before the case.
    pub load_before: f64,
}

impl Outcome {
    pub fn last_fetched(&self) -> f64 {
        self.fetched.last().copied().unwrap_or(f64::NAN)
    }

    pub fn last_complete(&self) -> f64 {
        self.complete.last().copied().unwrap_or(f64::NAN)
    }
}

impl Case {
    pub fn measured_hosts(&self) -> usize {
        if self.is_warm { self.hosts - 1 } else { self.hosts }
    }

    /// The least time in which all measured hosts can have the image; `None` without rates.
    pub fn bound_seconds(&self) -> Option<f64> {
        Some(self.links?.bound_seconds(self.image.bytes(), self.measured_hosts()))
    }

    pub fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<Outcome> {
        progress.show(&format!("{self}: preparing its disk"));
        let _disk = Disk::mount(&workspace.folder, self.written_bytes())?;
        let outcome = self.run_in(workspace, progress);
        if outcome.is_err() {
            self.keep_logs(workspace)?;
        }
        outcome
    }

    fn keep_logs(&self, workspace: &Workspace) -> Result<()> {
        let name = format!("{}-{}-{}", self.system.key(), self.image.tag(), self.hosts);
        let kept = workspace.failed.join(name);
        clear(&kept)?;
        for folder in fs::read_dir(&workspace.folder)? {
            let folder = folder?.path();
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let files = if folder.is_dir() { fs::read_dir(&folder)?.collect() } else { Vec::new() };
            for file in files {
                let path = file?.path();
                let is_log = path.extension().is_some_and(|end| end == "out" || end == "err");
                if let (true, Some(file)) = (is_log, path.file_name()) {
                    fs::copy(&path, kept.join(format!("{name}-{}", file.to_string_lossy())))?;
                }
            }
        }
        Ok(())
    }

    /// The most bytes that all hosts write.
    fn written_bytes(&self) -> u64 {
        let has_mirror = self.system.source() == Source::OwnMirror;
        let each = FETCHED_AND_UNPACKED + if has_mirror { MIRRORED } else { 0.0 };
        let files = FILES_BYTES * self.image.layers().len() as u64;
        let images = self.hosts as f64 * each + MIRRORED;
        (images * self.image.bytes() as f64) as u64 + self.hosts as u64 * files
    }

    fn run_in(&self, workspace: &Workspace, progress: &Progress) -> Result<Outcome> {
        progress.show(&format!("{self}: starting"));
        let load_before = load_average();
        let unlimited = || vec![Rates::default(); self.hosts + 1];
        let rates = self.links.map_or_else(unlimited, |links| links.rates(self.hosts));
        let testbed = Testbed::with_links(&rates)?;
        testbed.hosts().iter().chain([testbed.registry()]).try_for_each(use_reno)?;
        let hosts: Vec<Host<'_>> = testbed
            .hosts()
            .iter()
            .enumerate()
            .map(|(index, node)| Host::create(node, workspace.folder.join(format!("host-{index}"))))
            .collect::<Result<_>>()?;
        let servers = self.start_servers(workspace, testbed.registry(), &hosts)?;
        let engines = self.start_engines(&servers, &hosts)?;
        let unmeasured = self.hosts - self.measured_hosts();
        let timeout = self.timeout();
        if self.is_warm {
            progress.show(&format!("{self}: the first host pulls"));
            let mut pull = engines[0].pull(&hosts[0], self.image)?;
            let started_at = Instant::now();
            while pull.complete.is_none() {
                pull.poll(started_at.elapsed())?;
                ensure!(started_at.elapsed() < timeout, "the first host does not get the image");
                thread::sleep(PAUSE);
            }
        }
        let (engines, hosts) = (&engines[unmeasured..], &hosts[unmeasured..]);

        progress.show(&format!("{self}: filling the memory"));
        read_all(&workspace.registry)?;
        let _release = workspace.memory_filler.fill()?;
        let daemons = softirq_daemons()?;
        let counters = || Counters::read(&servers, engines, &daemons, &testbed);
        let before = counters()?;
        let started_at = Instant::now();
        let pulls = hosts.iter().zip(engines).map(|(host, engine)| engine.pull(host, self.image));
        let mut pulls: Vec<Pull> = pulls.collect::<Result<_>>()?;
        let mut shown_at = started_at;
        loop {
            for (index, pull) in pulls.iter_mut().enumerate() {
                let polled = pull.poll(started_at.elapsed());
                polled.with_context(|| format!("host {}", index + unmeasured))?;
            }
            let fetched = pulls.iter().filter(|pull| pull.fetched.is_some()).count();
            let complete = pulls.iter().filter(|pull| pull.complete.is_some()).count();
            if complete == pulls.len() {
                break;
            }
            ensure!(
                started_at.elapsed() < timeout,
                "{complete} of {} had the image after {} s",
                pulls.len(),
                timeout.as_secs()
            );
            let step = format!("{self}: {fetched} fetched, {complete} unpacked");
            progress.show_long(&step, &mut shown_at);
            thread::sleep(PAUSE);
        }
        let after = counters()?;
        let ctr_cpu: Duration = pulls.iter().map(|pull| pull.cpu).sum();
        let peak = |watched: &mut dyn Iterator<Item = Watched>| -> Result<u64> {
            Ok(watched
                .map(Watched::peak_bytes)
                .collect::<io::Result<Vec<_>>>()?
                .into_iter()
                .max()
                .unwrap_or(0))
        };
        let mirror_peak = peak(
            &mut servers
                .mirrors
                .iter()
                .map(Logged::watched)
                .chain(servers.cache.iter().map(Served::watched)),
        )?;
        let client_peak = peak(&mut engines.iter().map(Containerd::watched))?;
        let duplicate_bytes = match self.system {
            System::Fleet => {
                let of = |host: &Host<'_>| workspace.watchfire.duplicate_bytes(host.node);
                hosts.iter().map(of).sum::<Result<u64>>()?
            }
            _ => 0,
        };
        let times = |at: fn(&Pull) -> Option<Duration>| {
            let mut seconds: Vec<f64> =
                pulls.iter().filter_map(at).map(|at| at.as_secs_f64()).collect();
            seconds.sort_by(f64::total_cmp);
            seconds
        };
        let (fetched, complete) = (times(|pull| pull.fetched), times(|pull| pull.complete));
        let used = after.since(before);
        Ok(Outcome {
            fetched,
            complete,
            mirrors_cpu: used.mirrors.as_secs_f64(),
            clients_cpu: (used.engines + ctr_cpu).as_secs_f64(),
            servers_cpu: used.servers.as_secs_f64(),
            kernel_cpu: used.kernel.as_secs_f64(),
            upstream_bytes: used.upstream_bytes,
            upstream_wire_bytes: used.upstream_wire_bytes,
            between_hosts_bytes: used.between_hosts_bytes,
            duplicate_bytes,
            mirror_peak,
            client_peak,
            load_before,
        })
    }

    /// The time after which a case has failed: much longer than the registry needs for all copies.
    fn timeout(&self) -> Duration {
        let seconds = |links: Links| links.registry_seconds(self.image.bytes(), self.hosts);
        Duration::from_secs_f64(1.3 * self.links.map_or(0.0, seconds)) + SLACK
    }

    fn start_servers(
        &self,
        workspace: &Workspace,
        upstream: &Node,
        hosts: &[Host<'_>],
    ) -> Result<Servers> {
        let stem = |name: &str| workspace.folder.join(name);
        let is_at_host = self.is_warm && self.system == System::Registry;
        let node = if is_at_host { hosts[0].node } else { upstream };
        clear(&stem("upstream"))?;
        let registry =
            registry::start(node, &workspace.registry, &stem("upstream/registry"), None)?;
        let first = &hosts[0];
        let (root, stem) = (first.on_disk("cache"), first.folder.join("cache"));
        let mut servers = Servers { registry, cache: None, mirrors: Vec::new() };
        let address = servers.registry.address;
        match self.system {
            System::Registry => {}
            System::NginxCache => {
                servers.cache = Some(nginx::start(first, &stem, address)?);
            }
            System::RegistryCache => {
                let url = servers.registry.url();
                servers.cache = Some(registry::start(first.node, &root, &stem, Some(&url))?);
            }
            System::Mirror | System::Fleet => {
                let key = workspace.folder.join("fleet.key");
                if self.system == System::Fleet {
                    workspace.watchfire.write_key(&key)?;
                }
                for (index, host) in hosts.iter().enumerate() {
                    let (store, stem) = (host.on_disk("mirror"), host.folder.join("mirror"));
                    let files = MirrorFiles { store: &store, key: &key, stem: &stem };
                    let joined = (index > 0).then_some(first.node);
                    let program = &workspace.watchfire;
                    let mirror = program.mirror(self.system, host.node, joined, &files, address)?;
                    servers.mirrors.push(mirror);
                }
                servers.mirrors.iter_mut().try_for_each(mirror::wait_until_ready)?;
            }
        }
        Ok(servers)
    }

    fn start_engines(&self, servers: &Servers, hosts: &[Host<'_>]) -> Result<Vec<Containerd>> {
        let mirror = match self.system.source() {
            Source::Registry => None,
            Source::SharedCache => servers.cache.as_ref().map(Served::url),
            Source::OwnMirror => Some(format!("http://127.0.0.1:{}", registry::PORT)),
        };
        let upstream = servers.registry.url();
        let engines =
            hosts.iter().map(|host| Containerd::start(host, &upstream, mirror.as_deref()));
        let mut engines: Vec<Containerd> = engines.collect::<Result<_>>()?;
        engines.iter_mut().try_for_each(Containerd::wait_until_ready)?;
        Ok(engines)
    }
}

/// Added to the expected time of a case, for the work of the processors.
const SLACK: Duration = Duration::from_secs(600);

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = self.image.bytes() as f64 / f64::from(1 << 20);
        let layers = self.image.layers().len();
        write!(f, "{}, {mib:.0} MiB in {layers} layers, {} hosts", self.system, self.hosts)?;
        match self.links {
            None => Ok(()),
            Some(links) => write!(f, ", {} and {} Mbit/s", links.upstream_mbit, links.host_mbit),
        }
    }
}

struct Servers {
    registry: Served,
    cache: Option<Served>,
    mirrors: Vec<Logged>,
}

/// Totals at a moment; the difference between two is that of a case.
#[derive(Clone, Copy, Default)]
struct Counters {
    mirrors: Duration,
    engines: Duration,
    servers: Duration,
    kernel: Duration,
    upstream_bytes: u64,
    upstream_wire_bytes: u64,
    between_hosts_bytes: u64,
}

impl Counters {
    fn read(
        servers: &Servers,
        engines: &[Containerd],
        daemons: &[u32],
        testbed: &Testbed,
    ) -> Result<Self> {
        let cpu = |watched: &mut dyn Iterator<Item = Watched>| -> io::Result<Duration> {
            watched.map(Watched::cpu_with_children).sum()
        };
        let upstream = testbed.registry();
        let wire = |bytes: Option<u64>| bytes.context("the nodes share a device");
        let hosts = testbed.hosts().iter();
        let hosts_sent: u64 = hosts.map(|node| wire(node.sent_on_wire()?)).sum::<Result<u64>>()?;
        // The registry's link receives without a limit, so it gets all that hosts send to it.
        let to_upstream = wire(upstream.received_on_wire()?)?;
        Ok(Counters {
            mirrors: cpu(&mut servers.mirrors.iter().map(Logged::watched))?,
            engines: cpu(&mut engines.iter().map(Containerd::watched))?,
            servers: cpu(&mut servers
                .cache
                .iter()
                .chain([&servers.registry])
                .map(Served::watched))?,
            kernel: daemons.iter().map(|id| Watched::new(*id).cpu()).sum::<io::Result<_>>()?,
            upstream_bytes: registry::sent_bytes(&servers.registry)?,
            upstream_wire_bytes: wire(upstream.sent_on_wire()?)?,
            between_hosts_bytes: hosts_sent.saturating_sub(to_upstream),
        })
    }

    fn since(self, before: Counters) -> Counters {
        Counters {
            mirrors: self.mirrors.saturating_sub(before.mirrors),
            engines: self.engines.saturating_sub(before.engines),
            servers: self.servers.saturating_sub(before.servers),
            kernel: self.kernel.saturating_sub(before.kernel),
            upstream_bytes: self.upstream_bytes - before.upstream_bytes,
            upstream_wire_bytes: self.upstream_wire_bytes - before.upstream_wire_bytes,
            between_hosts_bytes: self
                .between_hosts_bytes
                .saturating_sub(before.between_hosts_bytes),
        }
    }
}

/// Create a folder, or remove its content.
pub fn clear(folder: &Path) -> Result<()> {
    let name = || format!("cannot clear {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(name)?;
    }
    fs::create_dir_all(folder).with_context(name)
}

/// Read all files below a folder, so that the registry sends them from memory.
fn read_all(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path)?;
        } else {
            io::copy(&mut File::open(&path)?, &mut io::sink())?;
        }
    }
    Ok(())
}
