use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use crate::parent_death_guard::guarded_command;
use crate::scale::orders::Wire;
use watchfire_report::Colour;

/// The first part of topics with a history.
pub const KEPT: &str = "kept";

/// The version that `make` builds. A program that Go installs does not know its own.
pub const CENTRIFUGO_VERSION: &str = "v6.9.1";

/// The compared systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// `watchfire serve` with `cluster.nats`.
    Watchfire,
    /// Centrifugo with its Redis engine.
    CentrifugoRedis,
}

/// The program that carries messages between machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Nats,
    Redis,
}

/// The paths of all programs.
pub struct Programs {
    pub watchfire: PathBuf,
    pub centrifugo: PathBuf,
    pub nats_server: PathBuf,
    pub redis_server: PathBuf,
    /// Folder for logs and configuration files.
    pub out: PathBuf,
}

impl Engine {
    pub const fn port(self) -> u16 {
        match self {
            Engine::Nats => 4_222,
            Engine::Redis => 6_379,
        }
    }

    pub fn command(self, programs: &Programs) -> Result<Command> {
        let port = self.port().to_string();
        Ok(match self {
            Engine::Nats => {
                let mut command = guarded_command(&programs.nats_server)?;
                command.args(["-a", "127.0.0.1", "-p", &port, "-js", "-sd"]);
                // Streams in memory write nothing there.
                command.arg(std::env::temp_dir().join("watchfire-bench-nats"));
                command
            }
            // Nothing is written to disk.
            Engine::Redis => {
                let mut command = guarded_command(&programs.redis_server)?;
                command.args(["--bind", "127.0.0.1", "--port", &port]);
                command.args(["--save", "", "--appendonly", "no"]);
                command
            }
        })
    }
}

impl System {
    /// Its name on the command line and in JSON.
    pub fn key(self) -> String {
        self.to_possible_value().expect("no system is hidden").get_name().to_owned()
    }

    pub const fn engine(self) -> Engine {
        match self {
            System::Watchfire => Engine::Nats,
            System::CentrifugoRedis => Engine::Redis,
        }
    }

    pub const fn wire(self) -> Wire {
        match self {
            System::Watchfire => Wire::Phoenix,
            System::CentrifugoRedis => Wire::Centrifugo,
        }
    }

    pub const fn colour(self) -> Colour {
        match self {
            System::Watchfire => Colour::Orange,
            System::CentrifugoRedis => Colour::Purple,
        }
    }

    /// The command of one machine.
    pub fn command(self, programs: &Programs, address: SocketAddr) -> Result<Command> {
        let port = address.port().to_string();
        match self {
            System::Watchfire => {
                let nats = format!(r#"cluster.nats=["nats://127.0.0.1:{}"]"#, Engine::Nats.port());
                watchfire(programs, address, &["--set", &nats])
            }
            System::CentrifugoRedis => {
                let file = programs.out.join(format!("{}-{port}.json", self.key()));
                std::fs::write(&file, self.centrifugo_settings(address).to_string())
                    .with_context(|| format!("cannot write {}", file.display()))?;
                let mut command = guarded_command(&programs.centrifugo)?;
                command.arg("--config").arg(file);
                Ok(command)
            }
        }
    }

    fn centrifugo_settings(self, address: SocketAddr) -> serde_json::Value {
        let redis = format!("redis://127.0.0.1:{}", Engine::Redis.port());
        serde_json::json!({
            "http_server": { "address": address.ip().to_string(), "port": address.port() },
            "log": { "level": "error" },
            "usage_stats": { "disabled": true },
            "client": {
                "allow_anonymous_connect_without_token": true,
                // No ping falls into a measurement this way.
                "ping_interval": "600s", "pong_timeout": "60s",
            },
            "channel": { "namespaces": [{
                "name": KEPT,
                "allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true,
                "allow_publish_for_subscriber": true, "allow_publish_for_anonymous": true,
                "history_size": 1_000, "history_ttl": "120s", "force_recovery": true,
            }] },
            "engine": { "type": "redis", "redis": { "address": [redis] } },
        })
    }
}

/// The command of `watchfire serve` with topics that have a history.
pub fn watchfire(programs: &Programs, address: SocketAddr, more: &[&str]) -> Result<Command> {
    let rules = format!(
        r#"channels.rules=[{{ pattern = "{KEPT}:*", join = "anyone", publish = "clients", history = {{ messages = 1000, age = "2m", bytes = "1MiB" }} }}]"#
    );
    let mut command = guarded_command(&programs.watchfire)?;
    command.args(["serve", "--listen", &address.to_string(), "--set", &rules]);
    for setting in [
        "admin.listen=[]",
        "cluster.history_storage=memory",
        "socket.idle_timeout=30m",
        "limits.joins_per_second_per_socket=10000",
    ] {
        command.args(["--set", setting]);
    }
    command.args(more);
    Ok(command)
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            System::Watchfire => "Watchfire, NATS",
            System::CentrifugoRedis => "Centrifugo, Redis",
        })
    }
}

/// The versions of the programs, for the page.
pub fn versions(programs: &Programs) -> Result<String> {
    let run = |program: &Path, argument: &str| -> Result<String> {
        let output = Command::new(program).arg(argument).output();
        let output = output.with_context(|| {
            format!("cannot run {}; make bench-cluster installs it", program.display())
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = text.split_whitespace().map(|word| word.trim_start_matches(['v', '=']));
        let version = words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        Ok(version.unwrap_or("unknown").trim_end_matches([',', ';']).to_owned())
    };
    run(&programs.centrifugo, "version")?; // only whether it runs
    let redis = Command::new(&programs.redis_server).arg("--version").output();
    let redis = redis.context("cannot run redis-server; make bench-cluster installs it")?;
    let redis = String::from_utf8_lossy(&redis.stdout).into_owned();
    let redis =
        redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("unknown");
    Ok(format!(
        "Centrifugo {}, nats-server {}, Redis {redis}",
        CENTRIFUGO_VERSION.trim_start_matches('v'),
        run(&programs.nats_server, "--version")?,
    ))
}
