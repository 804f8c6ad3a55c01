//! The content of the screen and the questions to the server, as a state machine: keys, answers and ticks go in,
//! questions come out. Drawing reads it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use ratatui::crossterm::event::KeyCode as Key;
use strum::{IntoStaticStr, VariantArray};
use watchfire_operator::answers::{Event, FoundTopic, State};

use super::charts::Charts;
use super::connection_list::{ConnectionList, Details, Watched};
use super::question::{Answer, Failure, Filter, Kind, Order, Question, TopicQuery, after};
use super::questions_open::OpenQuestions;

/// How often [`Input::Tick`] is expected.
pub const TICK: Duration = Duration::from_secs(1);
const NOTICE: Duration = Duration::from_secs(8);
/// Rows that Page Up and Page Down move.
const PAGE_ROWS: isize = 10;
/// Characters of a filter. The head of a request has room for them, even escaped.
const FILTER_CHARS_MAX: usize = 500;
/// The clock of the server may go back by this much before the figures count as figures of another time.
const CLOCK_STEP_MS: u64 = 60_000;

#[derive(Debug)]
pub enum Input {
    Key(Key),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-L: another program wrote on the terminal.
    Redraw,
    Paste(String),
    Answer(Question, Result<Answer, Failure>),
    Tick,
}

/// A request of the session to its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Ask(Question),
    /// Draw every cell again.
    Redraw,
    Quit,
}

/// The screens, in the order of their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Screen {
    #[default]
    Home,
    Connections,
    Topics,
    Processes,
    Events,
}

/// The last line, when it waits for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A filter of connections is typed.
    Filter(Filter),
    /// The prefix of topics is typed.
    Prefix(String),
    /// Disconnect this connection?
    Disconnect { id: String, name: String },
    /// End this topic or process?
    End { what: Question, name: String },
}

/// The rows of a screen without details.
#[derive(Debug, Default)]
pub struct Rows {
    /// The selected row, or the first one that is shown.
    pub at: usize,
}

impl Rows {
    fn move_by(&mut self, rows: isize, count: usize) {
        self.at = self.at.saturating_add_signed(rows).min(count.saturating_sub(1));
    }
}

#[derive(Debug, Default)]
pub struct Session {
    pub server: String,
    pub screen: Screen,
    /// The machine that the user chose; empty for the one that is asked.
    machine: String,
    pub is_paused: bool,
    pub is_help_shown: bool,
    pub prompt: Option<Prompt>,
    notice: Option<(String, Duration)>,
    pub state: Option<State>,
    pub charts: Charts,
    pub connections: ConnectionList,
    pub topics: Option<Vec<FoundTopic>>,
    pub topic_query: TopicQuery,
    pub topic_rows: Rows,
    pub process_rows: Rows,
    /// The newest event first.
    pub events: Vec<Event>,
    pub event_rows: Rows,
    /// When the server answered for the last time.
    answered_at: Option<Duration>,
    failures: BTreeMap<Kind, Failure>,
    open: OpenQuestions,
    /// One question of each kind at most, so it is short.
    outputs: VecDeque<Output>,
}

impl Session {
    /// `server` is shown to the user.
    pub fn new(server: &str) -> Self {
        Session { server: server.to_owned(), ..Session::default() }
    }

