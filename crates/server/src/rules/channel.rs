//! The channel of one rule.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use watchfire_auth::{self as auth, Auth, Grant, SocketToken, TOKEN_BYTES_MAX, TokenFault};
use watchfire_channels::Ref;
use watchfire_hub::TrackError;

use super::expiries::{CheckToken, Expiries, ExpiryId};
use super::realtime;
use crate::channel_api::{
    Body, Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket,
};
use crate::settings::{ChannelRule, JoinRule, PublishRule};

/// The event with which a client replaces its token.
const REFRESH: &str = "refresh";
/// The events of the server, and their prefixes. A client cannot send them to others.
const RESERVED: [&str; 4] = [REFRESH, "phx_", "presence_", "token_"];

/// The channel of one rule.
#[derive(Clone)]
pub(super) struct RuleChannel {
    pub rule: ChannelRule,
    /// `None`: the server reads no tokens.
    pub auth: Option<Arc<dyn Auth>>,
    pub expiries: Arc<Expiries>,
}

/// A joined client with a token or a presence, or that does not hear itself. Other clients have no state.
pub(super) struct Member {
    token: Option<MemberToken>,
    /// The key under which the client is present.
    presence_key: Option<Box<str>>,
    /// The next check of the token, if the rule needs one.
    expiry: Option<ExpiryId>,
    /// Whether the client was told that the token expires.
    is_notified: bool,
    /// Whether its presence meta differs from the meta of the token.
    has_own_meta: bool,
    /// Whether the client gets its own messages too.
    hears_itself: bool,
}

impl Member {
    /// The rights of the client's token.
    pub(super) fn grant(&self, socket: &Socket<'_>) -> Option<Arc<Grant>> {
        self.token.as_ref()?.grant(socket.token())
    }
}

const _: () = assert!(size_of::<Option<Box<Member>>>() == 8, "stored once for each joined channel");
const _: () = assert!(size_of::<Member>() <= 64, "stored for each client with a token");

/// The token of a joined client.
pub(super) enum MemberToken {
    /// That of the socket, which its other channels use too.
    OfSocket,
    /// That of the join.
    Own(Arc<Grant>),
}

impl MemberToken {
    fn grant(&self, of_socket: Option<&SocketToken>) -> Option<Arc<Grant>> {
        match self {
            MemberToken::Own(grant) => Some(grant.clone()),
            MemberToken::OfSocket => of_socket.map(SocketToken::grant),
        }
    }
}

impl Channel for RuleChannel {
    type State = Option<Box<Member>>;

    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<Self::State>, Refusal> {
        let token = self.admit(socket.topic(), socket.token(), payload)?;
        let hears_itself = realtime::hears_itself(socket.topic(), payload);
        let is_plain = token.is_none() && !self.rule.presence && hears_itself;
        let member = Member {
            token,
            presence_key: None,
            expiry: None,
            is_notified: false,
            has_own_meta: false,
            hears_itself,
        };
        Ok(Joined::with((!is_plain).then(|| Box::new(member))))
    }

    fn joined(&self, member: &mut Self::State, socket: &mut Socket<'_>) {
        self.begin(member, None, socket);
    }

    fn handle_in(
        &self,
        member: &mut Self::State,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        if let Some(reply) = self.answer_before_publish(member, socket, event, payload) {
            return Ok(Outcome::Reply(reply));
        }
        let reference = socket.reference;
        let reply = Reply::ok(Body::EMPTY);
        let reply = self.publish(member.as_deref(), socket, reference, event, payload, reply);
        Ok(reply.map_or(Outcome::NoReply, Outcome::Reply))
    }

    fn handle_info(
        &self,
        member: &mut Self::State,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn {
        match member {
            Some(member) if info.is::<CheckToken>() => self.check_token(member, socket),
            _ => Ok(Outcome::NoReply),
        }
    }

    fn leave(&self, member: Self::State, _: &mut Socket<'_>) {
        if let Some(id) = member.and_then(|member| member.expiry) {
            self.expiries.cancel(id);
        }
    }
}

impl RuleChannel {
    /// Begins a joined channel. `meta` is the client's presence meta, which replaces the meta of its token.
    pub(super) fn begin(
        &self,
        member: &mut Option<Box<Member>>,
        meta: Option<Value>,
        socket: &mut Socket<'_>,
    ) {
        let Some(member) = member else { return };
        let grant = member.grant(socket);
        if self.needs_token()
            && let Some(grant) = &grant
        {
            self.schedule(member, grant, socket);
        }
        if self.rule.presence {
            self.enter(member, grant.as_deref(), meta, socket);
        }
    }

