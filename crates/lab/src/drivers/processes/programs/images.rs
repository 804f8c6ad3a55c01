//! Container images: docker-registry at the nodes that have them, and skopeo at the others, which pull straight from the
//! registry, or each through a `watchfire mirror` of its own.
//!
//! The mirrors of a run form one fleet, unless the peer says otherwise. The first mirror that is prepared writes the
//! key of the fleet and its own address into the folder of the run, where the others find both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::{
    Content, Node, NodeError, Program, START_TIMEOUT, STOP_TIMEOUT, Site, Status, Ticket, Totals,
    Usage, check_settings,
};
use crate::drivers::processes::process::{Process, run_to_end};

const PORT: u16 = 5000;
const FLEET_PORT: u16 = 5001;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);
/// How long storing one image in a registry may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(600);
/// The file with the key of the fleet, and the one with the address that mirrors join, in the folder of the run.
const KEY: &str = ".fleet.key";
const JOINED: &str = ".fleet.address";

/// Nodes that pull straight from the registry.
pub struct Registry;

/// Nodes that pull through a mirror each.
pub struct Mirror {
    program: PathBuf,
    has_fleet: bool,
}

impl Registry {
    pub fn new(settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &[])?;
        Ok(Registry)
    }
}

impl Mirror {
    pub fn new(program: PathBuf, settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &["fleet"])?;
        let has_fleet = match settings.get("fleet").map(String::as_str) {
            None | Some("true") => true,
            Some("false") => false,
            Some(other) => return Err(format!("unknown fleet {other:?}; known: true, false")),
        };
        Ok(Mirror { program, has_fleet })
    }

    /// Starts the mirror of a node for a registry.
    fn start(&self, site: &Site, registry: &str) -> Result<Process, NodeError> {
        let at = site.address;
        let mut command = Command::new(&self.program);
        command.args(["mirror", "--upstream", &format!("http://{registry}")]);
        command.args(["--listen", &format!("{at}:{PORT}")]);
        command.arg("--store").arg(site.folder.join("store"));
        if self.has_fleet {
            let run = site.folder.parent().unwrap_or(&site.folder);
            let (key, joined) = (run.join(KEY), run.join(JOINED));
            let own = format!("{at}:{FLEET_PORT}");
            command.args(["--peer-listen", &own, "--fleet-key"]).arg(&key);
            match fs::read_to_string(&joined) {
                Ok(other) => drop(command.args(["--join", &other])),
                Err(_) => {
                    let text = run_to_end(Command::new(&self.program).args(["mirror", "key"]))?;
                    fs::write(&key, text).map_err(NodeError::file(&key))?;
                    fs::write(&joined, &own).map_err(NodeError::file(&joined))?;
                }
            }
        }
        let mut process = Process::start(site, command, "mirror")?;
        process.wait_until(START_TIMEOUT, |process| {
            let is_ready = process.lines()?.iter().any(|line| line.contains("Mirroring on"));
            Ok(is_ready.then_some(()))
        })?;
        Ok(process)
    }
}

impl Program for Registry {
    fn seed(&self, site: &Site, contents: &[Content]) -> Result<Box<dyn Node>, NodeError> {
        Ok(Box::new(Server::start(site, contents)?))
    }

    fn store(&self, _: &Site, _: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        Err(neither())
    }

    fn prepare(
        &self,
        site: &Site,
        tickets: &[Ticket],
        _: &[Ticket],
    ) -> Result<Box<dyn Node>, NodeError> {
        Ok(Box::new(Client::new(site, tickets, None)))
    }
}

impl Program for Mirror {
    fn seed(&self, site: &Site, contents: &[Content]) -> Result<Box<dyn Node>, NodeError> {
        Registry.seed(site, contents)
    }

    fn store(&self, _: &Site, _: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        Err(neither())
    }

    fn prepare(
        &self,
        site: &Site,
        tickets: &[Ticket],
        _: &[Ticket],
    ) -> Result<Box<dyn Node>, NodeError> {
        // One mirror can have several upstreams, but it takes names without a registry from the first only.
        let registry = tickets.first().and_then(|ticket| ticket.name.split_once('/'));
        let (registry, _) = registry.unwrap_or_default();
        let is_other = |ticket: &&Ticket| !ticket.name.starts_with(&format!("{registry}/"));
        if let Some(other) = tickets.iter().find(is_other) {
            let problem = format!("{} is at another registry than {registry}", other.name);
            return Err(NodeError::Unexpected { program: "the mirror".to_owned(), problem });
        }
        let mirror = self.start(site, registry)?;
        Ok(Box::new(Client::new(site, tickets, Some(mirror))))
    }
}

