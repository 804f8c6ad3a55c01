//! `watchfire share` and `watchfire get`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;

use super::peers::{Fetchers, LeecherTotals, Leechers, Logged, Seeder, copy_of};
use super::system::Blocks;
use super::testbed::Node;
use crate::process::Watched;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const PORT: u16 = 4001;

fn address(node: &Node) -> String {
    format!("/ip4/{}/tcp/{PORT}", node.address())
}

/// The events of one kind in lines of JSON.
fn events<'a>(kind: &'a str, output: &'a str) -> impl Iterator<Item = Value> + 'a {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(move |event| event["event"] == kind)
}

/// `watchfire share`.
pub struct Share {
    process: Logged,
    cid: String,
    address: String,
}

impl Share {
    pub fn start(
        program: &Path,
        node: &Node,
        file: &Path,
        blocks: Blocks,
        folder: &Path,
    ) -> Result<Self> {
        let mut command = node.command(program)?;
        command.arg("share").arg(file).args(["--json", "--listen", &address(node)]);
        command.args(["--profile", profile(blocks)]);
        let mut process = Logged::spawn(&mut command, &folder.join("share"))?;
        let shared = |output: &str| {
            let event = events("shared", output).next()?;
            let address = event["addresses"].get(0)?.as_str()?.to_owned();
            Some((event["cid"].as_str()?.to_owned(), address))
        };
        let (cid, address) = process.wait_for("link", START_TIMEOUT, shared)?;
        Ok(Share { process, cid, address })
    }
}

fn profile(blocks: Blocks) -> &'static str {
    match blocks {
        Blocks::Large => "unixfs-v1-2025",
        Blocks::Small => "kubo-default",
    }
}

impl Seeder for Share {
    fn name(&self) -> &str {
        &self.cid
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn watched(&self) -> Watched {
        self.process.watched()
    }

    fn end(mut self: Box<Self>) -> Result<u64> {
        self.process.watched().signal(Signal::TERM);
        self.process.wait(STOP_TIMEOUT)?;
        let output = self.process.output()?;
        let stopped = events("stopped", &output).last();
        stopped
            .and_then(|event| event["sent_bytes"].as_u64())
            .context("watchfire share did not report the sent bytes")
    }
}

/// `watchfire get`, once for each leecher.
pub struct Gets<'a> {
    program: &'a Path,
    nodes: &'a [Node],
    /// For each leecher, the earlier leechers that it dials.
    dials: Vec<Vec<usize>>,
    cid: String,
    seeder: String,
    folder: PathBuf,
    fetchers: Fetchers,
}

impl<'a> Gets<'a> {
    pub fn prepare(
        program: &'a Path,
        nodes: &'a [Node],
        dials: Vec<Vec<usize>>,
        seeder: &dyn Seeder,
        folder: &Path,
    ) -> Self {
        let (cid, seeder) = (seeder.name().to_owned(), seeder.address().to_owned());
        let (folder, fetchers) = (folder.to_owned(), Fetchers::default());
        Gets { program, nodes, dials, cid, seeder, folder, fetchers }
    }
}

impl Leechers for Gets<'_> {
    fn start(&mut self) -> Result<()> {
        for (index, (node, dials)) in self.nodes.iter().zip(&self.dials).enumerate() {
            let copy = copy_of(&self.folder, index);
            std::fs::create_dir_all(copy.parent().expect("a copy has a parent folder"))?;
            let mut command = node.command(self.program)?;
            command.args(["get", &self.cid, "--json", "--output"]).arg(&copy);
            command.args(["--listen", &address(node), "--peer", &self.seeder]);
            for other in dials {
                command.args(["--peer", &address(&self.nodes[*other])]);
            }
            let stem = self.folder.join(format!("get-{index}"));
            self.fetchers.add(Logged::spawn(&mut command, &stem)?);
        }
        Ok(())
    }

    fn poll(&mut self, after: Duration) -> Result<()> {
        self.fetchers.poll(after)
    }

    fn finishes(&self) -> &[Duration] {
        self.fetchers.finishes()
    }

    fn cpu(&self) -> Result<Duration> {
        self.fetchers.cpu()
    }

    fn end(self: Box<Self>) -> Result<LeecherTotals> {
        let mut duplicate_bytes = 0;
        for output in self.fetchers.outputs()? {
            let got =
                events("got", &output).last().context("a leecher did not report its result")?;
            let bytes = got["duplicate_bytes"].as_u64();
            duplicate_bytes += bytes.context("a leecher did not report the duplicate bytes")?;
        }
        Ok(LeecherTotals { peak_bytes: self.fetchers.peak_bytes(), duplicate_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_among_other_lines() {
        let output =
            "{\"event\":\"serving\"}\nnoise\n{\"event\":\"stopped\",\"sent_bytes\":7}\n{\"ev";
        let stopped: Vec<Value> = events("stopped", output).collect();
        assert_eq!(stopped.len(), 1);
        assert_eq!(stopped[0]["sent_bytes"], 7);
    }
}
