//! The screens of all connections and of one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use watchfire_operator::answers::{Direction, FoundConnection, TcpFigures};
use watchfire_report::units::{binary_bytes, count};

use super::Theme;
use super::rows::{Column, TableView, put};
use crate::top::connection_list::{Details, Watched};
use crate::top::question::Transport;
use crate::top::session::Session;
use crate::top::text::{cut, span, time};

/// Rows of the details above the topics.
const DETAIL_ROWS: u16 = 9;
/// The column of the values of details.
const VALUES: u16 = 14;

/// The texts that clients choose are in the last column.
const COLUMNS: &[Column<FoundConnection>] = &[
    Column::text("address", 21, 0, address),
    Column::text("type", 4, 0, |connection| short_transport(&connection.transport).to_owned()),
    Column::text("state", 13, 110, |connection| connection.state.clone()),
    Column::number("queued", 9, 0, |connection| binary_bytes(connection.queued_bytes)),
    Column::number("wait", 7, 100, |connection| span(connection.queue_seconds)),
    Column::number("idle", 7, 0, |connection| connection.idle_seconds.map_or("–".to_owned(), span)),
    Column::number("sent", 9, 0, |connection| {
        of_tcp(connection, |tcp| binary_bytes(tcp.sent_bytes))
    }),
    Column::number("received", 9, 90, |connection| {
        of_tcp(connection, |tcp| binary_bytes(tcp.received_bytes))
    }),
    Column::number("rtt", 7, 120, |connection| {
        of_tcp(connection, |tcp| millis(tcp.round_trip_micros))
    }),
    Column::number("ch", 5, 60, |connection| count(connection.channels)),
    Column::text("[user] topics", 0, 0, user_and_topics),
];

/// A long-poll session has none between two polls.
fn address(connection: &FoundConnection) -> String {
    if connection.address.is_empty() { "–".to_owned() } else { connection.address.clone() }
}

fn short_transport(transport: &str) -> &str {
    match transport {
        "websocket" => "ws",
        "longpoll" => "poll",
        other => other,
    }
}

fn of_tcp(connection: &FoundConnection, value: fn(&TcpFigures) -> String) -> String {
    connection.tcp.as_ref().map_or("–".to_owned(), value)
}

fn millis(micros: u64) -> String {
    format!("{:.1}ms", micros as f64 / 1_000.0)
}

fn user_and_topics(connection: &FoundConnection) -> String {
    let topics = connection.topics.join(", ");
    match connection.user.as_str() {
        "" => topics,
        user => format!("[{user}] {topics}"),
    }
}

pub fn draw(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let list = &session.connections;
    if let Some(details) = &list.details {
        return draw_details(buffer, area, details, theme);
    }
    let rows = list.rows();
    let mut summary = match &list.found {
        Some(found) => {
            format!("{} of {} connections", count(rows.len() as u64), count(found.scanned))
        }
        None => "Searching…".to_owned(),
    };
    let order = list.query.order.names();
    summary += &format!(", by {}", order.phrase);
    if list.query.transport != Transport::Any {
        summary += &format!(", {} only", list.query.transport.name());
    }
    if !list.query.filter.text().is_empty() {
        summary += &format!(", {}", list.query.filter);
    }
    let (at, ordered_by) = (list.row(), Some(order.heading));
    let table = TableView { columns: COLUMNS, rows, at, theme, ordered_by };
    table.draw(buffer, area, &summary, theme.plain);
}

fn draw_details(buffer: &mut Buffer, area: Rect, details: &Details, theme: &Theme) {
    let Details { id, found, is_gone, scroll, watched } = details;
    let title = match is_gone {
        true => format!("Connection {id} is gone. These were its last figures."),
        false => format!("Connection {id}"),
    };
    put(buffer, area, 0, 0, &title, if *is_gone { theme.bad } else { theme.strong });
    let idle = found.idle_seconds.map_or("–".to_owned(), span);
    let tcp = match &found.tcp {
        Some(tcp) => format!(
            "{} sent, {} received, {} not yet sent by the kernel",
            binary_bytes(tcp.sent_bytes),
            binary_bytes(tcp.received_bytes),
            binary_bytes(tcp.unsent_bytes.into())
        ),
        None => "no TCP connection now".to_owned(),
    };
    let path = found.tcp.as_ref().map(|tcp| {
        format!(
            "round trip {}, {} retransmits, {} segments in flight, window {}",
            millis(tcp.round_trip_micros),
            count(tcp.retransmits.into()),
            count(tcp.unacknowledged_segments.into()),
            count(tcp.congestion_window.into())
        )
    });
    let queue = format!(
        "{} wait for the client, for {}",
        binary_bytes(found.queued_bytes),
        span(found.queue_seconds)
    );
    let user = if found.user.is_empty() { "–" } else { &found.user };
    let lines: [(&str, &str); DETAIL_ROWS as usize - 2] = [
        ("address", &address(found)),
        ("transport", &format!("{}, {}", found.transport, found.state)),
        ("user", user),
        ("queue", &queue),
        ("idle for", &idle),
        ("TCP", &tcp),
        ("", path.as_deref().unwrap_or_default()),
    ];
    for (row, (name, value)) in (1..).zip(lines) {
        put(buffer, area, row, 0, name, theme.plain);
        put(buffer, area, row, VALUES, value, theme.plain);
    }
    if let Some(watched) = watched {
        let below =
            Rect { y: area.y + DETAIL_ROWS - 1, height: area.height - DETAIL_ROWS + 1, ..area };
        return draw_messages(buffer, below, watched, *scroll, theme);
    }
    let heading = match found.channels {
        1 => "1 channel".to_owned(),
        channels => format!("{} channels", count(channels)),
    };
    put(buffer, area, DETAIL_ROWS - 1, 0, &heading, theme.strong);
    for (row, topic) in (DETAIL_ROWS..area.height).zip(found.topics.iter().skip(*scroll)) {
        put(buffer, area, row, 2, topic, theme.plain);
    }
}

/// Columns of a message before its topic: the time of the day, direction, event and size.
const EVENT: usize = 24;

fn draw_messages(buffer: &mut Buffer, area: Rect, watched: &Watched, scroll: usize, theme: &Theme) {
    let missed = match watched.missed {
        0 => String::new(),
        missed => format!("; {} came too fast", count(missed)),
    };
    let heading = format!("Messages, the last one first; times are UTC{missed}");
    put(buffer, area, 0, 0, &heading, theme.strong);
    if watched.messages.is_empty() {
        put(buffer, area, 1, 2, "None yet.", theme.plain);
    }
    for (row, message) in (1..area.height).zip(watched.messages.iter().skip(scroll)) {
        let date = time(message.time_ms);
        let time = date.split_once(' ').map_or(&*date, |(_, time)| time);
        let arrow = match message.direction {
            Direction::Received => "from client",
            Direction::Sent => "to client",
        };
        let event = cut(&message.event, EVENT);
        let size = binary_bytes(message.payload_bytes as u64);
        let text = format!("{time} {arrow:<11} {event:<EVENT$} {size:>9}  {}", message.topic);
        put(buffer, area, row, 0, &text, theme.plain);
    }
}
