//! A handle to the whole server, from any thread.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use edge::Mailbox;
use vocab::ShardId;

use crate::app::{Body, ChannelAddress, PayloadError, Reply, ReplyTo};
use crate::broadcast::Broadcast;
use crate::shard::Mail;

/// A handle to the whole server: broadcast, push and disconnect from any thread.
///
/// Delivery is at most once. What a shard's full mailbox cannot take is dropped and counted.
#[derive(Clone)]
pub struct Endpoint {
    // Set once: the channels get their handle before the shards have started.
    mailboxes: Arc<OnceLock<Box<[Mailbox<Mail>]>>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint of {} shards", self.mailboxes().len())
    }
}

impl Endpoint {
    pub(crate) fn unconnected() -> Self {
        Endpoint { mailboxes: Arc::default() }
    }

    pub(crate) fn connect(&self, mailboxes: &[Mailbox<Mail>]) {
        self.mailboxes.get_or_init(|| mailboxes.into());
    }

    pub(crate) fn mailboxes(&self) -> &[Mailbox<Mail>] {
        self.mailboxes.get().map_or(&[], |mailboxes| mailboxes)
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.mailboxes().iter().map(Mailbox::shard)
    }

    /// Send to everyone on a topic.
    pub fn broadcast(
        &self,
        topic: &str,
        event: &str,
        body: impl Into<Body>,
    ) -> Result<(), PayloadError> {
        let body = body.into().checked_object()?;
        self.deliver(&Arc::new(Broadcast::new(topic, event, body, None)), None);
        Ok(())
    }

    /// Close every socket whose [`crate::Connected::id`] this is.
    pub fn disconnect(&self, id: &str) {
        for mailbox in self.mailboxes() {
            mailbox.send(Mail::Disconnect { id: id.into() }).ok();
        }
    }

    /// Send to one client.
    pub fn push(
        &self,
        to: ChannelAddress,
        event: &str,
        body: impl Into<Body>,
    ) -> Result<(), PayloadError> {
        let body = body.into().checked_object()?;
        self.mail(to.shard, Mail::Push { to, event: event.into(), body }).ok();
        Ok(())
    }

    /// Hand a message to a channel's own [`crate::Channel::handle_info`].
    pub fn send(&self, to: ChannelAddress, info: impl Any + Send) {
        self.mail(to.shard, Mail::Info { to, info: Box::new(info) }).ok();
    }

    pub(crate) fn reply(&self, to: ReplyTo, reply: Reply) {
        self.mail(to.channel.shard, Mail::Reply { to, reply }).ok();
    }

    /// Give a broadcast to every shard but one.
    pub(crate) fn deliver(&self, broadcast: &Arc<Broadcast>, but: Option<ShardId>) {
        for mailbox in self.mailboxes().iter().filter(|mailbox| Some(mailbox.shard()) != but) {
            mailbox.send(Mail::Broadcast(broadcast.clone())).ok();
        }
    }

    /// Mail to one shard. What a full mailbox does not take is dropped and counted.
    pub(crate) fn mail(&self, shard: ShardId, mail: Mail) -> Result<(), Undelivered> {
        let mailbox = self.mailboxes().get(usize::from(shard.0)).ok_or(Undelivered)?;
        mailbox.send(mail).map_err(|_| Undelivered)
    }
}

/// A shard's mailbox was full, or there is no such shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered;
