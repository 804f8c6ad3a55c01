//! Compares the crates with the map in ARCHITECTURE.md: their imports, and the rules of the pure crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Dependencies that wait, generate random numbers, read clocks or open files.
const IMPURE: &[&str] =
    &["tokio", "mio", "rustix", "socket2", "hyper", "axum", "getrandom", "rand", "tracing", "libc"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder").into()
}

fn document(name: &str) -> String {
    fs::read_to_string(crates().join("..").join(name)).expect("the document is there")
}

/// The texts between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Each crate of the map's table, and the crates of this workspace that it imports.
fn map() -> BTreeMap<String, BTreeSet<String>> {
    let map = document("ARCHITECTURE.md");
    let rows = map.lines().filter_map(|line| line.strip_prefix("| `crates/"));
    let imports = |row: &str| {
        let (name, rest) = row.split_once("` |").expect("a row begins with a crate");
        let imports = rest.trim_end_matches([' ', '|']).rsplit('|').next().expect("a column");
        (name.to_owned(), quoted(imports).collect())
    };
    rows.map(imports).collect()
}

/// The levels of the drawing, from the highest, and the crates on each.
fn levels() -> Vec<(String, Vec<String>)> {
    let map = document("ARCHITECTURE.md");
    let (_, map) = map.split_once("## The map").expect("the map has a headline");
    let drawing = map.split("```").nth(1).expect("the map is drawn");
    let mut levels: Vec<(String, Vec<String>)> = Vec::new();
    for line in drawing.lines().filter(|line| !line.is_empty()) {
        let (crates, _) = line.split_once('│').expect("a bar divides the crates from the remark");
        let mut words = crates.split_whitespace().map(str::to_owned);
        if !line.starts_with("   ") {
            levels.push((words.next().expect("a level has a name"), Vec::new()));
        }
        levels.last_mut().expect("the drawing begins with a level").1.extend(words);
    }
    levels
}

/// The crates that the map calls pure.
fn pure() -> Vec<String> {
    let map = document("ARCHITECTURE.md").replace('\n', " ");
    let (_, list) = map.split_once("Of these crates,").expect("the map lists the pure crates");
    let (list, _) = list.split_once("are pure").expect("the list ends");
    let pure: Vec<String> = quoted(list).collect();
    assert!(pure.len() > 5, "{pure:?}");
    pure
}

/// The dependencies of one crate, without the dependencies of its tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
    let mut is_dependency = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependency = line == "[dependencies]";
        } else if is_dependency
            && !line.starts_with('#')
            && let Some(end) = line.find(['.', ' ', '='])
        {
            let folder = match &line[..end] {
                "watchfire" => "server",
                name => name.trim_start_matches("watchfire-"),
            };
            found.insert(folder.to_owned());
        }
    }
    found
}

#[test]
fn crates_import_what_the_map_says() {
    let map = map();
    let mut folders: Vec<_> = fs::read_dir(crates())
        .expect("a folder of crates")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let drawn: Vec<String> = map.keys().cloned().collect();
    assert_eq!(folders, drawn, "the map must name every crate and no other");
    for (name, drawn) in &map {
        let ours = dependencies(name).into_iter().filter(|name| map.contains_key(name));
        assert_eq!(&ours.collect::<BTreeSet<_>>(), drawn, "the imports of {name}, and the map");
    }
}

#[test]
fn each_crate_is_drawn_on_one_level_and_no_import_points_up() {
    let (map, levels) = (map(), levels());
    let names: Vec<&str> = levels.iter().map(|(level, _)| &**level).collect();
    let known = ["program", "features", "drivers", "cores", "data", "output"];
    let mut drawn_in_order = known.iter().filter(|level| names.contains(level));
    assert!(names.iter().all(|level| drawn_in_order.next() == Some(level)), "{names:?}");
    let mut drawn: Vec<&String> = levels.iter().flat_map(|(_, crates)| crates).collect();
    drawn.sort();
    assert_eq!(drawn, map.keys().collect::<Vec<_>>(), "each crate is drawn once, and no other");
    let level_of = |name| levels.iter().position(|(_, crates)| crates.contains(name));
    for (name, imports) in &map {
        let level = level_of(name).expect("each crate is drawn");
        for import in imports {
            let imported = level_of(import).expect("each crate is drawn");
            assert!(level <= imported, "{name} imports {import}, which is on a higher level");
            let may_import_equals = names[level] != "cores" || name == "sim";
            assert!(level < imported || may_import_equals, "the core {name} imports {import}");
        }
    }
}