fn neither() -> NodeError {
    let problem = "a node with a registry does not pull, and one that pulls has no image before";
    NodeError::Unexpected { program: "docker-registry".to_owned(), problem: problem.to_owned() }
}

/// docker-registry with images.
struct Server {
    tickets: Vec<Ticket>,
    process: Process,
    log: PathBuf,
}

impl Server {
    fn start(site: &Site, contents: &[Content]) -> Result<Server, NodeError> {
        let listen = format!("{}:{PORT}", site.address);
        let file = site.folder.join("registry.yml");
        let text = configuration(&site.folder.join("images"), &listen);
        fs::write(&file, text).map_err(NodeError::file(&file))?;
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file);
        let mut process = Process::start(site, command, "registry")?;
        // docker-registry does not say when it is ready.
        process.wait_until(START_TIMEOUT, |_| {
            Ok(site.connect(PORT, CONNECT_TIMEOUT).ok().map(|_| ()))
        })?;
        let mut tickets = Vec::new();
        for (object, content) in contents.iter().enumerate() {
            let name = format!("{listen}/lab/image-{object}:latest");
            let mut push = skopeo();
            push.args(["--dest-tls-verify=false", &format!("oci:{}", layout(content)?.display())]);
            push.arg(format!("docker://{name}"));
            let mut push = Process::start(site, push, "push")?;
            let status = push.end(PUSH_TIMEOUT)?;
            if !status.success() {
                return Err(push.ended_with(status));
            }
            tickets.push(Ticket { object, name, bytes: content.bytes });
        }
        Ok(Server { tickets, process, log: site.folder.join("registry.log") })
    }
}

/// The layout of an image, of which the content is the folder of its blobs.
fn layout(content: &Content) -> Result<&Path, NodeError> {
    let layout = content.path.parent().filter(|layout| layout.join("oci-layout").is_file());
    layout.ok_or_else(|| NodeError::Unexpected {
        program: "docker-registry".to_owned(),
        problem: format!("{} is not an image: write {{ image = \"...\" }}", content.name),
    })
}

/// `skopeo copy`, before its options and its two images.
fn skopeo() -> Command {
    let mut command = Command::new("skopeo");
    command.args(["--insecure-policy", "copy", "--quiet", "--preserve-digests"]);
    command
}

fn configuration(root: &Path, listen: &str) -> String {
    format!(
        "version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\nstorage:\n  filesystem: \
         {{rootdirectory: {root:?}}}\n  maintenance: {{uploadpurging: {{enabled: false}}}}\nhttp: {{addr: \
         \"{listen}\"}}\n"
    )
}

/// Bytes of all bodies that a registry sent to clients that pulled, from its log.
fn sent_bytes(log: &str) -> Option<u64> {
    let answers = log.lines().filter(|line| line.contains("\"response completed"));
    let mut pulled = answers.filter(|line| line.contains("http.request.method=GET"));
    pulled.try_fold(0, |sum, line| {
        let rest = line.split("http.response.written=").nth(1)?;
        let bytes = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(sum + bytes.parse::<u64>().ok()?)
    })
}

impl Node for Server {
    fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        self.process.check_running()?;
        Ok(Status { bytes: 0, has_all: true })
    }

    fn usage(&mut self) -> Usage {
        self.process.usage()
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        self.process.stop(Signal::TERM, STOP_TIMEOUT)?;
        let log = fs::read_to_string(&self.log).map_err(NodeError::file(&self.log))?;
        Ok(Totals { content_sent_bytes: sent_bytes(&log), ..Totals::default() })
    }
}

/// skopeo, which pulls one image after another, and the mirror through which it pulls.
struct Client {
    site: Site,
    wanted: Vec<Ticket>,
    /// Images that it has.
    pulled: usize,
    pull: Option<Process>,
    /// CPU time of the pulls that have ended.
    pulled_cpu: Duration,
    mirror: Option<Process>,
    peak_memory: u64,
}

impl Client {
    fn new(site: &Site, wanted: &[Ticket], mirror: Option<Process>) -> Self {
        Client {
            site: site.clone(),
            wanted: wanted.to_vec(),
            pulled: 0,
            pull: None,
            pulled_cpu: Duration::ZERO,
            mirror,
            peak_memory: 0,
        }
    }

