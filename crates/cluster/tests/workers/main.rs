//! Tests of a supervisor and its workers as real processes.

mod harness;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{Client, PROGRAM, Running, until};
use tokio::io::{AsyncBufReadExt, BufReader};
use watchfire_cluster::workers::{SuperviseError, SupervisorEvent, SupervisorLimits};
use watchfire_testkit::{DEADLINE, eventually_async, is_running, signal};
use watchfire_types::NodeId;

fn limits() -> SupervisorLimits {
    SupervisorLimits::default()
}

/// The reply of worker `slot` to `received` when all are linked: the other process ids.
fn others(slot: usize, pids: &[u32]) -> String {
    let others: BTreeMap<_, _> = pids.iter().enumerate().filter(|(it, _)| *it != slot).collect();
    others.iter().map(|(slot, pid)| format!("{slot}:{pid}")).collect::<Vec<_>>().join(" ")
}

async fn wait_until_all_linked(running: &Running) {
    for slot in 0..running.pids.len() {
        until(&others(slot, &running.pids), || running.request(slot, "received")).await;
    }
}

#[tokio::test]
async fn workers_get_their_slot_the_startup_data_and_a_link_to_each_other() {
    let startup_data: Vec<u8> = (0..3_000_001u32).map(|n| (n % 251) as u8).collect();
    let running = Running::serving(4, &startup_data, limits()).await;
    let sum: u64 = startup_data.iter().map(|&byte| u64::from(byte)).sum();
    for slot in 0..4 {
        assert_eq!(running.request(slot, "who").await, format!("{slot} {}", running.pids[slot]));
        assert_eq!(
            running.request(slot, "startup_data").await,
            format!("{} {sum}", startup_data.len())
        );
    }
    wait_until_all_linked(&running).await;
    assert_eq!(running.end().await.restarts, 0);
}

#[tokio::test]
async fn a_connection_can_move_from_any_worker_to_any_other() {
    let running = Running::serving(3, b"", limits()).await;
    let mut client = Client::connect(running.addresses[0]).await;
    for to in [1, 2, 0, 2, 1, 0] {
        let reply = client.request(&format!("give {to} who")).await;
        assert_eq!(reply, format!("{to} {}", running.pids[to]));
        assert_eq!(client.request("still here").await, "still here");
    }
    // Several lines in one write: buffered lines move with the connection.
    client.send("give 1 give 2 who\nsecond\nthird").await;
    assert_eq!(client.receive().await, format!("2 {}", running.pids[2]));
    assert_eq!(client.receive().await, "second");
    assert_eq!(client.receive().await, "third");
    running.end().await;
}

#[tokio::test]
async fn a_killed_worker_is_restarted_in_its_slot_and_serves_waiting_connections() {
    let pause = Duration::from_secs(2);
    let limits = SupervisorLimits { restart_pause: pause, ..limits() };
    let mut running = Running::serving(4, b"", limits).await;
    wait_until_all_linked(&running).await;
    let open_before = running.request(0, "descriptors").await;
    let killed = running.pids[2];
    signal(killed, "-KILL");
    running
        .event("worker 2 ended", |it| {
            matches!(it, SupervisorEvent::Ended { slot: NodeId(2), restart_in: Some(_), .. })
        })
        .await;
    // Sent while no process can read it.
    let mut early = Client::connect(running.addresses[2]).await;
    early.send("who").await;
    assert!(running.is_quiet(), "the worker has not been restarted");

    running
        .event("worker 2 is back", |it| {
            matches!(it, SupervisorEvent::Started { slot: NodeId(2), restarts: 1, .. })
        })
        .await;
    assert_ne!(running.pids[2], killed);
    assert_eq!(early.receive().await, format!("2 {}", running.pids[2]));
    wait_until_all_linked(&running).await;
    for slot in [0, 1, 3] {
        until("2:1", || running.request(slot, "lost")).await;
    }
    assert_eq!(running.request(2, "lost").await, "", "it has been restarted");
    assert_eq!(early.request("give 3 who").await, format!("3 {}", running.pids[3]));
    let mut other = Client::connect(running.addresses[0]).await;
    assert_eq!(other.request("give 2 who").await, format!("2 {}", running.pids[2]));
    drop((early, other));
    until(&open_before, || running.request(0, "descriptors")).await;
    assert_eq!(running.end().await.restarts, 1);
}

