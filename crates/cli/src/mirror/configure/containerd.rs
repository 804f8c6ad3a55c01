//! The files of containerd: `config.toml` of the daemon, and `hosts.toml` of its registries.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};
use watchfire_mirror::upstream::Registry;

use super::Plan;
use super::host::Host;
use super::imports::{self, Imported};

pub(super) const CONFIG: &str = "/etc/containerd/config.toml";
const CERTS: &str = "/etc/containerd/certs.d";
/// containerd dials a mirror for this long before it asks the registry itself. 1.6 to 2.0 ignore the key.
const DIAL_TIMEOUT: &str = "200ms";
const HOSTS_HEAD: &str =
    "# Written by `watchfire mirror configure containerd`; `--undo` removes it.\n";

/// The files for pulls through `mirror`. `base` has the texts of files without earlier changes.
pub(super) fn plan(
    host: &Host,
    base: &dyn Fn(&Path) -> anyhow::Result<Option<String>>,
    mirror: &Registry,
    pull_only: bool,
) -> anyhow::Result<Plan> {
    let mut plan = Plan::default();
    let config = Path::new(CONFIG);
    let text = base(config)?;
    let edited = edit_config(text.as_deref()).with_context(|| {
        let shown = host.path(config).unwrap_or_else(|_| config.to_owned());
        format!("cannot change {}", shown.display())
    })?;
    let imported = imports::find(host, config, text.as_deref().unwrap_or(""))?;
    let edited = edited.after_imports(imported)?;
    plan.notes.extend(edited.note);
    // Without an edit the base is wanted: an earlier `configure` may have changed the file.
    if let Some(text) = edited.text.or(text) {
        plan.files.push((config.to_owned(), text));
    }
    let hosts = edited.certs.join("_default/hosts.toml");
    let text =
        edit_hosts(base(&hosts)?.as_deref(), mirror.base_url(), pull_only).with_context(|| {
            let shown = host.path(&hosts).unwrap_or_else(|_| hosts.clone());
            format!("cannot change {}", shown.display())
        })?;
    plan.files.push((hosts, text));
    for name in host.list(&edited.certs)? {
        let own = edited.certs.join(&name).join("hosts.toml");
        if name != "_default" && host.read(&own)?.is_some() {
            plan.notes.push(format!(
                "{} stays as it is, so containerd does not use the mirror for {name}.",
                host.path(&own)?.display()
            ));
        }
    }
    Ok(plan)
}

/// The outcome of looking for `config_path`.
struct Edited {
    /// The new text; `None` if the file can stay.
    text: Option<String>,
    /// The folder of the files `hosts.toml`.
    certs: PathBuf,
    note: Option<String>,
}

impl Edited {
    /// The outcome with the imported file that decides: `config_path` is not set twice.
    fn after_imports(mut self, imported: Option<Imported>) -> anyhow::Result<Edited> {
        let Some(Imported { path, config_path }) = imported else { return Ok(self) };
        let path = path.display();
        if let Some(paths) = config_path {
            let certs = first_folder(&paths).with_context(|| format!("cannot use {path}"))?;
            let note = format!("{path} sets config_path, so {CONFIG} stays as it is.");
            return Ok(Edited { text: None, certs: certs.into(), note: Some(note) });
        }
        let added = self.text.is_some().then(|| {
            format!(
                "{path} has settings of the CRI plugin too. containerd 1 reads only those, so add config_path = \"{CERTS}\" to its registry settings there; containerd 2 joins both files."
            )
        });
        self.note = self.note.or(added);
        Ok(self)
    }
}

/// The first folder of `config_path`.
fn first_folder(paths: &str) -> anyhow::Result<&str> {
    let first = paths.split(':').next().unwrap_or_default();
    if !first.starts_with('/') {
        bail!("config_path = {paths:?} does not start with an absolute path; set it to {CERTS:?}");
    }
    Ok(first)
}

