//! Work to be counted: `watchfire-gate WORKLOAD ROUNDS`.
//!
//! `make gate` runs each workload under valgrind, which counts instructions, allocations, and the bytes that
//! are allocated at the end. It runs it twice, with 0 rounds and with many, and subtracts: the preparation, the start of
//! the process and the loader are in both. So a workload prepares the same for any number of rounds, and what it has
//! built at the end is still allocated when the process exits.
//!
//! `watchfire-gate path` prints what a line carries for one page.
//!
//! Nothing here depends on a clock, on randomness or on other threads: the same program counts the same each time.

mod exchange;
mod history;
mod join;
#[path = "../../../crates/page-client/src/direct/line.rs"]
#[allow(dead_code, reason = "the tests of the crate use the rest")]
mod line;
mod longpoll;
mod messages;
mod path;
mod presence;
#[path = "../../../crates/page-client/src/direct/send_window.rs"]
mod send_window;
mod subscriptions;
mod topic;
mod tracker;

use std::any::Any;
use std::hint::black_box;
use std::process::ExitCode;

/// Does its work `rounds` times, and returns the state that is still in memory then.
type Workload = fn(rounds: u32) -> Box<dyn Any>;

const WORKLOADS: [(&str, Workload); 11] = [
    ("delivery", topic::deliver),
    ("exchange", exchange::bitswap),
    ("exchange-leaves", exchange::leaves),
    ("file", messages::build_file),
    ("history", history::push),
    ("join", join::join),
    ("messages", messages::encode_and_decode),
    ("poll", longpoll::poll),
    ("presence", presence::change),
    ("subscription", subscriptions::subscribe),
    ("tracker", tracker::join),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["path"] {
        println!("{}", path::carry());
        return ExitCode::SUCCESS;
    }
    let find = |name: &str| WORKLOADS.iter().find(|(known, _)| *known == name);
    let (workload, rounds) = match &arguments[..] {
        [name, rounds] => (find(name), rounds.parse().ok()),
        _ => (None, None),
    };
    let (Some((_, workload)), Some(rounds)) = (workload, rounds) else {
        let names = WORKLOADS.map(|(name, _)| name).join(", ");
        eprintln!("usage: watchfire-gate path | WORKLOAD ROUNDS\nworkloads: {names}");
        return ExitCode::FAILURE;
    };
    let state = workload(rounds);
    black_box(&state);
    // The state is still allocated when the count ends.
    std::process::exit(0)
}
