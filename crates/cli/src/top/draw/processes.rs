//! The screen of processes, and below them of the tables of features and of the server.

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
    // The processes get what they need, and at most half if there are tables.
    let needed = u16::try_from(rows.len()).unwrap_or(u16::MAX).saturating_add(2);
    let has_tables = state.tables.len() + state.own_tables.len() > 0;
    let of_processes = if has_tables { needed.min(area.height / 2) } else { area.height };
    table.draw(buffer, Rect { height: of_processes, ..area }, &summary, style);
    let below = |area: Rect, rows: u16| {
        let rows = rows.min(area.height);
        Rect { y: area.y + rows, height: area.height - rows, ..area }
    };
    let of_features = below(area, of_processes);
    tables::draw(buffer, of_features, &state.tables, theme);
    // Beside each other, so that a small terminal shows the first rows of both.
    let own = below(of_features, tables::rows_of(&state.tables));
    let first = own.width * 3 / 5;
    for (table, (x, width)) in state.own_tables.iter().zip([(0, first), (first, own.width - first)])
    {
        let area = Rect { x: own.x + x, width, ..own };
        tables::draw(buffer, area, std::slice::from_ref(table), theme);
    }
}
