//! Sends every message back. `make outside` lets the Autobahn test suite judge it.
//!
//! `cargo run -p watchfire-sockets --example echo -- PORT`; with port 0 or none the system chooses one.

use std::net::SocketAddr;

use watchfire_sockets::{
    CloseCause, RequestHead, Route, SocketHandler, SocketLimits, SocketServerSettings, Sockets,
    frame,
};
use watchfire_types::{Instant, SocketId};

/// The largest message of the suite has 16 MiB.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

struct Echo;

impl SocketHandler for Echo {
    type Ticket = ();
    type Message = ();

    fn route(&mut self, _: Instant, _: SocketAddr, head: &RequestHead<'_>) -> Route<()> {
        match head.websocket_key() {
            Ok(_) => Route::Upgrade { protocol: None, ticket: () },
            Err(_) => Route::Http,
        }
    }

    fn handle_open(&mut self, _: &mut Sockets, _: SocketId, _ticket: ()) -> u32 {
        0
    }

    fn handle_park(&mut self, _: &mut Sockets, _: SocketId, _ticket: ()) -> u32 {
        unreachable!("no request is parked")
    }

    fn handle_text(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, text: &str) {
        // A socket that closes takes no more messages.
        let _ = sockets.send(socket, &frame::text_frame(text.as_bytes()));
    }

    fn handle_binary(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, bytes: &[u8]) {
        let _ = sockets.send(socket, &frame::binary_frame(bytes));
    }

    fn handle_close(&mut self, _: &mut Sockets, _: SocketId, _: u32, _: CloseCause) {}

    fn handle_message(&mut self, _: &mut Sockets, _message: ()) {}

    fn handle_tick(&mut self, _: &mut Sockets, _: Instant) {}

    fn run_pending_work(&mut self, _: &mut Sockets) -> bool {
        false
    }

    fn handle_drain(&mut self, _: &mut Sockets) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let limits = SocketLimits {
        message_bytes_max: MESSAGE_BYTES_MAX,
        queued_bytes_max: 2 * MESSAGE_BYTES_MAX,
        partial_bytes_max: 2 * MESSAGE_BYTES_MAX,
        ..SocketLimits::default()
    };
    let settings = SocketServerSettings {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], port))],
        shards: 1,
        limits,
        ..SocketServerSettings::default()
    };
    let server = watchfire_sockets::start(settings, axum::Router::new(), |_, _| Echo)?;
    println!("echo listens on ws://{}", server.local_addr());
    loop {
        std::thread::park();
    }
}
