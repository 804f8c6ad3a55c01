//! The network of the registry and of its hosts: a network namespace for each, connected by a bridge. Only the node
//! that builds an image is on the loopback device.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::parent_death_guard::{GuardedChild, guarded_command};
use crate::scale::namespace;

/// The bridge, in the namespace of the run.
const BRIDGE: &str = "fleet";
/// The address of this program on the bridge.
const OWN: &str = "10.77.255.254/16";
/// The device of a peer's link, in its own namespace.
const LINK: &str = "eth0";
/// Most bytes that the kernel passes to a link at once. With the usual 64 KiB, a slow uplink sends
/// in bursts. With one packet each, the CPU becomes the limit.
const SEGMENT_BYTES: u32 = 16_384;

/// The queue in front of a downlink, in seconds of its rate, and its least length.
const QUEUE_SECONDS: f64 = 0.05;
const QUEUE_BYTES_MIN: u32 = 16 * SEGMENT_BYTES;

/// The rates of a peer's link in Mbit/s, including headers; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub up_mbit: Option<f64>,
    pub down_mbit: Option<f64>,
}

/// The network address of a peer, and its namespaces.
pub struct Node {
    address: Ipv4Addr,
    /// The process that keeps the peer's namespaces of network and mounts; `None` on the loopback
    /// device.
    holder: Option<GuardedChild>,
}

impl Node {
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A command for `program` that runs here and ends with this process.
    pub fn command(&self, program: impl Into<OsString>) -> io::Result<Command> {
        match &self.holder {
            None => guarded_command(program),
            Some(holder) => {
                let mut command = guarded_command("nsenter")?;
                command.args(namespaces_of(holder)).arg("--").arg(program.into());
                Ok(command)
            }
        }
    }

    /// Bytes that the peer has sent, including headers; `None` if nodes share a device.
    pub fn sent_on_wire(&self) -> Result<Option<u64>> {
        self.traffic(8)
    }

    /// Bytes that the peer has received, including headers; `None` if nodes share a device.
    pub fn received_on_wire(&self) -> Result<Option<u64>> {
        self.traffic(0)
    }

    fn traffic(&self, column: usize) -> Result<Option<u64>> {
        let Some(holder) = &self.holder else { return Ok(None) };
        let text = fs::read_to_string(format!("/proc/{}/net/dev", holder.id()))?;
        let bytes = traffic_of(LINK, &text, column);
        bytes.context("/proc/net/dev has an unexpected format").map(Some)
    }
}

/// The nodes; the registry is first. Dropping this removes the network.
pub struct Testbed {
    nodes: Vec<Node>,
    has_bridge: bool,
}

impl Testbed {
    /// One node on the loopback device.
    pub fn local() -> Self {
        let node = Node { address: Ipv4Addr::LOCALHOST, holder: None };
        Testbed { nodes: vec![node], has_bridge: false }
    }

    /// A node for each link, with namespaces of its own for network and mounts, behind one bridge.
    pub fn with_links(links: &[Rates]) -> Result<Self> {
        let mut testbed = Testbed { nodes: Vec::new(), has_bridge: true };
        batch(Command::new("ip"), &bridge_lines())?;
        for index in 0..links.len() {
            let mut command = guarded_command("unshare")?;
            command.args(["--net", "--mount", "--", "sleep", "infinity"]);
            let mut holder = GuardedChild::spawn(&mut command)?;
            namespace::wait_until_isolated(&mut holder)?;
            let node = Node { address: bridged(index), holder: Some(holder) };
            testbed.nodes.push(node);
        }
        for (index, (node, rates)) in testbed.nodes.iter().zip(links).enumerate() {
            let holder = node.holder.as_ref().expect("the namespaces were just created");
            batch(Command::new("ip"), &veth_lines(index, holder.id()))?;
            let inside = |program: &str| {
                let mut command = Command::new("nsenter");
                command.args(namespaces_of(holder)).arg("--").arg(program);
                command
            };
            batch(inside("ip"), &link_lines(node.address))?;
            batch(inside("ip"), &neighbour_lines(index, links.len()))?;
            if rates.up_mbit.or(rates.down_mbit).is_some() {
                batch(inside("ip"), &[segment_line(LINK)])?;
                batch(Command::new("ip"), &[segment_line(&outer_end(index))])?;
            }
            if let Some(mbit) = rates.up_mbit {
                batch(inside("tc"), &rate_lines(LINK, mbit))?;
            }
            if let Some(mbit) = rates.down_mbit {
                let outer = outer_end(index);
                batch(Command::new("tc"), &rate_lines(&outer, mbit))?;
                batch(Command::new("tc"), &[queue_line(&outer, mbit)])?;
            }
        }
        Ok(testbed)
    }

