//! The pages of the documents whose figures come from experiment files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use watchfire_lab::{Age, Experiment, PageHead};

use crate::support::{Scratch, find_documents, repository};

/// Experiments whose pages still have figures that another program measured, and say which command renews them.
const NOT_MEASURED_YET: [&str; 16] = [
    "experiments/cluster.toml",
    "experiments/lateness.toml",
    "experiments/recovery.toml",
    "experiments/scale-million.toml",
    "experiments/scale-observed.toml",
    "experiments/scale-one-room.toml",
    "experiments/scale-polls.toml",
    "experiments/scale-rooms.toml",
    "experiments/scale-small-machine.toml",
    "experiments/scale-storm.toml",
    "experiments/scale-streams.toml",
    "experiments/swarm-crowd.toml",
    "experiments/swarm-pair.toml",
    "experiments/swarm-uplinks.toml",
    "experiments/swarm-webtorrent.toml",
    "experiments/targets.toml",
];

fn read(file: &str) -> Experiment {
    let text = fs::read_to_string(repository().join(file))
        .unwrap_or_else(|error| panic!("{file}: {error}"));
    Experiment::parse(file, &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The Markdown files below a folder, as paths in the repository.
fn documents(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    find_documents(folder, &mut found);
    let path =
        |path: &PathBuf| path.strip_prefix(repository()).unwrap().to_string_lossy().into_owned();
    found.iter().map(path).collect()
}

/// The experiment files of a folder whose figures are for a page.
fn measuring_in(folder: &str) -> BTreeSet<String> {
    let files = fs::read_dir(repository().join(folder)).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let names =
        files.map(|path| format!("{folder}/{}", path.file_name().unwrap().to_string_lossy()));
    names.filter(|file| !read(file).measures.is_empty()).collect()
}

/// The experiment files whose figures are for a page, with those beside published figures.
fn measuring() -> BTreeSet<String> {
    let folders = ["experiments", "experiments/seeds", "experiments/simulated"];
    folders.into_iter().flat_map(measuring_in).collect()
}

/// A release must not have a page that is too old. A change of the code that it measures is no reason to refuse that change.
fn is_of_release() -> bool {
    std::env::var_os("FIGURES_CHECK").is_some()
}

#[test]
fn no_page_is_older_than_its_experiment_allows() {
    let repository = repository();
    let renewed = Command::new(repository.join("experiments/figures.sh")).arg("--pages").output();
    let renewed = String::from_utf8(renewed.unwrap().stdout).unwrap();
    let mut measured = BTreeSet::new();
    let (mut old, mut refused) = (Vec::new(), Vec::new());
    for page in documents(&repository.join("docs")) {
        let text = fs::read_to_string(repository.join(&page)).unwrap();
        let Some(head) = PageHead::read(&text) else { continue };
        let experiment = read(&head.experiment);
        let is_renewed = renewed.lines().any(|line| line == page);
        assert!(is_renewed, "experiments/figures.sh does not renew {page}");
        match head.age(&repository, &page, &experiment.measures) {
            Ok(Age::Commits(age)) if age > experiment.stale_after => old.push(format!(
                "{page} is {age} commits old in {}, at most {} are allowed; renew it with the command on it",
                experiment.measures.join(", "),
                experiment.stale_after
            )),
            Ok(Age::Commits(_)) => {}
            Ok(Age::Unknown) => eprintln!("warning: the age of {page} is unknown in a shallow clone"),
            Err(error) if !repository.join(".git").exists() => eprintln!("warning: {page}: {error}"),
            Err(error) => refused.push(format!("{page}: {error}")),
        }
        measured.insert(head.experiment);
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    old.iter().for_each(|page| eprintln!("warning: {page}"));
    assert!(old.is_empty() || !is_of_release(), "pages are too old: {}", old.join("\n"));
    let missing: Vec<String> = measuring_in("experiments").difference(&measured).cloned().collect();
    assert_eq!(missing, NOT_MEASURED_YET, "experiments without a page");
}

/// The number at the start of a text, such as 1987872 for `1,987,872 (…)`, and its decimal places.
fn number(text: &str) -> Option<(f64, i32)> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | ',')).unwrap_or(text.len());
    let digits = text[..end].trim_end_matches(['.', ',']).replace(',', "");
    let places = digits.split_once('.').map_or(0, |(_, after)| after.len());
    Some((digits.parse().ok()?, i32::try_from(places).ok()?))
}

/// The cell of a page's table in the row that begins with `row`.
fn cell<'a>(page: &'a str, row: &str, column: &str) -> Option<&'a str> {
    let cells = |line: &'a str| line.trim().trim_matches('|').split('|').map(str::trim);
    let mut place = None;
    for line in page.lines() {
        if !line.starts_with('|') {
            place = None;
        } else if let Some(place) = place
            && cells(line).next() == Some(row)
        {
            return cells(line).nth(place);
        } else if place.is_none() {
            place = cells(line).position(|name| name == column);
        }
    }
    None
}

