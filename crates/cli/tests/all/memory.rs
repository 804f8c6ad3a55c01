//! The memory of `watchfire serve` after a crowd has left.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use watchfire_testkit::{DEADLINE, UPGRADE, eventually, text_frame};

use crate::support::Listening;

/// Sockets of the crowd, and topics that each of them joins. More topics stand for more sockets.
const SOCKETS: usize = 4_000;
const TOPICS: usize = 45;

struct Server(Listening);

impl Server {
    fn start() -> Self {
        let settings = [
            "channels.open_rooms=true",
            "admin.listen=[]",
            "stun.enabled=false",
            "server.shards=2",
        ];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        Server(Listening::start(&["serve"].into_iter().chain(settings).collect::<Vec<_>>()))
    }

    fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.0.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Opens a WebSocket, joins its topics, and waits for the replies.
    fn join(&self, number: usize, topics: usize) -> TcpStream {
        let mut stream = TcpStream::connect(self.0.address()).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        let mut bytes = format!("{UPGRADE}host: localhost\r\n\r\n").into_bytes();
        for topic in 0..topics {
            let text = format!(r#"["{topic}","{topic}","rooms:{number}-{topic}","phx_join",{{}}]"#);
            bytes.extend(text_frame(&text));
        }
        stream.write_all(&bytes).expect("the joins are sent");
        let (mut received, mut buffer) = (Vec::new(), [0; 8192]);
        let ok = br#""status":"ok""#;
        while received.windows(ok.len()).filter(|part| part == ok).count() < topics {
            let read = stream.read(&mut buffer).expect("the replies arrive");
            assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&received));
            received.extend(&buffer[..read]);
        }
        stream
    }
}

#[test]
fn the_memory_of_a_crowd_returns_to_the_system_when_it_has_left() {
    watchfire::raise_open_file_limit().expect("the limit can be raised");
    let server = Server::start();
    drop(server.join(0, 1));
    let start = server.resident_kib();
    let limit = start + start / 5;

    let crowd: Vec<TcpStream> = (1..=SOCKETS).map(|number| server.join(number, TOPICS)).collect();
    let most = server.resident_kib();
    assert!(most > limit, "the crowd takes memory: {most} KiB after {start} KiB");
    // A few stay: they must not keep the memory of the others.
    let _stays: Vec<TcpStream> = crowd.into_iter().step_by(500).collect();

    let again = format!("{most} KiB are at most {limit} KiB again, as at first {start} KiB");
    eventually(&again, || server.resident_kib() <= limit);
}
