//! A host: a node that pulls images one after another, with the programs between it and the registry.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cache::Cache;
use super::containerd::Engine;
use super::facts::NAME;
use super::mirror::Mirror;
use super::skopeo;
use crate::drivers::processes::host::{NodeError, Process, Site, Usage};
use crate::drivers::processes::program::contract::{
    Node, START_TIMEOUT, STOP_TIMEOUT, Status, Ticket, Totals, UsageByKind,
};

/// How long a host may take that pulls its images before the clock starts.
const PULL_TIMEOUT: Duration = Duration::from_secs(600);
/// The interval in which the bytes of content are counted after the first ones: an image can have hundreds of files.
const COUNT_INTERVAL: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(10);

/// The program between a host and the registry.
pub enum Between {
    Nothing,
    /// A mirror of its own.
    Mirror(Mirror),
    /// A cache that is at another host.
    OtherCache,
    /// The cache that all hosts share.
    OwnCache(Cache),
}

pub struct Host {
    pub site: Site,
    /// The server that it asks first.
    pub server: String,
    /// containerd; without it, skopeo pulls.
    pub engine: Option<Engine>,
    pub between: Between,
    pub wanted: Vec<Ticket>,
    pull: Option<Process>,
    /// Whether the image of `pull` is there, and is unpacked.
    is_unpacking: bool,
    /// Images that it has.
    pulled: usize,
    /// CPU time of the pulls that have ended, and the peak memory of all.
    pulls: Usage,
    counted: Option<(Instant, u64)>,
}

impl Host {
    pub fn new(
        site: &Site,
        server: String,
        engine: Option<Engine>,
        between: Between,
        wanted: &[Ticket],
    ) -> Self {
        Host {
            site: site.clone(),
            server,
            engine,
            between,
            wanted: wanted.to_vec(),
            pull: None,
            is_unpacking: false,
            pulled: 0,
            pulls: Usage::default(),
            counted: None,
        }
    }

