//! Links over real NATS servers. `NATS_SERVER` names the program; `make test-cluster` sets it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchfire_cluster::bus::{Bus, BusLimits, Handler, LocalBus, Loss};
use watchfire_cluster::nats::{ClaimError, JoinError, Links, Machine, NatsSettings, Process};
use watchfire_types::NodeId;

const PATIENCE: Duration = Duration::from_secs(30);

/// A NATS server of a cluster, which ends with the test.
struct NatsServer {
    process: Child,
    port: u16,
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Free ports, which stay free unless another program takes one in between.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn start_servers(count: usize) -> Vec<NatsServer> {
    let program = std::env::var("NATS_SERVER").expect("NATS_SERVER names the program nats-server");
    let (ports, routes) = (free_ports(count), free_ports(count));
    let all_routes: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
    let start = |(port, route): (&u16, &u16)| {
        let process = Command::new(&program)
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "--cluster_name", "test"])
            .args(["--cluster", &format!("nats://127.0.0.1:{route}")])
            .args(["--routes", &all_routes.join(",")])
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server starts");
        NatsServer { process, port: *port }
    };
    let servers: Vec<_> = ports.iter().zip(&routes).map(start).collect();
    for server in &servers {
        wait_until("a NATS server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()
        });
    }
    servers
}

