//! docker-registry: the registry of images, and a pull-through cache of another one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::facts::PORT;
use super::skopeo;
use crate::drivers::processes::host::{NodeError, Process, Site};
use crate::drivers::processes::program::content::Content;
use crate::drivers::processes::program::content_server::ContentServer;
use crate::drivers::processes::program::contract::{Ticket, wait_until_listening};

/// How long storing one image in a registry may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(600);

/// Starts docker-registry, and stores images in it.
pub fn start(site: &Site, contents: &[Content]) -> Result<ContentServer, NodeError> {
    let listen = format!("{}:{PORT}", site.address);
    let file = site.folder.join("registry.yml");
    let text = configuration(&site.folder.join("images"), &listen, None);
    fs::write(&file, text).map_err(NodeError::file(&file))?;
    let mut command = Command::new("docker-registry");
    command.arg("serve").arg(&file);
    let mut process = Process::start(site, command, "registry")?;
    wait_until_listening(&mut process, site, PORT)?;
    let mut tickets = Vec::new();
    for (object, content) in contents.iter().enumerate() {
        let name = format!("{listen}/lab/image-{object}:latest");
        let mut push = skopeo::copy();
        push.args(["--dest-tls-verify=false", &format!("oci:{}", layout(content)?.display())]);
        push.arg(format!("docker://{name}"));
        let mut push = Process::start(site, push, "push")?;
        let status = push.end(PUSH_TIMEOUT)?;
        if !status.success() {
            return Err(push.ended_with(status));
        }
        tickets.push(Ticket { object, name, bytes: content.bytes });
    }
    let log = site.folder.join("registry.log");
    Ok(ContentServer { tickets, process, stop: Signal::TERM, log, sent_bytes })
}

/// The layout of an image, of which the content is the folder of its blobs.
fn layout(content: &Content) -> Result<&Path, NodeError> {
    let layout = content.path.parent().filter(|layout| layout.join("oci-layout").is_file());
    layout.ok_or_else(|| {
        let task = format!("store {} in a registry", content.name);
        NodeError::unfit(task, "it is not an image; write { image = \"...\" }")
    })
}

/// The configuration of a registry with its content in `root`; with `upstream`, of a cache of the registry at this address.
pub fn configuration(root: &Path, listen: &str, upstream: Option<&str>) -> String {
    let mut text = format!(
        "version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\nstorage:\n  filesystem: \
         {{rootdirectory: {root:?}}}\n  maintenance: {{uploadpurging: {{enabled: false}}}}\nhttp: {{addr: \
         \"{listen}\"}}\n"
    );
    if let Some(upstream) = upstream {
        text += &format!("proxy: {{remoteurl: \"http://{upstream}\"}}\n");
    }
    text
}

/// Bytes of all bodies that a registry sent to clients that pulled, from its log.
pub fn sent_bytes(log: &str) -> Option<u64> {
    let answers = log.lines().filter(|line| line.contains("\"response completed"));
    let mut pulled = answers.filter(|line| line.contains("http.request.method=GET"));
    pulled.try_fold(0, |sum, line| {
        let rest = line.split("http.response.written=").nth(1)?;
        let bytes = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(sum + bytes.parse::<u64>().ok()?)
    })
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
    fn a_cache_names_its_upstream() {
        let own = configuration(Path::new("/a b"), "10.77.0.1:5000", None);
        assert!(own.contains("\"/a b\"") && !own.contains("remoteurl"), "{own}");
        let cache = configuration(Path::new("/a"), "10.77.0.1:5000", Some("10.77.0.2:5000"));
        assert!(cache.ends_with("proxy: {remoteurl: \"http://10.77.0.2:5000\"}\n"), "{cache}");
    }
}
