//! The network of the peers: addresses of the loopback device, or, with shaped uplinks, a network
//! namespace for each peer, connected by a bridge.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::uplinks::Uplinks;
use crate::parent_death_guard::{GuardedChild, guarded_command};
use crate::scale::namespace;

/// The bridge, in the namespace of the run.
const BRIDGE: &str = "swarm";
/// The address of this program on the bridge.
const OWN: &str = "10.77.255.254/16";
/// The device of a peer's link, in its own namespace.
const LINK: &str = "eth0";
/// Most bytes that the kernel passes to a link at once. With the usual 64 KiB, a slow uplink sends
/// in bursts. With one packet each, the CPU becomes the limit.
const SEGMENT_BYTES: u32 = 16_384;

/// The network address of a peer, and its namespace.
pub struct Node {
    address: Ipv4Addr,
    /// The process that keeps the peer's namespace; `None` on the loopback device.
    network: Option<GuardedChild>,
}

impl Node {
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A command for `program` that runs here and ends with this process.
    pub fn command(&self, program: impl Into<OsString>) -> io::Result<Command> {
        match &self.network {
            None => guarded_command(program),
            Some(network) => {
                let mut command = guarded_command("nsenter")?;
                command.arg(network_of(network)).arg("--").arg(program.into());
                Ok(command)
            }
        }
    }

    /// Bytes that the peer has sent, including headers; `None` if nodes share a device.
    pub fn sent_on_wire(&self) -> Result<Option<u64>> {
        let Some(network) = &self.network else { return Ok(None) };
        let text = fs::read_to_string(format!("/proc/{}/net/dev", network.id()))?;
        sent_by(LINK, &text).context("/proc/net/dev has an unexpected format").map(Some)
    }
}

/// The nodes of a swarm; the seeder is first. Dropping this removes the network.
pub struct Testbed {
    nodes: Vec<Node>,
    has_bridge: bool,
}

impl Testbed {
    pub fn create(nodes: usize, uplinks: Option<Uplinks>) -> Result<Self> {
        match uplinks {
            None => {
                let node = |index| Node { address: loopback(index), network: None };
                Ok(Testbed { nodes: (0..nodes).map(node).collect(), has_bridge: false })
            }
            Some(uplinks) => Testbed::with_uplinks(nodes, uplinks),
        }
    }

    fn with_uplinks(nodes: usize, uplinks: Uplinks) -> Result<Self> {
        let mut testbed = Testbed { nodes: Vec::new(), has_bridge: true };
        batch(Command::new("ip"), &bridge_lines())?;
        for index in 0..nodes {
            let mut command = guarded_command("unshare")?;
            command.args(["--net", "--", "sleep", "infinity"]);
            let mut network = GuardedChild::spawn(&mut command)?;
            namespace::wait_until_isolated(&mut network)?;
            let node = Node { address: bridged(index), network: Some(network) };
            testbed.nodes.push(node);
        }
        for (index, node) in testbed.nodes.iter().enumerate() {
            let network = node.network.as_ref().expect("the namespace was just created");
            batch(Command::new("ip"), &veth_lines(index, network.id()))?;
            let mbit = if index == 0 { uplinks.seeder_mbit } else { uplinks.leecher_mbit };
            let inside = |program: &str| {
                let mut command = Command::new("nsenter");
                command.arg(network_of(network)).arg("--").arg(program);
                command
            };
            batch(inside("ip"), &link_lines(node.address))?;
            batch(inside("tc"), &uplink_lines(mbit))?;
        }
        Ok(testbed)
    }

    pub fn seeder(&self) -> &Node {
        &self.nodes[0]
    }

    pub fn leechers(&self) -> &[Node] {
        &self.nodes[1..]
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if self.has_bridge {
            // A namespace ends some time after its last process, but the next testbed needs the
            // names at once. Links that remain if this fails end with the namespace of the run.
            let nodes = 0..self.nodes.len();
            for link in nodes.map(outer_end).chain([BRIDGE.to_owned()]) {
                let _ = batch(Command::new("ip"), &[format!("link del {link}")]);
            }
        }
    }
}

fn loopback(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1 + (index / 250) as u8, 1 + (index % 250) as u8)
}

fn bridged(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, (index / 250) as u8, 1 + (index % 250) as u8)
}

fn outer_end(index: usize) -> String {
    format!("{BRIDGE}{index}")
}

fn network_of(network: &GuardedChild) -> String {
    format!("--net=/proc/{}/ns/net", network.id())
}

fn bridge_lines() -> Vec<String> {
    vec![
        format!("link add {BRIDGE} type bridge"),
        format!("addr add {OWN} dev {BRIDGE}"),
        format!("link set {BRIDGE} up"),
    ]
}

/// A veth pair from the bridge into the namespace of a process.
fn veth_lines(index: usize, process: u32) -> Vec<String> {
    let outer = outer_end(index);
    vec![
        format!("link add {outer} type veth peer name {LINK} netns {process}"),
        format!("link set {outer} master {BRIDGE}"),
        format!("link set {outer} up"),
    ]
}

fn link_lines(address: Ipv4Addr) -> Vec<String> {
    vec![
        "link set lo up".to_owned(),
        format!("addr add {address}/16 dev {LINK}"),
        format!("link set {LINK} gso_max_size {SEGMENT_BYTES}"),
        format!("link set {LINK} up"),
    ]
}

fn uplink_lines(mbit: f64) -> Vec<String> {
    let bits = (mbit * 1e6).round();
    let burst = 2 * SEGMENT_BYTES;
    vec![
        format!("qdisc add dev {LINK} root handle 1: htb default 1"),
        format!(
            "class add dev {LINK} parent 1: classid 1:1 htb rate {bits:.0}bit ceil {bits:.0}bit \
             burst {burst} cburst {burst}"
        ),
    ]
}

/// Run lines with `ip` or `tc`.
fn batch(mut command: Command, lines: &[String]) -> Result<()> {
    let name = format!("{command:?}");
    command.args(["-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let written =
        child.stdin.take().expect("stdin is piped").write_all(lines.join("\n").as_bytes());
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}", stderr.trim());
    Ok(written?)
}

/// Bytes that a device sent, from `/proc/net/dev`.
fn sent_by(device: &str, text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(device));
    // Eight numbers for received traffic, then the sent bytes.
    line?.strip_prefix(':')?.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_node_has_its_own_address_and_link() {
        let all: BTreeSet<_> = (0..1000).flat_map(|i| [loopback(i), bridged(i)]).collect();
        assert_eq!(all.len(), 2000);
        assert!((0..1000).all(|i| loopback(i).is_loopback() && !bridged(i).is_loopback()));
        assert!(outer_end(999).len() < 16, "Linux allows no longer names");
    }

    #[test]
    fn an_uplink_is_set_in_bits_with_a_burst_of_two_segments() {
        let lines = uplink_lines(2.5).join("\n");
        assert!(lines.contains("rate 2500000bit ceil 2500000bit burst 32768"), "{lines}");
    }

    #[test]
    fn sent_bytes_are_the_ninth_number() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10\n  eth0: 11 0 0 0 0 \
                    0 0 0 99 0\n";
        assert_eq!(sent_by("eth0", text), Some(99));
        assert_eq!(sent_by("eth", text), None);
    }
}
