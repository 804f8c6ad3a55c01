//! A request's head, and what becomes of its connection.

use std::net::SocketAddr;

use bytes::Bytes;
use http::StatusCode;
use vocab::{NodeId, ShardId, SocketId};

use super::Shard;
use crate::frame::Decoder;
use crate::head::{BodyLength, HeadError, HeadSlots, RequestHead, accept_key};
use crate::http::Loan;
use crate::parcel::{Moved, Parcel, Taker};
use crate::record::State;
use crate::tenant::{Route, Tenant};

/// How often a connection may be moved for one request.
const HOPS_MAX: u8 = 4;

/// What a request's head came to. It borrows nothing, so that the bytes can go on.
enum Verdict<T> {
    /// Its end is missing.
    Unfinished,
    Unreadable(HeadError),
    /// Its client is gone already.
    Gone,
    Http {
        head_len: usize,
        body: BodyLength,
        peer: SocketAddr,
    },
    Move(ShardId),
    Away(NodeId),
    Refuse {
        status: u16,
        reason: &'static str,
    },
    Upgrade {
        head_len: usize,
        ticket: T,
    },
    Park {
        head_len: usize,
        keeps_alive: bool,
        ticket: T,
    },
}

impl<T: Tenant> Shard<T> {
    /// Take the head at the front of `bytes`. Returns how many of them are used: all of them when
    /// the rest went along with the head, or counts no more.
    pub(super) fn feed_head(&mut self, id: SocketId, bytes: &[u8], is_first: bool) -> usize {
        match self.judge(id, bytes) {
            Verdict::Unfinished => self.hold(id, bytes, is_first),
            Verdict::Unreadable(error) => self.refuse_head(id, error),
            Verdict::Gone => self.sockets.hang_up(id),
            Verdict::Http { head_len, body, peer } => self.lend(id, bytes, head_len, body, peer),
            Verdict::Move(shard) => self.move_to(id, shard, bytes),
            Verdict::Away(node) => self.hand_over(id, node, bytes),
            Verdict::Refuse { status, reason } => {
                self.sockets.count().refusals.add(1);
                self.refuse(id, status, reason);
            }
            Verdict::Upgrade { head_len, ticket } => {
                self.open(id, ticket);
                return head_len;
            }
            Verdict::Park { head_len, keeps_alive, ticket } => {
                self.park(id, keeps_alive, ticket);
                return head_len;
            }
        }
        bytes.len()
    }

    fn judge(&mut self, id: SocketId, bytes: &[u8]) -> Verdict<T::Ticket> {
        let mut slots = HeadSlots::default();
        let head_bytes_max = self.threads.limits.head_bytes_max;
        let (head, head_len) = match RequestHead::parse(bytes, &mut slots) {
            Ok(Some((_, len))) if len > head_bytes_max => {
                return Verdict::Unreadable(HeadError::TooLarge);
            }
            Ok(Some(parsed)) => parsed,
            Ok(None) if bytes.len() > head_bytes_max => {
                return Verdict::Unreadable(HeadError::TooLarge);
            }
            Ok(None) => return Verdict::Unfinished,
            Err(error) => return Verdict::Unreadable(error),
        };
        let body = match head.body_length() {
            Ok(body) => body,
            Err(error) => return Verdict::Unreadable(error),
        };
        if self.sockets.is_draining {
            return Verdict::Refuse { status: 503, reason: "the server restarts" };
        }
        let Some(peer) = self.sockets.peer(id) else {
            return Verdict::Gone;
        };
        match self.tenant.route(self.sockets.now(), peer, &head) {
            Route::Http => Verdict::Http { head_len, body, peer },
            Route::Move(shard) => Verdict::Move(shard),
            Route::Away(node) => Verdict::Away(node),
            Route::Refuse { status, body } => Verdict::Refuse { status, reason: body },
            Route::Upgrade { protocol, ticket } => match head.websocket_key() {
                Err(refusal) => {
                    Verdict::Refuse { status: refusal.status(), reason: refusal.reason() }
                }
                Ok(key) => {
                    put_handshake(key, protocol.as_deref(), &mut self.handshake);
                    Verdict::Upgrade { head_len, ticket }
                }
            },
            Route::Park { .. } if head.method() != "GET" || body != BodyLength::Bytes(0) => {
                Verdict::Refuse { status: 400, reason: "only a GET without a body can wait" }
            }
            Route::Park { ticket } => {
                Verdict::Park { head_len, keeps_alive: head.keeps_alive(), ticket }
            }
        }
    }

    fn open(&mut self, id: SocketId, ticket: T::Ticket) {
        if !self.sockets.write_handshake(id, &self.handshake) {
            return;
        }
        let tick = self.sockets.tick;
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        record.state = State::Open(Decoder::default());
        record.seen = tick;
        self.sockets.opened();
        let key = self.tenant.open(&mut self.sockets, id, ticket);
        self.keyed(id, key);
    }

    fn park(&mut self, id: SocketId, keeps_alive: bool, ticket: T::Ticket) {
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        record.state = State::Parked { held: None, keeps_alive };
        self.sockets.was_parked();
        let key = self.tenant.park(&mut self.sockets, id, ticket);
        self.keyed(id, key);
    }

