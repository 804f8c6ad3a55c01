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
}

/// Write the project, and print what to do next.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.path;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_crate_name(name) {
        bail!(
            "cannot name a program after {path:?}: the last part of the path must have ASCII letters, \
             digits, - and _, with a letter first"
        );
    }
    match fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists already; choose another path", path.display())
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot create {}", path.display()));
        }
    }
    write(path, name)?;
    println!("created {}", path.display());
    println!("serve it with: cd {} && cargo run", path.display());
    Ok(())
}

fn write(folder: &Path, name: &str) -> anyhow::Result<()> {
    for (file, template) in FILES {
        let text = template.replace("{{name}}", name);
        let text = text.replace("{{version}}", env!("CARGO_PKG_VERSION"));
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
    fn only_names_that_cargo_accepts_name_a_project() {
        for good in ["app", "my-app", "my_app2"] {
            assert!(is_crate_name(good), "{good}");
        }
        for bad in ["", "2app", "-app", "my app", "my.app", "a\"b", "ä"] {
            assert!(!is_crate_name(bad), "{bad}");
        }
    }
}
