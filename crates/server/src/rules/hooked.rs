//! The channel of a rule with hooks: a backend decides about joins and messages after the rule.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use watchfire_auth::Grant;
use watchfire_hooks::{
    Allowed, ChannelId, HookRequest, Hooks, LeaveNotice, Question, Slot, Verdict,
};

use super::channel::{Member, RuleChannel, reason};
use crate::channel_api::{
    Body, Channel, Endpoint, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket,
};
use crate::hooks::{ClientMessage, DecidedJoin, DecidedMessage, JoinTicket};
use crate::settings::Hook;

/// Messages of one channel that wait behind the one that the backend is asked about. Further ones
/// are refused.
const BEHIND_MAX: usize = 32;
/// The reason for a message above that bound.
const TOO_MANY_PENDING: &str = "too_many_pending";
/// The reason for a payload above `hooks.body_bytes_max`.
const PAYLOAD_TOO_LARGE: &str = "payload_too_large";

/// The channel of a rule with hooks.
pub(super) struct HookedChannel {
    pub rule: RuleChannel,
    pub hooks: Arc<dyn Hooks>,
    pub endpoint: Arc<Endpoint>,
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
    /// Whether the backend is asked about a message.
    is_asking: bool,
    /// The messages behind that one, in order, with their slots.
    behind: VecDeque<(ClientMessage, Slot)>,
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
        let continued =
            socket.continued.take().and_then(|info| info.downcast::<DecidedJoin>().ok());
        let DecidedJoin { verdict, ticket } = match continued {
            Some(decided) => *decided,
            None => self.begin_join(member.as_deref(), socket, payload)?,
        };
        let Allowed { meta, reply, .. } = match verdict {
            Verdict::Allowed(allowed) => allowed,
            Verdict::Denied(reason) => return Err(Refusal::because(&reason)),
        };
        let JoinTicket { channel, mut leave } = ticket;
        if let Some(leave) = &mut leave {
            leave.grant();
        }
        let meta = meta.map(Box::new);
        let state = HookedMember {
            member,
            channel,
            meta,
            _leave: leave,
            is_asking: false,
            behind: VecDeque::new(),
        };
        Ok(Joined::with(state).response(reply.map_or(response, json)))
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
            Ok(body) => {
                let reference = socket.reference.clone();
                let (topic, event) = (socket.topic().into(), event.into());
                self.begin_message(state, socket, ClientMessage { topic, event, body, reference })
            }
            Err(_) => Outcome::Reply(Reply::because("payload_not_an_object")),
        })
    }

    fn handle_info(
        &self,
        state: &mut Self::State,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn {
        let decided = match info.downcast::<DecidedMessage>() {
            Ok(decided) => decided.take(),
            Err(info) => return self.rule.handle_info(&mut state.member, socket, info),
        };
        let Some((message, verdict)) = decided else { return Ok(Outcome::NoReply) };
        state.is_asking = false;
        self.decide_earlier(state, socket, message, verdict);
        while !state.is_asking
            && let Some((message, _)) = state.behind.pop_front()
        {
            match self.hooks.reserve(Hook::Publish) {
                Some(slot) => self.ask(state, socket, message, slot),
                None => {
                    let verdict = self.without_backend();
                    self.decide_earlier(state, socket, message, verdict);
                }
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
        len > self.hooks.settings().body_bytes_max as usize
    }

    /// The decision about a join or a message for which there is no slot.
    fn without_backend(&self) -> Verdict {
        Verdict::without_backend(self.hooks.settings().on_failure)
    }

    /// Asks about a join, which then waits. Returns a decision that needs no answer.
    fn begin_join(
        &self,
        member: Option<&Member>,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<DecidedJoin, Refusal> {
        if self.has(Hook::Join) && self.is_too_large(payload) {
            return Err(Refusal::because(PAYLOAD_TOO_LARGE));
        }
        let grant = member.and_then(|member| member.grant(socket));
        let channel = ChannelId::new().ok_or_else(|| Refusal::because("no_random_bytes"))?;
        let request = request(Hook::Join, channel, grant.as_deref(), socket);
        let request = HookRequest { payload: Some(payload), ..request };
        let leave = self.has(Hook::Leave).then(|| LeaveNotice::new(&self.hooks, &request));
        let ticket = JoinTicket { channel, leave };
        if !self.has(Hook::Join) {
            return Ok(DecidedJoin { verdict: Verdict::Allowed(Allowed::default()), ticket });
        }
        let Some(slot) = self.hooks.reserve(Hook::Join) else {
            return Ok(DecidedJoin { verdict: self.without_backend(), ticket });
        };
        let body = request.to_json();
        let recipient = ticket.recipient(socket.address(), &self.endpoint);
        self.hooks.ask(Question { hook: Hook::Join, body, slot, recipient });
        Err(Refusal::waits())
    }

    /// Asks about a message, or lets it wait behind others.
    fn begin_message(
        &self,
        state: &mut HookedMember,
        socket: &mut Socket<'_>,
        message: ClientMessage,
    ) -> Outcome {
        if state.is_asking {
            let has_room = state.behind.len() < BEHIND_MAX;
            let Some(slot) = self.hooks.reserve_behind().filter(|_| has_room) else {
                return Outcome::Reply(Reply::because(TOO_MANY_PENDING));
            };
            state.behind.push_back((message, slot));
            return Outcome::NoReply;
        }
        match self.hooks.reserve(Hook::Publish) {
            Some(slot) => {
                self.ask(state, socket, message, slot);
                Outcome::NoReply
            }
            None => {
                let reply = self.decide(state, socket, message, self.without_backend());
                reply.map_or(Outcome::NoReply, Outcome::Reply)
            }
        }
    }

    /// Asks about a message. The later ones wait behind it.
    fn ask(
        &self,
        state: &mut HookedMember,
        socket: &Socket<'_>,
        message: ClientMessage,
        slot: Slot,
    ) {
        let grant = state.member.as_ref().and_then(|member| member.grant(socket));
        let request = HookRequest {
            event: Some(&message.event),
            payload: Some(message.body.as_payload()),
            ..request(Hook::Publish, state.channel, grant.as_deref(), socket)
        };
        let body = request.to_json();
        let recipient = message.recipient(socket.address(), &self.endpoint);
        self.hooks.ask(Question { hook: Hook::Publish, body, slot, recipient });
        state.is_asking = true;
    }

    /// Decides about a message that waited, and replies to it.
    fn decide_earlier(
        &self,
        state: &HookedMember,
        socket: &mut Socket<'_>,
        message: ClientMessage,
        verdict: Verdict,
    ) {
        let reference = message.reference.clone();
        if let Some(reply) = self.decide(state, socket, message, verdict) {
            socket.reply_to_earlier(reference, reply);
        }
    }

    /// Sends a message to the subscribers, or not. Returns the reply to its client. `None`: the reply
    /// follows when the message is stored.
    fn decide(
        &self,
        state: &HookedMember,
        socket: &mut Socket<'_>,
        message: ClientMessage,
        verdict: Verdict,
    ) -> Option<Reply> {
        let allowed = match verdict {
            Verdict::Allowed(allowed) => allowed,
            Verdict::Denied(reason) => return Some(Reply::because(&reason)),
        };
        // The token may have expired while the message waited.
        if let Err(fault) = self.rule.check_publish(state.member.as_deref(), socket) {
            return Some(Reply::because(reason(socket.topic(), "publish", fault)));
        }
        let reply = Reply::ok(allowed.reply.map_or(Body::EMPTY, json));
        if allowed.is_silent {
            return Some(reply);
        }
        let ClientMessage { event, body, reference, .. } = message;
        let body = allowed.payload.map_or(body, json);
        self.rule.publish(state.member.as_deref(), socket, &reference, &event, body, reply)
    }
}

/// A JSON object of the backend.
fn json(object: String) -> Body {
    Body::Json(object.into())
}

/// A request about a client's channel, without an event and a payload.
fn request<'a>(
    hook: Hook,
    channel: ChannelId,
    grant: Option<&'a Grant>,
    socket: &'a Socket<'_>,
) -> HookRequest<'a> {
    HookRequest {
        hook,
        topic: socket.topic(),
        channel,
        user: grant.map(|grant| &*grant.subject),
        socket_id: socket.id,
        address: socket.client_address(),
        event: None,
        payload: None,
    }
}
