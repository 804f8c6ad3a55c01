//! Keys, answers and ticks, and what the session does with them.

use watchfire_operator::answers::{
    FoundConnection, FoundConnections, Process, WatchedMessage, WatchedMessages,
};

use super::*;
use crate::top::question::{ConnectionQuery, TopicOrder, Transport};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Gives the keys of a text; `\n` is Enter and `\x1b` is Escape.
fn press(session: &mut Session, keys: &str) {
    for char in keys.chars() {
        let key = match char {
            '\n' => Key::Enter,
            '\x1b' => Key::Esc,
            '\t' => Key::Tab,
            '\x08' => Key::Backspace,
            _ => Key::Char(char),
        };
        session.handle_input(at(0), Input::Key(key));
    }
}

fn asked(session: &mut Session) -> Vec<Question> {
    let outputs = std::iter::from_fn(|| session.poll_output());
    outputs
        .map(|output| match output {
            Output::Ask(question) => question,
            other => panic!("{other:?} instead of a question"),
        })
        .collect()
}

fn answer(session: &mut Session, question: Question, answer: Answer) {
    session.handle_input(at(1), Input::Answer(question, Ok(answer)));
}

fn failure(message: &str, is_gone: bool) -> Failure {
    Failure { message: message.into(), is_gone }
}

fn state_of(machine: &str) -> Question {
    Question::State { machine: machine.into() }
}

fn history_of(machine: &str, after_ms: u64) -> Question {
    Question::History { machine: machine.into(), after_ms }
}

fn connections(query: ConnectionQuery) -> Question {
    Question::Connections { machine: String::new(), query }
}

fn by_topic(topic: &str) -> ConnectionQuery {
    ConnectionQuery { filter: Filter::Topic(topic.into()), ..ConnectionQuery::default() }
}

fn two_connections() -> Answer {
    let connection = |id: &str| FoundConnection {
        id: id.into(),
        address: format!("192.0.2.1:{}", id.len()),
        ..FoundConnection::default()
    };
    let connections = vec![connection("0-0-1-1"), connection("0-0-22-1")];
    Answer::Connections(FoundConnections { connections, ..FoundConnections::default() })
}

/// A session that shows two connections, with no question open but the state and the history.
fn with_connections() -> Session {
    let mut session = Session::new("http://localhost:4010");
    press(&mut session, "2");
    assert_eq!(asked(&mut session), [connections(ConnectionQuery::default())]);
    answer(&mut session, connections(ConnectionQuery::default()), two_connections());
    session
}

#[test]
fn each_tick_asks_for_the_state_and_what_the_screen_shows_once() {
    let mut session = Session::new("");
    session.handle_input(at(0), Input::Tick);
    assert_eq!(asked(&mut session), [state_of(""), history_of("", 0)]);
    for _ in 0..3 {
        session.handle_input(at(1), Input::Tick);
        assert_eq!(asked(&mut session), [], "the questions are open");
    }
    answer(&mut session, state_of(""), Answer::State(Box::default()));
    press(&mut session, "5");
    let events = Question::Events { machine: String::new() };
    assert_eq!(asked(&mut session), std::slice::from_ref(&events), "at once, not at the next tick");
    session.handle_input(at(2), Input::Tick);
    assert_eq!(asked(&mut session), [state_of("")]);
    let event = |time_ms| Event { time_ms, ..Event::default() };
    answer(&mut session, events, Answer::Events(vec![event(1), event(2)]));
    assert_eq!(session.events[0].time_ms, 2, "the newest first");
}

#[test]
fn a_pause_asks_nothing_until_it_ends() {
    let mut session = Session::new("");
    press(&mut session, " ");
    session.handle_input(at(0), Input::Tick);
    assert_eq!(asked(&mut session), []);
    press(&mut session, " ");
    assert_eq!(asked(&mut session), [state_of(""), history_of("", 0)]);
}

#[test]
fn keys_choose_the_screen() {
    let mut session = Session::new("");
    for (digit, screen) in ["1", "2", "3", "4", "5"].into_iter().zip(Screen::VARIANTS) {
        press(&mut session, digit);
        assert_eq!(session.screen, *screen);
    }
    press(&mut session, "\t");
    assert_eq!(session.screen, Screen::Home);
    session.handle_input(at(0), Input::Key(Key::BackTab));
    assert_eq!(session.screen, Screen::Events);
    press(&mut session, "?3");
    assert_eq!((session.screen, session.is_help_shown), (Screen::Events, false));
}

