//! The screen of topics.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use watchfire_operator::answers::FoundTopic;
use watchfire_report::units::{binary_bytes, count, number};

use super::Theme;
use super::rows::{Column, TableView};
use crate::top::session::Session;

const COLUMNS: &[Column<FoundTopic>] = &[
    Column::number("subscribers", 12, 0, |topic| count(topic.subscribers)),
    Column::number("msg/s", 9, 0, |topic| {
        number(topic.messages, usize::from(topic.messages < 9.95))
    }),
    Column::number("bytes/s", 10, 0, |topic| binary_bytes(topic.bytes as u64)),
    Column::number("history", 9, 100, |topic| topic.kept.map_or("–".to_owned(), count)),
    Column::text("owner", 12, 110, |topic| match topic.loops {
        0 | 1 => topic.owner.clone(),
        loops => format!("{} and {}", topic.owner, loops - 1),
    }),
    Column::text("topic", 0, 0, |topic| topic.topic.clone()),
];

pub fn draw(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let names = session.topic_query.order.names();
    let mut summary = match session.topics.as_deref() {
        Some([]) => "No topics".to_owned(),
        Some([_]) => "1 topic".to_owned(),
        Some(topics) => format!("The {} {}", count(topics.len() as u64), names.phrase),
        None => "Searching…".to_owned(),
    };
    if !session.topic_query.prefix.is_empty() {
        summary += &format!(", prefix: {}", session.topic_query.prefix);
    }
    let table = TableView {
        columns: COLUMNS,
        rows: session.topics.as_deref().unwrap_or_default(),
        at: session.topic_rows.at,
        theme,
        ordered_by: Some(names.heading),
    };
    table.draw(buffer, area, &summary, theme.plain);
}
