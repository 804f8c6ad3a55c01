//! The channel of a rule with hooks: a backend decides about joins and messages after the rule.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use watchfire_channels::Ref;

use super::channel::{Member, RuleChannel};
use crate::app::{Body, Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
use crate::hooks::{
    Allowed, Answered, ChannelId, HookRequest, Hooks, JoinTicket, LeaveNotice, Question, Recipient,
    Slot, Verdict,
};
use crate::settings::Hook;

/// Messages of one channel that wait for the backend. Further ones are refused.
const MESSAGES_MAX: usize = 32;
/// The reason for a message above that bound.
const TOO_MANY_PENDING: &str = "too_many_pending";
/// The reason for a payload above `hooks.body_bytes_max`.
const PAYLOAD_TOO_LARGE: &str = "payload_too_large";

/// The channel of a rule with hooks.
pub(super) struct HookedChannel {
    pub rule: RuleChannel,
    pub hooks: Arc<Hooks>,
}

/// A joined client of such a channel.
pub(super) struct HookedMember {
    /// The state of the rule.
    member: Option<Box<Member>>,
    channel: ChannelId,
    /// The presence meta of the backend's answer, until the client is present.
    meta: Option<Box<Value>>,
    /// Sent when the channel ends. `None`: the rule sends no notices.
    _leave: Option<LeaveNotice>,
    /// Messages of the client, in order. The backend is asked about the first.
    messages: VecDeque<PendingMessage>,
}

/// A message that waits for the backend.
struct PendingMessage {
    event: Box<str>,
    body: Body,
    reference: Ref,
    /// Of a message behind another.
    slot: Option<Slot>,
}

impl Channel for HookedChannel {
    type State = HookedMember;

    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<Self::State>, Refusal> {
        // Also after the answer: the token may have expired meanwhile.
        let Joined { state: member, response } = self.rule.join(socket, payload)?;
        let continued = socket.continued.take().and_then(|info| info.downcast::<Answered>().ok());
        let (verdict, ticket) = match continued.map(|answered| *answered) {
            Some(Answered { verdict, ticket: Some(ticket) }) => (verdict, ticket),
            _ => self.begin_join(member.as_deref(), socket, payload)?,
        };
        let Allowed { meta, reply, .. } = match verdict {
            Verdict::Allowed(allowed) => allowed,
            Verdict::Denied(reason) => return Err(Refusal::because(&reason)),
        };
        let JoinTicket { channel, mut leave } = ticket;
        if let Some(leave) = &mut leave {
            leave.grant();
        }
        let messages = VecDeque::new();
        let meta = meta.map(Box::new);
        let state = HookedMember { member, channel, meta, _leave: leave, messages };
        Ok(Joined::with(state).response(reply.unwrap_or(response)))
    }

    fn joined(&self, state: &mut Self::State, socket: &mut Socket<'_>) {
        self.rule.begin(&mut state.member, state.meta.take().map(|meta| *meta), socket);
    }

    fn handle_in(
        &self,
        state: &mut Self::State,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        if !self.has(Hook::Publish) {
            return self.rule.handle_in(&mut state.member, socket, event, payload);
        }
        if let Some(reply) =
            self.rule.answer_before_publish(&mut state.member, socket, event, payload)
        {
            return Ok(Outcome::Reply(reply));
        }
        // Before the payload is copied.
        if self.is_too_large(payload) {
            return Ok(Outcome::Reply(Reply::because(PAYLOAD_TOO_LARGE)));
        }
        Ok(match Body::from(payload).checked_object() {
            Ok(body) => self.begin_message(state, socket, event, body),
            Err(_) => Outcome::Reply(Reply::because("payload_not_an_object")),
        })
    }

    fn handle_info(
        &self,
        state: &mut Self::State,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn {
        let answered = match info.downcast::<Answered>() {
            Ok(answered) => *answered,
            Err(info) => return self.rule.handle_info(&mut state.member, socket, info),
        };
        self.decide_first(state, socket, answered.verdict);
        // Without a slot for the next message, its decision needs no answer.
        while !state.messages.is_empty() {
            match self.hooks.reserve(Hook::Publish) {
                Some(slot) => {
                    self.ask_about_first(state, socket, slot);
                    break;
                }
                None => self.decide_first(state, socket, self.hooks.without_backend()),
            }
        }
        Ok(Outcome::NoReply)
    }

    fn leave(&self, state: Self::State, socket: &mut Socket<'_>) {
        self.rule.leave(state.member, socket);
    }
}

impl HookedChannel {
    fn has(&self, hook: Hook) -> bool {
        self.rule.rule.hooks.contains(&hook)
    }

    fn is_too_large(&self, payload: Payload<'_>) -> bool {
        let len = match payload {
            Payload::Json(text) => text.len(),
            Payload::Binary(bytes) => bytes.len(),
        };
        len > self.hooks.payload_bytes_max()
    }

    /// Asks about a join, which then waits. Returns a decision that needs no answer.
    fn begin_join(
        &self,
        member: Option<&Member>,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<(Verdict, JoinTicket), Refusal> {
        if self.has(Hook::Join) && self.is_too_large(payload) {
            return Err(Refusal::because(PAYLOAD_TOO_LARGE));
        }
        let grant = member.and_then(|member| member.grant(socket));
        let request = HookRequest {
            hook: Hook::Join,
            topic: socket.topic(),
            channel: ChannelId::new().ok_or_else(|| Refusal::because("no_random_bytes"))?,
            user: grant.as_deref().map(|grant| &*grant.subject),
            socket_id: socket.id,
            address: socket.client_address(),
            event: None,
            payload: Some(payload),
        };
        let leave = self.has(Hook::Leave).then(|| self.hooks.leave_notice(&request));
        let ticket = JoinTicket { channel: request.channel, leave };
        if !self.has(Hook::Join) {
            return Ok((Verdict::Allowed(Allowed::default()), ticket));
        }
        let Some(slot) = self.hooks.reserve(Hook::Join) else {
            return Ok((self.hooks.without_backend(), ticket));
        };
        let recipient = Recipient::Join { channel: socket.address(), ticket, slot };
        self.hooks.ask(Question::new(&request, recipient));
        Err(Refusal::waits())
    }

    /// Asks about a message, or lets it wait behind others.
    fn begin_message(
        &self,
        state: &mut HookedMember,
        socket: &mut Socket<'_>,
        event: &str,
        body: Body,
    ) -> Outcome {
        let is_first = state.messages.is_empty();
        let has_room = state.messages.len() < MESSAGES_MAX;
        let slot = match is_first {
            true => self.hooks.reserve(Hook::Publish),
            false => self.hooks.reserve_behind().filter(|_| has_room),
        };
        let Some(slot) = slot else {
            return Outcome::Reply(match is_first {
                true => self.decide(state, socket, event, body, self.hooks.without_backend()),
                // It may not overtake the messages that wait.
                false => Reply::because(TOO_MANY_PENDING),
            });
        };
        let reference = socket.reference.clone();
        let message = PendingMessage { event: event.into(), body, reference, slot: None };
        if is_first {
            state.messages.push_back(message);
            self.ask_about_first(state, socket, slot);
        } else {
            state.messages.push_back(PendingMessage { slot: Some(slot), ..message });
        }
        Outcome::NoReply
    }

    /// Asks about the first message, which no longer waits behind another.
    fn ask_about_first(&self, state: &mut HookedMember, socket: &Socket<'_>, slot: Slot) {
        let Some(message) = state.messages.front_mut() else { return };
        message.slot = None;
        let grant = state.member.as_ref().and_then(|member| member.grant(socket));
        let request = HookRequest {
            hook: Hook::Publish,
            topic: socket.topic(),
            channel: state.channel,
            user: grant.as_deref().map(|grant| &*grant.subject),
            socket_id: socket.id,
            address: socket.client_address(),
            event: Some(&message.event),
            payload: Some(message.body.as_payload()),
        };
        let recipient = Recipient::Message { channel: socket.address(), slot };
        self.hooks.ask(Question::new(&request, recipient));
    }

    /// Takes the first message, and replies to it.
    fn decide_first(&self, state: &mut HookedMember, socket: &mut Socket<'_>, verdict: Verdict) {
        let Some(message) = state.messages.pop_front() else { return };
        let PendingMessage { event, body, reference, .. } = message;
        let reply = self.decide(state, socket, &event, body, verdict);
        socket.reply_to_earlier(reference, reply);
    }

    /// Sends a message to the subscribers, or not. Returns the reply to its client.
    fn decide(
        &self,
        state: &HookedMember,
        socket: &mut Socket<'_>,
        event: &str,
        body: Body,
        verdict: Verdict,
    ) -> Reply {
        let allowed = match verdict {
            Verdict::Allowed(allowed) => allowed,
            Verdict::Denied(reason) => return Reply::because(&reason),
        };
        // The token may have expired while the message waited.
        if let Err(refusal) = self.rule.check_publish(state.member.as_deref(), socket) {
            return Reply::because(refusal.reason());
        }
        let reply = match allowed.is_silent {
            true => Reply::ok(Body::EMPTY),
            false => self.rule.publish(socket, event, allowed.payload.unwrap_or(body)),
        };
        allowed.reply.map_or(reply, Reply::ok)
    }
}
