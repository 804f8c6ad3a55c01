use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use channels::{PatternError, Patterns};

use super::{
    Body, Channel, Connect, Connected, Crash, HandleIn, Payload, Refusal, Refused, Socket,
};

/// One joined client's state, whatever its channel made it. A `Box` of nothing costs no memory.
pub(crate) type State = Box<dyn Any + Send>;

pub(crate) type OnConnect =
    Arc<dyn Fn(&Connect<'_>) -> Result<Connected, Refused> + Send + Sync + 'static>;

/// A [`Channel`] with its state's type hidden and its panics caught.
pub(crate) trait AnyChannel: Send + Sync {
    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Result<(State, Body), Refusal>, Crash>;
    fn joined(&self, state: &mut State, socket: &mut Socket<'_>) -> Result<(), Crash>;
    fn handle_in(
        &self,
        state: &mut State,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn;
    fn handle_info(
        &self,
        state: &mut State,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn;
    fn leave(&self, state: State, socket: &mut Socket<'_>) -> Result<(), Crash>;
}

fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Crash> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Crash(text.unwrap_or_else(|| "panic".into()))
    })
}

fn own<C: Channel>(state: &mut State) -> &mut C::State {
    state.downcast_mut().expect("a state stays with the channel that made it")
}

impl<C: Channel> AnyChannel for C {
    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Result<(State, Body), Refusal>, Crash> {
        let joined = caught(|| Channel::join(self, socket, payload))?;
        Ok(joined.map(|joined| (Box::new(joined.state) as State, joined.response)))
    }

    fn joined(&self, state: &mut State, socket: &mut Socket<'_>) -> Result<(), Crash> {
        caught(|| Channel::joined(self, own::<C>(state), socket))
    }

    fn handle_in(
        &self,
        state: &mut State,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        caught(|| Channel::handle_in(self, own::<C>(state), socket, event, payload))?
    }

    fn handle_info(
        &self,
        state: &mut State,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn {
        caught(|| Channel::handle_info(self, own::<C>(state), socket, info))?
    }

    fn leave(&self, state: State, socket: &mut Socket<'_>) -> Result<(), Crash> {
        let state = state.downcast().expect("a state stays with the channel that made it");
        caught(|| Channel::leave(self, *state, socket))
    }
}

/// The channels of a server, by topic pattern, and its rule for letting sockets in.
#[derive(Clone)]
pub(crate) struct Registry {
    patterns: Patterns<u16>,
    channels: Vec<Arc<dyn AnyChannel>>,
    pub on_connect: OnConnect,
}

impl Default for Registry {
    fn default() -> Self {
        Registry {
            patterns: Patterns::new(),
            channels: Vec::new(),
            on_connect: Arc::new(|_| Ok(Connected::default())),
        }
    }
}

impl Registry {
    /// The first pattern that matches a topic wins.
    pub fn add(&mut self, pattern: &str, channel: impl Channel) -> Result<(), PatternError> {
        let number = u16::try_from(self.channels.len()).expect("fewer than 65,536 patterns");
        self.patterns.register(pattern, number)?;
        self.channels.push(Arc::new(channel));
        Ok(())
    }

    /// The number of the channel that answers for this topic.
    pub fn find(&self, topic: &str) -> Option<u16> {
        self.patterns.find(topic).copied()
    }

    pub fn channel(&self, number: u16) -> &Arc<dyn AnyChannel> {
        &self.channels[usize::from(number)]
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