/// In a text, `<!-- PAGE; ROW; COLUMN -->` follows a number of a page, which may be rounded. PAGE may end with the heading of
/// a part of it, such as `swarm/crowd.md#From 1 to 32`.
#[test]
fn figures_in_texts_are_those_of_the_pages() {
    let repository = repository();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for file in documents(&repository.join("docs")).into_iter().chain(["README.md".to_owned()]) {
        let text = fs::read_to_string(repository.join(&file)).unwrap();
        let parts: Vec<&str> = text.split("<!-- ").collect();
        for (before, mark) in parts.iter().zip(&parts[1..]) {
            let mark = mark.split(" -->").next().unwrap();
            let names: Vec<&str> = mark.split("; ").collect();
            let [page, row, column] = names[..] else { continue };
            let (page, heading) = page.split_once('#').unwrap_or((page, ""));
            let page = Path::new(&file).with_file_name(page);
            let page = fs::read_to_string(repository.join(&page)).unwrap_or_default();
            let part = if heading.is_empty() {
                Some(&*page)
            } else {
                page.split("\n## ").find(|part| part.lines().next() == Some(heading))
            };
            let measured = part.and_then(|part| cell(part, row, column)).and_then(number);
            let start = before.rfind(|c: char| !matches!(c, '0'..='9' | '.' | ','));
            let written = number(&before[start.map_or(0, |at| at + 1)..]);
            let is_same =
                measured.zip(written).is_some_and(|((measured, _), (written, places))| {
                    (measured - written).abs() <= 0.5001 * 10f64.powi(-places)
                });
            if !is_same {
                wrong.push(format!("{file}: {written:?} is not {measured:?} of {mark}"));
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 0, "no text has a figure of a page");
}

#[test]
fn experiments_measure_files_that_exist() {
    for file in measuring() {
        for path in &read(&file).measures {
            assert!(repository().join(path).exists(), "{file} measures {path}");
        }
    }
}

#[test]
fn the_programs_of_the_experiments_are_those_that_make_builds() {
    for (name, file, before) in [
        ("kubo", "tests/interop/kubo/go.mod", "require github.com/ipfs/kubo "),
        ("nats", "tests/interop/nats/go.mod", "require github.com/nats-io/nats-server/v2 "),
        ("centrifugo", "Makefile", "CENTRIFUGO_VERSION := "),
    ] {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        let version = text.lines().find_map(|line| line.strip_prefix(before)).unwrap();
        let (folder, expected) = (format!("target/{name}/"), format!("target/{name}/{version}/"));
        let mut paths = 0;
        for file in measuring() {
            let text = fs::read_to_string(repository().join(&file)).unwrap();
            for line in text.lines().filter(|line| line.contains(&folder)) {
                assert!(line.contains(&expected), "{file}: {line}");
                paths += 1;
            }
        }
        assert!(paths > 0, "no experiment uses {name}");
    }
}

/// Trials of the pair that need no other program than this one, `dd` and `sh`.
#[test]
fn a_quick_run_of_the_pair_works() {
    let folder = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire"));
    command.args(["lab", "run", "experiments/swarm-pair.toml", "--driver", "processes", "--quick"]);
    command.args(["--trial", "Watchfire", "--trial", "dd (only copies the file)", "--json"]);
    command.arg(folder.join("out.json")).env("XDG_CACHE_HOME", &*folder);
    let output = command.current_dir(repository()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(folder.join("out.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["runs"].as_array().unwrap().len(), 2, "{text}");
}

#[test]
fn a_page_is_written_with_its_picture() {
    let folder = Scratch::new();
    let text = "
        name = \"One to one\"
        measures = [\"crates/bitswap\"]
        [clusters.pair]
        groups = [{ name = \"a\" }, { name = \"b\" }]
        [scenarios.s]
        objects.file = { random = \"1MiB\" }
        seed = { a = \"file\" }
        fetch = { b = \"file\" }
    ";
    fs::write(folder.join("pair.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire"));
    command.args(["lab", "run", "pair.toml", "--page", "pair.md"]).current_dir(&*folder);
    let output = command.env("XDG_CACHE_HOME", &*folder).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(folder.join("pair.md")).unwrap();
    assert!(
        page.contains("`watchfire lab run pair.toml --driver simulated --page pair.md`"),
        "{page}"
    );
    assert_eq!(PageHead::read(&page).unwrap().experiment, "pair.toml");
    assert!(fs::read_to_string(folder.join("pair.svg")).unwrap().starts_with("<svg"));
}
