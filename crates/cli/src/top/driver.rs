//! Connects the session with the terminal, the clock and the network.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::draw::{Theme, draw};
use super::session::{Input, Output, Session, TICK};
use super::terminal::{self, Terminal, TerminalEvent};
use crate::operator::Operator;
use crate::signals::Signals;

/// Runs until the user quits, a signal arrives, or the terminal is gone. Questions wait for their answers
/// beside the keys, so a slow server delays no key.
pub async fn drive(operator: Arc<Operator>, mut session: Session) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut hangups = signal(SignalKind::hangup())?;
    let mut terminal = Terminal::open()?;
    let mut events = terminal::events();
    // The session asks one question of each kind at a time.
    let mut questions = JoinSet::new();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let theme = Theme::from_environment();
    let started_at = Instant::now();
    loop {
        while let Some(output) = session.poll_output() {
            match output {
                Output::Ask(question) => {
                    let operator = operator.clone();
                    questions.spawn(async move {
                        let result = question.ask(&operator).await;
                        Input::Answer(question, result)
                    });
                }
                Output::Redraw => terminal.clear()?,
                Output::Quit => return Ok(ExitCode::SUCCESS),
            }
        }
        terminal.draw(|frame| draw(frame, &session, &theme, started_at.elapsed()))?;
        let input = tokio::select! {
            event = events.recv() => match event {
                Some(TerminalEvent::Input(input)) => input,
                Some(TerminalEvent::Resize) => continue,
                None => anyhow::bail!("cannot read from the terminal: it is gone"),
            },
            Some(answer) = questions.join_next() => answer.context("a question failed")?,
            _ = ticks.tick() => Input::Tick,
            code = signals.next() => return Ok(ExitCode::from(code)),
            _ = hangups.recv() => return Ok(ExitCode::FAILURE),
        };
        session.handle_input(started_at.elapsed(), input);
        // Keys that have arrived meanwhile are drawn together.
        while let Ok(TerminalEvent::Input(input)) = events.try_recv() {
            session.handle_input(started_at.elapsed(), input);
        }
    }
}
