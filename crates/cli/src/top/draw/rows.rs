//! Lines and tables: each cell at its own column, so that a text of an unexpected width moves no other.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Theme;
use crate::top::text::cut;

/// Draws a text in one row, from a column of the area, and cuts it at the end of the area.
pub fn put(buffer: &mut Buffer, area: Rect, row: u16, column: u16, text: &str, style: Style) {
    if row >= area.height || column >= area.width {
        return;
    }
    let width = usize::from(area.width - column);
    buffer.set_stringn(area.x + column, area.y + row, cut(text, width), width, style);
}

pub fn put_right(buffer: &mut Buffer, area: Rect, row: u16, text: &str, style: Style) {
    let text = cut(text, usize::from(area.width));
    let width = unicode_width::UnicodeWidthStr::width(text.as_str()) as u16;
    put(buffer, area, row, area.width.saturating_sub(width), &text, style);
}

pub struct Column<T> {
    pub title: &'static str,
    pub width: u16,
    /// The column is shown when the table is at least so wide.
    pub min_table_width: u16,
    pub is_number: bool,
    pub cell: fn(&T) -> String,
}

impl<T> Column<T> {
    pub const fn text(
        title: &'static str,
        width: u16,
        min_table_width: u16,
        cell: fn(&T) -> String,
    ) -> Self {
        Column { title, width, min_table_width, is_number: false, cell }
    }

    pub const fn number(
        title: &'static str,
        width: u16,
        min_table_width: u16,
        cell: fn(&T) -> String,
    ) -> Self {
        Column { is_number: true, ..Column::text(title, width, min_table_width, cell) }
    }
}

/// A summary, and below it a table with a title row. The last column gets the rest of the width.
pub struct TableView<'a, T> {
    pub columns: &'a [Column<T>],
    pub rows: &'a [T],
    /// The row that is always visible.
    pub at: usize,
    pub theme: &'a Theme,
    /// The column by which the rows are in order.
    pub ordered_by: Option<&'static str>,
}

impl<T> TableView<'_, T> {
    pub fn draw(&self, buffer: &mut Buffer, area: Rect, summary: &str, style: Style) {
        put(buffer, area, 0, 0, summary, style);
        let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let Some(visible) = usize::from(area.height).checked_sub(1).filter(|rows| *rows > 0) else {
            return;
        };
        let shown: Vec<&Column<T>> =
            self.columns.iter().filter(|column| column.min_table_width <= area.width).collect();
        let mut x = 0;
        for (index, column) in shown.iter().enumerate() {
            let is_last = index + 1 == shown.len();
            let width = if is_last { area.width.saturating_sub(x) } else { column.width };
            let cell =
                Rect { x: area.x + x, width: width.min(area.width.saturating_sub(x)), ..area };
            let is_ordered = self.ordered_by == Some(column.title);
            let title = match is_ordered {
                true => format!("▼{}", column.title),
                false => column.title.to_owned(),
            };
            let put_cell = if column.is_number && !is_last { put_right } else { put_left };
            put_cell(buffer, cell, 0, &title, self.theme.strong);
            let first = first_visible(self.at, visible);
            for (row, item) in self.rows.iter().skip(first).take(visible).enumerate() {
                put_cell(buffer, cell, row as u16 + 1, &(column.cell)(item), Style::new());
            }
            x = x.saturating_add(width + 1);
        }
        if self.at < self.rows.len() {
            let row = (self.at - first_visible(self.at, visible)) as u16 + 1;
            buffer.set_style(Rect { y: area.y + row, height: 1, ..area }, self.theme.selected);
        }
    }
}

fn put_left(buffer: &mut Buffer, area: Rect, row: u16, text: &str, style: Style) {
    put(buffer, area, row, 0, text, style);
}

/// The first row on the screen, so that the row `at` is on it.
fn first_visible(at: usize, visible: usize) -> usize {
    at.saturating_sub(visible.saturating_sub(1))
}
