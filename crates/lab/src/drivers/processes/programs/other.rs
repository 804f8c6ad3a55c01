//! Any other program, by the commands of its peer: one that shares, and one that fetches.
//!
//! Both run in a shell, in the folder of the node, and write events as `watchfire share` and `watchfire hold` do
//! with `--json`. docs/reference/experiments.md lists the variables and the events.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::json;

use super::events::EventNode;
use super::{Content, Node, NodeError, Program, Site, Ticket, check_settings};

pub struct Other {
    seed: String,
    fetch: String,
}

impl Other {
    pub fn new(settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &["seed", "fetch"])?;
        let command = |key: &str| {
            settings.get(key).cloned().ok_or(format!("the setting {key:?} is missing: a command"))
        };
        Ok(Other { seed: command("seed")?, fetch: command("fetch")? })
    }
}

/// A shell that becomes the command, or that runs a script of several lines.
fn shell(line: &str, site: &Site) -> Command {
    let is_script = line.trim().contains('\n');
    let mut command = Command::new("sh");
    command.arg("-c").arg(if is_script { line.to_owned() } else { format!("exec {line}") });
    command.env("LAB_ADDRESS", site.address.to_string()).env("LAB_FOLDER", site.path(""));
    command
}

impl Program for Other {
    fn seed(&self, site: &Site, contents: &[Content]) -> Result<Box<dyn Node>, NodeError> {
        let mut command = shell(&self.seed, site);
        let paths: Vec<_> =
            contents.iter().map(|content| content.path.display().to_string()).collect();
        command.env("LAB_PATHS", json!(paths).to_string());
        Ok(Box::new(EventNode::sharing(site, command, contents, None)?))
    }

    fn store(&self, _: &Site, _: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        let problem = "its nodes either share or fetch".to_owned();
        Err(NodeError::Unexpected { program: self.fetch.clone(), problem })
    }

    fn prepare(
        &self,
        site: &Site,
        tickets: &[Ticket],
        _: &[Ticket],
    ) -> Result<Box<dyn Node>, NodeError> {
        let mut command = shell(&self.fetch, site);
        let names: Vec<_> = tickets.iter().map(|ticket| &ticket.name).collect();
        command.env("LAB_NAMES", json!(names).to_string());
        let dial = |command: &mut Command, peers: &[String]| {
            command.env("LAB_PEERS", json!(peers).to_string());
        };
        Ok(Box::new(EventNode::fetching(site, command, dial, tickets, &[], None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_commands_are_needed() {
        let settings = |text: &str| {
            text.split_whitespace().map(|key| (key.to_owned(), "true".to_owned())).collect()
        };
        assert!(Other::new(&settings("seed fetch")).is_ok());
        assert!(Other::new(&settings("seed")).err().unwrap().contains("\"fetch\" is missing"));
        assert!(
            Other::new(&settings("seed fetch more")).err().unwrap().contains("unknown setting")
        );
    }
}