    fn copy(&self, number: usize) -> PathBuf {
        self.site.folder.join(format!("copy-{number}"))
    }

    /// Starts to pull the next image.
    fn pull_next(&mut self) -> Result<(), NodeError> {
        let Some(ticket) = self.wanted.get(self.pulled) else { return Ok(()) };
        let own = format!("{}:{PORT}", self.site.address);
        let name = match (&self.mirror, ticket.name.split_once('/')) {
            (Some(_), Some((_, repository))) => format!("{own}/{repository}"),
            _ => ticket.name.clone(),
        };
        let mut command = skopeo();
        command.args(["--src-tls-verify=false", &format!("docker://{name}")]);
        command.arg(format!("dir:{}", self.copy(self.pulled).display()));
        self.pull = Some(Process::start(&self.site, command, "pull")?);
        Ok(())
    }

    /// Bytes of the image that it pulls now.
    fn bytes(&self) -> u64 {
        let files = fs::read_dir(self.copy(self.pulled)).into_iter().flatten();
        files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
    }
}

impl Node for Client {
    fn fetch(&mut self, _: &[String]) -> Result<(), NodeError> {
        self.pull_next()
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        if let Some(mirror) = &mut self.mirror {
            mirror.check_running()?;
        }
        if let Some(pull) = &mut self.pull
            && let Some(status) = pull.has_ended()?
        {
            if !status.success() {
                return Err(pull.ended_with(status));
            }
            let usage = pull.usage();
            self.pulled_cpu += usage.cpu;
            self.peak_memory = self.peak_memory.max(usage.peak_memory);
            self.pull = None;
            self.pulled += 1;
            self.pull_next()?;
        }
        let of_whole: u64 = self.wanted.iter().take(self.pulled).map(|ticket| ticket.bytes).sum();
        let of_next = self.wanted.get(self.pulled).map_or(0, |next| self.bytes().min(next.bytes));
        Ok(Status { bytes: of_whole + of_next, has_all: self.pulled == self.wanted.len() })
    }

    /// The CPU time of the mirror and of skopeo, and the peak memory of the mirror, where there is one.
    fn usage(&mut self) -> Usage {
        let mut cpu = self.pulled_cpu;
        if let Some(pull) = &mut self.pull {
            let usage = pull.usage();
            cpu += usage.cpu;
            self.peak_memory = self.peak_memory.max(usage.peak_memory);
        }
        let Some(mirror) = &mut self.mirror else {
            return Usage { cpu, peak_memory: self.peak_memory };
        };
        let usage = mirror.usage();
        Usage { cpu: cpu + usage.cpu, ..usage }
    }

    fn kill(&mut self) {
        self.pull.iter_mut().chain(&mut self.mirror).for_each(Process::kill);
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        if let Some(pull) = &mut self.pull {
            pull.kill();
        }
        let Some(mirror) = &mut self.mirror else {
            return Ok(Totals {
                content_sent_bytes: Some(0),
                duplicate_bytes: Some(0),
                ..Totals::default()
            });
        };
        // The content between mirrors is not read: the registry's bytes say how often content left it.
        mirror.stop(Signal::TERM, STOP_TIMEOUT)?;
        Ok(Totals::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pulls_count_as_sent() {
        let line = |method: &str, bytes: u64| {
            format!(
                "time=\"x\" level=info msg=\"response completed\" http.request.method={method} \
                 http.response.status=200 http.response.written={bytes}\n"
            )
        };
        let log = line("GET", 1000)
            + &line("PUT", 7)
            + "level=info msg=\"listening\"\n"
            + &line("GET", 5);
        assert_eq!(sent_bytes(&log), Some(1005));
        assert_eq!(sent_bytes("msg=\"response completed\" http.request.method=GET\n"), None);
    }

    #[test]
    fn a_mirror_is_a_part_of_a_fleet_unless_it_says_otherwise() {
        let new = |value: &str| {
            let settings = [("fleet".to_owned(), value.to_owned())].into();
            Mirror::new("watchfire".into(), &settings).map(|mirror| mirror.has_fleet)
        };
        assert_eq!(new("false"), Ok(false));
        assert!(Mirror::new("watchfire".into(), &BTreeMap::new()).unwrap().has_fleet);
        assert!(new("no").unwrap_err().contains("known: true, false"));
    }
}
