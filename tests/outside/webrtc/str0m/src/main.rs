//! One WebRTC connection of the crate str0m. Standard input has a command in each line, and standard output an event:
//!
//! | command | event |
//! |---|---|
//! | `{"offer": "call" or "restart"}` | `{"sdp": text}` |
//! | `{"answer_to": sdp}` | `{"sdp": text}` |
//! | `{"answered": sdp}`, `{"candidate": text}` | |
//! | `{"send": bytes in base64}` | |
//! | | `{"state": "open" or "close"}`, `{"frame": bytes in base64}` |
//!
//! The end of the input closes the connection, and ends the program.

use std::collections::VecDeque;
use std::io::{BufRead as _, ErrorKind};
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use str0m::change::{SdpAnswer, SdpOffer, SdpPendingOffer};
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

type AnyError = Box<dyn std::error::Error>;

/// The longest wait for a datagram while a command may come.
const TURN: Duration = Duration::from_millis(5);
const DATAGRAM_BYTES_MAX: usize = 2000;

struct Connection {
    rtc: Rtc,
    socket: UdpSocket,
    pending: Option<SdpPendingOffer>,
    channel: Option<ChannelId>,
    /// Frames that the connection has not taken yet.
    unsent: VecDeque<Vec<u8>>,
}

fn show(event: Value) {
    println!("{event}");
}

/// Negotiated in advance, as the protocol of pages says.
fn channel_config() -> ChannelConfig {
    ChannelConfig { label: "watchfire".into(), negotiated: Some(0), ..ChannelConfig::default() }
}

impl Connection {
    fn new() -> Result<Connection, AnyError> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let mut rtc = Rtc::new(Instant::now());
        rtc.add_local_candidate(Candidate::host(socket.local_addr()?, "udp")?);
        Ok(Connection { rtc, socket, pending: None, channel: None, unsent: VecDeque::new() })
    }

    fn handle_command(&mut self, line: &str) -> Result<(), AnyError> {
        let command: Value = serde_json::from_str(line)?;
        let text = |name: &str| command[name].as_str();
        if let Some(kind) = text("offer") {
            let mut changes = self.rtc.sdp_api();
            match kind {
                "restart" => drop(changes.ice_restart(true)),
                _ => drop(changes.add_channel_with_config(channel_config())),
            }
            let (offer, pending) = changes.apply().ok_or("nothing to offer")?;
            self.pending = Some(pending);
            show(json!({ "sdp": offer.to_sdp_string() }));
        } else if let Some(sdp) = text("answer_to") {
            let answer = self.rtc.sdp_api().accept_offer(SdpOffer::from_sdp_string(sdp)?)?;
            let mut changes = self.rtc.sdp_api();
            changes.add_channel_with_config(channel_config());
            // The offer has the section for data already: no other is needed.
            changes.apply();
            show(json!({ "sdp": answer.to_sdp_string() }));
        } else if let (Some(sdp), Some(pending)) = (text("answered"), self.pending.take()) {
            self.rtc.sdp_api().accept_answer(pending, SdpAnswer::from_sdp_string(sdp)?)?;
        } else if let Some(candidate) = text("candidate") {
            // Those that str0m does not know, such as TCP, are left out.
            if let Ok(candidate) = Candidate::from_sdp_string(candidate) {
                self.rtc.add_remote_candidate(candidate);
            }
        } else if let Some(frame) = text("send") {
            self.unsent.push_back(STANDARD.decode(frame)?);
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::ChannelOpen(id, _) => {
                self.channel = Some(id);
                show(json!({ "state": "open" }));
            }
            Event::ChannelData(data) => show(json!({ "frame": STANDARD.encode(data.data) })),
            Event::ChannelClose(_) | Event::Closed => show(json!({ "state": "close" })),
            _ => {}
        }
    }

    fn send_frames(&mut self) -> Result<(), AnyError> {
        let Some(mut channel) = self.channel.and_then(|id| self.rtc.channel(id)) else {
            return Ok(());
        };
        while let Some(frame) = self.unsent.front() {
            if !channel.write(true, frame)? {
                break;
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    /// Sends what is due, and returns until when to wait.
    fn poll(&mut self) -> Result<Instant, AnyError> {
        loop {
            match self.rtc.poll_output()? {
                Output::Timeout(at) => return Ok(at),
                Output::Transmit(datagram) => {
                    // A candidate of the other side may be an address that cannot be reached from loopback.
                    let _ = self.socket.send_to(&datagram.contents, datagram.destination);
                }
                Output::Event(event) => self.handle_event(event),
            }
        }
    }

    fn receive(&mut self, until: Instant) -> Result<(), AnyError> {
        let wait =
            until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), TURN);
        self.socket.set_read_timeout(Some(wait))?;
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        match self.socket.recv_from(&mut buffer) {
            Ok((len, source)) => {
                let destination = self.socket.local_addr()?;
                if let Ok(contents) = buffer[..len].try_into() {
                    let receive = Receive { proto: Protocol::Udp, source, destination, contents };
                    self.rtc.handle_input(Input::Receive(Instant::now(), receive))?;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.rtc.handle_input(Input::Timeout(Instant::now()))?)
    }

    fn run(&mut self, commands: &Receiver<String>) -> Result<(), AnyError> {
        while self.rtc.is_alive() {
            match commands.try_recv() {
                Ok(line) => self.handle_command(&line)?,
                Err(TryRecvError::Empty) => {
                    self.send_frames()?;
                    let until = self.poll()?;
                    self.receive(until)?;
                }
                Err(TryRecvError::Disconnected) => {
                    self.rtc.close()?;
                    while self.rtc.is_alive() {
                        let until = self.poll()?;
                        self.receive(until)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), AnyError> {
    str0m::crypto::from_feature_flags().install_process_default();
    let (sender, commands) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Connection::new()?.run(&commands)
}
