//! Messages from other threads.

use std::sync::Arc;

use watchfire_sockets::Sockets;

use super::client::id_topic;
use super::state::Shard;
use crate::channel_api::{Body, Broadcast, ShardMessage};

impl Shard {
    /// Handles a message from another thread.
    pub(super) fn handle_shard_message(&mut self, sockets: &mut Sockets, message: ShardMessage) {
        match message {
            ShardMessage::Broadcast(broadcast) if broadcast.placed.is_some() => {
                self.queue_placed(sockets, broadcast);
            }
            ShardMessage::Broadcast(broadcast) => self.queue(broadcast),
            ShardMessage::Reset { topic } => self.reset_topic(sockets, &topic),
            ShardMessage::Room { topic } => self.resume_publishers(sockets, Some(&topic)),
            ShardMessage::Disconnect { id } => self.disconnect(&id),
            ShardMessage::Ask(asked) => self.answer_question(sockets, asked),
            ShardMessage::Push { to, event, body } => self.push(sockets, to, &event, &body),
            ShardMessage::Info { to, info } => self.call_handle_info(sockets, to, info),
            ShardMessage::ContinueJoin { to, info } => self.continue_join(sockets, to, info),
            ShardMessage::ContinueConnect { key, socket, info } => {
                self.continue_connect(sockets, key, socket, info);
            }
            ShardMessage::Reply { to, reply } => self.reply(sockets, &to, &reply),
            ShardMessage::Forward { kind, to, data, ack, arrived } => {
                self.forward(sockets, kind, to, &data, ack, arrived)
            }
            ShardMessage::Ready => {
                self.resume_joins(sockets);
                self.history.is_ready = true;
            }
            ShardMessage::Wake(request) => self.answer_parked(sockets, request),
            ShardMessage::OpenSession { serializer, connected, counted, token } => {
                self.open_session(sockets.now(), serializer, connected, counted, token);
            }
            ShardMessage::Post { session, content_type, body, status } => {
                self.receive_post(sockets, session, content_type.as_deref(), &body, status);
            }
        }
    }

    /// Closes the sockets with an id, after the broadcasts that were queued before.
    pub(super) fn disconnect(&mut self, id: &str) {
        let topic = id_topic(id);
        self.queue(Arc::new(Broadcast::new(&topic, "disconnect", Body::EMPTY, None)));
    }
}
