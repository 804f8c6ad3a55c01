//! Links over real NATS servers. `NATS_SERVER` names the program; `make test-cluster` sets it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchfire_cluster::LinkTotals;
use watchfire_cluster::bus::{Bus, BusLimits, Handler, LocalBus, Loss};
use watchfire_cluster::nats::{
    ClaimError, JoinError, Links, Machine, NatsError, NatsSettings, Process,
};
use watchfire_testkit::eventually;
use watchfire_types::NodeId;

/// A NATS server of a cluster, which ends with the test.
struct NatsServer {
    command: Command,
    process: Child,
    port: u16,
}

impl NatsServer {
    fn start(mut command: Command, port: u16) -> Self {
        let process = command.spawn().expect("nats-server starts");
        NatsServer { command, process, port }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again, on the same port.
    fn restart(&mut self) {
        self.process = self.command.spawn().expect("nats-server starts");
    }
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
    start_configured(&vec![""; count])
}

/// Starts a server for each text of a configuration file.
fn start_configured(configurations: &[&str]) -> Vec<NatsServer> {
    let count = configurations.len();
    let program = std::env::var("NATS_SERVER").expect("NATS_SERVER names the program nats-server");
    let (ports, routes) = (free_ports(count), free_ports(count));
    let all_routes: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
    let start = |((port, route), configuration): ((&u16, &u16), &&str)| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nats-{port}.conf"));
        std::fs::write(&file, configuration).unwrap();
        let mut command = Command::new(&program);
        command
            .arg("-c")
            .arg(file)
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "--cluster_name", "test"])
            .args(["--cluster", &format!("nats://127.0.0.1:{route}")])
            .args(["--routes", &all_routes.join(",")])
            .stderr(Stdio::null());
        NatsServer::start(command, *port)
    };
    let servers: Vec<_> = ports.iter().zip(&routes).zip(configurations).map(start).collect();
    for server in &servers {
        eventually("a NATS server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()
        });
    }
    servers
}

