//! Any other program, by the commands of its peer: one that shares and one that fetches, or one that serves the users
//! of a load.
//!
//! They run in a shell, in the folder of the node, and write events as `watchfire share` and `watchfire hold` do
//! with `--json`. docs/reference/experiments.md lists the variables and the events.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::content::Content;
use super::contract::{Program, START_TIMEOUT, Started, Ticket};
use super::events::EventNode;
use super::running_server::{RunningServer, figures};
use crate::drivers::driver::check_settings;
use crate::drivers::processes::host::{NodeError, Process, Site};

/// The commands of a peer; an empty one is missing.
pub struct Other {
    /// The program of its build, which the commands may run.
    program: PathBuf,
    seed: String,
    fetch: String,
    serve: String,
    /// The command that fetches runs before the clock starts, and waits for a line of input.
    waits: bool,
}

impl Other {
    pub fn new(program: PathBuf, settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &["seed", "fetch", "serve", "waits"])?;
        let has_content = ["seed", "fetch"].iter().any(|key| settings.contains_key(*key));
        let is_needed = |key: &str| (key == "serve") != (has_content || settings.is_empty());
        let command = |key: &str| match settings.get(key) {
            Some(command) => Ok(command.clone()),
            None if is_needed(key) => Err(format!("the setting {key:?} is missing: a command")),
            None => Ok(String::new()),
        };
        let (seed, fetch, serve) = (command("seed")?, command("fetch")?, command("serve")?);
        let waits = match settings.get("waits").map_or("false", String::as_str) {
            "true" => true,
            "false" => false,
            other => {
                return Err(format!("the setting \"waits\" must be true or false, not {other}"));
            }
        };
        Ok(Other { program, seed, fetch, serve, waits })
    }

    /// Bitswap 1.1: `experiments/peers/go-bitswap`, whose commands have the names of the settings.
    pub fn go_bitswap(
        program: Option<PathBuf>,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        check_settings(settings.keys(), &[])?;
        let program = program
            .ok_or("its `build.path` is missing: the program that `make peer-tools` builds")?;
        let command = |name: &str| format!("\"$LAB_PROGRAM\" {name}");
        let (seed, fetch) = (command("seed"), command("fetch"));
        Ok(Other { program: found(program)?, seed, fetch, serve: String::new(), waits: false })
    }

    /// A shell at a node, with the variables of its commands.
    fn shell(&self, line: &str, site: &Site) -> Result<Command, NodeError> {
        if line.is_empty() {
            let problem =
                "its peer has no command for it; add one of the settings seed, fetch and serve";
            return Err(NodeError::unfit("start the node", problem));
        }
        let mut command = shell(&site.with_addresses(line));
        command.env("LAB_ADDRESS", site.own_address().to_string()).env("LAB_FOLDER", site.path(""));
        command.env("LAB_PROGRAM", &self.program);
        command.env("LAB_SERVERS", json!(site.servers).to_string());
        Ok(command)
    }
}

/// The path of a program that exists.
pub fn found(program: PathBuf) -> Result<PathBuf, String> {
    fs::canonicalize(&program)
        .map_err(|error| format!("cannot find {}: {error}", program.display()))
}

/// Words at the begin of a command that name no program.
const NO_PROGRAMS: [&str; 12] =
    ["!", ".", ":", "cd", "eval", "exec", "exit", "export", "read", "set", "trap", "wait"];

/// A shell that becomes the program of a command, which so gets the signals, or that runs a line of several commands.
pub fn shell(line: &str) -> Command {
    let line = line.trim();
    let outside = outside_quotes(line);
    let first = outside.split_whitespace().next().unwrap_or_default();
    let is_program = !first.contains('=') && !NO_PROGRAMS.contains(&first);
    // Quotes within a substitution are others, so a line with one is not looked at.
    let is_plain = !line.contains(['\n', '`']) && !line.contains("$(");
    let is_one = is_plain && is_program && !outside.contains([';', '&', '|', '(']);
    let mut command = Command::new("sh");
    command.arg("-c").arg(if is_one { format!("exec {line}") } else { line.to_owned() });
    command
}

impl Program for Other {
    fn serve(&self, site: &Site) -> Started {
        let mut process = Process::start(site, self.shell(&self.serve, site)?, "serve")?;
        let mut told = Vec::new();
        let url = process.wait_until(START_TIMEOUT, |process| {
            let lines = process.lines()?;
            if let Some(figures) = lines.iter().filter_map(|line| figures(line)).next_back() {
                told = figures;
            }
            // A server may write other lines too.
            let mut events =
                lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let ready = events.find(|event| event["event"] == "ready");
            let url = |event: Value| match event["url"].as_str() {
                Some(url) => Ok(url.to_owned()),
                None => {
                    let problem = format!("the event has no url: {event}");
                    Err(NodeError::Unexpected { program: self.serve.clone(), problem })
                }
            };
            ready.map(url).transpose()
        })?;
        Ok(Box::new(RunningServer::new(url, process).with_figures(told)))
    }

    fn seed(&self, site: &Site, contents: &[Content]) -> Started {
        let mut command = self.shell(&self.seed, site)?;
        let paths: Vec<_> =
            contents.iter().map(|content| content.path.display().to_string()).collect();
        command.env("LAB_PATHS", json!(paths).to_string());
        Ok(Box::new(EventNode::sharing(site, command, contents, None)?))
    }

