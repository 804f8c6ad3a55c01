//! A cache that all hosts of a run share: it is at the first host that is prepared, behind the link of that host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::disk::Disk;
use super::facts::PORT;
use super::registry;
use crate::drivers::processes::host::{NodeError, Process, Site};
use crate::drivers::processes::program::contract::{STOP_TIMEOUT, wait_until_listening};
use crate::drivers::processes::program::http;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// nginx with `proxy_cache`.
    Nginx,
    /// docker-registry as a pull-through cache.
    Registry,
}

impl CacheKind {
    pub const fn program(self) -> &'static str {
        match self {
            CacheKind::Nginx => "nginx",
            CacheKind::Registry => "docker-registry",
        }
    }
}

/// A running cache.
pub struct Cache {
    pub process: Process,
    kind: CacheKind,
    /// The file that tells the length of each response.
    log: PathBuf,
}

impl Cache {
    /// Starts the cache of a registry at a node.
    pub fn start(kind: CacheKind, site: &Site, registry: &str) -> Result<Cache, NodeError> {
        let disk = Disk::new(site, "cache").map_err(NodeError::file(&site.folder))?;
        let listen = format!("{}:{PORT}", site.address);
        let (root, file) = (disk.path(), site.folder.join("cache.conf"));
        let mut command;
        let (text, log) = match kind {
            CacheKind::Nginx => {
                command = Command::new("nginx");
                command.arg("-p").arg(&root).arg("-c").arg(&file).args(["-e", "stderr"]);
                let log = site.folder.join("cache.sent");
                (nginx(&root, &log, &listen, registry), log)
            }
            CacheKind::Registry => {
                command = Command::new("docker-registry");
                command.arg("serve").arg(&file);
                let text = registry::configuration(&root, &listen, Some(registry));
                (text, site.folder.join("cache.log"))
            }
        };
        fs::write(&file, text).map_err(NodeError::file(&file))?;
        let process = Process::start(site, disk.command(&command, None), "cache")?;
        let mut process = process.called(kind.program());
        wait_until_listening(&mut process, site, PORT)?;
        Ok(Cache { process, kind, log })
    }

    /// Ends it, and returns the bytes of all bodies that it sent.
    pub fn end(&mut self) -> Result<Option<u64>, NodeError> {
        let signal = match self.kind {
            CacheKind::Nginx => Signal::QUIT,
            CacheKind::Registry => Signal::TERM,
        };
        self.process.stop(signal, STOP_TIMEOUT)?;
        let text = fs::read_to_string(&self.log).map_err(NodeError::file(&self.log))?;
        Ok(match self.kind {
            CacheKind::Nginx => http::sent_bytes(&text),
            CacheKind::Registry => registry::sent_bytes(&text),
        })
    }
}

/// A configuration in which one request fetches a blob from the registry, and all others wait until it is in the cache.
fn nginx(root: &Path, log: &Path, listen: &str, registry: &str) -> String {
    let (root, log) = (root.display(), log.display());
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("  {name}_temp_path \"{root}/{name}\";\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\npid \"{root}/pid\";\nevents {{ worker_connections 4096; }}\n\
         http {{\n{folders}  log_format sent \"$body_bytes_sent\";\n  access_log \"{log}\" sent;\n  \
         sendfile on;\n  tcp_nopush on;\n  proxy_cache_path \
         \"{root}/cache\" levels=1:2 keys_zone=images:10m max_size=100g inactive=1d use_temp_path=off;\n  \
         server {{\n    listen {listen};\n    location /v2/ {{\n      proxy_pass http://{registry};\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_read_timeout \
         1h;\n      proxy_cache images;\n      proxy_cache_key $request_uri;\n      proxy_cache_valid \
         200 1h;\n      proxy_cache_lock on;\n      proxy_cache_lock_timeout 1h;\n      \
         proxy_cache_lock_age 1h;\n    }}\n  }}\n}}\n"
    )
}
