use std::path::PathBuf;

use crate::servers::Server;

const SOCKETS: usize = 18_000;
const ROUNDS: usize = 3;

/// The servers and sizes of a run, and the folders of its output.
#[derive(clap::Args, Clone, Debug, serde::Serialize)]
pub struct Plan {
    /// Number of sockets.
    #[arg(long, default_value_t = SOCKETS, value_parser = at_least_one)]
    pub sockets: usize,
    /// Rounds over all servers; figures are medians over them.
    #[arg(long, default_value_t = ROUNDS, value_parser = at_least_one)]
    pub rounds: usize,
    /// Broadcasts to all sockets in a round.
    #[arg(long, default_value_t = 20, value_parser = at_least_one)]
    pub broadcasts: usize,
    /// Broadcasts a second apart in a round.
    #[arg(long, default_value_t = 4, value_parser = at_least_one)]
    pub rare_broadcasts: usize,
    /// Times that all sockets close and reconnect in a round.
    #[arg(long, default_value_t = 5)]
    pub reconnects: usize,
    /// Times that all long polls are answered and wait again in a round.
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    pub poll_cycles: usize,
    /// Servers to measure; all of them by default.
    #[arg(long, value_delimiter = ',')]
    #[serde(skip)]
    pub servers: Vec<Server>,
    /// Time limit in seconds: no round starts that would end later.
    #[arg(long, default_value_t = 900)]
    pub time_limit: u64,
    /// The Watchfire program; by default the one beside this program.
    #[arg(long)]
    #[serde(skip)]
    pub watchfire: Option<PathBuf>,
    /// The example `chat`; by default the one beside this program.
    #[arg(long)]
    #[serde(skip)]
    pub chat: Option<PathBuf>,
    /// Folder of the compared servers.
    #[arg(long, default_value = "bench/peers")]
    #[serde(skip)]
    pub peers: PathBuf,
    /// Folder for results and logs, and for the page of a partial run.
    #[arg(long, default_value = "bench/out")]
    #[serde(skip)]
    pub out: PathBuf,
    /// Folder for the page and picture of a full run.
    #[arg(long, default_value = "docs/bench")]
    #[serde(skip)]
    pub docs: PathBuf,
}

impl Plan {
    /// Whether this is a full run, whose page goes to `docs`: all servers, full size.
    pub fn is_whole(&self) -> bool {
        self.sockets >= SOCKETS && self.rounds >= ROUNDS && self.servers.is_empty()
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}