    pub fn registry(&self) -> &Node {
        &self.nodes[0]
    }

    pub fn hosts(&self) -> &[Node] {
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

fn bridged(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, (index / 250) as u8, 1 + (index % 250) as u8)
}

/// An address from the range for local use.
fn hardware_address(index: usize) -> String {
    format!("02:77:00:00:{:02x}:{:02x}", index / 250, index % 250)
}

fn outer_end(index: usize) -> String {
    format!("{BRIDGE}{index}")
}

/// The options with which `nsenter` enters the namespaces that a process holds.
fn namespaces_of(holder: &GuardedChild) -> [String; 2] {
    [("net", "net"), ("mount", "mnt")]
        .map(|(option, file)| format!("--{option}=/proc/{}/ns/{file}", holder.id()))
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
        format!(
            "link add {outer} type veth peer name {LINK} address {} netns {process}",
            hardware_address(index)
        ),
        format!("link set {outer} master {BRIDGE}"),
        format!("link set {outer} up"),
    ]
}

fn link_lines(address: Ipv4Addr) -> Vec<String> {
    vec![
        "link set lo up".to_owned(),
        format!("addr add {address}/16 dev {LINK}"),
        format!("link set {LINK} up"),
    ]
}

/// The hardware addresses of the other peers. All namespaces together may learn 1,024, which 33 peers
/// exceed; given ones do not count.
fn neighbour_lines(own: usize, peers: usize) -> Vec<String> {
    let others = (0..peers).filter(|index| *index != own);
    let line = |index| {
        let (address, hardware) = (bridged(index), hardware_address(index));
        format!("neigh add {address} lladdr {hardware} nud permanent dev {LINK}")
    };
    others.map(line).collect()
}

fn segment_line(device: &str) -> String {
    format!("link set {device} gso_max_size {SEGMENT_BYTES}")
}

/// Limit the queue in front of a downlink, as the buffer of a switch does. A peer's own uplink needs
/// no limit, because TCP limits what it queues in its own kernel.
fn queue_line(device: &str, mbit: f64) -> String {
    let bytes = (mbit * 1e6 / 8.0 * QUEUE_SECONDS).max(f64::from(QUEUE_BYTES_MIN));
    format!("qdisc add dev {device} parent 1:1 bfifo limit {bytes:.0}")
}

/// Limit what a device sends.
fn rate_lines(device: &str, mbit: f64) -> Vec<String> {
    let bits = (mbit * 1e6).round();
    let burst = 2 * SEGMENT_BYTES;
    vec![
        format!("qdisc add dev {device} root handle 1: htb default 1"),
        format!(
            "class add dev {device} parent 1: classid 1:1 htb rate {bits:.0}bit ceil {bits:.0}bit \
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

/// A number of a device in `/proc/net/dev`: eight of received traffic, which begin with its bytes,
/// then eight of sent traffic.
fn traffic_of(device: &str, text: &str, column: usize) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(device));
    line?.strip_prefix(':')?.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_node_has_its_own_address_and_link() {
        let all: BTreeSet<_> = (0..1000).map(bridged).collect();
        assert_eq!(all.len(), 1000);
        let hardware: BTreeSet<_> = (0..1000).map(hardware_address).collect();
        assert_eq!(hardware.len(), 1000);
        assert_eq!(neighbour_lines(3, 33).len(), 32);
        assert!(outer_end(999).len() < 16, "Linux allows no longer names");
    }

    #[test]
    fn an_uplink_is_set_in_bits_with_a_burst_of_two_segments() {
        let lines = rate_lines(LINK, 2.5).join("\n");
        assert!(lines.contains("rate 2500000bit ceil 2500000bit burst 32768"), "{lines}");
    }

    #[test]
    fn a_slow_downlink_has_the_shortest_queue() {
        assert!(queue_line("fleet1", 0.1).ends_with("bfifo limit 262144"));
        assert!(queue_line("fleet1", 1000.0).ends_with("bfifo limit 6250000"));
    }

    #[test]
    fn received_bytes_are_the_first_number_and_sent_bytes_the_ninth() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10\n  eth0: 11 0 0 0 0 \
                    0 0 0 99 0\n";
        assert_eq!(traffic_of("eth0", text, 0), Some(11));
        assert_eq!(traffic_of("eth0", text, 8), Some(99));
        assert_eq!(traffic_of("eth", text, 8), None);
    }
}
