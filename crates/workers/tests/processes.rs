//! Real processes: what a supervisor promises its workers, and they each other.

mod harness;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Client, DEADLINE, PROGRAM, Running, has_ended, kill_9, signal, until};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use watchfire_types::NodeId;
use watchfire_workers::{SuperviseError, SupervisorEvent, SupervisorLimits};

fn limits() -> SupervisorLimits {
    SupervisorLimits::default()
}

/// What worker `slot` has received when all are linked: the process of each other.
fn others(slot: usize, pids: &[u32]) -> String {
    let others: BTreeMap<_, _> = pids.iter().enumerate().filter(|(it, _)| *it != slot).collect();
    others.iter().map(|(slot, pid)| format!("{slot}:{pid}")).collect::<Vec<_>>().join(" ")
}

async fn all_hear_each_other(running: &Running) {
    for slot in 0..running.pids.len() {
        until(&others(slot, &running.pids), || running.ask(slot, "received")).await;
    }
}

#[tokio::test]
async fn workers_get_their_slot_the_startup_data_and_a_link_to_each_other() {
    let startup_data: Vec<u8> = (0..3_000_001u32).map(|n| (n % 251) as u8).collect();
    let running = Running::serving(4, &startup_data, limits()).await;
    let sum: u64 = startup_data.iter().map(|&byte| u64::from(byte)).sum();
    for slot in 0..4 {
        assert_eq!(running.ask(slot, "who").await, format!("{slot} {}", running.pids[slot]));
        assert_eq!(
            running.ask(slot, "startup_data").await,
            format!("{} {sum}", startup_data.len())
        );
    }
    all_hear_each_other(&running).await;
    assert_eq!(running.end().await.restarts, 0);
}

#[tokio::test]
async fn a_connection_goes_from_any_worker_to_any_other_and_lives_on() {
    let running = Running::serving(3, b"", limits()).await;
    let mut client = Client::connect(running.addresses[0]).await;
    for to in [1, 2, 0, 2, 1, 0] {
        let answer = client.ask(&format!("give {to} who")).await;
        assert_eq!(answer, format!("{to} {}", running.pids[to]));
        assert_eq!(client.ask("still here").await, "still here");
    }
    // Several lines at once: what was read with the first travels along.
    client.say("give 1 give 2 who\nsecond\nthird").await;
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
    all_hear_each_other(&running).await;
    let open_before = running.ask(0, "descriptors").await;
    let killed = running.pids[2];
    kill_9(killed);
    running
        .event("worker 2 ended", |it| {
            matches!(it, SupervisorEvent::Ended { slot: NodeId(2), restart_in: Some(_), .. })
        })
        .await;
    // Sent while there is nobody to read it.
    let mut early = Client::connect(running.addresses[2]).await;
    early.say("who").await;
    assert!(running.is_quiet(), "the worker is still dead");

    running
        .event("worker 2 is back", |it| {
            matches!(it, SupervisorEvent::Started { slot: NodeId(2), restarts: 1, .. })
        })
        .await;
    assert_ne!(running.pids[2], killed);
    assert_eq!(early.receive().await, format!("2 {}", running.pids[2]));
    all_hear_each_other(&running).await;
    for slot in [0, 1, 3] {
        until("2:1", || running.ask(slot, "lost")).await;
    }
    assert_eq!(running.ask(2, "lost").await, "", "it is new");
    assert_eq!(early.ask("give 3 who").await, format!("3 {}", running.pids[3]));
    let mut other = Client::connect(running.addresses[0]).await;
    assert_eq!(other.ask("give 2 who").await, format!("2 {}", running.pids[2]));
    drop((early, other));
    until(&open_before, || running.ask(0, "descriptors")).await;
    assert_eq!(running.end().await.restarts, 1);
}

#[tokio::test]
async fn all_workers_may_be_killed_at_once() {
    let mut running = Running::serving(5, b"", limits()).await;
    for &pid in &running.pids {
        kill_9(pid);
    }
    for _ in 0..5 {
        running.event("one is ready", |it| matches!(it, SupervisorEvent::Ready { .. })).await;
    }
    all_hear_each_other(&running).await;
    assert_eq!(running.end().await.restarts, 5);
}

#[tokio::test]
async fn a_link_that_broke_is_made_anew() {
    let limits = SupervisorLimits { relink_pause: Duration::ZERO, ..limits() };
    let mut running = Running::serving(3, b"", limits).await;
    all_hear_each_other(&running).await;
    assert_eq!(running.ask(0, "cut 2").await, "Ok(())");
    running.event("a new link", |it| matches!(it, SupervisorEvent::Relinked { .. })).await;
    until("2:1", || running.ask(0, "lost")).await;
    until("0:1", || running.ask(2, "lost")).await;
    let mut client = Client::connect(running.addresses[0]).await;
    assert_eq!(client.ask("give 2 who").await, format!("2 {}", running.pids[2]));
    assert_eq!(running.ask(1, "lost").await, "");
    running.end().await;
}

#[tokio::test]
async fn a_worker_has_its_own_descriptors_and_none_of_the_others() {
    let few = Running::serving(2, b"", limits()).await;
    let base: usize = few.ask(0, "descriptors").await.parse().expect("a number");
    let many = Running::serving(8, b"", limits()).await;
    for slot in 0..8 {
        // Six more workers, two more descriptors for the link to each.
        until(&(base + 6 * 2).to_string(), || many.ask(slot, "descriptors")).await;
    }
    few.end().await;
    many.end().await;
}

