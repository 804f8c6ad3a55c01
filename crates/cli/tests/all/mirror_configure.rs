//! `watchfire mirror configure` on the files of hosts in temporary folders.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{Scratch, WATCHFIRE, text};

const CONFIG: &str = "etc/containerd/config.toml";
const HOSTS: &str = "etc/containerd/certs.d/_default/hosts.toml";
const RECORD: &str = "etc/containerd/watchfire-mirror.undo.json";
const PODMAN: &str = "etc/containers/registries.conf.d/50-watchfire-mirror.conf";
/// The user `nobody`.
const NOBODY: u32 = 65534;
/// The settings of a Debian node, with a comment and an unusual space.
const DEBIAN: &str = "version = 2\n\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    [plugins.\"io.containerd.grpc.v1.cri\".cni]\n      bin_dir  = \"/usr/lib/cni\" # Debian's\n";

struct Root(Scratch);

impl Root {
    fn new() -> Root {
        Root(Scratch::new())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        self.0.file(name, text);
    }

    fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// All folders, and all files with their mode and text.
    fn snapshot(&self) -> BTreeMap<PathBuf, (u32, Option<String>)> {
        let mut found = BTreeMap::new();
        collect(&self.0, &mut found);
        found
    }

    fn command(&self, engine: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(WATCHFIRE);
        command.args(["mirror", "configure", engine]).args(arguments);
        command.arg("--root").arg(&*self.0).stdin(Stdio::null());
        command
    }

    fn configure(&self, engine: &str, arguments: &[&str]) -> Output {
        self.command(engine, arguments).output().expect("the program runs")
    }

