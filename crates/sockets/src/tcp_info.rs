//! The kernel's figures of one TCP connection.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The kernel's figures of one TCP connection (`TCP_INFO`). A figure that the kernel does not know
/// is 0. See [`crate::Sockets::tcp_info`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    pub round_trip: Duration,
    /// Segments that were sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Segments that were sent again, since the connection began.
    pub retransmits: u32,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// Bytes in the kernel's buffer that were not sent yet.
    pub unsent_bytes: u32,
    /// Bytes that the client has acknowledged.
    pub sent_bytes: u64,
    /// Bytes that the client has sent.
    pub received_bytes: u64,
}

/// The first fields of the kernel's `struct tcp_info`, from `include/uapi/linux/tcp.h`.
#[repr(C)]
#[derive(Default)]
struct Raw {
    bytes: [u8; 8],
    /// From `tcpi_rto` to `tcpi_total_retrans`.
    words: [u32; 24],
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
}

/// The positions of fields in [`Raw::words`].
const UNACKED: usize = 4;
const RTT: usize = 15;
const SND_CWND: usize = 18;
const TOTAL_RETRANS: usize = 23;

impl TcpInfo {
    /// `None`: the socket is not one of TCP.
    pub(crate) fn of(socket: impl AsFd) -> Option<Self> {
        let mut raw = Raw::default();
        let mut len = size_of::<Raw>() as libc::socklen_t;
        // SAFETY: the pointers are valid for the call, and `len` is the size of `raw`. The kernel writes
        // at most `size_of::<Raw>()` bytes, and every pattern of bits is a valid `Raw`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut raw).cast(),
                &raw mut len,
            )
        };
        (result == 0).then(|| TcpInfo {
            round_trip: Duration::from_micros(raw.words[RTT].into()),
            unacknowledged_segments: raw.words[UNACKED],
            retransmits: raw.words[TOTAL_RETRANS],
            congestion_window: raw.words[SND_CWND],
            unsent_bytes: raw.notsent_bytes,
            sent_bytes: raw.bytes_acked,
            received_bytes: raw.bytes_received,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_kernel_counts_the_bytes_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 3000]).unwrap();
        server.read_exact(&mut [0; 3000]).unwrap();
        server.write_all(&[2; 500]).unwrap();
        client.read_exact(&mut [0; 500]).unwrap();
        // The acknowledgement of the last bytes travels with the next ones.
        client.write_all(&[1]).unwrap();
        server.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(&server).expect("a TCP socket");
        // The kernel counts the client's SYN as well.
        assert!((500..=501).contains(&info.sent_bytes), "{info:?}");
        assert_eq!(info.received_bytes, 3001);
        assert!(info.congestion_window > 0 && info.round_trip > Duration::ZERO, "{info:?}");
        assert_eq!((info.unsent_bytes, info.unacknowledged_segments), (0, 0), "{info:?}");
    }

    #[test]
    fn another_socket_has_none() {
        let (socket, _other) = UnixStream::pair().unwrap();
        assert_eq!(TcpInfo::of(&socket), None);
    }
}
