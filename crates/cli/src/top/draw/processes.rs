//! The screen of processes, and below them of the tables of features.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use watchfire_operator::answers::Process;
use watchfire_report::units::{binary_bytes, count, number};

use super::rows::{Column, TableView, put};
use super::{Theme, tables};
use crate::top::session::Session;
use crate::top::text::span;

const COLUMNS: &[Column<Process>] = &[
    Column::number("process", 7, 0, |process| process.process.to_string()),
    Column::number("clients", 9, 0, |process| count(process.clients as u64)),
    Column::number("channels", 10, 110, |process| count(process.channels as u64)),
    Column::number("topics", 9, 100, |process| count(process.topics as u64)),
    Column::number("queued", 9, 90, |process| binary_bytes(process.queued_bytes as u64)),
    Column::number("CPU", 5, 0, |process| number(process.cpu, 2)),
    Column::number("memory", 9, 0, |process| binary_bytes(process.resident_bytes as u64)),
    Column::number("files", 17, 0, |process| {
        format!("{} of {}", count(process.open_fds as u64), count(process.max_fds as u64))
    }),
    Column::number("up", 7, 0, |process| span(process.uptime_seconds)),
    Column::number("busy loops", 0, 0, |process| {
        let busy = process.busy.iter().map(|busy| format!("{:.0}%", busy * 100.0));
        busy.collect::<Vec<_>>().join(" ")
    }),
];

pub fn draw(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let Some(state) = &session.state else {
        return put(buffer, area, 1, 0, "Waiting for the server…", theme.plain);
    };
    let missing: Vec<String> = state.missing_processes.iter().map(u16::to_string).collect();
    let summary = match &missing[..] {
        [] => "All processes answer.".to_owned(),
        [process] => format!("! Process {process} does not answer."),
        _ => format!("! Processes {} do not answer.", missing.join(", ")),
    };
    let style = if missing.is_empty() { theme.plain } else { theme.bad };
    let (at, rows) = (session.process_rows.at, &state.processes[..]);
    let table = TableView { columns: COLUMNS, rows, at, theme, ordered_by: None };
    let of_tables = tables::rows_of(&state.tables).min(area.height / 2);
    let of_processes = area.height - of_tables;
    table.draw(buffer, Rect { height: of_processes, ..area }, &summary, style);
    let below = Rect { y: area.y + of_processes, height: of_tables, ..area };
    tables::draw(buffer, below, &state.tables, theme);
}
