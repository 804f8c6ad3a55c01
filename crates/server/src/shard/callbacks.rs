//! Calls into an application's channels, and the handling of their results.

use std::any::Any;
use std::sync::Arc;

use watchfire_channels::Ref;
use watchfire_hub::SubscriptionId;
use watchfire_sockets::Sockets;
use watchfire_types::Instant;

use super::ServerShard;
use super::clients::{ClientChannel, Clients};
use super::process_state::ProcessState;
use crate::channel_api::{
    AnyChannel, AnyStates, ChannelAddress, Crash, Effect, HandleIn, LaterReply, Outcome, ReplyTo,
    Socket, StateId, caught_later, encoding,
};

/// Runs callbacks of an application's channels, and has the states of these.
pub(super) struct Callbacks {
    shared: Arc<ProcessState>,
    /// The states of the joined clients of each channel, by the channel's number.
    states: Vec<AnyStates>,
    /// Effects that the running callback requested; empty between callbacks.
    effects: Vec<Effect>,
}

impl Callbacks {
    pub fn new(shared: Arc<ProcessState>) -> Self {
        Callbacks { states: shared.registry.states(), shared, effects: Vec::new() }
    }

    /// Runs a callback with a [`Socket`]. The caller applies the effects that it requests.
    fn run<R>(
        &mut self,
        clients: &mut Clients,
        now: Instant,
        id: SubscriptionId,
        reference: &Ref,
        callback: impl FnOnce(&dyn AnyChannel, &mut AnyStates, &mut Socket<'_>) -> R,
    ) -> R {
        let Callbacks { shared, states, effects } = self;
        let address = clients.address(id);
        let ClientChannel { topic, details, id, number, channel } = clients.channel_mut(id);
        let mut socket = Socket {
            topic,
            now,
            address,
            counted: details.and_then(|details| details.counted),
            reference,
            id,
            continued: None,
            data: details.and_then(|details| details.data.as_deref()),
            presence: &mut channel.presence,
            presences: &shared.presence,
            endpoint: &shared.endpoint,
            effects,
        };
        let states = &mut states[usize::from(number)];
        callback(shared.registry.channel(number).as_ref(), states, &mut socket)
    }

    /// The memory of the states of all channels.
    pub fn memory_bytes(&self) -> usize {
        let numbered = (0..).zip(&self.states);
        let bytes = numbered
            .map(|(number, states)| self.shared.registry.channel(number).states_bytes(states));
        bytes.sum()
    }

    /// Takes the effects that the last callback requested.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Reuses the memory of effects for the next callback.
    pub fn reuse(&mut self, effects: Vec<Effect>) {
        debug_assert!(effects.is_empty() && self.effects.is_empty(), "effects are applied once");
        self.effects = effects;
    }
}

impl ServerShard {
    /// Calls a joined channel, and handles the result.
    pub(super) fn call(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reference: &Ref,
        callback: impl FnOnce(&dyn AnyChannel, &mut AnyStates, &StateId, &mut Socket<'_>) -> HandleIn,
    ) {
        let key = self.clients.hub().client_of(id);
        let address = self.clients.address(id);
        let Some(state) = self.clients.record_mut(id).channel_mut().state.take() else { return };
        let result = self.with_socket(sockets, id, reference, |channel, states, socket| {
            callback(channel, states, &state, socket)
        });
        self.clients.record_mut(id).channel_mut().state = Some(state);

        let reply_to = ReplyTo { channel: address, reference: reference.clone() };
        match result {
            Ok(Outcome::NoReply) => {}
            Ok(Outcome::Reply(reply)) => self.reply(sockets, &reply_to, &reply),
            Ok(Outcome::Later(LaterReply(answer))) => {
                let shared = self.shared.clone();
                let topic = self.clients.hub().topic_of(id).to_owned();
                tokio::spawn(async move {
                    match caught_later(answer).await {
                        Ok(reply) => shared.endpoint.reply(reply_to, reply),
                        Err(Crash(reason)) => {
                            shared.metrics.crashes.inc();
                            tracing::warn!(%topic, reason, "reply crashed");
                        }
                    }
                });
            }
            Ok(Outcome::Stop) => self.stop(sockets, key, id),
            Ok(Outcome::StopWith(reply)) => {
                self.reply(sockets, &reply_to, &reply);
                self.stop(sockets, key, id);
            }
            Err(Crash(reason)) => {
                self.shared.metrics.crashes.inc();
                let topic = self.clients.hub().topic_of(id).to_owned();
                tracing::warn!(%topic, reason, "channel crashed");
                self.fail_channel(sockets, key, id, &topic);
            }
        }
    }

    /// Ends a channel and tells its client that it is closed.
    pub(super) fn stop(&mut self, sockets: &mut Sockets, key: u32, id: SubscriptionId) {
        let topic = self.clients.hub().topic_of(id).to_owned();
        let join_ref = self.leave_channel(sockets, key, id);
        let message = encoding::close(self.clients[key].serializer, &join_ref, &topic);
        self.deliveries.send_last(&mut self.clients, sockets, key, message);
    }

    /// Ends a channel and tells its client that it has failed. The client joins again.
    pub(super) fn fail_channel(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        id: SubscriptionId,
        topic: &str,
    ) {
        let join_ref = self.leave_channel(sockets, key, id);
        let message = encoding::error(self.clients[key].serializer, &join_ref, topic);
        self.deliveries.send_last(&mut self.clients, sockets, key, message);
    }

    /// Runs a callback with a [`Socket`], then applies the effects that the callback requested.
    pub(super) fn with_socket<R>(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reference: &Ref,
        callback: impl FnOnce(&dyn AnyChannel, &mut AnyStates, &mut Socket<'_>) -> R,
    ) -> R {
        let address = self.clients.address(id);
        let result = self.callbacks.run(&mut self.clients, sockets.now(), id, reference, callback);
        if !self.callbacks.effects.is_empty() {
            let topic = self.clients.hub().topic_of(id).to_owned();
            self.apply_effects(sockets, &topic, address);
        }
        result
    }

    pub(super) fn call_handle_info(
        &mut self,
        sockets: &mut Sockets,
        to: ChannelAddress,
        info: Box<dyn Any + Send>,
    ) {
        if self.clients.client_at(to).is_some() {
            self.call(sockets, to.subscription, &Ref::NULL, |channel, states, state, socket| {
                channel.handle_info(states, state, socket, info)
            });
        }
    }
}
