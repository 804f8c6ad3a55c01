use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::Durations;
use super::net::{Clients, ConnId, End, Net};
use super::page_content::{self, PEER_ID_BYTES, Received};
use super::sockets::put_upgrade;
use crate::message;
use crate::scale::clock::now_ns;
use crate::scale::orders::{Day, Order, Status, Wire};
use serde_json::Value;
use watchfire_content::Cid;
use watchfire_report::Snapshot;
use watchfire_types::Rng;

const TURN_NS: u64 = 100_000_000;
const HEARTBEAT_EVERY_NS: u64 = 30_000_000_000;

/// The upper bits of a timer's key are its purpose, followed by the visit's generation and slot.
const LEAVE: u64 = 1 << 60;
const HEARTBEAT: u64 = 2 << 60;
const RETRY: u64 = 4 << 60;
/// The beginnings and the end of replies; see [`Visitors::push`] and [`page_content::put_relay`].
const MORE_PEERS_REPLY: &[u8] = br#"["2","4","#;
const RELAY_REPLY: &[u8] = br#"["2","3","#;
const OK_END: &[u8] = br#"{"status":"ok","response":{}}]"#;
/// After this time without the content, a visitor requests it from another peer.
const CONTENT_TIMEOUT_NS: u64 = 2_000_000_000;

/// Visitors of a page. Each fetches the page and its files, then keeps a websocket open for its
/// stay.
#[derive(Default)]
pub struct Visitors {
    day: Option<Day>,
    started: u32,
    visits: Vec<Visit>,
    free: Vec<u32>,
    rng: Option<Rng>,
    out: Vec<u8>,
    status: Status,
    durations: Durations,
    /// The messages that load the content; `None` for a day without content.
    content: Option<Content>,
}

struct Content {
    cid: Cid,
    topic: String,
    request: Vec<u8>,
    answer: Vec<u8>,
    payload: Vec<u8>,
    out: Vec<u8>,
}

struct Visit {
    stage: Stage,
    conn: Option<ConnId>,
    due_ns: u64,
    requested_ns: u64,
    /// Number of earlier visits in this slot.
    generation: u16,
    is_holder: bool,
    /// Peers that have the content and were not asked yet.
    candidates: Vec<[u8; PEER_ID_BYTES]>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Waiting for the page, or for the asset with that index.
    Page,
    Asset(usize),
    Upgrading,
    Joining,
    /// One of the two joins was answered.
    HalfJoined,
    /// Waiting for the content.
    Loading,
    Present,
    Gone,
}

impl Clients for Visitors {
    fn handle_order(&mut self, net: &mut Net, order: &Order) -> Result<()> {
        match order {
            Order::Day(day) => {
                self.rng = Some(Rng::from_seed(u64::from(net.process())));
                self.day = Some(day.clone());
                self.content = day.with_content.then(Content::new);
                if day.with_holder {
                    self.begin(net, now_ns(), true)?;
                }
                Ok(())
            }
            Order::Close => Ok(()), // the process ends
            _ => bail!("invalid order for visitors: {order:?}"),
        }
    }

    fn connected(&mut self, net: &mut Net, conn: ConnId, owner: u32) -> Result<()> {
        let visit = &mut self.visits[owner as usize];
        if visit.stage == Stage::Upgrading {
            self.out.clear();
            put_upgrade(Wire::Phoenix.path(), &mut self.out);
            net.send(conn, &self.out);
        } else {
            let cid = &self.day.as_ref().context("no day")?.cid;
            visit.requested_ns = now_ns();
            net.send(conn, get(&format!("/p/{cid}")).as_bytes());
        }
        Ok(())
    }

    fn bytes(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        match self.visits[owner as usize].stage {
            Stage::Page | Stage::Asset(_) => self.fetched(net, conn, owner, bytes),
            Stage::Upgrading => self.upgraded(net, conn, owner, bytes),
            _ => {
                let Some(frame) = message::frame(bytes) else { return Ok(0) };
                match frame.opcode {
                    message::TEXT => self.receive_text(net, owner, frame.payload),
                    message::BINARY => self.receive_relayed(net, owner, frame.payload),
                    message::CLOSE => {
                        net.close(conn);
                        self.ended(net, owner, End::Closed)?;
                    }
                    _ => {}
                }
                Ok(frame.len)
            }
        }
    }

