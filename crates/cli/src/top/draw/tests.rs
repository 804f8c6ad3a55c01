//! Draws whole screens into memory.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use watchfire_operator::answers::{
    Event, FoundConnection, FoundConnections, FoundTopic, History, LimitUse, Process, State, Table,
    TableColumn, TcpFigures, Trouble,
};

use super::{Theme, draw};
use crate::top::question::{Answer, ConnectionQuery, Failure, Question, TopicQuery};
use crate::top::session::{Input, Key, Session};

const NOW: Duration = Duration::from_secs(100);
const NOW_MS: u64 = 1_767_225_660_000;

/// A text as a hostile client chooses it: it would clear the screen, turn the direction, hide, and pile up.
const HOSTILE: &str = "\x1b[2J\x1b]0;t\x07\r\n\u{9b}31m\u{202e}evil\u{200b}\u{feff}👩\u{200d}👩日本e\u{301}\u{301}\u{301}\u{301}<b>";

fn buffer(session: &Session, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, session, &Theme::new(true), NOW)).unwrap();
    terminal.backend().clone()
}

/// The lines of the screen, without spaces at their ends.
fn lines(session: &Session, width: u16, height: u16) -> Vec<String> {
    let backend = buffer(session, width, height);
    let buffer = backend.buffer();
    let line = |y| {
        let mut line = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += (unicode_width::UnicodeWidthStr::width(symbol) as u16).max(1);
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

fn answer(session: &mut Session, question: Question, answer: Answer) {
    session.handle_input(NOW, Input::Answer(question, Ok(answer)));
}

fn press(session: &mut Session, keys: &str) {
    for char in keys.chars() {
        let key = if char == '\n' { Key::Enter } else { Key::Char(char) };
        session.handle_input(NOW, Input::Key(key));
    }
}

fn limit(name: &str, used: f64, max: f64, unit: &str) -> LimitUse {
    LimitUse { name: name.into(), used, max, unit: unit.into(), setting: String::new() }
}

fn state() -> State {
    State {
        version: "0.1.0".into(),
        now_ms: NOW_MS,
        started_ms: NOW_MS - 7_384_000,
        machine: "web-1".into(),
        machines: vec!["web-1".into(), "web-2".into()],
        processes: vec![Process {
            clients: 1_234.0,
            busy: vec![0.97, 0.02],
            open_fds: 30.0,
            max_fds: 20_000.0,
            uptime_seconds: 61.0,
            ..Process::default()
        }],
        limits: vec![
            limit("connections", 12.0, 20_000.0, ""),
            limit("memory", 1_073_741_824.0, 4_294_967_296.0, "bytes"),
            limit("busiest event loop", 0.97, 1.0, "share"),
            limit("broken", f64::NAN, 0.0, ""),
        ],
        ..State::default()
    }
}

fn trouble(summary: &str) -> Trouble {
    Trouble {
        since_ms: NOW_MS - 65_000,
        summary: summary.into(),
        fix: "Spread the load over more cores.".into(),
        ..Trouble::default()
    }
}

fn state_question() -> Question {
    Question::State { machine: String::new() }
}

fn session_with(state: State) -> Session {
    let mut session = Session::new("http://127.0.0.1:4010");
    answer(&mut session, state_question(), Answer::State(Box::new(state)));
    let rows = (0..300).map(|second| {
        vec![Some((NOW_MS + second * 1_000) as f64), Some(second as f64), Some(0.97), None]
    });
    let columns = ["clients_websocket", "busy_max", "joins"].map(Into::into).to_vec();
    let history = History { columns, rows: rows.collect() };
    let question = Question::History { machine: String::new(), after_ms: 0 };
    answer(&mut session, question, Answer::History(history));
    session
}

fn with_connections(connections: Vec<FoundConnection>) -> Session {
    let mut session = session_with(state());
    press(&mut session, "2");
    let query = ConnectionQuery::default();
    let question = Question::Connections { machine: String::new(), query };
    let found = FoundConnections { connections, scanned: 5, scan_micros: 0 };
    answer(&mut session, question, Answer::Connections(found));
    session
}

fn connection(id: &str, text: &str) -> FoundConnection {
    FoundConnection {
        id: id.into(),
        address: "192.0.2.1:55555".into(),
        transport: "websocket".into(),
        state: "open".into(),
        queued_bytes: 1_572_864,
        idle_seconds: Some(3.0),
        channels: 2,
        topics: vec![text.into(), "rooms:2".into()],
        user: text.into(),
        tcp: Some(TcpFigures { sent_bytes: 2_048, round_trip_micros: 80, ..TcpFigures::default() }),
        ..FoundConnection::default()
    }
}

#[test]
fn home_has_trouble_on_top_then_limits_and_charts() {
    let session =
        session_with(State { troubles: vec![trouble("Event loop 0 is 97 % busy")], ..state() });
    for (width, height) in [(80, 24), (120, 40), (60, 15)] {
        let lines = lines(&session, width, height);
        let all = lines.join("\n");
        assert!(lines[0].starts_with("web-1 (of 2 machines)  0.1.0  up 2h 3m  1 process"), "{all}");
        assert!(lines[1].starts_with(" 1 Home  2 Connections  3 Topics"), "{all}");
        assert_eq!(lines[2], "! Event loop 0 is 97 % busy, for 1m 5s", "{all}");
        assert_eq!(lines[3], "  Spread the load over more cores.", "{all}");
        assert!(
            lines[4].starts_with("connections ") && lines[4].ends_with("12 of 20,000"),
            "{all}"
        );
        assert!(lines[5].contains("25%") && lines[5].ends_with("1.0 GiB of 4.0 GiB"), "{all}");
        assert!(lines[6].starts_with("! busiest event loop") && lines[6].contains("━━"), "{all}");
        for title in ["clients", "joins", "deliveries", "broadcast p99", "queued"] {
            assert!(all.contains(title), "{title}: {all}");
        }
        assert!(all.contains("299") && all.contains('█'), "{all}");
        assert!(lines.last().unwrap().contains("? help  q quit  m machine  Space pause"), "{all}");
    }
}

#[test]
fn more_troubles_than_fit_are_counted_and_leave_room_for_the_charts() {
    let troubles = (0..20).map(|n| trouble(&format!("Trouble {n}"))).collect();
    let session = session_with(State { troubles, ..state() });
    let lines = lines(&session, 80, 24);
    assert!(lines.iter().any(|line| line == "! and 14 more"), "{}", lines.join("\n"));
    assert!(lines.join("\n").contains("broadcast p99"));
}

#[test]
fn a_trouble_is_red_only_where_colours_are_wanted() {
    let session = session_with(State { troubles: vec![trouble("Bad")], ..state() });
    let coloured = buffer(&session, 80, 24);
    assert_eq!(coloured.buffer()[(0, 2)].fg, Color::Red);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, &session, &Theme::new(false), NOW)).unwrap();
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(terminal.backend().buffer()[(0, 2)].modifier.contains(Modifier::BOLD));
}

