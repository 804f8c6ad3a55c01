//! A handle to the whole server, from any thread.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use edge::Mailbox;
use vocab::ShardId;

use crate::app::{Body, ChannelAddress, PayloadError, Relayed, Reply, ReplyTo};
use crate::broadcast::Broadcast;
use crate::cluster::{Cluster, Word, word};
use crate::shard::Mail;

/// A handle to the whole server, all its processes: broadcast, push and disconnect from any thread.
///
/// Delivery is at most once. What a shard's full mailbox cannot take is dropped and counted.
#[derive(Clone)]
pub struct Endpoint {
    // Set once: the channels get their handle before the shards have started.
    mailboxes: Arc<OnceLock<Box<[Mailbox<Mail>]>>>,
    cluster: Arc<Cluster>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint of {} shards", self.mailboxes().len())
    }
}

impl Endpoint {
    pub(crate) fn unconnected(cluster: Arc<Cluster>) -> Self {
        Endpoint { mailboxes: Arc::default(), cluster }
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
        let broadcast = Arc::new(Broadcast::new(topic, event, body, None));
        self.deliver(&broadcast, None);
        self.publish(&broadcast);
        Ok(())
    }

    /// Send to everyone on a topic who is at this process.
    pub(crate) fn broadcast_here(&self, topic: &str, event: &str, body: Body) {
        self.deliver(&Arc::new(Broadcast::new(topic, event, body, None)), None);
    }

    /// Close every socket whose [`crate::Connected::id`] this is.
    pub fn disconnect(&self, id: &str) {
        self.disconnect_here(id);
        self.cluster.tell_all(|| Word::Disconnect { id });
    }

    pub(crate) fn disconnect_here(&self, id: &str) {
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
        self.push_body(to, event, body).ok();
        Ok(())
    }

    pub(crate) fn push_body(
        &self,
        to: ChannelAddress,
        event: &str,
        body: Body,
    ) -> Result<(), Undelivered> {
        if to.node == self.cluster.me() {
            return self.mail(to.shard, Mail::Push { to, event: event.into(), body });
        }
        let word = Word::Push { to: to.into(), event, body: (&body).into() };
        self.cluster.tell(to.node, word.to_bytes())
    }

    /// Hand a message to a channel's own [`crate::Channel::handle_info`]. Addresses of other
    /// processes never get to an application, so that this need not cross.
    pub fn send(&self, to: ChannelAddress, info: impl Any + Send) {
        self.mail(to.shard, Mail::Info { to, info: Box::new(info) }).ok();
    }

    pub(crate) fn reply(&self, to: ReplyTo, reply: Reply) {
        if to.channel.node == self.cluster.me() {
            self.mail(to.channel.shard, Mail::Reply { to, reply }).ok();
        } else {
            self.cluster.tell(to.channel.node, word::reply(&to, &reply)).ok();
        }
    }

    /// Pass relayed data on to where its destination is.
    pub(crate) fn relay(
        &self,
        what: Relayed,
        to: ChannelAddress,
        data: Bytes,
        ack: ReplyTo,
    ) -> Result<(), Undelivered> {
        if to.node == self.cluster.me() {
            return self.mail(to.shard, Mail::Relay { what, to, data, ack });
        }
        let word = Word::Relay { what, to: to.into(), data: &data, ack: (&ack).into() };
        self.cluster.tell(to.node, word.to_bytes())
    }

    /// Give a broadcast to every shard of this process but one.
    pub(crate) fn deliver(&self, broadcast: &Arc<Broadcast>, but: Option<ShardId>) {
        for mailbox in self.mailboxes().iter().filter(|mailbox| Some(mailbox.shard()) != but) {
            mailbox.send(Mail::Broadcast(broadcast.clone())).ok();
        }
    }

    /// Give a broadcast to the other processes that have subscribers.
    pub(crate) fn publish(&self, broadcast: &Broadcast) {
        let Broadcast { topic, event, body, except, .. } = broadcast;
        self.cluster.publish(topic, || Word::Broadcast {
            topic,
            event,
            body: body.into(),
            except: except.map(Into::into),
        });
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
