use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, then removes the named files. It ignores the signals of the
/// terminal.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r _; rm -rf -- \"$@\"";

/// Removes files when this is dropped or when this process ends for any reason. They may be tens of
/// gigabytes.
pub struct Sweeper(Child);

impl Sweeper {
    pub fn watch(paths: &[&Path]) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sweeper"]).args(paths);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().map(Sweeper)
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait(); // fails only if it has already ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_files_are_removed_with_the_sweeper() {
        let folder = std::env::temp_dir().join(format!("bench sweeper {}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        let sweeper = Sweeper::watch(&[&folder]).unwrap();
        assert!(folder.exists());
        drop(sweeper);
        assert!(!folder.exists());
    }
}