#[test]
fn pure_crates_have_no_impure_dependencies() {
    let map = map();
    for name in &pure() {
        for dependency in dependencies(name) {
            assert!(!IMPURE.contains(&dependency.as_str()), "{name} may not use {dependency}");
        }
        let data = ["types", "content"].map(str::to_owned).into();
        assert!(map[name].is_subset(&data), "{name} may import types and content only");
        let rules = fs::canonicalize(crates().join(name).join("clippy.toml")).expect("clippy.toml");
        assert!(rules.ends_with("pure.clippy.toml"), "{name} must use pure.clippy.toml");
    }
}

/// Whether a crate imports another one, directly or not.
fn imports(map: &BTreeMap<String, BTreeSet<String>>, name: &str, other: &str) -> bool {
    map[name].iter().any(|import| import == other || imports(map, import, other))
}

#[test]
fn the_readme_of_a_crate_names_the_crate_that_its_users_install() {
    let map = map();
    for name in map.keys().filter(|name| !["cli", "server"].contains(&name.as_str())) {
        let text = document(&format!("crates/{name}/README.md"));
        let is_of_a_server = ["server", "pages", "operator", "api"]
            .iter()
            .any(|of| name == of || imports(&map, of, name));
        let used = if is_of_a_server { "watchfire" } else { "watchfire-cli" };
        let link = format!("[`{used}`](https://crates.io/crates/{used})");
        assert!(text.contains(&link), "crates/{name}/README.md must link to {used}");
    }
}

/// The modules that the `lib.rs` of a crate draws, from the top down. Those of one line do not import each other.
fn drawn_modules(lib: &str) -> Option<Vec<Vec<String>>> {
    let (_, drawing) = lib.split_once("modules import only those in the lines below their own:")?;
    let (_, drawing) = drawing.split_once("```text\n")?;
    let (drawing, _) = drawing.split_once("```")?;
    let names = |line: &str| {
        let names = line.split("  ").next().unwrap_or_default();
        names.split(", ").map(str::to_owned).collect()
    };
    let lines = drawing.lines().map(|line| line.trim_start_matches(['/', '!', ' ']));
    Some(lines.filter(|line| !line.is_empty()).map(names).collect())
}

/// The code of a file without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// The source files of a module, each with the modules of its crate that it imports. Tests may import all.
fn imports_of_module(path: &Path, found: &mut Vec<(PathBuf, BTreeSet<String>)>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry"));
        return entries.for_each(|entry| imports_of_module(&entry.path(), found));
    }
    if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("tests.rs") {
        return;
    }
    found.push((path.to_owned(), names_after(&code(path), "crate::")));
}

/// The names that stand after each `start`, such as the `metrics` of `crate::metrics::Metrics`, or all in braces there.
fn names_after(code: &str, start: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let names = |rest: &str| -> Vec<String> {
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = group.split(';').next().unwrap_or_default();
                let names = group.split(|letter| !is_of_name(letter));
                names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
            }
            None => vec![rest.chars().take_while(|letter| is_of_name(*letter)).collect()],
        }
    };
    code.split(start).skip(1).flat_map(names).collect()
}

/// Takes modules away that import none of those left, until all are taken, or a circle is left.
fn assert_without_circle(mut modules: BTreeMap<String, BTreeSet<String>>, place: &Path) {
    while !modules.is_empty() {
        let left: BTreeSet<String> = modules.keys().cloned().collect();
        modules.retain(|_, imports| !imports.is_disjoint(&left));
        assert!(modules.len() < left.len(), "{} has a circle in {modules:#?}", place.display());
    }
}

