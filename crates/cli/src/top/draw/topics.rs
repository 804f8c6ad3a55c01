//! The screen of topics.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use watchfire_report::units::count;

use super::Theme;
use super::rows::{Column, TableView, put};
use crate::top::question::TopicUse;
use crate::top::session::Session;

const COLUMNS: &[Column<TopicUse>] = &[
    Column {
        title: "subscribers",
        width: 12,
        min_table_width: 0,
        is_number: true,
        cell: |topic| count(topic.subscribers),
    },
    Column {
        title: "topic",
        width: 0,
        min_table_width: 0,
        is_number: false,
        cell: |topic| topic.topic.clone(),
    },
];

pub fn draw(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let mut summary = match session.topics.as_deref() {
        Some([]) => "No topics".to_owned(),
        Some([_]) => "1 topic".to_owned(),
        Some(topics) => format!("The {} largest topics", count(topics.len() as u64)),
        None => "Searching…".to_owned(),
    };
    if !session.topic_prefix.is_empty() {
        summary += &format!(", prefix: {}", session.topic_prefix);
    }
    put(buffer, area, 0, 0, &summary, theme.plain);
    let table = TableView {
        columns: COLUMNS,
        rows: session.topics.as_deref().unwrap_or_default(),
        at: session.topic_rows.at,
        selected: theme.selected,
        title: theme.strong,
        ordered_by: Some("subscribers"),
    };
    table.draw(buffer, Rect { y: area.y + 1, height: area.height - 1, ..area });
}