    fn keyed(&mut self, id: SocketId, key: u32) {
        if let Some(record) = self.sockets.slab.get_mut(id) {
            record.key = key;
        }
        self.settle();
    }

    fn lend(
        &mut self,
        id: SocketId,
        bytes: &[u8],
        head_len: usize,
        body: BodyLength,
        peer: SocketAddr,
    ) {
        if let Some(released) = self.sockets.release(id) {
            self.lender.lend(Loan {
                fd: released.fd,
                bytes: bytes.to_vec(),
                head_len,
                body,
                peer,
                pair_peer: released.pair_peer,
                place: released.place,
            });
        }
    }

    /// Send a connection to another shard, with all that was read of it.
    fn move_to(&mut self, id: SocketId, shard: ShardId, bytes: &[u8]) {
        let is_elsewhere = shard != self.threads.shard && self.hops < HOPS_MAX;
        let mover = self.threads.movers.get(usize::from(shard.0)).filter(|_| is_elsewhere);
        let Some(mover) = mover else {
            tracing::error!(shard = shard.0, "a tenant moves a connection in circles");
            return self.refuse(id, 500, "no shard wants this request");
        };
        let Ok(permit) = mover.clone().try_reserve_owned() else {
            return self.refuse(id, 503, "the server is busy");
        };
        if let Some(released) = self.sockets.release(id) {
            self.sockets.count().moves.add(1);
            let parcel = Parcel {
                fd: released.fd,
                bytes: bytes.to_vec(),
                pair_peer: released.pair_peer,
                hops: self.hops + 1,
                declined: 0,
            };
            permit.send(Moved { parcel, is_adopted: false });
        }
    }

    /// Hand a connection over to another process, with all that was read of it.
    fn hand_over(&mut self, id: SocketId, to: NodeId, bytes: &[u8]) {
        if self.hops >= HOPS_MAX {
            tracing::error!(%to, "processes hand a connection over in circles");
            return self.refuse(id, 500, "no process wants this request");
        }
        let Some(released) = self.sockets.release(id) else { return };
        let parcel = Parcel {
            fd: released.fd,
            bytes: bytes.to_vec(),
            pair_peer: released.pair_peer,
            hops: self.hops + 1,
            declined: 0,
        };
        let Err(parcel) = self.tenant.hand_over(Taker::Owner(to), parcel) else {
            self.sockets.count().hand_overs.add(1);
            return;
        };
        match self.sockets.adopt(parcel.fd, parcel.pair_peer, true, released.place) {
            Ok(id) => self.refuse(id, 503, "the server is busy"),
            Err(error) => tracing::warn!(%error, "a connection was not taken back"),
        }
    }

    /// Answer with a status and one line, and end the connection.
    pub(super) fn refuse(&mut self, id: SocketId, status: u16, reason: &str) {
        self.sockets.answer_and_end(id, &[refusal(status, reason)]);
    }
}

/// Put the answer to a sound websocket handshake, in place of what is there.
fn put_handshake(key: &str, protocol: Option<&str>, response: &mut Vec<u8>) {
    response.clear();
    response.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
          sec-websocket-accept: ",
    );
    response.extend_from_slice(&accept_key(key));
    response.extend_from_slice(b"\r\n");
    // A protocol with a control character in it would write headers of its own.
    if let Some(protocol) = protocol.filter(|name| !name.bytes().any(|b| b.is_ascii_control())) {
        response.extend_from_slice(b"sec-websocket-protocol: ");
        response.extend_from_slice(protocol.as_bytes());
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"\r\n");
}

fn refusal(status: u16, reason: &str) -> Bytes {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let name = status.canonical_reason().unwrap_or("Refused");
    let version = match status {
        StatusCode::UPGRADE_REQUIRED => {
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        }
        _ => "",
    };
    let line_end = if reason.is_empty() { "" } else { "\n" };
    format!(
        "HTTP/1.1 {} {name}\r\nconnection: close\r\n{version}\
         content-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\r\n{reason}{line_end}",
        status.as_u16(),
        reason.len() + line_end.len(),
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_refusal_is_a_whole_response() {
        let response = refusal(403, "not from there");
        assert!(text(&response).starts_with("HTTP/1.1 403 Forbidden\r\n"));
        assert!(text(&response).ends_with("content-length: 15\r\n\r\nnot from there\n"));
        assert!(text(&refusal(403, "")).ends_with("content-length: 0\r\n\r\n"));
    }

    #[test]
    fn another_version_is_told_ours() {
        assert!(text(&refusal(426, "")).contains("\r\nsec-websocket-version: 13\r\n"));
    }

    #[test]
    fn a_protocol_cannot_smuggle_a_header_in() {
        let handshake = |protocol| {
            let mut response = b"what was there".to_vec();
            put_handshake("dGhlIHNhbXBsZSBub25jZQ==", Some(protocol), &mut response);
            String::from_utf8(response).unwrap()
        };
        assert!(!handshake("phoenix\r\nset-cookie: a=b").contains("set-cookie"));
        assert!(handshake("phoenix").contains("\r\nsec-websocket-protocol: phoenix\r\n"));
        assert!(handshake("phoenix").starts_with("HTTP/1.1 101 "));
    }
}
