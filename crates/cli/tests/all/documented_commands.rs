//! Each command and option of the program that a document names exists.

use std::collections::BTreeSet;
use std::fs;

use clap::Command;

use crate::support::{find_documents, repository};

/// Folders and files whose Markdown is read.
const READ: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs",
    "examples",
    "deploy",
    "crates",
    "clients/javascript/README.md",
    "web/packages",
];
/// Texts that are hashed or encrypted, and that no one types.
const LABELS: [&str; 5] = [
    "watchfire live 1",
    "watchfire head 1",
    "watchfire seal 1",
    "watchfire private commitment",
    "watchfire private records",
];
/// Signs that end the arguments of a command in a line.
const ENDS: [&str; 10] = ["|", "||", "&", "&&", ";", "#", ">", ">>", "<", "\\"];
/// Words that may stand before the name of the program in a line.
const BEFORE: [&str; 7] = ["$", "sudo", "|", "&&", ";", "(", "exec"];

/// The lines of code in a text: of blocks, and between backquotes.
fn code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut prose, mut is_block) = (String::new(), false);
    for line in text.replace("\\\n", " ").lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            found.push(line.to_owned());
        } else {
            // No code between backquotes goes over the end of a paragraph.
            prose += if line.is_empty() { "\u{b6}" } else { line };
            prose += " ";
        }
    }
    let paragraphs = prose.split('\u{b6}');
    found.extend(paragraphs.flat_map(|text| text.split('`').skip(1).step_by(2)).map(str::to_owned));
    found
}

/// The words after the name of the program, for each time that a line runs it.
fn runs(line: &str) -> Vec<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_run = |at: usize| {
        let before = at.checked_sub(1).map(|before| words[before]);
        (words[at] == "watchfire" || words[at].ends_with("/watchfire"))
            && before.is_none_or(|word| BEFORE.contains(&word) || word.contains('='))
    };
    let arguments = |at: usize| {
        words[at + 1..].iter().copied().take_while(|word| !ENDS.contains(word)).collect()
    };
    (0..words.len()).filter(|at| is_run(*at)).map(arguments).collect()
}

fn has_option(command: &Command, option: &str) -> bool {
    let is_long =
        |name: &str| command.get_arguments().any(|argument| argument.get_long() == Some(name));
    ["help", "version"].contains(&option) || is_long(option)
}

/// The fault in the arguments that a document shows.
fn fault<'a>(program: &'a Command, arguments: &[&str]) -> Option<String> {
    let mut command = program;
    let mut rest = arguments;
    let inner = |command: &'a Command, name: &str| {
        command.get_subcommands().find(|inner| inner.get_name() == name && !inner.is_hide_set())
    };
    while let Some(inner) = rest.first().and_then(|word| inner(command, word)) {
        (command, rest) = (inner, &rest[1..]);
    }
    let first = rest.first().copied().unwrap_or("-");
    let is_name =
        first.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !first.starts_with('-');
    if is_name && command.has_subcommands() {
        let name = if std::ptr::eq(command, program) { "the program" } else { command.get_name() };
        return Some(format!("{name} has no command {first}"));
    }
    rest.iter().filter_map(|word| word.strip_prefix("--")).filter(|name| !name.is_empty()).find_map(
        |name| {
            let name = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?;
            let is_known = has_option(command, name);
            (!is_known).then(|| format!("{} has no option --{name}", command.get_name()))
        },
    )
}

#[test]
fn each_command_and_option_in_a_document_exists() {
    let program = watchfire_cli::command();
    let mut files = Vec::new();
    for path in READ {
        find_documents(&repository().join(path), &mut files);
    }
    let (mut faults, mut options) = (Vec::new(), BTreeSet::new());
    for file in files {
        for line in code(&fs::read_to_string(&file).unwrap()) {
            if LABELS.contains(&line.as_str()) {
                continue;
            }
            for arguments in runs(&line) {
                let named = arguments.iter().filter(|word| word.starts_with("--"));
                options.extend(named.map(|word| word.to_string()));
                let fault = fault(&program, &arguments);
                faults.extend(fault.map(|fault| format!("{}: {fault}: {line}", file.display())));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(options.len() > 40, "{} options are in documents", options.len());
}

#[test]
fn a_command_or_an_option_that_is_gone_is_found() {
    let program = watchfire_cli::command();
    let found = |line: &str| {
        let runs = runs(line);
        assert!(!runs.is_empty(), "{line}: a command");
        runs.iter().find_map(|arguments| fault(&program, arguments))
    };
    assert_eq!(found("$ watchfire share --to http://localhost:4000 film.mp4 # --from"), None);
    assert_eq!(found("KEY=a target/serve/watchfire serve --set a=b | grep --color a"), None);
    assert_eq!(found("watchfire share --two URL").unwrap(), "share has no option --two");
    assert_eq!(found("watchfire mirror status --follow").unwrap(), "status has no option --follow");
    assert_eq!(found("watchfire shere film.mp4").unwrap(), "the program has no command shere");
    assert_eq!(found("watchfire lab swarm one.toml").unwrap(), "lab has no command swarm");
    let second = "cd watchfire && watchfire cid a && sudo watchfire serve --nope";
    assert_eq!(found(second).unwrap(), "serve has no option --nope");
    assert_eq!(runs("the program watchfire serves"), [[""; 0]; 0]);
    let text = "`watchfire\ncid` and\n```sh\nwatchfire get \\\n  --store a\n```\n";
    assert_eq!(code(text), ["watchfire get    --store a", "watchfire cid"]);
}