fn settings(servers: &[NatsServer], prefix: &str) -> NatsSettings {
    let urls = servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect();
    NatsSettings { urls, prefix: prefix.into(), ..NatsSettings::default() }
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

    fn totals(&self) -> LinkTotals {
        self.links.as_ref().expect("it has not stopped").totals()
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
    eventually("all hosts are linked", || {
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
    eventually("the first host knows", || hosts[0].seen.0.lock().interested.contains(&interested));
    let bytes_before = hosts[2].bus.totals().bytes_in;
    for number in 0..1_000_u64 {
        let mut message = number.to_be_bytes().to_vec();
        message.resize(1_000, 7);
        assert_eq!(hosts[0].bus.publish("orders", message.into(), Loss::Cut), 1);
    }
    let from = hosts[0].me();
    eventually("all have arrived", || hosts[1].numbers_from(from).len() == 1_000);
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
                servers[server].kill();
            }
            for _ in 0..100 {
                hosts[0].bus.send(to, sent.to_be_bytes().to_vec().into(), Loss::Cut).unwrap();
                sent += 1;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        eventually("all have arrived", || hosts[1].numbers_from(from).len() as u64 == sent);
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
    eventually("the others know", || hosts.iter().all(|host| host.seen.0.lock().downs == [node]));
    // Without its notice, the others would know after six seconds.
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());

    let ended = Instant::now();
    servers[0].kill();
    eventually("the others are gone", || hosts.iter().all(|host| host.bus.nodes().is_empty()));
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

/// Sends messages of 4 MiB from one host to another, which receives them whole and in order.
fn assert_large_messages_arrive(from: &Host, to: &Host) {
    for number in 0..8_u64 {
        let mut message = number.to_be_bytes().to_vec();
        message.resize(4 << 20, number as u8);
        from.bus.send(to.me(), message.into(), Loss::Cut).unwrap();
    }
    eventually("all have arrived", || to.numbers_from(from.me()).len() == 8);
    let seen = to.seen.0.lock();
    for ((_, message), number) in seen.messages.iter().zip(0_u8..) {
        assert_eq!(message.len(), 4 << 20);
        assert!(message[8..].iter().all(|byte| *byte == number));
    }
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_larger_than_a_packet_arrive_whole() {
    let servers = start_servers(1);
    let settings = settings(&servers, "large");
    let hosts = [Host::start(&settings).await, Host::start(&settings).await];
    wait_for_links(&hosts);
    assert_large_messages_arrive(&hosts[0], &hosts[1]);
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_respect_the_max_payload_of_the_server() {
    let servers = start_configured(&["max_payload: 1024"]);
    let settings = settings(&servers, "payload");
    let hosts = [Host::start(&settings).await, Host::start(&settings).await];
    wait_for_links(&hosts);
    assert_large_messages_arrive(&hosts[0], &hosts[1]);
    assert_eq!(hosts[0].totals().refused + hosts[1].totals().refused, 0);
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_smaller_max_payload_takes_over() {
    let mut servers = start_configured(&["", "max_payload: 2048"]);
    let settings = settings(&servers[..1], "smaller");
    let hosts = [Host::start(&settings).await, Host::start(&settings).await];
    wait_for_links(&hosts);
    servers[0].kill();
    // Packets of 64 KiB, which the other server does not accept: their link ends, and the next one is good.
    hosts[0].bus.send(hosts[1].me(), vec![7; 1 << 20].into(), Loss::Cut).unwrap();
    eventually("a packet is refused", || hosts[0].totals().refused > 0);
    eventually("the link has ended", || hosts.iter().all(|host| host.totals().ended > 0));
    wait_for_links(&hosts);
    hosts.iter().for_each(|host| host.seen.0.lock().messages.clear());
    assert_large_messages_arrive(&hosts[0], &hosts[1]);
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_very_small_max_payload_is_refused() {
    let servers = start_configured(&["max_payload: 1023"]);
    let joined = Machine::join(&settings(&servers, "tiny"), 1, 7).await;
    let Err(JoinError::Nats(error @ NatsError::SmallPayload { .. })) = joined else {
        panic!("the machine joins")
    };
    let text = error.to_string();
    assert!(text.contains("1023 bytes") && text.contains("set max_payload"), "{text}");
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_gone_while_the_only_server_is_away_for_a_few_seconds() {
    let mut servers = start_servers(1);
    let settings = settings(&servers, "away");
    let hosts =
        [Host::start(&settings).await, Host::start(&settings).await, Host::start(&settings).await];
    wait_for_links(&hosts);
    for (away_ms, sent) in [2_200, 4_500].into_iter().zip(1_u64..) {
        servers[0].kill();
        tokio::time::sleep(Duration::from_millis(away_ms)).await;
        servers[0].restart();
        hosts[0].bus.send(hosts[1].me(), sent.to_be_bytes().to_vec().into(), Loss::Cut).unwrap();
        let from = hosts[0].me();
        eventually("a message arrives", || hosts[1].numbers_from(from).len() as u64 == sent);
        // Longer than the silence after which a process counts as gone.
        tokio::time::sleep(Duration::from_secs(7)).await;
        for host in &hosts {
            assert_eq!(host.seen.0.lock().downs, [], "after {away_ms} ms");
        }
    }
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_cannot_be_linked_delays_a_start_by_a_bounded_time() {
    let servers = start_configured(&[r#"
        authorization { users: [
            { user: mute, password: x, permissions: { publish: { deny: "mute.node.>" } } }
            { user: good, password: x }
        ] }"#]);
    let as_user = |user: &str| NatsSettings {
        urls: vec![format!("nats://{user}:x@127.0.0.1:{}", servers[0].port)],
        prefix: "mute".into(),
        ..NatsSettings::default()
    };
    let mute = Host::start(&as_user("mute")).await;
    let started = Instant::now();
    let good = Host::start(&as_user("good")).await;
    good.links.as_ref().unwrap().settled().await;
    let after = started.elapsed();
    assert!(after > Duration::from_secs(6) && after < Duration::from_secs(12), "{after:?}");
    assert!(mute.totals().refused > 0 && good.totals().refused == 0);
}

#[ignore = "needs NATS servers: run `make test-cluster`"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_without_permissions_is_refused_and_not_a_cluster_of_its_own() {
    let servers = start_configured(&[r#"
        authorization { users: [
            { user: a, password: x, permissions: { publish: "else.>", subscribe: "else.>" } }
        ] }"#]);
    let urls = vec![format!("nats://a:x@127.0.0.1:{}", servers[0].port)];
    let settings = NatsSettings { urls, prefix: "forbidden".into(), ..NatsSettings::default() };
    let Err(error) = Machine::join(&settings, 1, 7).await else { panic!("the machine joins") };
    let text = error.to_string();
    assert!(text.contains("ermissions") && text.contains("forbidden.>"), "{text}");
}
