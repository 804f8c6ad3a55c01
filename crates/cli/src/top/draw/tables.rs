//! Tables whose columns the server names.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;
use watchfire_operator::answers::{Table, TableColumn};
use watchfire_report::units::{binary_bytes, count};

use super::Theme;
use super::rows::{put, put_right};
use crate::top::text::span;

/// The rows that all tables need: of each a title, the titles of its columns, its rows, and an empty row before it.
pub fn rows_of(tables: &[Table]) -> u16 {
    tables.iter().fold(0, |rows, table| rows.saturating_add(rows_of_one(table)))
}

fn rows_of_one(table: &Table) -> u16 {
    u16::try_from(table.rows.len()).unwrap_or(u16::MAX).saturating_add(3)
}

pub fn draw(buffer: &mut Buffer, area: Rect, tables: &[Table], theme: &Theme) {
    let mut top = 1;
    for table in tables {
        put(buffer, area, top, 0, &table.title, theme.strong);
        let mut x = 0;
        for (place, column) in table.columns.iter().enumerate() {
            let cells = table.rows.iter().map(|row| text_of(column, row.get(place)));
            let cells: Vec<String> =
                [column.title.to_lowercase()].into_iter().chain(cells).collect();
            let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let width = u16::try_from(width).unwrap_or(u16::MAX);
            let room =
                Rect { x: area.x + x, width: width.min(area.width.saturating_sub(x)), ..area };
            for (row, cell) in (top + 1..).zip(&cells) {
                let style = if row == top + 1 { theme.strong } else { theme.plain };
                match column.unit.as_str() {
                    "text" => put(buffer, room, row, 0, cell, style),
                    _ => put_right(buffer, room, row, cell, style),
                }
            }
            x = x.saturating_add(width).saturating_add(2).min(area.width);
        }
        top = rows_of_one(table).saturating_add(top);
    }
}

fn text_of(column: &TableColumn, value: Option<&Value>) -> String {
    let number = value.and_then(Value::as_f64).map(|number| number as u64);
    let text = match column.unit.as_str() {
        "text" => value.and_then(Value::as_str).map(str::to_owned),
        "bytes" => number.map(binary_bytes),
        "seconds" => value.and_then(Value::as_f64).map(span),
        _ => number.map(count),
    };
    text.unwrap_or_else(|| "–".to_owned())
}