    /// `now` is the time since any moment.
    pub fn handle_input(&mut self, now: Duration, input: Input) {
        match input {
            Input::Key(key) => self.handle_key(now, key),
            Input::Interrupt => self.outputs.push_back(Output::Quit),
            Input::Redraw => self.outputs.push_back(Output::Redraw),
            Input::Paste(text) => self.paste(&text),
            Input::Answer(question, result) => self.handle_answer(now, &question, result),
            Input::Tick => {
                self.notice = self.notice.take().filter(|(_, until)| *until > now);
                if !self.is_paused {
                    self.refresh();
                }
            }
        }
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether the server does not answer now.
    pub fn is_lost(&self) -> bool {
        self.failures.contains_key(&Kind::State)
    }

    /// How long ago the server answered for the last time; `None`: never.
    pub fn data_age(&self, now: Duration) -> Option<Duration> {
        self.answered_at.map(|answered_at| now.saturating_sub(answered_at))
    }

    /// Why a question has no answer. When the server does not answer at all, that is the reason.
    pub fn failure(&self, kind: Kind) -> Option<&str> {
        self.failures.get(&kind).map(|failure| failure.message.as_str())
    }

    pub fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|(text, _)| text.as_str())
    }

    /// The number of machines that the user can choose.
    pub fn machine_count(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.machines.len())
    }

    fn ask(&mut self, question: Question) {
        self.outputs.extend(self.open.ask(question).map(Output::Ask));
    }

    /// Asks for everything that the screen shows.
    fn refresh(&mut self) {
        let machine = self.machine.clone();
        self.ask(Question::State { machine: machine.clone() });
        self.ask(Question::History { machine, after_ms: self.charts.last_ms() });
        self.refresh_screen();
    }

    fn refresh_screen(&mut self) {
        let machine = self.machine.clone();
        match self.screen {
            Screen::Home | Screen::Processes => {}
            Screen::Connections => match &self.connections.details {
                Some(details) if details.is_gone => {}
                Some(details) => {
                    let id = details.id.clone();
                    let after = details.watched.as_ref().map(Watched::last);
                    self.ask(Question::Connection { id: id.clone() });
                    if let Some(after) = after {
                        self.ask(Question::Messages { id, after });
                    }
                }
                None => {
                    let query = self.connections.query.clone();
                    self.ask(Question::Connections { machine, query });
                }
            },
            Screen::Topics => {
                let query = self.topic_query.clone();
                self.ask(Question::Topics { machine, query });
            }
            Screen::Events => self.ask(Question::Events { machine }),
        }
    }

    fn handle_answer(
        &mut self,
        now: Duration,
        question: &Question,
        result: Result<Answer, Failure>,
    ) {
        let next = self.open.answered(question);
        self.outputs.extend(next.map(Output::Ask));
        let ended = match question {
            Question::Disconnect { id } => Some(("disconnect", format!("connection {id}"))),
            Question::EndTopic { topic } => Some(("end", format!("topic {topic}"))),
            Question::EndProcess { process, .. } => Some(("end", format!("process {process}"))),
            _ => None,
        };
        if let Some((verb, name)) = ended {
            return self.note_ended(now, verb, &name, result);
        }
        if !self.is_wanted(question) {
            return;
        }
        let kind = question.kind();
        match result {
            Ok(answer) => {
                self.failures.remove(&kind);
                self.answered_at = Some(now);
                self.show(answer);
            }
            Err(failure)
                if failure.is_gone && matches!(kind, Kind::Connection | Kind::Messages) =>
            {
                self.failures.remove(&kind);
                if let Some(details) = &mut self.connections.details {
                    details.is_gone = true;
                }
            }
            Err(failure) => {
                self.failures.insert(kind, failure);
            }
        }
    }

    /// Whether the user has not chosen something else since the question.
    fn is_wanted(&self, question: &Question) -> bool {
        match question {
            Question::State { machine }
            | Question::History { machine, .. }
            | Question::Events { machine } => *machine == self.machine,
            Question::Connections { machine, query } => {
                *machine == self.machine && *query == self.connections.query
            }
            Question::Connection { id } | Question::Messages { id, .. } => {
                self.connections.details.as_ref().is_some_and(|details| details.id == *id)
            }
            Question::Topics { machine, query } => {
                *machine == self.machine && *query == self.topic_query
            }
            Question::Disconnect { .. }
            | Question::EndTopic { .. }
            | Question::EndProcess { .. } => true,
        }
    }

    fn show(&mut self, answer: Answer) {
        match answer {
            Answer::State(state) => {
                if state.now_ms + CLOCK_STEP_MS < self.charts.last_ms() {
                    self.charts.clear();
                }
                self.process_rows.move_by(0, state.processes.len());
                self.state = Some(*state);
            }
            Answer::History(history) => self.charts.add(&history),
            Answer::Events(mut events) => {
                events.reverse();
                self.events = events;
                self.event_rows.move_by(0, self.events.len());
            }
            Answer::Connections(found) => self.connections.set_found(found),
            Answer::Connection(found) => {
                if let Some(details) = &mut self.connections.details {
                    if details.watched.is_none() {
                        let last = found.topics.len().saturating_sub(1);
                        details.scroll = details.scroll.min(last);
                    }
                    details.found = *found;
                }
            }
            Answer::Messages(found) => {
                if let Some(watched) =
                    self.connections.details.as_mut().and_then(|details| details.watched.as_mut())
                {
                    watched.add(found);
                }
            }
            Answer::Topics(topics) => {
                self.topic_rows.move_by(0, topics.len());
                self.topics = Some(topics);
            }
            Answer::Ended => {}
        }
    }

    fn note_ended(
        &mut self,
        now: Duration,
        verb: &str,
        name: &str,
        result: Result<Answer, Failure>,
    ) {
        let text = match result {
            Ok(_) => format!("The server has {verb}ed the {name}."),
            Err(failure) if failure.is_gone => format!("The {name} is gone already."),
            Err(failure) => format!("Cannot {verb} the {name}: {}", failure.message),
        };
        self.notice = Some((text, now + NOTICE));
        self.refresh_screen();
    }

    fn handle_key(&mut self, now: Duration, key: Key) {
        match key {
            _ if self.prompt.is_some() => self.handle_prompt_key(now, key),
            _ if self.is_help_shown => self.is_help_shown = false,
            Key::Char('q') => self.outputs.push_back(Output::Quit),
            Key::Char('?') => self.is_help_shown = true,
            Key::Char(' ') => self.toggle_pause(),
            Key::Char('m') => self.choose_next_machine(),
            Key::Char(digit @ '1'..='5') => {
                self.choose_screen(Screen::VARIANTS[usize::from(digit as u8 - b'1')]);
            }
            Key::Tab => self.choose_screen(after(self.screen, 1)),
            Key::BackTab => self.choose_screen(after(self.screen, -1)),
            _ => match self.screen {
                Screen::Home => {}
                Screen::Connections => self.handle_connections_key(key),
                Screen::Topics => self.handle_topics_key(key),
                Screen::Processes if key == Key::Char('x') => self.ask_to_end_process(),
                Screen::Processes => {
                    let count = self.state.as_ref().map_or(0, |state| state.processes.len());
                    self.process_rows.move_by(rows_of(key), count);
                }
                Screen::Events => self.event_rows.move_by(rows_of(key), self.events.len()),
            },
        }
    }

    fn toggle_pause(&mut self) {
        self.is_paused = !self.is_paused;
        if !self.is_paused {
            self.refresh();
        }
    }

    fn choose_screen(&mut self, screen: Screen) {
        self.screen = screen;
        self.refresh_screen();
    }

    fn choose_next_machine(&mut self) {
        let Some(state) = &self.state else { return };
        let at = state.machines.iter().position(|machine| *machine == state.machine);
        let next = at.map_or(0, |at| at + 1) % state.machines.len().max(1);
        let Some(machine) = state.machines.get(next) else { return };
        if *machine == state.machine {
            return;
        }
        self.machine = machine.clone();
        self.charts.clear();
        self.connections.clear();
        self.connections.details = None;
        self.topics = None;
        self.events.clear();
        self.failures.clear();
        self.refresh();
    }

    fn handle_connections_key(&mut self, key: Key) {
        if self.connections.details.is_some() {
            return self.handle_details_key(key);
        }
        let order = self.connections.query.order;
        match key {
            Key::Char('/') => {
                self.prompt = Some(Prompt::Filter(self.connections.query.filter.clone()));
            }
            Key::Char('x') => self.ask_to_disconnect(),
            Key::Char('t') => {
                self.connections.query.transport = after(self.connections.query.transport, 1);
                self.search_connections();
            }
            Key::Char('<') | Key::Left => self.sort_connections(after(order, -1)),
            Key::Char('>') | Key::Right => self.sort_connections(after(order, 1)),
            Key::Enter => {
                let Some(found) = self.connections.selected().cloned() else { return };
                let id = found.id.clone();
                let details = Details { id, found, ..Details::default() };
                self.connections.details = Some(details);
                self.refresh_screen();
            }
            Key::Esc if !self.connections.query.filter.text().is_empty() => {
                self.connections.query.filter = Filter::default();
                self.search_connections();
            }
            Key::Home => self.connections.select_first(),
            _ => {
                let has_key = |order: &&Order| key == Key::Char(order.names().letter);
                match Order::VARIANTS.iter().find(has_key) {
                    Some(order) => self.sort_connections(*order),
                    None => self.connections.move_by(rows_of(key)),
                }
            }
        }
    }

    fn sort_connections(&mut self, order: Order) {
        self.connections.query.order = order;
        self.search_connections();
    }

    fn search_connections(&mut self) {
        self.connections.clear();
        self.refresh_screen();
    }

    fn handle_details_key(&mut self, key: Key) {
        let Some(details) = &mut self.connections.details else { return };
        let rows_count = match &details.watched {
            Some(watched) => watched.messages.len(),
            None => details.found.topics.len(),
        };
        match key {
            Key::Char('x') => self.ask_to_disconnect(),
            Key::Char('w') => {
                let is_watched = details.watched.is_some();
                details.watched = (!is_watched).then(Watched::default);
                details.scroll = 0;
                self.failures.remove(&Kind::Messages);
                self.refresh_screen();
            }
            Key::Esc | Key::Enter | Key::Backspace | Key::Left => {
                self.connections.details = None;
                self.failures.remove(&Kind::Connection);
                self.failures.remove(&Kind::Messages);
                self.refresh_screen();
            }
            _ => {
                let mut rows = Rows { at: details.scroll };
                rows.move_by(rows_of(key), rows_count);
                details.scroll = rows.at;
            }
        }
    }

    fn ask_to_disconnect(&mut self) {
        let Some(target) = self.connections.target() else { return };
        // A long-poll session has no address between two polls.
        let place = if target.address.is_empty() { &target.transport } else { &target.address };
        let name = match target.user.as_str() {
            "" => place.clone(),
            user => format!("{place} (user {user})"),
        };
        self.prompt = Some(Prompt::Disconnect { id: target.id.clone(), name });
    }

    fn ask_to_end_process(&mut self) {
        let processes = self.state.as_ref().map_or(&[][..], |state| &state.processes[..]);
        let Some(selected) = processes.get(self.process_rows.at) else { return };
        let (machine, process) = (self.machine.clone(), selected.process);
        let what = Question::EndProcess { machine, process };
        self.prompt =
            Some(Prompt::End { what, name: format!("process {process} and its clients") });
    }

    fn handle_topics_key(&mut self, key: Key) {
        let topics = self.topics.as_deref().unwrap_or_default();
        match key {
            Key::Char('/') => self.prompt = Some(Prompt::Prefix(self.topic_query.prefix.clone())),
            Key::Enter => {
                let Some(selected) = topics.get(self.topic_rows.at) else { return };
                self.connections.query.filter = Filter::Topic(selected.topic.clone());
                self.connections.details = None;
                self.connections.clear();
                self.choose_screen(Screen::Connections);
            }
            Key::Char('x') => {
                let Some(selected) = topics.get(self.topic_rows.at) else { return };
                let topic = selected.topic.clone();
                let what = Question::EndTopic { topic: topic.clone() };
                self.prompt = Some(Prompt::End { what, name: format!("the topic {topic}") });
            }
            Key::Char('<') | Key::Left => self.sort_topics(-1),
            Key::Char('>') | Key::Right => self.sort_topics(1),
            Key::Esc if !self.topic_query.prefix.is_empty() => self.filter_topics(String::new()),
            _ => self.topic_rows.move_by(rows_of(key), topics.len()),
        }
    }

    fn sort_topics(&mut self, steps: isize) {
        self.topic_query.order = after(self.topic_query.order, steps);
        self.search_topics();
    }

    fn filter_topics(&mut self, prefix: String) {
        self.topic_query.prefix = prefix;
        self.search_topics();
    }

    fn search_topics(&mut self) {
        self.topics = None;
        self.topic_rows = Rows::default();
        self.refresh_screen();
    }

    fn handle_prompt_key(&mut self, now: Duration, key: Key) {
        let Some(prompt) = self.prompt.take() else { return };
        match (prompt, key) {
            (Prompt::Disconnect { id, .. }, Key::Char('y' | 'Y')) => {
                self.end(now, Question::Disconnect { id });
            }
            (Prompt::End { what, .. }, Key::Char('y' | 'Y')) => self.end(now, what),
            (Prompt::Disconnect { .. } | Prompt::End { .. }, _) | (_, Key::Esc) => {}
            (Prompt::Filter(filter), Key::Enter) => {
                self.connections.query.filter = filter;
                self.search_connections();
            }
            (Prompt::Prefix(prefix), Key::Enter) => self.filter_topics(prefix),
            (Prompt::Filter(filter), Key::Tab) => {
                self.prompt = Some(Prompt::Filter(filter.toggled()));
            }
            (prompt, Key::Backspace) => {
                self.prompt = Some(prompt);
                self.edit(|text| {
                    text.pop();
                });
            }
            (prompt, Key::Char(char)) => {
                self.prompt = Some(prompt);
                self.paste(char.encode_utf8(&mut [0; 4]));
            }
            (prompt, _) => self.prompt = Some(prompt),
        }
    }

    fn end(&mut self, now: Duration, what: Question) {
        if self.open.has(what.kind()) {
            let text = "The server has not answered the last command yet. Try again.";
            self.notice = Some((text.to_owned(), now + NOTICE));
        } else {
            self.ask(what);
        }
    }

    /// Adds text where the user types. Elsewhere it does nothing: pasted text must not act as keys.
    fn paste(&mut self, pasted: &str) {
        self.edit(|text| {
            let room = FILTER_CHARS_MAX.saturating_sub(text.chars().count());
            text.extend(pasted.chars().filter(|char| !char.is_control()).take(room));
        });
    }

    fn edit(&mut self, change: impl FnOnce(&mut String)) {
        match &mut self.prompt {
            Some(Prompt::Filter(filter)) => change(filter.text_mut()),
            Some(Prompt::Prefix(prefix)) => change(prefix),
            Some(Prompt::Disconnect { .. } | Prompt::End { .. }) | None => {}
        }
    }
}

/// By how many rows a key moves.
fn rows_of(key: Key) -> isize {
    match key {
        Key::Up | Key::Char('k') => -1,
        Key::Down | Key::Char('j') => 1,
        Key::PageUp => -PAGE_ROWS,
        Key::PageDown => PAGE_ROWS,
        Key::Home => isize::MIN,
        Key::End => isize::MAX,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
