//! A supervisor in the test's own process, with echo workers.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use watchfire_cluster::workers::{Ended, Plan, SuperviseError, SupervisorEvent, SupervisorLimits};
use watchfire_testkit::{DEADLINE, eventually_async};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_echo-workers");

pub struct Running {
    pub addresses: Vec<SocketAddr>,
    pub pids: Vec<u32>,
    events: mpsc::UnboundedReceiver<SupervisorEvent>,
    stop: Option<oneshot::Sender<()>>,
    kill: Option<oneshot::Sender<()>>,
    outcome: JoinHandle<Result<Ended, SuperviseError>>,
}

impl Running {
    /// Starts workers, without waiting until they are ready.
    pub fn start(workers: u16, startup_data: &[u8], limits: SupervisorLimits) -> Running {
        Running::start_program(PROGRAM, workers, startup_data, limits)
    }

    pub fn start_program(
        program: &'static str,
        workers: u16,
        startup_data: &[u8],
        limits: SupervisorLimits,
    ) -> Running {
        let listeners: Vec<_> = (0..workers)
            .map(|_| TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port"))
            .collect();
        let addresses = listeners.iter().map(|it| it.local_addr().expect("an address")).collect();
        let (events_in, events) = mpsc::unbounded_channel();
        let plan = Plan {
            workers,
            listeners: listeners.into_iter().map(|it| vec![it.into()]).collect(),
            startup_data: startup_data.to_vec(),
            command: Box::new(move |_| Command::new(program)),
            events: Box::new(move |event| {
                let _ = events_in.send(event);
            }),
            links: None,
            limits,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (kill, killed) = oneshot::channel::<()>();
        let outcome = tokio::spawn(watchfire_cluster::workers::supervise(plan, stopped, killed));
        Running {
            addresses,
            pids: vec![0; usize::from(workers)],
            events,
            stop: Some(stop),
            kill: Some(kill),
            outcome,
        }
    }

    /// Starts workers and waits until all are ready.
    pub async fn serving(workers: u16, startup_data: &[u8], limits: SupervisorLimits) -> Running {
        let mut running = Running::start(workers, startup_data, limits);
        running.event("all are ready", |it| matches!(it, SupervisorEvent::AllReady)).await;
        running
    }

    /// Waits for an event, and records process ids from events before it.
    pub async fn event(&mut self, what: &str, is_it: impl Fn(&SupervisorEvent) -> bool) {
        let wait = async {
            loop {
                let event = self.events.recv().await.expect("the supervisor starts");
                if let SupervisorEvent::Started { slot, pid, .. } = event {
                    self.pids[usize::from(slot.0)] = pid;
                }
                if is_it(&event) {
                    return;
                }
            }
        };
        timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("no such event: {what}"));
    }

    /// Whether there was no event since the last one that was waited for.
    pub fn is_quiet(&self) -> bool {
        self.events.is_empty()
    }

    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub fn kill(&mut self) {
        drop(self.kill.take());
    }

    pub async fn outcome(self) -> Result<Ended, SuperviseError> {
        let outcome = timeout(DEADLINE, self.outcome).await.expect("it ends in time");
        outcome.expect("it does not panic")
    }

    /// Stops the supervisor, and checks that no process is left.
    pub async fn end(mut self) -> Ended {
        self.stop();
        let pids = self.pids.clone();
        let ended = self.outcome().await.expect("a good end");
        for pid in pids {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left");
        }
        ended
    }

    pub async fn request(&self, slot: usize, request: &str) -> String {
        Client::connect(self.addresses[slot]).await.request(request).await
    }
}

pub struct Client {
    connection: BufReader<TcpStream>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Client {
        let connection = timeout(DEADLINE, TcpStream::connect(address)).await.expect("in time");
        Client { connection: BufReader::new(connection.expect("a connection")) }
    }

    pub async fn request(&mut self, request: &str) -> String {
        self.send(request).await;
        self.receive().await
    }

    pub async fn send(&mut self, request: &str) {
        let line = format!("{request}\n");
        self.connection.write_all(line.as_bytes()).await.expect("it is sent");
    }

    pub async fn receive(&mut self) -> String {
        let mut reply = String::new();
        let read = timeout(DEADLINE, self.connection.read_line(&mut reply)).await;
        read.expect("an reply in time").expect("an reply");
        assert!(reply.ends_with('\n'), "the connection ended within {reply:?}");
        reply.trim_end().to_owned()
    }
}

/// Repeats a request until the reply is as expected.
pub async fn until<F: Future<Output = String>>(wanted: &str, mut request: impl FnMut() -> F) {
    eventually_async(&format!("the reply is {wanted:?}"), async || request().await == wanted).await;
}
