use std::collections::BTreeMap;
use std::time::Duration;

use content::Cid;
use vocab::Instant;

use super::bits::{Bits, ones};
use super::history::History;
use crate::{Behaviour, Limits, Protocol};

/// What a peer may be asked for before it said that it has anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hope {
    /// Nothing: it said DONT_HAVE before.
    None,
    /// One block: nothing is known of it.
    One,
    /// As much as its window allows: it is said to be a provider, or cannot say what it has.
    Full,
}

/// A block that a peer is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub at: Instant,
    /// Whether it was told.
    pub is_spoken: bool,
    /// Bytes that it was taken to weigh.
    pub bytes: usize,
    /// What the peer had delivered by then.
    pub delivered: u64,
    /// What it was asked for by then and had not delivered.
    pub ahead: usize,
    /// Whether its bytes are among those that all peers together are asked for.
    pub counts: bool,
    /// When the peer was to give it back.
    pub returned_at: Option<Instant>,
}

/// What came of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Part of a message. Only those with blocks are long enough to come in parts.
    Part,
    /// A message with blocks, or the rest of it.
    Blocks,
    /// A message without.
    Words,
}

/// A peer as one who wants blocks sees it.
#[derive(Debug)]
pub(crate) struct View {
    pub protocol: Protocol,
    pub has: Bits,
    pub lacks: Bits,
    /// Wants that it tells by a list, unasked, whether it has them.
    pub listed: Bits,
    /// Wants that it remembers of us as want-haves.
    pub told: Bits,
    pub asked: BTreeMap<u32, Ask>,
    pub asked_bytes: usize,
    pub hope: Hope,
    /// To be told next: what is not wanted any more.
    pub cancels: Vec<Cid>,
    /// Wants among those just taken back, which may be told anew in a later message only.
    pub held_back: Bits,
    /// To be told next.
    pub new_asks: Vec<u32>,
    /// What is to be given back, and was not said yet.
    pub returns: Vec<u32>,
    /// Whether something of that cannot wait.
    pub is_urgent: bool,
    pub pace: Pace,
    /// When anything of it came last, or it was asked for something after it owed us nothing.
    pub heard_at: Instant,
    /// While it is silent: when it is asked again.
    pub silent_until: Option<Instant>,
    pub silences: u32,
    /// The longest time of late between two things that came of it while it owed us something.
    pub gap: Duration,
    /// Whether it was asked again since anything of it came.
    pub was_asked_again: bool,
    /// [`Asking::pieces`](super::Asking) when anything of it came last.
    pub heard_pieces: u64,
    /// Whether part of a message of it came, and the rest did not yet.
    pub is_sending: bool,
    /// When anything of a block came last.
    pub sent_at: Instant,
    /// How often its silence was put down to our own link since.
    pub excused: u32,
    /// [`Asking::pieces`](super::Asking) when that was done last, or anything of it came.
    pub excused_pieces: u64,
    /// When it last looked for what it could take over from others.
    pub looked_around_at: Option<Instant>,
    /// Since when it has been silent while it owes us blocks.
    pub owes_since: Option<Instant>,
    /// Blocks that it was asked for and may still send, though that was taken back.
    pub late: History,
    /// Questions that were taken back. A short block may be the answer.
    pub questions_taken_back: u64,
    /// Whether it was ever asked for a block.
    pub was_asked: bool,
    pub unasked: u64,
    /// Blocks of names that nobody here ever asked for.
    pub strange: u64,
    pub useful: u64,
    /// When it last sent a block of use.
    pub delivered_at: Instant,
    pub bytes_in: u64,
    pub habit: Habit,
}

/// What the ways of others keep of a peer.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// No message goes before.
    pub quiet_until: Option<Instant>,
    /// In a row.
    pub dont_haves: u32,
    /// It said HAVE or sent a block, so it is one of those that are asked.
    pub is_member: bool,
    /// It is asked no more, since it has nothing.
    pub is_pruned: bool,
    /// Wants that it was first to answer.
    pub firsts: u32,
    /// Smoothed time from a want to its answer.
    pub latency: Option<Duration>,
}

impl View {
    pub(crate) fn new(
        now: Instant,
        protocol: Protocol,
        limits: &Limits,
        is_provider: bool,
    ) -> Self {
        let is_hopeful = is_provider || !protocol.has_presences();
        View {
            protocol,
            has: Bits::default(),
            lacks: Bits::default(),
            listed: Bits::default(),
            told: Bits::default(),
            asked: BTreeMap::new(),
            asked_bytes: 0,
            hope: if is_hopeful { Hope::Full } else { Hope::One },
            cancels: Vec::new(),
            held_back: Bits::default(),
            new_asks: Vec::new(),
            returns: Vec::new(),
            is_urgent: false,
            pace: Pace::new(limits, super::BLOCKS_ASKED_OF_ONE),
            heard_at: now,
            silent_until: None,
            silences: 0,
            gap: Duration::ZERO,
            was_asked_again: false,
            heard_pieces: 0,
            is_sending: false,
            sent_at: now,
            excused: 0,
            excused_pieces: 0,
            looked_around_at: None,
            owes_since: None,
            late: History::new(LATE_MAX),
            questions_taken_back: 0,
            was_asked: false,
            unasked: 0,
            strange: 0,
            useful: 0,
            delivered_at: now,
            bytes_in: 0,
            habit: Habit::default(),
        }
    }