    /// Pulls all images before the clock starts. Then it wants none any more.
    pub fn pull_before(mut self) -> Result<Self, NodeError> {
        let started_at = Instant::now();
        self.wait_until_ready(START_TIMEOUT)?;
        self.fetch(&[])?;
        while !self.poll()?.has_all || self.pull.is_some() {
            if started_at.elapsed() > PULL_TIMEOUT {
                let (program, seconds) = ("the pull".to_owned(), PULL_TIMEOUT.as_secs());
                return Err(NodeError::NotEnded { program, seconds, log: String::new() });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(self)
    }

    /// Starts to pull the next image.
    fn pull_next(&mut self) -> Result<(), NodeError> {
        let Some(ticket) = self.wanted.get(self.pulled) else { return Ok(()) };
        let repository = ticket.name.split_once('/').unwrap_or_default().1;
        let pull = match &self.engine {
            None => skopeo::pull(&self.site, &self.server, repository, self.pulled),
            Some(engine) => engine.pull(&self.site, repository),
        };
        self.pull = Some(pull?);
        self.is_unpacking = false;
        Ok(())
    }

    /// Looks how far the current pull is, and starts the next one after it.
    fn step(&mut self) -> Result<(), NodeError> {
        let Some(pull) = &mut self.pull else { return Ok(()) };
        // Ask first, so that all lines of an ended program are read.
        let ended = pull.has_ended()?;
        let is_wanted_packed = match &self.engine {
            None => false,
            Some(engine) => {
                self.is_unpacking |= Engine::is_unpacking(&pull.lines()?);
                self.is_unpacking && !engine.unpacks
            }
        };
        match ended {
            Some(status) if !status.success() => return Err(pull.ended_with(status)),
            None if is_wanted_packed => pull.kill(),
            None => return Ok(()),
            Some(_) => {}
        }
        self.pulls.add(pull.usage());
        (self.pull, self.is_unpacking) = (None, false);
        self.pulled += 1;
        self.pull_next()
    }

    /// Bytes of the images that it has or pulls.
    fn bytes(&mut self) -> u64 {
        let all: u64 = self.wanted.iter().map(|ticket| ticket.bytes).sum();
        if self.has_all() {
            return all;
        }
        let is_new = |(at, bytes): &(Instant, u64)| *bytes > 0 && at.elapsed() < COUNT_INTERVAL;
        if let Some((_, bytes)) = self.counted.filter(is_new) {
            return bytes;
        }
        let bytes = match &self.engine {
            Some(engine) => engine.bytes().min(all),
            None => {
                let whole = self.wanted.iter().take(self.pulled).map(|ticket| ticket.bytes);
                let next = self.wanted.get(self.pulled).map_or(0, |next| next.bytes);
                whole.sum::<u64>() + skopeo::bytes(&self.site, self.pulled).min(next)
            }
        };
        self.counted = Some((Instant::now(), bytes));
        bytes
    }

    fn has_all(&self) -> bool {
        self.pulled + usize::from(self.is_unpacking) >= self.wanted.len()
    }

    /// All programs that run as long as the host does.
    fn lasting(&mut self) -> impl Iterator<Item = &mut Process> {
        let between = match &mut self.between {
            Between::Mirror(mirror) => Some(&mut mirror.process),
            Between::OwnCache(cache) => Some(&mut cache.process),
            Between::Nothing | Between::OtherCache => None,
        };
        let engine = self.engine.as_mut().map(|engine| &mut engine.process);
        between.into_iter().chain(engine)
    }
}

impl Node for Host {
    fn wait_until_ready(&mut self, timeout: Duration) -> Result<(), NodeError> {
        self.engine.as_mut().map_or(Ok(()), |engine| engine.wait_until_ready(timeout))
    }

    fn fetch(&mut self, _: &[String]) -> Result<(), NodeError> {
        self.pull_next()
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        self.lasting().try_for_each(Process::check_running)?;
        self.step()?;
        Ok(Status { bytes: self.bytes(), has_all: self.has_all() })
    }

    fn has_unpacked(&self) -> Option<bool> {
        let unpacks = self.engine.as_ref().is_some_and(|engine| engine.unpacks);
        unpacks.then(|| self.pulled == self.wanted.len() && self.pull.is_none())
    }

    fn usage_by_kind(&mut self) -> UsageByKind {
        let mut client = self.pulls;
        self.pull.iter_mut().for_each(|pull| client.add(pull.usage()));
        if let Some(engine) = &mut self.engine {
            client.add(engine.process.usage());
        }
        let between = match &mut self.between {
            Between::Mirror(mirror) => Some(("mirror", mirror.process.usage())),
            Between::OwnCache(cache) => Some(("cache", cache.process.usage())),
            Between::Nothing | Between::OtherCache => None,
        };
        std::iter::once(("client", client)).chain(between).collect()
    }

    /// The CPU time of all its programs, and the sum of their peaks.
    fn usage(&mut self) -> Usage {
        self.usage_by_kind().into_iter().fold(Usage::default(), |sum, (_, part)| Usage {
            cpu: sum.cpu + part.cpu,
            peak_memory: sum.peak_memory + part.peak_memory,
        })
    }

    fn kill(&mut self) {
        self.pull.iter_mut().for_each(Process::kill);
        self.lasting().for_each(Process::kill);
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        self.pull.iter_mut().for_each(Process::kill);
        if let Some(engine) = &mut self.engine {
            engine.process.stop(Signal::TERM, STOP_TIMEOUT)?;
        }
        let own: u64 = self.wanted.iter().map(|ticket| ticket.bytes).sum();
        let totals = |sent: Option<u64>, from_hosts: u64| Totals {
            content_sent_bytes: sent,
            duplicate_bytes: Some(0),
            from_hosts_bytes: Some(from_hosts),
            ..Totals::default()
        };
        match &mut self.between {
            Between::Nothing => Ok(totals(Some(0), 0)),
            Between::OtherCache => Ok(totals(Some(0), own)),
            // The host pulls from its cache too.
            Between::OwnCache(cache) => {
                Ok(totals(cache.end()?.map(|bytes| bytes.saturating_sub(own)), 0))
            }
            Between::Mirror(mirror) => mirror.end(&self.site),
        }
    }
}

/// The name under which an engine pulls an image.
pub fn upstream(registry: &str) -> String {
    format!("{NAME}=http://{registry}")
}
