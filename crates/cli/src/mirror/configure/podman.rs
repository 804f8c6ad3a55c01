//! The file of Podman, Buildah and Skopeo: a part of `registries.conf`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::bail;
use watchfire_mirror::oci::Repository;
use watchfire_mirror::upstream::Registry;

use super::Plan;
use super::host::Host;

const FILE: &str = "/etc/containers/registries.conf.d/50-watchfire-mirror.conf";
const MAIN: &str = "/etc/containers/registries.conf";
const PARTS: &str = "/etc/containers/registries.conf.d";
const HEAD: &str = "# Written by `watchfire mirror configure podman`; `--undo` removes it.\n";

/// The file for pulls from these registries through `mirror`.
pub(super) fn plan(
    host: &Host,
    mirror: &Registry,
    registries: &[Registry],
) -> anyhow::Result<Plan> {
    let names: Vec<&str> = registries.iter().map(Registry::name).collect();
    let mut plan = Plan::default();
    plan.files.push((FILE.into(), text(mirror, &names)?));
    if !names.iter().all(|name| is_path(name)) {
        plan.notes.push(format!(
            "the mirror must have {} as its first --upstream, because a path cannot contain its port.",
            names[0]
        ));
    }
    let parts = host.list(Path::new(PARTS))?;
    let parts = parts.iter().filter(|name| name.ends_with(".conf"));
    let files = parts.map(|name| format!("{PARTS}/{name}")).filter(|path| path != FILE);
    for path in files.chain([MAIN.to_owned()]) {
        let Some(text) = host.read(Path::new(&path))? else { continue };
        for name in names.iter().filter(|name| sets(&text, name)) {
            plan.notes.push(format!(
                "{path} has an entry for {name} too. Of two entries for a registry, podman uses the one that it reads last: the files of {PARTS} follow {MAIN} in the order of their names."
            ));
        }
    }
    Ok(plan)
}

fn text(mirror: &Registry, names: &[&str]) -> anyhow::Result<String> {
    let (scheme, address) = mirror.base_url().split_once("://").unwrap_or(("http", mirror.name()));
    let mut text = HEAD.to_owned();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            bail!("cannot configure {name} twice: name it once with --registry");
        }
        // The path names the registry, because these clients do not. A request without it goes to the
        // first registry of the mirror, which may be another one.
        let location = match (is_path(name), index) {
            (true, _) => format!("{address}/{name}"),
            (false, 0) => address.to_owned(),
            (false, _) => bail!(
                "cannot configure --registry {name}: the path of a request names the registry, and it cannot contain a port or an upper-case letter. Name this registry first, and give it to the mirror as its first --upstream"
            ),
        };
        let _ = write!(
            text,
            "[[registry]]\nprefix = \"{name}\"\nlocation = \"{name}\"\n\n[[registry.mirror]]\nlocation = \"{location}\"\n"
        );
        if scheme == "http" {
            text.push_str("insecure = true\n");
        }
        if index + 1 < names.len() {
            text.push('\n');
        }
    }
    Ok(text)
}

/// Whether a registry's name can be the first part of a path.
fn is_path(name: &str) -> bool {
    name.parse::<Repository>().is_ok()
}

/// Whether a part of `registries.conf` has an entry for this registry.
fn sets(text: &str, name: &str) -> bool {
    let Ok(table) = text.parse::<toml::Table>() else { return false };
    let entries = table.get("registry").and_then(toml::Value::as_array);
    let of = |entry: &toml::Value| {
        let key = entry.get("prefix").or_else(|| entry.get("location"));
        key.and_then(toml::Value::as_str) == Some(name)
    };
    entries.is_some_and(|entries| entries.iter().any(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_registry_has_its_path_on_the_mirror() {
        let mirror: Registry = "http://127.0.0.1:5000".parse().unwrap();
        let found: toml::Table = text(&mirror, &["docker.io", "ghcr.io"]).unwrap().parse().unwrap();
        let expected: toml::Table = "[[registry]]\nprefix='docker.io'\nlocation='docker.io'\n\
             [[registry.mirror]]\nlocation='127.0.0.1:5000/docker.io'\ninsecure=true\n\
             [[registry]]\nprefix='ghcr.io'\nlocation='ghcr.io'\n\
             [[registry.mirror]]\nlocation='127.0.0.1:5000/ghcr.io'\ninsecure=true\n"
            .parse()
            .unwrap();
        assert_eq!(found, expected);
        let secure: Registry = "https://mirror.example".parse().unwrap();
        assert!(!text(&secure, &["docker.io"]).unwrap().contains("insecure"));
    }

    #[test]
    fn a_registry_with_a_port_must_be_the_first() {
        let mirror: Registry = "http://127.0.0.1:5000".parse().unwrap();
        let port = "registry.example:8443";
        assert!(text(&mirror, &[port]).unwrap().contains("location = \"127.0.0.1:5000\"\n"));
        let error = text(&mirror, &["docker.io", port]).unwrap_err().to_string();
        assert!(error.contains("cannot configure --registry registry.example:8443"), "{error}");
        assert!(text(&mirror, &["docker.io", "docker.io"]).is_err());
    }
}
