//! Nodes and agents on other hosts, over a real `sshd` on loopback.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use watchfire_testkit::{eventually, write_program};

use super::lab::TEXT as EXPERIMENT;
use super::support::{Listening, Scratch, killed_when, succeeded, text};

const SSHD: &str = "/usr/sbin/sshd";

/// An `sshd` with keys of its own, as the current user, on a free port of loopback.
struct Sshd {
    scratch: Scratch,
    process: Option<Child>,
    port: u16,
}

impl Sshd {
    fn start() -> Sshd {
        let scratch = Scratch::new();
        for key in ["host", "user"] {
            let file = scratch.join(key);
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&file);
            succeeded(keygen.output().expect("OpenSSH is installed"));
        }
        fs::copy(scratch.join("user.pub"), scratch.join("authorized")).unwrap();
        // Of the current user: everything that a host keeps is in this folder.
        fs::create_dir(scratch.join("tmp")).unwrap();
        // The port is free once this listener is dropped; no other program asks for this number.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = scratch.display();
        scratch.file(
            "sshd_config",
            format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nPidFile none\n\
                 AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nMaxStartups 100\nSetEnv TMPDIR={folder}/tmp\n"
            ),
        );
        let host_key = fs::read_to_string(scratch.join("host.pub")).unwrap();
        scratch.file("known", format!("[127.0.0.1]:{port} {host_key}"));
        scratch.file(
            "config",
            format!(
                "Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n  \
                 IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known\n  \
                 GlobalKnownHostsFile /dev/null\n"
            ),
        );
        scratch.file("hosts", "one\ntwo\n");
        scratch.file("one.toml", EXPERIMENT);
        let mut sshd = Sshd { scratch, process: None, port };
        sshd.run();
        sshd
    }

    fn run(&mut self) {
        // As root, sshd needs a folder to separate privileges.
        let _ = fs::create_dir_all("/run/sshd");
        let log = fs::File::create(self.scratch.join("sshd.log")).unwrap();
        let mut sshd = Command::new(SSHD);
        sshd.args(["-D", "-e", "-f"]).arg(self.scratch.join("sshd_config")).stderr(log);
        self.process = Some(sshd.spawn().expect("openssh-server is installed"));
        let port = self.port;
        eventually("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    fn lab(&self, arguments: &[&str]) -> Command {
        let run = ["lab", "run", "one.toml", "--driver", "ssh", "--ssh-config", "config"];
        self.scratch.command(&[&run, arguments].concat())
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.lab(arguments).output().unwrap()
    }

    fn results(&self) -> Vec<Value> {
        self.scratch.json("out.json")["runs"].as_array().unwrap().clone()
    }

    /// The folders of the lab on the host.
    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.scratch.join("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The processes with a folder of this host in their environment, of which the lab has the mark.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("LAB_FOLDER_OF_WATCHFIRE={}", self.scratch.join("tmp").display());
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let is_marked = |folder: &Path| {
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one.starts_with(mark.as_bytes()))
        };
        let marked = processes.filter(|process| is_marked(&process.path()));
        marked.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
    }

    fn assert_clean(&self) {
        assert_eq!((self.left(), self.processes()), (Vec::new(), Vec::new()));
    }

    fn wait_until_clean(&self) {
        eventually("the host is clean", || self.left().is_empty() && self.processes().is_empty());
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        if let Some(mut sshd) = self.process.take() {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
    }
}

#[test]
#[ignore = "needs an SSH server: `make rust-test` runs it where one is"]
fn nodes_of_all_hosts_get_the_object_and_nothing_is_left_there() {
    let sshd = Sshd::start();
    let output = sshd.output(&["--hosts", "hosts", "--repeat", "2", "--json", "out.json"]);
    assert!(output.status.success(), "{output:?}");
    for run in sshd.results() {
        assert_eq!(run["driver"], "ssh");
        for node in &run["nodes"].as_array().unwrap()[1..] {
            assert!(node["finished_at"].as_f64().unwrap() > 0.0, "{node}");
            assert!(node["received_bytes"].as_u64().unwrap() >= 2 << 20, "{node}");
            assert!(node["peak_memory_bytes"].as_u64().unwrap() > 1 << 20, "{node}");
            assert!(node["cpu_seconds"].as_f64().unwrap() > 0.0, "{node}");
        }
    }
    sshd.assert_clean();

    // The same hosts from a program, and from the experiment.
    write_program(sshd.scratch.join("provision"), "#!/bin/sh\necho one\n");
    succeeded(sshd.output(&["--hosts-from", "./provision"]));
    sshd.scratch.file("one.toml", format!("hosts = ['two 127.0.0.1']\n{EXPERIMENT}"));
    succeeded(sshd.output(&[]));
    sshd.assert_clean();
}

#[test]
#[ignore = "needs an SSH server: `make rust-test` runs it where one is"]
fn a_killed_lab_leaves_nothing_on_its_hosts() {
    let sshd = Sshd::start();
    // The peers wait for an object that nobody has any more.
    let waiting = EXPERIMENT.replace(
        "time_max",
        "faults = [{ at = \"0s\", nodes = \"source\", kill = true }]\ntime_max",
    );
    sshd.scratch.file("one.toml", waiting);
    let mut lab = sshd.lab(&["--hosts", "hosts"]);
    killed_when("the nodes run", &mut lab, || sshd.processes().len() >= 3);
    // The ssh of the lab has no reader of its output; the guard's input ended with the lab.
    sshd.wait_until_clean();
    succeeded(sshd.scratch.command(&["lab", "check", "one.toml"]).output().unwrap());
    assert_eq!(fs::read_dir(sshd.scratch.join("cache/watchfire/lab/runs")).unwrap().count(), 0);
}