    fn ended(&mut self, net: &mut Net, owner: u32, end: End) -> Result<()> {
        match end {
            End::Refused => self.status.refused += 1,
            End::Closed => self.status.turned_away += 1,
            End::Reset => self.status.reset += 1,
        }
        self.visits[owner as usize].conn = None;
        self.leave(net, owner);
        Ok(())
    }

    fn timer(&mut self, net: &mut Net, due_ns: u64, key: u64) -> Result<()> {
        let (owner, generation) = (key as u32, (key >> 32) as u16);
        let visit = &self.visits[owner as usize];
        if visit.generation != generation {
            return Ok(());
        }
        if key & RETRY != 0 {
            if visit.stage == Stage::Loading {
                self.status.retries += 1;
                self.request_peers(net, owner);
            }
            return Ok(());
        }
        if visit.stage != Stage::Present {
            return Ok(());
        }
        if key & HEARTBEAT != 0 {
            self.out.clear();
            message::put_client_frame(message::TEXT, message::HEARTBEAT.as_bytes(), &mut self.out);
            if let Some(conn) = visit.conn {
                net.send(conn, &self.out);
            }
            net.set_timer(due_ns + HEARTBEAT_EVERY_NS, key);
        } else {
            self.leave(net, owner);
        }
        Ok(())
    }

    fn turned(&mut self, net: &mut Net, now_ns: u64) -> Result<u64> {
        while let Some(day) = self.day.as_ref().filter(|day| self.started < day.visits) {
            let due = day.due_ns(self.started);
            if due > now_ns {
                return Ok(due.min(now_ns + TURN_NS));
            }
            self.started += 1;
            self.begin(net, due, false)?;
        }
        Ok(now_ns + TURN_NS)
    }

    fn status(&mut self) -> &mut Status {
        &mut self.status
    }

    fn take_durations(&mut self) -> BTreeMap<String, Snapshot> {
        self.durations.take()
    }
}

impl Visitors {
    fn begin(&mut self, net: &mut Net, due_ns: u64, is_holder: bool) -> Result<()> {
        let owner = self.free.pop().unwrap_or(self.visits.len() as u32);
        let conn = net.connect(owner, owner)?;
        self.durations.record("lateness", now_ns().saturating_sub(due_ns));
        let generation =
            self.visits.get(owner as usize).map_or(0, |visit| visit.generation.wrapping_add(1));
        let (stage, conn) = (Stage::Page, Some(conn));
        let candidates = Vec::new();
        let visit =
            Visit { stage, conn, due_ns, requested_ns: due_ns, generation, is_holder, candidates };
        match self.visits.get_mut(owner as usize) {
            Some(slot) => *slot = visit,
            None => self.visits.push(visit),
        }
        Ok(())
    }

    fn fetched(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        let Some(response) = message::http_message(bytes) else { return Ok(0) };
        let visit = &mut self.visits[owner as usize];
        self.status.wrong += u64::from(!response.line.contains(" 200 "));
        let took = now_ns() - visit.requested_ns;
        let next = match visit.stage {
            Stage::Asset(number) => {
                self.durations.record("asset", took);
                number + 1
            }
            _ => {
                self.status.pages += 1;
                self.durations.record("page", took);
                0
            }
        };
        let assets = &self.day.as_ref().context("no day")?.assets;
        if let Some(path) = assets.get(next) {
            visit.stage = Stage::Asset(next);
            visit.requested_ns = now_ns();
            net.send(conn, get(path).as_bytes());
        } else {
            net.close(conn);
            visit.stage = Stage::Upgrading;
            visit.conn = Some(net.connect(owner, owner)?);
        }
        Ok(response.len)
    }