/// Adds `config_path` to the settings of the CRI plugin, unless it is there.
fn edit_config(text: Option<&str>) -> anyhow::Result<Edited> {
    let kept = |certs: &str, note: Option<String>| Edited { text: None, certs: certs.into(), note };
    let text = text.unwrap_or("");
    let mut config: DocumentMut = text.parse().context("it is not valid TOML; correct it first")?;
    let version = config.get("version").map_or(Some(1), Item::as_integer);
    let plugin = match version {
        Some(1) if config.is_empty() => {
            // All versions of containerd from 1.2 read this layout.
            let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            let text = format!(
                "{text}{end}{gap}version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"{CERTS}\"\n"
            );
            return Ok(Edited { text: Some(text), certs: CERTS.into(), note: None });
        }
        Some(1) => "cri",
        Some(2) => "io.containerd.grpc.v1.cri",
        // 4 has the layout of 3.
        Some(3 | 4) => "io.containerd.cri.v1.images",
        _ => {
            let version = config.get("version").map_or(String::new(), |item| item.to_string());
            bail!(
                "its version is{version}, and this program knows 2 to 4. Set config_path = \"{CERTS}\" of the CRI plugin yourself"
            )
        }
    };
    let disabled = config.get("disabled_plugins").and_then(Item::as_array);
    let is_disabled =
        |name: &str| disabled.is_some_and(|list| list.iter().any(|one| one.as_str() == Some(name)));
    if [plugin, "cri", "io.containerd.grpc.v1.cri"].into_iter().any(is_disabled) {
        let note = format!(
            "{CONFIG} turns the CRI plugin off, so it stays as it is. nerdctl reads {CERTS} without it."
        );
        return Ok(kept(CERTS, Some(note)));
    }
    if version == Some(1) {
        bail!(
            "it has the layout of version 1. Convert it with `containerd config migrate` of containerd 2, or by hand to `version = 2`, and run the command again"
        );
    }
    let mut table: &mut dyn TableLike = config.as_table_mut();
    for key in ["plugins", plugin, "registry"] {
        table = subtable(table, key)?;
    }
    if let Some(key) = obstacle(table) {
        bail!(
            "containerd does not accept config_path beside {key} of the CRI plugin. Move {key} to files {CERTS}/<registry>/hosts.toml, remove it, and run the command again"
        );
    }
    match table.get("config_path").map(Item::as_str) {
        Some(Some("")) | None => {}
        Some(Some(paths)) => return Ok(kept(first_folder(paths)?, None)),
        Some(None) => bail!("config_path of the CRI plugin is not a text; set it to {CERTS:?}"),
    }
    match table.get_mut("config_path").and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = CERTS.into();
            *old.decor_mut() = decor;
        }
        None => {
            table.insert("config_path", value(CERTS));
        }
    }
    Ok(Edited { text: Some(printed(text, &config)?), certs: CERTS.into(), note: None })
}

/// The edited text. Nothing else in it differs from the old one.
fn printed(old: &str, edited: &DocumentMut) -> anyhow::Result<String> {
    let has_crlf = old.contains("\r\n");
    let print = |document: &DocumentMut| match has_crlf {
        true => document.to_string().replace("\r\n", "\n").replace('\n', "\r\n"),
        false => document.to_string(),
    };
    let unedited: DocumentMut = old.parse().context("it is not valid TOML; correct it first")?;
    // The printer writes all line ends alike, and ends the last line.
    if print(&unedited).trim_end() != old.trim_end() {
        bail!(
            "an edit would change other lines of it. Give all lines the same line end, and remove a byte order mark"
        );
    }
    Ok(print(edited))
}

/// A table in a table. It is created if it does not exist.
fn subtable<'a>(table: &'a mut dyn TableLike, key: &str) -> anyhow::Result<&'a mut dyn TableLike> {
    let new = || {
        let mut new = Table::new();
        // It has no header of its own while only other tables are in it.
        new.set_implicit(true);
        Item::Table(new)
    };
    let found = table.entry(key).or_insert_with(new);
    found.as_table_like_mut().with_context(|| format!("{key:?} is not a table; correct it first"))
}

/// A setting that excludes `config_path`.
fn obstacle(registry: &dyn TableLike) -> Option<&'static str> {
    let table = |key: &str| registry.get(key).and_then(Item::as_table_like);
    if table("mirrors").is_some_and(|mirrors| !mirrors.is_empty()) {
        return Some("registry.mirrors");
    }
    let has_tls = |(_, one): (&str, &Item)| one.get("tls").is_some();
    let has_any = table("configs").is_some_and(|configs| configs.iter().any(has_tls));
    has_any.then_some("registry.configs.*.tls")
}