#[test]
fn q_and_an_interrupt_quit_but_q_can_be_typed() {
    let mut session = Session::new("");
    press(&mut session, "q");
    assert_eq!(session.poll_output(), Some(Output::Quit));
    press(&mut session, "3/q");
    assert_eq!(session.prompt, Some(Prompt::Prefix("q".into())));
    session.handle_input(at(0), Input::Interrupt);
    assert_eq!(std::iter::from_fn(|| session.poll_output()).last(), Some(Output::Quit));
}

#[test]
fn a_lost_server_is_shown_with_the_age_of_the_figures_until_it_answers() {
    let mut session = Session::new("");
    session.handle_input(at(0), Input::Tick);
    let lost = |session: &mut Session, second: u64| {
        let result = Err(failure("connection refused", false));
        session.handle_input(at(second), Input::Answer(state_of(""), result));
    };
    answer(&mut session, state_of(""), Answer::State(Box::default()));
    assert!(!session.is_lost());
    lost(&mut session, 5);
    assert!(session.is_lost());
    assert_eq!(session.data_age(at(8)), Some(at(7)));
    assert_eq!(session.failure(Kind::State), Some("connection refused"));
    assert!(session.state.is_some(), "the last figures stay");
    session.handle_input(at(9), Input::Tick);
    assert_eq!(asked(&mut session).last(), Some(&state_of("")));
    answer(&mut session, state_of(""), Answer::State(Box::default()));
    assert!(!session.is_lost());
}

#[test]
fn the_order_is_chosen_by_letter_or_by_its_neighbour() {
    let mut session = with_connections();
    let ordered = |order| connections(ConnectionQuery { order, ..ConnectionQuery::default() });
    press(&mut session, "c");
    assert_eq!(asked(&mut session), [ordered(Order::Channels)]);
    // An answer to the question before is not shown.
    session.connections.clear();
    press(&mut session, "<");
    answer(&mut session, ordered(Order::Channels), two_connections());
    assert!(session.connections.found.is_none());
    assert_eq!(asked(&mut session), [ordered(Order::Received)]);
    answer(&mut session, ordered(Order::Received), two_connections());
    assert_eq!(session.connections.rows().len(), 2);
    press(&mut session, ">");
    assert_eq!(session.connections.query.order, Order::Channels);
}

#[test]
fn a_filter_is_for_a_topic_or_for_an_address() {
    let mut session = with_connections();
    press(&mut session, "/rooms:1x\x08\n");
    assert_eq!(asked(&mut session), [connections(by_topic("rooms:1"))]);
    answer(&mut session, connections(by_topic("rooms:1")), two_connections());
    press(&mut session, "/\t\n");
    let filter = Filter::Address("rooms:1".into());
    let by_address = ConnectionQuery { filter, ..ConnectionQuery::default() };
    assert_eq!(asked(&mut session), [connections(by_address.clone())]);
    answer(&mut session, connections(by_address), two_connections());
    press(&mut session, "/abc\x1b");
    assert_eq!(asked(&mut session), [], "given up");
    press(&mut session, "\x1b");
    assert_eq!(asked(&mut session), [connections(ConnectionQuery::default())]);
    press(&mut session, "t");
    assert_eq!(session.connections.query.transport, Transport::WebSocket);
}

#[test]
fn pasted_text_is_typed_or_ignored_but_never_acts_as_keys() {
    let mut session = with_connections();
    session.handle_input(at(0), Input::Paste("xyq".into()));
    assert_eq!((asked(&mut session), &session.prompt), (vec![], &None));
    press(&mut session, "/");
    session.handle_input(at(0), Input::Paste("a\n\x1bb".into()));
    assert_eq!(session.prompt, Some(Prompt::Filter(Filter::Topic("ab".into()))));
    session.handle_input(at(0), Input::Paste("é".repeat(9_000)));
    let Some(Prompt::Filter(filter)) = &session.prompt else { panic!("no prompt") };
    assert_eq!(filter.text().chars().count(), FILTER_CHARS_MAX);
}

