//! Directs all datagrams of one address to the same process.

use std::io;

use nix::libc::{self, sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};

/// An odd number that spreads nearby addresses (2^32 divided by the golden ratio).
const SPREAD: u32 = 0x9e37_79b1;

/// Makes the kernel choose among `sockets` sockets that share this one's port, by the address from
/// which a datagram comes (of IPv6, by the network of 64 bits). So one of the processes counts all
/// answers to an address. While fewer sockets are open, the kernel's own hash may decide.
pub(crate) fn steer(socket: &std::net::UdpSocket, sockets: u32) -> io::Result<()> {
    let mut program = program(sockets);
    let len = program.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = sock_fprog { len, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

/// A BPF program that returns the number of a socket.
fn program(sockets: u32) -> Vec<sock_filter> {
    const BYTE_AT: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const WORD_AT: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const SHIFT: u32 = libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K;
    const MULTIPLY: u32 = libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K;
    const MODULO: u32 = libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K;
    const ADD_X: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X;
    const COPY_TO_X: u32 = libc::BPF_MISC | libc::BPF_TAX;
    const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
    const RETURN_A: u32 = libc::BPF_RET | libc::BPF_A;
    /// Byte 0 of the IP header.
    const IP_HEADER: u32 = libc::SKF_NET_OFF as u32;

    let step = |code: u32, k| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let unless_equal = |k, skip| sock_filter { jf: skip, ..step(JUMP_IF_EQUAL, k) };
    vec![
        step(BYTE_AT, IP_HEADER),
        step(SHIFT, 4),
        unless_equal(6, 6),
        // IPv6: the first 64 bits of the source.
        step(WORD_AT, IP_HEADER + 8),
        step(MULTIPLY, SPREAD),
        step(COPY_TO_X, 0),
        step(WORD_AT, IP_HEADER + 12),
        step(ADD_X, 0),
        step(JUMP, 1),
        // IPv4: the source.
        step(WORD_AT, IP_HEADER + 12),
        step(MULTIPLY, SPREAD),
        step(SHIFT, 16),
        step(MODULO, sockets.max(1)),
        step(RETURN_A, 0),
    ]
}
