//! The files that containerd's `config.toml` imports. Their settings override its own.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use toml::{Table, Value};

use super::host::Host;

/// Files that are read. With more the command fails.
const FILES_MAX: usize = 200;
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The names of the CRI plugin in the versions 2 and 3 of the layout.
const PLUGINS: [&str; 2] = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images"];

/// The imported file that decides about `config_path`.
#[derive(Debug, PartialEq)]
pub(super) struct Imported {
    pub(super) path: PathBuf,
    /// `None`: it has other settings of the CRI plugin.
    pub(super) config_path: Option<String>,
}

/// Returns the last imported file that sets `config_path`. Without one, returns the last file that sets
/// anything else of the CRI plugin.
pub(super) fn find(host: &Host, config: &Path, text: &str) -> anyhow::Result<Option<Imported>> {
    // The caller reports an invalid text.
    let Ok(settings) = text.parse::<Table>() else { return Ok(None) };
    let mut pending: VecDeque<PathBuf> = resolve(host, config, &settings)?.into();
    let mut seen = vec![config.to_owned()];
    let (mut with_path, mut other) = (None, None);
    while let Some(path) = pending.pop_front() {
        if seen.contains(&path) {
            continue;
        }
        if seen.len() > FILES_MAX {
            bail!(
                "cannot read the imports of {}: it imports more than {FILES_MAX} files; import fewer",
                config.display()
            );
        }
        let settings = read(host, &path).with_context(|| {
            format!("cannot read {}, which {} imports", path.display(), config.display())
        })?;
        seen.push(path.clone());
        let Some(settings) = settings else { continue };
        pending.extend(resolve(host, &path, &settings)?);
        for plugin in PLUGINS {
            let Some(plugin) = settings.get("plugins").and_then(|plugins| plugins.get(plugin))
            else {
                continue;
            };
            let found = plugin.get("registry").and_then(|registry| registry.get("config_path"));
            match found.and_then(Value::as_str).filter(|found| !found.is_empty()) {
                Some(found) => with_path = Some((path.clone(), found.to_owned())),
                None => other = Some(path.clone()),
            }
        }
    }
    let with_path = with_path.map(|(path, found)| Imported { path, config_path: Some(found) });
    Ok(with_path.or_else(|| other.map(|path| Imported { path, config_path: None })))
}

/// The settings of a file; `None` if it does not exist.
fn read(host: &Host, path: &Path) -> anyhow::Result<Option<Table>> {
    if let Ok(metadata) = std::fs::metadata(host.path(path)?)
        && (!metadata.is_file() || metadata.len() > FILE_BYTES_MAX)
    {
        bail!("it is not a file of at most {FILE_BYTES_MAX} bytes");
    }
    let text = host.read(path)?;
    text.map(|text| text.parse().context("it is not valid TOML; correct it first")).transpose()
}

/// The paths that a file imports. A path is relative to the file, and `*` stands for any characters.
fn resolve(host: &Host, file: &Path, settings: &Table) -> anyhow::Result<Vec<PathBuf>> {
    let imports = settings.get("imports").and_then(Value::as_array);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut found = Vec::new();
    for import in imports.into_iter().flatten().filter_map(Value::as_str) {
        found.extend(expand(host, &folder.join(import))?);
    }
    Ok(found)
}

fn expand(host: &Host, pattern: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = vec![PathBuf::from("/")];
    let has_pattern = pattern.to_string_lossy().contains('*');
    for part in pattern.components() {
        let name = match part {
            Component::Normal(name) => name.to_string_lossy(),
            Component::ParentDir => {
                for path in &mut paths {
                    path.pop();
                }
                continue;
            }
            _ => continue,
        };
        if !has_pattern || !name.contains(['*', '?']) {
            paths.iter_mut().for_each(|path| path.push(&*name));
            continue;
        }
        let mut matching = Vec::new();
        for folder in paths {
            if !host.path(&folder)?.is_dir() {
                continue;
            }
            let names = host.list(&folder)?;
            let names = names.iter().filter(|one| matches(name.as_bytes(), one.as_bytes()));
            matching.extend(names.map(|one| folder.join(one)));
            if matching.len() > FILES_MAX {
                bail!(
                    "cannot read the imports {}: more than {FILES_MAX} files match; import fewer",
                    pattern.display()
                );
            }
        }
        paths = matching;
    }
    Ok(paths)
}

