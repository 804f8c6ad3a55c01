//! The parts of all screens: the server and its machine on top, the screens, a notice, and the keys at the bottom.

use std::time::Duration;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use strum::VariantArray as _;

use super::rows::{put, put_right};
use super::{Theme, connections, events, home, processes, topics};
use crate::top::question::{Filter, Kind};
use crate::top::session::{Prompt, Screen, Session};
use crate::top::text::{cut, span, span_between};

/// The smallest terminal.
const WIDTH_MIN: u16 = 60;
const HEIGHT_MIN: u16 = 15;

const HELP: &[&str] = &[
    "1-5, Tab        choose the screen",
    "Space           pause, and continue",
    "m               next machine",
    "q, Ctrl-C       quit; Ctrl-L draws the screen again",
    "Up, Down, j, k  move; also Page Up, Page Down, Home, End",
    "Connections     Enter: details  x: disconnect",
    "                in details: w watches messages",
    "                / filter by topic or address  t transport",
    "      order     b queued  w wait  i idle  s sent",
    "                r received  c channels  < > the next one",
    "Topics          Enter: connections of it  / prefix",
    "                < > order  x: end it, also Processes",
];

pub fn draw(frame: &mut Frame<'_>, session: &Session, theme: &Theme, now: Duration) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let size = format!("This terminal is {}x{};", area.width, area.height);
        put(buffer, area, 0, 0, &size, theme.plain);
        let needed = format!("watchfire top needs {WIDTH_MIN}x{HEIGHT_MIN}.");
        put(buffer, area, 1, 0, &needed, theme.plain);
        return;
    }
    let line = |y| Rect { y, height: 1, ..area };
    draw_server(buffer, line(0), session, theme, now);
    draw_titles(buffer, line(1), session, theme);
    let notice = notice(session);
    let notice_rows = u16::from(notice.is_some());
    if let Some(notice) = notice {
        put(buffer, line(area.height - 2), 0, 0, &notice, theme.bad);
    }
    draw_keys(buffer, line(area.height - 1), session, theme);
    let body = Rect { y: 2, height: area.height - 3 - notice_rows, ..area };
    if session.is_help_shown {
        for (row, text) in HELP.iter().enumerate() {
            put(buffer, body, row as u16, 1, text, theme.plain);
        }
        return;
    }
    match session.screen {
        Screen::Home => home::draw(buffer, body, session, theme),
        Screen::Connections => connections::draw(buffer, body, session, theme),
        Screen::Topics => topics::draw(buffer, body, session, theme),
        Screen::Processes => processes::draw(buffer, body, session, theme),
        Screen::Events => events::draw(buffer, body, session, theme),
    }
}