    fn prepare(&self, site: &Site, tickets: &[Ticket], _: &[Ticket]) -> Started {
        let mut command = self.shell(&self.fetch, site)?;
        let names: Vec<_> = tickets.iter().map(|ticket| &ticket.name).collect();
        command.env("LAB_NAMES", json!(names).to_string());
        if self.waits {
            return Ok(Box::new(EventNode::waiting(site, command, tickets)?));
        }
        let dial = |command: &mut Command, peers: &[String]| {
            command.env("LAB_PEERS", json!(peers).to_string());
        };
        // Others dial a node that fetches before it can tell more than its address.
        let address = Some(site.own_address().to_string());
        Ok(Box::new(EventNode::fetching(site, command, dial, tickets, &[], address)))
    }
}

/// A line of a shell without what is in quotes.
fn outside_quotes(line: &str) -> String {
    let mut quote = None;
    let is_outside = |sign: &char| match quote {
        Some(end) => {
            quote = quote.filter(|_| *sign != end);
            false
        }
        None => {
            quote = Some(*sign).filter(|sign| ['\'', '"'].contains(sign));
            quote.is_none()
        }
    };
    line.chars().filter(is_outside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_shares_and_fetches_or_serves() {
        let settings = |text: &str| {
            text.split_whitespace().map(|key| (key.to_owned(), "true".to_owned())).collect()
        };
        let new = |settings: &BTreeMap<String, String>| Other::new(PathBuf::new(), settings);
        assert!(new(&settings("seed fetch waits")).is_ok());
        assert!(new(&settings("serve")).is_ok());
        assert!(new(&settings("seed")).err().unwrap().contains("\"fetch\" is missing"));
        assert!(new(&settings("")).err().unwrap().contains("\"seed\" is missing"));
        assert!(new(&settings("seed fetch more")).err().unwrap().contains("unknown setting"));
        let mut settings: BTreeMap<String, String> = settings("seed fetch");
        settings.insert("waits".to_owned(), "yes".to_owned());
        let error = new(&settings).err().unwrap();
        assert!(error.contains("must be true or false"), "{error}");
    }

    #[test]
    fn a_program_that_waits_fetches_after_a_line_of_input() {
        let (site, _folder) = Site::for_test();
        let fetch = r#"echo '{"event":"ready"}'; read dials
            echo '{"event":"progress","bytes":'"${#dials}"'}'; echo '{"event":"held"}'; sleep 60"#;
        let settings = [("seed", "true"), ("fetch", fetch), ("waits", "true")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let program = Other::new(PathBuf::new(), &settings).unwrap();
        let ticket = Ticket { object: 0, name: "n".to_owned(), bytes: 9 };
        let mut node = program.prepare(&site, &[ticket], &[]).unwrap();
        node.wait_until_ready(START_TIMEOUT).unwrap();
        assert!(!node.poll().unwrap().has_all);
        node.fetch(&["a".to_owned()]).unwrap();
        while !node.poll().unwrap().has_all {}
        node.kill();
    }

    #[test]
    fn a_line_of_several_commands_runs_whole() {
        let (site, _folder) = Site::for_test();
        for (line, lines, code) in [
            ("echo one; echo two; exit 7", vec!["one", "two"], 7),
            ("cd / && pwd", vec!["/"], 0),
            ("exit 3", vec![], 3),
            ("A=1 sh -c 'echo $A; false'", vec!["1"], 1),
            ("exec echo 'a; b'", vec!["a; b"], 0),
            ("echo 'a\"b'; echo c", vec!["a\"b", "c"], 0),
            ("echo \"$(echo \"a\" | tr -d '\"')\"\necho b", vec!["a", "b"], 0),
        ] {
            let mut process = Process::start(&site, shell(line), "line").unwrap();
            let status = process.end(START_TIMEOUT).unwrap();
            assert_eq!(
                (process.lines().unwrap(), status.code()),
                (lines.into_iter().map(str::to_owned).collect(), Some(code)),
                "{line}"
            );
        }
        let becomes =
            |line| shell(line).get_args().nth(1).unwrap().to_str().unwrap().starts_with("exec ");
        assert!(becomes("node \"$LAB_PROGRAM\" seed") && becomes("sh -c 'a; b & wait'"));
    }

    #[test]
    fn a_server_names_its_url_and_its_figures() {
        let (site, _folder) = Site::for_test();
        let serve = |script: &str| {
            let settings = BTreeMap::from([("serve".to_owned(), script.to_owned())]);
            Other::new(PathBuf::new(), &settings).unwrap().serve(&site)
        };
        let script = r#"
            echo '{"event":"ready","url":"ws://'$LAB_ADDRESS':1"}'
            echo '{"event":"figures","figures":{"lateness, s":0.5,"name":"x"}}'
            trap 'echo "{\"event\":\"figures\",\"figures\":{\"lateness, s\":2}}"; kill $!; exit' TERM
            sleep 60 & wait
        "#;
        let mut node = serve(script).unwrap();
        assert_eq!(node.address().as_deref(), Some("ws://127.0.0.1:1"));
        node.poll().unwrap();
        // It may end before its shell has set the trap.
        let figures = node.end().unwrap().figures;
        let known = [0.5, 2.0].map(|value| vec![("lateness, s".to_owned(), value)]);
        assert!(known.contains(&figures), "{figures:?}");
        let error = serve("echo cannot listen >&2\nexit 3").err().unwrap().to_string();
        assert!(error.contains("exit status: 3: cannot listen"), "{error}");
    }

    #[test]
    fn a_program_that_is_missing_is_named_before_a_run() {
        let none = BTreeMap::new();
        let missing = Some(PathBuf::from("/no/such-program"));
        let error = Other::go_bitswap(missing, &none).err().unwrap();
        assert!(error.starts_with("cannot find /no/such-program: "), "{error}");
        assert!(Other::go_bitswap(None, &none).err().unwrap().contains("`make peer-tools`"));
    }
}