#[tokio::test]
async fn a_worker_that_cannot_start_ends_all_with_its_status() {
    let running = Running::start(4, b"crash 2;", limits());
    let error = running.outcome().await.expect_err("nothing is served");
    assert_eq!(error.to_string(), "worker 2 ended before it was ready: exit status: 7");
}

#[tokio::test]
async fn a_worker_that_is_not_ready_in_time_ends_all() {
    let within = Duration::from_secs(2);
    let limits = SupervisorLimits { ready_timeout: within, ..limits() };
    let running = Running::start(2, b"mute 1;", limits);
    match running.outcome().await {
        // On a machine that is busy enough, worker 0 is late as well.
        Err(SuperviseError::NotReady { within: it, .. }) => assert_eq!(it, within),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_ends_all() {
    let running = Running::start_program("/no/such/program", 2, b"", limits());
    match running.outcome().await {
        Err(SuperviseError::Spawn { slot: NodeId(0), source }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
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
    assert!(!has_ended(running.pids[1]));
    let refused = tokio::net::TcpStream::connect(running.addresses[0]).await;
    assert!(refused.is_err(), "who comes after the stop would wait for nobody");
    running.kill();
    assert_eq!(running.end().await.killed, 1);
}

#[tokio::test]
async fn a_stop_at_the_start_is_a_good_end() {
    let mut running = Running::start(6, b"", limits());
    running.stop();
    assert_eq!(running.outcome().await.expect("a good end").restarts, 0);
}

/// A supervisor that is a process too: its own, and those of its workers.
struct Apart {
    supervisor: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    addresses: Vec<String>,
    pids: Vec<u32>,
}

impl Apart {
    async fn serving(command: &mut Command) -> Apart {
        let mut command =
            tokio::process::Command::from(std::mem::replace(command, Command::new("")));
        let mut supervisor =
            command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a supervisor");
        let lines = BufReader::new(supervisor.stdout.take().expect("its output")).lines();
        let mut apart = Apart { supervisor, lines, addresses: Vec::new(), pids: Vec::new() };
        tokio::time::timeout(DEADLINE, apart.read()).await.expect("all are ready in time");
        apart
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

    async fn ask(&self, slot: usize, request: &str) -> String {
        let address = self.addresses[slot].parse().expect("an address");
        Client::connect(address).await.ask(request).await
    }

    async fn workers_end(&self) {
        let started = Instant::now();
        while !self.pids.iter().all(|&pid| has_ended(pid)) {
            assert!(started.elapsed() < DEADLINE, "some of {:?} live on", self.pids);
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn when_the_supervisor_is_killed_its_workers_drain() {
    let mut apart = Apart::serving(Command::new(PROGRAM).arg("3")).await;
    assert_eq!(apart.ask(1, "who").await, format!("1 {}", apart.pids[1]));
    kill_9(apart.supervisor.id().expect("it starts"));
    apart.supervisor.wait().await.expect("its end");
    apart.workers_end().await;
}

#[tokio::test]
async fn sixty_four_workers_are_linked_within_few_descriptors() {
    // 2,016 links are 8,064 descriptors.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 400 && exec \"$0\" 64", PROGRAM]);
    let mut apart = Apart::serving(&mut command).await;
    for slot in 0..64 {
        until(&others(slot, &apart.pids), || apart.ask(slot, "received")).await;
    }
    let supervisor = apart.supervisor.id().expect("it starts");
    let open = std::fs::read_dir(format!("/proc/{supervisor}/fd")).expect("its descriptors");
    // For each worker a listener, a line and its process.
    assert!(open.count() < 64 * 3 + 20, "the supervisor keeps what it gave away");

    signal(supervisor, Signal::TERM);
    let status = apart.supervisor.wait().await.expect("its end");
    assert!(status.success(), "{status}");
    apart.workers_end().await;
}

#[tokio::test]
async fn the_variable_alone_does_not_make_a_program_a_worker() {
    let output = tokio::process::Command::new(PROGRAM)
        .env(watchfire_workers::CONTROL_VARIABLE, "stdin")
        .stdin(Stdio::null())
        .output()
        .await
        .expect("it runs");
    assert!(!output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "WATCHFIRE_SUPERVISOR is set, but standard input does not lead to a supervisor\n"
    );
}

#[test]
fn a_plan_that_does_not_fit_is_refused() {
    let plan = |workers, lists: usize| watchfire_workers::Plan {
        workers,
        listeners: (0..lists).map(|_| Vec::new()).collect(),
        startup_data: Vec::new(),
        command: Box::new(|_| Command::new(PROGRAM)),
        events: Box::new(|_| {}),
        limits: limits(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for (workers, lists, error) in [
        (0, 0, "0 workers: between 1 and 256 are possible"),
        (257, 257, "257 workers: between 1 and 256 are possible"),
        (3, 2, "listeners for 2 workers were given to 3"),
    ] {
        let never = std::future::pending::<()>;
        let outcome =
            runtime.block_on(watchfire_workers::supervise(plan(workers, lists), never(), never()));
        assert_eq!(outcome.expect_err("refused").to_string(), error);
    }
}
