//! Questions to the backend, and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::notices::LeaveNotice;
use super::request::{ChannelId, HookRequest};
use super::verdict::Verdict;
use crate::app::ChannelAddress;
use crate::settings::Hook;

/// A question to the backend. The client's channel gets the [`Answered`] later.
pub(crate) struct Question {
    pub(super) hook: Hook,
    pub(super) body: String,
    pub(super) recipient: Recipient,
}

impl Question {
    pub fn new(request: &HookRequest<'_>, recipient: Recipient) -> Self {
        Question { hook: request.hook, body: request.to_json(), recipient }
    }
}

/// The channel that gets the answer.
pub(crate) enum Recipient {
    /// A join that waits.
    Join { channel: ChannelAddress, ticket: JoinTicket, slot: Slot },
    /// A joined channel with a message that waits.
    Message { channel: ChannelAddress, slot: Slot },
}

/// What belongs to a join while it waits.
pub(crate) struct JoinTicket {
    pub channel: ChannelId,
    /// `None`: the rule sends no such notice.
    pub leave: Option<LeaveNotice>,
}

/// The decision about a join or a message. It is the message that continues the channel.
pub(crate) struct Answered {
    pub verdict: Verdict,
    /// Of a join.
    pub ticket: Option<JoinTicket>,
}

/// The place of a question, or of a message that waits, until it is dropped.
pub(crate) struct Slot(pub(super) Arc<AtomicU32>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
