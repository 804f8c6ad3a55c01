//! `watchfire new`: a project with a channel server of its own.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The files of a project, and their texts.
const FILES: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("new/template/Cargo.toml.template")),
    ("README.md", include_str!("new/template/README.md.template")),
    (".gitignore", include_str!("new/template/gitignore")),
    ("src/main.rs", include_str!("new/template/src/main.rs.template")),
];

/// Arguments of `watchfire new`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of the project, which must not exist yet. Its name is the name of the program.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Take the library from a folder with the repository, or from this Git URL, in place of crates.io.
    #[arg(long, value_name = "FOLDER|URL")]
    from: Option<String>,
}

/// Writes the project, and prints what to do next.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.path;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_crate_name(name) {
        bail!(
            "cannot name a program after {path:?}: the last part of the path must have ASCII letters, \
             digits, - and _, with a letter first"
        );
    }
    let library = arguments.from.as_deref().map_or_else(|| Ok(released()), library_of)?;
    match fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists already; choose another path", path.display())
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot create {}", path.display()));
        }
    }
    write(path, name, &library)?;
    println!("created {}", path.display());
    println!("serve it with: cd {} && cargo run", path.display());
    Ok(())
}

/// The library as crates.io has it, as a value of `[dependencies]`.
fn released() -> String {
    format!("{:?}", env!("CARGO_PKG_VERSION"))
}

/// The library of a folder or a Git repository.
fn library_of(source: &str) -> anyhow::Result<String> {
    if source.contains("://") {
        return Ok(format!("{{ git = {source:?} }}"));
    }
    let folder = Path::new(source).join("crates/server");
    let folder = folder.canonicalize().with_context(|| {
        format!(
            "cannot take the library from {source}: it is neither a clone of the repository nor a URL"
        )
    })?;
    Ok(format!("{{ path = {folder:?} }}"))
}

fn write(folder: &Path, name: &str, library: &str) -> anyhow::Result<()> {
    for (file, template) in FILES {
        let text = template.replace("{{name}}", name);
        let text = text.replace("{{library}}", library);
        let file = folder.join(file);
        let parent = file.parent().expect("a file is in a folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&file, text))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Whether cargo accepts a name. Cargo has further rules, such as words that Rust reserves.
fn is_crate_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_that_of_a_release_a_folder_or_a_repository() {
        assert_eq!(released(), format!("\"{}\"", env!("CARGO_PKG_VERSION")));
        let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let folder = repository.canonicalize().unwrap().join("crates/server");
        let from_folder = library_of(repository.to_str().unwrap()).unwrap();
        assert_eq!(from_folder, format!("{{ path = {folder:?} }}"));
        let url = "https://example.org/watchfire";
        assert_eq!(library_of(url).unwrap(), format!("{{ git = {url:?} }}"));
        let error = library_of("/nothing/here").unwrap_err().to_string();
        assert!(error.contains("/nothing/here: it is neither a clone"), "{error}");
    }

    #[test]
    fn only_names_that_cargo_accepts_name_a_project() {
        for good in ["app", "my-app", "my_app2"] {
            assert!(is_crate_name(good), "{good}");
        }
        for bad in ["", "2app", "-app", "my app", "my.app", "a\"b", "ä"] {
            assert!(!is_crate_name(bad), "{bad}");
        }
    }
}
