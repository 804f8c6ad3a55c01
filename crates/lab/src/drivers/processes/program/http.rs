//! Plain HTTP: nginx at the nodes that have content, curl at the others.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use super::content::Content;
use super::content_server::ContentServer;
use super::contract::{Node, Program, Started, Status, Ticket, Totals, wait_until_listening};
use crate::drivers::driver::check_settings;
use crate::drivers::processes::host::{NodeError, Process, Site};

const PORT: u16 = 8080;

pub struct Http;

impl Http {
    pub fn new(settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &[])?;
        Ok(Http)
    }
}

impl Program for Http {
    fn seed(&self, site: &Site, contents: &[Content]) -> Started {
        let root = site.folder.join("html");
        fs::create_dir_all(&root).map_err(NodeError::file(&root))?;
        let listen = format!("{}:{PORT}", site.address);
        let mut tickets = Vec::new();
        for (object, content) in contents.iter().enumerate() {
            if content.path.is_dir() {
                let task = format!("share {} over HTTP", content.name);
                return Err(NodeError::unfit(task, "it is a folder, and curl fetches only files"));
            }
            let file = root.join(object.to_string());
            symlink(&content.path, &file).map_err(NodeError::file(&file))?;
            let name = format!("http://{listen}/{object}");
            tickets.push(Ticket { object, name, bytes: content.bytes });
        }
        let file = site.folder.join("nginx.conf");
        fs::write(&file, configuration(&listen)).map_err(NodeError::file(&file))?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&site.folder).args(["-c", "nginx.conf", "-e", "error.log"]);
        let mut process = Process::start(site, command, "nginx")?;
        wait_until_listening(&mut process, site, PORT)?;
        let log = site.folder.join("access.log");
        Ok(Box::new(ContentServer { tickets, process, stop: Signal::QUIT, log, sent_bytes }))
    }

    fn prepare(&self, site: &Site, tickets: &[Ticket], _: &[Ticket]) -> Started {
        let copies = tickets.iter().enumerate();
        let copies = copies
            .map(|(number, ticket)| (ticket.clone(), site.folder.join(format!("copy-{number}"))));
        Ok(Box::new(Client { site: site.clone(), copies: copies.collect(), process: None }))
    }
}

/// A configuration without compression, and with a log of the length of each response. One process is
/// enough, because the kernel sends the file.
fn configuration(listen: &str) -> String {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("  {name}_temp_path temp_{name};\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{ worker_connections 1024; }}\n\
         http {{\n{folders}  log_format sent \"$body_bytes_sent\";\n  access_log access.log sent;\n  \
         sendfile on;\n  tcp_nopush on;\n  server {{ listen {listen}; root html; }}\n}}\n"
    )
}

/// The bytes of all bodies that nginx sent, from a log with the length of each.
pub fn sent_bytes(log: &str) -> Option<u64> {
    log.lines().map(|line| line.parse::<u64>().ok()).sum()
}

/// curl, which fetches one object after another.
struct Client {
    site: Site,
    copies: Vec<(Ticket, PathBuf)>,
    process: Option<Process>,
}

impl Node for Client {
    fn fetch(&mut self, _: &[String]) -> Result<(), NodeError> {
        let mut command = Command::new("curl");
        command.args(["--fail", "--silent", "--show-error", "--noproxy", "*"]);
        for (ticket, copy) in &self.copies {
            command.arg("--output").arg(copy).arg(&ticket.name);
        }
        self.process = Some(Process::start(&self.site, command, "curl")?);
        Ok(())
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        let Some(process) = &mut self.process else { return Ok(Status::default()) };
        let ended = process.has_ended()?;
        if let Some(status) = ended.filter(|status| !status.success()) {
            return Err(process.ended_with(status));
        }
        let length = |copy: &PathBuf| fs::metadata(copy).map_or(0, |metadata| metadata.len());
        let bytes = self.copies.iter().map(|(_, copy)| length(copy)).sum();
        let expected: u64 = self.copies.iter().map(|(ticket, _)| ticket.bytes).sum();
        if ended.is_some() && bytes != expected {
            let problem = format!("{bytes} bytes arrived, {expected} were expected");
            return Err(NodeError::Unexpected { program: "curl".to_owned(), problem });
        }
        Ok(Status { bytes, has_all: ended.is_some() })
    }

    fn main_process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        self.kill();
        Ok(Totals { content_sent_bytes: Some(0), duplicate_bytes: Some(0), ..Totals::default() })
    }
}
