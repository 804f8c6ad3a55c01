//! `--cpu-profile`: a flame graph of a command, from its start to its end.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use watchfire_operator::CpuProfile;

use crate::signals::Signals;

/// How long a command may end by itself after a signal. Then the profile is written, and the process ends.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The option of the commands that can be profiled.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CpuProfileOption {
    /// Write a flame graph of the CPU time of this command to this file when it ends.
    #[arg(long, value_name = "FILE.svg")]
    cpu_profile: Option<PathBuf>,
}

impl CpuProfileOption {
    /// Runs a command, and writes its profile if the option is set.
    pub fn around<T>(
        &self,
        command: &str,
        run: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let Some(path) = &self.cpu_profile else { return run() };
        let profile = Arc::new(Running::start(command, path)?);
        profile.clone().end_at_signals()?;
        let result = run();
        let written = profile.write();
        result.and_then(|value| written.map(|()| value))
    }
}

/// A profile that runs, and the file for it.
struct Running {
    title: String,
    path: PathBuf,
    state: Mutex<Option<(CpuProfile, File)>>,
}

impl Running {
    fn start(command: &str, path: &Path) -> anyhow::Result<Self> {
        // Before the command works for an hour.
        let file = File::create(path)
            .with_context(|| format!("cannot write the profile {}", path.display()))?;
        let state = Mutex::new(Some((CpuProfile::start()?, file)));
        Ok(Running { title: format!("watchfire {command}"), path: path.to_owned(), state })
    }

    /// Writes the profile, once. A second call waits for the first.
    fn write(&self) -> anyhow::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((profile, mut file)) = state.take() else { return Ok(()) };
        let graph = profile.finish()?.flame_graph(&self.title);
        file.write_all(graph.as_bytes())
            .with_context(|| format!("cannot write the profile {}", self.path.display()))?;
        eprintln!("The profile is in {}.", self.path.display());
        Ok(())
    }

    /// A signal ends most commands in their own way. Ends those that do not end within some seconds, or at a
    /// second signal, after writing the profile.
    fn end_at_signals(self: Arc<Self>) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::listen()?
        };
        std::thread::spawn(move || {
            let exit_code = runtime.block_on(async {
                let exit_code = signals.next().await;
                tokio::time::timeout(END_TIMEOUT, signals.next()).await.ok();
                exit_code
            });
            if let Err(error) = self.write() {
                eprintln!("watchfire: {error:#}");
            }
            std::process::exit(exit_code.into());
        });
        Ok(())
    }
}
