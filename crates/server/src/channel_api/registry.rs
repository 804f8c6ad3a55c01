//! The channels of a server, by topic pattern.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use watchfire_auth::SocketToken;
use watchfire_channels::{PatternError, Patterns, Payload};
use watchfire_hub::history::Bounds;

use super::channel::{Channel, Crash, HandleIn, Refusal};
use super::connect::{Connect, Connected, Refused};
use super::forward::{Forward, ForwardKind};
use super::payload::Body;
use super::socket::Socket;
use super::states::{AnyStates, StateId, States};

pub type OnConnect =
    Arc<dyn Fn(&Connect<'_>) -> Result<Connected, Refused> + Send + Sync + 'static>;

/// Whether a client may join a topic, by its token and the payload of the join.
pub type JoinCheck =
    Arc<dyn Fn(&str, Option<&SocketToken>, Payload<'_>) -> Result<(), Refusal> + Send + Sync>;

/// A [`Channel`] whose state type is hidden and whose panics are caught.
///
/// `states` are the states of this channel on one shard, created by [`AnyChannel::states`].
pub trait AnyChannel: Send + Sync {
    /// The states for a new shard: none.
    fn states(&self) -> AnyStates;
    /// The memory of the states, without what they own.
    fn states_bytes(&self, states: &AnyStates) -> usize;
    fn join(
        &self,
        states: &mut AnyStates,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Result<(StateId, Body), Refusal>, Crash>;
    fn joined(
        &self,
        states: &mut AnyStates,
        state: &StateId,
        socket: &mut Socket<'_>,
    ) -> Result<(), Crash>;
    fn handle_in(
        &self,
        states: &mut AnyStates,
        state: &StateId,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn;
    fn handle_info(
        &self,
        states: &mut AnyStates,
        state: &StateId,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn;
    fn leave(
        &self,
        states: &mut AnyStates,
        state: StateId,
        socket: &mut Socket<'_>,
    ) -> Result<(), Crash>;
}

/// Runs code of an application. A panic becomes a [`Crash`]: it must not end the event loop.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Crash> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Crash(text.unwrap_or_else(|| "panic".into()))
    })
}

/// Runs a future of an application, as [`caught`] runs its code.
pub async fn caught_later<T>(
    mut future: Pin<Box<dyn Future<Output = T> + Send>>,
) -> Result<T, Crash> {
    poll_fn(|context| match caught(|| future.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(crash) => Poll::Ready(Err(crash)),
    })
    .await
}

fn own<C: Channel>(states: &mut AnyStates) -> &mut States<C::State> {
    states.downcast_mut().expect("states belong to the channel that created them")
}

impl<C: Channel> AnyChannel for C {
    fn states(&self) -> AnyStates {
        Box::new(States::<C::State>::default())
    }

    fn states_bytes(&self, states: &AnyStates) -> usize {
        states.downcast_ref::<States<C::State>>().map_or(0, States::memory_bytes)
    }

    fn join(
        &self,
        states: &mut AnyStates,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Result<(StateId, Body), Refusal>, Crash> {
        let joined = caught(|| Channel::join(self, socket, payload))?;
        Ok(joined.map(|joined| (own::<C>(states).insert(joined.state), joined.response)))
    }

    fn joined(
        &self,
        states: &mut AnyStates,
        state: &StateId,
        socket: &mut Socket<'_>,
    ) -> Result<(), Crash> {
        caught(|| Channel::joined(self, own::<C>(states).get_mut(state), socket))
    }

    fn handle_in(
        &self,
        states: &mut AnyStates,
        state: &StateId,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        let state = own::<C>(states).get_mut(state);
        caught(|| Channel::handle_in(self, state, socket, event, payload))?
    }

    fn handle_info(
        &self,
        states: &mut AnyStates,
        state: &StateId,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn {
        let state = own::<C>(states).get_mut(state);
        caught(|| Channel::handle_info(self, state, socket, info))?
    }

    fn leave(
        &self,
        states: &mut AnyStates,
        state: StateId,
        socket: &mut Socket<'_>,
    ) -> Result<(), Crash> {
        let state = own::<C>(states).remove(state);
        caught(|| Channel::leave(self, state, socket))
    }
}

/// The channels of a server, by topic pattern, and the application's rule for accepting sockets.
#[derive(Clone)]
pub struct Registry {
    patterns: Patterns<u16>,
    channels: Vec<Arc<dyn AnyChannel>>,
    /// The channels whose binary messages have limits of their own.
    own_limits: Vec<u16>,
    forwards: Vec<Arc<Forward>>,
    /// The bounds of the channels whose topics have a history.
    histories: BTreeMap<u16, Bounds>,
    /// The channels whose joins are checked before the other processes are told of the topic.
    checks: BTreeMap<u16, JoinCheck>,
    /// The application's rule for accepting sockets.
    pub(crate) on_connect: OnConnect,
}

impl Default for Registry {
    fn default() -> Self {
        Registry {
            patterns: Patterns::new(),
            channels: Vec::new(),
            own_limits: Vec::new(),
            forwards: Vec::new(),
            histories: BTreeMap::new(),
            checks: BTreeMap::new(),
            on_connect: Arc::new(|_| Ok(Connected::default())),
        }
    }
}

impl Registry {
    /// Adds a channel. The first pattern that matches a topic wins.
    pub fn add(&mut self, pattern: &str, channel: impl Channel) -> Result<(), PatternError> {
        self.insert(pattern, channel).map(drop)
    }

    /// Adds a channel. Returns its number.
    fn insert(&mut self, pattern: &str, channel: impl Channel) -> Result<u16, PatternError> {
        let number = u16::try_from(self.channels.len()).expect("fewer than 65,536 patterns");
        self.patterns.register(pattern, number)?;
        self.channels.push(Arc::new(channel));
        Ok(number)
    }

    /// Adds a channel whose binary messages have limits of their own. The limit of messages per
    /// second does not apply to them.
    #[doc(hidden)]
    pub fn add_with_own_limits(
        &mut self,
        pattern: &str,
        channel: impl Channel,
    ) -> Result<(), PatternError> {
        let number = self.insert(pattern, channel)?;
        self.own_limits.push(number);
        Ok(())
    }

    /// Adds a kind of data that clients send to each other with [`Socket::forward`].
    #[doc(hidden)]
    pub fn add_forward(&mut self, forward: Forward) -> ForwardKind {
        let kind = u8::try_from(self.forwards.len()).expect("there are few kinds");
        self.forwards.push(Arc::new(forward));
        ForwardKind(kind)
    }

    /// A kind that was added. `None`: another process has more features.
    pub(crate) fn forward(&self, ForwardKind(kind): ForwardKind) -> Option<&Forward> {
        self.forwards.get(usize::from(kind)).map(|forward| &**forward)
    }

    /// Adds a channel whose topics have a history.
    pub(crate) fn add_with_history(
        &mut self,
        pattern: &str,
        channel: impl Channel,
        bounds: Bounds,
    ) -> Result<(), PatternError> {
        let number = self.insert(pattern, channel)?;
        self.histories.insert(number, bounds);
        Ok(())
    }

    /// Checks the joins of a pattern that was added, before the other processes are told of the topic. The
    /// channel checks them again.
    pub(crate) fn check_joins(&mut self, pattern: &str, check: JoinCheck) {
        let added = self.patterns.iter().find(|(added, _)| added.as_str() == pattern);
        let number = *added.expect("the pattern was added").1;
        self.checks.insert(number, check);
    }

    /// The check of the joins of a channel.
    pub(crate) fn join_check(&self, number: u16) -> Option<&JoinCheck> {
        self.checks.get(&number)
    }

    /// All patterns, with the bounds of those whose topics have a history.
    pub(crate) fn histories(&self) -> Patterns<Option<Bounds>> {
        let mut bounds = Patterns::new();
        for (pattern, number) in self.patterns.iter() {
            let of_pattern = self.histories.get(number).copied();
            bounds.register(pattern.as_str(), of_pattern).expect("it was registered before");
        }
        bounds
    }

    /// Whether the channel was added with [`Registry::add_with_own_limits`].
    pub(crate) fn has_own_limits(&self, number: u16) -> bool {
        self.own_limits.contains(&number)
    }

    /// The number of the channel that handles this topic. `None` also for the topics of sockets'
    /// ids, which begin with a zero byte.
    pub(crate) fn find(&self, topic: &str) -> Option<u16> {
        if topic.starts_with('\0') {
            return None;
        }
        self.patterns.find(topic).copied()
    }

    /// The channel with a number of [`Registry::find`].
    pub(crate) fn channel(&self, number: u16) -> &Arc<dyn AnyChannel> {
        &self.channels[usize::from(number)]
    }

    /// For a new shard: the states of each channel, by the channel's number.
    pub(crate) fn states(&self) -> Vec<AnyStates> {
        self.channels.iter().map(|channel| channel.states()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_crash_with_its_text() {
        let crash = caught(|| panic!("no {}", "luck")).map(|(): ()| ()).unwrap_err();
        assert_eq!(crash.0, "no luck");
        assert!(caught(|| ()).is_ok());
    }
}