fn draw_server(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme, now: Duration) {
    let status = match session.data_age(now) {
        None if session.is_lost() => "no data".to_owned(),
        Some(age) if session.is_lost() || session.is_paused => {
            let pause = if session.is_paused { "paused, " } else { "" };
            format!("{pause}data is {} old", span(age.as_secs_f64()))
        }
        _ => String::new(),
    };
    let status_width = status.chars().count() as u16 + 1;
    let style = if session.is_lost() { theme.bad } else { theme.strong };
    put_right(buffer, area, 0, &status, style);
    let area = Rect { width: area.width.saturating_sub(status_width), ..area };
    let Some(state) = &session.state else {
        return put(buffer, area, 0, 0, &format!("Watchfire at {}", session.server), theme.strong);
    };
    let machine = cut(&state.machine, usize::from(area.width / 3));
    let machines = match state.machines.len() {
        0 | 1 => String::new(),
        count => format!(" (of {count} machines)"),
    };
    let processes = match state.processes.len() {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let up = span_between(state.started_ms, state.now_ms);
    let version = cut(&state.version, 16);
    let text = format!("{machine}{machines}  {version}  up {up}  {processes}");
    put(buffer, area, 0, 0, &text, theme.strong);
}

fn draw_titles(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let mut column = 0;
    for (index, screen) in Screen::VARIANTS.iter().enumerate() {
        let style = if *screen == session.screen { theme.selected } else { theme.plain };
        let text = format!(" {} {} ", index + 1, <&str>::from(screen));
        put(buffer, area, 0, column, &text, style);
        column += text.len() as u16;
    }
    let troubles = session.state.as_ref().map_or(0, |state| state.troubles.len());
    if troubles > 0 && session.screen != Screen::Home && column + 12 < area.width {
        let text = if troubles == 1 { "1 trouble" } else { &format!("{troubles} troubles") };
        put_right(buffer, area, 0, text, theme.bad);
    }
}

/// Why the screen has no fresh figures, or what became of a command.
fn notice(session: &Session) -> Option<String> {
    let kind = match (session.screen, &session.connections.details) {
        (Screen::Connections, Some(details)) if details.watched.is_some() => Kind::Messages,
        (Screen::Connections, Some(_)) => Kind::Connection,
        (Screen::Connections, None) => Kind::Connections,
        (Screen::Topics, _) => Kind::Topics,
        (Screen::Events, _) => Kind::Events,
        (Screen::Home | Screen::Processes, _) => Kind::History,
    };
    let failure = || session.failure(Kind::State).or_else(|| session.failure(kind));
    session.notice().or_else(failure).map(ToOwned::to_owned)
}

fn draw_keys(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let typed = match &session.prompt {
        Some(Prompt::Disconnect { id, name }) => {
            // The question stays on the line, however long the name is.
            let room = usize::from(area.width).saturating_sub(40 + id.len());
            let name = cut(name, room.max(10));
            let id = cut(id, 30);
            Some(format!("Disconnect {name}, {id}? y: yes, other keys: no"))
        }
        Some(Prompt::End { name, .. }) => {
            let room = usize::from(area.width).saturating_sub(32);
            Some(format!("End {}? y: yes, other keys: no", cut(name, room)))
        }
        Some(Prompt::Filter(filter)) => {
            let other = match filter {
                Filter::Topic(_) => "address",
                Filter::Address(_) => "topic",
            };
            Some(with_cursor(&filter.to_string(), &format!("Enter  Esc  Tab: {other}"), area))
        }
        Some(Prompt::Prefix(prefix)) => {
            Some(with_cursor(&format!("prefix: {prefix}"), "Enter  Esc", area))
        }
        None => None,
    };
    if let Some(typed) = typed {
        buffer.set_style(area, theme.selected);
        return put(buffer, area, 0, 0, &typed, theme.selected);
    }
    let of_screen = match (session.screen, &session.connections.details) {
        (Screen::Connections, Some(_)) => "Esc back  w messages  x disconnect  ",
        (Screen::Connections, None) => "Enter details  x disconnect  / filter  < > sort  ",
        (Screen::Topics, _) => "Enter connections  x end  / prefix  < > sort  ",
        (Screen::Processes, _) => "x end process  1-5 screen  ",
        (Screen::Home | Screen::Events, _) => "1-5 screen  ",
    };
    let machine = if session.machine_count() > 1 { "m machine  " } else { "" };
    let pause = if session.is_paused { "Space continue" } else { "Space pause" };
    let keys = match session.is_help_shown {
        true => "any key: back".to_owned(),
        false => format!("{of_screen}? help  q quit  {machine}{pause}"),
    };
    put(buffer, area, 0, 0, &keys, theme.plain);
}

/// Shows the typed text, with its end visible, and the keys on the right.
fn with_cursor(text: &str, keys: &str, area: Rect) -> String {
    let room = usize::from(area.width).saturating_sub(keys.chars().count() + 4);
    let shown: Vec<char> = cut(text, usize::MAX).chars().collect();
    let mut first = 0;
    let mut end: String = shown.iter().collect();
    while unicode_width::UnicodeWidthStr::width(end.as_str()) > room && first < shown.len() {
        first += 1;
        end = shown[first..].iter().collect();
    }
    let begin = if first > 0 { "…" } else { "" };
    format!("{begin}{end}▏  {keys}")
}
