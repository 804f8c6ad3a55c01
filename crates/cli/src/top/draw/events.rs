//! The screen of events.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Theme;
use super::rows::put;
use crate::top::session::Session;
use crate::top::text::time;

const TIME: u16 = 21;
const KIND: u16 = 16;

pub fn draw(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let heading = match session.events.len() {
        0 => "No events yet.",
        _ => "The newest event is the first; times are UTC.",
    };
    put(buffer, area, 0, 0, heading, theme.plain);
    for (row, event) in (1..area.height).zip(session.events.iter().skip(session.event_rows.at)) {
        let style = match event.kind.as_str() {
            "trouble_begin" | "process_lost" | "machine_lost" => theme.bad,
            _ => theme.plain,
        };
        put(buffer, area, row, 0, &time(event.time_ms), style);
        let kind = Rect { x: area.x + TIME, width: KIND - 1, ..area };
        put(buffer, kind, row, 0, &event.kind.replace('_', " "), style);
        put(buffer, area, row, TIME + KIND, &event.text, style);
    }
}
