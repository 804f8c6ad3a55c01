//! The example scenarios are valid and have the described size.

use watchfire_load::Source;

fn example(name: &str) -> watchfire_load::Scenario {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/load");
    let mut source = Source::read(&folder.join(name)).expect("the example is there");
    source.targets = vec!["ws://127.0.0.1:4000".into()];
    source.scenario().expect("the example is valid")
}

#[test]
fn the_lobby_in_toml() {
    let lobby = example("lobby.toml");
    assert_eq!((lobby.users(), lobby.duration().as_secs()), (600, 30));
}

#[test]
fn the_broadcast_and_the_sprites() {
    let broadcast = example("broadcast.toml");
    assert_eq!((broadcast.users(), broadcast.thresholds.broadcasts_missing_max), (10_001, Some(0)));
    assert_eq!(example("sprites.toml").users(), 1_000);
}

#[test]
fn a_day_in_a_quarter_of_an_hour() {
    let day = example("day.toml");
    assert_eq!((day.users(), day.duration().as_secs()), (9_600, 840));
}

#[test]
fn ten_thousand_arrivals_a_second() {
    let scenario = example("come-and-go.toml");
    assert_eq!((scenario.users(), scenario.phases[0].rate), (200_000, 10_000.0));
}

#[test]
fn the_lobby_of_two_million_in_the_format_of_tsung() {
    let lobby = example("phoenix-lobby.tsung.xml");
    assert_eq!(
        (lobby.users(), lobby.users_max, lobby.source_addresses().count()),
        (100_000, 100_000, 4)
    );
    assert_eq!(lobby.phases[0].rate, 1000.0);
}
