//! The screen of connections: what is asked for, what was found, and which row is selected.

use std::collections::VecDeque;

use watchfire_operator::answers::{
    FoundConnection, FoundConnections, WatchedMessage, WatchedMessages,
};

use super::question::ConnectionQuery;

/// Messages of a connection that the screen keeps.
const MESSAGES_MAX: usize = 200;

#[derive(Debug, Default)]
pub struct ConnectionList {
    pub query: ConnectionQuery,
    pub found: Option<FoundConnections>,
    /// The connection that the user selected. `None`: the first row, whichever it is.
    selected_id: Option<String>,
    /// Its row, also when it is gone.
    row: usize,
    pub details: Option<Details>,
}

/// One connection, which the user looks at.
#[derive(Debug, Default)]
pub struct Details {
    pub id: String,
    pub found: FoundConnection,
    pub is_gone: bool,
    /// The first topic or message that is shown.
    pub scroll: usize,
    /// `None`: its messages are not watched.
    pub watched: Option<Watched>,
}

/// The last messages of a connection that the user watches.
#[derive(Debug, Default)]
pub struct Watched {
    since_ms: u64,
    /// Those that came too fast to be read.
    pub missed: u64,
    /// The last one first.
    pub messages: VecDeque<WatchedMessage>,
}

impl Watched {
    pub fn last(&self) -> u64 {
        self.messages.front().map_or(0, |message| message.number)
    }

    /// Adds the messages that came since.
    pub fn add(&mut self, found: WatchedMessages) {
        // The server forgot the watch and began another one.
        if found.since_ms != self.since_ms {
            *self = Watched { since_ms: found.since_ms, ..Watched::default() };
        }
        self.missed += found.missed;
        for message in found.messages {
            self.messages.push_front(message);
        }
        self.messages.truncate(MESSAGES_MAX);
    }
}

impl ConnectionList {
    /// Shows what was found. The selection follows its connection.
    pub fn set_found(&mut self, found: FoundConnections) {
        self.found = Some(found);
        let Some(selected) = &self.selected_id else { return };
        let row = self.rows().iter().position(|connection| connection.id == *selected);
        match row {
            Some(row) => self.row = row,
            None => self.select(self.row),
        }
    }

    /// Forgets what was found for another query.
    pub fn clear(&mut self) {
        self.found = None;
        self.select_first();
    }

    pub fn rows(&self) -> &[FoundConnection] {
        self.found.as_ref().map_or(&[], |found| &found.connections)
    }

    pub fn move_by(&mut self, rows: isize) {
        self.select(self.row.saturating_add_signed(rows));
    }

    pub fn select_first(&mut self) {
        (self.selected_id, self.row) = (None, 0);
    }

    pub fn row(&self) -> usize {
        self.row
    }

    fn select(&mut self, row: usize) {
        self.row = row.min(self.rows().len().saturating_sub(1));
        self.selected_id = self.rows().get(self.row).map(|connection| connection.id.clone());
    }

    pub fn selected(&self) -> Option<&FoundConnection> {
        self.rows().get(self.row)
    }

    /// The connection that a command is about: the one in the details, or else the selected one.
    pub fn target(&self) -> Option<&FoundConnection> {
        match &self.details {
            Some(details) => Some(&details.found).filter(|_| !details.is_gone),
            None => self.selected(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: &[&str]) -> FoundConnections {
        let connection =
            |id: &&str| FoundConnection { id: (*id).to_owned(), ..FoundConnection::default() };
        let connections = ids.iter().map(connection).collect();
        FoundConnections { connections, ..FoundConnections::default() }
    }

    fn selected(list: &ConnectionList) -> &str {
        list.selected().map_or("", |connection| &connection.id)
    }

    #[test]
    fn the_selection_is_the_first_row_until_the_user_moves_it_and_then_follows_a_connection() {
        let mut list = ConnectionList::default();
        list.move_by(1);
        assert_eq!(selected(&list), "");
        list.set_found(found(&["a", "b", "c"]));
        assert_eq!(selected(&list), "a");
        list.set_found(found(&["c", "a", "b"]));
        assert_eq!(selected(&list), "c");
        list.move_by(1);
        list.set_found(found(&["c", "b", "a"]));
        assert_eq!((selected(&list), list.row()), ("a", 2));
        list.set_found(found(&["c", "b"]));
        assert_eq!(selected(&list), "b", "a is gone");
        list.move_by(-9);
        assert_eq!(selected(&list), "c");
        list.move_by(isize::MAX);
        assert_eq!(selected(&list), "b");
        list.set_found(found(&[]));
        assert_eq!(selected(&list), "");
        list.clear();
        list.set_found(found(&["x"]));
        assert_eq!(selected(&list), "x");
    }
}
