//! The terminal: its modes, its keys, and its state as before at the end.

use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, bail};
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers,
};
use ratatui::crossterm::terminal::{
    self, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
};
use ratatui::crossterm::{cursor, execute};
use tokio::sync::mpsc;

use super::session::Input;

/// Events that wait for the session. When there are more, they stay with the terminal.
const EVENTS_MAX: usize = 64;

/// Whether the terminal has to be restored.
static IS_CHANGED: AtomicBool = AtomicBool::new(false);

/// Fails unless the standard input and output are a terminal that can show a screen.
pub fn check() -> anyhow::Result<()> {
    let missing = match (io::stdin().is_terminal(), io::stdout().is_terminal()) {
        (false, _) => "the standard input is not a terminal",
        (_, false) => "the standard output is not a terminal",
        _ if std::env::var_os("TERM").is_some_and(|term| term == "dumb") => {
            "the terminal is dumb (TERM)"
        }
        _ => return Ok(()),
    };
    bail!("cannot show a screen: {missing}; `watchfire doctor --operator` prints the state once")
}

/// The terminal in the mode for a screen. It is restored when this is dropped, and on a panic.
pub struct Terminal(ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>);

impl Terminal {
    pub fn open() -> anyhow::Result<Self> {
        restore_on_panic();
        let backend = CrosstermBackend::new(BufWriter::new(io::stdout()));
        terminal::enable_raw_mode().context("cannot change the mode of the terminal")?;
        IS_CHANGED.store(true, Ordering::SeqCst);
        // From here, a failure restores the terminal.
        let terminal = ratatui::Terminal::new(backend).map(Terminal);
        // Text that the terminal takes for wider than it is cannot move to the next line.
        let entered = execute!(
            io::stdout(),
            EnterAlternateScreen,
            DisableLineWrap,
            EnableBracketedPaste,
            cursor::Hide
        );
        if terminal.is_err() || entered.is_err() {
            restore();
        }
        entered.context("cannot write to the terminal")?;
        terminal.context("cannot read the size of the terminal")
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.0.draw(draw).map(drop).context("cannot write to the terminal")
    }

    /// Has the next [`Terminal::draw`] write every cell.
    pub fn clear(&mut self) -> anyhow::Result<()> {
        // `clear` of ratatui asks the terminal for the cursor, and the thread of [`events`] would read the answer.
        let size = self.0.size().context("cannot read the size of the terminal")?;
        self.0.resize(size.into()).context("cannot write to the terminal")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once: a second time would move the cursor over the message of a panic. The terminal
/// may be gone, so errors have no reader.
fn restore() {
    if !IS_CHANGED.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    let _ =
        execute!(out, DisableBracketedPaste, LeaveAlternateScreen, EnableLineWrap, cursor::Show);
    let _ = out.flush();
    let _ = terminal::disable_raw_mode();
}

/// Prints the message of a panic on a terminal that is restored.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            print(info);
        }));
    });
}

pub enum TerminalEvent {
    Input(Input),
    Resize,
}

/// Reads the terminal on a thread. The channel ends when the terminal does.
pub fn events() -> mpsc::Receiver<TerminalEvent> {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            let Some(event) = translated(event) else { continue };
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

fn translated(event: Event) -> Option<TerminalEvent> {
    match event {
        Event::Key(key) => Some(TerminalEvent::Input(input_of(key)?)),
        Event::Paste(text) => Some(TerminalEvent::Input(Input::Paste(text))),
        Event::Resize(..) => Some(TerminalEvent::Resize),
        Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}

fn input_of(event: KeyEvent) -> Option<Input> {
    let has = |modifiers| event.modifiers.contains(modifiers);
    match event.code {
        _ if event.kind == KeyEventKind::Release => None,
        KeyCode::Char('c') if has(KeyModifiers::CONTROL) => Some(Input::Interrupt),
        KeyCode::Char('l') if has(KeyModifiers::CONTROL) => Some(Input::Redraw),
        _ if has(KeyModifiers::CONTROL) || has(KeyModifiers::ALT) => None,
        key => Some(Input::Key(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_is_an_interrupt_and_other_combinations_are_no_letters() {
        let input = |code, modifiers| input_of(KeyEvent::new(code, modifiers));
        let control = |char| input(KeyCode::Char(char), KeyModifiers::CONTROL);
        assert!(matches!(control('c'), Some(Input::Interrupt)));
        assert!(control('x').is_none());
        assert!(input(KeyCode::Char('y'), KeyModifiers::ALT).is_none());
        let shifted = input(KeyCode::Char('<'), KeyModifiers::SHIFT);
        assert!(matches!(shifted, Some(Input::Key(KeyCode::Char('<')))));
    }
}
