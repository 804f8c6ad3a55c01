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

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::server::{Installation, Prober, is_alive};

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
    let until_ended = wait("the old server ended", limit, &|| !is_alive(old)) + until_back;
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
async fn join(address: SocketAddr, number: u64) -> io::Result<TcpStream> {
    let mut connection = connect(address, number).await?;
    connection
        .write_all(
            b"GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
              upgrade: websocket\r\nsec-websocket-version: 13\r\n\
              sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await?;
    let head = read_head(&mut connection).await?;
    if !head.starts_with("HTTP/1.1 101") {
        return Err(io::Error::other(head));
    }
    let topic = format!("rooms:{}", number % 100);
    let text = json!(["1", "1", topic, "phx_join", {}]).to_string();
    // A masked text frame; the mask is zero.
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).expect("a short text")];
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    connection.write_all(&frame).await?;
    loop {
        let (opcode, payload) = read_frame(&mut connection).await?;
        match opcode {
            0x81 if String::from_utf8_lossy(&payload).contains("phx_reply") => {
                return Ok(connection);
            }
            // Closed by a drain that began while it joined: the next attempt finds the new server.
            0x88 => return Err(io::Error::other(format!("closed: {payload:?}"))),
            _ => {}
        }
    }
}

/// Waits for the end of a WebSocket; true if the server closed it with 1012.
async fn closed_with_1012(mut connection: TcpStream) -> bool {
    loop {
        match read_frame(&mut connection).await {
            Ok((0x88, payload)) => return payload.starts_with(&1012u16.to_be_bytes()),
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

async fn read_frame(connection: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let opcode = connection.read_u8().await?;
    let len = match connection.read_u8().await? {
        126 => usize::from(connection.read_u16().await?),
        len => usize::from(len),
    };
    let mut payload = vec![0; len];
    connection.read_exact(&mut payload).await?;
    Ok((opcode, payload))
}

async fn read_head(connection: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
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
