//! The screen of topics.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use watchfire_operator::answers::TopicUse;
use watchfire_report::units::count;

use super::Theme;
use super::rows::{Column, TableView};
use crate::top::session::Session;

const COLUMNS: &[Column<TopicUse>] = &[
    Column::number("subscribers", 12, 0, |topic| count(topic.subscribers)),
    Column::text("topic", 0, 0, |topic| topic.topic.clone()),
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
    let table = TableView {
        columns: COLUMNS,
        rows: session.topics.as_deref().unwrap_or_default(),
        at: session.topic_rows.at,
        theme,
        ordered_by: Some("subscribers"),
    };
    table.draw(buffer, area, &summary, theme.plain);
}