#[test]
fn a_small_terminal_says_which_size_is_needed() {
    let session = session_with(state());
    let small = lines(&session, 40, 10);
    assert_eq!(small[..2], ["This terminal is 40x10;", "watchfire top needs 60x15."]);
    for (width, height) in [(1, 1), (0, 0), (59, 50), (200, 14)] {
        buffer(&session, width, height);
    }
}

#[test]
fn before_the_first_answer_the_reason_is_shown() {
    let mut session = Session::new("http://127.0.0.1:4010");
    let message = "cannot reach http://127.0.0.1:4010: Connection refused".to_owned();
    let failure = Failure { message, is_gone: false };
    session.handle_input(NOW, Input::Answer(state_question(), Err(failure.clone())));
    let first = lines(&session, 80, 24);
    assert!(first[0].starts_with("Watchfire at http://127.0.0.1:4010"), "{first:?}");
    assert!(first[0].ends_with("no data"), "{first:?}");
    assert!(first[22].starts_with("cannot reach"), "{first:?}");

    let mut session = session_with(state());
    session.handle_input(NOW, Input::Answer(state_question(), Err(failure)));
    let lost = lines(&session, 80, 24);
    assert!(lost[0].starts_with("web-1") && lost[0].ends_with("data is 0.0s old"));
    assert!(lost[4].contains("25%"), "the last figures stay: {lost:?}");
}

