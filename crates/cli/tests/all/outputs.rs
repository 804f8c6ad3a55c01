//! Outputs that are closed, full or missing: no command panics, and no result is lost.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use clap::Command as Verb;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use watchfire_testkit::eventually;

use crate::support::{Scratch, WATCHFIRE, text};

const SCENARIO: &str = "targets = [{ url = 'ws://127.0.0.1:1' }]\nwind_down = '10ms'\n\
                        phases = [{ duration = '1ms', rate = 1000 }]\n\
                        sessions = [{ steps = [{ connect = { path = '/' } }] }]\n";
const EXPERIMENT: &str = "[clusters.c]\nlatency = '5ms'\ngroups = [\n\
    { name = 'source', link = { up = '80Mbit', down = '80Mbit' } },\n\
    { name = 'peers', count = 2, link = { up = '80Mbit', down = '80Mbit' } },\n]\n\
    [scenarios.s]\nobjects.file = { random = '1MiB' }\nseed = { source = 'file' }\nfetch = { peers = 'file' }\n";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("file", "content");
    scratch.file("load.toml", SCENARIO);
    scratch.file("lab.toml", EXPERIMENT);
    scratch
}

/// An output whose reader is gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// The arguments of a verb and of all verbs below it that ask for help.
fn asking_for_help(verb: &Verb, before: &[String], all: &mut Vec<Vec<String>>) {
    all.push([before, &["--help".to_owned()]].concat());
    for below in verb.get_subcommands().filter(|below| !below.is_hide_set()) {
        asking_for_help(below, &[before, &[below.get_name().to_owned()]].concat(), all);
    }
}

#[test]
fn no_command_panics_when_its_output_is_closed_or_full() {
    let scratch = scratch();
    let mut all = Vec::new();
    asking_for_help(&watchfire_cli::command(), &[], &mut all);
    let sides = format!("{WATCHFIRE}..{WATCHFIRE}");
    let working = [
        "--version",
        "cid file",
        "cid --json file",
        "car export file -o -",
        "doctor",
        "lab check lab.toml",
        "lab run lab.toml",
        "lab ps",
        "load --check load.toml",
        "load load.toml",
        "load --events load.toml",
        "load --json - load.toml",
        &format!("lab compare {sides} lab.toml"),
    ];
    let words = |line: &&str| line.split(' ').map(str::to_owned).collect();
    all.extend(working.iter().map(words));
    // These write to the standard error only.
    let failing = ["health --to http://127.0.0.1:1", "get nothing", "lab check none.toml"];
    all.extend(failing.iter().map(words));
    for arguments in all {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let run = |out, err| {
            let mut command = scratch.command(&arguments);
            let output = command.stdout(out).stderr(err).output().unwrap();
            let error = text(&output.stderr);
            let code = output.status.code();
            assert!(!error.contains("panicked") && code != Some(101), "{arguments:?}: {error}");
            assert!(code.is_some(), "{arguments:?} was killed");
            (code, error)
        };
        run(closed(), Stdio::piped());
        run(Stdio::null(), full());
        run(closed(), closed());
        let (code, error) = run(full(), Stdio::piped());
        assert_ne!(code, Some(0), "{arguments:?} lost its output");
        assert!(!error.is_empty(), "{arguments:?}");
    }
}

#[test]
fn content_for_a_closed_output_is_an_error() {
    let scratch = scratch();
    let cid = scratch.prints(&["cid", "-q", "file"]);
    for line in [format!("get {} -o -", cid.trim()), "car export file -o -".to_owned()] {
        for closing in [">&-", "1</dev/null"] {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("exec {WATCHFIRE} {line} {closing}")]);
            let output = shell.current_dir(&*scratch).output().unwrap();
            // Without a peer, `get` writes nothing to an output that is open.
            if closing == ">&-" || line.starts_with("car") {
                assert_eq!(output.status.code(), Some(1), "{line} {closing}");
                let error = text(&output.stderr);
                assert!(error.contains(" the standard output"), "{line}: {error}");
            }
            if line.starts_with("get") {
                break;
            }
        }
    }
}

#[test]
fn a_file_of_results_that_cannot_be_written_is_an_error_before_the_work() {
    let scratch = scratch();
    scratch.file("long.toml", SCENARIO.replace("1ms", "1h"));
    for line in [
        "load long.toml --json no/x.json",
        "load long.toml --csv file/x.csv",
        "load long.toml --report .",
        "lab run lab.toml --json no/x.json",
        "lab compare main..main lab.toml --report no/x.html",
    ] {
        let error = scratch.fails(&line.split(' ').collect::<Vec<_>>());
        assert!(error.contains("cannot write "), "{line}: {error}");
    }
}

#[test]
fn results_on_the_standard_output_are_all_that_is_there() {
    let scratch = scratch();
    for line in ["load load.toml --json -", "lab run lab.toml --json -"] {
        let output = scratch.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
        let results: Value = serde_json::from_slice(&output.stdout).expect(line);
        assert!(results.is_object());
        assert!(!output.stderr.is_empty(), "the table is on the standard error");
    }
    let two = scratch.fails(&["load", "load.toml", "--json", "-", "--csv", "-"]);
    assert!(two.contains("two results"), "{two}");
}

#[test]
fn sharing_goes_on_when_the_reader_of_its_link_is_gone() {
    let scratch = scratch();
    let mut share = scratch.command(&["share", "file", "--listen", "/ip4/127.0.0.1/tcp/0"]);
    let mut share = share.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(share.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("file"), "{line}");
    kill_process(Pid::from_child(&share), Signal::TERM).unwrap();
    let output = share.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn an_interrupted_experiment_keeps_its_complete_runs() {
    let scratch = scratch();
    let run =
        ["lab", "run", "lab.toml", "--repeat", "1000", "--json", "out.json", "--trace", "trace"];
    let lab = scratch.command(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_third = |line: &String| line.starts_with('#') && line.ends_with("seed 2");
    let began = || {
        let trace = File::open(scratch.join("trace")).ok()?;
        BufReader::new(trace).lines().map_while(Result::ok).find(is_third)
    };
    eventually("the third run begins", || began().is_some());
    kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted; the results have the "));
    let results = scratch.json("out.json");
    let runs = results["runs"].as_array().unwrap().len();
    assert!((2..1000).contains(&runs) && results["interrupted"] == true, "{runs} runs");
    assert!(fs::read_to_string(scratch.join("trace")).unwrap().lines().count() > runs);
}
