//! Users that send every message back, so that a test suite can judge the client's side of RFC 6455.

use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Share};
use crate::source::Source;
use crate::stop_flag::StopFlag;

/// Run a scenario whose users send every message back instead of reading it. Nothing is measured.
#[doc(hidden)]
pub fn echo(source: &Source) -> anyhow::Result<()> {
    let scenario = source.scenario()?;
    let share = Share { index: 0, count: 1 };
    let mut engine = Engine::new(&scenario, share, Clock::from_origin(monotonic()))?;
    engine.echoes = true;
    engine.run(&StopFlag::default(), |_| true)?;
    Ok(())
}
