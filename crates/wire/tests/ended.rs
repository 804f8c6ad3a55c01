//! Networks whose makers end, and makers without privileges.
//!
//! This program is the test. With a part in its environment it is the maker that is killed, or the one without
//! privileges. It has no threads of a test harness, because only a process with one thread may enter a user namespace.

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use watchfire_testkit::eventually;
use watchfire_wire::{Link, PeerPlan, StartError, Unsupported, Wire, WirePlan};

const PART: &str = "WATCHFIRE_TEST_PART";

fn main() {
    match std::env::var(PART).as_deref() {
        Ok("maker") => be_a_maker(),
        Ok("unprivileged") => be_unprivileged(),
        _ => be_the_test(),
    }
}

fn be_the_test() {
    match start() {
        Err(StartError::Unsupported(missing)) => {
            return println!("test result: ok. 0 passed; 0 failed; 4 ignored: {missing}");
        }
        started => drop(started.unwrap()),
    }
    dropping_a_network_ends_its_programs();
    a_killed_maker_leaves_no_process_and_no_namespace();
    the_next_start_ends_what_a_killed_maker_and_watchdog_left();
    without_privileges_the_error_says_what_is_missing_and_a_user_namespace_helps();
    println!("test result: ok. 4 passed; 0 failed; 0 ignored");
}

fn start() -> Result<Wire, StartError> {
    let peers = ["a", "b"].map(|name| PeerPlan::open(name, Link::default())).into();
    Wire::start(WirePlan { peers, ..WirePlan::default() })
}

/// Starts two programs, one of which leaves its session and its parent. Returns when both run.
fn start_programs(wire: &Wire) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "(setsid sleep 1000 &); echo ready; exec sleep 1000"]);
    command.stdout(Stdio::piped());
    let mut program = wire.peer("b").unwrap().spawn(&mut command).unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    program
}

fn be_a_maker() {
    let wire = start().unwrap();
    let mut program = start_programs(&wire);
    println!("{}", program.id());
    // Until the test kills this process.
    program.wait().unwrap();
    panic!("{} was not killed", std::process::id());
}

/// A maker that ends with the test, also when the test fails.
struct Maker(Child);

impl Maker {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a maker; the maker, and the number of its peer's namespace.
fn start_maker() -> (Maker, u64) {
    let mut maker = Command::new(std::env::current_exe().unwrap());
    maker.env(PART, "maker").stdout(Stdio::piped());
    let mut maker = Maker(maker.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(maker.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let namespace = namespace_of(line.trim()).unwrap();
    assert_ne!(Some(namespace), namespace_of("self"));
    (maker, namespace)
}

fn namespace_of(pid: &str) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino())
}

fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn processes_in(namespace: u64) -> usize {
    processes().filter(|pid| namespace_of(pid) == Some(namespace)).count()
}

/// Whether a process is in a namespace, or holds it by a descriptor. A namespace without these, and its device, are gone.
fn exists(namespace: u64) -> bool {
    let is_held = |pid: String| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let name = format!("net:[{namespace}]");
        targets.into_iter().any(|target| target.to_str() == Some(&*name))
    };
    processes_in(namespace) > 0 || processes().any(is_held)
}

fn dropping_a_network_ends_its_programs() {
    let wire = start().unwrap();
    let mut program = start_programs(&wire);
    let namespace = namespace_of(&program.id().to_string()).unwrap();
    eventually("both programs run", || processes_in(namespace) == 2);
    drop(wire);
    assert_eq!(processes_in(namespace), 0);
    assert!(!program.wait().unwrap().success());
    assert!(!exists(namespace));
}

fn a_killed_maker_leaves_no_process_and_no_namespace() {
    let (mut maker, namespace) = start_maker();
    eventually("both programs run", || processes_in(namespace) == 2);
    maker.kill();
    eventually("the namespace is gone", || !exists(namespace));
}

fn the_next_start_ends_what_a_killed_maker_and_watchdog_left() {
    let (mut maker, namespace) = start_maker();
    eventually("both programs run", || processes_in(namespace) == 2);
    let own = maker.0.id().to_string();
    let is_watchdog = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        // The namespace of a process that executes another program cannot be read for a moment.
        parent == Some(&own) && namespace_of(pid).is_some_and(|other| other != namespace)
    };
    // A child is outside the namespace for a moment, too, before it enters it.
    let mut watchdogs = Vec::new();
    eventually("one child is outside the namespace", || {
        watchdogs = processes().filter(is_watchdog).collect();
        watchdogs.len() == 1
    });
    kill_process(Pid::from_raw(watchdogs[0].parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    maker.kill();
    assert_eq!(processes_in(namespace), 2);
    drop(start().unwrap());
    eventually("the namespace is gone", || !exists(namespace));
}

/// Gives up all privileges, fails, enters a user namespace, and succeeds.
fn be_unprivileged() {
    // The kernel wants this one of a process that maps root, and it permits nothing else that a network needs.
    let left = CapabilitySet::SETFCAP;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable })
        .unwrap();
    let Err(StartError::Unsupported(missing)) = start() else { panic!("it started") };
    assert!(matches!(missing, Unsupported::Namespaces(_)), "{missing}");
    println!("{missing}");
    if let Err(missing) = watchfire_wire::enter_user_namespace() {
        return println!("{missing}");
    }
    match start() {
        Ok(wire) => {
            let status = wire.peer("a").unwrap().spawn(&mut Command::new("true")).unwrap().wait();
            assert!(status.unwrap().success());
            let program = start_programs(&wire);
            drop(wire);
            assert!(!program.wait_with_output().unwrap().status.success());
        }
        // The device's file may belong to another user than root.
        Err(StartError::Unsupported(missing @ Unsupported::Tun(_))) => println!("{missing}"),
        Err(error) => panic!("{error}"),
    }
    println!("{}", Unsupported::NOT_SIMULATED);
}

fn without_privileges_the_error_says_what_is_missing_and_a_user_namespace_helps() {
    let mut unprivileged = Command::new(std::env::current_exe().unwrap());
    let output = unprivileged.env(PART, "unprivileged").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("cannot make network namespaces: Operation not permitted"), "{said}");
    print!("{said}");
}