    /// Anything of it came.
    pub(crate) fn heard(&mut self, now: Instant, what: Heard, pieces: u64) {
        // What came because it was asked again says nothing of how long it takes by itself.
        if !self.asked.is_empty() && !std::mem::take(&mut self.was_asked_again) {
            self.gap = now.since(self.heard_at).max(self.gap / 16 * 15);
        }
        self.is_sending = what == Heard::Part;
        if what != Heard::Words {
            self.sent_at = now;
        }
        self.heard_pieces = pieces;
        self.excused = 0;
        self.excused_pieces = pieces;
        self.heard_at = now;
        self.silent_until = None;
        self.owes_since = (!self.asked.is_empty()).then_some(now);
    }

    pub(crate) fn ask(&mut self, now: Instant, at: u32, bytes: usize) {
        if self.asked.is_empty() {
            self.heard_at = now;
            self.pace.begin(now);
        }
        self.was_asked = true;
        self.owes_since.get_or_insert(now);
        let ask = Ask {
            at: now,
            is_spoken: false,
            bytes,
            delivered: self.pace.delivered,
            ahead: self.asked_bytes,
            counts: true,
            returned_at: None,
        };
        if self.asked.insert(at, ask).is_none() {
            self.asked_bytes += bytes;
        }
        self.new_asks.push(at);
        self.is_urgent = true;
    }

    pub(crate) fn unask(&mut self, at: u32) -> Option<Ask> {
        let ask = self.asked.remove(&at)?;
        self.asked_bytes -= ask.bytes;
        if self.asked.is_empty() {
            self.owes_since = None;
        }
        Some(ask)
    }

    /// Whether it would tell that it does not send this.
    pub(crate) fn gives_back(&self, at: u32) -> bool {
        let is_asked = |ask: &Ask| ask.is_spoken && ask.returned_at.is_none();
        self.protocol == Protocol::Leaves && self.asked.get(&at).is_some_and(is_asked)
    }

    /// Whether it is asked for this, and to give it back.
    pub(crate) fn is_returning(&self, at: u32) -> bool {
        self.asked.get(&at).is_some_and(|ask| ask.returned_at.is_some())
    }

    /// When its silence is to be looked at next. The ways of others have their own patience.
    pub(crate) fn silence_at(&self, limits: &Limits, behaviour: Behaviour) -> Option<Instant> {
        let stalled = self.owes_since.map(|since| since + limits.stalled_after);
        let silent = match behaviour {
            Behaviour::Ours => self.silent_until.or_else(|| self.silent_at(limits)),
            Behaviour::Kubo12 | Behaviour::Old11 => None,
        };
        silent.into_iter().chain(stalled).min()
    }

    /// To be told anew of what it is asked for; whether it was told before.
    pub(crate) fn ask_again(&mut self, at: u32) -> bool {
        let Some(ask) = self.asked.get_mut(&at).filter(|ask| ask.is_spoken) else { return false };
        ask.is_spoken = false;
        self.new_asks.push(at);
        self.is_urgent = true;
        self.was_asked_again = true;
        // Both answers may come.
        self.questions_taken_back += 1;
        true
    }

    /// Forgets that it was told of wants that it never answered; whether there are any.
    pub(crate) fn forget_unanswered(&mut self) -> bool {
        let words = self.told.words();
        let unanswered: Vec<u32> =
            ones(words, |at| self.told.word(at) & !self.lacks.word(at)).collect();
        for at in &unanswered {
            self.told.remove(*at);
        }
        // It is asked anew, and both answers may come.
        self.questions_taken_back += unanswered.len() as u64;
        !unanswered.is_empty()
    }

    /// Whether it has a block, by its own word or by another's.
    pub(crate) fn may_have(&self, at: u32) -> bool {
        self.has.has(at) || (self.hope == Hope::Full && !self.lacks.has(at))
    }

    /// Whether it may be asked for more, and is sure to remember that.
    pub(crate) fn has_room(&self, limits: &Limits) -> bool {
        if self.is_newcomer() {
            return self.asked.is_empty();
        }
        let remembered = self.asked.len() + self.told.len();
        self.asked.len() < 2
            || (remembered < limits.asks_per_peer_max && self.asked_bytes < self.pace.window)
    }

    /// Whether it claims to have blocks, if anything, and never sent one: it is asked for one first. Of
    /// those that cannot claim anything none is held to be one.
    pub(crate) fn is_newcomer(&self) -> bool {
        self.useful == 0 && self.protocol.has_presences()
    }

    /// Whether it was asked, and was silent, and never sent anything: others are asked first, and may take over what
    /// it was asked for.
    pub(crate) fn is_idler(&self) -> bool {
        self.is_newcomer() && self.silences > 0
    }