#[tokio::test]
async fn all_workers_can_be_killed_at_once() {
    let mut running = Running::serving(5, b"", limits()).await;
    for &pid in &running.pids {
        signal(pid, "-KILL");
    }
    for _ in 0..5 {
        running.event("one is ready", |it| matches!(it, SupervisorEvent::Ready { .. })).await;
    }
    wait_until_all_linked(&running).await;
    assert_eq!(running.end().await.restarts, 5);
}

#[tokio::test]
async fn a_broken_link_is_replaced() {
    let limits = SupervisorLimits { relink_pause: Duration::ZERO, ..limits() };
    let mut running = Running::serving(3, b"", limits).await;
    wait_until_all_linked(&running).await;
    assert_eq!(running.request(0, "cut 2").await, "Ok(())");
    running.event("a new link", |it| matches!(it, SupervisorEvent::Relinked { .. })).await;
    until("2:1", || running.request(0, "lost")).await;
    until("0:1", || running.request(2, "lost")).await;
    let mut client = Client::connect(running.addresses[0]).await;
    assert_eq!(client.request("give 2 who").await, format!("2 {}", running.pids[2]));
    assert_eq!(running.request(1, "lost").await, "");
    running.end().await;
}

#[tokio::test]
async fn a_worker_has_its_own_descriptors_and_none_of_the_others() {
    let few = Running::serving(2, b"", limits()).await;
    let base: usize = few.request(0, "descriptors").await.parse().expect("a number");
    let many = Running::serving(8, b"", limits()).await;
    for slot in 0..8 {
        // Six more workers, with two descriptors each.
        until(&(base + 6 * 2).to_string(), || many.request(slot, "descriptors")).await;
    }
    few.end().await;
    many.end().await;
}

#[tokio::test]
async fn at_the_first_start_a_worker_that_ends_ends_all() {
    let running = Running::start(4, b"crash 2;", limits());
    let error = running.outcome().await.expect_err("a worker crashes");
    assert_eq!(error.to_string(), "worker 2 ended before it was ready: exit status: 7");
}