#[test]
fn details_are_those_of_the_selected_connection_until_it_is_gone() {
    let mut session = with_connections();
    press(&mut session, "j\n");
    let details = Question::Connection { id: "0-0-22-1".into() };
    assert_eq!(asked(&mut session), std::slice::from_ref(&details));
    let found =
        FoundConnection { id: "0-0-22-1".into(), channels: 7, ..FoundConnection::default() };
    answer(&mut session, details.clone(), Answer::Connection(Box::new(found)));
    assert_eq!(session.connections.details.as_ref().unwrap().found.channels, 7);
    let gone = Input::Answer(details, Err(failure("no such connection", true)));
    session.handle_input(at(2), gone);
    assert!(session.connections.details.as_ref().unwrap().is_gone);
    assert!(!session.is_lost());
    press(&mut session, "xy");
    assert_eq!(asked(&mut session), [], "there is nothing to disconnect");
    press(&mut session, "\x1b");
    assert!(session.connections.details.is_none());
    assert_eq!(asked(&mut session), [connections(ConnectionQuery::default())]);
}

#[test]
fn messages_are_asked_for_while_they_are_watched() {
    let mut session = with_connections();
    press(&mut session, "j\n");
    let details = Question::Connection { id: "0-0-22-1".into() };
    assert_eq!(asked(&mut session), std::slice::from_ref(&details));
    answer(&mut session, details.clone(), Answer::Connection(Box::default()));
    press(&mut session, "w");
    let messages = |after| Question::Messages { id: "0-0-22-1".into(), after };
    assert_eq!(asked(&mut session), [details.clone(), messages(0)]);
    answer(&mut session, details.clone(), Answer::Connection(Box::default()));
    let found = |since_ms, numbers: std::ops::RangeInclusive<u64>| WatchedMessages {
        since_ms,
        missed: 1,
        messages: numbers
            .map(|number| WatchedMessage { number, ..WatchedMessage::default() })
            .collect(),
        ..WatchedMessages::default()
    };
    answer(&mut session, messages(0), Answer::Messages(found(5, 1..=300)));
    session.handle_input(at(2), Input::Tick);
    assert!(asked(&mut session).contains(&messages(300)));
    let watched = |session: &Session| {
        let watched = session.connections.details.as_ref()?.watched.as_ref()?;
        Some((watched.messages.len(), watched.last(), watched.missed))
    };
    assert_eq!(watched(&session), Some((200, 300, 1)));
    answer(&mut session, messages(300), Answer::Messages(found(6, 1..=2)));
    assert_eq!(watched(&session), Some((2, 2, 1)), "the server began another watch");
    press(&mut session, "w");
    assert_eq!(watched(&session), None);
}

#[test]
fn only_a_yes_disconnects_and_only_the_connection_in_the_question() {
    let mut session = with_connections();
    press(&mut session, "jx");
    let prompt = Prompt::Disconnect { id: "0-0-22-1".into(), name: "192.0.2.1:8".into() };
    assert_eq!(session.prompt, Some(prompt));
    press(&mut session, "n");
    assert_eq!((asked(&mut session), &session.prompt), (vec![], &None));
    for key in ["\n", "x", " ", "\x1b"] {
        press(&mut session, "x");
        press(&mut session, key);
        assert_eq!((asked(&mut session), &session.prompt), (vec![], &None), "{key:?}");
    }
    press(&mut session, "x");
    // Another row is at the place of the selected one before the user answers.
    let mut moved = FoundConnections::default();
    moved.connections.push(FoundConnection { id: "0-0-9-9".into(), ..FoundConnection::default() });
    session.connections.set_found(moved);
    press(&mut session, "y");
    let end = Question::Disconnect { id: "0-0-22-1".into() };
    assert_eq!(asked(&mut session), std::slice::from_ref(&end));
    press(&mut session, "xy");
    assert_eq!(asked(&mut session), [], "one at a time");
    assert!(session.notice().unwrap().contains("not answered"));
    answer(&mut session, end.clone(), Answer::Ended);
    assert_eq!(session.notice(), Some("The server has disconnected the connection 0-0-22-1."));
    assert_eq!(asked(&mut session), [connections(ConnectionQuery::default())]);
    let refused = failure("Set admin.token to allow changes", false);
    session.handle_input(at(2), Input::Answer(end, Err(refused)));
    assert!(session.notice().unwrap().ends_with("Set admin.token to allow changes"));
    session.handle_input(at(60), Input::Tick);
    assert_eq!(session.notice(), None);
}

