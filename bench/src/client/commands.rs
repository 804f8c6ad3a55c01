use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The transport of a socket, and the topics it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Phoenix over a websocket, in one topic.
    Websocket,
    /// The same in three topics, and tracked in one of them.
    ThreeTopics,
    /// Socket.IO over a websocket, in one room.
    SocketIo,
    /// Phoenix by long polls, in one topic.
    LongPoll,
}

/// One line on the client's stdin. Each is answered by one [`Outcome`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Open this many sockets and join each to the room. A long poll then waits in its GET.
    Open { server: SocketAddr, transport: Transport, sockets: usize },
    /// Push the message on the first socket, and wait until every socket has received it once.
    Broadcast,
    /// Send a heartbeat on every socket, wait for every response.
    Heartbeat,
    /// Close every socket, half of them with a close frame, half without one.
    Close,
}

/// One line on the client's stdout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done {
        /// From the command to the first socket done, in microseconds.
        first_us: u64,
        /// From the command to the last socket done, in microseconds.
        last_us: u64,
    },
    Failed(String),
}

/// Parses commands as they arrive in pieces.
#[derive(Default)]
pub struct CommandReader(Vec<u8>);

impl CommandReader {
    /// Add received bytes; returns the commands that are now complete.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<serde_json::Result<Command>> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.0.split_off(end + 1);
        let lines = std::mem::replace(&mut self.0, rest);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(serde_json::from_slice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_two_pieces_is_parsed_once() {
        let mut commands = CommandReader::default();
        assert!(commands.receive(b"{\"command\":\"bro").is_empty());
        let received = commands.receive(b"adcast\"}\n{\"or");
        assert_eq!(
            received.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
            [Command::Broadcast]
        );
    }
}