fn settings(servers: &[NatsServer], prefix: &str) -> NatsSettings {
    let urls = servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect();
    NatsSettings { urls, prefix: prefix.into(), ..NatsSettings::default() }
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[derive(Default)]
struct Seen {
    messages: Vec<(NodeId, Vec<u8>)>,
    downs: Vec<NodeId>,
    interested: BTreeSet<(NodeId, String)>,
}

#[derive(Default)]
struct Recorder(Mutex<Seen>);

impl Handler for Recorder {
    fn up(&self, _: NodeId) {}
    fn down(&self, node: NodeId) {
        let mut seen = self.0.lock();
        seen.downs.push(node);
        seen.interested.retain(|(other, _)| *other != node);
    }
    fn interested(&self, node: NodeId, topic: &str) {
        self.0.lock().interested.insert((node, topic.into()));
    }
    fn forgotten(&self, _: &str) {}
    fn message(&self, from: NodeId, message: &[u8]) {
        self.0.lock().messages.push((from, message.into()));
    }
    fn ready(&self, _: u64) {}
}

/// A process on a machine of its own.
struct Host {
    bus: Arc<LocalBus>,
    seen: Arc<Recorder>,
    links: Option<Links>,
    machine: tokio::task::JoinHandle<ClaimError>,
}

impl Host {
    async fn start(settings: &NatsSettings) -> Host {
        let mut machine = Machine::join(settings, 1, 7).await.expect("the machine joins");
        let me = machine.first();
        let bus = Arc::new(LocalBus::start(me, BusLimits::default()).unwrap());
        let seen = Arc::<Recorder>::default();
        bus.attach(seen.clone());
        let process =
            Process { me, of_machine: me.0..me.0 + 1, cluster: machine.cluster(), format: 7 };
        let links = Links::start(settings.clone(), process, bus.clone()).await;
        let machine = tokio::spawn(async move { machine.serve().await });
        Host { bus, seen, links: Some(links.expect("links start")), machine }
    }

    fn me(&self) -> NodeId {
        self.bus.me()
    }

    /// The numbers that another host has sent, in the order of their arrival.
    fn numbers_from(&self, node: NodeId) -> Vec<u64> {
        let seen = self.seen.0.lock();
        let of_node = seen.messages.iter().filter(|(from, _)| *from == node);
        of_node.map(|(_, bytes)| u64::from_be_bytes(bytes[..8].try_into().unwrap())).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.machine.abort();
    }
}

fn wait_for_links(hosts: &[Host]) {
    wait_until("all hosts are linked", || {
        hosts.iter().all(|host| host.bus.nodes().len() == hosts.len() - 1)
    });
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_reaches_the_interested_machines_only() {
    let servers = start_servers(1);
    let settings = settings(&servers, "interest");
    let hosts =
        [Host::start(&settings).await, Host::start(&settings).await, Host::start(&settings).await];
    let nodes: BTreeSet<_> = hosts.iter().map(Host::me).collect();
    assert_eq!(nodes.len(), 3);
    wait_for_links(&hosts);

    let _ = hosts[1].bus.subscribe("orders");
    let interested = (hosts[1].me(), "orders".to_owned());
    wait_until("the first host knows", || hosts[0].seen.0.lock().interested.contains(&interested));
    let bytes_before = hosts[2].bus.totals().bytes_in;
    for number in 0..1_000_u64 {
        let mut message = number.to_be_bytes().to_vec();
        message.resize(1_000, 7);
        assert_eq!(hosts[0].bus.publish("orders", message.into(), Loss::Cut), 1);
    }
    let from = hosts[0].me();
    wait_until("all have arrived", || hosts[1].numbers_from(from).len() == 1_000);
    assert!(hosts[1].numbers_from(from).into_iter().eq(0..1_000));
    assert_eq!(hosts[2].numbers_from(from), [0; 0]);
    assert!(hosts[2].bus.totals().bytes_in - bytes_before < 1_000, "bytes without interest");
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_lost_when_nats_servers_die() {
    let mut servers = start_servers(3);
    let settings = settings(&servers, "loss");
    let hosts = [Host::start(&settings).await, Host::start(&settings).await];
    wait_for_links(&hosts);
    let (from, to) = (hosts[0].me(), hosts[1].me());
    let mut sent = 0_u64;
    for server in [0, 1] {
        for part in 0..20 {
            if part == 10 {
                servers[server].process.kill().unwrap();
                servers[server].process.wait().unwrap();
            }
            for _ in 0..100 {
                hosts[0].bus.send(to, sent.to_be_bytes().to_vec().into(), Loss::Cut).unwrap();
                sent += 1;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        wait_until("all have arrived", || hosts[1].numbers_from(from).len() as u64 == sent);
    }
    assert!(hosts[1].numbers_from(from).into_iter().eq(0..sent));
    for host in &hosts {
        assert_eq!(host.seen.0.lock().downs, []);
    }
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stops_is_gone_at_once_and_a_silent_cluster_after_six_seconds() {
    let mut servers = start_servers(1);
    let settings = settings(&servers, "gone");
    let mut hosts = vec![
        Host::start(&settings).await,
        Host::start(&settings).await,
        Host::start(&settings).await,
    ];
    wait_for_links(&hosts);
    let mut gone = hosts.remove(2);
    let (node, stopped) = (gone.me(), Instant::now());
    gone.links.take();
    wait_until("the others know", || hosts.iter().all(|host| host.seen.0.lock().downs == [node]));
    // Without its notice, the others would know after six seconds.
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());

    let ended = Instant::now();
    servers[0].process.kill().unwrap();
    wait_until("the others are gone", || hosts.iter().all(|host| host.bus.nodes().is_empty()));
    let after = ended.elapsed();
    assert!(after > Duration::from_secs(4) && after < Duration::from_secs(10), "{after:?}");
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_with_another_key_or_prefix_is_not_linked() {
    let servers = start_servers(1);
    let with_key = |prefix: &str, key: &str| NatsSettings {
        key: Some(key.into()),
        ..settings(&servers, prefix)
    };
    let one = Host::start(&with_key("keys", "a")).await;
    let other = Machine::join(&with_key("keys", "b"), 1, 7).await;
    assert!(matches!(other.err(), Some(JoinError::Claim(ClaimError::OtherCluster))));
    let other = Host::start(&with_key("others", "a")).await;
    assert_eq!(one.me(), other.me(), "the numbers of another cluster");
    assert!(one.bus.nodes().is_empty() && other.bus.nodes().is_empty());
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_larger_than_a_packet_arrive_whole() {
    let servers = start_servers(1);
    let settings = settings(&servers, "large");
    let hosts = [Host::start(&settings).await, Host::start(&settings).await];
    wait_for_links(&hosts);
    let (from, to) = (hosts[0].me(), hosts[1].me());
    for number in 0..8_u64 {
        let mut message = number.to_be_bytes().to_vec();
        message.resize(4 << 20, number as u8);
        hosts[0].bus.send(to, message.into(), Loss::Cut).unwrap();
    }
    wait_until("all have arrived", || hosts[1].numbers_from(from).len() == 8);
    let seen = hosts[1].seen.0.lock();
    for ((_, message), number) in seen.messages.iter().zip(0_u8..) {
        assert_eq!(message.len(), 4 << 20);
        assert!(message[8..].iter().all(|byte| *byte == number));
    }
}
