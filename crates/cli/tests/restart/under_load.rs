//! A restart while many clients are connected.
//!
//! `make test-restart` runs it with 18,000 sockets and 1,000 polls, and prints the figures of
//! docs/how-to/upgrade.md.

use std::env;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use watchfire_testkit::is_running;

use crate::server::{Installation, Prober};

/// The time for all clients to be back, in addition to the drain period.
const RETURN_MARGIN: Duration = Duration::from_secs(30);
/// Sockets with one client address: each address has few ports.
const SOCKETS_PER_ADDRESS: u64 = 5_000;
/// Sockets that connect at the same time.
const OPENING_MAX: usize = 256;

#[derive(Default)]
struct Counts {
    /// WebSockets that are joined now, and polls that are parked now.
    joined: AtomicU64,
    parked: AtomicU64,
    /// Closes with 1012, and ends of any other kind.
    restarted: AtomicU64,
    broken: AtomicU64,
    /// Polls that were answered because of the drain.
    answered: AtomicU64,
    /// Connects that the system refused, and attempts that failed later.
    refused: AtomicU64,
    failed: AtomicU64,
    /// Clients that have returned after the restart.
    back: AtomicU64,
}

impl Counts {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn fail(&self, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Counts::add(&self.refused),
            _ => Counts::add(&self.failed),
        }
    }
}

fn size(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn all_clients_return_within_the_drain_period_and_no_connect_is_refused() {
    let (sockets, polls) = (size("RESTART_SOCKETS", 500), size("RESTART_POLLS", 50));
    let seconds = size("RESTART_DRAIN_SECONDS", 3);
    watchfire::raise_open_file_limit().expect("a higher limit");
    let installation = Installation::new();
    let drain = format!("server.drain_period={seconds}s");
    let per_address = "limits.sockets_per_address_max=100000";
    let arguments = ["--processes", "2", "--set", &drain, "--set", per_address];
    let mut server = installation.serve(&arguments);
    let address = server.address;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let counts = Arc::new(Counts::default());
    let opening = Arc::new(tokio::sync::Semaphore::new(OPENING_MAX));
    for number in 0..sockets {
        let (counts, opening) = (counts.clone(), opening.clone());
        runtime.spawn(async move {
            let mut is_back = false;
            loop {
                let joined = {
                    let _permit = opening.acquire().await.expect("it is never closed");
                    join(address, number).await
                };
                match joined {
                    Ok(connection) => {
                        Counts::add(&counts.joined);
                        if is_back {
                            Counts::add(&counts.back);
                        }
                        let is_restart = closed_with_1012(connection).await;
                        counts.joined.fetch_sub(1, Ordering::Relaxed);
                        if std::mem::replace(&mut is_back, true) {
                            counts.back.fetch_sub(1, Ordering::Relaxed);
                        }
                        Counts::add(if is_restart { &counts.restarted } else { &counts.broken });
                    }
                    Err(error) => counts.fail(&error),
                }
                // As phoenix.js: at first after 10 ms.
                tokio::time::sleep(Duration::from_millis(5 + number % 11)).await;
            }
        });
    }
    for number in 0..polls {
        let (counts, opening) = (counts.clone(), opening.clone());
        runtime.spawn(async move {
            loop {
                let opened = {
                    let _permit = opening.acquire().await.expect("it is never closed");
                    open_session(address, number).await
                };
                match opened {
                    Ok(token) => poll_until_ended(address, number, &token, &counts).await,
                    Err(error) => counts.fail(&error),
                }
                tokio::time::sleep(Duration::from_millis(5 + number % 11)).await;
            }
        });
    }
    let wait = |what: &str, limit: Duration, holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() {
            let at = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            assert!(
                began.elapsed() < limit,
                "never {what}: {} of {sockets} joined, {} of {polls} parked, {} back, {} refused, {} failed\n{}",
                at(&counts.joined),
                at(&counts.parked),
                at(&counts.back),
                at(&counts.refused),
                at(&counts.failed),
                server.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        began.elapsed()
    };
    let at = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let all_are_here = || at(&counts.joined) == sockets && at(&counts.parked) == polls;
    wait("all joined", Duration::from_secs(120), &all_are_here);
    assert_eq!((at(&counts.refused), at(&counts.failed)), (0, 0));

    let prober = Prober::start(address);
    let old = server.pid;
    let began = Instant::now();
    server.signal("-USR2");
    let new: u32 = server.notified("MAINPID=").parse().expect("a process id");
    let until_ready = began.elapsed();
    let limit = Duration::from_secs(seconds) + RETURN_MARGIN;
    let until_back = wait("all back", limit, &|| at(&counts.back) == sockets && all_are_here());
    let until_ended = wait("the old server ended", limit, &|| !is_running(old)) + until_back;
    server.pid = new;
    let probes = prober.count();
    println!(
        "{sockets} sockets and {polls} parked polls in 2 processes, drain period {seconds} s:\n\
         the new program was ready after {until_ready:.2?}; counted from then, all were back after \
         {until_back:.2?} and the old program had ended after {until_ended:.2?}\n\
         closed with 1012: {}; ended otherwise: {}; polls answered: {}\n\
         connects refused: {}; other failures: {}; requests of the prober, all answered: {probes}",
        at(&counts.restarted),
        at(&counts.broken),
        at(&counts.answered),
        at(&counts.refused),
        at(&counts.failed),
    );
    assert_eq!(at(&counts.refused), 0);
    assert_eq!(at(&counts.failed), 0);
    assert_eq!(at(&counts.broken), 0);
    assert!(at(&counts.restarted) >= sockets && at(&counts.answered) >= polls);
    drop(runtime);
    server.stop();
}

/// Connects from an address of the client's own group.
async fn connect(address: SocketAddr, number: u64) -> io::Result<TcpStream> {
    let group = u8::try_from(number / SOCKETS_PER_ADDRESS + 1).expect("few addresses");
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 1, 0, group], 0)))?;
    socket.connect(address).await
}