    /// Runs the command, which succeeds; returns what it printed.
    #[track_caller]
    fn succeed(&self, engine: &str, arguments: &[&str]) -> String {
        let output = self.configure(engine, arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs the command, which fails and changes nothing; returns its error.
    #[track_caller]
    fn fail(&self, engine: &str, arguments: &[&str]) -> String {
        let before = self.snapshot();
        let output = self.configure(engine, arguments);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        assert_eq!(self.snapshot(), before);
        text(&output.stderr)
    }
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, (u32, Option<String>)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let mode = path.metadata().expect("metadata").permissions().mode();
        let is_folder = path.is_dir();
        let content = (!is_folder).then(|| fs::read_to_string(&path).expect("a text"));
        if is_folder {
            collect(&path, found);
        }
        found.insert(path, (mode, content));
    }
}

#[test]
fn a_fresh_host_gets_the_files_and_undo_removes_them_with_their_folders() {
    for (engine, files) in [("containerd", [CONFIG, HOSTS].as_slice()), ("podman", &[PODMAN])] {
        let root = Root::new();
        let shown = root.succeed(engine, &["--yes"]);
        assert!(shown.contains("estart"), "it says what to restart: {shown}");
        for file in files {
            root.read(file).parse::<toml::Table>().expect("TOML");
            assert!(
                shown.contains(&format!("--- /dev/null\n+++ {}\n@@", root.path(file).display())),
                "{shown}"
            );
        }
        let shown = root.succeed(engine, &["--undo", "--yes"]);
        assert!(shown.contains("+++ /dev/null\n"), "{shown}");
        assert_eq!(root.snapshot(), BTreeMap::new());
        let shown = root.succeed(engine, &["--undo", "--yes"]);
        assert!(shown.starts_with("Nothing to undo: "), "{shown}");
    }
}

#[test]
fn the_rest_of_an_existing_configuration_stays_and_undo_restores_it() {
    let root = Root::new();
    let own = "server = \"https://registry.example\"\n\n[host.\"https://other.example\"]\n  skip_verify = true\n";
    root.write(CONFIG, DEBIAN);
    root.write(HOSTS, own);
    fs::set_permissions(root.path(CONFIG), Permissions::from_mode(0o640)).unwrap();
    let before = root.snapshot();

    let shown = root.succeed("containerd", &["--yes", "--mirror", "http://127.0.0.1:5999"]);
    assert!(shown.contains("\n+    [plugins.") || shown.contains("\n+[plugins."), "{shown}");
    assert!(!shown.contains("\n-["), "nothing is removed: {shown}");
    assert!(shown.contains("systemctl restart containerd"), "{shown}");
    let config = root.read(CONFIG);
    assert!(config.starts_with(DEBIAN), "{config}");
    let mode = root.path(CONFIG).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(root.path(RECORD).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let hosts = root.read(HOSTS);
    assert!(hosts.find("http://127.0.0.1:5999") < hosts.find("https://other.example"), "{hosts}");
    for line in own.lines() {
        assert!(hosts.contains(line), "{hosts}");
    }

    root.succeed("containerd", &["--undo", "--yes"]);
    assert_eq!(root.snapshot(), before);
}

#[test]
fn a_second_run_changes_nothing_and_other_options_replace_the_first() {
    let root = Root::new();
    root.write(CONFIG, DEBIAN);
    let before = root.snapshot();
    root.succeed("containerd", &["--yes"]);
    let first = root.snapshot();
    // Without --yes and a terminal, only a run without changes succeeds.
    let shown = root.succeed("containerd", &[]);
    assert!(shown.starts_with("Nothing to change: "), "{shown}");
    assert_eq!(root.snapshot(), first);

    let shown =
        root.succeed("containerd", &["--yes", "--pull-only", "--mirror", "http://[::1]:6000"]);
    assert!(shown.contains("Nothing needs a restart"), "{shown}");
    let hosts: toml::Table = root.read(HOSTS).parse().unwrap();
    let hosts = hosts["host"].as_table().unwrap();
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["http://[::1]:6000"]);
    let names = hosts["http://[::1]:6000"]["capabilities"].as_array().unwrap();
    assert_eq!(names, &["pull".into()]);

    root.succeed("containerd", &["--undo", "--yes"]);
    assert_eq!(root.snapshot(), before);
}

#[test]
fn nothing_changes_without_a_terminal_and_without_yes() {
    let root = Root::new();
    root.write(CONFIG, DEBIAN);
    for engine in ["containerd", "podman"] {
        let error = root.fail(engine, &[]);
        assert!(error.contains("Nothing was changed; add --yes"), "{error}");
    }
    root.succeed("containerd", &["--yes"]);
    let error = root.fail("containerd", &["--undo"]);
    assert!(error.contains("Nothing was changed; add --yes"), "{error}");
}

#[test]
fn files_that_were_changed_since_are_not_overwritten() {
    let root = Root::new();
    root.write(CONFIG, DEBIAN);
    root.succeed("containerd", &["--yes"]);
    let ours = root.read(HOSTS);
    root.write(HOSTS, &format!("{ours}skip_verify = true\n"));
    let names = [root.path(HOSTS), root.path(RECORD)].map(|path| path.display().to_string());
    let cases: [&[&str]; 2] =
        [&["--undo", "--yes"], &["--yes", "--mirror", "http://127.0.0.1:6000"]];
    for arguments in cases {
        let error = root.fail("containerd", arguments);
        assert!(names.iter().all(|name| error.contains(name)), "{error}");
        assert!(error.contains("changed after `configure` wrote it"), "{error}");
    }
    // A run that needs no change of the file leaves the user's line in it.
    let shown = root.succeed("containerd", &[]);
    assert!(shown.starts_with("Nothing to change: "), "{shown}");

    // An operator who follows the advice can undo.
    root.write(HOSTS, &ours);
    root.succeed("containerd", &["--undo", "--yes"]);
    assert_eq!(root.read(CONFIG), DEBIAN);
    assert!(!root.path("etc/containerd/certs.d").exists());
}

#[test]
fn a_run_that_was_interrupted_can_be_repeated_or_undone() {
    let root = Root::new();
    root.write(CONFIG, DEBIAN);
    let before = root.snapshot();
    root.succeed("containerd", &["--yes"]);
    let configured = root.snapshot();
    // The record was written, and no other file.
    let interrupt = || {
        root.write(CONFIG, DEBIAN);
        fs::remove_dir_all(root.path("etc/containerd/certs.d")).unwrap();
    };
    interrupt();
    root.succeed("containerd", &["--yes"]);
    assert_eq!(root.snapshot(), configured);
    interrupt();
    let shown = root.succeed("containerd", &["--undo", "--yes"]);
    assert!(shown.starts_with("The files are as they were."), "{shown}");
    assert_eq!(root.snapshot(), before);
}

#[test]
fn undo_leaves_folders_with_files_of_others() {
    let root = Root::new();
    root.succeed("containerd", &["--yes"]);
    root.write("etc/containerd/certs.d/README", "of the user");
    root.write("etc/containerd/certs.d/ghcr.io/hosts.toml", "server = 'https://ghcr.io'\n");
    let shown = root.succeed("containerd", &["--yes"]);
    assert!(shown.contains("does not use the mirror for ghcr.io"), "{shown}");
    let shown = root.succeed("containerd", &["--undo", "--yes"]);
    assert!(shown.contains("certs.d stays, because it is not empty"), "{shown}");
    let files: Vec<_> =
        root.snapshot().into_iter().filter(|(_, (_, text))| text.is_some()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_and_nothing_changes() {
    let root = Root::new();
    root.write(CONFIG, DEBIAN);
    // The first file can be written, the second cannot.
    root.write("etc/containerd/certs.d/_default/other", "x");
    let set = |name: &str, mode: u32| {
        fs::set_permissions(root.path(name), Permissions::from_mode(mode)).unwrap();
    };
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        // Only its owner enters a temporary folder.
        set("", 0o755);
        for name in
            ["etc/containerd", CONFIG, "etc/containerd/certs.d", "etc/containerd/certs.d/_default"]
        {
            std::os::unix::fs::chown(root.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    for folder in ["etc/containerd", "etc/containerd/certs.d/_default"] {
        set(folder, 0o555);
        let before = root.snapshot();
        let mut command = root.command("containerd", &["--yes"]);
        if is_root {
            // Modes do not bind root.
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().expect("the program runs");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.starts_with("watchfire: cannot write"), "{error}");
        assert!(error.ends_with(". Nothing was changed\n"), "{error}");
        assert!(error.contains(root.path(folder).to_str().unwrap()), "{error}");
        assert!(error.contains("Permission denied"), "{error}");
        assert_eq!(root.snapshot(), before);
        set(folder, 0o755);
    }
}

#[test]
fn a_link_out_of_the_root_is_refused() {
    let root = Root::new();
    let outside = Root::new();
    fs::create_dir_all(root.path("etc")).unwrap();
    std::os::unix::fs::symlink(&*outside.0, root.path("etc/containerd")).unwrap();
    let error = root.fail("containerd", &["--yes"]);
    assert!(error.contains("etc/containerd: it is a symbolic link"), "{error}");
    assert_eq!(outside.snapshot(), BTreeMap::new());
}

#[test]
fn podman_gets_an_entry_for_each_registry_and_notes_an_entry_of_the_user() {
    let root = Root::new();
    root.write("etc/containers/registries.conf", "[[registry]]\nlocation = \"ghcr.io\"\n");
    let mut command =
        root.command("podman", &["--yes", "--registry", "docker.io", "--registry", "ghcr.io"]);
    // The variables of the mirror do not stand in the way of its commands.
    let output = command.env("WATCHFIRE_MIRROR_UPSTREAM", "docker.io").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("registries.conf has an entry for ghcr.io too"), "{shown}");
    let file: toml::Table = root.read(PODMAN).parse().unwrap();
    let locations: Vec<_> = file["registry"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["mirror"][0]["location"].as_str().unwrap())
        .collect();
    assert_eq!(locations, ["127.0.0.1:5000/docker.io", "127.0.0.1:5000/ghcr.io"]);
}

#[test]
fn an_invalid_argument_is_an_error_of_use() {
    let root = Root::new();
    for arguments in [
        ["--mirror", "127.0.0.1:5000"],
        ["--mirror", "http://127.0.0.1:5000/path"],
        ["--registry", "a\"b"],
        ["--registry", "https://ghcr.io"],
    ] {
        let output = root.configure("podman", &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let missing = root.path("missing");
    let output = Command::new(WATCHFIRE)
        .args(["mirror", "configure", "podman", "--yes", "--root"])
        .arg(&missing)
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("it is not a folder"), "{}", text(&output.stderr));
    assert!(!missing.exists());
}
