//! Calls into an application's channels, and the handling of their results.

use std::any::Any;

use watchfire_channels::Ref;
use watchfire_hub::SubscriptionId;
use watchfire_sockets::Sockets;

use super::client::{JoinedChannel, SubscriptionRecord, Use, id_of_topic};
use super::state::Shard;
use crate::channel_api::{
    AnyChannel, AnyStates, ChannelAddress, Crash, HandleIn, LaterReply, Outcome, ReplyTo, Socket,
    StateId, encoding,
};

impl Shard {
    /// Calls a joined channel, and handles the result.
    pub(super) fn call(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reference: &Ref,
        callback: impl FnOnce(&dyn AnyChannel, &mut AnyStates, &StateId, &mut Socket<'_>) -> HandleIn,
    ) {
        let key = self.hub.client_of(id);
        let address = self.address(id);
        let Some(state) = self.channel_mut(id).state.take() else { return };
        let result = self.with_socket(sockets, id, reference, |channel, states, socket| {
            callback(channel, states, &state, socket)
        });
        self.channel_mut(id).state = Some(state);

        let reply_to = ReplyTo { channel: address, reference: reference.clone() };
        match result {
            Ok(Outcome::NoReply) => {}
            Ok(Outcome::Reply(reply)) => self.reply(sockets, &reply_to, &reply),
            Ok(Outcome::Later(LaterReply(answer))) => {
                let endpoint = self.shared.endpoint.clone();
                tokio::spawn(async move { endpoint.reply(reply_to, answer.await) });
            }
            Ok(Outcome::Stop) => self.stop(sockets, key, id),
            Ok(Outcome::StopWith(reply)) => {
                self.reply(sockets, &reply_to, &reply);
                self.stop(sockets, key, id);
            }
            Err(Crash(reason)) => {
                self.shared.metrics.crashes.inc();
                let topic = self.hub.topic_of(id).to_owned();
                tracing::warn!(%topic, reason, "channel crashed");
                let join_ref = self.leave_channel(sockets, key, id);
                let message =
                    encoding::error(self.clients[key as usize].serializer, &join_ref, &topic);
                self.send(sockets, key, message);
            }
        }
    }

    /// Ends a channel and tells its client that it is closed.
    pub(super) fn stop(&mut self, sockets: &mut Sockets, key: u32, id: SubscriptionId) {
        let topic = self.hub.topic_of(id).to_owned();
        let join_ref = self.leave_channel(sockets, key, id);
        self.close_channel(sockets, key, &topic, &join_ref);
    }

    /// Runs a callback with a [`Socket`], then applies the effects that the callback requested.
    pub(super) fn with_socket<R>(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reference: &Ref,
        callback: impl FnOnce(&dyn AnyChannel, &mut AnyStates, &mut Socket<'_>) -> R,
    ) -> R {
        let address = self.address(id);
        let Shard { shared, hub, clients, records, states, effects, .. } = self;
        let client = &clients[hub.client_of(id) as usize];
        let details = client.details.as_ref();
        let data = details.and_then(|details| details.data.as_deref());
        let counted = details.and_then(|details| details.counted);
        let record = &mut records[id];
        let number = record.number;
        let JoinedChannel { presence, .. } = joined(record);
        let mut socket = Socket {
            topic: hub.topic_of(id),
            now: sockets.now(),
            address,
            counted,
            reference,
            id: details.and_then(|details| details.id).map(|id| id_of_topic(hub.topic_of(id))),
            continued: None,
            data,
            presence,
            presences: &shared.presence,
            endpoint: &shared.endpoint,
            effects,
        };
        let states = &mut states[usize::from(number)];
        let result = callback(shared.registry.channel(number).as_ref(), states, &mut socket);
        if !self.effects.is_empty() {
            let topic = self.hub.topic_of(id).to_owned();
            self.apply_effects(sockets, &topic, address);
        }
        result
    }

    pub(super) fn channel_mut(&mut self, id: SubscriptionId) -> &mut JoinedChannel {
        joined(&mut self.records[id])
    }

    pub(super) fn call_handle_info(
        &mut self,
        sockets: &mut Sockets,
        to: ChannelAddress,
        info: Box<dyn Any + Send>,
    ) {
        if self.client_at(to).is_some() {
            self.call(sockets, to.subscription, &Ref::NULL, |channel, states, state, socket| {
                channel.handle_info(states, state, socket, info)
            });
        }
    }
}

fn joined(record: &mut SubscriptionRecord) -> &mut JoinedChannel {
    match &mut record.used_by {
        Use::Channel(channel) => channel,
        _ => unreachable!("a channel uses the subscription"),
    }
}