/// Opens a WebSocket and joins a room.
async fn join(address: SocketAddr, number: u64) -> io::Result<WebSocketStream<TcpStream>> {
    let connection = connect(address, number).await?;
    let url = format!("ws://{address}/socket/websocket?vsn=2.0.0");
    let small = WebSocketConfig::default().read_buffer_size(1 << 10);
    let opened = client_async_with_config(url, connection, Some(small)).await;
    let (mut socket, _) = opened.map_err(io::Error::other)?;
    let join = json!(["1", "1", format!("rooms:{}", number % 100), "phx_join", {}]);
    socket.send(Message::text(join.to_string())).await.map_err(io::Error::other)?;
    while let Some(message) = socket.next().await {
        match message.map_err(io::Error::other)? {
            Message::Text(text) if text.contains("phx_reply") => return Ok(socket),
            // Closed by a drain that began while it joined: the next attempt finds the new server.
            Message::Close(frame) => return Err(io::Error::other(format!("closed: {frame:?}"))),
            _ => {}
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Waits for the end of a WebSocket; true if the server closed it with 1012.
async fn closed_with_1012(mut socket: WebSocketStream<TcpStream>) -> bool {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Close(frame) = message {
            return frame.is_some_and(|frame| frame.code == CloseCode::Restart);
        }
    }
    false
}

/// Sends a long-poll request, and returns the JSON of its answer.
async fn request(address: SocketAddr, number: u64, request: &str) -> io::Result<Value> {
    let mut connection = connect(address, number).await?;
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|_| io::Error::other(response))
}

/// Opens a long-poll session and joins a room. Returns its token.
async fn open_session(address: SocketAddr, number: u64) -> io::Result<String> {
    const TAIL: &str = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let path = "/socket/longpoll?vsn=2.0.0";
    let opened = request(address, number, &format!("GET {path} {TAIL}\r\n")).await?;
    let token = opened["token"].as_str().ok_or_else(|| io::Error::other(opened.to_string()))?;
    let body = json!(["1", "1", format!("rooms:{}", number % 100), "phx_join", {}]).to_string();
    let join = format!(
        "POST {path}&token={token} {TAIL}content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let joined = request(address, number, &join).await?;
    // 410: the session was opened at the old server, which has ended it.
    match joined["status"].as_u64() {
        Some(200 | 410) => Ok(token.to_owned()),
        _ => Err(io::Error::other(joined.to_string())),
    }
}

async fn poll_until_ended(address: SocketAddr, number: u64, token: &str, counts: &Counts) {
    loop {
        let poll = format!(
            "GET /socket/longpoll?vsn=2.0.0&token={token} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        );
        Counts::add(&counts.parked);
        let answer = request(address, number, &poll).await;
        counts.parked.fetch_sub(1, Ordering::Relaxed);
        match answer {
            Ok(answer) if matches!(answer["status"].as_u64(), Some(200 | 204)) => {}
            Ok(_) => return Counts::add(&counts.answered),
            Err(error) => return counts.fail(&error),
        }
    }
}