#[test]
fn only_a_yes_ends_a_topic_or_a_process() {
    let mut session = Session::new("");
    press(&mut session, "3x");
    assert_eq!(session.prompt, None, "there is no topic");
    asked(&mut session);
    let topic = FoundTopic { topic: "rooms:1".into(), ..FoundTopic::default() };
    answer(&mut session, topics_by(TopicQuery::default()), Answer::Topics(vec![topic]));
    let end = Question::EndTopic { topic: "rooms:1".into() };
    press(&mut session, "xn");
    assert_eq!((asked(&mut session), &session.prompt), (vec![], &None));
    press(&mut session, "xy");
    assert_eq!(asked(&mut session), std::slice::from_ref(&end));
    answer(&mut session, end, Answer::Ended);
    assert_eq!(session.notice(), Some("The server has ended the topic rooms:1."));

    let processes = [0, 1].map(|process| Process { process, ..Process::default() });
    let state = State { processes: processes.to_vec(), ..State::default() };
    answer(&mut session, state_of(""), Answer::State(Box::new(state)));
    press(&mut session, "4jxy");
    let end = Question::EndProcess { machine: String::new(), process: 1 };
    assert_eq!(asked(&mut session).last(), Some(&end));
    session.handle_input(at(1), Input::Answer(end, Err(failure("no such process", true))));
    assert_eq!(session.notice(), Some("The process 1 is gone already."));
}

fn topics_by(query: TopicQuery) -> Question {
    Question::Topics { machine: String::new(), query }
}

#[test]
fn enter_on_a_topic_shows_its_connections() {
    let mut session = Session::new("");
    press(&mut session, "3");
    let topics = topics_by(TopicQuery::default());
    assert_eq!(asked(&mut session), std::slice::from_ref(&topics));
    let topic = |name: &str| FoundTopic { topic: name.into(), ..FoundTopic::default() };
    answer(&mut session, topics, Answer::Topics(vec![topic("a"), topic("b")]));
    press(&mut session, "jjj\n");
    assert_eq!(session.screen, Screen::Connections);
    assert_eq!(asked(&mut session), [connections(by_topic("b"))]);
    press(&mut session, "3");
    let all = topics_by(TopicQuery::default());
    assert_eq!(asked(&mut session), std::slice::from_ref(&all));
    answer(&mut session, all, Answer::Topics(vec![]));
    press(&mut session, "/roo\n");
    let prefix = TopicQuery { prefix: "roo".into(), ..TopicQuery::default() };
    assert_eq!(asked(&mut session).last(), Some(&topics_by(prefix.clone())));
    answer(&mut session, topics_by(prefix.clone()), Answer::Topics(vec![]));
    press(&mut session, ">");
    let busiest = TopicQuery { order: TopicOrder::Messages, ..prefix };
    assert_eq!(asked(&mut session), [topics_by(busiest)]);
}

#[test]
fn the_next_machine_starts_with_nothing_of_the_one_before() {
    let mut session = with_connections();
    let machines = vec!["web-1".to_owned(), "web-2".to_owned()];
    let state = State { machine: "web-1".into(), machines, ..State::default() };
    answer(&mut session, state_of(""), Answer::State(Box::new(state)));
    press(&mut session, "m");
    assert!(session.connections.found.is_none());
    let all = asked(&mut session);
    assert_eq!(all[..2], [state_of("web-2"), history_of("web-2", 0)]);
    answer(&mut session, state_of(""), Answer::State(Box::default()));
    assert_eq!(session.state.as_ref().unwrap().machine, "web-1", "a late answer");
}

#[test]
fn one_machine_is_not_left() {
    let mut session = Session::new("");
    press(&mut session, "m");
    let state = State { machine: "a".into(), machines: vec!["a".into()], ..State::default() };
    answer(&mut session, state_of(""), Answer::State(Box::new(state)));
    press(&mut session, "m");
    assert_eq!(asked(&mut session), []);
}