#[test]
fn modules_import_only_those_below_them_in_the_drawing_of_their_crate() {
    let mut drawings = 0;
    for name in map().keys() {
        let src = crates().join(name).join("src");
        let lib = fs::read_to_string(src.join("lib.rs")).unwrap_or_default();
        let Some(lines) = drawn_modules(&lib) else { continue };
        drawings += 1;
        let modules: BTreeSet<String> = fs::read_dir(&src)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .filter(|module| !["lib", "main"].contains(&module.as_str()))
            .collect();
        assert_eq!(
            lines.concat().into_iter().collect::<BTreeSet<_>>(),
            modules,
            "{name}/src/lib.rs"
        );
        for (line, module) in
            lines.iter().enumerate().flat_map(|(n, line)| line.iter().map(move |m| (n, m)))
        {
            let folder = src.join(module);
            let paths = [folder.with_extension("rs"), folder];
            let mut files = Vec::new();
            for path in paths.iter().filter(|path| path.exists()) {
                imports_of_module(path, &mut files);
            }
            for (file, imports) in files {
                let mut above = lines[..=line].iter().flatten().filter(|other| *other != module);
                let wrong = above.find(|other| imports.contains(*other));
                assert_eq!(wrong, None, "{} imports a module that is not below it", file.display());
            }
        }
    }
    assert!(drawings >= 5, "the crates load, mirror, server, sim and wire draw their modules");
}

#[test]
fn modules_import_each_other_without_a_circle() {
    // The span of a thread and the exporter that receives it name each other.
    for name in map().into_keys().filter(|name| name != "traces") {
        let src = crates().join(name).join("src");
        let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for entry in fs::read_dir(&src).expect("a folder") {
            let path = entry.expect("an entry").path();
            let module = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let mut files = Vec::new();
            imports_of_module(&path, &mut files);
            let imports = files.into_iter().flat_map(|(_, imports)| imports);
            let others = imports.filter(|import| *import != module).collect();
            modules.insert(module, others);
        }
        ["lib", "main"].iter().for_each(|root| drop(modules.remove(*root)));
        assert_without_circle(modules, &src);
    }
}

/// Compares the files of one folder, and of the folders in it.
fn examine_folder(folder: &Path) {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in entries.map(|entry| entry.path()) {
        let module = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let named = if path.is_dir() {
            examine_folder(&path);
            BTreeSet::new()
        } else if module == "mod" {
            names_after(&code(&path), "use ")
        } else {
            names_after(&code(&path), "super::")
        };
        imports.entry(module).or_default().extend(named);
    }
    let siblings: BTreeSet<String> = imports.keys().cloned().collect();
    for (module, named) in &mut imports {
        // A name that is no file of the folder is one of `mod.rs`.
        let is_of_mod = module != "mod" && !named.is_subset(&siblings);
        named.retain(|name| siblings.contains(name) && name != module);
        named.extend(is_of_mod.then(|| "mod".to_owned()));
    }
    assert_without_circle(imports, folder);
}

#[test]
fn the_files_of_each_folder_of_the_server_import_each_other_without_a_circle() {
    let src = crates().join("server/src");
    let folders = fs::read_dir(src).expect("a folder").map(|entry| entry.expect("an entry").path());
    folders.filter(|path| path.is_dir()).for_each(|folder| examine_folder(&folder));
}

/// The files below a folder that contain a text.
fn files_with(folder: &Path, text: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_with(&path, text, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path).expect("a source file").contains(text)
        {
            let path = path.strip_prefix(crates()).expect("it is in a crate");
            found.insert(format!("crates/{}", path.display()));
        }
    }
}

#[test]
fn every_file_with_unsafe_code_is_listed() {
    let mut found = BTreeSet::new();
    for name in map().keys() {
        files_with(&crates().join(name).join("src"), "allow(unsafe_code", &mut found);
    }
    let rules = document("CONTRIBUTING.md");
    let (_, list) = rules.split_once("- `unsafe` is denied.").expect("the rule");
    let (list, _) = list.split_once("A test compares").expect("the rule ends");
    assert_eq!(found, quoted(list).collect(), "the files with unsafe code, and CONTRIBUTING.md");
}

/// Whether a source file of the folder, or of a folder below, contains the word.
fn mentions(folder: &Path, word: &str) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return mentions(&path, word);
        }
        path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path)
                .expect("a source file")
                .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .any(|found| found == word)
    })
}

#[test]
fn every_dependency_is_used() {
    let map = map();
    for name in map.keys() {
        for dependency in dependencies(name) {
            let word = dependency.replace('-', "_");
            let source = crates().join(name).join("src");
            let is_ours = map.contains_key(&dependency);
            let word = match is_ours {
                true if dependency == "server" => "watchfire".to_owned(),
                true => format!("watchfire_{word}"),
                // The only package whose library has another name.
                false if dependency == "md-5" => "md5".to_owned(),
                false => word,
            };
            assert!(mentions(&source, &word), "{name} does not use {dependency}");
        }
    }
}