#[test]
#[ignore = "needs an SSH server: `make rust-test` runs it where one is"]
fn a_host_that_vanishes_ends_its_nodes_and_the_others_go_on() {
    let sshd = Sshd::start();
    let other = Sshd::start();
    // The second host is that of another sshd. Its node never gets the object: nobody sends it in time.
    let config = |sshd: &Sshd, name: &str| {
        let text = fs::read_to_string(sshd.scratch.join("config")).unwrap();
        text.replace("Host *", &format!("Host {name}"))
    };
    sshd.scratch.file("config", config(&sshd, "one") + &config(&other, "two"));
    let experiment = r#"
        [peers.slow]
        implementation = "program"
        settings = { seed = "true", fetch = "sleep 600" }
        [clusters.c]
        groups = [{ name = "source" }, { name = "lost", peer = "slow" }, { name = "peer" }]
        [scenarios.s]
        objects.file = { random = "1MiB" }
        seed = { source = "file" }
        fetch = { "(not 'source')" = "file" }
        time_max = "60s"
    "#;
    sshd.scratch.file("one.toml", experiment);
    let mut lab = sshd.lab(&["--hosts", "hosts", "--json", "out.json"]);
    let lab = lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the node runs", || !other.processes().is_empty());
    end_connections(other.process.as_ref().unwrap().id());
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("lost: two did not do what it should: the connection broke"), "{error}");
    let nodes = sshd.results()[0]["nodes"].as_array().unwrap().clone();
    assert!(nodes[2]["finished_at"].as_f64().is_some(), "{nodes:?}");
    sshd.assert_clean();
    other.wait_until_clean();
}

/// Ends the processes of an sshd that serve a connection, as a broken network does.
fn end_connections(sshd: u32) {
    let children = Command::new("pgrep").args(["-P", &sshd.to_string()]).output().unwrap();
    for child in text(&children.stdout).split_whitespace() {
        succeeded(Command::new("kill").args(["-9", child]).output().unwrap());
    }
}

#[test]
#[ignore = "needs an SSH server: `make rust-test` runs it where one is"]
fn a_host_that_cannot_be_used_is_named_with_the_reason() {
    let sshd = Sshd::start();
    let fails = |name: &str| {
        let output = sshd.output(&["--hosts", "hosts"]);
        assert!(!output.status.success(), "{name}: {output:?}");
        sshd.assert_clean();
        text(&output.stderr)
    };
    // A program of another machine.
    let mut foreign = vec![0_u8; 64];
    foreign[..6].copy_from_slice(b"\x7fELF\x02\x01");
    foreign[18] = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    fs::write(sshd.scratch.join("foreign"), foreign).unwrap();
    let peer = "[peers.watchfire]\nbuild = { path = 'foreign' }\n";
    sshd.scratch.file("one.toml", format!("{EXPERIMENT}{peer}"));
    let error = fails("another architecture");
    let problem = "it is a program for ";
    assert!(error.contains("foreign on one: ") && error.contains(problem), "{error}");
    sshd.scratch.file("one.toml", EXPERIMENT);

    // A disk without room: the host allows files of 64 KiB.
    sshd.scratch.file("small.sh", "#!/bin/sh\nulimit -f 128\neval \"$SSH_ORIGINAL_COMMAND\"\n");
    let key = fs::read_to_string(sshd.scratch.join("user.pub")).unwrap();
    let script = sshd.scratch.join("small.sh");
    let script = script.display();
    sshd.scratch.file("authorized", format!("command=\"/bin/sh {script}\" {key}"));
    let error = fails("a full disk");
    assert!(error.contains("cannot copy ") && error.contains(" to one: "), "{error}");

    // A key that the host does not accept, a key of the host that changed, and one that is not known.
    sshd.scratch.file("authorized", "");
    let error = fails("no key");
    assert!(error.contains("cannot connect to one: it accepts none of your keys"), "{error}");
    let known = format!("[127.0.0.1]:{} {key}", sshd.port);
    sshd.scratch.file("known", known);
    let error = fails("a changed key");
    assert!(error.contains("its host key is not the one that is known"), "{error}");
    sshd.scratch.file("known", "");
    let error = fails("an unknown key");
    assert!(error.contains("its host key is not known; connect once with ssh"), "{error}");
}

#[test]
#[ignore = "needs an SSH server: `make rust-test` runs it where one is"]
fn agents_of_a_load_start_on_hosts_and_end_with_it() {
    let sshd = Sshd::start();
    let server = Listening::start(&["serve", "--set", "channels.open_rooms=true"]);
    let scenario = r#"
        [[phases]]
        duration = "500ms"
        rate = 40
        [[sessions]]
        steps = [
          { connect = { path = "/socket/websocket?vsn=2.0.0" } },
          { join = { topic = "rooms:${user}" } },
        ]
        [thresholds]
        errors_max = 0
        missing_users_max = 0
        steps.join.count_min = 20
    "#;
    sshd.scratch.file("load.toml", scenario);
    let url = server.url();
    let load = ["load", "load.toml", "--to", &url, "--hosts", "hosts", "--ssh-config"];
    let output = sshd.scratch.command(&[&load[..], &["config"]].concat()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    sshd.assert_clean();
}