    /// The reply to a message that is not for the other clients: a refresh, or one that the rule
    /// does not permit.
    pub(super) fn answer_before_publish(
        &self,
        member: &mut Option<Box<Member>>,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> Option<Reply> {
        if event == REFRESH || realtime::is_refresh(socket.topic(), event) {
            return Some(match self.refresh(member.as_deref_mut(), socket, payload) {
                Ok(remaining) => Reply::ok(json!({ "expires_in": remaining.as_secs() })),
                Err(fault) => Reply::because(reason(socket.topic(), REFRESH, fault)),
            });
        }
        if RESERVED.iter().any(|prefix| event.starts_with(prefix)) {
            return Some(Reply::because("event_reserved"));
        }
        if let Err(fault) = self.check_publish(member.as_deref(), socket) {
            return Some(Reply::because(reason(socket.topic(), "publish", fault)));
        }
        let is_not_kept = self.rule.history.is_some() && matches!(payload, Payload::Binary(_));
        is_not_kept.then(|| Reply::because("bytes_not_kept"))
    }

    /// Sends a client's message to the subscribers; also to itself, if it hears itself or the topic has a history. Returns the reply to the client. `None`: the reply
    /// follows when the message is stored.
    pub(super) fn publish(
        &self,
        member: Option<&Member>,
        socket: &mut Socket<'_>,
        reference: &Ref,
        event: &str,
        body: impl Into<Body>,
        reply: Reply,
    ) -> Option<Reply> {
        let to_self = member.is_none_or(|member| member.hears_itself);
        let result = socket.publish(event, body, to_self, reference, reply);
        result.unwrap_or_else(|_| Some(Reply::because("payload_not_an_object")))
    }

    fn needs_token(&self) -> bool {
        self.rule.join == JoinRule::Token
    }

    /// Whether a client may join, and the token that it uses.
    pub(super) fn admit(
        &self,
        topic: &str,
        of_socket: Option<&SocketToken>,
        payload: Payload<'_>,
    ) -> Result<Option<MemberToken>, Refusal> {
        let token = self.token_for(topic, of_socket, payload);
        token.map_err(|fault| Refusal::because(reason(topic, "join", fault)))
    }

    fn token_for(
        &self,
        topic: &str,
        of_socket: Option<&SocketToken>,
        payload: Payload<'_>,
    ) -> Result<Option<MemberToken>, TokenFault> {
        let token = match (&self.auth, self.rule.join) {
            (_, JoinRule::Never) => return Err(TokenFault::Rule),
            // Only the backend gave an identity.
            (None, _) => of_socket.map(|_| MemberToken::OfSocket),
            (Some(auth), _) => match token_of(topic, payload)? {
                Some(token) => match auth.verify(&token, auth::now()) {
                    Ok(grant) => Some(MemberToken::Own(Arc::new(grant))),
                    // A client of Supabase without a user sends its public key there.
                    Err(_) if realtime::is_topic(topic) && !self.needs_token() => {
                        of_socket.map(|_| MemberToken::OfSocket)
                    }
                    Err(fault) => return Err(fault),
                },
                None => of_socket.map(|_| MemberToken::OfSocket),
            },
        };
        let grant = token.as_ref().and_then(|token| token.grant(of_socket));
        let is_expired = grant.as_deref().is_some_and(is_expired);
        if !self.needs_token() {
            // An expired token of the socket names no user. The rule needs none.
            return Ok(token.filter(|_| !is_expired));
        }
        let grant = grant.ok_or(TokenFault::Missing)?;
        if is_expired {
            return Err(TokenFault::Expired);
        }
        grant.may_join(topic).then_some(token).ok_or(TokenFault::Topic)
    }

    /// Whether a client may send to the others.
    pub(super) fn check_publish(
        &self,
        member: Option<&Member>,
        socket: &Socket<'_>,
    ) -> Result<(), TokenFault> {
        if self.rule.publish == PublishRule::Server {
            return Err(TokenFault::Rule);
        }
        if !self.needs_token() {
            return Ok(());
        }
        let grant = member.and_then(|member| member.grant(socket));
        let grant = grant.ok_or(TokenFault::Missing)?;
        if is_expired(&grant) {
            return Err(TokenFault::Expired);
        }
        grant.may_publish(socket.topic()).then_some(()).ok_or(TokenFault::Topic)
    }

    /// Replaces the token of this channel. If it is the token of the socket, the other channels use the
    /// new one too. Returns the time until the new token expires.
    fn refresh(
        &self,
        member: Option<&mut Member>,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Duration, TokenFault> {
        let (Some(auth), Some(member)) = (&self.auth, member) else {
            return Err(TokenFault::Missing);
        };
        let old = member.grant(socket);
        let old = old.ok_or(TokenFault::Missing)?;
        let token = token_of(socket.topic(), payload)?.ok_or(TokenFault::NotAText)?;
        let now = auth::now();
        let new = Arc::new(auth.verify(&token, now)?);
        // A channel keeps its user, and a socket the id by which it can be disconnected.
        let is_same_client = old.subject == new.subject && old.id == new.id;
        let may_stay = !self.needs_token() || new.may_join(socket.topic());
        if !is_same_client {
            return Err(TokenFault::OtherUser);
        }
        if !may_stay {
            return Err(TokenFault::Topic);
        }
        if let Some(MemberToken::Own(grant)) = &mut member.token {
            *grant = new.clone();
        } else if let Some(of_socket) = socket.token() {
            of_socket.replace(new.clone());
        }
        if self.needs_token() {
            self.schedule(member, &new, socket);
        }
        let has_new_meta = !member.has_own_meta && old.meta != new.meta;
        if let (Some(key), true) = (&member.presence_key, has_new_meta) {
            log_untracked(socket.update_presence(key, new.meta.clone()));
        }
        Ok(new.remaining(now))
    }

    /// Acts when the token of a joined client expires soon, or has expired.
    fn check_token(&self, member: &mut Member, socket: &mut Socket<'_>) -> HandleIn {
        member.expiry = None;
        let Some(grant) = member.grant(socket) else {
            return Ok(Outcome::NoReply);
        };
        // Another channel of the socket may have replaced the token.
        let fault = match is_expired(&grant) {
            true => Some(TokenFault::Expired),
            false => (!grant.may_join(socket.topic())).then_some(TokenFault::Topic),
        };
        if let Some(fault) = fault {
            let reason = reason(socket.topic(), "stay", fault);
            socket.push("token_expired", json!({ "reason": reason }))?;
            // The client gets a `phx_close`, so it does not rejoin with the same token.
            return Ok(Outcome::Stop);
        }
        let (remaining, notice) = (grant.remaining(auth::now()), self.notice());
        if remaining <= notice {
            if !member.is_notified {
                member.is_notified = true;
                socket.push("token_expiring", json!({ "expires_in": remaining.as_secs() }))?;
            }
        } else {
            member.is_notified = false;
        }
        self.schedule_check(member, remaining, socket);
        Ok(Outcome::NoReply)
    }

    fn notice(&self) -> Duration {
        self.auth.as_ref().map(|auth| auth.expiry_notice()).unwrap_or_default()
    }

    /// Schedules the first check of a new token.
    fn schedule(&self, member: &mut Member, grant: &Grant, socket: &Socket<'_>) {
        member.is_notified = false;
        self.schedule_check(member, grant.remaining(auth::now()), socket);
    }

    fn schedule_check(&self, member: &mut Member, remaining: Duration, socket: &Socket<'_>) {
        if let Some(id) = member.expiry.take() {
            self.expiries.cancel(id);
        }
        let until_notice =
            if member.is_notified { remaining } else { remaining.saturating_sub(self.notice()) };
        let channel = socket.address();
        member.expiry = Some(self.expiries.schedule(socket.now(), until_notice, channel));
    }

    /// Makes the client present, and sends it the others.
    fn enter(
        &self,
        member: &mut Member,
        grant: Option<&Grant>,
        meta: Option<Value>,
        socket: &mut Socket<'_>,
    ) {
        let key = match grant {
            Some(grant) => Some(grant.subject.clone()),
            None => random_key(),
        };
        member.has_own_meta = meta.is_some();
        let of_token = || grant.map_or_else(|| json!({}), |grant| grant.meta.clone());
        let meta = meta.unwrap_or_else(of_token);
        if let Some(key) = key {
            match socket.track(&key, meta) {
                Ok(()) => member.presence_key = Some(key),
                error => log_untracked(error),
            }
        }
        socket.push_presence_state();
    }
}

/// The reason that a client gets for a fault of its token. The log gets the fault.
pub(super) fn reason(topic: &str, action: &str, fault: TokenFault) -> &'static str {
    let reason = fault.refusal().reason();
    tracing::debug!(topic, action, fault = fault.name(), reason, "token refused");
    reason
}

fn is_expired(grant: &Grant) -> bool {
    grant.remaining(auth::now()).is_zero()
}

/// The presence key of a client without a token. `None`: the operating system returned no random
/// bytes.
fn random_key() -> Option<Box<str>> {
    getrandom::u64().ok().map(|number| format!("{number:016x}").into())
}

fn log_untracked(result: Result<(), TrackError>) {
    if let Err(error) = result {
        tracing::debug!(%error, "presence not tracked");
    }
}

/// The token in the payload of a join or a refresh. `None`: the payload has none.
fn token_of(topic: &str, payload: Payload<'_>) -> Result<Option<String>, TokenFault> {
    /// The token is not copied before its length is known.
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        token: Option<&'a RawValue>,
        /// Of a client of Supabase.
        #[serde(borrow)]
        access_token: Option<&'a RawValue>,
    }
    let Ok(Params { token, access_token }) = payload.json() else { return Ok(None) };
    let token = token.or(access_token.filter(|_| realtime::is_topic(topic)));
    let Some(token) = token else { return Ok(None) };
    if token.get().len() > 2 * TOKEN_BYTES_MAX {
        return Err(TokenFault::TooLong);
    }
    serde_json::from_str(token.get()).map(Some).map_err(|_| TokenFault::NotAText)
}
