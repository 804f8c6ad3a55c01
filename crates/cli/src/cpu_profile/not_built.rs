//! Without the feature `profiles`, no command has the option.

/// The option of the commands that can be profiled.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CpuProfileOption {}

impl CpuProfileOption {
    /// Runs a command.
    pub fn around<T>(&self, _: &str, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        run()
    }
}
