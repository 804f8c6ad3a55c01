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

use super::session::{Input, Key};

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
        Event::Key(key) => Some(TerminalEvent::Input(Input::Key(key_of(key)?))),
        Event::Paste(text) => Some(TerminalEvent::Input(Input::Paste(text))),
        Event::Resize(..) => Some(TerminalEvent::Resize),
        Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}

fn key_of(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    if event.modifiers.contains(KeyModifiers::CONTROL) {
        return match event.code {
            KeyCode::Char('c') => Some(Key::Interrupt),
            KeyCode::Char('l') => Some(Key::Redraw),
            _ => None,
        };
    }
    if event.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    Some(match event.code {
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_is_an_interrupt_and_other_combinations_are_no_letters() {
        let key = |code, modifiers| key_of(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Char('y'), KeyModifiers::ALT), None);
        assert_eq!(key(KeyCode::Char('<'), KeyModifiers::SHIFT), Some(Key::Char('<')));
        assert_eq!(key(KeyCode::F(1), KeyModifiers::NONE), None);
    }
}
