//! Requests for hashes, and their answers.

use std::time::Duration;

use watchfire_fleet::{COMPLETE_LIST, Learned};

use super::{FleetMessage, KnownHashes, Simulation, Timer};
use crate::fleet::host::{HostId, Waiter};
use crate::fleet::image::Layer;

/// Hashes that become known within this time are sent together.
const HASHES_BATCH: Duration = Duration::from_millis(20);
/// Pause after an answer without hashes.
const EMPTY_PAUSE: Duration = Duration::from_millis(300);
/// Answers without hashes after which a neighbour is replaced.
const EMPTY_ANSWERS_MAX: u32 = 5;

impl Simulation<'_> {
    pub(super) fn ask_hashes(&mut self, host: HostId, layer: Layer, neighbour: HostId) {
        let Some(download) = self.host(host).downloads.get(&layer) else { return };
        let Some(state) = download.neighbours.get(&neighbour) else { return };
        let (list, after) = (state.list, state.after);
        self.send(host, neighbour, FleetMessage::AskHashes { layer, list, after });
    }

    /// Answers a request for hashes immediately, or when there are some.
    pub(super) fn answer_hashes(&mut self, host: HostId, waiter: Waiter) {
        let Waiter { host: to, layer, list, after, .. } = waiter;
        let one = &mut self.hosts[host as usize];
        let answer = match one.downloads.get(&layer) {
            Some(download) => Some(download.hashes.after(list, after)),
            None if one.is_complete(&self.image, layer) => {
                let after = if list == COMPLETE_LIST { after } else { 0 };
                let image = &self.image;
                let hash = |block| (block as u32, image.hash(image.number(layer, block)));
                Some((COMPLETE_LIST, (after..image.blocks_of(layer)).map(hash).collect()))
            }
            None => None,
        };
        if answer.as_ref().is_some_and(|(_, hashes)| hashes.is_empty()) {
            self.host(host).waiters.push(waiter);
            return self.start_ticking(host);
        }
        self.send(host, to, FleetMessage::Hashes { layer, answer });
    }

    /// Sends new hashes to the hosts that wait for them.
    pub(super) fn send_hashes(&mut self, host: HostId, layer: Layer) {
        let one = self.host(host);
        if let Some(download) = one.downloads.get_mut(&layer) {
            download.is_batching = false;
        }
        let waiters = std::mem::take(&mut one.waiters);
        for waiter in waiters {
            if waiter.layer == layer {
                self.answer_hashes(host, waiter);
            } else {
                self.host(host).waiters.push(waiter);
            }
        }
    }

    /// Takes over the hashes that a host knows, and requests their blocks.
    pub(super) fn learn(
        &mut self,
        host: HostId,
        layer: Layer,
        from: HostId,
        answer: Option<KnownHashes>,
    ) {
        let now = self.now;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        let Some(neighbour) = download.neighbours.get_mut(&from) else { return };
        let mut pause = Duration::ZERO;
        let mut new = Vec::new();
        match answer {
            Some((list, hashes)) => {
                if list != neighbour.list {
                    (neighbour.list, neighbour.after) = (list, 0);
                }
                neighbour.after += hashes.len();
                neighbour.empty_answers = 0;
                if hashes.is_empty() {
                    pause = EMPTY_PAUSE;
                }
                for (block, hash) in hashes {
                    if download.hashes.insert(block, hash) == Learned::New {
                        new.push(block as usize);
                    }
                }
            }
            None => {
                pause = EMPTY_PAUSE;
                neighbour.empty_answers += 1;
                if neighbour.empty_answers >= EMPTY_ANSWERS_MAX {
                    // Another one takes its place.
                    download.neighbours.remove(&from);
                    return;
                }
            }
        }
        if !new.is_empty() {
            self.note_hashes(host, layer);
            let one = &mut self.hosts[host as usize];
            let wants: Vec<_> =
                new.into_iter().filter_map(|block| one.want(&self.image, layer, block)).collect();
            let session = one.downloads[&layer].session;
            one.exchange.want(now, session, wants);
            self.settle(host);
        }
        match pause.is_zero() {
            true => self.ask_hashes(host, layer, from),
            false => self.timers.push(now + pause, Timer::AskHashes(host, layer, from)),
        }
    }

    /// New hashes are known. Waiting hosts get them soon.
    pub(super) fn note_hashes(&mut self, host: HostId, layer: Layer) {
        let (now, at) = (self.now, self.now + HASHES_BATCH);
        let one = self.host(host);
        let is_awaited = one.waiters.iter().any(|waiter| waiter.layer == layer);
        let Some(download) = one.downloads.get_mut(&layer) else { return };
        if download.hashes.is_complete() {
            one.exchange.set_growing(now, download.session, false);
        }
        if is_awaited && !std::mem::replace(&mut download.is_batching, true) {
            self.timers.push(at, Timer::SendHashes(host, layer));
        }
    }
}
