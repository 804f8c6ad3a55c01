//! A model of the server: real event loops of one or of three processes, and clients whose steps come from a
//! seed.
//!
//! The clients use WebSockets and long polls, both serializers, and bytes. They join, send, leave, join again,
//! lose their connections, stop reading, send without reading, send rubbish, and let their tokens expire. The
//! backend of the hooks refuses, fails and hangs; an application's callbacks stop, crash and panic; processes
//! drain and crash. Limits are often at their least sensible value.
//!
//! After each step the model waits, for a condition and never for a time, until
//!
//! - every message has its reply, and every client that reads has exactly its notes: none twice, none out of
//!   its sender's order, none missing, unless the server has ended the client for a reason that the model
//!   knows;
//! - clients, channels and presences of the server are those of the model, and queues are within their bounds;
//! - no thread of the server has panicked.
//!
//! At the end every client has left, and the server must have nothing left of them.
//!
//! # Not proved here
//!
//! The order of threads comes from the machine, not from the seed: a seed that fails may pass the next time. The
//! replication of presences and histories under lost links has simulations of its own. Timeouts of silent
//! clients, TLS, proxies and features are not in it.
//!
//! `MODEL_SEEDS` sets the number of seeds, and `MODEL_SEED` the first one; alone it runs one. The error of a seed has its steps.

mod application;
mod backend;
mod oracle;
mod plan;
mod processes;
mod steps;
mod transport;
mod world;

use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::thread;

use application::ON_PURPOSE;
use world::World;

const SEEDS: u64 = 200;
/// Seeds that run at once. They wait for each other's clients more than they compute.
const AT_ONCE: usize = 6;

/// The panics of event loops, buses and threads of hooks so far. Such a thread has nobody who waits for it, so its
/// panic would be silent.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs one seed. The error has its steps.
fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    let steps = world.plan.steps;
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        (0..steps).try_for_each(|_| world.step())?;
        world.finish()
    }));
    let broken = match attempt {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(broken)) => broken,
        Err(_) => "the model itself panicked".into(),
    };
    let steps = world.steps.join("\n  ");
    let plan = world.plan.describe();
    Err(format!("seed {seed} ({plan}):\n  {steps}\n{broken}\nMODEL_SEED={seed} runs it again"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Notes panics from now on, except those of the application, which are on purpose.
fn note_panics() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let text = info.to_string();
            if text.contains(ON_PURPOSE) {
                return;
            }
            let thread = thread::current();
            let name = thread.name().unwrap_or_default();
            if name.starts_with("shard-") || name == "bus" || name == "hooks" {
                PANICS.lock().expect("no thread panics with the lock").push(text);
            }
            before(info);
        }));
    });
}

#[test]
fn whatever_clients_do_each_has_exactly_its_messages_and_the_server_counts_them_right() {
    note_panics();
    let seeds = match number("MODEL_SEED") {
        Some(seed) => seed..seed + number("MODEL_SEEDS").unwrap_or(1),
        None => 0..number("MODEL_SEEDS").unwrap_or(SEEDS),
    };
    let (next, broken) = (AtomicU64::new(seeds.start), Mutex::new(None));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || broken.lock().expect("no panic").is_some() {
                        return;
                    }
                    if let Err(error) = run(seed) {
                        broken.lock().expect("no panic").get_or_insert(error);
                    }
                }
            });
        }
    });
    if let Some(broken) = broken.into_inner().expect("no panic") {
        panic!("{broken}");
    }
    let panics = PANICS.lock().expect("no thread panics with the lock");
    assert_eq!(*panics, [""; 0], "threads of a server have panicked");
}