#[test]
fn connections_have_the_columns_that_fit() {
    let session = with_connections(vec![connection("0-0-1-1", "rooms:1"), connection("b", "x")]);
    let narrow = lines(&session, 80, 24);
    assert_eq!(narrow[2], "2 of 5 connections, by queued bytes");
    assert!(narrow[3].starts_with("address               type   ▼queued    idle      sent"));
    assert!(
        narrow[4].starts_with(
            "192.0.2.1:55555       ws     1.5 MiB    3.0s   2.0 KiB     2 [rooms:1] rooms:1"
        ),
        "{}",
        narrow[4]
    );
    let wide = lines(&session, 160, 40);
    assert!(wide[3].contains("state") && wide[3].contains("rtt"), "{}", wide[3]);
    assert!(wide[4].ends_with("[rooms:1] rooms:1, rooms:2"), "{}", wide[4]);
    let backend = buffer(&session, 80, 24);
    assert!(backend.buffer()[(0, 4)].modifier.contains(Modifier::REVERSED), "the selected row");
    assert!(!backend.buffer()[(0, 5)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn the_selected_row_is_visible_among_many() {
    let rows: Vec<_> = (0..200).map(|n| connection(&n.to_string(), &format!("t{n}"))).collect();
    let mut session = with_connections(rows);
    session.handle_input(NOW, Input::Key(Key::End));
    let screen = lines(&session, 100, 24);
    assert!(screen[22].contains("t199"), "{}", screen.join("\n"));
    assert!(buffer(&session, 100, 24).buffer()[(0, 22)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn a_question_before_a_disconnect_is_on_the_last_line() {
    let mut session = with_connections(vec![connection("0-0-1-1", &"long ".repeat(100))]);
    press(&mut session, "x");
    let lines = lines(&session, 80, 24);
    assert!(lines[23].starts_with("Disconnect 192.0.2.1:55555 (user"), "{}", lines[23]);
    assert!(lines[23].ends_with("…, 0-0-1-1? y: yes, other keys: no"), "{}", lines[23]);
}

#[test]
fn what_is_typed_is_on_the_last_line_with_its_end() {
    let mut session = with_connections(vec![]);
    press(&mut session, "/rooms:1");
    assert!(lines(&session, 80, 24)[23].starts_with("topic: rooms:1▏  Enter  Esc  Tab: address"));
    press(&mut session, &"x".repeat(200));
    press(&mut session, "end");
    let line = &lines(&session, 80, 24)[23];
    assert!(line.starts_with('…') && line.contains("xxend▏  Enter"), "{line}");
}

/// No cell of the screen has a character that a terminal does not simply print.
fn assert_harmless(session: &Session) {
    for (width, height) in [(80, 24), (120, 40), (40, 10), (61, 16)] {
        for cell in buffer(session, width, height).buffer().content() {
            for char in cell.symbol().chars() {
                assert_eq!(char, crate::visible::visible_char(char), "{:?}", cell.symbol());
            }
            assert!(cell.symbol().chars().count() <= 3, "{:?}", cell.symbol());
        }
    }
}

#[test]
fn hostile_texts_cannot_act_on_the_terminal() {
    let long = HOSTILE.repeat(200);
    let mut hostile = state();
    hostile.machine = long.clone();
    hostile.version = long.clone();
    hostile.machines = vec![long.clone(), "b".into()];
    hostile.limits.push(limit(&long, 1.0, 2.0, &long));
    hostile.troubles = vec![Trouble { fix: long.clone(), ..trouble(&long) }];
    assert_harmless(&session_with(hostile));

    let mut found = connection(&long, &long);
    found.address = long.clone();
    found.transport = long.clone();
    found.state = long.clone();
    let mut session = with_connections(vec![found]);
    assert_harmless(&session);
    press(&mut session, "x");
    assert_harmless(&session);
    press(&mut session, "n\n");
    assert_harmless(&session);

    press(&mut session, "3");
    let topics = Question::Topics { machine: String::new(), query: TopicQuery::default() };
    let topic = FoundTopic {
        topic: long.clone(),
        subscribers: u64::MAX,
        messages: f64::MAX,
        bytes: f64::MAX,
        owner: long.clone(),
        loops: u64::MAX,
        ..FoundTopic::default()
    };
    answer(&mut session, topics, Answer::Topics(vec![topic]));
    assert_harmless(&session);
    press(&mut session, "/");
    session.handle_input(NOW, Input::Paste(long.clone()));
    assert_harmless(&session);
    session.handle_input(NOW, Input::Key(Key::Esc));

    press(&mut session, "5");
    let events = Question::Events { machine: String::new() };
    let (kind, text) = (long.clone(), long.clone());
    let event = Event { time_ms: u64::MAX, kind, text, ..Event::default() };
    answer(&mut session, events, Answer::Events(vec![event]));
    assert_harmless(&session);
    let failure = Failure { message: long, is_gone: false };
    session.handle_input(NOW, Input::Answer(state_question(), Err(failure)));
    assert_harmless(&session);
}

#[test]
fn a_hostile_topic_stays_readable_and_in_its_place() {
    let mut session = session_with(state());
    press(&mut session, "3");
    let topics = Question::Topics { machine: String::new(), query: TopicQuery::default() };
    let topic = |topic: &str, subscribers| FoundTopic {
        topic: topic.into(),
        subscribers,
        messages: 2.5,
        bytes: 2048.0,
        ..FoundTopic::default()
    };
    let found = vec![topic(HOSTILE, 1_000), topic("rooms:1", 1)];
    answer(&mut session, topics, Answer::Topics(found));
    let lines = lines(&session, 80, 24);
    assert_eq!(lines[2], "The 2 largest topics");
    assert!(lines[4].starts_with(
        "       1,000       2.5    2.0 KiB ␛[2J␛]0;t␇␍␊\u{fffd}31m\u{fffd}evil\u{fffd}\u{fffd}👩\u{fffd}👩日本e"
    ));
    assert_eq!(lines[5], "           1       2.5    2.0 KiB rooms:1");
}

#[test]
fn details_show_everything_and_scroll_the_topics() {
    let mut found = connection("0-1-2-3", "ada");
    found.topics = (0..100).map(|n| format!("rooms:{n}")).collect();
    found.channels = 100;
    let mut session = with_connections(vec![found]);
    press(&mut session, "\n");
    let lines_of = |session: &Session| lines(session, 80, 24).join("\n");
    let all = lines_of(&session);
    for part in [
        "Connection 0-1-2-3",
        "address       192.0.2.1:55555",
        "transport     websocket, open",
        "user          ada",
        "queue         1.5 MiB wait for the client, for 0.0s",
        "TCP           2.0 KiB sent, 0 B received",
        "round trip 0.1ms",
        "100 channels\n  rooms:0\n  rooms:1\n",
        "Esc back  w messages  x disconnect",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    press(&mut session, "jj");
    assert!(lines_of(&session).contains("100 channels\n  rooms:2\n"));
    let gone = Failure { message: "gone".into(), is_gone: true };
    let question = Question::Connection { id: "0-1-2-3".into() };
    session.handle_input(NOW, Input::Answer(question, Err(gone)));
    assert!(lines_of(&session).contains("Connection 0-1-2-3 is gone."));
}

#[test]
fn processes_name_those_that_are_missing() {
    let mut session = session_with(State { missing_processes: vec![2], ..state() });
    press(&mut session, "4");
    let lines = lines(&session, 100, 24);
    assert_eq!(lines[2], "! Process 2 does not answer.");
    assert!(lines[3].starts_with("process   clients"), "{}", lines[3]);
    assert!(lines[4].starts_with("      0     1,234"), "{}", lines[4]);
    assert!(lines[4].ends_with("30 of 20,000   1m 1s 97% 2%"), "{}", lines[4]);
}

#[test]
fn the_tables_of_features_and_then_of_the_server_are_below_the_processes() {
    let column =
        |(title, unit): (&str, &str)| TableColumn { title: title.into(), unit: unit.into() };
    let columns = [
        ("Server", "text"),
        ("State", "text"),
        ("Mails", ""),
        ("Age", "seconds"),
        ("Sent", "bytes"),
    ];
    let rows = serde_json::json!([["a.example", "up", 1234.0, 1.5, 2048.0], [HOSTILE, null, 1.0]]);
    let table = |title: &str| Table {
        title: title.into(),
        columns: columns.map(column).to_vec(),
        rows: serde_json::from_value(rows.clone()).unwrap(),
    };
    let (tables, own_tables) = (vec![table("Mail servers")], vec![table("One"), table("Two")]);
    let mut session = session_with(State { tables, own_tables, ..state() });
    press(&mut session, "4");
    let lines = lines(&session, 160, 24);
    let at = lines.iter().position(|line| line == "Mail servers").expect("the table");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&lines[at + 1]), ["server", "state", "mails", "age", "sent"]);
    assert_eq!(words(&lines[at + 2]), ["a.example", "up", "1,234", "1.5s", "2.0", "KiB"]);
    assert!(lines[at + 3].ends_with('–'), "{}", lines[at + 3]);
    assert_eq!(words(&lines[at + 5]), ["One", "Two"], "beside each other");
    let row = ["a.example", "up", "1,234", "1.5s", "2.0", "KiB"];
    assert_eq!(words(&lines[at + 7])[..6], row);
}

#[test]
fn events_are_listed_with_their_times() {
    let mut session = session_with(state());
    press(&mut session, "5");
    let event = |text: &str, kind: &str| {
        let (kind, text) = (kind.into(), text.into());
        Event { time_ms: NOW_MS, kind, text, ..Event::default() }
    };
    let events = vec![event("Version 0.1.0 started", "start"), event("It is bad", "trouble_begin")];
    let question = Question::Events { machine: String::new() };
    answer(&mut session, question, Answer::Events(events));
    let lines = lines(&session, 80, 24);
    assert_eq!(lines[3], "2026-01-01 00:01:00  trouble begin   It is bad");
    assert_eq!(lines[4], "2026-01-01 00:01:00  start           Version 0.1.0 started");
}

#[test]
fn the_help_fits_the_smallest_terminal() {
    let mut session = session_with(state());
    press(&mut session, "?");
    let lines = lines(&session, 60, 15);
    assert!(lines.iter().any(|line| line.contains("Enter: connections of it")), "{lines:?}");
    assert!(!lines.join("").contains('…'), "{}", lines.join("\n"));
}