/// Whether a name has a pattern with `*` and `?`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut start) = (0, 0);
    // After the last `*`: its place, and the name from which it may take one more character.
    let mut star: Option<(usize, usize)> = None;
    while start < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, start));
                at += 1;
            }
            Some(one) if *one == b'?' || *one == name[start] => {
                at += 1;
                start += 1;
            }
            _ => match &mut star {
                Some((star_at, taken)) => {
                    *taken += 1;
                    (at, start) = (*star_at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|one| *one == b'*')
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("*.toml", "99-nvidia.toml", true),
            ("*.toml", ".toml", true),
            ("*.toml", "a.toml.bak", false),
            ("a*b*c", "axxbyybzzc", true),
            ("a*b*c", "axxbyyb", false),
            ("?.toml", "a.toml", true),
            ("?.toml", ".toml", false),
            ("**", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    /// A host with files, whose folder is removed at the end.
    struct TestHost {
        _root: TempDir,
        host: Host,
    }

    impl TestHost {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().unwrap();
            let host = Host::new(Some(root.path().to_owned())).unwrap();
            for (path, text) in files {
                host.write(Path::new(path), text, 0o644).unwrap();
            }
            TestHost { _root: root, host }
        }

        fn find(&self, text: &str) -> anyhow::Result<Option<Imported>> {
            find(&self.host, Path::new("/etc/containerd/config.toml"), text)
        }
    }

    const WITH_PATH: &str =
        "[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/a/certs.d'\n";
    const WITHOUT_PATH: &str =
        "[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n";

    #[test]
    fn the_path_of_an_imported_file_is_found() {
        let host = TestHost::new(&[
            ("/etc/containerd/conf.d/1.toml", WITH_PATH),
            ("/etc/containerd/conf.d/2.toml", WITHOUT_PATH),
            ("/etc/containerd/conf.d/3.toml", "imports = ['4.toml', '1.toml', '../config.toml']"),
            ("/etc/containerd/conf.d/4.toml", &WITH_PATH.replace("/a/", "/b/")),
            ("/etc/containerd/conf.d/5.bak", "not TOML"),
        ]);
        let found = |path: &str, config_path: Option<&str>| {
            Some(Imported { path: path.into(), config_path: config_path.map(str::to_owned) })
        };
        let last = found("/etc/containerd/conf.d/4.toml", Some("/b/certs.d"));
        for imports in
            ["conf.d/*.toml", "/etc/containerd/conf.d/*.toml", "/etc/con*/conf.d/?.toml*"]
        {
            assert_eq!(host.find(&format!("imports = ['{imports}']")).unwrap(), last, "{imports}");
        }
        let other = host.find("imports = ['/etc/containerd/../containerd/conf.d/2.toml']").unwrap();
        assert_eq!(other, found("/etc/containerd/conf.d/2.toml", None));
        for nothing in
            ["", "version = 2", "imports = []", "imports = ['none.toml', '/x/*/y']", "= 1"]
        {
            assert_eq!(host.find(nothing).unwrap(), None, "{nothing}");
        }
    }

    #[test]
    fn imports_that_cannot_be_read_are_an_error() {
        let many: Vec<_> = (0..=FILES_MAX).map(|one| (format!("/etc/many/{one}"), "")).collect();
        let mut files: Vec<_> = many.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        files.push(("/etc/bad.toml", "= 1"));
        let large = "#".repeat(FILE_BYTES_MAX as usize + 1);
        files.push(("/etc/large.toml", &large));
        let host = TestHost::new(&files);
        for (imports, expected) in [
            ("/etc/bad.toml", "not valid TOML"),
            ("/etc/large.toml", "not a file of at most"),
            ("/etc/many", "not a file of at most"),
            ("/etc/many/*", "more than 200 files"),
        ] {
            let error = host.find(&format!("imports = ['{imports}']")).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{imports}: {error:#}");
        }
    }
}