    fn upgraded(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        let Some(response) = message::http_message(bytes) else { return Ok(0) };
        if !response.line.contains(" 101 ") {
            net.close(conn);
            self.ended(net, owner, End::Closed)?;
            return Ok(response.len);
        }
        let visit = &mut self.visits[owner as usize];
        let have = if visit.is_holder { "all" } else { "none" };
        let cid = &self.day.as_ref().context("no day")?.cid;
        let page = format!(r#"["2","2","page:{cid}","phx_join",{{"have":"{have}"}}]"#);
        self.out.clear();
        message::put_client_frame(
            message::TEXT,
            br#"["1","1","site","phx_join",{}]"#,
            &mut self.out,
        );
        message::put_client_frame(message::TEXT, page.as_bytes(), &mut self.out);
        net.send(conn, &self.out);
        visit.stage = Stage::Joining;
        Ok(response.len)
    }

    fn receive_text(&mut self, net: &mut Net, owner: u32, text: &[u8]) {
        let visit = &mut self.visits[owner as usize];
        let is_page_join = text.starts_with(br#"["2","2","#);
        let is_join = is_page_join || text.starts_with(br#"["1","1","#);
        match visit.stage {
            Stage::Joining | Stage::HalfJoined if is_join => {
                if is_page_join && self.content.is_some() {
                    visit.candidates = holders(text);
                }
                if visit.stage == Stage::Joining {
                    visit.stage = Stage::HalfJoined;
                } else if self.content.is_some() && !visit.is_holder {
                    visit.stage = Stage::Loading;
                    visit.requested_ns = now_ns();
                    self.request_content(net, owner);
                } else {
                    self.arrive(net, owner);
                }
            }
            Stage::Loading if text.starts_with(MORE_PEERS_REPLY) => {
                visit.candidates = holders(text);
                self.request_content(net, owner);
            }
            Stage::Loading if text.starts_with(RELAY_REPLY) => {
                if !text.ends_with(OK_END) {
                    self.status.retries += 1;
                    self.request_content(net, owner);
                }
            }
            _ => self.status.received += u64::from(!text.starts_with(br#"["2",""#)),
        }
    }

    /// The visitor has all that it came for.
    fn arrive(&mut self, net: &mut Net, owner: u32) {
        let visit = &mut self.visits[owner as usize];
        visit.stage = Stage::Present;
        let now = now_ns();
        self.durations.record("opened", now.saturating_sub(visit.due_ns));
        self.status.present += 1;
        self.status.joins += 1;
        self.status.present_at_ns = now;
        self.status.visits += u64::from(!visit.is_holder);
        let key = visit.key(owner);
        if visit.is_holder {
            net.set_timer(now + HEARTBEAT_EVERY_NS, HEARTBEAT | key);
        } else {
            let part = self.rng.as_mut().map_or(0.5, Rng::fraction);
            let stay = self.day.as_ref().map_or(0, |day| day.stay_ns) as f64;
            net.set_timer(now + (stay * -(1.0 - part).ln()) as u64, LEAVE | key);
        }
    }

    /// Requests the content from a random peer that has it, and asks for more peers if none is left.
    fn request_content(&mut self, net: &mut Net, owner: u32) {
        let visit = &mut self.visits[owner as usize];
        let (Some(content), Some(conn), Some(rng)) = (&mut self.content, visit.conn, &mut self.rng)
        else {
            return;
        };
        net.set_timer(now_ns() + CONTENT_TIMEOUT_NS, RETRY | visit.key(owner));
        if visit.candidates.is_empty() {
            self.request_peers(net, owner);
            return;
        }
        let peer = visit.candidates.swap_remove(rng.index(visit.candidates.len()));
        content.relay(&peer, false, net, conn);
    }

    fn request_peers(&mut self, net: &mut Net, owner: u32) {
        self.push(net, owner, "4", "more_peers", "{}");
    }

    /// Pushes an event on the page's topic.
    fn push(&mut self, net: &mut Net, owner: u32, reference: &str, event: &str, payload: &str) {
        let (Some(content), Some(conn)) = (&self.content, self.visits[owner as usize].conn) else {
            return;
        };
        let topic = &content.topic;
        let text = format!(r#"["2","{reference}","{topic}","{event}",{payload}]"#);
        self.out.clear();
        message::put_client_text(&text, &mut self.out);
        net.send_or_queue(conn, &self.out);
    }

    fn receive_relayed(&mut self, net: &mut Net, owner: u32, payload: &[u8]) {
        let visit = &mut self.visits[owner as usize];
        let (Some(content), Some(conn)) = (&mut self.content, visit.conn) else { return };
        let Some((peer, received)) = page_content::relayed(payload) else { return };
        match page_content::read(received) {
            Some(Received::Request) if visit.stage == Stage::Present => {
                content.relay(&peer, true, net, conn);
            }
            Some(Received::Block(block)) if visit.stage == Stage::Loading => {
                if !content.cid.is_of(block) {
                    self.status.wrong += 1;
                    return;
                }
                self.durations.record("content", now_ns().saturating_sub(visit.requested_ns));
                self.push(net, owner, "5", "have", r#"{"have":"all"}"#);
                self.arrive(net, owner);
            }
            Some(Received::Block(_)) => self.status.duplicates += 1,
            Some(Received::Request) | None => {}
        }
    }

    fn leave(&mut self, net: &mut Net, owner: u32) {
        let visit = &mut self.visits[owner as usize];
        self.status.present -= u64::from(visit.stage == Stage::Present);
        visit.stage = Stage::Gone;
        if let Some(conn) = visit.conn.take() {
            self.out.clear();
            message::put_client_frame(message::CLOSE, &1001_u16.to_be_bytes(), &mut self.out);
            net.send(conn, &self.out);
            net.close(conn);
        }
        self.free.push(owner);
    }
}

impl Content {
    fn new() -> Self {
        let content = page_content::content();
        let cid = page_content::cid(&content);
        let (request, answer) = (page_content::request(&cid), page_content::answer(&content));
        let (payload, out) = (Vec::new(), Vec::new());
        Content { topic: format!("page:{cid}"), cid, request, answer, payload, out }
    }

    fn relay(&mut self, peer: &[u8; PEER_ID_BYTES], is_answer: bool, net: &mut Net, conn: ConnId) {
        let message = if is_answer { &self.answer } else { &self.request };
        self.payload.clear();
        self.out.clear();
        page_content::put_relay(&self.topic, peer, message, &mut self.payload);
        message::put_client_frame(message::BINARY, &self.payload, &mut self.out);
        net.send_or_queue(conn, &self.out);
    }
}

impl Visit {
    /// The part of a timer's key that names the visit.
    fn key(&self, owner: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(owner)
    }
}

/// The peers with the whole page that a reply names.
fn holders(reply: &[u8]) -> Vec<[u8; PEER_ID_BYTES]> {
    let reply: Value = serde_json::from_slice(reply).unwrap_or_default();
    let peers = reply[4]["response"]["peers"].as_array();
    let holders = peers.into_iter().flatten().filter(|peer| peer["have"] == "all");
    holders.filter_map(|peer| page_content::peer_id(peer["peer"].as_str()?)).collect()
}

impl Day {
    /// Time at which a visit is due.
    fn due_ns(&self, number: u32) -> u64 {
        let part = (f64::from(number) + 0.5) / f64::from(self.visits.max(1));
        let after = self.curve.partition_point(|reached| *reached < part);
        let steps = self.curve.len().saturating_sub(1).max(1);
        let (low, high) = match after.checked_sub(1) {
            Some(before) => (self.curve[before], self.curve.get(after).copied().unwrap_or(1.0)),
            None => (0.0, 0.0),
        };
        let within = if high > low { (part - low) / (high - low) } else { 0.0 };
        let at = (after.saturating_sub(1) as f64 + within) / steps as f64;
        self.from_ns + (at * self.lasts_ns as f64) as u64
    }
}

fn get(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nAccept-Encoding: gzip, br\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_due_along_the_curve() {
        let day = Day {
            cid: String::new(),
            assets: Vec::new(),
            visits: 100,
            curve: vec![0.0, 0.1, 1.0],
            from_ns: 1_000,
            lasts_ns: 200_000,
            stay_ns: 0,
            with_holder: false,
            with_content: false,
        };
        let due: Vec<u64> = (0..100).map(|number| day.due_ns(number)).collect();
        assert!(due.is_sorted() && due[0] >= 1_000 && due[99] <= 201_000);
        let before_noon = due.iter().filter(|at| **at < 101_000).count();
        assert_eq!(before_noon, 10);
    }
}