    /// When it will be held to be silent, if nothing of it comes. Of one that never answered it is not known
    /// how long its answers take.
    pub(crate) fn silent_at(&self, limits: &Limits) -> Option<Instant> {
        if self.asked.is_empty() || self.silent_until.is_some() {
            return None;
        }
        let usual = self.pace.usual.map(|usual| usual.saturating_mul(4));
        let usual = usual.unwrap_or(limits.patience.saturating_mul(10));
        let patience = limits.patience.max(usual).max(self.gap * 3);
        // A single question is soon asked again.
        let doubled = match self.is_newcomer() {
            true => self.silences.saturating_sub(NEWCOMER_SILENCES),
            false => self.silences,
        };
        let patience = patience.saturating_mul(1 << doubled.min(8));
        Some(self.heard_at + patience)
    }

    /// How long what it is asked for and `more` will take to come.
    pub(crate) fn takes(&self, more: usize) -> Duration {
        let bytes = (self.asked_bytes + more) as u64;
        match self.pace.rate {
            0 => self.pace.base.unwrap_or_default(),
            rate => nanos(bytes, rate) + self.pace.base.unwrap_or_default(),
        }
    }
}

/// The time that `bytes` take at a rate of bytes a second.
pub(crate) fn nanos(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1))
}

/// How fast a peer delivers, and how much it should be asked for at a time.
///
/// The window is what the peer delivers within two round trips (and no less than a moment, for
/// the hiccups of a busy machine), and two blocks. While the window is what limits, that doubles it every round
/// trip; once something else does, the rate stops growing and so does the window.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes a second, 0 while unknown.
    pub rate: u64,
    /// The shortest time to an answer.
    pub base: Option<Duration>,
    /// The usual time to an answer.
    pub usual: Option<Duration>,
    pub window: usize,
    pub delivered: u64,
    block: usize,
    /// Blocks that are asked for at least.
    blocks_min: usize,
    sample_from: Instant,
    sample_bytes: u64,
}

/// Blocks of a peer that are remembered though they are not asked of it any more. Beyond, the oldest is taken
/// for something that was never asked of it.
const LATE_MAX: usize = 256;

/// Silences in a row of who never sent a block before we wait longer each time.
const NEWCOMER_SILENCES: u32 = 2;

const MOMENT: Duration = Duration::from_millis(20);

impl Pace {
    pub(super) fn new(limits: &Limits, blocks_min: usize) -> Self {
        Pace {
            rate: 0,
            base: None,
            usual: None,
            window: limits.window_bytes_min.max(blocks_min * limits.block_bytes_guess),
            blocks_min,
            delivered: 0,
            block: limits.block_bytes_guess,
            sample_from: Instant::ZERO,
            sample_bytes: 0,
        }
    }

    /// It was asked, after it had owed nothing.
    pub(super) fn begin(&mut self, now: Instant) {
        self.sample_from = now;
        self.sample_bytes = 0;
    }

    /// What comes next may have been asked for since then.
    pub(super) fn began_by(&mut self, then: Instant) {
        self.sample_from = self.sample_from.min(then);
    }

    /// An answer took so long.
    pub(crate) fn answered(&mut self, took: Duration) {
        self.base = Some(self.base.map_or(took, |base| base.min(took)));
        self.usual = Some(self.usual.map_or(took, |usual| (usual * 7 + took) / 8));
    }

    /// Bytes of so many blocks.
    pub(super) const fn bytes(&self, blocks: usize) -> u64 {
        (blocks * self.block) as u64
    }

    /// It stands for many, this one among them.
    pub(crate) fn follows(&mut self, one: &Pace) {
        if let Some(base) = one.base {
            self.base = Some(self.base.map_or(base, |mean| (mean * 7 + base) / 8));
        }
    }

    pub(crate) fn delivered(&mut self, now: Instant, bytes: usize, limits: &Limits) {
        self.delivered += bytes as u64;
        self.sample_bytes += bytes as u64;
        self.block = bytes.max(self.block / 2);
        let base = self.base.unwrap_or_default();
        let took = now.since(self.sample_from);
        if took < base.max(MOMENT) {
            return;
        }
        let nanos = took.as_nanos().max(1);
        let sample = u128::from(self.sample_bytes) * 1_000_000_000 / nanos;
        let sample = u64::try_from(sample).unwrap_or(u64::MAX);
        self.rate = if sample > self.rate { sample } else { self.rate / 8 * 7 + sample / 8 };
        self.begin(now);
        let within = (base * 2).max(base + MOMENT);
        let bytes = u128::from(self.rate) * within.as_nanos() / 1_000_000_000;
        // Where a block takes seconds, many of them at a time are a long line.
        let ahead = usize::try_from(self.rate).unwrap_or(usize::MAX).saturating_mul(2);
        let least = ahead.clamp(2 * self.block, self.blocks_min.max(2) * self.block);
        let window = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(least);
        self.window = window.clamp(limits.window_bytes_min, limits.window_bytes_max);
    }
}