/// Adds the mirror as the first host; the others stay.
fn edit_hosts(text: Option<&str>, mirror: &str, pull_only: bool) -> anyhow::Result<String> {
    let mut hosts: DocumentMut =
        text.unwrap_or(HOSTS_HEAD).parse().context("it is not valid TOML; correct it first")?;
    let table = subtable(hosts.as_table_mut(), "host")?;
    let new = || {
        let mut new = Table::new();
        // containerd tries the hosts in the order of the file.
        new.set_position(Some(-1));
        Item::Table(new)
    };
    let entry = table.entry(mirror).or_insert_with(new);
    let entry = entry
        .as_table_like_mut()
        .with_context(|| format!("host.{mirror:?} is not a table; correct it first"))?;
    let names: &[&str] = if pull_only { &["pull"] } else { &["pull", "resolve"] };
    let has_names =
        |list: &Array| list.iter().map(|one| one.as_str()).eq(names.iter().map(|one| Some(*one)));
    if !entry.get("capabilities").and_then(Item::as_array).is_some_and(has_names) {
        entry.insert("capabilities", value(names.iter().copied().collect::<Array>()));
    }
    if entry.get("dial_timeout").is_none() {
        entry.insert("dial_timeout", value(DIAL_TIMEOUT));
    }
    // A comment without a key is after all keys, so the head would follow the table.
    match text {
        Some(text) => printed(text, &hosts),
        None => {
            hosts.set_trailing("");
            Ok(format!("{HOSTS_HEAD}{hosts}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "[plugins.\"io.containerd.grpc.v1.cri\"";
    const V3: &str = "[plugins.'io.containerd.cri.v1.images'";

    fn edited(text: &str) -> String {
        edit_config(Some(text)).unwrap().text.expect("a new text")
    }

    /// `new` is `old` with some lines added.
    #[track_caller]
    fn assert_only_adds(old: &str, new: &str, added: &[&str]) {
        let mut lines = new.split_inclusive('\n');
        for line in old.split_inclusive('\n') {
            assert!(
                lines.by_ref().any(|one| one == line),
                "{line:?} is missing in order in\n{new}"
            );
        }
        let count =
            |text: &str| text.split_inclusive('\n').filter(|one| !one.trim().is_empty()).count();
        assert_eq!(count(new), count(old) + added.len(), "{new}");
        for line in added {
            assert!(new.lines().any(|one| one == *line), "{line:?} is missing in\n{new}");
        }
    }

    const PATH: &str = "config_path = \"/etc/containerd/certs.d\"";

    #[test]
    fn the_path_is_added_and_every_other_byte_stays() {
        let v2 = format!(
            "version  =  2   # the layout\n\n# cri\n{V2}]\n\tsandbox_image = 'a'\n\n  {V2}.cni]\n  bin_dir = \"/x\"\n\n[debug]\n  level='info'\n"
        );
        let header = format!("{V2}.registry]");
        assert_only_adds(&v2, &edited(&v2), &[&header, PATH]);
        let registry = format!(
            "version = 2\n{V2}.registry]\n  # nothing\n{V2}.registry.configs.\"a\".auth]\nusername='u'\n"
        );
        assert_only_adds(&registry, &edited(&registry), &[PATH]);
        let crlf = v2.replace('\n', "\r\n");
        assert_only_adds(&crlf, &edited(&crlf), &[&header, PATH]);
        let cut = v2.trim_end();
        assert_only_adds(&v2, &edited(cut), &[&header, PATH]);
        assert!(
            edit_config(Some(&v2.replacen('\n', "\r\n", 1))).is_err(),
            "line ends of two kinds"
        );
        let v3 = format!(
            "version = 3\nroot = '/x'\n{V3}]\nsnapshotter = 'overlayfs'\n\n[plugins.'io.containerd.cri.v1.runtime']\nx = 1\n"
        );
        let new = edited(&v3);
        assert_eq!(new.lines().count(), v3.lines().count() + 3, "{new}");
        assert!(new.contains(PATH), "{new}");
        let value: toml::Table = new.parse().unwrap();
        let found = &value["plugins"]["io.containerd.cri.v1.images"]["registry"]["config_path"];
        assert_eq!(found.as_str(), Some(CERTS));
    }

    #[test]
    fn an_empty_path_is_replaced_and_a_set_one_stays() {
        let empty = format!("version = 3\n{V3}.registry]\n  config_path = '' # none\n  x = 1\n");
        assert_eq!(edited(&empty), empty.replace("''", "\"/etc/containerd/certs.d\""));
        let set = format!("version = 3\n{V3}.registry]\nconfig_path = '/a/certs:/b'\n");
        let found = edit_config(Some(&set)).unwrap();
        assert_eq!((found.text, found.certs), (None, "/a/certs".into()));
    }

    #[test]
    fn a_file_without_settings_gets_the_layout_that_all_versions_read() {
        for text in [None, Some(""), Some("# empty"), Some("# empty\n\n")] {
            let new = edit_config(text).unwrap().text.unwrap();
            assert!(new.starts_with(text.unwrap_or("")), "{new}");
            let value: toml::Table = new.parse().unwrap();
            assert_eq!(value["version"].as_integer(), Some(2));
            let registry = &value["plugins"]["io.containerd.grpc.v1.cri"]["registry"];
            assert_eq!(registry["config_path"].as_str(), Some(CERTS));
        }
    }

    #[test]
    fn a_layout_that_cannot_be_changed_is_an_error_that_says_what_to_do() {
        let cases = [
            ("root = '/x'\n".to_owned(), "layout of version 1"),
            ("version = 9\n".to_owned(), "knows 2 to 4"),
            ("version = \n".to_owned(), "not valid TOML"),
            (
                format!("version = 2\n{V2}.registry.mirrors.\"docker.io\"]\nendpoint=[]\n"),
                "registry.mirrors",
            ),
            (
                format!("version = 2\n{V2}.registry.configs.a.tls]\nca_file='x'\n"),
                "registry.configs.*.tls",
            ),
            ("version = 2\nplugins = 1\n".to_owned(), "\"plugins\" is not a table"),
            (format!("version = 2\n{V2}.registry]\nconfig_path = 'certs.d'\n"), "absolute path"),
        ];
        for (text, expected) in cases {
            let error = edit_config(Some(&text)).err().expect(&text);
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
        // An empty table, as `containerd config default` writes it, is no obstacle.
        edited(&format!("version = 2\n{V2}.registry]\n{V2}.registry.mirrors]\n"));
    }

    #[test]
    fn a_daemon_without_the_cri_plugin_keeps_its_settings() {
        let docker = "disabled_plugins = [\"cri\"]\n#root = \"/x\"\n";
        let found = edit_config(Some(docker)).unwrap();
        assert_eq!(found.text, None);
        assert!(found.note.unwrap().contains("CRI plugin off"));
    }

    #[test]
    fn the_mirror_is_the_first_host_and_the_others_stay() {
        let new = edit_hosts(None, "http://127.0.0.1:5000", false).unwrap();
        assert_eq!(
            new,
            "# Written by `watchfire mirror configure containerd`; `--undo` removes it.\n\
             [host.\"http://127.0.0.1:5000\"]\ncapabilities = [\"pull\", \"resolve\"]\ndial_timeout = \"200ms\"\n"
        );
        let own = "# mine\nserver = \"https://a\"\n\n# the first\n[host.\"https://b\"]\n  skip_verify = true\n[host.\"https://c\".header]\n  x = 'y'\n";
        let new = edit_hosts(Some(own), "http://127.0.0.1:5000", true).unwrap();
        let added = [
            "[host.\"http://127.0.0.1:5000\"]",
            "capabilities = [\"pull\"]",
            "dial_timeout = \"200ms\"",
        ];
        assert_only_adds(own, &new, &added);
        assert!(new.find("127.0.0.1:5000") < new.find("https://b"), "{new}");
        let again = edit_hosts(Some(&new), "http://127.0.0.1:5000", true).unwrap();
        assert_eq!(again, new);
        let both = edit_hosts(Some(&new), "http://127.0.0.1:5000", false).unwrap();
        assert_eq!(both, new.replace("[\"pull\"]", "[\"pull\", \"resolve\"]"));
        assert!(edit_hosts(Some("host = 1"), "http://a", false).is_err());
    }
}