#[tokio::test]
async fn at_the_first_start_a_worker_that_is_not_ready_in_time_ends_all() {
    let within = Duration::from_secs(2);
    let limits = SupervisorLimits { ready_timeout: within, ..limits() };
    let running = Running::start(2, b"mute 1;", limits);
    match running.outcome().await {
        // On a very busy machine, worker 0 may be late as well.
        Err(SuperviseError::NotReady { within: it, .. }) => assert_eq!(it, within),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_program_ends_all() {
    let running = Running::start_program("/no/such/program", 2, b"", limits());
    match running.outcome().await {
        Err(SuperviseError::Spawn { slot: NodeId(0), cause }) => {
            assert_eq!(cause.kind(), std::io::ErrorKind::NotFound);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_worker_that_does_not_drain_in_time_is_killed() {
    let limits = SupervisorLimits { drain_timeout: Duration::from_millis(300), ..limits() };
    let running = Running::serving(3, b"stubborn 1;", limits).await;
    assert!(running.end().await.killed >= 1);
}

#[tokio::test]
async fn a_second_stop_kills_workers_that_still_drain() {
    let mut running = Running::serving(3, b"stubborn 1;", limits()).await;
    running.stop();
    for _ in [0, 2] {
        running.event("one ended", |it| matches!(it, SupervisorEvent::Ended { .. })).await;
    }
    assert!(is_running(running.pids[1]));
    let refused = tokio::net::TcpStream::connect(running.addresses[0]).await;
    assert!(refused.is_err(), "the listener is closed after the stop");
    running.kill();
    assert_eq!(running.end().await.killed, 1);
}

#[tokio::test]
async fn a_stop_during_the_start_is_not_an_error() {
    let mut running = Running::start(6, b"", limits());
    running.stop();
    assert_eq!(running.outcome().await.expect("a good end").restarts, 0);
}

/// A supervisor as a process of its own, with its workers.
struct SupervisorProcess {
    supervisor: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    addresses: Vec<String>,
    pids: Vec<u32>,
}

impl SupervisorProcess {
    async fn serving(command: &mut Command) -> SupervisorProcess {
        let mut command =
            tokio::process::Command::from(std::mem::replace(command, Command::new("")));
        let mut supervisor =
            command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a supervisor");
        let lines = BufReader::new(supervisor.stdout.take().expect("its output")).lines();
        let mut supervisor_process =
            SupervisorProcess { supervisor, lines, addresses: Vec::new(), pids: Vec::new() };
        tokio::time::timeout(DEADLINE, supervisor_process.read())
            .await
            .expect("all are ready in time");
        supervisor_process
    }

    async fn read(&mut self) {
        loop {
            let line = self.lines.next_line().await.expect("text").expect("more of it");
            if let Some(listening) = line.strip_prefix("listening ") {
                self.addresses.push(listening.rsplit(' ').next().expect("an address").to_owned());
            } else if let Some((_, pid)) = line.split_once(" started as process ") {
                self.pids.push(pid.parse().expect("a process"));
            } else if line == "all workers are ready" {
                return;
            }
        }
    }

    async fn request(&self, slot: usize, request: &str) -> String {
        let address = self.addresses[slot].parse().expect("an address");
        Client::connect(address).await.request(request).await
    }

    async fn workers_end(&self) {
        let have_ended = async || self.pids.iter().all(|&pid| !is_running(pid));
        eventually_async("the workers end", have_ended).await;
    }
}

#[tokio::test]
async fn when_the_supervisor_is_killed_its_workers_drain() {
    let mut supervisor_process = SupervisorProcess::serving(Command::new(PROGRAM).arg("3")).await;
    assert_eq!(
        supervisor_process.request(1, "who").await,
        format!("1 {}", supervisor_process.pids[1])
    );
    signal(supervisor_process.supervisor.id().expect("it starts"), "-KILL");
    supervisor_process.supervisor.wait().await.expect("its end");
    supervisor_process.workers_end().await;
}

#[tokio::test]
async fn sixty_four_workers_are_linked_with_few_descriptors() {
    // There are 2,016 links, with 8,064 descriptors.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 400 && exec \"$0\" 64", PROGRAM]);
    let mut supervisor_process = SupervisorProcess::serving(&mut command).await;
    for slot in 0..64 {
        until(&others(slot, &supervisor_process.pids), || {
            supervisor_process.request(slot, "received")
        })
        .await;
    }
    let supervisor = supervisor_process.supervisor.id().expect("it starts");
    let open = std::fs::read_dir(format!("/proc/{supervisor}/fd")).expect("its descriptors");
    // For each worker a listener, a socket and a process.
    assert!(open.count() < 64 * 3 + 20, "the supervisor does not close what it sent");

    signal(supervisor, "-TERM");
    let status = supervisor_process.supervisor.wait().await.expect("its end");
    assert!(status.success(), "{status}");
    supervisor_process.workers_end().await;
}

#[tokio::test]
async fn the_environment_variable_alone_does_not_make_a_program_a_worker() {
    let output = tokio::process::Command::new(PROGRAM)
        .env(watchfire_cluster::workers::CONTROL_VARIABLE, "stdin")
        .stdin(Stdio::null())
        .output()
        .await
        .expect("it runs");
    assert!(!output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "WATCHFIRE_SUPERVISOR is set, but standard input is not a supervisor's socket\n"
    );
}

#[test]
fn an_invalid_plan_is_refused() {
    let plan = |workers, lists: usize| watchfire_cluster::workers::Plan {
        workers,
        listeners: (0..lists).map(|_| Vec::new()).collect(),
        startup_data: Vec::new(),
        command: Box::new(|_| Command::new(PROGRAM)),
        events: Box::new(|_| {}),
        links: None,
        limits: limits(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for (workers, lists, error) in [
        (0, 0, "cannot start 0 workers: the number must be between 1 and 256"),
        (257, 257, "cannot start 257 workers: the number must be between 1 and 256"),
        (3, 2, "3 workers need 3 lists of listeners, not 2"),
    ] {
        let never = std::future::pending::<()>;
        let outcome = runtime.block_on(watchfire_cluster::workers::supervise(
            plan(workers, lists),
            never(),
            never(),
        ));
        assert_eq!(outcome.expect_err("refused").to_string(), error);
    }
}

fn with_heartbeats_every(period: Duration) -> SupervisorLimits {
    SupervisorLimits {
        heartbeat_period: period,
        unresponsive_after: 2 * period,
        hung_after: 6 * period,
        ..limits()
    }
}

#[tokio::test]
async fn a_stopped_worker_is_announced_killed_and_its_successor_serves_waiting_connections() {
    let limits = with_heartbeats_every(Duration::from_millis(500));
    let mut running = Running::serving(3, b"", limits).await;
    let stopped = running.pids[1];
    signal(stopped, "-STOP");
    let mut waiting = Client::connect(running.addresses[1]).await;
    waiting.send("who").await;
    until("1", || running.request(0, "unresponsive")).await;
    until("1", || running.request(2, "unresponsive")).await;
    running
        .event("worker 1 is hung", |it| matches!(it, SupervisorEvent::Hung { slot: NodeId(1) }))
        .await;
    running
        .event("worker 1 is back", |it| {
            matches!(it, SupervisorEvent::Ready { slot: NodeId(1), .. })
        })
        .await;
    assert!(!is_running(stopped));
    // It was accepted by no one, so it waited in the listener, which the supervisor keeps.
    assert_eq!(waiting.receive().await, format!("1 {}", running.pids[1]));
    until("", || running.request(0, "unresponsive")).await;
    assert_eq!(running.end().await.restarts, 1);
}

#[tokio::test]
async fn a_worker_whose_event_loop_blocks_is_restarted() {
    let limits = with_heartbeats_every(Duration::from_millis(500));
    let mut running = Running::serving(2, b"", limits).await;
    let blocked = running.pids[1];
    Client::connect(running.addresses[1]).await.send("block").await;
    running
        .event("worker 1 is back", |it| {
            matches!(it, SupervisorEvent::Started { slot: NodeId(1), restarts: 1, .. })
        })
        .await;
    assert!(!is_running(blocked));
    let who = running.request(1, "who").await;
    assert_eq!(who, format!("1 {}", running.pids[1]));
    running.end().await;
}

#[tokio::test]
async fn a_worker_that_was_stopped_shortly_responds_again_and_is_not_killed() {
    let limits = SupervisorLimits {
        hung_after: Duration::from_secs(60),
        ..with_heartbeats_every(Duration::from_millis(200))
    };
    let mut running = Running::serving(2, b"", limits).await;
    signal(running.pids[1], "-STOP");
    let is_silent = |it: &SupervisorEvent| matches!(it, SupervisorEvent::Unresponsive { .. });
    running.event("worker 1 is silent", is_silent).await;
    signal(running.pids[1], "-CONT");
    let is_back = |it: &SupervisorEvent| matches!(it, SupervisorEvent::Responsive { .. });
    running.event("worker 1 responds", is_back).await;
    until("", || running.request(0, "unresponsive")).await;
    assert_eq!(running.end().await.restarts, 0);
}

#[tokio::test]
async fn a_group_that_is_stopped_as_a_whole_and_continued_is_not_killed() {
    // On a busy machine, a process may wait a second for a processor, and must not look hung.
    const PERIOD: Duration = Duration::from_millis(500);
    let mut command = Command::new(PROGRAM);
    command.args(["3", "", &PERIOD.as_millis().to_string()]);
    let mut group = SupervisorProcess::serving(&mut command).await;
    let supervisor = group.supervisor.id().expect("it runs");
    for &pid in group.pids.iter().chain([&supervisor]) {
        signal(pid, "-STOP");
    }
    // The time passes for the group only: a worker is hung after 4 periods.
    tokio::time::sleep(8 * PERIOD).await;
    // The supervisor continues first, and finds no heartbeats. It must wait for them.
    signal(supervisor, "-CONT");
    tokio::time::sleep(PERIOD).await;
    for &pid in &group.pids {
        signal(pid, "-CONT");
    }
    for slot in 0..3 {
        let who = group.request(slot, "who").await;
        assert_eq!(who, format!("{slot} {}", group.pids[slot]));
    }
    // Nothing happens within the time after which silent workers would be killed.
    tokio::time::sleep(6 * PERIOD).await;
    for slot in 0..3 {
        let who = group.request(slot, "who").await;
        assert_eq!(who, format!("{slot} {}", group.pids[slot]));
    }
    signal(supervisor, "-TERM");
    group.supervisor.wait().await.expect("its end");
    group.workers_end().await;
}
